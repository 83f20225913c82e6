//! Waiting for children: `waitpid(2)`, `waitid(2)` and what they report.

use crate::block::block_on;
use crate::process::{Process, ZOMBIE};
use crate::signal::Signal;
use crate::sigstate::JobReport;
use crate::table::{ProcTable, Tree};
use bitflags::bitflags;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use vfs_core::errno::{Errno, Result};
use vfs_core::wait::PollEvents;

/// How a process ended. A code and a signal are different things: leaving with 137 is not being
/// killed by `SIGKILL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    /// By itself, with this code.
    Code(u8),
    /// By a signal.
    Signal {
        /// Which.
        signal: Signal,
        /// Whether a core image would have been written.
        core: bool,
    },
}

impl ExitStatus {
    /// The number `wait(2)` writes.
    pub fn wait_status(self) -> u32 {
        match self {
            ExitStatus::Code(code) => u32::from(code) << 8,
            ExitStatus::Signal { signal, core } => {
                u32::from(signal.number()) | if core { 0x80 } else { 0 }
            }
        }
    }

    /// What a shell shows in `$?`: the code, or 128 and the signal's number.
    pub fn shell_code(self) -> u8 {
        match self {
            ExitStatus::Code(code) => code,
            ExitStatus::Signal { signal, .. } => 128 + signal.number(),
        }
    }

    /// Whether it ended by itself with code 0.
    pub fn success(self) -> bool {
        self == ExitStatus::Code(0)
    }
}

/// CPU time used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rusage {
    /// Running guest code.
    pub user: Duration,
    /// In calls.
    pub system: Duration,
}

/// What happened to a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitStatus {
    /// It ended.
    Exited(ExitStatus),
    /// It was stopped by this signal.
    Stopped(Signal),
    /// It goes on after a stop.
    Continued,
}

impl WaitStatus {
    /// The number `wait(2)` writes.
    pub fn raw(self) -> u32 {
        match self {
            WaitStatus::Exited(status) => status.wait_status(),
            WaitStatus::Stopped(signal) => u32::from(signal.number()) << 8 | 0x7f,
            WaitStatus::Continued => 0xffff,
        }
    }
}

/// One report about a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitEvent {
    /// The child.
    pub pid: u32,
    /// Its real user.
    pub uid: u32,
    /// What happened.
    pub status: WaitStatus,
    /// CPU time of the child and the children it had waited for; zero unless it ended.
    pub rusage: Rusage,
}

/// Which children to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitTarget {
    /// Any.
    Any,
    /// This one.
    Pid(u32),
    /// Those in this group.
    Group(u32),
}

impl WaitTarget {
    /// The meaning of the `pid` argument of `waitpid(2)`; `ESRCH` for the one number that has none.
    pub fn from_pid(caller: &Process, pid: i32) -> Result<WaitTarget> {
        Ok(match pid {
            -1 => WaitTarget::Any,
            0 => WaitTarget::Group(caller.pgid()),
            i32::MIN => return Err(Errno::ESRCH),
            pid if pid < 0 => WaitTarget::Group(pid.unsigned_abs()),
            pid => WaitTarget::Pid(pid.unsigned_abs()),
        })
    }
}

bitflags! {
    /// Options of `waitpid(2)` and `waitid(2)`, with Linux's numbers.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct WaitOptions: u32 {
        /// Do not block.
        const NOHANG = 1;
        /// Children that stopped (`WSTOPPED`).
        const UNTRACED = 2;
        /// Children that ended; always on in [`ProcTable::wait`].
        const EXITED = 4;
        /// Children that were continued.
        const CONTINUED = 8;
        /// Leave the report where it is.
        const NOWAIT = 0x0100_0000;
    }
}

impl ProcTable {
    /// Looks for a report about a child of `parent` and takes it (`waitpid(2)` that does not
    /// block). `None`: nothing yet; `ECHILD`: no such child. `NOHANG` changes nothing here, as
    /// this never blocks; see [`wait_blocking`](ProcTable::wait_blocking).
    pub fn wait(
        &self,
        parent: &Process,
        target: WaitTarget,
        options: WaitOptions,
    ) -> Result<Option<WaitEvent>> {
        self.waitid(parent, target, options | WaitOptions::EXITED)
    }

    /// The same with exactly the kinds of report in `options` (`waitid(2)`); `EINVAL` if there is
    /// none among them.
    pub fn waitid(
        &self,
        parent: &Process,
        target: WaitTarget,
        options: WaitOptions,
    ) -> Result<Option<WaitEvent>> {
        let kinds = WaitOptions::EXITED | WaitOptions::UNTRACED | WaitOptions::CONTINUED;
        if !options.intersects(kinds) {
            return Err(Errno::EINVAL);
        }
        let mut tree = self.tree();
        let found = match target {
            WaitTarget::Pid(pid) => {
                let child = tree
                    .get(pid)
                    .filter(|c| c.ppid() == parent.pid())
                    .ok_or(Errno::ECHILD)?;
                report(child, options).map(|event| (child.clone(), event))
            }
            WaitTarget::Any | WaitTarget::Group(_) => find(&tree, parent.pid(), target, options)?,
        };
        let Some((child, event)) = found else {
            return Ok(None);
        };
        if matches!(event.status, WaitStatus::Exited(_)) && !options.contains(WaitOptions::NOWAIT) {
            parent.add_child_usage(event.rusage);
            self.reap(&mut tree, child.pid());
        }
        drop(tree);
        Ok(Some(event))
    }

    /// Waits until there is a report, unless `NOHANG`. `EINTR` if a signal comes first,
    /// `ETIMEDOUT` at the deadline.
    pub fn wait_blocking(
        &self,
        parent: &Process,
        target: WaitTarget,
        options: WaitOptions,
        deadline: Option<Instant>,
    ) -> Result<Option<WaitEvent>> {
        if options.contains(WaitOptions::NOHANG) {
            return self.wait(parent, target, options);
        }
        let _mark = parent.enter_wait();
        let queues = [(parent.child_events(), PollEvents::all())];
        block_on(parent, &queues, deadline, || {
            match self.wait(parent, target, options)? {
                Some(event) => Ok(Some(event)),
                None => Err(Errno::EAGAIN),
            }
        })
    }

    /// Takes a zombie out of the table.
    pub(crate) fn reap(&self, tree: &mut Tree, pid: u32) {
        if tree.release(pid).is_some() {
            self.meters().processes.release(1);
        }
    }
}

type Found = Option<(Arc<Process>, WaitEvent)>;

/// The first child, oldest first, with a report; `ECHILD` if none can ever have one.
fn find(tree: &Tree, parent: u32, target: WaitTarget, options: WaitOptions) -> Result<Found> {
    let children = tree
        .entries
        .get(&parent)
        .map_or(&[][..], |e| &e.children[..]);
    let mut any = false;
    for child in children.iter().filter_map(|pid| tree.get(*pid)) {
        if let WaitTarget::Group(pgid) = target
            && child.pgid() != pgid
        {
            continue;
        }
        any = true;
        if let Some(event) = report(child, options) {
            return Ok(Some((child.clone(), event)));
        }
    }
    if any { Ok(None) } else { Err(Errno::ECHILD) }
}

/// What there is to report about `child`; a stop or continuation is taken unless `NOWAIT`.
fn report(child: &Process, options: WaitOptions) -> Option<WaitEvent> {
    let event = |status, rusage| WaitEvent {
        pid: child.pid(),
        uid: child.cred().uid,
        status,
        rusage,
    };
    if child.life.load(Ordering::Relaxed) == ZOMBIE {
        if !options.contains(WaitOptions::EXITED) {
            return None;
        }
        let (own, children) = child.rusage();
        let rusage = Rusage {
            user: own.user + children.user,
            system: own.system + children.system,
        };
        return Some(event(WaitStatus::Exited(child.exit_status()?), rusage));
    }
    let report = child.signals().job_report(
        options.contains(WaitOptions::UNTRACED),
        options.contains(WaitOptions::CONTINUED),
        !options.contains(WaitOptions::NOWAIT),
    )?;
    let status = match report {
        JobReport::Stopped(signal) => WaitStatus::Stopped(signal),
        JobReport::Continued => WaitStatus::Continued,
    };
    Some(event(status, Rusage::default()))
}
