//! Interval timers that raise `SIGALRM` (`setitimer(2)` with `ITIMER_REAL`, `alarm(2)`).
//!
//! One thread of the host serves all VMs. It exists only while a timer runs and for a moment
//! after, so a host without timers has no thread for them.

use crate::process::Process;
use crate::signal::{SigCode, SigInfo, Signal};
use crate::sync::lock;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// What a timer has left and how it goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimerValue {
    /// Time to the next expiry; zero when it does not run.
    pub remaining: Duration,
    /// Time from each expiry to the next; zero to expire once.
    pub interval: Duration,
}

/// The interval timer of one process.
#[derive(Default)]
pub struct RealTimer {
    state: Mutex<TimerState>,
}

/// Guarded by `RealTimer::state`.
#[derive(Default)]
struct TimerState {
    /// Next expiry; `None` when it does not run.
    expiry: Option<Instant>,
    interval: Duration,
    /// Raised at each change, so that a wake-up for an older setting is known as such.
    generation: u64,
}

/// Longest the timer looks ahead: what `Instant` can hold is the host's affair, a guest's number
/// is not.
const FOREVER: Duration = Duration::from_secs(60 * 60 * 24 * 365 * 100);

impl RealTimer {
    /// What it has left.
    pub fn get(&self) -> TimerValue {
        let state = lock(&self.state);
        TimerValue {
            // A timer that is about to expire does not read as stopped.
            remaining: state.expiry.map_or(Duration::ZERO, |e| {
                e.saturating_duration_since(Instant::now())
                    .max(Duration::from_micros(1))
            }),
            interval: state.interval,
        }
    }

    /// Stops it.
    pub fn disarm(&self) {
        let mut state = lock(&self.state);
        state.expiry = None;
        state.interval = Duration::ZERO;
        state.generation += 1;
    }
}

impl Process {
    /// Sets its interval timer and returns what the old one had left. A `remaining` of zero stops
    /// it.
    pub fn set_timer(self: &Arc<Self>, value: TimerValue) -> TimerValue {
        let timer = self.real_timer();
        let old = timer.get();
        let expiry = Instant::now().checked_add(value.remaining.min(FOREVER));
        let mut state = lock(&timer.state);
        state.generation += 1;
        if value.remaining.is_zero() {
            state.expiry = None;
            state.interval = Duration::ZERO;
            return old;
        }
        state.interval = value.interval.min(FOREVER);
        state.expiry = expiry;
        let generation = state.generation;
        drop(state);
        if let Some(due) = expiry {
            CLOCK.arm(Alarm {
                due,
                generation,
                process: Arc::downgrade(self),
            });
        }
        old
    }
}

/// A wake-up on the way.
struct Alarm {
    due: Instant,
    generation: u64,
    process: Weak<Process>,
}

impl PartialEq for Alarm {
    fn eq(&self, other: &Alarm) -> bool {
        self.due == other.due
    }
}

impl Eq for Alarm {}

impl PartialOrd for Alarm {
    fn partial_cmp(&self, other: &Alarm) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Alarm {
    fn cmp(&self, other: &Alarm) -> std::cmp::Ordering {
        self.due.cmp(&other.due)
    }
}

/// The thread that serves all timers of this host process, and its work.
struct Clock {
    work: Mutex<Work>,
    changed: Condvar,
}

/// Guarded by `Clock::work`.
struct Work {
    alarms: BinaryHeap<Reverse<Alarm>>,
    running: bool,
}

static CLOCK: Clock = Clock {
    work: Mutex::new(Work {
        alarms: BinaryHeap::new(),
        running: false,
    }),
    changed: Condvar::new(),
};

/// How long the thread stays without work.
const LINGER: Duration = Duration::from_secs(1);

impl Clock {
    fn arm(&'static self, alarm: Alarm) {
        let mut work = lock(&self.work);
        // A guest that sets its timer in a loop leaves stale alarms behind; without this they
        // would pile up until they are due.
        if work.alarms.len() >= 64 && work.alarms.len().is_power_of_two() {
            work.alarms.retain(|Reverse(alarm)| alarm.is_current());
        }
        work.alarms.push(Reverse(alarm));
        if !work.running {
            let thread = std::thread::Builder::new().name("vm-timers".into());
            work.running = thread.spawn(|| self.run()).is_ok();
        }
        drop(work);
        self.changed.notify_one();
    }

    fn run(&self) {
        let mut work = lock(&self.work);
        let mut idle_until = None;
        loop {
            let now = Instant::now();
            let until = match work.alarms.peek() {
                Some(Reverse(alarm)) if alarm.due <= now => {
                    let alarm = work.alarms.pop();
                    drop(work);
                    let next = alarm.and_then(|Reverse(alarm)| alarm.ring());
                    work = lock(&self.work);
                    work.alarms.extend(next.map(Reverse));
                    idle_until = None;
                    continue;
                }
                Some(Reverse(alarm)) => {
                    idle_until = None;
                    alarm.due
                }
                None => *idle_until.get_or_insert(now + LINGER),
            };
            if idle_until.is_some_and(|idle| idle <= now) {
                work.running = false;
                return;
            }
            work = self
                .changed
                .wait_timeout(work, until.saturating_duration_since(now))
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }
}

impl Alarm {
    /// Whether the timer has not been set anew since.
    fn is_current(&self) -> bool {
        self.process.upgrade().is_some_and(|process| {
            let state = lock(&process.real_timer().state);
            state.generation == self.generation && state.expiry.is_some()
        })
    }

    /// Raises the signal, and gives the next alarm of a timer that repeats. Expiries that were
    /// missed because the host was busy are not made up for.
    fn ring(self) -> Option<Alarm> {
        let process = self.process.upgrade()?;
        let next = {
            let mut state = lock(&process.real_timer().state);
            if state.generation != self.generation || state.expiry.is_none() {
                return None;
            }
            let now = Instant::now();
            state.expiry = (!state.interval.is_zero()).then(|| {
                let late = now.saturating_duration_since(self.due).as_nanos();
                let missed = late / state.interval.as_nanos() + 1;
                let skip = state.interval.as_nanos().saturating_mul(missed);
                let skip = Duration::from_nanos(u64::try_from(skip).unwrap_or(u64::MAX));
                self.due.checked_add(skip).unwrap_or(now + state.interval)
            });
            state.expiry
        };
        let info = SigInfo {
            signal: Signal::ALRM,
            code: SigCode::Kernel,
            pid: 0,
            uid: 0,
            value: 0,
        };
        // Cannot fail: SIGALRM is no real-time signal.
        let _ = process.post(info);
        next.map(|due| Alarm { due, ..self })
    }
}
