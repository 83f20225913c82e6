//! Process numbers, groups, limits, the file creation mask, timers and sleep.

use crate::call::imports;
use crate::guest::{Done, Guest, View};
use kernel::Errno;
use std::time::Duration;
use wasmtime::{Linker, Result};

/// Highest resource number of the ABI (`RLIMIT_AS`).
const MAX_RESOURCE: u32 = 9;

pub(super) fn link(linker: &mut Linker<Guest>) -> Result<()> {
    imports! { linker, "host_process";
        errno proc_getpid(out: u32);
        errno proc_getppid(out: u32);
        errno proc_getpgid(pid: i32, out: u32);
        errno proc_setpgid(pid: i32, pgid: i32);
        errno proc_getrlimit(resource: u32, soft: u32, hard: u32);
        errno proc_setrlimit(resource: u32, soft: u64, hard: u64);
        errno proc_umask(mask: u32, out: u32);
        errno umask(mask: u32, set: u32, out: u32);
        errno proc_itimer_real(op: u32, value: i64, interval: i64, out_value: u32, out_interval: u32);
        once sleep_ms(ms: u32);
    }
    Ok(())
}

fn proc_getpid(v: &mut View<'_>, out: u32) -> Done {
    let pid = v.task().pid();
    Ok(v.memory.put_u32(out, pid)?)
}

fn proc_getppid(v: &mut View<'_>, out: u32) -> Done {
    let ppid = v.task().ppid();
    Ok(v.memory.put_u32(out, ppid)?)
}

fn proc_getpgid(v: &mut View<'_>, pid: i32, out: u32) -> Done {
    v.memory.check(out, 4)?;
    if pid < 0 {
        return Err(Errno::ESRCH.into());
    }
    let pgid = v.task().getpgid(pid)?;
    Ok(v.memory.put_u32(out, pgid)?)
}

fn proc_setpgid(v: &mut View<'_>, pid: i32, pgid: i32) -> Done {
    if pid < 0 || pgid < 0 {
        return Err(Errno::EINVAL.into());
    }
    Ok(v.task().setpgid(pid, pgid)?)
}

fn resource(number: u32) -> kernel::Result<u32> {
    if number > MAX_RESOURCE {
        Err(Errno::EINVAL)
    } else {
        Ok(number)
    }
}

fn proc_getrlimit(v: &mut View<'_>, number: u32, soft: u32, hard: u32) -> Done {
    v.memory.check_u64s([soft, hard])?;
    let (now, max) = v.task().getrlimit(resource(number)?)?;
    v.memory.put_u64(soft, now)?;
    v.memory.put_u64(hard, max)?;
    Ok(())
}

fn proc_setrlimit(v: &mut View<'_>, number: u32, soft: u64, hard: u64) -> Done {
    Ok(v.task().setrlimit(resource(number)?, soft, hard)?)
}

fn proc_umask(v: &mut View<'_>, mask: u32, out: u32) -> Done {
    umask(v, mask, 1, out)
}

fn umask(v: &mut View<'_>, mask: u32, set: u32, out: u32) -> Done {
    v.memory.check(out, 4)?;
    let previous = v.task().umask((set != 0).then_some(mask & 0o777));
    Ok(v.memory.put_u32(out, previous)?)
}

fn proc_itimer_real(
    v: &mut View<'_>,
    op: u32,
    value: i64,
    interval: i64,
    out_value: u32,
    out_interval: u32,
) -> Done {
    v.memory.check_u64s([out_value, out_interval])?;
    let micros = |n: i64| {
        u64::try_from(n)
            .map(Duration::from_micros)
            .map_err(|_| Errno::EINVAL)
    };
    let (value, interval) = match op {
        0 => v.task().getitimer(),
        1 => {
            let (value, interval) = (micros(value)?, micros(interval)?);
            v.task().setitimer(value, interval)
        }
        _ => return Err(Errno::EINVAL.into()),
    };
    v.memory.put_u64(
        out_value,
        u64::try_from(value.as_micros()).unwrap_or(u64::MAX),
    )?;
    v.memory.put_u64(
        out_interval,
        u64::try_from(interval.as_micros()).unwrap_or(u64::MAX),
    )?;
    Ok(())
}

fn sleep_ms(v: &mut View<'_>, ms: u32) -> Done {
    Ok(v.task().nanosleep(Duration::from_millis(u64::from(ms)))?)
}
