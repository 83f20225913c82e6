//! Changing attributes: permissions, owner, times, length.

use super::{Dir, Task};
use vfs_core::errno::{Errno, Result};
use vfs_core::namei::{self, Lookup, TimeSet};

impl Task {
    /// Changes permission bits (`fchmodat2(2)`).
    pub fn fchmodat(&self, dir: Dir, path: &[u8], perm: u32, lookup: Lookup) -> Result<()> {
        self.at(dir, path, |at| at.chmod(path, perm, lookup))
    }

    /// Changes permission bits of an open file (`fchmod(2)`).
    pub fn fchmod(&self, fd: i32, perm: u32) -> Result<()> {
        namei::fd::chmod(&*self.file(fd)?, perm, &self.caller())
    }

    /// Changes owner and group; `None` leaves one (`fchownat(2)`).
    pub fn fchownat(
        &self,
        dir: Dir,
        path: &[u8],
        uid: Option<u32>,
        gid: Option<u32>,
        lookup: Lookup,
    ) -> Result<()> {
        self.at(dir, path, |at| at.chown(path, uid, gid, lookup))
    }

    /// Changes owner and group of an open file (`fchown(2)`).
    pub fn fchown(&self, fd: i32, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        namei::fd::chown(&*self.file(fd)?, uid, gid, &self.caller())
    }

    /// Changes access and modification time (`utimensat(2)`).
    pub fn utimensat(
        &self,
        dir: Dir,
        path: &[u8],
        atime: TimeSet,
        mtime: TimeSet,
        lookup: Lookup,
    ) -> Result<()> {
        self.at(dir, path, |at| at.utimens(path, atime, mtime, lookup))
    }

    /// Changes access and modification time of an open file (`futimens(3)`).
    pub fn futimens(&self, fd: i32, atime: TimeSet, mtime: TimeSet) -> Result<()> {
        namei::fd::utimens(&*self.file(fd)?, atime, mtime, &self.caller())
    }

    /// Cuts or extends a file (`truncate(2)`).
    pub fn truncateat(&self, dir: Dir, path: &[u8], len: u64) -> Result<()> {
        self.check_file_size(len)?;
        self.at(dir, path, |at| at.truncate(path, len))
    }

    /// Cuts or extends an open file (`ftruncate(2)`): `EINVAL` unless a regular file open for
    /// writing.
    pub fn ftruncate(&self, fd: i32, len: u64) -> Result<()> {
        let file = self.file(fd)?;
        self.check_file_size(len)?;
        namei::fd::truncate(&file, len, &self.caller())
    }

    /// `RLIMIT_FSIZE` and the largest offset there is, for calls that set a length.
    pub(super) fn check_file_size(&self, len: u64) -> Result<()> {
        if i64::try_from(len).is_err() {
            return Err(Errno::EINVAL);
        }
        if len > self.file_bytes.get() {
            self.raise(proctable::Signal::XFSZ);
            self.vm
                .limit_reached("process.file_bytes", self.file_bytes.get(), self.pid());
            return Err(Errno::EFBIG);
        }
        Ok(())
    }
}
