//! What a VM reports of itself: typed events for the host.
//!
//! Events are told from the threads that run guests, so a sink must not block; [`EventQueue`] is
//! the ready-made one, bounded, which drops and counts what nobody collects in time.

use proctable::ExitStatus;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Something that happened in a VM.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A process was made.
    ProcessStarted {
        /// Its id.
        pid: u32,
        /// Its parent.
        ppid: u32,
        /// The runtime it runs on.
        driver: &'static str,
        /// Its arguments.
        argv: Arc<[Vec<u8>]>,
    },
    /// A process replaced its image.
    ProcessExec {
        /// Its id.
        pid: u32,
        /// The runtime of the new image.
        driver: &'static str,
        /// Its new arguments.
        argv: Arc<[Vec<u8>]>,
    },
    /// A process ended.
    ProcessExited {
        /// Its id.
        pid: u32,
        /// How.
        status: ExitStatus,
    },
    /// A limit is nearly used up (80 %).
    LimitWarning {
        /// Name of the limit.
        name: &'static str,
        /// In use.
        used: u64,
        /// The limit.
        limit: u64,
    },
    /// A limit was reached and something was refused or ended for it.
    LimitReached {
        /// Name of the limit.
        name: &'static str,
        /// The limit.
        limit: u64,
        /// The process concerned, 0 if none.
        pid: u32,
    },
    /// A program trapped, or its runtime failed.
    DriverFault {
        /// The process.
        pid: u32,
        /// The runtime.
        driver: &'static str,
        /// What it said.
        message: String,
    },
    /// The policy refused something.
    PolicyDenied {
        /// The process that asked, 0 for the host.
        pid: u32,
        /// What was refused.
        what: String,
    },
}

/// Where events go. Called on guest threads, perhaps under locks: it must neither block nor call
/// back into the VM.
pub trait Events: Send + Sync {
    /// Takes one event.
    fn event(&self, event: Event);
}

/// A bounded queue of events. When it is full the oldest are dropped and counted.
///
/// ```
/// use kernel::events::{Event, EventQueue, Events};
/// let queue = EventQueue::new(2);
/// for used in 0..3 {
///     queue.event(Event::LimitWarning { name: "process.count", used, limit: 10 });
/// }
/// assert_eq!(queue.dropped(), 1);
/// assert!(matches!(queue.pop(), Some(Event::LimitWarning { used: 1, .. })));
/// ```
pub struct EventQueue {
    capacity: usize,
    state: Mutex<QueueState>,
    arrived: Condvar,
}

#[derive(Default)]
struct QueueState {
    events: VecDeque<Event>,
    dropped: u64,
}

impl EventQueue {
    /// A queue of at most `capacity` events, at least one.
    pub fn new(capacity: usize) -> EventQueue {
        EventQueue {
            capacity: capacity.max(1),
            state: Mutex::new(QueueState::default()),
            arrived: Condvar::new(),
        }
    }

    /// The oldest event, if there is one.
    pub fn pop(&self) -> Option<Event> {
        self.lock().events.pop_front()
    }

    /// The oldest event; waits up to `timeout` for one.
    pub fn pop_timeout(&self, timeout: Duration) -> Option<Event> {
        let deadline = Instant::now() + timeout;
        let mut state = self.lock();
        loop {
            if let Some(event) = state.events.pop_front() {
                return Some(event);
            }
            let left = deadline.checked_duration_since(Instant::now())?;
            state = self
                .arrived
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// How many events were dropped because nobody took them.
    pub fn dropped(&self) -> u64 {
        self.lock().dropped
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Events for EventQueue {
    fn event(&self, event: Event) {
        let mut state = self.lock();
        if state.events.len() >= self.capacity {
            state.events.pop_front();
            state.dropped += 1;
        }
        state.events.push_back(event);
        drop(state);
        self.arrived.notify_one();
    }
}
