//! `host_tty`: terminals.

use crate::call::imports;
use crate::guest::{Done, Guest, View};
use kernel::{Errno, PollEvents, PollFd};
use std::time::Duration;
use wasmtime::{Linker, Result};

/// Standard input, which `read` and `set_raw_mode` are about.
const STDIN: i32 = 0;
/// A timeout that never runs out.
const FOREVER: u32 = u32::MAX;
/// Largest number of columns or rows.
const MAX_SIZE: u32 = 65_535;
/// Bytes of the control characters in `get_attr` and `set_attr`.
const CONTROL_BYTES: u32 = 7;

/// Defines every function of the module.
pub(crate) fn link(linker: &mut Linker<Guest>) -> Result<()> {
    imports! { linker, "host_tty";
        value read(buf: u32, cap: u32, timeout_ms: u32);
        errno set_raw_mode(raw: u32);
        value isatty(fd: i32);
        value get_size(fd: i32, out_cols: u32, out_rows: u32);
        errno set_size(fd: i32, cols: u32, rows: u32);
        errno get_attr(fd: i32, out_flags: u32, out_control: u32);
        errno set_attr(fd: i32, flags: u32, control: u32);
        errno get_pgrp(fd: i32, out: u32);
        errno set_pgrp(fd: i32, pgid: u32);
        errno get_sid(fd: i32, out: u32);
    }
    Ok(())
}

/// Reads what standard input has within the time; 0 for the end of it, for no input in time, and
/// for every error: there is no other answer in this call.
fn read(v: &mut View<'_>, buf: u32, cap: u32, timeout_ms: u32) -> u32 {
    let Ok(buffer) = v.memory.slice_mut(buf, cap) else {
        return 0;
    };
    let timeout = (timeout_ms != FOREVER).then(|| Duration::from_millis(u64::from(timeout_ms)));
    let mut fds = [PollFd {
        fd: STDIN,
        events: PollEvents::IN,
        revents: PollEvents::empty(),
    }];
    match v.guest.task.poll(&mut fds, timeout, None) {
        Ok(1..) => v.guest.task.read(STDIN, buffer).map_or(0, |n| n as u32),
        _ => 0,
    }
}

/// A descriptor that is a terminal: `EBADF`, `ENOTTY`. No terminal can be made yet, so what comes
/// after this in the calls below is the errors a terminal's caller can rely on.
fn terminal(v: &View<'_>, fd: i32) -> kernel::Result<()> {
    v.task().require_tty(fd).map(drop)
}

fn set_raw_mode(v: &mut View<'_>, _raw: u32) -> Done {
    terminal(v, STDIN)?;
    Err(Errno::ENOTTY.into())
}

fn isatty(v: &mut View<'_>, fd: i32) -> u32 {
    u32::from(v.task().isatty(fd).unwrap_or(false))
}

/// The one call of the ABI that answers with Linux's own error numbers, except for bad pointers.
fn get_size(v: &mut View<'_>, fd: i32, out_cols: u32, out_rows: u32) -> u32 {
    const FAULT: u32 = 21;
    if v.memory
        .check(out_cols, 2)
        .and(v.memory.check(out_rows, 2))
        .is_err()
    {
        return FAULT;
    }
    match terminal(v, fd) {
        Err(errno) => errno.number() as u32,
        Ok(()) => Errno::ENOTTY.number() as u32,
    }
}

fn set_size(v: &mut View<'_>, fd: i32, cols: u32, rows: u32) -> Done {
    if cols > MAX_SIZE || rows > MAX_SIZE {
        return Err(Errno::EINVAL.into());
    }
    terminal(v, fd)?;
    Err(Errno::ENOTTY.into())
}

fn get_attr(v: &mut View<'_>, fd: i32, out_flags: u32, out_control: u32) -> Done {
    v.memory.check(out_flags, 4)?;
    v.memory.check(out_control, CONTROL_BYTES)?;
    terminal(v, fd)?;
    Err(Errno::ENOTTY.into())
}

fn set_attr(v: &mut View<'_>, fd: i32, _flags: u32, control: u32) -> Done {
    v.memory.check(control, CONTROL_BYTES)?;
    terminal(v, fd)?;
    Err(Errno::ENOTTY.into())
}

fn get_pgrp(v: &mut View<'_>, fd: i32, out: u32) -> Done {
    v.memory.check(out, 4)?;
    terminal(v, fd)?;
    Err(Errno::ENOTTY.into())
}

fn set_pgrp(v: &mut View<'_>, fd: i32, _pgid: u32) -> Done {
    terminal(v, fd)?;
    Err(Errno::ENOTTY.into())
}

fn get_sid(v: &mut View<'_>, fd: i32, out: u32) -> Done {
    v.memory.check(out, 4)?;
    terminal(v, fd)?;
    Err(Errno::ENOTTY.into())
}
