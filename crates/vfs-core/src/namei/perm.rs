//! Who may do what: permission bits, sticky directories, and the checks before a name is made or
//! removed.

use crate::dentry::Dentry;
use crate::errno::{Errno, Result};
use crate::inode::InodeRef;
use crate::mount::Mount;
use crate::namei::Path;
use crate::types::{Access, Cred, FileType, S_ISGID, S_ISUID, S_ISVTX, Stat};

/// Group execute: with it, the set-group-ID bit means what it says.
const S_IXGRP: u32 = 0o010;

/// Whether `cred` may do `want` to a file of these attributes, by owner, group and mode
/// (`generic_permission`): `EACCES` if not. Root may do everything but execute a file that nobody
/// may execute.
pub fn permission(stat: &Stat, cred: &Cred, want: Access) -> Result<()> {
    let bits = if stat.uid == cred.euid {
        stat.mode >> 6
    } else if cred.in_group(stat.gid) {
        stat.mode >> 3
    } else {
        stat.mode
    };
    if want.bits() & !bits & 7 == 0 {
        return Ok(());
    }
    if cred.is_root()
        && (stat.file_type() == FileType::Directory
            || !want.contains(Access::EXEC)
            || stat.mode & 0o111 != 0)
    {
        return Ok(());
    }
    Err(Errno::EACCES)
}

/// As [`permission`], and before it `EROFS` for writing to a file system that is read-only as a
/// whole (`inode_permission`). A read-only *mount* is checked elsewhere, later, as in Linux.
pub(crate) fn inode_permission(
    mount: &Mount,
    inode: &InodeRef,
    cred: &Cred,
    want: Access,
) -> Result<()> {
    // Root searches every directory; most walks of a VM's set-up end here.
    if want == Access::EXEC && cred.is_root() && inode.kind() == FileType::Directory {
        return Ok(());
    }
    stat_permission(mount, &inode.stat()?, cred, want)
}

/// As [`inode_permission`], for attributes already at hand.
pub(crate) fn stat_permission(mount: &Mount, stat: &Stat, cred: &Cred, want: Access) -> Result<()> {
    if want.contains(Access::WRITE) && mount.fs().read_only() && !is_special(stat.file_type()) {
        return Err(Errno::EROFS);
    }
    permission(stat, cred, want)
}

/// What `access(2)` says of a file: [`permission`], then `EROFS` for writing under a read-only
/// mount, and `EACCES` for executing a file under a `noexec` mount. The caller puts the real ids
/// into `cred` where the call asks for them.
pub fn access_permission(mount: &Mount, stat: &Stat, cred: &Cred, want: Access) -> Result<()> {
    let noexec = mount.flags().contains(crate::mount::MountFlags::NOEXEC);
    if want.contains(Access::EXEC) && stat.file_type() == FileType::Regular && noexec {
        return Err(Errno::EACCES);
    }
    stat_permission(mount, stat, cred, want)?;
    if want.contains(Access::WRITE) && !is_special(stat.file_type()) && mount.is_read_only() {
        return Err(Errno::EROFS);
    }
    Ok(())
}

/// Devices, fifos and sockets: writing to them changes nothing in the file system.
pub(crate) fn is_special(kind: FileType) -> bool {
    !matches!(
        kind,
        FileType::Regular | FileType::Directory | FileType::Symlink
    )
}

/// `EROFS` if nothing can be written through this mount (`mnt_want_write`).
pub(crate) fn want_write(mount: &Mount) -> Result<()> {
    if mount.is_read_only() {
        Err(Errno::EROFS)
    } else {
        Ok(())
    }
}

/// Whether `cred` is the owner, or the superuser (`inode_owner_or_capable`).
pub(crate) fn is_owner(stat: &Stat, cred: &Cred) -> bool {
    cred.euid == stat.uid || cred.is_root()
}

/// Whether a new name may be made in `dir` (`may_create`); that it is free was checked.
pub(crate) fn may_create(mount: &Mount, dir: &Dentry, cred: &Cred) -> Result<()> {
    if dir.is_deleted() {
        return Err(Errno::ENOENT);
    }
    inode_permission(mount, dir.inode(), cred, Access::WRITE | Access::EXEC)
}

/// Whether `victim` may be removed from `dir` (`may_delete`).
pub(crate) fn may_delete(
    mount: &Mount,
    dir: &Dentry,
    victim: &Dentry,
    cred: &Cred,
    as_dir: bool,
) -> Result<()> {
    let dir_stat = dir.inode().stat()?;
    stat_permission(mount, &dir_stat, cred, Access::WRITE | Access::EXEC)?;
    if dir_stat.mode & S_ISVTX != 0 && !cred.is_root() && cred.euid != dir_stat.uid {
        let victim = victim.inode().stat()?;
        if victim.uid != cred.euid {
            return Err(Errno::EPERM);
        }
    }
    match (as_dir, victim.kind() == FileType::Directory) {
        (true, false) => Err(Errno::ENOTDIR),
        (false, true) => Err(Errno::EISDIR),
        _ if dir.is_deleted() => Err(Errno::ENOENT),
        _ => Ok(()),
    }
}

/// Whether `cred` may give the file a further name (`may_linkat`, with `protected_hardlinks` on as
/// distributions have it): its owner may, and whoever may read and write it, if it is a regular
/// file that runs as nobody else.
pub(crate) fn may_link(file: &Path, cred: &Cred) -> Result<()> {
    let stat = file.inode().stat()?;
    let setgid = S_ISGID | S_IXGRP;
    let safe = stat.file_type() == FileType::Regular
        && stat.mode & S_ISUID == 0
        && stat.mode & setgid != setgid
        && stat_permission(&file.mount, &stat, cred, Access::READ | Access::WRITE).is_ok();
    if safe || is_owner(&stat, cred) {
        Ok(())
    } else {
        Err(Errno::EPERM)
    }
}

/// The mode after the set-ID bits that a change of owner or content takes away from a file
/// (`setattr_should_drop_suidgid`), or `None` if it stays.
pub(crate) fn without_setid(stat: &Stat, cred: &Cred) -> Option<u32> {
    if stat.file_type() == FileType::Directory {
        return None;
    }
    setid_dropped(stat.perm(), stat.gid, cred)
}

/// The permission bits `perm` of a file of the group `gid` without the set-ID bits that go when
/// `cred` writes to it or its owner changes; `None` if none go. A set-group-ID bit without group
/// execute once meant mandatory locking and only goes if the caller is not of the group. Root's
/// writes take nothing away; that is the caller's to know.
pub fn setid_dropped(perm: u32, gid: u32, cred: &Cred) -> Option<u32> {
    let mut kept = perm & !S_ISUID;
    if kept & S_ISGID != 0 && (kept & S_IXGRP != 0 || !(cred.is_root() || cred.in_group(gid))) {
        kept &= !S_ISGID;
    }
    (kept != perm).then_some(kept)
}
