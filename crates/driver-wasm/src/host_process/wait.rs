//! Waiting for children, in the three ways the ABI has grown.

use crate::call::imports;
use crate::guest::{Done, Guest, View};
use kernel::Errno;
use kernel::proctable::{WaitEvent, WaitOptions, WaitTarget};
use wasmtime::{Linker, Result};

const WNOHANG: u32 = 1;
const WUNTRACED: u32 = 2;
const WCONTINUED: u32 = 8;

pub(super) fn link(linker: &mut Linker<Guest>) -> Result<()> {
    imports! { linker, "host_process";
        errno proc_waitpid(pid: i32, options: u32, out_status: u32, out_pid: u32);
        errno proc_waitpid_v2(
            pid: i32, options: u32, out_code: u32, out_signal: u32, out_pid: u32, out_core: u32,
        );
        errno proc_waitpid_v3(pid: i32, options: u32, out_status: u32, out_pid: u32);
    }
    Ok(())
}

/// The first generation's `proc_waitpid` has no output for the process number.
pub(super) fn link_first_generation(linker: &mut Linker<Guest>) -> Result<()> {
    imports! { linker, "host_process";
        errno proc_waitpid(pid: i32, options: u32, out_status: u32);
    }
    return Ok(());

    fn proc_waitpid(v: &mut View<'_>, pid: i32, options: u32, out_status: u32) -> Done {
        v.memory.check(out_status, 4)?;
        let event = wait(v, pid, options, WNOHANG)?;
        let status = event.map_or(0, |event| conflated(&event));
        Ok(v.memory.put_u32(out_status, status)?)
    }
}

/// Waits as `waitpid(2)` does with the options that this call knows.
fn wait(v: &View<'_>, pid: i32, options: u32, known: u32) -> kernel::Result<Option<WaitEvent>> {
    if options & !known != 0 {
        return Err(Errno::EINVAL);
    }
    let target = match pid {
        -1 => WaitTarget::Any,
        0 => WaitTarget::Group(v.task().pgid()),
        i32::MIN => return Err(Errno::ESRCH),
        pid if pid < 0 => WaitTarget::Group(pid.unsigned_abs()),
        pid => WaitTarget::Pid(pid.unsigned_abs()),
    };
    let mut flags = WaitOptions::empty();
    flags.set(WaitOptions::NOHANG, options & WNOHANG != 0);
    flags.set(WaitOptions::UNTRACED, options & WUNTRACED != 0);
    flags.set(WaitOptions::CONTINUED, options & WCONTINUED != 0);
    v.task().wait(target, flags)
}

/// Exit code, signal, and whether a core would have been written.
fn parts(event: &WaitEvent) -> (u32, u32, bool) {
    let status = event.status.raw();
    match status & 0x7f {
        0 => (status >> 8 & 0xff, 0, false),
        signal => (0, signal, status & 0x80 != 0),
    }
}

/// One number for both ways to end, as a shell has it in `$?`.
fn conflated(event: &WaitEvent) -> u32 {
    match parts(event) {
        (code, 0, _) => code,
        (_, signal, _) => 128 + signal,
    }
}

fn proc_waitpid(v: &mut View<'_>, pid: i32, options: u32, out_status: u32, out_pid: u32) -> Done {
    v.memory.check_u32s([out_status, out_pid])?;
    let event = wait(v, pid, options, WNOHANG)?;
    let (status, pid) = event.map_or((0, 0), |event| (conflated(&event), event.pid));
    v.memory.put_u32(out_status, status)?;
    v.memory.put_u32(out_pid, pid)?;
    Ok(())
}

fn proc_waitpid_v2(
    v: &mut View<'_>,
    pid: i32,
    options: u32,
    out_code: u32,
    out_signal: u32,
    out_pid: u32,
    out_core: u32,
) -> Done {
    v.memory
        .check_u32s([out_code, out_signal, out_pid, out_core])?;
    let event = wait(v, pid, options, WNOHANG)?;
    let ((code, signal, core), pid) =
        event.map_or(((0, 0, false), 0), |event| (parts(&event), event.pid));
    v.memory.put_u32(out_code, code)?;
    v.memory.put_u32(out_signal, signal)?;
    v.memory.put_u32(out_pid, pid)?;
    v.memory.put_u32(out_core, u32::from(core))?;
    Ok(())
}

fn proc_waitpid_v3(
    v: &mut View<'_>,
    pid: i32,
    options: u32,
    out_status: u32,
    out_pid: u32,
) -> Done {
    v.memory.check_u32s([out_status, out_pid])?;
    let event = wait(v, pid, options, WNOHANG | WUNTRACED | WCONTINUED)?;
    let (status, pid) = event.map_or((0, 0), |event| (event.status.raw(), event.pid));
    v.memory.put_u32(out_status, status)?;
    v.memory.put_u32(out_pid, pid)?;
    Ok(())
}
