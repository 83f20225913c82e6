//! Signals: sending, dispositions, masks, and what a driver does about those that arrive.

use super::Task;
use crate::driver::Interrupt;
use proctable::{Delivery, Disposition, KillTarget, SaFlags, SigAction, SigInfo, SigSet, Signal};
use std::sync::Arc;
use vfs_core::errno::{Errno, Result};

pub use proctable::MaskHow;

/// A signal handler of the guest that is to run now. Its mask is in force already; give it to
/// [`Task::end_handler`] when it has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the handler's mask stays in force until end_handler"]
pub struct HandlerCall {
    /// The signal.
    pub signal: Signal,
    /// The action as it was when the signal was taken; `SA_RESTART` in its flags says whether an
    /// interrupted call starts again.
    pub action: SigAction,
    /// Who sent it and why.
    pub info: SigInfo,
    saved_mask: SigSet,
}

impl HandlerCall {
    /// Whether a call that it interrupted starts again.
    pub fn restarts(&self) -> bool {
        self.action.flags.contains(SaFlags::RESTART)
    }
}

impl Task {
    /// Whether a signal wants attention. One load; made for the callback of an interrupt timer and
    /// for the way into every host call.
    pub fn needs_checkpoint(&self) -> bool {
        self.process.signals().interrupted() || !self.handlers.borrow().is_empty()
    }

    /// Does what the signals that arrived ask for: says that the process must end, or sleeps here
    /// while it is stopped. Caught signals are left to [`Task::next_handler`]. Costs one load when
    /// nothing has arrived.
    pub fn checkpoint(&self) -> std::result::Result<(), Interrupt> {
        if !self.needs_checkpoint() {
            return Ok(());
        }
        while let Some(delivery) = self.process.take_signal() {
            match delivery {
                Delivery::Terminate { signal, .. } => return Err(Interrupt::Die(signal)),
                Delivery::Stop(_) => self.process.wait_while_stopped(),
                // Several at once nest as frames on a stack would: the later one runs first.
                Delivery::Handler {
                    info,
                    action,
                    saved_mask,
                } => self.handlers.borrow_mut().push(HandlerCall {
                    signal: info.signal,
                    action,
                    info,
                    saved_mask,
                }),
            }
        }
        Ok(())
    }

    /// Runs a call that blocks until it gives something other than `EINTR`, or until that is the
    /// guest's to see: because a handler is to run, or because the process ends. A process that
    /// was stopped and continued, or met a signal that asks for nothing, goes on in its call as if
    /// nothing had been (`ERESTARTNOHAND`). Times in `call` must therefore be deadlines.
    pub(super) fn restart<T>(&self, mut call: impl FnMut() -> Result<T>) -> Result<T> {
        loop {
            match call() {
                Err(Errno::EINTR)
                    if self.checkpoint().is_ok() && self.handlers.borrow().is_empty() => {}
                done => return done,
            }
        }
    }

    /// The next handler of the guest to run now, if there is one. Call it after
    /// [`Task::checkpoint`] until it gives nothing.
    pub fn next_handler(&self) -> Option<HandlerCall> {
        let call = self.handlers.borrow_mut().pop();
        if call.is_some() || self.checkpoint().is_err() {
            return call;
        }
        self.handlers.borrow_mut().pop()
    }

    /// A handler of the guest has returned: the mask from before is in force again.
    pub fn end_handler(&self, call: HandlerCall) {
        self.process.signals().sigreturn(call.saved_mask);
    }

    /// Sets whom to call, from whatever thread, when a signal has been posted that the process
    /// must act on, so that it can be made to leave guest code and come to a checkpoint. It must
    /// not block.
    pub fn set_interrupter(&self, interrupter: Arc<dyn Fn() + Send + Sync>) {
        self.process.set_interrupter(Some(interrupter));
    }

    /// Sends a signal as `kill(2)` does: to a process, to the caller's group (0), to everybody
    /// else (-1) or to a group (below). Signal 0 only checks.
    pub fn kill(&self, pid: i32, signal: u32) -> Result<()> {
        let signal = match signal {
            0 => None,
            n => Some(
                i32::try_from(n)
                    .ok()
                    .and_then(Signal::new)
                    .ok_or(Errno::EINVAL)?,
            ),
        };
        let target = KillTarget::from_pid(&self.process, pid)?;
        self.vm.table.kill(Some(&self.process), target, signal)
    }

    /// Posts a signal to the process itself, as a fault of its own does.
    pub fn raise(&self, signal: Signal) {
        self.process.raise(signal);
    }

    /// Sets what is done about a signal, if `new` is given, and returns what was
    /// (`sigaction(2)`).
    pub fn sigaction(&self, signal: Signal, new: Option<SigAction>) -> Result<SigAction> {
        let signals = self.process.signals();
        match new {
            Some(action) => signals.set_action(signal, action),
            None => Ok(signals.action(signal)),
        }
    }

    /// Changes the mask and returns the old one (`sigprocmask(2)`).
    pub fn sigprocmask(&self, how: MaskHow, set: SigSet) -> SigSet {
        self.process.signals().change_mask(how, set)
    }

    /// The mask.
    pub fn sigmask(&self) -> SigSet {
        self.process.signals().mask()
    }

    /// Blocked signals that wait (`sigpending(2)`).
    pub fn sigpending(&self) -> SigSet {
        self.process.signals().pending()
    }

    /// Whether the guest catches this signal.
    pub fn catches(&self, signal: Signal) -> bool {
        self.process.signals().action(signal).disposition == Disposition::Handler
    }
}
