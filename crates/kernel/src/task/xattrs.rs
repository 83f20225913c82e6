//! Extended attributes.

use super::{Dir, Task};
use vfs_core::errno::{Errno, Result};
use vfs_core::namei::{self, Lookup};

/// Longest name of an attribute (`XATTR_NAME_MAX`).
const XATTR_NAME_MAX: usize = 255;
/// Largest value of an attribute (`XATTR_SIZE_MAX`).
const XATTR_SIZE_MAX: usize = 65_536;
/// Flag of `setxattr(2)`: fail if the attribute exists.
const XATTR_CREATE: u32 = 1;
/// Flag of `setxattr(2)`: fail unless the attribute exists.
const XATTR_REPLACE: u32 = 2;

fn check_name(name: &[u8]) -> Result<()> {
    if name.is_empty() || name.len() > XATTR_NAME_MAX {
        return Err(Errno::ERANGE);
    }
    Ok(())
}

fn check_set(name: &[u8], value: &[u8], flags: u32) -> Result<(bool, bool)> {
    if flags & !(XATTR_CREATE | XATTR_REPLACE) != 0 {
        return Err(Errno::EINVAL);
    }
    check_name(name)?;
    if value.len() > XATTR_SIZE_MAX {
        return Err(Errno::E2BIG);
    }
    Ok((flags & XATTR_CREATE != 0, flags & XATTR_REPLACE != 0))
}

impl Task {
    /// Value of an attribute (`getxattr(2)`); `ENODATA` if there is none.
    pub fn getxattrat(
        &self,
        dir: Dir,
        path: &[u8],
        name: &[u8],
        lookup: Lookup,
    ) -> Result<Vec<u8>> {
        check_name(name)?;
        self.at(dir, path, |at| at.getxattr(path, name, lookup))
    }

    /// Names of the attributes (`listxattr(2)`).
    pub fn listxattrat(&self, dir: Dir, path: &[u8], lookup: Lookup) -> Result<Vec<Vec<u8>>> {
        self.at(dir, path, |at| at.listxattr(path, lookup))
    }

    /// Sets an attribute (`setxattr(2)`); flags: 1 create only, 2 replace only.
    pub fn setxattrat(
        &self,
        dir: Dir,
        path: &[u8],
        name: &[u8],
        value: &[u8],
        flags: u32,
        lookup: Lookup,
    ) -> Result<()> {
        let (create, replace) = check_set(name, value, flags)?;
        self.at(dir, path, |at| {
            at.setxattr(path, name, value, create, replace, lookup)
        })
    }

    /// Removes an attribute (`removexattr(2)`).
    pub fn removexattrat(&self, dir: Dir, path: &[u8], name: &[u8], lookup: Lookup) -> Result<()> {
        check_name(name)?;
        self.at(dir, path, |at| at.removexattr(path, name, lookup))
    }

    /// Value of an attribute of an open file (`fgetxattr(2)`).
    pub fn fgetxattr(&self, fd: i32, name: &[u8]) -> Result<Vec<u8>> {
        check_name(name)?;
        namei::fd::getxattr(&*self.file(fd)?, name, &self.caller())
    }

    /// Names of the attributes of an open file (`flistxattr(2)`).
    pub fn flistxattr(&self, fd: i32) -> Result<Vec<Vec<u8>>> {
        namei::fd::listxattr(&*self.file(fd)?, &self.caller())
    }

    /// Sets an attribute of an open file (`fsetxattr(2)`).
    pub fn fsetxattr(&self, fd: i32, name: &[u8], value: &[u8], flags: u32) -> Result<()> {
        let (create, replace) = check_set(name, value, flags)?;
        namei::fd::setxattr(
            &*self.file(fd)?,
            name,
            value,
            create,
            replace,
            &self.caller(),
        )
    }

    /// Removes an attribute of an open file (`fremovexattr(2)`).
    pub fn fremovexattr(&self, fd: i32, name: &[u8]) -> Result<()> {
        check_name(name)?;
        namei::fd::removexattr(&*self.file(fd)?, name, &self.caller())
    }
}
