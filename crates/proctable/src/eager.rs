//! Looking again for a moment before going to sleep.
//!
//! When data flows, the next piece is a few microseconds away, and putting a thread to sleep and
//! waking it costs both sides more than that. When it does not flow, or when reader and writer share
//! a processor, looking again is time wasted. So each pipe learns: what was in vain is left out for
//! the next sleeps, twice as many each time, and what paid is done again.

use std::hint;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use vfs_core::errno::{Errno, Result};

/// How long to look again: about what a sleep and a wake-up cost.
const MOMENT: Duration = Duration::from_micros(20);
/// Pauses of the processor between two looks, so that the other side gets at the lock.
const PAUSES: u32 = 32;
/// Sleeps before the first try: most pipes of a shell have one writer that writes once.
const FIRST: u32 = 2;
/// Sleeps between tries when none has ever paid.
const MOST: u32 = 1024;

/// What one reader of a pipe has learnt. Races between readers only spoil the guess.
#[derive(Debug)]
pub(crate) struct Eager {
    /// Sleeps left until the next try.
    skip: AtomicU32,
    /// Sleeps that followed the last try in vain.
    penalty: AtomicU32,
}

impl Default for Eager {
    fn default() -> Eager {
        Eager {
            skip: AtomicU32::new(FIRST),
            penalty: AtomicU32::new(FIRST),
        }
    }
}

impl Eager {
    /// Makes `attempt` again for a moment, if that has a chance; `EAGAIN` when it is time to sleep.
    pub(crate) fn look_again<T>(&self, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
        let skip = self.skip.load(Ordering::Relaxed);
        if skip > 0 || !several_processors() {
            self.skip.store(skip.saturating_sub(1), Ordering::Relaxed);
            return Err(Errno::EAGAIN);
        }
        let start = Instant::now();
        loop {
            (0..PAUSES).for_each(|_| hint::spin_loop());
            match attempt() {
                Err(Errno::EAGAIN) if start.elapsed() < MOMENT => {}
                Err(Errno::EAGAIN) => {
                    let penalty = (self.penalty.load(Ordering::Relaxed) * 2).min(MOST);
                    self.penalty.store(penalty, Ordering::Relaxed);
                    self.skip.store(penalty, Ordering::Relaxed);
                    return Err(Errno::EAGAIN);
                }
                done => {
                    self.penalty.store(1, Ordering::Relaxed);
                    return done;
                }
            }
        }
    }
}

fn several_processors() -> bool {
    static SEVERAL: OnceLock<bool> = OnceLock::new();
    *SEVERAL.get_or_init(|| thread::available_parallelism().is_ok_and(|n| n.get() > 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks again until the `after`th attempt has data; how many attempts there were.
    fn attempts(eager: &Eager, after: u32) -> u32 {
        let mut made = 0;
        let _ = eager.look_again(|| {
            made += 1;
            if made >= after {
                Ok(())
            } else {
                Err(Errno::EAGAIN)
            }
        });
        made
    }

    #[test]
    fn tries_in_vain_become_rare_and_one_that_pays_is_repeated() {
        if !several_processors() {
            return;
        }
        let eager = Eager::default();
        let mut gaps = Vec::new();
        for _ in 0..3 {
            let mut gap = 0;
            while attempts(&eager, u32::MAX) == 0 {
                gap += 1;
            }
            gaps.push(gap);
        }
        assert_eq!(gaps, [FIRST, FIRST * 2, FIRST * 4]);
        while attempts(&eager, 1) == 0 {}
        assert_eq!(attempts(&eager, 1), 1);
        assert!(attempts(&eager, u32::MAX) > 0);
        assert_eq!(
            attempts(&eager, 1),
            0,
            "one in vain is enough to sleep next"
        );
    }
}
