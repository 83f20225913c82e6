//! Files of a VM, for the host: as the superuser, from the root of the tree. Paths are the
//! guest's, and symbolic links are followed within the VM.

use super::{Vm, VmInner};
use crate::program;
use vfs_core::errno::{Errno, Result};
use vfs_core::file::Whence;
use vfs_core::namei::Lookup;
use vfs_core::types::{FileType, OpenFlags, Stat};

impl VmInner {
    pub(crate) fn host_read(&self, path: &[u8], max: u64) -> Result<Vec<u8>> {
        // Not blocking: a guest may have put a fifo there.
        let file = self.as_host(|at| at.open(path, OpenFlags::NONBLOCK, 0))?;
        if file.is_dir() {
            return Err(Errno::EISDIR);
        }
        program::read_whole(&file, max)
    }
}

impl Vm {
    /// Content of a file of at most `max` bytes; `EFBIG` if it is longer.
    pub fn read_file(&self, path: &[u8], max: u64) -> Result<Vec<u8>> {
        self.inner.host_read(path, max)
    }

    /// Writes a file, replacing what it held; `perm` counts if it is made.
    pub fn write_file(&self, path: &[u8], content: &[u8], perm: u32) -> Result<()> {
        let flags = OpenFlags::WRONLY | OpenFlags::CREAT | OpenFlags::TRUNC | OpenFlags::NONBLOCK;
        let file = self.inner.as_host(|at| at.open(path, flags, perm))?;
        let mut rest = content;
        while !rest.is_empty() {
            match file.write(rest)? {
                0 => return Err(Errno::EIO),
                n => rest = &rest[n..],
            }
        }
        Ok(())
    }

    /// Adds to the end of a file, which is made if it is not there.
    pub fn append_file(&self, path: &[u8], content: &[u8], perm: u32) -> Result<()> {
        let flags = OpenFlags::WRONLY | OpenFlags::CREAT | OpenFlags::APPEND | OpenFlags::NONBLOCK;
        let file = self.inner.as_host(|at| at.open(path, flags, perm))?;
        file.seek(0, Whence::End)?;
        let mut rest = content;
        while !rest.is_empty() {
            match file.write(rest)? {
                0 => return Err(Errno::EIO),
                n => rest = &rest[n..],
            }
        }
        Ok(())
    }

    /// Attributes; a symbolic link at the end is followed.
    pub fn stat(&self, path: &[u8]) -> Result<Stat> {
        self.inner.as_host(|at| at.stat(path, Lookup::FOLLOW))
    }

    /// Attributes of what is there itself.
    pub fn lstat(&self, path: &[u8]) -> Result<Stat> {
        self.inner.as_host(|at| at.stat(path, Lookup::empty()))
    }

    /// Whether something is there.
    pub fn exists(&self, path: &[u8]) -> bool {
        self.stat(path).is_ok()
    }

    /// Makes a directory.
    pub fn mkdir(&self, path: &[u8], perm: u32) -> Result<()> {
        self.inner.as_host(|at| at.mkdir(path, perm))
    }

    /// Makes a directory and those above it that are missing.
    pub fn mkdir_all(&self, path: &[u8], perm: u32) -> Result<()> {
        self.inner.as_host(|at| {
            for end in (1..=path.len()).filter(|&i| i == path.len() || path[i] == b'/') {
                match at.mkdir(&path[..end], perm) {
                    Ok(()) | Err(Errno::EEXIST) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        })
    }

    /// Names and kinds in a directory, without `.` and `..`.
    pub fn read_dir(&self, path: &[u8]) -> Result<Vec<(Vec<u8>, FileType)>> {
        let file = self
            .inner
            .as_host(|at| at.open(path, OpenFlags::DIRECTORY, 0))?;
        let mut entries = Vec::new();
        file.readdir(0, &mut |entry| {
            if entry.name != b"." && entry.name != b".." {
                entries.push((entry.name.to_vec(), entry.kind));
            }
            true
        })?;
        Ok(entries)
    }

    /// Makes a symbolic link at `path` with the text `target`.
    pub fn symlink(&self, target: &[u8], path: &[u8]) -> Result<()> {
        self.inner.as_host(|at| at.symlink(target, path))
    }

    /// Text of a symbolic link.
    pub fn read_link(&self, path: &[u8]) -> Result<Vec<u8>> {
        self.inner.as_host(|at| at.readlink(path))
    }

    /// Changes owner and group of what is at `path`.
    pub fn chown(&self, path: &[u8], uid: u32, gid: u32) -> Result<()> {
        self.inner
            .as_host(|at| at.chown(path, Some(uid), Some(gid), Lookup::FOLLOW))
    }

    /// Changes permission bits.
    pub fn chmod(&self, path: &[u8], perm: u32) -> Result<()> {
        self.inner
            .as_host(|at| at.chmod(path, perm, Lookup::FOLLOW))
    }

    /// Removes a name that is no directory.
    pub fn unlink(&self, path: &[u8]) -> Result<()> {
        self.inner.as_host(|at| at.unlink(path))
    }

    /// Removes an empty directory.
    pub fn rmdir(&self, path: &[u8]) -> Result<()> {
        self.inner.as_host(|at| at.rmdir(path))
    }
}
