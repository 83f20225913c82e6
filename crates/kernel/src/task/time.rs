//! Clocks, sleeping and timers.

use super::Task;
use proctable::block::sleep_until;
use proctable::timer::TimerValue;
use std::time::{Duration, Instant};
use vfs_core::errno::Result;
use vfs_core::types::Timespec;

/// A clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// Time of day (`CLOCK_REALTIME`).
    Realtime,
    /// Time since the VM was made, never set back (`CLOCK_MONOTONIC`).
    Monotonic,
    /// CPU time of the process (`CLOCK_PROCESS_CPUTIME_ID`).
    ProcessCpu,
}

impl Task {
    /// Time on a clock (`clock_gettime(2)`).
    pub fn clock_gettime(&self, clock: Clock) -> Timespec {
        let since = match clock {
            Clock::Realtime => return Timespec::now(),
            Clock::Monotonic => self.vm.booted.elapsed(),
            Clock::ProcessCpu => {
                self.vm.running.count_cpu(self.pid());
                self.process.cpu_time()
            }
        };
        Timespec {
            sec: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
            nsec: since.subsec_nanos(),
        }
    }

    /// Sleeps (`nanosleep(2)`); `EINTR` if a signal comes first.
    pub fn nanosleep(&self, time: Duration) -> Result<()> {
        // A time beyond what the clock can hold is for ever.
        let deadline = Instant::now().checked_add(time);
        self.restart(|| sleep_until(&self.process, deadline))
    }

    /// Time left of the alarm timer, and its interval (`getitimer(2)`, `ITIMER_REAL`).
    pub fn getitimer(&self) -> (Duration, Duration) {
        let value = self.process.real_timer().get();
        (value.remaining, value.interval)
    }

    /// Sets the alarm timer, zero stopping it, and returns what the old one had left and its
    /// interval (`setitimer(2)`). `SIGALRM` comes when it runs out.
    pub fn setitimer(&self, value: Duration, interval: Duration) -> (Duration, Duration) {
        let old = self.process.set_timer(TimerValue {
            remaining: value,
            interval,
        });
        (old.remaining, old.interval)
    }

    /// Fills a buffer with random bytes (`getrandom(2)`).
    pub fn getrandom(&self, buf: &mut [u8]) -> Result<()> {
        crate::sys::getrandom(buf)
    }

    /// Lets others run (`sched_yield(2)`).
    pub fn sched_yield(&self) {
        std::thread::yield_now();
    }
}
