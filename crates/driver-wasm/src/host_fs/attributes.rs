//! Modes, sizes, owners, device numbers, and how much room there is.
//!
//! Several calls answer with the value itself and have an answer for "unknown" in place of an
//! error: 0 for modes and devices, all ones for sizes. The guest's libc asks four of them for one
//! `stat`, so each is one lookup and nothing else.

use crate::call::imports;
use crate::guest::{Done, Guest, PREOPEN_TAG, View};
use crate::host_user::change;
use crate::preview1::{follow, unsigned};
use kernel::{Access, Errno, Lookup, Stat};
use wasmtime::{Linker, Result};

/// Every permission bit, with setuid, setgid and sticky.
const PERM: u32 = 0o7777;

/// "Unknown" where a size is wanted.
const NO_SIZE: u64 = u64::MAX;

pub(super) fn link(linker: &mut Linker<Guest>) -> Result<()> {
    imports! { linker, "host_fs";
        value path_mode(dirfd: u32, ptr: u32, len: u32, follow: u32);
        value fd_mode(fd: u32);
        value path_size(dirfd: u32, ptr: u32, len: u32, follow: u32);
        value fd_size(fd: u32);
        value path_blocks(dirfd: u32, ptr: u32, len: u32, follow: u32);
        value fd_blocks(fd: u32);
        value path_rdev(dirfd: u32, ptr: u32, len: u32, follow: u32);
        errno path_owner(dirfd: u32, ptr: u32, len: u32, follow: u32, out_uid: u32, out_gid: u32);
        errno fd_owner(fd: u32, out_uid: u32, out_gid: u32);
        errno chmod(dirfd: u32, ptr: u32, len: u32, mode: u32);
        errno fchmod(fd: i32, mode: u32);
        errno path_chown(dirfd: u32, ptr: u32, len: u32, uid: u32, gid: u32, follow: u32);
        errno chown(dirfd: u32, ptr: u32, len: u32, uid: u32, gid: u32, follow: u32);
        errno fd_chown(fd: i32, uid: u32, gid: u32);
        errno fchown(fd: i32, uid: u32, gid: u32);
        errno ftruncate(fd: i32, size: i64);
        errno path_statfs(
            dirfd: u32, ptr: u32, len: u32,
            total: u32, used: u32, available: u32, inodes: u32, free_inodes: u32,
        );
        errno remount(target: u32, target_len: u32, options: u32, options_len: u32);
        errno path_access(dirfd: u32, ptr: u32, len: u32, mode: u32, effective: u32);
    }
    Ok(())
}

pub(super) fn link_first_generation(linker: &mut Linker<Guest>, name: &str) -> Result<()> {
    match name {
        "path_mode" => {
            imports! { linker, "host_fs"; value path_mode(ptr: u32, len: u32, follow: u32); }
        }
        _ => {
            imports! { linker, "host_fs"; errno chmod(ptr: u32, len: u32, mode: u32); }
        }
    }
    return Ok(());

    fn path_mode(v: &mut View<'_>, ptr: u32, len: u32, follow: u32) -> u32 {
        super::attributes::path_mode(v, CWD, ptr, len, follow)
    }

    fn chmod(v: &mut View<'_>, ptr: u32, len: u32, mode: u32) -> Done {
        super::attributes::chmod(v, CWD, ptr, len, mode)
    }
}

/// `AT_FDCWD`, for the calls of the first generation.
const CWD: u32 = -100_i32 as u32;

fn path_stat(v: &View<'_>, dirfd: u32, ptr: u32, len: u32, lookup: u32) -> kernel::Result<Stat> {
    let (dir, path) = v.path(dirfd, ptr, len)?;
    v.task().fstatat(dir, path, follow(lookup != 0))
}

fn fd_stat(v: &View<'_>, fd: u32) -> kernel::Result<Stat> {
    if fd & PREOPEN_TAG != 0 {
        return v.task().fstatat(v.guest.preopen(fd)?, b".", Lookup::FOLLOW);
    }
    v.task().fstat(fd as i32)
}

fn path_mode(v: &mut View<'_>, dirfd: u32, ptr: u32, len: u32, lookup: u32) -> u32 {
    path_stat(v, dirfd, ptr, len, lookup).map_or(0, |stat| stat.mode)
}

fn fd_mode(v: &mut View<'_>, fd: u32) -> u32 {
    fd_stat(v, fd).map_or(0, |stat| stat.mode)
}

fn path_size(v: &mut View<'_>, dirfd: u32, ptr: u32, len: u32, lookup: u32) -> u64 {
    path_stat(v, dirfd, ptr, len, lookup).map_or(NO_SIZE, |stat| stat.size)
}

fn fd_size(v: &mut View<'_>, fd: u32) -> u64 {
    fd_stat(v, fd).map_or(NO_SIZE, |stat| stat.size)
}

fn path_blocks(v: &mut View<'_>, dirfd: u32, ptr: u32, len: u32, lookup: u32) -> u64 {
    path_stat(v, dirfd, ptr, len, lookup).map_or(NO_SIZE, |stat| stat.blocks)
}

fn fd_blocks(v: &mut View<'_>, fd: u32) -> u64 {
    fd_stat(v, fd).map_or(NO_SIZE, |stat| stat.blocks)
}

fn path_rdev(v: &mut View<'_>, dirfd: u32, ptr: u32, len: u32, lookup: u32) -> u64 {
    path_stat(v, dirfd, ptr, len, lookup).map_or(0, |stat| stat.rdev)
}

fn owner(v: &mut View<'_>, stat: Stat, out_uid: u32, out_gid: u32) -> Done {
    v.memory.put_u32(out_uid, stat.uid)?;
    v.memory.put_u32(out_gid, stat.gid)?;
    Ok(())
}

fn path_owner(
    v: &mut View<'_>,
    dirfd: u32,
    ptr: u32,
    len: u32,
    lookup: u32,
    out_uid: u32,
    out_gid: u32,
) -> Done {
    v.memory.check_u32s([out_uid, out_gid])?;
    let stat = path_stat(v, dirfd, ptr, len, lookup)?;
    owner(v, stat, out_uid, out_gid)
}

fn fd_owner(v: &mut View<'_>, fd: u32, out_uid: u32, out_gid: u32) -> Done {
    v.memory.check_u32s([out_uid, out_gid])?;
    let stat = fd_stat(v, fd)?;
    owner(v, stat, out_uid, out_gid)
}

fn chmod(v: &mut View<'_>, dirfd: u32, ptr: u32, len: u32, mode: u32) -> Done {
    let (dir, path) = v.path(dirfd, ptr, len)?;
    Ok(v.task().fchmodat(dir, path, mode & PERM, Lookup::FOLLOW)?)
}

fn fchmod(v: &mut View<'_>, fd: i32, mode: u32) -> Done {
    Ok(v.task().fchmod(fd, mode & PERM)?)
}

fn path_chown(
    v: &mut View<'_>,
    dirfd: u32,
    ptr: u32,
    len: u32,
    uid: u32,
    gid: u32,
    lookup: u32,
) -> Done {
    let (dir, path) = v.path(dirfd, ptr, len)?;
    Ok(v.task()
        .fchownat(dir, path, change(uid), change(gid), follow(lookup != 0))?)
}

fn chown(
    v: &mut View<'_>,
    dirfd: u32,
    ptr: u32,
    len: u32,
    uid: u32,
    gid: u32,
    lookup: u32,
) -> Done {
    path_chown(v, dirfd, ptr, len, uid, gid, lookup)
}

fn fd_chown(v: &mut View<'_>, fd: i32, uid: u32, gid: u32) -> Done {
    Ok(v.task().fchown(fd, change(uid), change(gid))?)
}

fn fchown(v: &mut View<'_>, fd: i32, uid: u32, gid: u32) -> Done {
    fd_chown(v, fd, uid, gid)
}

fn ftruncate(v: &mut View<'_>, fd: i32, size: i64) -> Done {
    Ok(v.task().ftruncate(fd, unsigned(size)?)?)
}

#[expect(clippy::too_many_arguments, reason = "the import has them")]
fn path_statfs(
    v: &mut View<'_>,
    dirfd: u32,
    ptr: u32,
    len: u32,
    total: u32,
    used: u32,
    available: u32,
    inodes: u32,
    free_inodes: u32,
) -> Done {
    let outs = [total, used, available, inodes, free_inodes];
    v.memory.check_u64s(outs)?;
    let (dir, path) = v.path(dirfd, ptr, len)?;
    let fs = v.task().statfsat(dir, path)?;
    let bytes = |blocks: u64| blocks.saturating_mul(fs.bsize);
    let values = [
        bytes(fs.blocks),
        bytes(fs.blocks.saturating_sub(fs.bfree)),
        bytes(fs.bavail),
        fs.files,
        fs.ffree,
    ];
    for (out, value) in outs.into_iter().zip(values) {
        v.memory.put_u64(out, value)?;
    }
    Ok(())
}

fn remount(v: &mut View<'_>, target: u32, target_len: u32, options: u32, options_len: u32) -> Done {
    let target = v.bare_path(target, target_len)?;
    let options = v.memory.slice(options, options_len)?;
    Ok(v.task().remount(target, options)?)
}

fn path_access(
    v: &mut View<'_>,
    dirfd: u32,
    ptr: u32,
    len: u32,
    mode: u32,
    effective: u32,
) -> Done {
    let access = Access::from_bits(mode).ok_or(Errno::EINVAL)?;
    let (dir, path) = v.path(dirfd, ptr, len)?;
    Ok(v.task()
        .faccessat(dir, path, access, effective != 0, Lookup::FOLLOW)?)
}
