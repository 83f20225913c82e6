//! Interval timers.

mod common;

use common::{World, eventually};
use proctable::block::sleep_until;
use proctable::timer::TimerValue;
use proctable::{Delivery, Disposition, SigAction, Signal};
use std::time::{Duration, Instant};
use vfs_core::errno::Errno;

const HOUR: Duration = Duration::from_secs(3600);

fn once(remaining: Duration) -> TimerValue {
    TimerValue {
        remaining,
        interval: Duration::ZERO,
    }
}

#[test]
fn a_timer_raises_sigalrm_once_or_again_and_again() {
    let world = World::new();
    let p = world.shell();
    let action = SigAction {
        disposition: Disposition::Handler,
        ..SigAction::DEFAULT
    };
    p.signals().set_action(Signal::ALRM, action).unwrap();
    let take = || match p.take_signal() {
        Some(Delivery::Handler {
            info, saved_mask, ..
        }) => {
            p.signals().sigreturn(saved_mask);
            assert_eq!(info.signal, Signal::ALRM);
            true
        }
        None => false,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        p.set_timer(once(Duration::from_millis(1))),
        TimerValue::default()
    );
    assert_eq!(
        sleep_until(&p, Some(Instant::now() + HOUR)),
        Err(Errno::EINTR)
    );
    assert!(take() && !take());
    assert_eq!(p.real_timer().get(), TimerValue::default());
    let every = Duration::from_millis(1);
    p.set_timer(TimerValue {
        remaining: every,
        interval: every,
    });
    for _ in 0..5 {
        eventually("again", take);
    }
    let old = p.set_timer(TimerValue::default());
    assert_eq!(old.interval, every);
    assert_eq!(p.real_timer().get(), TimerValue::default());
}

#[test]
fn a_timer_set_anew_forgets_the_old_and_ends_with_its_process() {
    let world = World::new();
    let p = world.shell();
    p.set_timer(once(HOUR));
    let left = p.set_timer(once(2 * HOUR)).remaining;
    assert!(left > HOUR / 2 && left <= HOUR);
    for _ in 0..1000 {
        p.set_timer(once(HOUR));
    }
    p.set_timer(TimerValue {
        remaining: Duration::MAX,
        interval: Duration::MAX,
    });
    assert!(p.real_timer().get().remaining > HOUR);
    world.exit(&p, 0);
    assert_eq!(p.real_timer().get(), TimerValue::default());
}

#[test]
fn a_child_does_not_inherit_its_parents_timer_and_exec_keeps_it() {
    let world = World::new();
    let p = world.shell();
    p.set_timer(once(HOUR));
    assert_eq!(world.fork(&p).real_timer().get(), TimerValue::default());
    p.exec_commit(proctable::ExecImage {
        image: Default::default(),
        cred: None,
        close: vec![],
    });
    assert!(p.real_timer().get().remaining > Duration::ZERO);
}
