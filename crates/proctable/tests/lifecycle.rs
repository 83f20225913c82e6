//! Creation, exit, zombies, reparenting, waiting, groups and sessions.

mod common;

use common::{World, blank, eventually, patience};
use proctable::rlimit::{RLIM_INFINITY, Resource, Rlimit};
use proctable::{
    ControllingTerminal, CreateError, Delivery, Disposition, ExecImage, ExitStatus, FdTable, Image,
    KillTarget, NewGroup, Process, Rusage, SaFlags, SigAction, Signal, State, WaitOptions,
    WaitStatus, WaitTarget,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use vfs_core::errno::Errno;
use vfs_core::types::Cred;

const NONE: WaitOptions = WaitOptions::empty();

#[test]
fn a_child_inherits_and_starts_in_the_table() {
    let world = World::new();
    let parent = world.shell();
    parent.set_umask(0o077);
    parent.set_cred(Arc::new(Cred::user(5, 6)));
    let child = world.spawn(&parent);
    assert_eq!(
        (child.ppid(), child.pgid(), child.sid()),
        (parent.pid(), parent.pgid(), parent.sid())
    );
    assert_eq!(
        (child.umask(), child.cred().uid, child.tgid()),
        (0o077, 5, child.pid())
    );
    assert_eq!(world.table.children(parent.pid()), [child.pid()]);
    assert_eq!(world.table.list().len(), 3);
    assert_eq!(child.caller().pid, child.pid());
    assert!(child.started_at().sec > 0 && child.started().elapsed() < common::PATIENCE);
}

#[test]
fn statuses_keep_codes_and_signals_apart() {
    let world = World::new();
    let parent = world.shell();
    let killed = ExitStatus::Signal {
        signal: Signal::KILL,
        core: false,
    };
    let dumped = ExitStatus::Signal {
        signal: Signal::SEGV,
        core: true,
    };
    for (status, raw, shell) in [
        (ExitStatus::Code(0), 0, 0),
        (ExitStatus::Code(137), 137 << 8, 137),
        (killed, 9, 137),
        (dumped, 11 | 0x80, 139),
    ] {
        let child = world.spawn(&parent);
        world.table.exit(&child, status);
        assert_eq!(child.state(), State::Zombie);
        let event = world
            .table
            .wait(&parent, WaitTarget::Any, NONE)
            .unwrap()
            .unwrap();
        assert_eq!(
            (event.pid, event.status),
            (child.pid(), WaitStatus::Exited(status))
        );
        assert_eq!((event.status.raw(), status.shell_code()), (raw, shell));
        assert_eq!(
            (child.state(), child.exit_status()),
            (State::Dead, Some(status))
        );
    }
    assert_eq!(
        world.table.wait(&parent, WaitTarget::Any, NONE),
        Err(Errno::ECHILD)
    );
}

#[test]
fn wait_chooses_by_target_and_leaves_with_nowait() {
    let world = World::new();
    let parent = world.shell();
    let (a, b, c) = (
        world.spawn(&parent),
        world.job(&parent),
        world.spawn(&parent),
    );
    let wait = |target, options| world.table.wait(&parent, target, options);
    assert_eq!(wait(WaitTarget::Any, NONE), Ok(None));
    assert_eq!(
        wait(WaitTarget::Pid(parent.pid()), NONE),
        Err(Errno::ECHILD),
        "not one's own child"
    );
    assert_eq!(wait(WaitTarget::Group(9999), NONE), Err(Errno::ECHILD));
    world.exit(&c, 3);
    world.exit(&b, 2);
    assert_eq!(wait(WaitTarget::Pid(a.pid()), NONE), Ok(None));
    assert_eq!(
        wait(WaitTarget::Group(b.pid()), NONE).unwrap().unwrap().pid,
        b.pid()
    );
    assert_eq!(wait(WaitTarget::Group(b.pid()), NONE), Err(Errno::ECHILD));
    for _ in 0..2 {
        assert_eq!(
            wait(WaitTarget::Any, WaitOptions::NOWAIT)
                .unwrap()
                .unwrap()
                .pid,
            c.pid()
        );
    }
    assert_eq!(
        wait(WaitTarget::Group(parent.pgid()), NONE)
            .unwrap()
            .unwrap()
            .pid,
        c.pid()
    );
    assert_eq!(wait(WaitTarget::Any, NONE), Ok(None));
    let waitid = |options| world.table.waitid(&parent, WaitTarget::Any, options);
    assert_eq!(waitid(WaitOptions::NOHANG), Err(Errno::EINVAL));
    world.exit(&a, 1);
    assert_eq!(
        waitid(WaitOptions::CONTINUED),
        Ok(None),
        "ended is not continued"
    );
}

#[test]
fn stops_and_continuations_are_reported_once() {
    let world = World::new();
    let parent = world.shell();
    let child = world.job(&parent);
    let wait = |options| {
        world
            .table
            .wait(&parent, WaitTarget::Any, options)
            .unwrap()
            .map(|e| e.status)
    };
    let both = WaitOptions::UNTRACED | WaitOptions::CONTINUED;
    child.raise(Signal::TSTP);
    assert_eq!(child.take_signal(), Some(Delivery::Stop(Signal::TSTP)));
    assert_eq!(wait(NONE), None);
    assert_eq!(wait(WaitOptions::CONTINUED), None);
    assert_eq!(
        wait(both | WaitOptions::NOWAIT),
        Some(WaitStatus::Stopped(Signal::TSTP))
    );
    let stopped = wait(both).unwrap();
    assert_eq!(stopped.raw(), 20 << 8 | 0x7f);
    assert_eq!(wait(both), None);
    child.raise(Signal::CONT);
    assert_eq!(wait(WaitOptions::UNTRACED), None);
    assert_eq!(wait(both).map(WaitStatus::raw), Some(0xffff));
    assert_eq!(wait(both), None);
    // A stop that was continued before anybody asked is not reported any more.
    child.raise(Signal::TSTP);
    child.take_signal();
    child.raise(Signal::CONT);
    assert_eq!(wait(both), Some(WaitStatus::Continued));
}

#[test]
fn a_blocked_wait_ends_with_the_child_or_a_signal() {
    let world = World::new();
    let parent = world.shell();
    let child = world.spawn(&parent);
    let waiting = {
        let (table, parent) = (world.table.clone(), parent.clone());
        move || {
            let (table, parent) = (table.clone(), parent.clone());
            std::thread::spawn(move || {
                table.wait_blocking(&parent, WaitTarget::Any, NONE, patience())
            })
        }
    };
    let thread = waiting();
    eventually("in wait", || {
        parent.in_wait() && parent.state() == State::Sleeping
    });
    world.exit(&child, 9);
    let event = thread.join().unwrap().unwrap().unwrap();
    assert_eq!(event.status, WaitStatus::Exited(ExitStatus::Code(9)));
    assert!(!parent.in_wait());

    let _child = world.spawn(&parent);
    let thread = waiting();
    eventually("in wait", || parent.state() == State::Sleeping);
    parent.raise(Signal::INT);
    assert_eq!(thread.join().unwrap(), Err(Errno::EINTR));
    let nohang = world
        .table
        .wait_blocking(&parent, WaitTarget::Any, WaitOptions::NOHANG, None);
    assert_eq!(nohang, Ok(None));
}

#[test]
fn orphans_go_to_pid_one_which_reaps() {
    let world = World::new();
    let parent = world.shell();
    let (zombie, living) = (world.spawn(&parent), world.spawn(&parent));
    let grandchild = world.spawn(&living);
    world.exit(&zombie, 1);
    world.exit(&parent, 0);
    assert_eq!((living.ppid(), grandchild.ppid()), (1, living.pid()));
    assert!(world.table.get(zombie.pid()).is_none() && world.table.get(parent.pid()).is_none());
    world.exit(&living, 0);
    assert_eq!(grandchild.ppid(), 1);
    world.exit(&grandchild, 0);
    assert_eq!((world.table.list().len(), world.table.alive()), (1, 0));
    assert_eq!(world.table.meters().processes.used(), 0);
    for process in [zombie, living, grandchild, parent] {
        assert_eq!(
            Arc::strong_count(&process),
            1,
            "nobody holds on to {process:?}"
        );
    }
}

#[test]
fn a_parent_may_refuse_zombies() {
    for action in [
        SigAction::IGNORE,
        SigAction {
            disposition: Disposition::Default,
            flags: SaFlags::NOCLDWAIT,
            ..SigAction::DEFAULT
        },
    ] {
        let world = World::new();
        let parent = world.shell();
        parent.signals().set_action(Signal::CHLD, action).unwrap();
        let child = world.spawn(&parent);
        let waiter = {
            let (table, parent) = (world.table.clone(), parent.clone());
            std::thread::spawn(move || {
                table.wait_blocking(&parent, WaitTarget::Any, NONE, patience())
            })
        };
        eventually("asleep", || parent.state() == State::Sleeping);
        world.exit(&child, 0);
        assert_eq!(
            waiter.join().unwrap(),
            Err(Errno::ECHILD),
            "waits until none is left"
        );
        assert!(world.table.get(child.pid()).is_none());
    }
}

#[test]
fn exit_is_once_and_wakes_the_host() {
    let world = World::new();
    let p = world.shell();
    let host = {
        let p = p.clone();
        std::thread::spawn(move || p.wait_exit(patience()))
    };
    let killed = ExitStatus::Signal {
        signal: Signal::TERM,
        core: false,
    };
    world.table.exit(&p, killed);
    world.table.exit(&p, ExitStatus::Code(1));
    assert_eq!(host.join().unwrap(), Some(killed));
    assert_eq!(p.wait_exit(Some(std::time::Instant::now())), Some(killed));
    assert_eq!(world.table.alive(), 0);
    // Signals to what has ended are lost.
    p.raise(Signal::TERM);
    assert!(!p.signals().interrupted());
}

#[test]
fn a_zombie_takes_signals_and_keeps_its_pid() {
    let world = World::new();
    let parent = world.shell();
    let child = world.job(&parent);
    world.exit(&child, 0);
    assert_eq!(
        world.table.kill(
            Some(&parent),
            KillTarget::Pid(child.pid()),
            Some(Signal::KILL)
        ),
        Ok(())
    );
    assert_eq!(
        world
            .table
            .kill(Some(&parent), KillTarget::Group(child.pid()), None),
        Ok(())
    );
    let status = world
        .table
        .wait(&parent, WaitTarget::Any, NONE)
        .unwrap()
        .unwrap()
        .status;
    assert_eq!(status, WaitStatus::Exited(ExitStatus::Code(0)));
    assert_eq!(
        world
            .table
            .kill(Some(&parent), KillTarget::Pid(child.pid()), None),
        Err(Errno::ESRCH)
    );
}

#[test]
fn pids_rise_and_start_again_without_meeting_groups_and_sessions() {
    let world = World::with(|l| l.pid_max = 8);
    let shell = world.shell();
    assert_eq!(shell.pid(), 2);
    let job = world.job(&shell);
    let mut member = blank(FdTable::new());
    member.group = NewGroup::Join(job.pid());
    let member = world.table.create(&shell, member).unwrap();
    world.exit(&job, 0);
    world
        .table
        .wait(&shell, WaitTarget::Pid(job.pid()), NONE)
        .unwrap()
        .unwrap();
    // 3 is free as a process and still names a group.
    let mut seen = Vec::new();
    for _ in 0..4 {
        seen.push(world.spawn(&shell).pid());
    }
    assert_eq!(seen, [5, 6, 7, 8]);
    let full = world.table.create(&shell, blank(FdTable::new()));
    assert_eq!(full.unwrap_err(), CreateError::NoPid);
    world.exit(&member, 0);
    world
        .table
        .wait(&shell, WaitTarget::Pid(member.pid()), NONE)
        .unwrap()
        .unwrap();
    assert!([3, 4].contains(&world.spawn(&shell).pid()));
}

#[test]
fn the_process_limit_stops_a_fork_bomb_and_is_given_back() {
    let world = World::with(|l| l.processes = 10);
    let shell = world.shell();
    let children: Vec<_> = (0..9).map(|_| world.spawn(&shell)).collect();
    let refused = world
        .table
        .create(&shell, blank(FdTable::new()))
        .unwrap_err();
    assert!(matches!(refused, CreateError::Limit(l) if l.name == "processes" && l.limit == 10));
    assert_eq!(Errno::from(refused), Errno::EAGAIN);
    assert_eq!(
        world.log.take(),
        ["near processes 8/10", "reached processes"]
    );
    for child in &children {
        world.exit(child, 0);
    }
    assert!(
        world.table.create(&shell, blank(FdTable::new())).is_err(),
        "zombies count"
    );
    while let Ok(Some(_)) = world.table.wait(&shell, WaitTarget::Any, NONE) {}
    assert_eq!(world.table.meters().processes.used(), 1);
    world.spawn(&shell);
}

#[test]
fn rlimit_nproc_counts_the_processes_of_a_user() {
    let world = World::new();
    let p = world.shell();
    p.set_rlimit(Resource::Nproc, Rlimit { soft: 2, hard: 10 })
        .unwrap();
    world.spawn(&p);
    world.spawn(&p);
    p.set_cred(Arc::new(Cred::user(7, 7)));
    world.spawn(&p);
    let refused = world.table.create(&p, blank(FdTable::new())).unwrap_err();
    assert_eq!(
        (refused, Errno::from(refused)),
        (CreateError::UserLimit, Errno::EAGAIN)
    );
}

#[test]
fn rlimits_follow_setrlimit_2() {
    let world = World::new();
    let p = world.shell();
    let set = |soft, hard| p.set_rlimit(Resource::Nofile, Rlimit { soft, hard });
    assert_eq!(
        p.rlimit(Resource::Nofile),
        Rlimit {
            soft: 1024,
            hard: 4096
        }
    );
    assert_eq!(set(2, 1), Err(Errno::EINVAL));
    assert_eq!(set(5, 4097), Err(Errno::EPERM), "not even the superuser");
    assert_eq!(set(5, 100), Ok(()));
    assert_eq!(p.fds().limit(), 5);
    p.set_cred(Arc::new(Cred::user(7, 7)));
    assert_eq!(set(5, 101), Err(Errno::EPERM));
    assert_eq!(set(100, 100), Ok(()));
    assert_eq!(world.spawn(&p).fds().limit(), 100);
    let core = Rlimit {
        soft: RLIM_INFINITY,
        hard: RLIM_INFINITY,
    };
    assert_eq!(p.set_rlimit(Resource::Core, core), Ok(()));
    assert_eq!(Resource::new(7), Some(Resource::Nofile));
    assert_eq!(Resource::new(16), None);
}

#[test]
fn cpu_time_adds_up_and_its_limit_is_kept() {
    let world = World::new();
    let parent = world.shell();
    let child = world.spawn(&parent);
    let s = Duration::from_secs;
    child.add_cpu(s(2), s(1));
    world.exit(&child, 0);
    let used = Rusage {
        user: s(2),
        system: s(1),
    };
    assert_eq!(
        world
            .table
            .wait(&parent, WaitTarget::Any, NONE)
            .unwrap()
            .unwrap()
            .rusage,
        used
    );
    assert_eq!(parent.rusage(), (Rusage::default(), used));
    assert_eq!(child.cpu_time(), s(3));

    let child = world.spawn(&parent);
    child
        .set_rlimit(Resource::Cpu, Rlimit { soft: 2, hard: 3 })
        .unwrap();
    child.add_cpu(s(1), s(0));
    assert!(!child.signals().interrupted());
    child
        .signals()
        .set_action(
            Signal::XCPU,
            SigAction {
                disposition: Disposition::Handler,
                ..SigAction::DEFAULT
            },
        )
        .unwrap();
    child.add_cpu(s(0), s(1));
    assert!(
        matches!(child.take_signal(), Some(Delivery::Handler { info, .. }) if info.signal == Signal::XCPU)
    );
    child.add_cpu(s(1), s(0));
    assert!(matches!(
        child.take_signal(),
        Some(Delivery::Terminate {
            signal: Signal::KILL,
            ..
        })
    ));
}

#[test]
fn setpgid_and_setsid_follow_their_pages() {
    let world = World::new();
    let t = &world.table;
    let shell = world.shell();
    let set = |who: &Process, pid: u32, pgid: u32| t.setpgid(who, pid as i32, pgid as i32);
    assert_eq!(set(&shell, 0, 0), Err(Errno::EPERM), "a session leader");
    assert_eq!(t.setpgid(&shell, 0, -1), Err(Errno::EINVAL));
    assert_eq!(t.setpgid(&shell, -4, 0), Err(Errno::ESRCH));
    assert_eq!(t.setsid(&shell), Err(Errno::EPERM));
    let execed = world.spawn(&shell);
    assert_eq!(set(&shell, execed.pid(), 0), Err(Errno::EACCES));
    let child = world.fork(&shell);
    assert_eq!(
        set(&shell, child.pid(), 9999),
        Err(Errno::EPERM),
        "no such group"
    );
    assert_eq!(
        set(&shell, child.pid(), 1),
        Err(Errno::EPERM),
        "a group of another session"
    );
    assert_eq!(set(&shell, child.pid(), 0), Ok(()));
    assert_eq!(
        (child.pgid(), t.group_members(child.pid())),
        (child.pid(), vec![child.pid()])
    );
    let second = world.fork(&shell);
    assert_eq!(set(&second, 0, child.pid()), Ok(()));
    assert_eq!(
        set(&second, child.pid(), 0),
        Err(Errno::ESRCH),
        "neither oneself nor a child"
    );
    assert_eq!(t.setsid(&child), Err(Errno::EPERM), "leads a group");
    assert_eq!(t.setsid(&second), Ok(second.pid()));
    assert_eq!((second.sid(), second.pgid()), (second.pid(), second.pid()));
    assert_eq!(
        set(&shell, second.pid(), 0),
        Err(Errno::EPERM),
        "a child in another session"
    );
    assert_eq!(t.getpgid(&shell, child.pid() as i32), Ok(child.pid()));
    assert_eq!(t.getsid(&shell, 0), Ok(shell.sid()));
    assert_eq!(t.getsid(&shell, 9999), Err(Errno::ESRCH));
    assert_eq!(t.group_session(child.pid()), Some(shell.sid()));
    child.exec_commit(ExecImage {
        image: Image::default(),
        cred: None,
        close: vec![],
    });
    assert_eq!(set(&shell, child.pid(), shell.pid()), Err(Errno::EACCES));
    let mut stray = blank(FdTable::new());
    stray.group = NewGroup::Join(second.pid());
    assert_eq!(
        Errno::from(t.create(&shell, stray).unwrap_err()),
        Errno::EPERM
    );
}

#[test]
fn a_stopped_group_that_becomes_orphaned_is_hung_up_and_continued() {
    let world = World::new();
    let shell = world.shell();
    let job = world.job(&shell);
    job.signals()
        .set_action(
            Signal::HUP,
            SigAction {
                disposition: Disposition::Handler,
                ..SigAction::DEFAULT
            },
        )
        .unwrap();
    assert!(!world.table.is_orphaned_group(job.pid()));
    job.raise(Signal::TSTP);
    assert_eq!(job.take_signal(), Some(Delivery::Stop(Signal::TSTP)));
    world.exit(&shell, 0);
    assert_eq!(job.state(), State::Running);
    assert!(
        matches!(job.take_signal(), Some(Delivery::Handler { info, .. }) if info.signal == Signal::HUP)
    );
    assert!(world.table.is_orphaned_group(job.pid()));
    // Without a stopped member nothing happens.
    let shell = world.shell();
    let job = world.job(&shell);
    world.exit(&shell, 0);
    assert!(!job.signals().interrupted());
}

#[test]
fn a_group_is_orphaned_by_the_exit_of_the_member_that_tied_it() {
    let world = World::new();
    let shell = world.shell();
    let tie = world.job(&shell);
    let member = world.spawn(&tie);
    assert_eq!(member.pgid(), tie.pid());
    member.raise(Signal::STOP);
    assert_eq!(member.take_signal(), Some(Delivery::Stop(Signal::STOP)));
    world.exit(&tie, 0);
    assert!(member.signals().fatal(), "SIGHUP by default");
    assert!(member.signals().stopped().is_none());
}

struct Tty(AtomicU32);

impl ControllingTerminal for Tty {
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
    fn leader_exited(&self, sid: u32) {
        self.0.store(sid, Ordering::SeqCst);
    }
}

#[test]
fn a_session_loses_its_terminal_with_its_leader() {
    let world = World::new();
    let leader = world.shell();
    let member = world.spawn(&leader);
    let tty = Arc::new(Tty(AtomicU32::new(0)));
    world
        .table
        .set_terminal(leader.sid(), Some(tty.clone()))
        .unwrap();
    assert!(world.table.terminal(member.sid()).is_some());
    world.exit(&member, 0);
    assert_eq!(tty.0.load(Ordering::SeqCst), 0);
    let keeper = world.spawn(&leader);
    world.exit(&leader, 0);
    assert_eq!(tty.0.load(Ordering::SeqCst), leader.pid());
    assert!(world.table.terminal(keeper.sid()).is_none());
    assert_eq!(world.table.set_terminal(9999, None), Err(Errno::ESRCH));
    assert_eq!(Arc::strong_count(&tty), 1);
}

#[test]
fn exec_replaces_the_image_and_nothing_else() {
    let world = World::new();
    let parent = world.shell();
    let p = world.fork(&parent);
    let before = (p.pid(), p.ppid(), p.pgid(), p.sid(), p.umask());
    let image = Image {
        argv: Arc::from([vec![], b"x".to_vec()]),
        env: Arc::from([b"A=1".to_vec()]),
        comm: b"a-name-longer-than-fifteen-bytes".to_vec(),
        exe: None,
        driver: "wasm",
    };
    p.exec_commit(ExecImage {
        image,
        cred: Some(Arc::new(Cred::user(3, 3))),
        close: vec![77],
    });
    assert_eq!((p.pid(), p.ppid(), p.pgid(), p.sid(), p.umask()), before);
    assert_eq!((p.argv().len(), p.env().len(), p.driver()), (2, 1, "wasm"));
    assert_eq!((p.comm(), p.cred().euid), (b"a-name-longer-t".to_vec(), 3));
}

#[test]
fn nothing_is_made_by_the_dying_or_in_a_vm_that_ends() {
    let world = World::new();
    let shell = world.shell();
    let doomed = world.spawn(&shell);
    doomed.raise(Signal::KILL);
    assert_eq!(
        world
            .table
            .create(&doomed, blank(FdTable::new()))
            .unwrap_err(),
        CreateError::Ending
    );
    world.table.shut_down();
    assert!(shell.signals().fatal());
    assert_eq!(
        world
            .table
            .create(world.table.init(), blank(FdTable::new()))
            .unwrap_err(),
        CreateError::Ending
    );
    assert!(!world.table.wait_empty(Some(std::time::Instant::now())));
    let threads: Vec<_> = [shell, doomed]
        .map(|p| {
            let table = world.table.clone();
            std::thread::spawn(move || table.exit(&p, ExitStatus::Code(0)))
        })
        .into();
    assert!(world.table.wait_empty(patience()));
    threads.into_iter().for_each(|t| t.join().unwrap());
    assert_eq!(world.table.meters().processes.used(), 0);
}

#[test]
fn a_process_that_never_ran_can_be_taken_back() {
    let world = World::new();
    let shell = world.shell();
    let child = world.spawn(&shell);
    world.table.discard(&child);
    assert!(world.table.children(shell.pid()).is_empty());
    assert_eq!(
        world.table.wait(&shell, WaitTarget::Any, NONE),
        Err(Errno::ECHILD)
    );
    assert_eq!(
        (world.table.alive(), world.table.meters().processes.used()),
        (1, 1)
    );
    world.table.discard(&child);
    assert_eq!(world.table.alive(), 1);
}
