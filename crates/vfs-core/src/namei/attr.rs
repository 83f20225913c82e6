//! Reading and changing attributes by path (`fs/attr.c`, `fs/xattr.c`, `fs/utimes.c`).

use crate::errno::{Errno, Result};
use crate::file::OpenFile;
use crate::inode::LinkTarget;
use crate::namei::perm::{
    access_permission, inode_permission, is_owner, stat_permission, want_write, without_setid,
};
use crate::namei::{At, Lookup, Path};
use crate::types::{
    Access, Cred, FileType, S_ISGID, S_ISUID, S_ISVTX, SetAttr, Stat, StatFs, Timespec,
};

/// What to make of one time of a file (`utimensat(2)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeSet {
    /// Leave it (`UTIME_OMIT`).
    Omit,
    /// The present (`UTIME_NOW`).
    Now,
    /// This time.
    At(Timespec),
}

/// Longest name of an extended attribute, in bytes (`XATTR_NAME_MAX`).
const XATTR_NAME_MAX: usize = 255;
/// Largest value of an extended attribute, in bytes (`XATTR_SIZE_MAX`).
const XATTR_SIZE_MAX: usize = 65536;

impl At<'_> {
    /// Attributes of `path`.
    pub fn stat(&self, path: &[u8], lookup: Lookup) -> Result<Stat> {
        self.resolve(path, lookup)?.inode().stat()
    }

    /// Whether the caller may do `want` to `path`; nothing wanted asks whether it exists. The
    /// check is made with the effective ids of the caller's credentials: for `access(2)` put the
    /// real ones there.
    pub fn access(&self, path: &[u8], want: Access, lookup: Lookup) -> Result<()> {
        let path = self.resolve(path, lookup)?;
        if want.is_empty() {
            return Ok(());
        }
        access_permission(&path.mount, &path.inode().stat()?, &self.caller.cred, want)
    }

    /// The text of the symbolic link `path`; of a magic link, the path of what it leads to.
    pub fn readlink(&self, path: &[u8]) -> Result<Vec<u8>> {
        let path = self.resolve(path, Lookup::empty())?;
        if path.dentry.kind() != FileType::Symlink {
            return Err(Errno::EINVAL);
        }
        path.mount.touch_atime(path.inode());
        match path.inode().readlink(self.caller)? {
            LinkTarget::Text(text) => Ok(text),
            LinkTarget::Path(target) => Ok(self.show(&target)),
            LinkTarget::File(file) => Ok(match file.path() {
                Some(target) => self.show(target),
                None => anonymous_name(&file),
            }),
        }
    }

    /// The path of a location as a magic link shows it.
    fn show(&self, target: &Path) -> Vec<u8> {
        let mut shown = self.ns.absolute(target, self.root);
        if shown.deleted {
            shown.bytes.extend_from_slice(b" (deleted)");
        }
        shown.bytes
    }

    /// Changes permission bits.
    pub fn chmod(&self, path: &[u8], perm: u32, lookup: Lookup) -> Result<()> {
        chmod(&self.resolve(path, lookup)?, perm, &self.caller.cred)
    }

    /// Changes owner and group; `None` leaves one as it is.
    pub fn chown(
        &self,
        path: &[u8],
        uid: Option<u32>,
        gid: Option<u32>,
        lookup: Lookup,
    ) -> Result<()> {
        chown(&self.resolve(path, lookup)?, uid, gid, &self.caller.cred)
    }

    /// Sets access and modification time.
    pub fn utimens(
        &self,
        path: &[u8],
        atime: TimeSet,
        mtime: TimeSet,
        lookup: Lookup,
    ) -> Result<()> {
        if (atime, mtime) == (TimeSet::Omit, TimeSet::Omit) {
            // Linux does not even look at the path.
            return Ok(());
        }
        utimens(
            &self.resolve(path, lookup)?,
            atime,
            mtime,
            &self.caller.cred,
        )
    }

    /// Sets the size of a regular file.
    pub fn truncate(&self, path: &[u8], len: u64) -> Result<()> {
        if i64::try_from(len).is_err() {
            return Err(Errno::EINVAL);
        }
        let path = self.resolve(path, Lookup::FOLLOW)?;
        match path.dentry.kind() {
            FileType::Regular => {}
            FileType::Directory => return Err(Errno::EISDIR),
            _ => return Err(Errno::EINVAL),
        }
        want_write(&path.mount)?;
        let stat = path.inode().stat()?;
        stat_permission(&path.mount, &stat, &self.caller.cred, Access::WRITE)?;
        let _writes = path.dentry.get_write_access()?;
        resize(&path, &stat, len, None, &self.caller.cred)
    }

    /// Totals of the file system that `path` is in.
    pub fn statfs(&self, path: &[u8]) -> Result<StatFs> {
        self.resolve(path, Lookup::FOLLOW)?.mount.fs().statfs()
    }

    /// Value of an extended attribute.
    pub fn getxattr(&self, path: &[u8], name: &[u8], lookup: Lookup) -> Result<Vec<u8>> {
        getxattr(&self.resolve(path, lookup)?, name, &self.caller.cred)
    }

    /// Names of extended attributes.
    pub fn listxattr(&self, path: &[u8], lookup: Lookup) -> Result<Vec<Vec<u8>>> {
        listxattr(&self.resolve(path, lookup)?, &self.caller.cred)
    }

    /// Sets an extended attribute; `create` and `replace` as [`crate::Inode::setxattr`] has them.
    pub fn setxattr(
        &self,
        path: &[u8],
        name: &[u8],
        value: &[u8],
        create: bool,
        replace: bool,
        lookup: Lookup,
    ) -> Result<()> {
        setxattr(
            &self.resolve(path, lookup)?,
            name,
            value,
            create,
            replace,
            &self.caller.cred,
        )
    }

    /// Removes an extended attribute.
    pub fn removexattr(&self, path: &[u8], name: &[u8], lookup: Lookup) -> Result<()> {
        removexattr(&self.resolve(path, lookup)?, name, &self.caller.cred)
    }
}

/// What `/proc/PID/fd` shows for an open file without a path.
fn anonymous_name(file: &OpenFile) -> Vec<u8> {
    let (kind, ino) = match file.stat() {
        Ok(stat) => (stat.file_type(), stat.ino),
        Err(_) => return b"anon_inode:[file]".to_vec(),
    };
    let what = match kind {
        FileType::Fifo => "pipe",
        FileType::Socket => "socket",
        _ => "anon_inode",
    };
    format!("{what}:[{ino}]").into_bytes()
}

/// Changes permission bits: the owner or root may; set-group-ID goes unless the caller is of the
/// file's group (`setattr_prepare`).
pub(super) fn chmod(path: &Path, perm: u32, cred: &Cred) -> Result<()> {
    want_write(&path.mount)?;
    if path.dentry.kind() == FileType::Symlink {
        return Err(Errno::ENOTSUP);
    }
    let stat = path.inode().stat()?;
    if !is_owner(&stat, cred) {
        return Err(Errno::EPERM);
    }
    let mut perm = perm & 0o7777;
    if !cred.is_root() && !cred.in_group(stat.gid) {
        perm &= !S_ISGID;
    }
    path.inode().setattr(&SetAttr {
        mode: Some(perm),
        ..SetAttr::default()
    })
}

/// Changes owner and group: root may all, the owner may give a file to a group of his own. The
/// set-ID bits of anything but a directory go, whoever asks (`chown_common`).
pub(super) fn chown(path: &Path, uid: Option<u32>, gid: Option<u32>, cred: &Cred) -> Result<()> {
    want_write(&path.mount)?;
    let stat = path.inode().stat()?;
    if !cred.is_root() {
        let owner = cred.euid == stat.uid;
        if uid.is_some_and(|uid| !owner || uid != stat.uid) {
            return Err(Errno::EPERM);
        }
        if gid.is_some_and(|gid| !owner || (gid != stat.gid && !cred.in_group(gid))) {
            return Err(Errno::EPERM);
        }
    }
    let mode = match path.dentry.kind() {
        FileType::Directory | FileType::Symlink => None,
        _ if stat.mode & (S_ISUID | S_ISGID) == 0 => None,
        _ => without_setid(&stat, cred),
    };
    if !is_owner(&stat, cred) {
        // The owner's business alone; others may only ask for nothing, and then nothing happens.
        return if mode.is_some() {
            Err(Errno::EPERM)
        } else {
            Ok(())
        };
    }
    path.inode().setattr(&SetAttr {
        uid,
        gid,
        mode,
        ..SetAttr::default()
    })
}

/// Sets times: to the present, whoever may write; to anything else, the owner or root
/// (`vfs_utimes`).
pub(super) fn utimens(path: &Path, atime: TimeSet, mtime: TimeSet, cred: &Cred) -> Result<()> {
    want_write(&path.mount)?;
    for time in [atime, mtime] {
        if matches!(time, TimeSet::At(t) if t.nsec >= 1_000_000_000) {
            return Err(Errno::EINVAL);
        }
    }
    if (atime, mtime) == (TimeSet::Omit, TimeSet::Omit) {
        return Ok(());
    }
    let stat = path.inode().stat()?;
    if !is_owner(&stat, cred) {
        if (atime, mtime) != (TimeSet::Now, TimeSet::Now) {
            return Err(Errno::EPERM);
        }
        stat_permission(&path.mount, &stat, cred, Access::WRITE)?;
    }
    let now = Timespec::now();
    let time = |set| match set {
        TimeSet::Omit => None,
        TimeSet::Now => Some(now),
        TimeSet::At(time) => Some(time),
    };
    let changes = SetAttr {
        atime: time(atime),
        mtime: time(mtime),
        ..SetAttr::default()
    };
    path.inode().setattr(&changes)
}

/// Sets a size; who may was checked. Takes set-ID bits away unless root does it.
pub(super) fn resize(
    path: &Path,
    stat: &Stat,
    len: u64,
    mtime: Option<Timespec>,
    cred: &Cred,
) -> Result<()> {
    let mode = if cred.is_root() {
        None
    } else {
        without_setid(stat, cred)
    };
    path.inode().setattr(&SetAttr {
        size: Some(len),
        mtime,
        mode,
        ..SetAttr::default()
    })
}

/// `ERANGE` for a name of a length that none has.
fn check_xattr_len(name: &[u8]) -> Result<()> {
    if name.is_empty() || name.len() > XATTR_NAME_MAX {
        return Err(Errno::ERANGE);
    }
    Ok(())
}

/// `EOPNOTSUPP` for a name in no namespace we keep, `EINVAL` for the bare namespace.
fn check_xattr_namespace(name: &[u8]) -> Result<()> {
    const PREFIXES: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];
    match PREFIXES.iter().find(|prefix| name.starts_with(prefix)) {
        None => Err(Errno::ENOTSUP),
        Some(prefix) if name.len() == prefix.len() => Err(Errno::EINVAL),
        Some(_) => Ok(()),
    }
}

/// Who may read or write which attribute (`xattr_permission`): `trusted.` is root's, `user.` is
/// for files and directories and follows their permissions.
fn xattr_permission(path: &Path, name: &[u8], cred: &Cred, write: bool) -> Result<()> {
    if write {
        want_write(&path.mount)?;
    }
    let denied = if write { Errno::EPERM } else { Errno::ENODATA };
    if name.starts_with(b"security.") {
        return if write && !cred.is_root() {
            Err(Errno::EPERM)
        } else {
            Ok(())
        };
    }
    if name.starts_with(b"trusted.") {
        return if cred.is_root() { Ok(()) } else { Err(denied) };
    }
    let kind = path.dentry.kind();
    if name.starts_with(b"user.") {
        if !matches!(kind, FileType::Regular | FileType::Directory) {
            return Err(denied);
        }
        if write && kind == FileType::Directory {
            let stat = path.inode().stat()?;
            if stat.mode & S_ISVTX != 0 && !is_owner(&stat, cred) {
                return Err(Errno::EPERM);
            }
        }
    }
    let want = if write { Access::WRITE } else { Access::READ };
    inode_permission(&path.mount, path.inode(), cred, want)
}

pub(super) fn getxattr(path: &Path, name: &[u8], cred: &Cred) -> Result<Vec<u8>> {
    check_xattr_len(name)?;
    xattr_permission(path, name, cred, false)?;
    check_xattr_namespace(name)?;
    path.inode().getxattr(name)
}

pub(super) fn listxattr(path: &Path, cred: &Cred) -> Result<Vec<Vec<u8>>> {
    let mut names = path.inode().listxattr()?;
    if !cred.is_root() {
        names.retain(|name| !name.starts_with(b"trusted."));
    }
    Ok(names)
}

pub(super) fn setxattr(
    path: &Path,
    name: &[u8],
    value: &[u8],
    create: bool,
    replace: bool,
    cred: &Cred,
) -> Result<()> {
    check_xattr_len(name)?;
    if value.len() > XATTR_SIZE_MAX {
        return Err(Errno::E2BIG);
    }
    xattr_permission(path, name, cred, true)?;
    check_xattr_namespace(name)?;
    path.inode().setxattr(name, value, create, replace)
}

pub(super) fn removexattr(path: &Path, name: &[u8], cred: &Cred) -> Result<()> {
    check_xattr_len(name)?;
    xattr_permission(path, name, cred, true)?;
    check_xattr_namespace(name)?;
    path.inode().removexattr(name)
}
