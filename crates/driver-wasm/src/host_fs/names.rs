//! Making names: the latches before `path_open`, unnamed files, device nodes, renames.

use crate::abi;
use crate::call::imports;
use crate::guest::{Done, Guest, View};
use kernel::{Errno, OpenFlags, RenameFlags};
use wasmtime::{Linker, Result};

pub(super) fn link(linker: &mut Linker<Guest>) -> Result<()> {
    imports! { linker, "host_fs";
        errno set_open_mode(mode: u32);
        errno set_open_direct(direct: u32);
        errno open_tmpfile(dirfd: u32, ptr: u32, len: u32, oflag: u32, mode: u32, out: u32);
        errno fd_link(fd: i32, dirfd: u32, ptr: u32, len: u32);
        errno path_mknod(dirfd: u32, ptr: u32, len: u32, mode: u32, rdev: u64);
        errno path_renameat2(
            old_dirfd: u32, old_ptr: u32, old_len: u32,
            new_dirfd: u32, new_ptr: u32, new_len: u32, flags: u32,
        );
    }
    Ok(())
}

fn set_open_mode(v: &mut View<'_>, mode: u32) -> Done {
    v.guest.open_mode = Some(mode & 0o7777);
    Ok(())
}

fn set_open_direct(v: &mut View<'_>, direct: u32) -> Done {
    v.guest.open_direct = direct != 0;
    Ok(())
}

fn open_tmpfile(
    v: &mut View<'_>,
    dirfd: u32,
    ptr: u32,
    len: u32,
    oflag: u32,
    mode: u32,
    out: u32,
) -> Done {
    v.memory.check(out, 4)?;
    let flags = abi::libc_open_flags(oflag) & !(OpenFlags::CREAT | OpenFlags::DIRECTORY);
    if !flags.writable() {
        return Err(Errno::EINVAL.into());
    }
    let (dir, path) = v.path(dirfd, ptr, len)?;
    let fd = v.task().tmpfile(dir, path, flags, mode & 0o7777)?;
    Ok(v.memory.put_u32(out, fd as u32)?)
}

fn fd_link(v: &mut View<'_>, fd: i32, dirfd: u32, ptr: u32, len: u32) -> Done {
    let (dir, path) = v.path(dirfd, ptr, len)?;
    Ok(v.task().link_fd(fd, dir, path)?)
}

fn path_mknod(v: &mut View<'_>, dirfd: u32, ptr: u32, len: u32, mode: u32, rdev: u64) -> Done {
    let (dir, path) = v.path(dirfd, ptr, len)?;
    Ok(v.task().mknodat(dir, path, mode, rdev)?)
}

#[expect(clippy::too_many_arguments, reason = "the import has them")]
fn path_renameat2(
    v: &mut View<'_>,
    old_dirfd: u32,
    old_ptr: u32,
    old_len: u32,
    new_dirfd: u32,
    new_ptr: u32,
    new_len: u32,
    flags: u32,
) -> Done {
    let flags = RenameFlags::from_bits(flags).ok_or(Errno::EINVAL)?;
    let (old_dir, old) = v.path(old_dirfd, old_ptr, old_len)?;
    let (new_dir, new) = v.path(new_dirfd, new_ptr, new_len)?;
    Ok(v.task().renameat2(old_dir, old, new_dir, new, flags)?)
}
