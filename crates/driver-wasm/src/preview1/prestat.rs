//! How a guest finds its directories: `fd_prestat_get` and `fd_prestat_dir_name`.
//!
//! The published guests look at tagged numbers from `0x40000003` on; those are no descriptors and
//! never in the way of one. Programs built with plain wasi-libc look at 3, 4 and so on, and would
//! take the next file they open for a directory if the numbers were free. So at the first such
//! question the directories become ordinary descriptors of that process (closed on exec), and
//! whatever it inherited at those numbers moves up.

use crate::call::imports;
use crate::guest::{Done, FIRST_PREOPEN, Guest, PREOPEN_TAG, View};
use kernel::{Dir, Errno, OpenFlags};
use wasmtime::{Linker, Result};

pub(super) fn link(linker: &mut Linker<Guest>) -> Result<()> {
    imports! { linker, "wasi_snapshot_preview1";
        errno fd_prestat_get(fd: u32, out: u32);
        errno fd_prestat_dir_name(fd: u32, ptr: u32, len: u32);
    }
    Ok(())
}

/// The name of a preopened directory, by tagged or plain number.
fn name(v: &mut View<'_>, fd: u32) -> kernel::Result<usize> {
    if fd & PREOPEN_TAG == 0 {
        if !v.guest.plain_preopens {
            if fd != FIRST_PREOPEN {
                return Err(Errno::EBADF);
            }
            open_plain(v.guest)?;
        }
        return v.guest.preopen_index(fd | PREOPEN_TAG).ok_or(Errno::EBADF);
    }
    v.guest.preopen_index(fd).ok_or(Errno::EBADF)
}

/// Makes the preopened directories descriptors 3, 4 and so on.
fn open_plain(guest: &mut Guest) -> kernel::Result<()> {
    let task = &guest.task;
    let first = FIRST_PREOPEN as i32;
    let end = first + guest.preopens.len() as i32;
    for (index, fd) in (first..end).enumerate() {
        if task.getfd(fd).is_ok() {
            let cloexec = task.getfd(fd)?;
            let moved = task.dup_min(fd, end)?;
            task.setfd(moved, cloexec)?;
            task.close(fd)?;
        }
        let dir = if index == 0 { Dir::Cwd } else { Dir::Root };
        let flags = OpenFlags::DIRECTORY | OpenFlags::CLOEXEC;
        // A directory that may be searched but not read still serves to find files in it.
        let opened = match task.openat(dir, b".", flags, 0) {
            Err(Errno::EACCES) => task.openat(dir, b".", flags | OpenFlags::PATH, 0)?,
            opened => opened?,
        };
        if opened != fd {
            task.dup3(opened, fd, true)?;
            task.close(opened)?;
        }
    }
    guest.plain_preopens = true;
    Ok(())
}

fn fd_prestat_get(v: &mut View<'_>, fd: u32, out: u32) -> Done {
    v.memory.check(out, 8)?;
    let index = name(v, fd)?;
    // A tag byte, 0 for a directory, and the length of its name.
    let len = v.guest.preopens[index].len() as u32;
    v.memory.put_u32(out, 0)?;
    v.memory.put_u32(out + 4, len)?;
    Ok(())
}

fn fd_prestat_dir_name(v: &mut View<'_>, fd: u32, ptr: u32, len: u32) -> Done {
    v.memory.check(ptr, len)?;
    let index = name(v, fd)?;
    let name = &v.guest.preopens[index];
    if (len as usize) < name.len() {
        return Err(Errno::ENAMETOOLONG.into());
    }
    v.memory.write(ptr, name)?;
    Ok(())
}
