//! Posting, blocking, ignoring, queueing and delivering signals.

mod common;

use common::{World, eventually, patience};
use proctable::rlimit::{RLIM_INFINITY, Resource, Rlimit};
use proctable::{
    Delivery, Disposition, ExitStatus, KillTarget, MaskHow, SaFlags, SigAction, SigCode, SigInfo,
    SigSet, Signal, State, WaitOptions, WaitStatus, WaitTarget, block_on,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use vfs_core::errno::Errno;
use vfs_core::types::Cred;

const HANDLER: SigAction = SigAction {
    disposition: Disposition::Handler,
    mask: SigSet::EMPTY,
    flags: SaFlags::empty(),
};

fn handled(delivery: Option<Delivery>) -> Signal {
    match delivery {
        Some(Delivery::Handler { info, .. }) => info.signal,
        other => panic!("no handler: {other:?}"),
    }
}

fn terminated(delivery: Option<Delivery>) -> Signal {
    match delivery {
        Some(Delivery::Terminate { signal, .. }) => signal,
        other => panic!("not the end: {other:?}"),
    }
}

#[test]
fn names_and_numbers_are_the_hosts() {
    for signal in Signal::all().filter(|s| !s.is_realtime()) {
        let host = nix::sys::signal::Signal::try_from(i32::from(signal.number())).unwrap();
        assert_eq!(signal.name(), host.as_str());
        assert_eq!(Signal::from_name(&signal.name()), Some(signal));
        assert_eq!(
            Signal::from_name(&signal.name()[3..].to_lowercase()),
            Some(signal)
        );
    }
    let bash = std::process::Command::new("bash")
        .args(["-c", "kill -l {34..64}"])
        .output()
        .unwrap();
    let names = String::from_utf8(bash.stdout).unwrap();
    for (number, name) in (34..).zip(names.split_whitespace()) {
        let signal = Signal::new(number).unwrap();
        assert_eq!(
            signal.name().trim_start_matches("SIG"),
            name.trim_start_matches("SIG")
        );
        assert_eq!(Signal::from_name(name), Some(signal));
    }
    for wrong in [0, 65, -1, i32::MAX, i32::MIN] {
        assert_eq!(Signal::new(wrong), None);
    }
}

#[test]
fn every_default_action_does_what_signal_7_says() {
    for signal in Signal::all() {
        let world = World::new();
        let parent = world.shell();
        let unlimited = Rlimit {
            soft: RLIM_INFINITY,
            hard: RLIM_INFINITY,
        };
        parent.set_rlimit(Resource::Core, unlimited).unwrap();
        let child = world.job(&parent);
        world
            .table
            .kill(None, KillTarget::Pid(child.pid()), Some(signal))
            .unwrap();
        let delivery = child.take_signal();
        use Signal as S;
        match signal {
            S::CHLD | S::URG | S::WINCH | S::CONT => assert_eq!(delivery, None, "{signal}"),
            S::STOP | S::TSTP | S::TTIN | S::TTOU => {
                assert_eq!(delivery, Some(Delivery::Stop(signal)));
                assert_eq!(child.state(), State::Stopped);
            }
            _ => {
                let core = matches!(
                    signal,
                    S::QUIT
                        | S::ILL
                        | S::TRAP
                        | S::ABRT
                        | S::BUS
                        | S::FPE
                        | S::SEGV
                        | S::XCPU
                        | S::XFSZ
                        | S::SYS
                );
                assert_eq!(
                    delivery,
                    Some(Delivery::Terminate { signal, core }),
                    "{signal}"
                );
                assert!(child.signals().fatal() && child.signals().must_pause());
            }
        }
    }
}

#[test]
fn no_core_image_without_room_for_one() {
    let world = World::new();
    let p = world.shell();
    p.raise(Signal::SEGV);
    let delivery = Delivery::Terminate {
        signal: Signal::SEGV,
        core: false,
    };
    assert_eq!(p.take_signal(), Some(delivery));
}

#[test]
fn kill_and_stop_cannot_be_blocked_or_handled() {
    let world = World::new();
    let p = world.shell();
    for signal in [Signal::KILL, Signal::STOP] {
        assert_eq!(
            p.signals().set_action(signal, SigAction::IGNORE),
            Err(Errno::EINVAL)
        );
        assert_eq!(p.signals().set_action(signal, HANDLER), Err(Errno::EINVAL));
    }
    p.signals().change_mask(MaskHow::Set, SigSet::ALL);
    assert_eq!(
        p.signals().mask(),
        SigSet::ALL.difference(SigSet::UNBLOCKABLE)
    );
    p.raise(Signal::KILL);
    assert_eq!(terminated(p.take_signal()), Signal::KILL);
}

#[test]
fn blocked_signals_wait_and_coalesce_while_realtime_ones_queue() {
    let world = World::new();
    let p = world.shell();
    let rt = Signal::new(40).unwrap();
    for signal in [Signal::USR1, rt] {
        p.signals().set_action(signal, HANDLER).unwrap();
    }
    p.signals()
        .change_mask(MaskHow::Block, SigSet::EMPTY.with(Signal::USR1).with(rt));
    for value in 0..3 {
        for signal in [Signal::USR1, rt] {
            let info = SigInfo {
                signal,
                code: SigCode::Queue,
                pid: 7,
                uid: 8,
                value,
            };
            p.post(info).unwrap();
        }
    }
    assert!(!p.signals().interrupted());
    assert_eq!(
        p.signals().pending(),
        SigSet::EMPTY.with(Signal::USR1).with(rt)
    );
    assert_eq!(p.take_signal(), None);
    p.signals().change_mask(MaskHow::Set, SigSet::EMPTY);
    let mut seen = Vec::new();
    while let Some(Delivery::Handler {
        info, saved_mask, ..
    }) = p.take_signal()
    {
        assert!(
            p.signals().mask().contains(info.signal),
            "blocked in its own handler"
        );
        p.signals().sigreturn(saved_mask);
        seen.push((info.signal.number(), info.value));
    }
    assert_eq!(seen, [(10, 0), (40, 0), (40, 1), (40, 2)]);
    assert_eq!(world.table.meters().signals.used(), 0);
}

#[test]
fn a_full_queue_refuses_values_and_keeps_the_signal() {
    let world = World::with(|l| l.signals_pending = 4);
    let p = world.shell();
    let rt = Signal::new(50).unwrap();
    p.signals().change_mask(MaskHow::Block, SigSet::ALL);
    for value in 0..4 {
        world.table.sigqueue(&p, p.pid(), Some(rt), value).unwrap();
    }
    assert_eq!(
        world.table.sigqueue(&p, p.pid(), Some(rt), 4),
        Err(Errno::EAGAIN)
    );
    let other = Signal::new(51).unwrap();
    world
        .table
        .kill(Some(&p), KillTarget::Pid(p.pid()), Some(other))
        .unwrap();
    assert!(
        p.signals().pending().contains(other),
        "kill only loses the details"
    );
    assert!(
        world
            .log
            .take()
            .contains(&"near signals.pending 4/4".to_owned())
    );
    world.exit(&p, 0);
    assert_eq!(world.table.meters().signals.used(), 0);
}

#[test]
fn ignored_signals_vanish_when_posted_unless_blocked() {
    let world = World::new();
    let p = world.shell();
    p.signals()
        .set_action(Signal::USR1, SigAction::IGNORE)
        .unwrap();
    p.raise(Signal::USR1);
    assert!(p.signals().pending_all().is_empty());
    p.signals().change_mask(
        MaskHow::Block,
        SigSet::EMPTY.with(Signal::USR1).with(Signal::USR2),
    );
    p.raise(Signal::USR1);
    p.raise(Signal::USR2);
    assert_eq!(
        p.signals().pending(),
        SigSet::EMPTY.with(Signal::USR1).with(Signal::USR2)
    );
    // Becoming ignored throws away what waits.
    p.signals()
        .set_action(Signal::USR2, SigAction::IGNORE)
        .unwrap();
    assert_eq!(p.signals().pending(), SigSet::EMPTY.with(Signal::USR1));
    p.signals().change_mask(MaskHow::Set, SigSet::EMPTY);
    assert!(!p.signals().interrupted());
    assert_eq!(p.take_signal(), None);
}

#[test]
fn delivery_order_is_faults_first_then_by_number_and_death_overtakes() {
    let world = World::new();
    let p = world.shell();
    let order = [
        Signal::USR1,
        Signal::SEGV,
        Signal::HUP,
        Signal::new(64).unwrap(),
        Signal::new(34).unwrap(),
    ];
    for signal in order {
        p.signals().set_action(signal, HANDLER).unwrap();
    }
    p.signals().change_mask(MaskHow::Block, SigSet::ALL);
    for signal in order {
        p.raise(signal);
    }
    p.signals().change_mask(MaskHow::Set, SigSet::EMPTY);
    let mut seen = Vec::new();
    while let Some(Delivery::Handler {
        info, saved_mask, ..
    }) = p.take_signal()
    {
        p.signals().sigreturn(saved_mask);
        seen.push(info.signal.number());
    }
    assert_eq!(seen, [11, 1, 10, 34, 64]);

    p.raise(Signal::HUP);
    p.raise(Signal::TERM);
    assert_eq!(
        terminated(p.take_signal()),
        Signal::TERM,
        "before the handler of HUP"
    );
    p.raise(Signal::KILL);
    assert_eq!(
        terminated(p.take_signal()),
        Signal::TERM,
        "the first death counts"
    );
}

#[test]
fn handler_flags() {
    let world = World::new();
    let p = world.shell();
    let action = SigAction {
        mask: SigSet::EMPTY.with(Signal::USR2).with(Signal::KILL),
        flags: SaFlags::NODEFER | SaFlags::RESETHAND | SaFlags::RESTART,
        ..HANDLER
    };
    p.signals().set_action(Signal::USR1, action).unwrap();
    p.raise(Signal::USR1);
    let Some(Delivery::Handler {
        action, saved_mask, ..
    }) = p.take_signal()
    else {
        panic!()
    };
    assert!(action.flags.contains(SaFlags::RESTART));
    assert_eq!(saved_mask, SigSet::EMPTY);
    assert_eq!(
        p.signals().mask(),
        SigSet::EMPTY.with(Signal::USR2),
        "NODEFER, and KILL never"
    );
    assert_eq!(
        p.signals().action(Signal::USR1).disposition,
        Disposition::Default
    );
    p.signals().sigreturn(saved_mask);
    p.raise(Signal::USR1);
    assert_eq!(terminated(p.take_signal()), Signal::USR1);
}

#[test]
fn stop_and_continue_cancel_each_other() {
    let world = World::new();
    let parent = world.shell();
    let p = world.spawn(&parent);
    p.signals().change_mask(
        MaskHow::Block,
        SigSet::EMPTY.with(Signal::TSTP).with(Signal::CONT),
    );
    p.signals().set_action(Signal::CONT, HANDLER).unwrap();
    p.raise(Signal::TSTP);
    assert!(p.signals().pending().contains(Signal::TSTP));
    p.raise(Signal::CONT);
    assert_eq!(p.signals().pending(), SigSet::EMPTY.with(Signal::CONT));
    p.raise(Signal::STOP);
    assert!(p.signals().pending().is_empty());
    assert_eq!(p.take_signal(), Some(Delivery::Stop(Signal::STOP)));
    // While stopped nothing is delivered but death.
    p.raise(Signal::TERM);
    assert!(!p.signals().fatal());
    assert_eq!(p.take_signal(), None);
    // Blocked, it continues all the same.
    p.raise(Signal::CONT);
    assert_eq!(p.state(), State::Running);
    assert_eq!(terminated(p.take_signal()), Signal::TERM);
}

#[test]
fn kill_ends_a_stopped_process() {
    let world = World::new();
    let parent = world.shell();
    let p = world.spawn(&parent);
    p.raise(Signal::STOP);
    assert_eq!(p.take_signal(), Some(Delivery::Stop(Signal::STOP)));
    let thread = {
        let p = p.clone();
        std::thread::spawn(move || {
            p.wait_while_stopped();
            terminated(p.take_signal())
        })
    };
    p.raise(Signal::KILL);
    assert_eq!(thread.join().unwrap(), Signal::KILL);
}

#[test]
fn a_stop_is_overtaken_by_a_continuation_or_lost_on_an_orphaned_group() {
    let world = World::new();
    let leader = world.shell();
    // The group of a session leader is orphaned: its parent is in another session.
    leader.raise(Signal::TSTP);
    assert!(leader.signals().interrupted());
    assert_eq!(leader.take_signal(), None);
    assert_eq!(leader.state(), State::Running);
    // SIGSTOP stops even so.
    leader.raise(Signal::STOP);
    assert_eq!(leader.take_signal(), Some(Delivery::Stop(Signal::STOP)));
}

#[test]
fn pid_one_is_out_of_reach() {
    let world = World::new();
    let init = world.table.init();
    for signal in Signal::all() {
        world
            .table
            .kill(None, KillTarget::Pid(1), Some(signal))
            .unwrap();
    }
    assert!(init.signals().pending_all().is_empty());
    world.table.exit(init, ExitStatus::Code(0));
    assert!(init.is_alive());
}

#[test]
fn permission_follows_kill_2() {
    let world = World::new();
    let (root, user) = (world.shell(), world.shell());
    user.set_cred(Arc::new(Cred::user(1000, 1000)));
    let other = world.shell();
    other.set_cred(Arc::new(Cred::user(1001, 1001)));
    let pid = |p: &proctable::Process| KillTarget::Pid(p.pid());
    let t = &world.table;
    assert_eq!(t.kill(Some(&root), pid(&user), None), Ok(()));
    assert_eq!(t.kill(Some(&user), pid(&root), None), Err(Errno::EPERM));
    assert_eq!(t.kill(Some(&user), pid(&other), None), Err(Errno::EPERM));
    assert_eq!(t.kill(Some(&user), pid(&user), None), Ok(()));
    assert_eq!(
        t.kill(Some(&user), KillTarget::Pid(1), None),
        Err(Errno::EPERM)
    );
    assert_eq!(
        t.kill(Some(&user), KillTarget::Pid(9999), None),
        Err(Errno::ESRCH)
    );
    assert_eq!(
        t.kill(Some(&user), KillTarget::Group(9999), None),
        Err(Errno::ESRCH)
    );
    assert_eq!(t.kill(None, pid(&root), None), Ok(()));
    // The saved user of the target counts, its effective user does not.
    let set = |uid, euid, suid| {
        Arc::new(Cred {
            uid,
            euid,
            suid,
            ..Cred::user(0, 0)
        })
    };
    other.set_cred(set(0, 0, 1000));
    assert_eq!(t.kill(Some(&user), pid(&other), None), Ok(()));
    other.set_cred(set(0, 1000, 0));
    assert_eq!(t.kill(Some(&user), pid(&other), None), Err(Errno::EPERM));
    // Any process of one's session may be continued.
    let kin = world.spawn(&user);
    kin.set_cred(set(0, 0, 0));
    assert_eq!(t.kill(Some(&user), pid(&kin), Some(Signal::CONT)), Ok(()));
    assert_eq!(
        t.kill(Some(&user), pid(&kin), Some(Signal::TERM)),
        Err(Errno::EPERM)
    );
    // One of a group is enough.
    assert_eq!(
        t.kill(Some(&user), KillTarget::Group(user.pgid()), None),
        Ok(())
    );
}

#[test]
fn kill_all_spares_the_sender_and_pid_one() {
    let world = World::new();
    let sender = world.shell();
    assert_eq!(
        world
            .table
            .kill(Some(&sender), KillTarget::All, Some(Signal::TERM)),
        Err(Errno::ESRCH)
    );
    let others = [world.spawn(&sender), world.shell()];
    world
        .table
        .kill(Some(&sender), KillTarget::All, Some(Signal::TERM))
        .unwrap();
    assert!(others.iter().all(|p| p.signals().fatal()));
    assert!(!sender.signals().fatal());
}

#[test]
fn meaning_of_the_pid_argument() {
    let world = World::new();
    let p = world.shell();
    let of = |n| KillTarget::from_pid(&p, n);
    assert_eq!(of(0), Ok(KillTarget::Group(p.pgid())));
    assert_eq!(of(-1), Ok(KillTarget::All));
    assert_eq!(of(-5), Ok(KillTarget::Group(5)));
    assert_eq!(of(5), Ok(KillTarget::Pid(5)));
    assert_eq!(of(i32::MIN), Err(Errno::ESRCH));
    assert_eq!(WaitTarget::from_pid(&p, i32::MIN), Err(Errno::ESRCH));
}

#[test]
fn a_signal_wakes_a_blocked_call_and_calls_the_interrupter() {
    let world = World::new();
    let p = world.shell();
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    p.set_interrupter(Some(Arc::new(move || {
        counted.fetch_add(1, Ordering::SeqCst);
    })));
    let sleeper = {
        let p = p.clone();
        std::thread::spawn(move || block_on(&p, &[], patience(), || Err::<(), _>(Errno::EAGAIN)))
    };
    eventually("asleep", || p.state() == State::Sleeping);
    p.raise(Signal::CHLD);
    assert_eq!(
        calls.load(Ordering::SeqCst),
        0,
        "ignored signals wake nobody"
    );
    p.raise(Signal::TERM);
    assert_eq!(sleeper.join().unwrap(), Err(Errno::EINTR));
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    assert_eq!(p.state(), State::Running);
    // One that is set late is called for what is there already.
    let late = Arc::new(AtomicUsize::new(0));
    let counted = late.clone();
    p.set_interrupter(Some(Arc::new(move || {
        counted.fetch_add(1, Ordering::SeqCst);
    })));
    assert_eq!(late.load(Ordering::SeqCst), 1);
}

#[test]
fn sigchld_tells_of_each_change_of_a_child() {
    let world = World::new();
    let parent = world.shell();
    parent.signals().set_action(Signal::CHLD, HANDLER).unwrap();
    let child = world.job(&parent);
    let next = || match parent.take_signal() {
        Some(Delivery::Handler {
            info, saved_mask, ..
        }) => {
            parent.signals().sigreturn(saved_mask);
            Some((info.code, info.pid, info.value))
        }
        None => None,
        other => panic!("{other:?}"),
    };
    child.raise(Signal::TSTP);
    assert_eq!(child.take_signal(), Some(Delivery::Stop(Signal::TSTP)));
    assert_eq!(next(), Some((SigCode::ChildStopped, child.pid(), 20)));
    child.raise(Signal::CONT);
    assert_eq!(next(), Some((SigCode::ChildContinued, child.pid(), 18)));
    world.table.exit(
        &child,
        ExitStatus::Signal {
            signal: Signal::SEGV,
            core: true,
        },
    );
    assert_eq!(next(), Some((SigCode::ChildDumped, child.pid(), 11)));
    assert_eq!(next(), None);

    parent
        .signals()
        .set_action(
            Signal::CHLD,
            SigAction {
                flags: SaFlags::NOCLDSTOP,
                ..HANDLER
            },
        )
        .unwrap();
    let child = world.job(&parent);
    child.raise(Signal::STOP);
    assert_eq!(child.take_signal(), Some(Delivery::Stop(Signal::STOP)));
    assert_eq!(next(), None, "NOCLDSTOP");
    let all = WaitOptions::UNTRACED | WaitOptions::CONTINUED;
    let seen = world
        .table
        .wait(&parent, WaitTarget::Pid(child.pid()), all)
        .unwrap()
        .unwrap();
    assert_eq!(seen.status, WaitStatus::Stopped(Signal::STOP));
}

#[test]
fn a_temporary_mask_lasts_until_its_signals_are_taken() {
    let world = World::new();
    let p = world.shell();
    p.signals().set_action(Signal::USR1, HANDLER).unwrap();
    let blocked = SigSet::EMPTY.with(Signal::USR1);
    p.signals().change_mask(MaskHow::Set, blocked);
    p.raise(Signal::USR1);
    // The call that lets it in is interrupted at once.
    let result = proctable::poll::ppoll(&mut [], patience(), Some(SigSet::EMPTY), &p);
    assert_eq!(result, Err(Errno::EINTR));
    let Some(Delivery::Handler {
        info, saved_mask, ..
    }) = p.take_signal()
    else {
        panic!()
    };
    assert_eq!((info.signal, saved_mask), (Signal::USR1, blocked));
    p.signals().sigreturn(saved_mask);
    assert_eq!(p.signals().mask(), blocked);
    // Without a handler to run the mask is put back as well.
    p.signals().begin_temporary_mask(SigSet::EMPTY);
    assert_eq!(p.take_signal(), None);
    assert_eq!(p.signals().mask(), blocked);
    assert_eq!(
        handled({
            p.signals().change_mask(MaskHow::Set, SigSet::EMPTY);
            p.raise(Signal::USR1);
            p.take_signal()
        }),
        Signal::USR1
    );
}

#[test]
fn exec_resets_handlers_and_keeps_the_rest() {
    let world = World::new();
    let p = world.shell();
    p.signals().set_action(Signal::USR1, HANDLER).unwrap();
    p.signals()
        .set_action(Signal::USR2, SigAction::IGNORE)
        .unwrap();
    let blocked = SigSet::EMPTY.with(Signal::HUP);
    p.signals().change_mask(MaskHow::Set, blocked);
    p.raise(Signal::HUP);
    p.exec_commit(proctable::ExecImage {
        image: Default::default(),
        cred: None,
        close: vec![],
    });
    assert_eq!(p.signals().caught(), SigSet::EMPTY);
    assert_eq!(p.signals().ignored(), SigSet::EMPTY.with(Signal::USR2));
    assert_eq!(
        (p.signals().mask(), p.signals().pending()),
        (blocked, blocked)
    );
}
