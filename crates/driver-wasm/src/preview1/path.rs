//! The calls of preview 1 that take a path.
//!
//! Preopened directories are where a path starts, not a wall around it: `..` climbs out of them
//! and absolute paths are absolute. The wall is the virtual machine. Paths are bytes, as in
//! Linux; a NUL in one is `EINVAL`.

use super::fd::times;
use crate::abi;
use crate::call::imports;
use crate::guest::{Done, Guest, PREOPEN_TAG, View};
use kernel::{Dir, Errno, Lookup, OpenFlags, RenameFlags};
use wasmtime::{Linker, Result};

pub(super) fn link(linker: &mut Linker<Guest>) -> Result<()> {
    imports! { linker, "wasi_snapshot_preview1";
        errno path_create_directory(dirfd: u32, ptr: u32, len: u32);
        errno path_filestat_get(dirfd: u32, lookup: u32, ptr: u32, len: u32, out: u32);
        errno path_filestat_set_times(
            dirfd: u32, lookup: u32, ptr: u32, len: u32, atime: i64, mtime: i64, flags: u32,
        );
        errno path_link(
            old_dirfd: u32, lookup: u32, old_ptr: u32, old_len: u32,
            new_dirfd: u32, new_ptr: u32, new_len: u32,
        );
        errno path_open(
            dirfd: u32, lookup: u32, ptr: u32, len: u32, oflags: u32,
            rights: u64, inheriting: u64, fdflags: u32, out: u32,
        );
        errno path_readlink(dirfd: u32, ptr: u32, len: u32, buf: u32, cap: u32, out: u32);
        errno path_remove_directory(dirfd: u32, ptr: u32, len: u32);
        errno path_rename(
            old_dirfd: u32, old_ptr: u32, old_len: u32,
            new_dirfd: u32, new_ptr: u32, new_len: u32,
        );
        errno path_symlink(target: u32, target_len: u32, dirfd: u32, ptr: u32, len: u32);
        errno path_unlink_file(dirfd: u32, ptr: u32, len: u32);
    }
    Ok(())
}

impl View<'_> {
    /// A path of the guest and the directory it starts from.
    pub(crate) fn path(&self, dirfd: u32, ptr: u32, len: u32) -> kernel::Result<(Dir, &[u8])> {
        let path = self.bare_path(ptr, len)?;
        Ok((self.guest.dir(dirfd)?, path))
    }

    /// A path of the guest by itself.
    pub(crate) fn bare_path(&self, ptr: u32, len: u32) -> kernel::Result<&[u8]> {
        let path = self.memory.slice(ptr, len)?;
        if path.contains(&0) {
            return Err(Errno::EINVAL);
        }
        Ok(path)
    }
}

/// Whether a symbolic link at the end of a path is followed.
pub(crate) fn follow(follow: bool) -> Lookup {
    if follow {
        Lookup::FOLLOW
    } else {
        Lookup::empty()
    }
}

fn lookup(flags: u32) -> Lookup {
    follow(flags & abi::LOOKUP_FOLLOW != 0)
}

fn path_create_directory(v: &mut View<'_>, dirfd: u32, ptr: u32, len: u32) -> Done {
    let (dir, path) = v.path(dirfd, ptr, len)?;
    Ok(v.task().mkdirat(dir, path, 0o777)?)
}

fn path_filestat_get(
    v: &mut View<'_>,
    dirfd: u32,
    flags: u32,
    ptr: u32,
    len: u32,
    out: u32,
) -> Done {
    v.memory.check(out, 64)?;
    let (dir, path) = v.path(dirfd, ptr, len)?;
    let stat = v.task().fstatat(dir, path, lookup(flags))?;
    Ok(v.memory.write(out, &abi::filestat(&stat))?)
}

#[expect(clippy::too_many_arguments, reason = "the import has them")]
fn path_filestat_set_times(
    v: &mut View<'_>,
    dirfd: u32,
    flags: u32,
    ptr: u32,
    len: u32,
    atime: i64,
    mtime: i64,
    fstflags: u32,
) -> Done {
    let (dir, path) = v.path(dirfd, ptr, len)?;
    let (atime, mtime) = times(atime, mtime, fstflags)?;
    Ok(v.task().utimensat(dir, path, atime, mtime, lookup(flags))?)
}

#[expect(clippy::too_many_arguments, reason = "the import has them")]
fn path_link(
    v: &mut View<'_>,
    old_dirfd: u32,
    flags: u32,
    old_ptr: u32,
    old_len: u32,
    new_dirfd: u32,
    new_ptr: u32,
    new_len: u32,
) -> Done {
    let (old_dir, old) = v.path(old_dirfd, old_ptr, old_len)?;
    let (new_dir, new) = v.path(new_dirfd, new_ptr, new_len)?;
    Ok(v.task().linkat(old_dir, old, lookup(flags), new_dir, new)?)
}

/// `path_open`. Rights choose the access mode and are otherwise not held against anyone: what a
/// process may do is a matter of file modes, as in Linux.
#[expect(clippy::too_many_arguments, reason = "the import has them")]
fn path_open(
    v: &mut View<'_>,
    dirfd: u32,
    flags: u32,
    ptr: u32,
    len: u32,
    oflags: u32,
    rights: u64,
    _inheriting: u64,
    fdflags: u32,
    out: u32,
) -> Done {
    // The two latches are meant for this call, whatever becomes of it.
    let perm = v.guest.open_mode.take().unwrap_or(0o666);
    let direct = std::mem::take(&mut v.guest.open_direct);
    v.memory.check(out, 4)?;
    let mut open = abi::status_flags(fdflags);
    match (
        rights & abi::RIGHT_READ != 0,
        rights & abi::RIGHT_WRITE != 0,
    ) {
        (true, true) => open |= OpenFlags::RDWR,
        (false, true) => open |= OpenFlags::WRONLY,
        (_, false) => {}
    }
    let has = |flag: u32| oflags & flag != 0;
    if has(abi::OFLAG_CREAT) && has(abi::OFLAG_DIRECTORY) {
        return Err(Errno::EINVAL.into());
    }
    open.set(OpenFlags::CREAT, has(abi::OFLAG_CREAT));
    open.set(OpenFlags::DIRECTORY, has(abi::OFLAG_DIRECTORY));
    open.set(OpenFlags::EXCL, has(abi::OFLAG_EXCL));
    open.set(OpenFlags::TRUNC, has(abi::OFLAG_TRUNC));
    open.set(OpenFlags::NOFOLLOW, flags & abi::LOOKUP_FOLLOW == 0);
    if direct {
        open |= OpenFlags::DIRECT;
    }
    // Opening never makes a terminal the controlling one: these guests do not know of such things.
    open |= OpenFlags::NOCTTY;
    let (dir, path) = v.path(dirfd, ptr, len)?;
    let fd = v.task().openat(dir, path, open, perm)?;
    debug_assert_eq!(fd as u32 & PREOPEN_TAG, 0);
    Ok(v.memory.put_u32(out, fd as u32)?)
}

fn path_readlink(
    v: &mut View<'_>,
    dirfd: u32,
    ptr: u32,
    len: u32,
    buf: u32,
    cap: u32,
    out: u32,
) -> Done {
    v.memory.check(out, 4)?;
    v.memory.check(buf, cap)?;
    let (dir, path) = v.path(dirfd, ptr, len)?;
    let target = v.task().readlinkat(dir, path)?;
    let shown = &target[..target.len().min(cap as usize)];
    v.memory.write(buf, shown)?;
    Ok(v.memory.put_u32(out, shown.len() as u32)?)
}

fn path_remove_directory(v: &mut View<'_>, dirfd: u32, ptr: u32, len: u32) -> Done {
    let (dir, path) = v.path(dirfd, ptr, len)?;
    Ok(v.task().rmdirat(dir, path)?)
}

fn path_rename(
    v: &mut View<'_>,
    old_dirfd: u32,
    old_ptr: u32,
    old_len: u32,
    new_dirfd: u32,
    new_ptr: u32,
    new_len: u32,
) -> Done {
    let (old_dir, old) = v.path(old_dirfd, old_ptr, old_len)?;
    let (new_dir, new) = v.path(new_dirfd, new_ptr, new_len)?;
    Ok(v.task()
        .renameat2(old_dir, old, new_dir, new, RenameFlags::empty())?)
}

fn path_symlink(
    v: &mut View<'_>,
    target: u32,
    target_len: u32,
    dirfd: u32,
    ptr: u32,
    len: u32,
) -> Done {
    let target = v.bare_path(target, target_len)?;
    let (dir, path) = v.path(dirfd, ptr, len)?;
    Ok(v.task().symlinkat(target, dir, path)?)
}

fn path_unlink_file(v: &mut View<'_>, dirfd: u32, ptr: u32, len: u32) -> Done {
    let (dir, path) = v.path(dirfd, ptr, len)?;
    Ok(v.task().unlinkat(dir, path)?)
}
