//! Sending, masking and catching signals.

use crate::call::imports;
use crate::guest::{Done, Guest, View};
use kernel::proctable::{Disposition, SaFlags, SigAction, SigSet, Signal};
use kernel::{Errno, MaskHow};
use wasmtime::{Linker, Result};

pub(super) fn link(linker: &mut Linker<Guest>) -> Result<()> {
    imports! { linker, "host_process";
        errno proc_kill(pid: i32, signal: u32);
        errno proc_sigaction(signal: u32, action: u32, mask_lo: u32, mask_hi: u32, flags: u32);
        errno proc_signal_mask_v2(how: u32, lo: u32, hi: u32, out_lo: u32, out_hi: u32);
    }
    Ok(())
}

/// A signal set of two halves; `SIGKILL` and `SIGSTOP` are in no mask.
pub(super) fn set(lo: u32, hi: u32) -> SigSet {
    SigSet::from_bits(u64::from(hi) << 32 | u64::from(lo)).difference(SigSet::UNBLOCKABLE)
}

fn proc_kill(v: &mut View<'_>, pid: i32, signal: u32) -> Done {
    if signal > u32::from(Signal::MAX) {
        return Err(Errno::EINVAL.into());
    }
    Ok(v.task().kill(pid, signal)?)
}

fn proc_sigaction(
    v: &mut View<'_>,
    signal: u32,
    action: u32,
    mask_lo: u32,
    mask_hi: u32,
    flags: u32,
) -> Done {
    let signal = i32::try_from(signal)
        .ok()
        .and_then(Signal::new)
        .ok_or(Errno::EINVAL)?;
    let disposition = match action {
        0 => Disposition::Default,
        1 => Disposition::Ignore,
        2 => Disposition::Handler,
        _ => return Err(Errno::EINVAL.into()),
    };
    if disposition == Disposition::Handler && v.guest.trampoline.is_none() {
        return Err(Errno::ENOTSUP.into());
    }
    let flags = SaFlags::from_bits_truncate(flags);
    let action = SigAction {
        disposition,
        mask: set(mask_lo, mask_hi),
        flags,
    };
    v.task().sigaction(signal, Some(action))?;
    Ok(())
}

fn proc_signal_mask_v2(
    v: &mut View<'_>,
    how: u32,
    lo: u32,
    hi: u32,
    out_lo: u32,
    out_hi: u32,
) -> Done {
    v.memory.check_u32s([out_lo, out_hi])?;
    let how = match how {
        0 => Some(MaskHow::Block),
        1 => Some(MaskHow::Unblock),
        2 => Some(MaskHow::Set),
        3 if lo == 0 && hi == 0 => None,
        _ => return Err(Errno::EINVAL.into()),
    };
    let old = match how {
        Some(how) => v.task().sigprocmask(how, set(lo, hi)),
        None => v.task().sigmask(),
    };
    v.memory.put_u32(out_lo, old.bits() as u32)?;
    v.memory.put_u32(out_hi, (old.bits() >> 32) as u32)?;
    Ok(())
}
