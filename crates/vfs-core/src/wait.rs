//! Sleeping and waking: the wait queue and the waiter, and what a descriptor can be ready for.
//!
//! A file operation that would block returns `EAGAIN` and never sleeps itself. Whoever wants to
//! block registers a [`Waiter`] with the file's [`WaitQueue`], tries again (so no wake-up is
//! lost), and sleeps on the waiter. A signal or a kill wakes the same waiter, which is how every
//! blocking call of a guest can be interrupted.

use bitflags::bitflags;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

bitflags! {
    /// Events of `poll(2)`, with Linux's numbers.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub struct PollEvents: u16 {
        /// Readable.
        const IN = 0x001;
        /// Priority data.
        const PRI = 0x002;
        /// Writable.
        const OUT = 0x004;
        /// Error; always reported.
        const ERR = 0x008;
        /// Hang-up; always reported.
        const HUP = 0x010;
        /// Not an open descriptor; always reported.
        const NVAL = 0x020;
        /// Normal data readable.
        const RDNORM = 0x040;
        /// Normal data writable.
        const WRNORM = 0x100;
    }
}

/// One sleeper. A thread sleeps on it; any number of queues and signals may wake it.
#[derive(Default)]
pub struct Waiter {
    notified: Mutex<bool>,
    condvar: Condvar,
}

impl Waiter {
    /// A new sleeper, not notified.
    pub fn new() -> Arc<Waiter> {
        Arc::new(Waiter::default())
    }

    /// Wakes the sleeper, or makes its next [`wait`](Waiter::wait) return at once.
    pub fn notify(&self) {
        let mut notified = self.notified.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::replace(&mut *notified, true) {
            // Let go of first, or the sleeper wakes only to wait for it.
            drop(notified);
            self.condvar.notify_all();
        }
    }

    /// Sleeps until notified or until `deadline`; clears the notification. Returns whether it was
    /// notified.
    pub fn wait(&self, deadline: Option<Instant>) -> bool {
        let mut notified = self.notified.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if std::mem::take(&mut *notified) {
                return true;
            }
            match deadline {
                None => {
                    notified = self
                        .condvar
                        .wait(notified)
                        .unwrap_or_else(PoisonError::into_inner);
                }
                Some(deadline) => {
                    let Some(left) = deadline.checked_duration_since(Instant::now()) else {
                        return false;
                    };
                    notified = self
                        .condvar
                        .wait_timeout(notified, left)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0;
                }
            }
        }
    }
}

/// Sleepers interested in a state change (`struct wait_queue_head`).
///
/// Wake *after* the state was changed under the state's own lock: a sleeper registers first and
/// looks at the state second, so either it sees the change or the waker sees the sleeper.
#[derive(Default)]
pub struct WaitQueue {
    /// Number of entries, so that a wake-up nobody waits for takes no lock.
    count: AtomicUsize,
    next_id: AtomicU64,
    entries: Mutex<Vec<Entry>>,
}

struct Entry {
    id: u64,
    interest: PollEvents,
    waiter: Arc<Waiter>,
}

impl WaitQueue {
    /// An empty queue.
    pub const fn new() -> WaitQueue {
        WaitQueue {
            count: AtomicUsize::new(0),
            next_id: AtomicU64::new(0),
            entries: Mutex::new(Vec::new()),
        }
    }

    /// Registers `waiter` for wake-ups that touch any of `interest` (errors and hang-ups always
    /// do) until the returned guard is dropped.
    pub fn register(&self, waiter: &Arc<Waiter>, interest: PollEvents) -> Registration<'_> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let interest = interest | PollEvents::ERR | PollEvents::HUP | PollEvents::NVAL;
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.push(Entry {
            id,
            interest,
            waiter: waiter.clone(),
        });
        self.count.store(entries.len(), Ordering::SeqCst);
        Registration { queue: self, id }
    }

    /// Wakes every sleeper interested in any of `events`.
    pub fn wake(&self, events: PollEvents) {
        if self.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        // Sleepers are woken with the lock let go of, or they wake only to wait for it. Nearly
        // always there is one.
        let (first, rest) = {
            let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
            let mut waiters = entries
                .iter()
                .filter(|e| e.interest.intersects(events))
                .map(|e| e.waiter.clone());
            (waiters.next(), waiters.collect::<Vec<_>>())
        };
        first.iter().chain(&rest).for_each(|waiter| waiter.notify());
    }

    /// Wakes every sleeper.
    pub fn wake_all(&self) {
        self.wake(PollEvents::all());
    }

    /// Sleepers registered now.
    pub fn len(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Whether nobody is registered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A place in a [`WaitQueue`], given up on drop.
#[must_use = "dropping it takes the sleeper off the queue"]
pub struct Registration<'q> {
    queue: &'q WaitQueue,
    id: u64,
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        let mut entries = self
            .queue
            .entries
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        entries.retain(|e| e.id != self.id);
        self.queue.count.store(entries.len(), Ordering::SeqCst);
    }
}
