//! The state behind the lock, and what can be said of it without the rest.

use super::JobReport;
use crate::signal::{DefaultAction, Disposition, SigAction, SigCode, SigInfo, SigSet, Signal};
use std::collections::VecDeque;

/// Guarded by `SignalState::inner`.
pub(super) struct Inner {
    pub(super) blocked: SigSet,
    /// The mask to restore after a call that changed it for its own duration (`ppoll`).
    pub(super) saved: Option<SigSet>,
    pub(super) pending: SigSet,
    /// Details of what is pending, oldest first; a pending signal may have none. At most one per
    /// standard signal.
    pub(super) queue: VecDeque<SigInfo>,
    /// Real-time entries in `queue`; as many are taken from `meter`.
    pub(super) queued_realtime: u64,
    pub(super) actions: [SigAction; Signal::MAX as usize],
    /// The process is ending by this signal; nothing is delivered any more.
    pub(super) ending: Option<(Signal, bool)>,
    /// A stop signal was taken and the process is about to stop, unless `SIGCONT` comes first
    /// (`JOBCTL_STOP_DEQUEUED`).
    pub(super) stop_dequeued: bool,
    pub(super) stopped: Option<Signal>,
    pub(super) report: Option<JobReport>,
    /// The process has exited; posts are accepted and dropped.
    pub(super) dead: bool,
}

impl Inner {
    pub(super) fn action(&self, signal: Signal) -> &SigAction {
        &self.actions[usize::from(signal.number()) - 1]
    }

    pub(super) fn action_mut(&mut self, signal: Signal) -> &mut SigAction {
        &mut self.actions[usize::from(signal.number()) - 1]
    }

    /// Whether delivering it would do nothing (`sig_handler_ignored`).
    pub(super) fn ignores(&self, signal: Signal) -> bool {
        match self.action(signal).disposition {
            Disposition::Ignore => true,
            Disposition::Handler => false,
            Disposition::Default => {
                matches!(
                    signal.default_action(),
                    DefaultAction::Ignore | DefaultAction::Continue
                )
            }
        }
    }

    pub(super) fn deliverable(&self) -> SigSet {
        self.pending
            .difference(self.blocked)
            .iter()
            .filter(|s| !self.ignores(*s))
            .collect()
    }

    /// Removes every pending signal of `set` (`flush_sigqueue_mask`); returns how many real-time
    /// entries went.
    pub(super) fn flush(&mut self, set: SigSet) -> u64 {
        if self.pending.intersection(set).is_empty() {
            return 0;
        }
        self.pending = self.pending.difference(set);
        let mut realtime = 0;
        self.queue.retain(|info| {
            let gone = set.contains(info.signal);
            realtime += u64::from(gone && info.signal.is_realtime());
            !gone
        });
        self.queued_realtime -= realtime;
        realtime
    }

    /// Takes one pending `signal` off; returns it and whether it was a metered entry.
    pub(super) fn dequeue(&mut self, signal: Signal) -> (SigInfo, bool) {
        let Some(at) = self.queue.iter().position(|i| i.signal == signal) else {
            self.pending = self.pending.without(signal);
            let info = SigInfo {
                signal,
                code: SigCode::User,
                pid: 0,
                uid: 0,
                value: 0,
            };
            return (info, false);
        };
        let info = self.queue.remove(at).unwrap_or(SigInfo::kernel(signal));
        if !self.queue.iter().any(|i| i.signal == signal) {
            self.pending = self.pending.without(signal);
        }
        if signal.is_realtime() {
            self.queued_realtime -= 1;
        }
        (info, signal.is_realtime())
    }
}
