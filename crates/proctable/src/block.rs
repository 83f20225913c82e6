//! Blocking calls: sleep until something is possible, a signal comes, or time is up.

use crate::process::Process;
use std::time::Instant;
use vfs_core::errno::{Errno, Result};
use vfs_core::wait::{PollEvents, Registration, WaitQueue};

/// Runs `attempt` until it gives something other than `EAGAIN`, sleeping in between until one of
/// `queues` is woken for the given events. `EINTR` when a signal can be delivered, `ETIMEDOUT`
/// when `deadline` has passed; in both cases `attempt` was tried last and had nothing to give.
///
/// No wake-up is lost: the process is on every queue before `attempt` looks again.
pub fn block_on<T>(
    process: &Process,
    queues: &[(&WaitQueue, PollEvents)],
    deadline: Option<Instant>,
    mut attempt: impl FnMut() -> Result<T>,
) -> Result<T> {
    match attempt() {
        Err(Errno::EAGAIN) => {}
        done => return done,
    }
    let _places: Places<'_> = Places::take(process, queues);
    let _asleep = Asleep::new(process);
    loop {
        match attempt() {
            Err(Errno::EAGAIN) => {}
            done => return done,
        }
        if process.signals().interrupted() {
            return Err(Errno::EINTR);
        }
        if !process.waiter().wait(deadline) {
            return match attempt() {
                Err(Errno::EAGAIN) => Err(Errno::ETIMEDOUT),
                done => done,
            };
        }
    }
}

/// Sleeps until `deadline`, or for ever. `EINTR` when a signal can be delivered.
pub fn sleep_until(process: &Process, deadline: Option<Instant>) -> Result<()> {
    match block_on(process, &[], deadline, || Err::<(), _>(Errno::EAGAIN)) {
        Err(Errno::ETIMEDOUT) => Ok(()),
        other => other,
    }
}

/// Places on queues; most calls wait for one thing, which needs no allocation.
enum Places<'q> {
    One(#[expect(dead_code, reason = "held for its drop")] Option<Registration<'q>>),
    Many(#[expect(dead_code, reason = "held for its drop")] Vec<Registration<'q>>),
}

impl<'q> Places<'q> {
    fn take(process: &Process, queues: &[(&'q WaitQueue, PollEvents)]) -> Places<'q> {
        let register = |(queue, events): &(&'q WaitQueue, PollEvents)| {
            queue.register(process.waiter(), *events)
        };
        match queues {
            [] => Places::One(None),
            [one] => Places::One(Some(register(one))),
            many => Places::Many(many.iter().map(register).collect()),
        }
    }
}

/// Shows the process as sleeping.
struct Asleep<'p>(&'p Process);

impl<'p> Asleep<'p> {
    fn new(process: &'p Process) -> Asleep<'p> {
        process.set_sleeping(true);
        Asleep(process)
    }
}

impl Drop for Asleep<'_> {
    fn drop(&mut self) {
        self.0.set_sleeping(false);
    }
}
