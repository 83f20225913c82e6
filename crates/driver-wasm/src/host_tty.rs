//! `host_tty`: terminals.

use crate::call::imports;
use crate::guest::{Done, Guest, View};
use kernel::pty::termios::{
    Iflag, Lflag, Oflag, VEOF, VERASE, VINTR, VKILL, VQUIT, VSUSP, VWERASE, When,
};
use kernel::{Errno, PollEvents, PollFd, Termios, Winsize};
use std::time::Duration;
use wasmtime::{Linker, Result};

/// Standard input, which `read` and `set_raw_mode` are about.
const STDIN: i32 = 0;
/// A timeout that never runs out.
const FOREVER: u32 = u32::MAX;

/// The control characters that `get_attr` and `set_attr` carry, in their order.
const CONTROL: [usize; 7] = [VINTR, VQUIT, VSUSP, VEOF, VERASE, VKILL, VWERASE];

/// The modes that `get_attr` and `set_attr` carry, one bit each.
mod mode {
    pub(super) const ICRNL: u32 = 1;
    pub(super) const OPOST: u32 = 1 << 1;
    pub(super) const ONLCR: u32 = 1 << 2;
    pub(super) const ICANON: u32 = 1 << 3;
    pub(super) const ECHO: u32 = 1 << 4;
    pub(super) const ISIG: u32 = 1 << 5;
}

/// Defines every function of the module.
pub(crate) fn link(linker: &mut Linker<Guest>) -> Result<()> {
    imports! { linker, "host_tty";
        value read(buf: u32, cap: u32, timeout_ms: u32);
        errno set_raw_mode(raw: u32);
        value isatty(fd: i32);
        value get_size(fd: i32, out_cols: u32, out_rows: u32);
        errno set_size(fd: i32, cols: u32, rows: u32);
        errno get_attr(fd: i32, out_modes: u32, out_control: u32);
        errno set_attr(fd: i32, modes: u32, control: u32);
        errno get_pgrp(fd: i32, out: u32);
        errno set_pgrp(fd: i32, pgid: i32);
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

fn set_raw_mode(v: &mut View<'_>, raw: u32) -> Done {
    Ok(v.task().set_raw_mode(STDIN, raw != 0)?)
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
    let size = match v.task().tcgetwinsize(fd) {
        Ok(size) => size,
        Err(errno) => return errno.number() as u32,
    };
    let written = v
        .memory
        .put_u16(out_cols, size.cols)
        .and(v.memory.put_u16(out_rows, size.rows));
    if written.is_err() { FAULT } else { 0 }
}

fn set_size(v: &mut View<'_>, fd: i32, cols: u32, rows: u32) -> Done {
    let cell = |n: u32| u16::try_from(n).map_err(|_| Errno::EINVAL);
    let (cols, rows) = (cell(cols)?, cell(rows)?);
    Ok(v.task().tcsetwinsize(
        fd,
        Winsize {
            rows,
            cols,
            ..Winsize::default()
        },
    )?)
}

fn get_attr(v: &mut View<'_>, fd: i32, out_modes: u32, out_control: u32) -> Done {
    v.memory.check(out_modes, 4)?;
    v.memory.check(out_control, CONTROL.len() as u32)?;
    let termios = v.task().tcgetattr(fd)?;
    v.memory.put_u32(out_modes, modes(&termios))?;
    v.memory
        .write(out_control, &CONTROL.map(|at| termios.cc[at]))?;
    Ok(())
}

/// The modes of a terminal as this ABI has them.
fn modes(termios: &Termios) -> u32 {
    let bit = |on: bool, bit: u32| if on { bit } else { 0 };
    bit(termios.iflag.contains(Iflag::ICRNL), mode::ICRNL)
        | bit(termios.oflag.contains(Oflag::OPOST), mode::OPOST)
        | bit(termios.oflag.contains(Oflag::ONLCR), mode::ONLCR)
        | bit(termios.lflag.contains(Lflag::ICANON), mode::ICANON)
        | bit(termios.lflag.contains(Lflag::ECHO), mode::ECHO)
        | bit(termios.lflag.contains(Lflag::ISIG), mode::ISIG)
}

/// Sets what this ABI knows of the modes and leaves the rest of them as it is.
fn set_attr(v: &mut View<'_>, fd: i32, modes: u32, control: u32) -> Done {
    let bytes: [u8; CONTROL.len()] = v.memory.bytes(control)?;
    let mut termios = v.task().tcgetattr(fd)?;
    let on = |bit: u32| modes & bit != 0;
    termios.iflag.set(Iflag::ICRNL, on(mode::ICRNL));
    termios.oflag.set(Oflag::OPOST, on(mode::OPOST));
    termios.oflag.set(Oflag::ONLCR, on(mode::ONLCR));
    termios.lflag.set(Lflag::ICANON, on(mode::ICANON));
    termios.lflag.set(Lflag::ECHO, on(mode::ECHO));
    termios.lflag.set(Lflag::ISIG, on(mode::ISIG));
    for (at, byte) in CONTROL.into_iter().zip(bytes) {
        termios.cc[at] = byte;
    }
    Ok(v.task().tcsetattr(fd, &termios, When::Now)?)
}

fn get_pgrp(v: &mut View<'_>, fd: i32, out: u32) -> Done {
    v.memory.check(out, 4)?;
    let pgid = v.task().tcgetpgrp(fd)?;
    Ok(v.memory.put_u32(out, pgid)?)
}

fn set_pgrp(v: &mut View<'_>, fd: i32, pgid: i32) -> Done {
    Ok(v.task().tcsetpgrp(fd, pgid)?)
}

fn get_sid(v: &mut View<'_>, fd: i32, out: u32) -> Done {
    v.memory.check(out, 4)?;
    let sid = v.task().tcgetsid(fd)?;
    Ok(v.memory.put_u32(out, sid)?)
}
