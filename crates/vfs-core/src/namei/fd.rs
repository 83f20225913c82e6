//! The calls of [`At`] through an open file instead of a name (`fchmod(2)` and its kin).
//!
//! Each fails with `EBADF` for an `O_PATH` file where Linux does, and with `EINVAL` for an open
//! file that has no inode, a pipe or a socket, except where Linux lets those through.

use crate::errno::{Errno, Result};
use crate::file::OpenFile;
use crate::namei::attr::{self, TimeSet};
use crate::namei::{At, Path};
use crate::types::{Caller, FileType, OpenFlags, StatFs, Timespec};

/// The location of a file open for more than `O_PATH`.
fn location(file: &OpenFile) -> Result<&Path> {
    if file.flags().contains(OpenFlags::PATH) {
        return Err(Errno::EBADF);
    }
    file.path().ok_or(Errno::EINVAL)
}

/// Changes permission bits (`fchmod`).
pub fn chmod(file: &OpenFile, perm: u32, caller: &Caller) -> Result<()> {
    attr::chmod(location(file)?, perm, &caller.cred)
}

/// Changes owner and group (`fchown`).
pub fn chown(file: &OpenFile, uid: Option<u32>, gid: Option<u32>, caller: &Caller) -> Result<()> {
    attr::chown(location(file)?, uid, gid, &caller.cred)
}

/// Sets access and modification time (`futimens`).
pub fn utimens(file: &OpenFile, atime: TimeSet, mtime: TimeSet, caller: &Caller) -> Result<()> {
    attr::utimens(location(file)?, atime, mtime, &caller.cred)
}

/// Sets the size of a file open for writing (`ftruncate`): `EINVAL` if it is not, or is not a
/// regular file.
pub fn truncate(file: &OpenFile, len: u64, caller: &Caller) -> Result<()> {
    if i64::try_from(len).is_err() {
        return Err(Errno::EINVAL);
    }
    let path = location(file)?;
    if path.dentry.kind() != FileType::Regular || !file.flags().writable() {
        return Err(Errno::EINVAL);
    }
    let stat = path.inode().stat()?;
    attr::resize(path, &stat, len, Some(Timespec::now()), &caller.cred)
}

/// Gives the open file the further name `new`, seen from `at` (`linkat` with `AT_EMPTY_PATH`);
/// the way to name what [`At::tmpfile`] made.
pub fn link(file: &OpenFile, at: &At<'_>, new: &[u8]) -> Result<()> {
    at.link_path(file.path().ok_or(Errno::EXDEV)?, new)
}

/// Totals of the file system the file is in (`fstatfs`).
pub fn statfs(file: &OpenFile) -> Result<StatFs> {
    file.path().ok_or(Errno::EINVAL)?.mount.fs().statfs()
}

/// Value of an extended attribute (`fgetxattr`).
pub fn getxattr(file: &OpenFile, name: &[u8], caller: &Caller) -> Result<Vec<u8>> {
    attr::getxattr(location(file)?, name, &caller.cred)
}

/// Names of extended attributes (`flistxattr`).
pub fn listxattr(file: &OpenFile, caller: &Caller) -> Result<Vec<Vec<u8>>> {
    attr::listxattr(location(file)?, &caller.cred)
}

/// Sets an extended attribute (`fsetxattr`).
pub fn setxattr(
    file: &OpenFile,
    name: &[u8],
    value: &[u8],
    create: bool,
    replace: bool,
    caller: &Caller,
) -> Result<()> {
    attr::setxattr(location(file)?, name, value, create, replace, &caller.cred)
}

/// Removes an extended attribute (`fremovexattr`).
pub fn removexattr(file: &OpenFile, name: &[u8], caller: &Caller) -> Result<()> {
    attr::removexattr(location(file)?, name, &caller.cred)
}
