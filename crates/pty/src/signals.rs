//! What a terminal has to tell processes, collected under its lock and sent without.

use proctable::{Disposition, KillTarget, ProcTable, Signal};
use std::sync::Weak;

/// What to tell the processes once the state is unlocked.
#[derive(Default)]
pub(crate) struct Signals {
    pub(crate) letters: Vec<(KillTarget, Signal)>,
    /// This session leader is not told of `letters` it would die or stop of.
    pub(crate) spared: Option<u32>,
    /// A session that has lost its terminal.
    pub(crate) detached: Option<u32>,
}

impl Signals {
    pub(crate) fn push_group(&mut self, group: Option<u32>, signal: Signal) {
        if let Some(group) = group {
            self.letters.push((KillTarget::Group(group), signal));
        }
    }

    pub(crate) fn send(self, procs: &Weak<ProcTable>) {
        if self.letters.is_empty() && self.detached.is_none() {
            return;
        }
        if let Some(procs) = procs.upgrade() {
            if let Some(sid) = self.detached {
                // The session may be gone by now.
                let _ = procs.set_terminal(sid, None);
            }
            for (target, signal) in self.letters {
                let spared = self.spared.filter(|sid| {
                    procs.get(*sid).is_some_and(|leader| {
                        leader.signals().action(signal).disposition == Disposition::Default
                    })
                });
                // Nobody may be left in the group; that is no error for the terminal.
                match (target, spared) {
                    (KillTarget::Group(group), Some(sid)) => {
                        for pid in procs.group_members(group) {
                            if pid != sid {
                                let _ = procs.kill(None, KillTarget::Pid(pid), Some(signal));
                            }
                        }
                    }
                    _ => {
                        let _ = procs.kill(None, target, Some(signal));
                    }
                }
            }
        }
    }
}
