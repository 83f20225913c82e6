//! The signals of one process: mask, dispositions, what is pending, and what to do next.
//!
//! Follows `kernel/signal.c`. A signal that would be ignored is thrown away when it is posted,
//! unless it is blocked; standard signals coalesce, real-time signals queue; a signal that ends
//! the process without a core image overtakes whatever else is pending. `SIGCONT` wakes a stopped
//! process and a stop signal cancels a pending `SIGCONT` when posted, blocked or not.
//!
//! Guest code is never interrupted here. The state keeps three flags up to date that can be read
//! without a lock ([`SignalState::interrupted`], [`SignalState::fatal`],
//! [`SignalState::must_pause`]); drivers look at them between and during guest work.

mod inner;

use crate::limits::Meter;
use crate::signal::{
    DefaultAction, Disposition, SaFlags, SigAction, SigCode, SigInfo, SigSet, Signal,
};
use crate::sync::lock;
use inner::Inner;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use vfs_core::errno::{Errno, Result};

/// What a process has to do next about its signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// End, with this signal as the reason.
    Terminate {
        /// The signal.
        signal: Signal,
        /// Whether a core image would have been written: its default action is to, and
        /// `RLIMIT_CORE` is not zero.
        core: bool,
    },
    /// It is stopped now: call [`crate::Process::wait_while_stopped`].
    Stop(Signal),
    /// Run its handler. The mask is already the handler's; give `saved_mask` to
    /// [`SignalState::sigreturn`] when the handler has returned.
    Handler {
        /// What was posted.
        info: SigInfo,
        /// The action as it was before `SA_RESETHAND`. `action.flags` says whether an interrupted
        /// call starts again (`SA_RESTART`).
        action: SigAction,
        /// The mask to go back to.
        saved_mask: SigSet,
    },
}

/// How [`SignalState::change_mask`] combines (`SIG_BLOCK`, `SIG_UNBLOCK`, `SIG_SETMASK`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaskHow {
    /// Adds to the mask.
    Block,
    /// Takes out of the mask.
    Unblock,
    /// Replaces the mask.
    Set,
}

/// A stop or a continuation its parent has not waited for yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobReport {
    Stopped(Signal),
    Continued,
}

/// What posting a signal did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Posted {
    /// The process has something to do and should wake.
    pub(crate) wake: bool,
    /// It was stopped and runs again; its parent must be told.
    pub(crate) continued: bool,
}

/// What [`SignalState::take`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    Nothing,
    Deliver(Delivery),
    /// A stop signal with its default action: the table decides whether it stops the process.
    Stop(SigInfo),
}

const DELIVERABLE: u8 = 1;
const FATAL: u8 = 2;
const STOP: u8 = 4;
const TEMPORARY: u8 = 8;

/// The signals of one process.
pub struct SignalState {
    /// The process is pid 1, which nothing can signal.
    immune: bool,
    /// `DELIVERABLE`, `FATAL`, `STOP` and `TEMPORARY`; written under `inner`, read by anybody.
    flags: AtomicU8,
    /// Soft `RLIMIT_SIGPENDING`.
    queue_limit: AtomicU64,
    /// `signals.pending` of the VM.
    meter: Arc<Meter>,
    inner: Mutex<Inner>,
}

impl SignalState {
    /// No signal pending, nothing blocked, default actions.
    pub(crate) fn new(meter: Arc<Meter>, immune: bool, queue_limit: u64) -> SignalState {
        SignalState {
            immune,
            flags: AtomicU8::new(0),
            queue_limit: AtomicU64::new(queue_limit),
            meter,
            inner: Mutex::new(Inner {
                blocked: SigSet::EMPTY,
                saved: None,
                pending: SigSet::EMPTY,
                queue: VecDeque::new(),
                queued_realtime: 0,
                actions: [SigAction::DEFAULT; Signal::MAX as usize],
                ending: None,
                stop_dequeued: false,
                stopped: None,
                report: None,
                dead: false,
            }),
        }
    }

    /// What a child starts with: mask and dispositions, but nothing pending (fork(2)).
    pub(crate) fn fork(&self, queue_limit: u64) -> SignalState {
        let child = SignalState::new(self.meter.clone(), false, queue_limit);
        {
            let ours = lock(&self.inner);
            let mut theirs = lock(&child.inner);
            theirs.blocked = ours.blocked;
            theirs.actions = ours.actions;
        }
        child
    }

    /// Brings the flags up to date; call before `inner` is unlocked after any change.
    fn refresh(&self, inner: &Inner) {
        let mut flags = 0;
        if inner.ending.is_some() {
            flags = DELIVERABLE | FATAL;
        } else {
            let deliverable = inner.deliverable();
            if !deliverable.is_empty() {
                flags |= DELIVERABLE;
            }
            // While stopped, only SIGKILL acts, and that sets `ending`.
            if inner.stopped.is_none() {
                for signal in deliverable.iter() {
                    if inner.action(signal).disposition == Disposition::Default {
                        flags |= match signal.default_action() {
                            DefaultAction::Terminate | DefaultAction::Core => FATAL,
                            DefaultAction::Stop => STOP,
                            DefaultAction::Continue | DefaultAction::Ignore => 0,
                        };
                    }
                }
            }
        }
        if inner.saved.is_some() {
            flags |= TEMPORARY;
        }
        self.flags.store(flags, Ordering::SeqCst);
    }

    /// Whether a call has replaced the mask for its own duration.
    pub(crate) fn has_temporary_mask(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & TEMPORARY != 0
    }

    /// Posts a signal (`send_signal_locked`). `EAGAIN` when the queue is full and the sender
    /// cares for the details; otherwise those are dropped and the signal stays.
    pub(crate) fn post(&self, info: SigInfo) -> Result<Posted> {
        let signal = info.signal;
        let mut inner = lock(&self.inner);
        if self.immune || inner.dead || inner.ending.is_some() {
            return Ok(Posted::default());
        }
        let mut posted = Posted::default();
        let mut flushed = 0;
        if SigSet::STOPS.contains(signal) {
            flushed = inner.flush(SigSet::EMPTY.with(Signal::CONT));
        } else if signal == Signal::CONT {
            flushed = inner.flush(SigSet::STOPS);
            inner.stop_dequeued = false;
            if inner.stopped.take().is_some() {
                inner.report = Some(JobReport::Continued);
                posted = Posted {
                    wake: true,
                    continued: true,
                };
            }
        }
        debug_assert_eq!(flushed, 0, "neither kind is real-time");
        let blocked = inner.blocked.contains(signal);
        if !blocked && inner.ignores(signal) {
            self.refresh(&inner);
            return Ok(posted);
        }
        if !signal.is_realtime() && inner.pending.contains(signal) {
            self.refresh(&inner);
            return Ok(posted);
        }
        if signal.is_realtime() {
            let room = inner.queued_realtime < self.queue_limit.load(Ordering::Relaxed);
            if room && self.meter.acquire(1).is_ok() {
                inner.queued_realtime += 1;
                inner.queue.push_back(info);
            } else if !matches!(info.code, SigCode::User | SigCode::Kernel) {
                return Err(Errno::EAGAIN);
            }
        } else {
            inner.queue.push_back(info);
        }
        inner.pending = inner.pending.with(signal);
        if !blocked {
            posted.wake = true;
            let fatal = inner.action(signal).disposition == Disposition::Default
                && signal.default_action() == DefaultAction::Terminate;
            if signal == Signal::KILL {
                inner.stopped = None;
                inner.report = None;
                inner.ending = Some((signal, false));
            } else if fatal && inner.stopped.is_none() {
                inner.ending = Some((signal, false));
            }
        }
        self.refresh(&inner);
        Ok(posted)
    }

    /// Takes the next signal that leads to something (`get_signal`). With nothing left to do, a
    /// mask that a call had changed for its own duration is put back.
    pub(crate) fn take(&self) -> Taken {
        let mut inner = lock(&self.inner);
        let mut metered = 0;
        let taken = loop {
            if let Some((signal, core)) = inner.ending {
                break Taken::Deliver(Delivery::Terminate { signal, core });
            }
            if inner.stopped.is_some() {
                break Taken::Nothing;
            }
            let ready = inner.pending.difference(inner.blocked);
            let first = ready
                .intersection(SigSet::SYNCHRONOUS)
                .first()
                .or(ready.first());
            let Some(signal) = first else {
                match inner.saved.take() {
                    Some(saved) => inner.blocked = saved,
                    None => break Taken::Nothing,
                }
                continue;
            };
            let (info, counted) = inner.dequeue(signal);
            metered += u64::from(counted);
            match inner.action(signal).disposition {
                Disposition::Ignore => {}
                Disposition::Handler => {
                    let action = *inner.action(signal);
                    if action.flags.contains(SaFlags::RESETHAND) {
                        inner.action_mut(signal).disposition = Disposition::Default;
                    }
                    let saved_mask = inner.saved.take().unwrap_or(inner.blocked);
                    let mut mask = inner.blocked.union(action.mask);
                    if !action.flags.contains(SaFlags::NODEFER) {
                        mask = mask.with(signal);
                    }
                    inner.blocked = mask.difference(SigSet::UNBLOCKABLE);
                    break Taken::Deliver(Delivery::Handler {
                        info,
                        action,
                        saved_mask,
                    });
                }
                Disposition::Default => match signal.default_action() {
                    DefaultAction::Ignore | DefaultAction::Continue => {}
                    DefaultAction::Stop => {
                        inner.stop_dequeued = true;
                        break Taken::Stop(info);
                    }
                    DefaultAction::Terminate => inner.ending = Some((signal, false)),
                    DefaultAction::Core => inner.ending = Some((signal, true)),
                },
            }
        };
        self.refresh(&inner);
        drop(inner);
        if metered > 0 {
            self.meter.release(metered);
        }
        taken
    }

    /// Stops the process for a signal that [`take`](SignalState::take) gave, unless it was
    /// continued or killed meanwhile (`do_signal_stop`).
    pub(crate) fn begin_stop(&self, signal: Signal) -> bool {
        let mut inner = lock(&self.inner);
        if !std::mem::take(&mut inner.stop_dequeued) || inner.ending.is_some() || inner.dead {
            return false;
        }
        inner.stopped = Some(signal);
        inner.report = Some(JobReport::Stopped(signal));
        self.refresh(&inner);
        true
    }

    /// The stop or continuation not yet waited for, if it is of a wanted kind.
    pub(crate) fn job_report(
        &self,
        stops: bool,
        continues: bool,
        consume: bool,
    ) -> Option<JobReport> {
        let mut inner = lock(&self.inner);
        let report = inner.report?;
        let wanted = match report {
            JobReport::Stopped(_) => stops,
            JobReport::Continued => continues,
        };
        if !wanted {
            return None;
        }
        if consume {
            inner.report = None;
        }
        Some(report)
    }

    /// The process has exited: drops what is pending.
    pub(crate) fn retire(&self) {
        let mut inner = lock(&self.inner);
        let metered = inner.flush(SigSet::ALL);
        inner.queue = VecDeque::new();
        inner.dead = true;
        inner.stopped = None;
        inner.report = None;
        inner.ending = None;
        self.refresh(&inner);
        drop(inner);
        if metered > 0 {
            self.meter.release(metered);
        }
    }

    /// What `execve` does: handlers become default, ignored stay; mask and pending stay.
    pub(crate) fn exec_reset(&self) {
        let mut inner = lock(&self.inner);
        for action in &mut inner.actions {
            let ignore = action.disposition == Disposition::Ignore;
            *action = if ignore {
                SigAction::IGNORE
            } else {
                SigAction::DEFAULT
            };
        }
        if let Some(saved) = inner.saved.take() {
            inner.blocked = saved;
        }
        self.refresh(&inner);
    }

    pub(crate) fn set_queue_limit(&self, limit: u64) {
        self.queue_limit.store(limit, Ordering::Relaxed);
    }

    /// Whether an unblocked signal waits that is not ignored: a blocking call returns `EINTR`.
    /// What then happens (die, stop, handler, start the call again) is for whoever takes it.
    pub fn interrupted(&self) -> bool {
        self.flags.load(Ordering::SeqCst) & DELIVERABLE != 0
    }

    /// Whether the process is about to be ended by a signal.
    pub fn fatal(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & FATAL != 0
    }

    /// Whether guest code must pause at once, because a signal ends or stops the process. One
    /// relaxed load, made for the callback of an interrupt timer.
    pub fn must_pause(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & (FATAL | STOP) != 0
    }

    /// The signal that stopped the process, while it is stopped.
    pub fn stopped(&self) -> Option<Signal> {
        lock(&self.inner).stopped
    }

    /// The mask.
    pub fn mask(&self) -> SigSet {
        lock(&self.inner).blocked
    }

    /// Changes the mask and returns the old one (`sigprocmask(2)`). `SIGKILL` and `SIGSTOP` are
    /// taken out of `set` without a word, as Linux does.
    pub fn change_mask(&self, how: MaskHow, set: SigSet) -> SigSet {
        let mut inner = lock(&self.inner);
        let old = inner.blocked;
        let new = match how {
            MaskHow::Block => old.union(set),
            MaskHow::Unblock => old.difference(set),
            MaskHow::Set => set,
        };
        inner.blocked = new.difference(SigSet::UNBLOCKABLE);
        self.refresh(&inner);
        old
    }

    /// Sets the mask for the duration of one call (`ppoll(2)`). Call
    /// [`end_temporary_mask`](SignalState::end_temporary_mask) when it ends without `EINTR`; with
    /// `EINTR` the mask stays until the signals were taken, so that those it let in are seen.
    pub fn begin_temporary_mask(&self, set: SigSet) {
        let mut inner = lock(&self.inner);
        let old = inner.blocked;
        inner.saved.get_or_insert(old);
        inner.blocked = set.difference(SigSet::UNBLOCKABLE);
        self.refresh(&inner);
    }

    /// Puts the mask back that [`begin_temporary_mask`](SignalState::begin_temporary_mask) had
    /// replaced, if it did.
    pub fn end_temporary_mask(&self) {
        let mut inner = lock(&self.inner);
        if let Some(saved) = inner.saved.take() {
            inner.blocked = saved;
            self.refresh(&inner);
        }
    }

    /// A handler has returned: its mask ends.
    pub fn sigreturn(&self, saved_mask: SigSet) {
        self.change_mask(MaskHow::Set, saved_mask);
    }

    /// Blocked signals that wait (`sigpending(2)`).
    pub fn pending(&self) -> SigSet {
        let inner = lock(&self.inner);
        inner.pending.intersection(inner.blocked)
    }

    /// Every signal that waits, blocked or not (`SigPnd` in `/proc/PID/status`).
    pub fn pending_all(&self) -> SigSet {
        lock(&self.inner).pending
    }

    /// The action for `signal`.
    pub fn action(&self, signal: Signal) -> SigAction {
        *lock(&self.inner).action(signal)
    }

    /// Sets the action and returns the old one (`sigaction(2)`): `EINVAL` for `SIGKILL` and
    /// `SIGSTOP`. What waits of a signal that is ignored from now on is thrown away.
    pub fn set_action(&self, signal: Signal, action: SigAction) -> Result<SigAction> {
        if SigSet::UNBLOCKABLE.contains(signal) {
            return Err(Errno::EINVAL);
        }
        let mut inner = lock(&self.inner);
        let new = SigAction {
            mask: action.mask.difference(SigSet::UNBLOCKABLE),
            ..action
        };
        let old = std::mem::replace(inner.action_mut(signal), new);
        let metered = if inner.ignores(signal) {
            inner.flush(SigSet::EMPTY.with(signal))
        } else {
            0
        };
        self.refresh(&inner);
        drop(inner);
        if metered > 0 {
            self.meter.release(metered);
        }
        Ok(old)
    }

    /// Sets every signal of `set` to its default action (`POSIX_SPAWN_SETSIGDEF`).
    pub fn set_default(&self, set: SigSet) {
        for signal in set.difference(SigSet::UNBLOCKABLE).iter() {
            // Cannot fail: the two signals that can were taken out.
            let _ = self.set_action(signal, SigAction::DEFAULT);
        }
    }

    /// Signals ignored by disposition (`SigIgn`).
    pub fn ignored(&self) -> SigSet {
        self.with_disposition(Disposition::Ignore)
    }

    /// Signals with a handler (`SigCgt`).
    pub fn caught(&self) -> SigSet {
        self.with_disposition(Disposition::Handler)
    }

    fn with_disposition(&self, wanted: Disposition) -> SigSet {
        let inner = lock(&self.inner);
        Signal::all()
            .filter(|s| inner.action(*s).disposition == wanted)
            .collect()
    }
}

impl Drop for SignalState {
    fn drop(&mut self) {
        let left = lock(&self.inner).queued_realtime;
        if left > 0 {
            self.meter.release(left);
        }
    }
}
