//! CPU-time limits: one host thread that looks after the processes that have one.
//!
//! A process with a limit can't use it up before as much time has passed as it has left, so its
//! clock is read again only then. The thread exists while there is somebody to watch.

use crate::vm::VmInner;
use proctable::rlimit::Resource;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Time from `SIGXCPU` to `SIGKILL` for the limit of the VM.
pub(crate) const GRACE_SECONDS: u64 = 5;
/// Shortest time between two looks at one process.
const SHORTEST: Duration = Duration::from_millis(10);

/// The watch over all VMs of the host process.
pub(crate) struct CpuWatch {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Whom to look at next, by time.
    due: BinaryHeap<Reverse<Entry>>,
    /// Whether the thread is there.
    running: bool,
    next_id: u64,
}

struct Entry {
    at: Instant,
    id: u64,
    vm: Weak<VmInner>,
    pid: u32,
}

static WATCH: CpuWatch = CpuWatch {
    state: Mutex::new(State {
        due: BinaryHeap::new(),
        running: false,
        next_id: 0,
    }),
    changed: Condvar::new(),
};

impl CpuWatch {
    /// Watches process `pid`, which has a limit and runs.
    pub(crate) fn watch(vm: &Arc<VmInner>, pid: u32) {
        let Some(wait) = look(vm, pid) else { return };
        let mut state = WATCH.lock();
        state.add(Instant::now() + wait, Arc::downgrade(vm), pid);
        if state.running {
            drop(state);
            WATCH.changed.notify_one();
            return;
        }
        let spawned = std::thread::Builder::new()
            .name("aos-cpu-watch".into())
            .spawn(serve);
        // Without the thread the limit still holds whenever the process asks for its CPU time or
        // another one starts the thread; there is nobody here to tell.
        state.running = spawned.is_ok();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn add(&mut self, at: Instant, vm: Weak<VmInner>, pid: u32) {
        self.next_id += 1;
        self.due.push(Reverse(Entry {
            at,
            id: self.next_id,
            vm,
            pid,
        }));
    }
}

fn serve() {
    let mut state = WATCH.lock();
    loop {
        let now = Instant::now();
        match state.due.peek() {
            None => {
                state.running = false;
                return;
            }
            Some(Reverse(entry)) if entry.at > now => {
                let wait = entry.at - now;
                state = WATCH
                    .changed
                    .wait_timeout(state, wait)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0;
                continue;
            }
            Some(_) => {}
        }
        let Some(Reverse(entry)) = state.due.pop() else {
            continue;
        };
        drop(state);
        let again = entry.vm.upgrade().and_then(|vm| look(&vm, entry.pid));
        state = WATCH.lock();
        if let Some(wait) = again {
            state.add(Instant::now() + wait, entry.vm, entry.pid);
        }
    }
}

/// Counts the CPU time of a process, which signals it where that passes its limit, and says when
/// to look again; `None` when there is nothing to look after any more.
fn look(vm: &VmInner, pid: u32) -> Option<Duration> {
    let process = vm.table.get(pid)?;
    let soft = process.rlimit(Resource::Cpu).soft;
    if soft == u64::MAX {
        return None;
    }
    let before = process.cpu_time();
    if !vm.running.count_cpu(pid) {
        return None;
    }
    let used = process.cpu_time();
    let limit = Duration::from_secs(soft);
    if before < limit && used >= limit {
        vm.limit_reached("process.cpu_seconds", soft, pid);
    }
    let left = match limit.checked_sub(used) {
        Some(left) if !left.is_zero() => left,
        // Over it: each further second counts.
        _ => Duration::from_secs(1)
            .saturating_sub(Duration::from_nanos(u64::from(used.subsec_nanos()))),
    };
    // The deadline is a clock's and may be far beyond what it can hold.
    Some(left.clamp(SHORTEST, Duration::from_secs(3600)))
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Entry) -> std::cmp::Ordering {
        (self.at, self.id).cmp(&(other.at, other.id))
    }
}
