//! `wasi_snapshot_preview1`, and `wasi_unstable` as another name for it.

mod fd;
mod path;
mod poll;
mod prestat;

pub(crate) use fd::unsigned;
pub(crate) use path::follow;

use crate::call::imports;
use crate::guest::{Done, End, Guest, View};
use crate::memory::Memory;
use kernel::{Clock, Errno};
use wasmtime::{Linker, Result};

/// Bytes of randomness made between two looks at signals.
const RANDOM_CHUNK: usize = 1 << 20;

/// Defines every function of the module.
pub(crate) fn link(linker: &mut Linker<Guest>) -> Result<()> {
    imports! { linker, "wasi_snapshot_preview1";
        errno args_sizes_get(count: u32, bytes: u32);
        errno args_get(pointers: u32, bytes: u32);
        errno environ_sizes_get(count: u32, bytes: u32);
        errno environ_get(pointers: u32, bytes: u32);
        errno clock_res_get(clock: u32, out: u32);
        errno clock_time_get(clock: u32, precision: u64, out: u32);
        errno random_get(ptr: u32, len: u32);
        errno sched_yield();
    }
    linker.func_wrap(
        "wasi_snapshot_preview1",
        "proc_exit",
        |code: i32| -> Result<()> { Err(End::Exit(code & 0xff).into()) },
    )?;
    fd::link(linker)?;
    prestat::link(linker)?;
    path::link(linker)?;
    poll::link(linker)?;
    linker.alias_module("wasi_snapshot_preview1", "wasi_unstable")
}

fn string_sizes(memory: &mut Memory<'_>, strings: &[Vec<u8>], count: u32, bytes: u32) -> Done {
    memory.check_u32s([count, bytes])?;
    let total: usize = strings.iter().map(|string| string.len() + 1).sum();
    let fits = |n: usize| u32::try_from(n).map_err(|_| Errno::EOVERFLOW);
    memory.put_u32(count, fits(strings.len())?)?;
    memory.put_u32(bytes, fits(total)?)?;
    Ok(())
}

/// The pointer table and the strings, each with its NUL.
fn string_table(memory: &mut Memory<'_>, strings: &[Vec<u8>], table: u32, bytes: u32) -> Done {
    let total: usize = strings.iter().map(|string| string.len() + 1).sum();
    let fits = |n: usize| u32::try_from(n).map_err(|_| Errno::EOVERFLOW);
    memory.check_array(table, fits(strings.len())?, 4)?;
    memory.check(bytes, fits(total)?)?;
    let (mut slot, mut at) = (table, bytes);
    for string in strings {
        let len = fits(string.len())?;
        memory.put_u32(slot, at)?;
        memory.write(at, string)?;
        memory.write(at + len, &[0])?;
        slot += 4;
        at += len + 1;
    }
    Ok(())
}

fn args_sizes_get(v: &mut View<'_>, count: u32, bytes: u32) -> Done {
    string_sizes(&mut v.memory, &v.guest.strings.argv, count, bytes)
}

fn args_get(v: &mut View<'_>, pointers: u32, bytes: u32) -> Done {
    string_table(&mut v.memory, &v.guest.strings.argv, pointers, bytes)
}

fn environ_sizes_get(v: &mut View<'_>, count: u32, bytes: u32) -> Done {
    string_sizes(&mut v.memory, &v.guest.strings.env, count, bytes)
}

fn environ_get(v: &mut View<'_>, pointers: u32, bytes: u32) -> Done {
    string_table(&mut v.memory, &v.guest.strings.env, pointers, bytes)
}

/// The clock of a WASI number. The two processor clocks of preview 1 are not offered.
fn clock(number: u32) -> kernel::Result<Clock> {
    match number {
        0 => Ok(Clock::Realtime),
        1 => Ok(Clock::Monotonic),
        2 | 3 => Err(Errno::ENOTSUP),
        _ => Err(Errno::EINVAL),
    }
}

fn clock_res_get(v: &mut View<'_>, number: u32, out: u32) -> Done {
    clock(number)?;
    v.memory.put_u64(out, 1)?;
    Ok(())
}

fn clock_time_get(v: &mut View<'_>, number: u32, _precision: u64, out: u32) -> Done {
    let now = v.task().clock_gettime(clock(number)?);
    v.memory
        .put_u64(out, u64::try_from(now.as_nanos()).unwrap_or(0))?;
    Ok(())
}

fn random_get(v: &mut View<'_>, ptr: u32, len: u32) -> Done {
    let task = v.guest.task.clone();
    for chunk in v.memory.slice_mut(ptr, len)?.chunks_mut(RANDOM_CHUNK) {
        task.getrandom(chunk)?;
        if task.needs_checkpoint() {
            task.checkpoint()?;
        }
    }
    Ok(())
}

fn sched_yield(v: &mut View<'_>) -> Done {
    v.task().sched_yield();
    Ok(())
}
