//! Extents of a file: where its data is, and the kinds of `fallocate(2)`.

use crate::call::imports;
use crate::guest::{Done, Guest, View};
use crate::preview1::unsigned;
use kernel::{Errno, FallocateMode};
use wasmtime::{Linker, Result};

pub(super) fn link(linker: &mut Linker<Guest>) -> Result<()> {
    imports! { linker, "host_fs";
        errno fd_fiemap(fd: i32, index: u32, out_start: u32, out_end: u32, out_flags: u32);
        errno fd_punch_hole(fd: i32, offset: i64, len: i64);
        errno fd_insert_range(fd: i32, offset: i64, len: i64);
        errno fd_collapse_range(fd: i32, offset: i64, len: i64);
        errno fd_zero_range(fd: i32, offset: i64, len: i64, keep_size: u32);
    }
    Ok(())
}

fn fd_fiemap(
    v: &mut View<'_>,
    fd: i32,
    index: u32,
    out_start: u32,
    out_end: u32,
    out_flags: u32,
) -> Done {
    v.memory.check_u64s([out_start, out_end])?;
    v.memory.check_u32s([out_flags])?;
    let (start, end) = v.task().fiemap(fd, index)?.ok_or(Errno::ENODATA)?;
    v.memory.put_u64(out_start, start)?;
    v.memory.put_u64(out_end, end)?;
    // No file system here has space that is reserved but not written.
    v.memory.put_u32(out_flags, 0)?;
    Ok(())
}

fn allocate(v: &View<'_>, fd: i32, mode: FallocateMode, offset: i64, len: i64) -> Done {
    Ok(v.task()
        .fallocate(fd, mode, unsigned(offset)?, unsigned(len)?)?)
}

fn fd_punch_hole(v: &mut View<'_>, fd: i32, offset: i64, len: i64) -> Done {
    allocate(v, fd, FallocateMode::PunchHole, offset, len)
}

fn fd_insert_range(v: &mut View<'_>, fd: i32, offset: i64, len: i64) -> Done {
    allocate(v, fd, FallocateMode::Insert, offset, len)
}

fn fd_collapse_range(v: &mut View<'_>, fd: i32, offset: i64, len: i64) -> Done {
    allocate(v, fd, FallocateMode::Collapse, offset, len)
}

fn fd_zero_range(v: &mut View<'_>, fd: i32, offset: i64, len: i64, keep_size: u32) -> Done {
    allocate(
        v,
        fd,
        FallocateMode::ZeroRange {
            keep_size: keep_size != 0,
        },
        offset,
        len,
    )
}
