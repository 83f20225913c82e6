//! The calls of preview 1 that take an open descriptor.

use crate::abi;
use crate::call::imports;
use crate::guest::{Done, Guest, PREOPEN_TAG, View};
use crate::memory::Memory;
use kernel::{Errno, FallocateMode, Lookup, Shutdown, TimeSet, Timespec, Whence};
use std::io::IoSlice;
use wasmtime::{Linker, Result};

/// Most bytes one scattered read moves; a short read is always allowed.
const MAX_GATHER: usize = 1 << 20;

pub(super) fn link(linker: &mut Linker<Guest>) -> Result<()> {
    imports! { linker, "wasi_snapshot_preview1";
        errno fd_allocate(fd: i32, offset: i64, len: i64);
        errno fd_close(fd: i32);
        errno fd_datasync(fd: i32);
        errno fd_sync(fd: i32);
        errno fd_fdstat_get(fd: u32, out: u32);
        errno fd_fdstat_set_flags(fd: i32, flags: u32);
        errno fd_filestat_get(fd: u32, out: u32);
        errno fd_filestat_set_size(fd: i32, size: i64);
        errno fd_filestat_set_times(fd: i32, atime: i64, mtime: i64, flags: u32);
        errno fd_pread(fd: i32, iovs: u32, count: u32, offset: i64, out: u32);
        errno fd_pwrite(fd: i32, iovs: u32, count: u32, offset: i64, out: u32);
        errno fd_read(fd: i32, iovs: u32, count: u32, out: u32);
        errno fd_write(fd: i32, iovs: u32, count: u32, out: u32);
        errno fd_readdir(fd: u32, ptr: u32, len: u32, cookie: u64, out: u32);
        errno fd_renumber(from: i32, to: i32);
        errno fd_seek(fd: i32, delta: i64, whence: u32, out: u32);
        errno fd_tell(fd: i32, out: u32);
        errno sock_shutdown(fd: i32, how: u32);
    }
    Ok(())
}

/// A signed offset or length of the guest, which must not be negative.
pub(crate) fn unsigned(value: i64) -> kernel::Result<u64> {
    u64::try_from(value).map_err(|_| Errno::EINVAL)
}

fn fd_allocate(v: &mut View<'_>, fd: i32, offset: i64, len: i64) -> Done {
    let (offset, len) = (unsigned(offset)?, unsigned(len)?);
    Ok(v.task()
        .fallocate(fd, FallocateMode::Allocate, offset, len)?)
}

fn fd_close(v: &mut View<'_>, fd: i32) -> Done {
    Ok(v.task().close(fd)?)
}

fn fd_datasync(v: &mut View<'_>, fd: i32) -> Done {
    Ok(v.task().fdatasync(fd)?)
}

fn fd_sync(v: &mut View<'_>, fd: i32) -> Done {
    Ok(v.task().fsync(fd)?)
}

fn fd_fdstat_get(v: &mut View<'_>, fd: u32, out: u32) -> Done {
    v.memory.check(out, 24)?;
    let fdstat = if fd & PREOPEN_TAG != 0 {
        v.guest.preopen(fd)?;
        abi::fdstat(3, 0, abi::RIGHTS_ALL, abi::RIGHTS_ALL)
    } else {
        let kind = v.task().fd_kind(fd as i32)?;
        let flags = v.task().getfl(fd as i32)?;
        let rights = abi::rights(kind, flags);
        abi::fdstat(
            abi::descriptor_type(kind),
            abi::fdflags(flags),
            rights,
            rights,
        )
    };
    Ok(v.memory.write(out, &fdstat)?)
}

fn fd_fdstat_set_flags(v: &mut View<'_>, fd: i32, flags: u32) -> Done {
    Ok(v.task().setfl(fd, abi::status_flags(flags))?)
}

fn fd_filestat_get(v: &mut View<'_>, fd: u32, out: u32) -> Done {
    v.memory.check(out, 64)?;
    let stat = if fd & PREOPEN_TAG != 0 {
        v.task()
            .fstatat(v.guest.preopen(fd)?, b".", Lookup::FOLLOW)?
    } else {
        v.task().fstat(fd as i32)?
    };
    Ok(v.memory.write(out, &abi::filestat(&stat))?)
}

fn fd_filestat_set_size(v: &mut View<'_>, fd: i32, size: i64) -> Done {
    Ok(v.task().ftruncate(fd, unsigned(size)?)?)
}

/// What `fstflags` want done with the two times; both "now" and "this" for one is `EINVAL`.
pub(super) fn times(atime: i64, mtime: i64, flags: u32) -> kernel::Result<(TimeSet, TimeSet)> {
    let one = |value: i64, set: u32, now: u32| match (flags & set != 0, flags & now != 0) {
        (false, false) => Ok(TimeSet::Omit),
        (true, false) => Ok(TimeSet::At(Timespec::from_nanos(value))),
        (false, true) => Ok(TimeSet::Now),
        (true, true) => Err(Errno::EINVAL),
    };
    Ok((one(atime, 1, 2)?, one(mtime, 4, 8)?))
}

fn fd_filestat_set_times(v: &mut View<'_>, fd: i32, atime: i64, mtime: i64, flags: u32) -> Done {
    let (atime, mtime) = times(atime, mtime, flags)?;
    Ok(v.task().futimens(fd, atime, mtime)?)
}

/// The iovecs of a call as pointers and lengths; their ranges are checked and their sum is less
/// than 2³¹, as `readv(2)` wants it.
fn iovecs(memory: &Memory<'_>, iovs: u32, count: u32) -> kernel::Result<Vec<(u32, u32)>> {
    if count > abi::MAX_VECTOR {
        return Err(Errno::EINVAL);
    }
    let words: Vec<u32> = memory
        .u32s(iovs, count.checked_mul(2).ok_or(Errno::EINVAL)?)?
        .collect();
    let mut total = 0u64;
    let mut vectors = Vec::with_capacity(count as usize);
    for pair in words.chunks_exact(2) {
        memory.check(pair[0], pair[1])?;
        total += u64::from(pair[1]);
        vectors.push((pair[0], pair[1]));
    }
    if total > i32::MAX as u64 {
        return Err(Errno::EINVAL);
    }
    Ok(vectors)
}

/// The only iovec of a call that has one, which is nearly every call.
#[inline]
fn single(memory: &Memory<'_>, iovs: u32, count: u32) -> kernel::Result<Option<(u32, u32)>> {
    if count != 1 {
        return Ok(None);
    }
    let iovec: [u8; 8] = memory.bytes(iovs)?;
    let word =
        |at: usize| u32::from_le_bytes([iovec[at], iovec[at + 1], iovec[at + 2], iovec[at + 3]]);
    Ok(Some((word(0), word(4))))
}

fn fd_read(v: &mut View<'_>, fd: i32, iovs: u32, count: u32, out: u32) -> Done {
    v.memory.check(out, 4)?;
    let n = match single(&v.memory, iovs, count)? {
        Some((ptr, len)) => v.guest.task.read(fd, v.memory.slice_mut(ptr, len)?)?,
        None => scatter(v, iovs, count, |v, buf| v.guest.task.read(fd, buf))?,
    };
    Ok(v.memory.put_u32(out, n as u32)?)
}

fn fd_pread(v: &mut View<'_>, fd: i32, iovs: u32, count: u32, offset: i64, out: u32) -> Done {
    v.memory.check(out, 4)?;
    let offset = unsigned(offset)?;
    let n = match single(&v.memory, iovs, count)? {
        Some((ptr, len)) => v
            .guest
            .task
            .pread(fd, v.memory.slice_mut(ptr, len)?, offset)?,
        None => scatter(v, iovs, count, |v, buf| v.guest.task.pread(fd, buf, offset))?,
    };
    Ok(v.memory.put_u32(out, n as u32)?)
}

/// Reads once and spreads what came over the iovecs: one read of a stream stays one, and iovecs
/// that overlap need no thought.
fn scatter(
    v: &mut View<'_>,
    iovs: u32,
    count: u32,
    read: impl FnOnce(&mut View<'_>, &mut [u8]) -> kernel::Result<usize>,
) -> kernel::Result<usize> {
    let vectors = iovecs(&v.memory, iovs, count)?;
    let total: usize = vectors.iter().map(|(_, len)| *len as usize).sum();
    let mut buffer = vec![0; total.min(MAX_GATHER)];
    let n = read(v, &mut buffer)?;
    let mut left = buffer.get(..n).ok_or(Errno::EIO)?;
    for (ptr, len) in vectors {
        let (part, rest) = left.split_at(left.len().min(len as usize));
        v.memory.write(ptr, part)?;
        left = rest;
    }
    Ok(n)
}

fn fd_write(v: &mut View<'_>, fd: i32, iovs: u32, count: u32, out: u32) -> Done {
    v.memory.check(out, 4)?;
    let n = match single(&v.memory, iovs, count)? {
        Some((ptr, len)) => v.guest.task.write(fd, v.memory.slice(ptr, len)?)?,
        None => {
            let slices = gather(&v.memory, iovs, count)?;
            v.guest.task.writev(fd, &slices)?
        }
    };
    Ok(v.memory.put_u32(out, n as u32)?)
}

fn gather<'m>(memory: &'m Memory<'_>, iovs: u32, count: u32) -> kernel::Result<Vec<IoSlice<'m>>> {
    let vectors = iovecs(memory, iovs, count)?;
    vectors
        .into_iter()
        .map(|(ptr, len)| Ok(IoSlice::new(memory.slice(ptr, len)?)))
        .collect()
}

fn fd_pwrite(v: &mut View<'_>, fd: i32, iovs: u32, count: u32, offset: i64, out: u32) -> Done {
    v.memory.check(out, 4)?;
    let mut offset = unsigned(offset)?;
    let n = match single(&v.memory, iovs, count)? {
        Some((ptr, len)) => v.guest.task.pwrite(fd, v.memory.slice(ptr, len)?, offset)?,
        None => {
            let slices = gather(&v.memory, iovs, count)?;
            if slices.is_empty() {
                v.guest.task.pwrite(fd, &[], offset)?;
            }
            let mut total = 0;
            for slice in slices {
                match v.guest.task.pwrite(fd, &slice, offset) {
                    Ok(n) => {
                        total += n;
                        offset = offset.saturating_add(n as u64);
                        if n < slice.len() {
                            break;
                        }
                    }
                    // What was written before is reported; the error comes with the next call.
                    Err(_) if total > 0 => break,
                    Err(errno) => return Err(errno.into()),
                }
            }
            total
        }
    };
    Ok(v.memory.put_u32(out, n as u32)?)
}

fn fd_readdir(v: &mut View<'_>, fd: u32, ptr: u32, len: u32, cookie: u64, out: u32) -> Done {
    v.memory.check(out, 4)?;
    let task = v.guest.task.clone();
    if fd & PREOPEN_TAG != 0 {
        // The hidden directories cannot be read: no libc does, it opens "." first.
        v.guest.preopen(fd)?;
        return Err(Errno::EBADF.into());
    }
    let buffer = v.memory.slice_mut(ptr, len)?;
    let mut used = 0;
    // Entries until the buffer is full to the last byte: a record that does not fit is cut, and
    // a buffer that is not full says that there are no more.
    let listed = task.readdir(fd as i32, cookie, &mut |entry| {
        let mut record = [0; 24];
        record[0..8].copy_from_slice(&entry.next.to_le_bytes());
        record[8..16].copy_from_slice(&entry.ino.to_le_bytes());
        record[16..20].copy_from_slice(&(entry.name.len() as u32).to_le_bytes());
        record[20] = abi::filetype(entry.kind);
        for part in [&record[..], entry.name] {
            let room = &mut buffer[used..];
            let n = room.len().min(part.len());
            room[..n].copy_from_slice(&part[..n]);
            used += n;
        }
        used < buffer.len()
    });
    match listed {
        // A directory that was removed while it is open has nothing in it.
        Ok(()) | Err(Errno::ENOENT) => {}
        Err(errno) => return Err(errno.into()),
    }
    Ok(v.memory.put_u32(out, used as u32)?)
}

fn fd_renumber(v: &mut View<'_>, from: i32, to: i32) -> Done {
    if from == to {
        v.task().getfd(from)?;
        return Ok(());
    }
    Ok(v.task().renumber(from, to)?)
}

fn fd_seek(v: &mut View<'_>, fd: i32, delta: i64, whence: u32, out: u32) -> Done {
    v.memory.check(out, 8)?;
    let whence = match whence {
        0 => Whence::Set,
        1 => Whence::Current,
        2 => Whence::End,
        3 => Whence::Data,
        4 => Whence::Hole,
        _ => return Err(Errno::EINVAL.into()),
    };
    let at = v.task().lseek(fd, delta, whence)?;
    Ok(v.memory.put_u64(out, at)?)
}

fn fd_tell(v: &mut View<'_>, fd: i32, out: u32) -> Done {
    fd_seek(v, fd, 0, 1, out)
}

fn sock_shutdown(v: &mut View<'_>, fd: i32, how: u32) -> Done {
    let how = match how {
        1 => Shutdown::Read,
        2 => Shutdown::Write,
        3 => Shutdown::Both,
        _ => return Err(Errno::EINVAL.into()),
    };
    Ok(v.task().shutdown(fd, how)?)
}
