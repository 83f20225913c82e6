//! The boundary every host call crosses: signals before and after, error numbers, restarts.
//!
//! A guest cannot be interrupted in the middle of its code by a handler; handlers run here, at
//! the edge of host calls, through the guest's exported trampoline (`rt_sigreturn` has no
//! counterpart: the trampoline returns). Signals that stop or end the process are also looked at
//! in the epoch callback, so a guest that makes no calls is no exception.

use crate::errno;
use crate::guest::{Done, End, Guest, Stop, View, view};
use kernel::Errno;
use wasmtime::{Caller, Result};

/// Handlers that run at one boundary at most; more wait for the next.
const MAX_HANDLERS: usize = 64;

/// Which handlers ran at a boundary.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Handlers {
    /// None.
    None,
    /// Some, all of them installed with `SA_RESTART`.
    Restarting,
    /// Some, and one wants the interrupted call to fail.
    Interrupting,
}

/// Looks at signals; the usual case is one load.
fn boundary(caller: &mut Caller<'_, Guest>) -> Result<Handlers> {
    if caller.data().task.needs_checkpoint() {
        deliver(caller)
    } else {
        Ok(Handlers::None)
    }
}

#[cold]
fn deliver(caller: &mut Caller<'_, Guest>) -> Result<Handlers> {
    let task = caller.data().task.clone();
    task.checkpoint().map_err(End::from)?;
    let Some(trampoline) = caller.data().trampoline.clone() else {
        return Ok(Handlers::None);
    };
    let mut ran = Handlers::None;
    for _ in 0..MAX_HANDLERS {
        let Some(handler) = task.next_handler() else {
            return Ok(ran);
        };
        let restart = handler.restarts();
        if ran != Handlers::Interrupting {
            ran = if restart {
                Handlers::Restarting
            } else {
                Handlers::Interrupting
            };
        }
        // An error here is the guest's end, or a trap in its handler: the mask of a process that
        // is gone does not matter, and one that called exec keeps the handler's mask, as in Linux.
        trampoline.call(&mut *caller, u32::from(handler.signal.number()))?;
        task.end_handler(handler);
        task.checkpoint().map_err(End::from)?;
    }
    Ok(ran)
}

/// Runs a call that answers with an error number, and starts it again when it was interrupted by
/// handlers that all ask for it.
#[inline]
pub(crate) fn errno(
    caller: &mut Caller<'_, Guest>,
    mut call: impl FnMut(&mut View<'_>) -> Done,
) -> Result<u32> {
    boundary(caller)?;
    loop {
        let done = call(&mut view(caller));
        let ran = boundary(caller)?;
        match done {
            Ok(()) => return Ok(u32::from(errno::SUCCESS)),
            Err(Stop::Errno(Errno::EINTR)) if ran == Handlers::Restarting => {}
            Err(Stop::Errno(errno)) => return Ok(u32::from(errno::wasi(errno))),
            Err(Stop::End(end)) => return Err(end.into()),
        }
    }
}

/// Runs a call that answers with an error number and is never started again after a handler, as
/// Linux treats sleeping and polling (signal(7)).
#[inline]
pub(crate) fn once(
    caller: &mut Caller<'_, Guest>,
    call: impl FnOnce(&mut View<'_>) -> Done,
) -> Result<u32> {
    whole(caller, |caller| call(&mut view(caller)))
}

/// Like [`once`] for a call that needs more of the guest than memory and state.
#[inline]
pub(crate) fn whole(
    caller: &mut Caller<'_, Guest>,
    call: impl FnOnce(&mut Caller<'_, Guest>) -> Done,
) -> Result<u32> {
    boundary(caller)?;
    let done = call(caller);
    boundary(caller)?;
    match done {
        Ok(()) => Ok(u32::from(errno::SUCCESS)),
        Err(Stop::Errno(errno)) => Ok(u32::from(errno::wasi(errno))),
        Err(Stop::End(end)) => Err(end.into()),
    }
}

/// Runs a call whose result is a value of its own and that has no way to fail.
#[inline]
pub(crate) fn value<T>(
    caller: &mut Caller<'_, Guest>,
    call: impl FnOnce(&mut View<'_>) -> T,
) -> Result<T> {
    boundary(caller)?;
    let value = call(&mut view(caller));
    boundary(caller)?;
    Ok(value)
}

/// Defines host functions of one module in a linker: `errno`, `once` or `value` says how the call
/// crosses the boundary, the name is both the import's and the Rust function's.
macro_rules! imports {
    ($linker:ident, $module:literal;
     $($kind:ident $name:ident ( $($arg:ident: $ty:ty),* $(,)? );)*) => {
        $($linker.func_wrap(
            $module,
            stringify!($name).trim_start_matches("r#"),
            |mut caller: ::wasmtime::Caller<'_, $crate::guest::Guest>, $($arg: $ty),*| {
                $crate::call::$kind(&mut caller, |view| $name(view, $($arg),*))
            },
        )?;)*
    };
}
pub(crate) use imports;
