//! `/dev`: the nodes, and what opening a device node gives.
//!
//! The nodes live in a memory file system, so a guest with the rights may add to them; what makes
//! them devices is the namespace's [`SpecialFiles`], which sees the device number of whatever node
//! is opened, wherever it lies.

use proctable::fifo::FifoTable;
use proctable::pipe::PipeLimits;
use proctable::{ProcTable, Process};
use pty::PtyTable;
use std::any::Any;
use std::sync::{Arc, Weak};
use vfs_core::errno::{Errno, Result};
use vfs_core::file::FileOps;
use vfs_core::inode::{FileSystem, InodeRef, NewNode};
use vfs_core::memfs::{MemFs, MemFsOptions, SpaceEvents};
use vfs_core::namei::SpecialFiles;
use vfs_core::types::{Caller, FileType, OpenFlags, SetAttr, Stat};

/// A device number as `st_rdev` holds it (`makedev(3)` of glibc).
pub const fn makedev(major: u32, minor: u32) -> u64 {
    let (major, minor) = (major as u64, minor as u64);
    (minor & 0xff) | ((major & 0xfff) << 8) | ((minor & !0xff) << 12) | ((major & !0xfff) << 32)
}

/// The character devices there are: name, number, permissions.
const NODES: [(&str, u64, u32); 7] = [
    ("null", makedev(1, 3), 0o666),
    ("zero", makedev(1, 5), 0o666),
    ("full", makedev(1, 7), 0o666),
    ("random", makedev(1, 8), 0o666),
    ("urandom", makedev(1, 9), 0o666),
    ("tty", pty::devpts::TTY_RDEV, 0o666),
    ("ptmx", pty::devpts::PTMX_RDEV, 0o666),
];

const LINKS: [(&str, &str); 4] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
];

/// A new file system for `/dev`, filled.
pub(crate) fn new(
    max_bytes: u64,
    max_inodes: u64,
    events: SpaceEvents,
) -> Result<Arc<dyn FileSystem>> {
    let options = MemFsOptions {
        max_bytes,
        max_inodes,
        mode: 0o755,
        uid: 0,
        gid: 0,
    };
    let fs = MemFs::with_events(options, events);
    let root = fs.root();
    for (name, rdev, perm) in NODES {
        root.create(
            name.as_bytes(),
            &NewNode {
                kind: FileType::CharDevice,
                perm,
                uid: 0,
                gid: 0,
                rdev,
            },
        )?;
    }
    for (name, target) in LINKS {
        root.symlink(name.as_bytes(), target.as_bytes(), 0, 0)?;
    }
    let node = NewNode {
        kind: FileType::Directory,
        perm: 0o1777,
        uid: 0,
        gid: 0,
        rdev: 0,
    };
    root.create(
        b"pts",
        &NewNode {
            perm: 0o755,
            ..node
        },
    )?;
    let shm = root.create(b"shm", &node)?;
    shm.setattr(&SetAttr {
        mode: Some(0o1777),
        ..SetAttr::default()
    })?;
    Ok(fs)
}

/// Opens device nodes and fifos of one VM.
pub(crate) struct Devices {
    fifos: FifoTable,
    pipes: PipeLimits,
    ptys: Arc<PtyTable>,
    /// Weak, because what it holds may hold this.
    processes: Weak<ProcTable>,
}

impl Devices {
    pub(crate) fn new(
        pipes: PipeLimits,
        ptys: Arc<PtyTable>,
        processes: &Arc<ProcTable>,
    ) -> Devices {
        Devices {
            fifos: FifoTable::new(),
            pipes,
            ptys,
            processes: Arc::downgrade(processes),
        }
    }

    /// The process that opens; `None` for the host.
    fn process(&self, caller: &Caller) -> Option<Arc<Process>> {
        self.processes.upgrade()?.get(caller.pid)
    }

    fn open_device(
        &self,
        rdev: u64,
        flags: OpenFlags,
        caller: &Caller,
    ) -> Result<Arc<dyn FileOps>> {
        const NULL: u64 = makedev(1, 3);
        const ZERO: u64 = makedev(1, 5);
        const FULL: u64 = makedev(1, 7);
        const RANDOM: u64 = makedev(1, 8);
        const URANDOM: u64 = makedev(1, 9);
        let device = match rdev {
            NULL => Device::Null,
            ZERO => Device::Zero,
            FULL => Device::Full,
            RANDOM | URANDOM => Device::Random,
            pty::devpts::PTMX_RDEV => return Ok(Arc::new(self.ptys.open_master(&caller.cred)?)),
            pty::devpts::TTY_RDEV => {
                let process = self.process(caller).ok_or(Errno::ENXIO)?;
                return Ok(Arc::new(self.ptys.open_controlling(&process)?));
            }
            _ => {
                let index = pty::devpts::slave_index(rdev).ok_or(Errno::ENXIO)?;
                let slave = self.ptys.open_slave(index)?;
                if let Some(process) = self.process(caller) {
                    PtyTable::adopt(slave.terminal(), &process, flags);
                }
                return Ok(Arc::new(slave));
            }
        };
        Ok(Arc::new(device))
    }
}

impl SpecialFiles for Devices {
    fn open(
        &self,
        _inode: &InodeRef,
        stat: &Stat,
        flags: OpenFlags,
        caller: &Caller,
    ) -> Result<Arc<dyn FileOps>> {
        match stat.file_type() {
            FileType::CharDevice => self.open_device(stat.rdev, flags, caller),
            FileType::Fifo => {
                let inode = (stat.dev, stat.ino);
                Ok(self.fifos.open(&self.pipes, inode, flags, &caller.cred)?)
            }
            // A socket file is connected to, never opened; there are no block devices.
            _ => Err(Errno::ENXIO),
        }
    }
}

/// An open memory device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Device {
    Null,
    Zero,
    Full,
    Random,
}

impl FileOps for Device {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn read_at(&self, buf: &mut [u8], _offset: u64) -> Result<usize> {
        match self {
            Device::Null => return Ok(0),
            Device::Zero | Device::Full => buf.fill(0),
            Device::Random => crate::sys::getrandom(buf)?,
        }
        Ok(buf.len())
    }

    fn write_at(&self, buf: &[u8], _offset: u64) -> Result<usize> {
        match self {
            Device::Full if !buf.is_empty() => Err(Errno::ENOSPC),
            _ => Ok(buf.len()),
        }
    }

    fn append(&self, buf: &[u8]) -> Result<(usize, u64)> {
        Ok((self.write_at(buf, 0)?, 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_numbers_are_those_of_glibc() {
        for (major, minor) in [
            (1, 3),
            (5, 0),
            (136, 7),
            (4095, 255),
            (4096, 256),
            (u32::MAX, u32::MAX),
            (8, 1 << 19),
        ] {
            assert_eq!(makedev(major, minor), libc::makedev(major, minor));
        }
    }
}
