//! The terminals of one VM and their directory, `/dev/pts` (`fs/devpts/inode.c`).

use crate::file::{Master, Slave};
use crate::terminal::Terminal;
use proctable::limits::Meter;
use proctable::{ProcTable, Process};
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use vfs_core::errno::{Errno, Result};
use vfs_core::file::FileOps;
use vfs_core::inode::{FileSystem, Inode, InodeRef};
use vfs_core::types::{
    Caller, Cred, DirEntry, FileType, OpenFlags, SetAttr, Stat, StatFs, Timespec,
};

/// Device number of the file system.
pub(crate) const DEVPTS_DEV: u64 = 0x18;
/// Device number of `/dev/ptmx`: 5, 2.
pub const PTMX_RDEV: u64 = 0x502;
/// Device number of `/dev/tty`: 5, 0.
pub const TTY_RDEV: u64 = 0x500;
/// Major number of slaves, for their first 256; Linux goes on in 137 to 143.
const SLAVE_MAJOR: u64 = 136;
/// Most terminals whose numbers have a place in [`slave_rdev`].
const INDEX_MAX: u32 = 2048;
/// `DEVPTS_SUPER_MAGIC`
const MAGIC: u64 = 0x1cd1;

/// Device number of the slave of terminal `index`.
pub fn slave_rdev(index: u32) -> u64 {
    let index = u64::from(index);
    ((SLAVE_MAJOR + index / 256) << 8) | (index % 256)
}

/// The terminal whose slave has this device number.
pub fn slave_index(rdev: u64) -> Option<u32> {
    let (major, minor) = (rdev >> 8, rdev & 0xff);
    let block = major.checked_sub(SLAVE_MAJOR).filter(|b| *b < 8)?;
    u32::try_from(block * 256 + minor).ok()
}

/// The terminals of one VM.
pub struct PtyTable {
    procs: Weak<ProcTable>,
    meter: Arc<Meter>,
    created: Timespec,
    /// By number; a terminal lives as long as one of its sides is open.
    terminals: Mutex<BTreeMap<u32, Weak<Terminal>>>,
}

impl PtyTable {
    /// No terminals yet. `meter` counts them against the limit `ptys`.
    pub fn new(procs: &Arc<ProcTable>, meter: Arc<Meter>) -> Arc<PtyTable> {
        Arc::new(PtyTable {
            procs: Arc::downgrade(procs),
            meter,
            created: Timespec::now(),
            terminals: Mutex::new(BTreeMap::new()),
        })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, Weak<Terminal>>> {
        self.terminals
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// A new terminal's master side (opening `/dev/ptmx`), owned by `cred`. Its number is the
    /// lowest free one. `ENOSPC` at the limit.
    pub fn open_master(&self, cred: &Cred) -> Result<Master> {
        self.meter.acquire(1).map_err(|_| Errno::ENOSPC)?;
        let mut terminals = self.lock();
        terminals.retain(|_, terminal| terminal.strong_count() > 0);
        let Some(index) = (0..INDEX_MAX).find(|i| !terminals.contains_key(i)) else {
            drop(terminals);
            self.meter.release(1);
            return Err(Errno::ENOSPC);
        };
        let owner = (cred.euid, cred.egid);
        let terminal = Terminal::new(index, owner, self.procs.clone(), self.meter.clone());
        terminals.insert(index, Arc::downgrade(&terminal));
        Ok(Master::new(terminal))
    }

    /// Opens the slave side of a terminal. `ENXIO` if there is none of this number, `EIO` if it is
    /// locked or its master is closed.
    pub fn open_slave(&self, index: u32) -> Result<Slave> {
        let terminal = self.get(index).ok_or(Errno::ENXIO)?;
        let generation = terminal.open_slave()?;
        Ok(Slave::new(terminal, generation))
    }

    /// A terminal becomes the controlling one of a session leader that opens it and has none,
    /// unless another session has it (`tty_open_proc_set_tty`).
    pub fn adopt(terminal: &Arc<Terminal>, process: &Process, flags: OpenFlags) {
        if !flags.contains(OpenFlags::NOCTTY)
            && process.is_session_leader()
            && terminal.session().is_none()
        {
            // Refused when the session has a terminal already, which is then kept.
            let _ = terminal.set_controlling(process, false);
        }
    }

    /// The controlling terminal of the process (opening `/dev/tty`); `ENXIO` without one.
    pub fn open_controlling(&self, process: &Process) -> Result<Slave> {
        let table = self.procs.upgrade().ok_or(Errno::ENXIO)?;
        let tty = table.terminal(process.sid()).ok_or(Errno::ENXIO)?;
        let terminal: &Terminal = tty.as_any().downcast_ref().ok_or(Errno::ENXIO)?;
        let terminal = self.get(terminal.index()).ok_or(Errno::ENXIO)?;
        // A lock keeps strangers out until the node's owner is set, not the session itself.
        terminal.set_locked(false);
        let generation = terminal.open_slave()?;
        Ok(Slave::new(terminal, generation))
    }

    /// A terminal by its number.
    pub fn get(&self, index: u32) -> Option<Arc<Terminal>> {
        self.lock().get(&index)?.upgrade()
    }

    /// Numbers of the terminals there are, in order.
    pub fn list(&self) -> Vec<u32> {
        self.lock()
            .iter()
            .filter(|(_, terminal)| terminal.strong_count() > 0)
            .map(|(index, _)| *index)
            .collect()
    }
}

/// `/dev/pts`: the slaves by number, and `ptmx`.
pub struct DevPts {
    table: Arc<PtyTable>,
}

impl DevPts {
    /// The directory of the terminals of `table`.
    pub fn new(table: Arc<PtyTable>) -> Arc<DevPts> {
        Arc::new(DevPts { table })
    }
}

impl FileSystem for DevPts {
    fn root(&self) -> InodeRef {
        Arc::new(Directory {
            table: self.table.clone(),
        })
    }

    fn fs_type(&self) -> &'static str {
        "devpts"
    }

    fn statfs(&self) -> Result<StatFs> {
        Ok(StatFs {
            magic: MAGIC,
            bsize: 4096,
            namelen: 255,
            ..StatFs::default()
        })
    }

    fn volatile(&self) -> bool {
        true
    }
}

struct Directory {
    table: Arc<PtyTable>,
}

/// A node of the directory: `None` is `ptmx`.
struct Node {
    terminal: Option<Arc<Terminal>>,
    created: Timespec,
}

const PTMX_INO: u64 = 2;

fn slave_ino(index: u32) -> u64 {
    u64::from(index) + 3
}

impl Inode for Directory {
    fn stat(&self) -> Result<Stat> {
        let created = self.table.created;
        Ok(Stat {
            dev: DEVPTS_DEV,
            ino: 1,
            mode: 0o040755,
            nlink: 2,
            uid: 0,
            gid: 0,
            rdev: 0,
            size: 0,
            blocks: 0,
            atime: created,
            mtime: created,
            ctime: created,
            btime: created,
        })
    }

    fn kind(&self) -> FileType {
        FileType::Directory
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn setattr(&self, _changes: &SetAttr) -> Result<()> {
        Err(Errno::EPERM)
    }

    fn lookup(&self, name: &[u8]) -> Result<InodeRef> {
        let created = self.table.created;
        if name == b"ptmx" {
            return Ok(Arc::new(Node {
                terminal: None,
                created,
            }));
        }
        // Numbers as they are listed: no sign, no leading zeros.
        let index: u32 = std::str::from_utf8(name)
            .ok()
            .filter(|t| {
                t.bytes().all(|b| b.is_ascii_digit()) && (t.len() == 1 || !t.starts_with('0'))
            })
            .and_then(|t| t.parse().ok())
            .ok_or(Errno::ENOENT)?;
        let terminal = self.table.get(index).ok_or(Errno::ENOENT)?;
        let created = terminal.created();
        Ok(Arc::new(Node {
            terminal: Some(terminal),
            created,
        }))
    }

    fn readdir(&self, cookie: u64, sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        let ptmx = DirEntry {
            name: b"ptmx",
            ino: PTMX_INO,
            kind: FileType::CharDevice,
            next: 3,
        };
        if cookie < 3 && !sink(ptmx) {
            return Ok(());
        }
        for index in self.table.list() {
            let next = u64::from(index) + 4;
            if next <= cookie {
                continue;
            }
            let name = index.to_string();
            let entry = DirEntry {
                name: name.as_bytes(),
                ino: slave_ino(index),
                kind: FileType::CharDevice,
                next,
            };
            if !sink(entry) {
                return Ok(());
            }
        }
        Ok(())
    }

    fn open(self: Arc<Self>, _flags: OpenFlags, _caller: &Caller) -> Result<Arc<dyn FileOps>> {
        Ok(Arc::new(OpenDirectory(self)))
    }
}

struct OpenDirectory(Arc<Directory>);

impl FileOps for OpenDirectory {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn read_at(&self, _buf: &mut [u8], _offset: u64) -> Result<usize> {
        Err(Errno::EISDIR)
    }

    fn write_at(&self, _buf: &[u8], _offset: u64) -> Result<usize> {
        Err(Errno::EISDIR)
    }

    fn readdir(&self, cookie: u64, sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        self.0.readdir(cookie, sink)
    }
}

impl Inode for Node {
    fn stat(&self) -> Result<Stat> {
        let (ino, rdev, owner, perm) = match &self.terminal {
            None => (PTMX_INO, PTMX_RDEV, (0, 0), 0o666),
            Some(t) => (
                slave_ino(t.index()),
                slave_rdev(t.index()),
                t.owner(),
                t.perm(),
            ),
        };
        Ok(Stat {
            dev: DEVPTS_DEV,
            ino,
            mode: FileType::CharDevice.mode_bits() | perm,
            nlink: 1,
            uid: owner.0,
            gid: owner.1,
            rdev,
            size: 0,
            blocks: 0,
            atime: self.created,
            mtime: self.created,
            ctime: self.created,
            btime: self.created,
        })
    }

    fn kind(&self) -> FileType {
        FileType::CharDevice
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    /// Permission bits of a slave may change; its owner is who made it, its times are not kept.
    fn setattr(&self, changes: &SetAttr) -> Result<()> {
        let Some(terminal) = &self.terminal else {
            return Err(Errno::EPERM);
        };
        let owner = terminal.owner();
        if changes.uid.is_some_and(|uid| uid != owner.0)
            || changes.gid.is_some_and(|gid| gid != owner.1)
            || changes.size.is_some_and(|size| size != 0)
        {
            return Err(Errno::EPERM);
        }
        if let Some(mode) = changes.mode {
            terminal.set_perm(mode);
        }
        Ok(())
    }

    /// Device nodes are opened by the namespace's special files, which know the process.
    fn open(self: Arc<Self>, _flags: OpenFlags, _caller: &Caller) -> Result<Arc<dyn FileOps>> {
        Err(Errno::ENXIO)
    }
}
