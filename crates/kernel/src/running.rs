//! Which processes run on a thread now, and what they use: the CPU clock of the thread and the
//! guest memory charged.

use crate::sys::ThreadClock;
use proctable::Process;
use rustc_hash::FxHashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The running processes of one VM.
#[derive(Default)]
pub(crate) struct Running {
    map: Mutex<FxHashMap<u32, Run>>,
}

struct Run {
    process: Arc<Process>,
    clock: ThreadClock,
    /// Time on the clock that was added to the process already. A pooled thread has run others
    /// before.
    counted: Duration,
    memory: u64,
}

impl Run {
    /// Adds the time since the last call to the process.
    fn count(&mut self) {
        if let Some(now) = self.clock.now() {
            self.process
                .add_cpu(now.saturating_sub(self.counted), Duration::ZERO);
            self.counted = now;
        }
    }
}

impl Running {
    fn lock(&self) -> MutexGuard<'_, FxHashMap<u32, Run>> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The calling thread runs `process` from now on.
    pub(crate) fn begin(&self, process: &Arc<Process>) {
        let clock = ThreadClock::current();
        let counted = clock.now().unwrap_or_default();
        let run = Run {
            process: process.clone(),
            clock,
            counted,
            memory: 0,
        };
        self.lock().insert(process.pid(), run);
    }

    /// It has ended.
    pub(crate) fn end(&self, pid: u32) {
        let run = self.lock().remove(&pid);
        if let Some(mut run) = run {
            run.count();
        }
    }

    /// Brings the CPU time of a process up to date; `false` if it does not run any more.
    pub(crate) fn count_cpu(&self, pid: u32) -> bool {
        match self.lock().get_mut(&pid) {
            Some(run) => {
                run.count();
                true
            }
            None => false,
        }
    }

    /// Notes the guest memory charged to a process.
    pub(crate) fn set_memory(&self, pid: u32, bytes: u64) {
        if let Some(run) = self.lock().get_mut(&pid) {
            run.memory = bytes;
        }
    }

    /// Guest memory charged to a process.
    pub(crate) fn memory(&self, pid: u32) -> u64 {
        self.lock().get(&pid).map_or(0, |run| run.memory)
    }
}

/// How many threads work for a VM; each is counted from before it is asked for until it is about
/// to go back to the pool.
#[derive(Default)]
pub(crate) struct Threads {
    count: Mutex<usize>,
    changed: Condvar,
}

/// A thread that is counted.
pub(crate) struct Counted(Arc<Threads>);

impl Threads {
    /// Counts one until the result is dropped.
    pub(crate) fn count(self: &Arc<Self>) -> Counted {
        *self.lock() += 1;
        Counted(self.clone())
    }

    /// Waits until none is left; `false` if the time is up first.
    pub(crate) fn wait_zero(&self, deadline: Instant) -> bool {
        let mut count = self.lock();
        while *count > 0 {
            let Some(left) = deadline.checked_duration_since(Instant::now()) else {
                return false;
            };
            count = self
                .changed
                .wait_timeout(count, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut count = self.0.lock();
        *count -= 1;
        if *count == 0 {
            self.0.changed.notify_all();
        }
    }
}
