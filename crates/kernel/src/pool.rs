//! Host threads for guest processes: an elastic pool.
//!
//! A guest process is one host thread while it lives, and a blocked process is a sleeping
//! thread, so the pool has no upper bound of its own (the VM's process limit is one): it grows
//! when every thread is taken, keeps threads that fall idle for reuse, because making one costs
//! more than a whole short process, and lets them go after a while.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

/// A piece of work for a pooled thread.
pub type Job = Box<dyn FnOnce() + Send>;

/// How a [`Pool`] makes and keeps threads.
#[derive(Clone, Copy, Debug)]
pub struct PoolConfig {
    /// Stack of each thread in bytes; address space, of which only what is touched costs memory.
    /// Guests run on it: what is below [`PoolConfig::MIN_STACK_BYTES`] counts as that.
    pub stack_bytes: usize,
    /// Idle threads kept at most; a thread that finds so many idle ones ends.
    pub max_idle: usize,
    /// How long an idle thread waits for work before it ends.
    pub idle_timeout: Duration,
}

impl PoolConfig {
    /// Least stack of a thread: what drivers let a guest use of it, and room for the calls that
    /// the guest makes. With less a guest could overflow the host's stack.
    pub const MIN_STACK_BYTES: usize = 6 << 20;
}

impl Default for PoolConfig {
    fn default() -> PoolConfig {
        PoolConfig {
            stack_bytes: 8 << 20,
            max_idle: 64,
            idle_timeout: Duration::from_secs(10),
        }
    }
}

/// A pool of threads; clones share it.
#[derive(Clone)]
pub struct Pool {
    shared: Arc<Shared>,
}

struct Shared {
    config: PoolConfig,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Idle workers, the latest last: it is taken first, while its caches are warm.
    idle: Vec<Arc<Slot>>,
    threads: usize,
}

/// Where an idle worker finds its next job.
#[derive(Default)]
struct Slot {
    job: Mutex<Option<Job>>,
    given: Condvar,
}

impl Pool {
    /// A pool of its own.
    pub fn new(config: PoolConfig) -> Pool {
        Pool {
            shared: Arc::new(Shared {
                config,
                state: Mutex::default(),
            }),
        }
    }

    /// The pool that every VM of the host process shares unless told otherwise.
    pub fn shared() -> Pool {
        static SHARED: OnceLock<Pool> = OnceLock::new();
        SHARED
            .get_or_init(|| Pool::new(PoolConfig::default()))
            .clone()
    }

    /// Threads that exist now, busy or idle.
    pub fn threads(&self) -> usize {
        self.shared.lock().threads
    }

    /// Threads that wait for work now.
    pub fn idle(&self) -> usize {
        self.shared.lock().idle.len()
    }

    /// Runs `job` on an idle thread or a new one; never waits for one. Fails when the host gives
    /// no more threads, and then `job` is dropped.
    pub fn run(&self, job: Job) -> io::Result<()> {
        let slot = {
            let mut state = self.shared.lock();
            match state.idle.pop() {
                Some(slot) => slot,
                None => {
                    state.threads += 1;
                    drop(state);
                    return self.start(job);
                }
            }
        };
        *slot.job.lock().unwrap_or_else(PoisonError::into_inner) = Some(job);
        slot.given.notify_one();
        Ok(())
    }

    fn start(&self, job: Job) -> io::Result<()> {
        let shared = self.shared.clone();
        let spawned = thread::Builder::new()
            .name("aos-process".into())
            .stack_size(
                self.shared
                    .config
                    .stack_bytes
                    .max(PoolConfig::MIN_STACK_BYTES),
            )
            .spawn(move || worker(&shared, job));
        if let Err(error) = spawned {
            self.shared.lock().threads -= 1;
            return Err(error);
        }
        Ok(())
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn worker(shared: &Shared, first: Job) {
    let slot = Arc::new(Slot::default());
    let mut job = first;
    loop {
        // A job handles its own panics; one that gets here must not take the count with it.
        let _ = catch_unwind(AssertUnwindSafe(job));
        {
            let mut state = shared.lock();
            if state.idle.len() >= shared.config.max_idle {
                state.threads -= 1;
                return;
            }
            state.idle.push(slot.clone());
        }
        match next_job(shared, &slot) {
            Some(next) => job = next,
            None => return,
        }
    }
}

/// Waits for the next job; `None` when the wait was too long and the thread shall end.
fn next_job(shared: &Shared, slot: &Arc<Slot>) -> Option<Job> {
    let mut given = slot.job.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        if let Some(job) = given.take() {
            return Some(job);
        }
        let (guard, timeout) = slot
            .given
            .wait_timeout(given, shared.config.idle_timeout)
            .unwrap_or_else(PoisonError::into_inner);
        given = guard;
        if timeout.timed_out() && given.is_none() {
            let mut state = shared.lock();
            // Not on the list any more: a job is on its way.
            if let Some(at) = state.idle.iter().position(|idle| Arc::ptr_eq(idle, slot)) {
                state.idle.swap_remove(at);
                state.threads -= 1;
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn threads_are_reused_and_go_away() {
        let pool = Pool::new(PoolConfig {
            max_idle: 2,
            idle_timeout: Duration::from_millis(20),
            ..PoolConfig::default()
        });
        let (send, receive) = mpsc::channel();
        for _ in 0..20 {
            let send = send.clone();
            pool.run(Box::new(move || send.send(thread::current().id()).unwrap()))
                .unwrap();
            receive.recv().unwrap();
            while pool.idle() == 0 {
                thread::yield_now();
            }
        }
        assert_eq!(pool.threads(), 1);
        while pool.threads() > 0 {
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_busy_pool_grows_and_survives_panics() {
        let pool = Pool::new(PoolConfig {
            max_idle: 1,
            ..PoolConfig::default()
        });
        let (release, gate) = mpsc::channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        let (send, receive) = mpsc::channel();
        for _ in 0..8 {
            let (gate, send) = (gate.clone(), send.clone());
            pool.run(Box::new(move || {
                send.send(()).unwrap();
                let _ = gate.lock().map(|g| g.recv());
                std::panic::resume_unwind(Box::new(()));
            }))
            .unwrap();
        }
        for _ in 0..8 {
            receive.recv().unwrap();
        }
        assert_eq!(pool.threads(), 8);
        drop(release);
        while pool.threads() > 1 {
            thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(pool.idle(), 1);
    }
}
