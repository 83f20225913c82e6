//! Descriptors: pipes, duplicates, flags, locks, polling, pseudo-terminals.

use crate::abi;
use crate::call::imports;
use crate::guest::{Done, Guest, View};
use crate::preview1::unsigned;
use kernel::proctable::SigSet;
use kernel::{Errno, OpenFlags, PollEvents, PollFd, RecordLock, RecordLockCmd};
use std::time::Duration;
use wasmtime::{Linker, Result};

/// Bytes of a poll descriptor: `i32 fd`, `i16 events`, `i16 revents`.
const POLL_FD: u32 = 8;

/// `RLIMIT_NOFILE`.
const RLIMIT_NOFILE: u32 = 7;

pub(super) fn link(linker: &mut Linker<Guest>) -> Result<()> {
    imports! { linker, "host_process";
        errno fd_pipe(read: u32, write: u32);
        errno fd_dup(fd: i32, out: u32);
        errno fd_dup_min(fd: i32, min: i32, out: u32);
        errno fd_dup2(from: i32, to: i32);
        errno fd_getfd(fd: i32, out: u32);
        errno fd_setfd(fd: i32, flags: u32);
        errno fd_flock(fd: i32, op: u32);
        errno fd_record_lock(
            fd: i32, cmd: u32, kind: u32, start: i64, len: i64,
            out_kind: u32, out_pid: u32, out_start: u32, out_len: u32,
        );
        errno proc_closefrom(min: u32);
        errno pty_open(master: u32, slave: u32);
        once proc_ppoll_v1(
            fds: u32, count: u32, sec: i64, nsec: i64,
            mask_lo: u32, mask_hi: u32, has_mask: u32, out: u32,
        );
    }
    Ok(())
}

fn fd_pipe(v: &mut View<'_>, read: u32, write: u32) -> Done {
    v.memory.check_u32s([read, write])?;
    let (r, w) = v.task().pipe2(OpenFlags::empty())?;
    v.memory.put_u32(read, r as u32)?;
    v.memory.put_u32(write, w as u32)?;
    Ok(())
}

fn fd_dup(v: &mut View<'_>, fd: i32, out: u32) -> Done {
    v.memory.check(out, 4)?;
    let new = v.task().dup(fd)?;
    Ok(v.memory.put_u32(out, new as u32)?)
}

fn fd_dup_min(v: &mut View<'_>, fd: i32, min: i32, out: u32) -> Done {
    v.memory.check(out, 4)?;
    if min < 0 || min as u64 >= v.task().getrlimit(RLIMIT_NOFILE)?.0 {
        return Err(Errno::EINVAL.into());
    }
    let new = v.task().dup_min(fd, min)?;
    Ok(v.memory.put_u32(out, new as u32)?)
}

fn fd_dup2(v: &mut View<'_>, from: i32, to: i32) -> Done {
    v.task().dup2(from, to)?;
    Ok(())
}

fn fd_getfd(v: &mut View<'_>, fd: i32, out: u32) -> Done {
    v.memory.check(out, 4)?;
    let cloexec = v.task().getfd(fd)?;
    Ok(v.memory.put_u32(out, u32::from(cloexec))?)
}

fn fd_setfd(v: &mut View<'_>, fd: i32, flags: u32) -> Done {
    Ok(v.task().setfd(fd, flags & 1 != 0)?)
}

fn fd_flock(v: &mut View<'_>, fd: i32, op: u32) -> Done {
    Ok(v.task().flock(fd, op)?)
}

#[expect(clippy::too_many_arguments, reason = "the import has them")]
fn fd_record_lock(
    v: &mut View<'_>,
    fd: i32,
    cmd: u32,
    kind: u32,
    start: i64,
    len: i64,
    out_kind: u32,
    out_pid: u32,
    out_start: u32,
    out_len: u32,
) -> Done {
    let cmd = match cmd {
        12 => RecordLockCmd::Get,
        13 => RecordLockCmd::Set,
        14 => RecordLockCmd::SetWait,
        _ => return Err(Errno::EINVAL.into()),
    };
    let kind = u8::try_from(kind)
        .ok()
        .filter(|kind| *kind <= 2)
        .ok_or(Errno::EINVAL)?;
    let get = matches!(cmd, RecordLockCmd::Get);
    if get {
        v.memory.check_u32s([out_kind, out_pid])?;
        v.memory.check_u64s([out_start, out_len])?;
    }
    let lock = RecordLock {
        kind: kind.into(),
        start: unsigned(start)?,
        len: unsigned(len)?,
        pid: 0,
    };
    let found = v.task().record_lock(fd, cmd, lock)?;
    if get {
        v.memory.put_u32(out_kind, found.kind)?;
        v.memory.put_u32(out_pid, found.pid)?;
        v.memory.put_u64(out_start, found.start)?;
        v.memory.put_u64(out_len, found.len)?;
    }
    Ok(())
}

fn proc_closefrom(v: &mut View<'_>, min: u32) -> Done {
    // Beyond every possible descriptor there is nothing to close.
    let Ok(min) = i32::try_from(min) else {
        return Ok(());
    };
    v.task().closefrom(min);
    Ok(())
}

fn pty_open(v: &mut View<'_>, master: u32, slave: u32) -> Done {
    v.memory.check_u32s([master, slave])?;
    let (m, s) = v.task().openpty()?;
    v.memory.put_u32(master, m as u32)?;
    v.memory.put_u32(slave, s as u32)?;
    Ok(())
}

#[expect(clippy::too_many_arguments, reason = "the import has them")]
fn proc_ppoll_v1(
    v: &mut View<'_>,
    fds: u32,
    count: u32,
    sec: i64,
    nsec: i64,
    mask_lo: u32,
    mask_hi: u32,
    has_mask: u32,
    out: u32,
) -> Done {
    let timeout = match (u64::try_from(sec), u32::try_from(nsec)) {
        (Ok(sec), Ok(nsec)) if nsec < 1_000_000_000 => Some(Duration::new(sec, nsec)),
        _ if sec < 0 && nsec < 0 => None,
        _ => return Err(Errno::EINVAL.into()),
    };
    let mask = (has_mask != 0).then(|| super::signals::set(mask_lo, mask_hi));
    poll_fds(v, fds, count, timeout, mask, out)
}

/// Polls an array of the guest's poll descriptors and writes what is ready back into it.
pub(crate) fn poll_fds(
    v: &mut View<'_>,
    fds: u32,
    count: u32,
    timeout: Option<Duration>,
    mask: Option<SigSet>,
    out: u32,
) -> Done {
    if count > abi::MAX_VECTOR {
        return Err(Errno::EINVAL.into());
    }
    v.memory.check(out, 4)?;
    v.memory.check_array(fds, count, POLL_FD)?;
    let mut polled = Vec::with_capacity(count as usize);
    for index in 0..count {
        let bytes: [u8; 8] = v.memory.bytes(fds + index * POLL_FD)?;
        let events = u16::from_le_bytes([bytes[4], bytes[5]]);
        polled.push(PollFd {
            fd: i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
            events: PollEvents::from_bits_truncate(events),
            revents: PollEvents::empty(),
        });
    }
    let ready = v.task().poll(&mut polled, timeout, mask)?;
    for (index, fd) in polled.iter().enumerate() {
        v.memory
            .put_u16(fds + index as u32 * POLL_FD + 6, fd.revents.bits())?;
    }
    Ok(v.memory.put_u32(out, ready as u32)?)
}
