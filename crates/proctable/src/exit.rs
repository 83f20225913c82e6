//! Ending and stopping, and telling the parent (`kernel/exit.c`, `do_notify_parent`).

use crate::process::{Process, ZOMBIE};
use crate::signal::{Disposition, SaFlags, SigCode, SigInfo, SigSet, Signal};
use crate::table::{INIT_PID, ProcTable, Tree, Wakes};
use crate::wait::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl ProcTable {
    /// Ends a process: closes its descriptors, gives its children to pid 1, leaves a zombie and
    /// tells the parent with `SIGCHLD`. Without a parent that wants to know (pid 1, `SIGCHLD`
    /// ignored, `SA_NOCLDWAIT`) it leaves the table at once. A second call does nothing, and pid 1
    /// does not end.
    pub fn exit(&self, process: &Arc<Process>, status: ExitStatus) {
        if process.pid() == INIT_PID || !process.is_alive() {
            return;
        }
        // First, and under no lock: closing wakes others and may run anything.
        process.strip();
        let mut wakes = Wakes::default();
        let mut reaped = Vec::new();
        {
            let mut tree = self.tree();
            if !process.is_alive() {
                return;
            }
            let parent = tree
                .parent(process)
                .cloned()
                .unwrap_or_else(|| self.init().clone());
            self.give_children_away(&mut tree, process, &mut wakes, &mut reaped);
            self.orphan_check(&tree, process, &parent, true, &mut wakes);
            ProcTable::lose_terminal(&mut tree, process, &mut wakes);
            // Cannot be set already: the process was alive under the lock.
            let _ = process.exit_status.set(status);
            process.life.store(ZOMBIE, Ordering::Release);
            process.signals().retire();
            self.one_ended();
            if self.notify_exit(&tree, process, &parent, status, &mut wakes) {
                self.reap(&mut tree, process.pid());
            }
            for pid in &reaped {
                self.reap(&mut tree, *pid);
            }
        }
        wakes.fire();
        process.exit_events().wake_all();
    }

    /// Pid 1 becomes the parent of every child; zombies among them go in `reaped`.
    fn give_children_away(
        &self,
        tree: &mut Tree,
        process: &Arc<Process>,
        wakes: &mut Wakes,
        reaped: &mut Vec<u32>,
    ) {
        let Some(entry) = tree.entries.get_mut(&process.pid()) else {
            return;
        };
        let children = std::mem::take(&mut entry.children);
        for pid in &children {
            let Some(child) = tree.get(*pid).cloned() else {
                continue;
            };
            child.ppid.store(INIT_PID, Ordering::Relaxed);
            if child.life.load(Ordering::Relaxed) == ZOMBIE {
                reaped.push(*pid);
            }
            self.orphan_check(tree, &child, process, false, wakes);
        }
        if let Some(init) = tree.entries.get_mut(&INIT_PID) {
            init.children.extend(children);
        }
    }

    /// `do_notify_parent`; returns whether nobody will wait for the child.
    fn notify_exit(
        &self,
        tree: &Tree,
        child: &Process,
        parent: &Arc<Process>,
        status: ExitStatus,
        wakes: &mut Wakes,
    ) -> bool {
        if parent.pid() == INIT_PID {
            wakes.child_event(parent);
            return true;
        }
        let action = parent.signals().action(Signal::CHLD);
        let ignored = action.disposition == Disposition::Ignore;
        let (code, value) = match status {
            ExitStatus::Code(code) => (SigCode::ChildExited, i64::from(code)),
            ExitStatus::Signal {
                signal,
                core: false,
            } => (SigCode::ChildKilled, i64::from(signal.number())),
            ExitStatus::Signal { signal, core: true } => {
                (SigCode::ChildDumped, i64::from(signal.number()))
            }
        };
        if !ignored {
            self.send_chld(tree, child, parent, code, value, wakes);
        }
        wakes.child_event(parent);
        ignored || action.flags.contains(SaFlags::NOCLDWAIT)
    }

    fn send_chld(
        &self,
        tree: &Tree,
        child: &Process,
        parent: &Arc<Process>,
        code: SigCode,
        value: i64,
        wakes: &mut Wakes,
    ) {
        let uid = child.cred().uid;
        let info = SigInfo {
            signal: Signal::CHLD,
            code,
            pid: child.pid(),
            uid,
            value,
        };
        // Cannot fail: SIGCHLD is no real-time signal.
        let _ = self.post_in(tree, parent, info, wakes);
    }

    /// Tells the parent that `child` stopped (`Some`) or goes on (`None`)
    /// (`do_notify_parent_cldstop`).
    pub(crate) fn notify_job_control(
        &self,
        tree: &Tree,
        child: &Process,
        stopped: Option<Signal>,
        wakes: &mut Wakes,
    ) {
        let Some(parent) = tree.parent(child) else {
            return;
        };
        let action = parent.signals().action(Signal::CHLD);
        if action.disposition != Disposition::Ignore && !action.flags.contains(SaFlags::NOCLDSTOP) {
            let (code, signal) = match stopped {
                Some(signal) => (SigCode::ChildStopped, signal),
                None => (SigCode::ChildContinued, Signal::CONT),
            };
            self.send_chld(tree, child, parent, code, i64::from(signal.number()), wakes);
        }
        wakes.child_event(parent);
    }

    /// Stops a process that has taken a stop signal. Signals of the terminal do not stop an
    /// orphaned group, which nobody could continue. Returns whether it is stopped.
    pub(crate) fn stop(&self, process: &Process, signal: Signal) -> bool {
        let mut wakes = Wakes::default();
        let stopped = {
            let tree = self.tree();
            let terminal = SigSet::STOPS.without(Signal::STOP).contains(signal);
            if terminal && tree.is_orphaned(process.pgid(), None) {
                return false;
            }
            let stopped = process.signals().begin_stop(signal);
            if stopped {
                self.notify_job_control(&tree, process, Some(signal), &mut wakes);
            }
            stopped
        };
        wakes.fire();
        stopped
    }
}
