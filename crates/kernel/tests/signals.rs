//! Signals as programs meet them: default actions, handlers, interrupted calls, job control.

mod common;

use common::{Machine, died, request, strings, text};
use kernel::proctable::State;
use kernel::{
    Capture, Disposition, Errno, ExitStatus, KillTarget, MaskHow, OpenFlags, Outcome, PollEvents,
    PollFd, SaFlags, Search, SigAction, SigSet, Signal, SpawnArgs, SpawnAttrs, WaitOptions,
    WaitStatus, WaitTarget,
};
use std::time::{Duration, Instant};

fn sleeper(ms: &str) -> SpawnArgs<'static> {
    SpawnArgs {
        path: b"sleep",
        search: Search::Env,
        argv: strings(&["sleep", ms]),
        env: strings(&["PATH=/usr/local/bin"]),
        cwd: None,
        actions: Vec::new(),
        attrs: SpawnAttrs::default(),
    }
}

fn killed(signal: Signal) -> ExitStatus {
    let core = signal.default_action() == kernel::proctable::DefaultAction::Core;
    ExitStatus::Signal { signal, core }
}

#[test]
fn a_blocked_call_and_a_busy_loop_end_by_every_fatal_signal() {
    let machine = Machine::new();
    for signal in [
        Signal::HUP,
        Signal::INT,
        Signal::QUIT,
        Signal::TERM,
        Signal::KILL,
        Signal::USR1,
        Signal::ALRM,
    ] {
        for (command, args) in [("sleep", &["60000"][..]), ("spin", &[])] {
            let child = machine.spawn(command, args);
            child.kill(signal).unwrap();
            assert_eq!(child.wait(), killed(signal), "{command}");
        }
    }
}

#[test]
fn ignored_signals_change_nothing() {
    let machine = Machine::new();
    let child = machine.spawn("sleep", &["60000"]);
    for signal in [Signal::CHLD, Signal::URG, Signal::WINCH, Signal::CONT] {
        child.kill(signal).unwrap();
    }
    assert_eq!(child.wait_timeout(Duration::from_millis(20)), None);
    child.kill(Signal::TERM).unwrap();
    assert_eq!(child.wait(), killed(Signal::TERM));
    assert_eq!(child.kill(Signal::TERM), Err(Errno::ESRCH));
}

#[test]
fn stop_and_continue() {
    let machine = Machine::new();
    let output = machine.run(|task| {
        let pid = task.spawn(sleeper("60000")).unwrap();
        let kill = |signal: Signal| task.kill(pid as i32, signal.number().into()).unwrap();
        let wait = |options| {
            task.wait(WaitTarget::Pid(pid), options)
                .unwrap()
                .unwrap()
                .status
        };
        kill(Signal::STOP);
        assert_eq!(
            wait(WaitOptions::UNTRACED),
            WaitStatus::Stopped(Signal::STOP)
        );
        let stat = common::read_path(task, &format!("/proc/{pid}/stat")).unwrap();
        assert!(stat.contains(") T "), "{stat}");
        kill(Signal::CONT);
        assert_eq!(wait(WaitOptions::CONTINUED), WaitStatus::Continued);
        // The sleep goes on where it was; had it failed, the program would end with 99.
        task.nanosleep(Duration::from_millis(20)).unwrap();
        kill(Signal::TERM);
        assert_eq!(
            wait(WaitOptions::empty()),
            WaitStatus::Exited(killed(Signal::TERM))
        );
        Outcome::Exit(0)
    });
    assert_eq!(output.status, ExitStatus::Code(0));
}

#[test]
fn a_stopped_process_dies_by_kill_alone() {
    let machine = Machine::new();
    let child = machine.spawn("spin", &[]);
    child.kill(Signal::STOP).unwrap();
    while child.process().state() != State::Stopped {
        std::thread::yield_now();
    }
    child.kill(Signal::TERM).unwrap();
    assert_eq!(child.wait_timeout(Duration::from_millis(20)), None);
    child.kill(Signal::KILL).unwrap();
    assert_eq!(child.wait(), killed(Signal::KILL));
}

#[test]
fn caught_signals_interrupt_and_run_with_their_mask() {
    let machine = Machine::new();
    let output = machine.run(|task| {
        let action = SigAction {
            disposition: Disposition::Handler,
            mask: SigSet::EMPTY.with(Signal::USR2),
            flags: SaFlags::RESTART | SaFlags::RESETHAND,
        };
        task.sigaction(Signal::ALRM, Some(action)).unwrap();
        task.setitimer(Duration::from_millis(5), Duration::ZERO);
        assert_eq!(task.nanosleep(Duration::from_secs(60)), Err(Errno::EINTR));
        task.checkpoint().unwrap();
        let call = task.next_handler().unwrap();
        assert_eq!(call.signal, Signal::ALRM);
        assert!(call.restarts());
        assert_eq!(
            task.sigmask(),
            SigSet::EMPTY.with(Signal::ALRM).with(Signal::USR2)
        );
        task.end_handler(call);
        assert_eq!(task.sigmask(), SigSet::EMPTY);
        assert!(task.next_handler().is_none());
        assert_eq!(
            task.sigaction(Signal::ALRM, None).unwrap().disposition,
            Disposition::Default
        );
        Outcome::Exit(0)
    });
    assert_eq!(output.status, ExitStatus::Code(0));
}

#[test]
fn blocked_signals_wait_and_a_poll_can_let_them_in() {
    let machine = Machine::new();
    let output = machine.run(|task| {
        let usr1 = SigSet::EMPTY.with(Signal::USR1);
        task.sigaction(
            Signal::USR1,
            Some(SigAction {
                disposition: Disposition::Handler,
                ..SigAction::DEFAULT
            }),
        )
        .unwrap();
        task.sigprocmask(MaskHow::Block, usr1);
        task.kill(task.pid() as i32, Signal::USR1.number().into())
            .unwrap();
        assert_eq!(task.sigpending(), usr1);
        assert!(task.next_handler().is_none());
        assert_eq!(
            task.poll(&mut [], Some(Duration::from_millis(1)), None),
            Ok(0)
        );
        assert_eq!(
            task.poll(&mut [], None, Some(SigSet::EMPTY)),
            Err(Errno::EINTR)
        );
        let call = task.next_handler().unwrap();
        assert_eq!(call.signal, Signal::USR1);
        task.end_handler(call);
        assert_eq!(task.sigmask(), usr1);
        Outcome::Exit(0)
    });
    assert_eq!(output.status, ExitStatus::Code(0));
}

#[test]
fn a_writer_without_readers_gets_sigpipe() {
    let machine = Machine::new();
    let output = machine.run(|task| {
        let (read, write) = task.pipe2(OpenFlags::empty()).unwrap();
        task.close(read).unwrap();
        task.sigaction(Signal::PIPE, Some(SigAction::IGNORE))
            .unwrap();
        assert_eq!(task.write(write, b"x"), Err(Errno::EPIPE));
        task.checkpoint().unwrap();
        task.sigaction(Signal::PIPE, Some(SigAction::DEFAULT))
            .unwrap();
        assert_eq!(task.write(write, b"x"), Err(Errno::EPIPE));
        died(task)
    });
    assert_eq!(output.status, killed(Signal::PIPE));
}

#[test]
fn yes_ends_when_its_reader_does() {
    let machine = Machine::new();
    let output = machine.run(|task| {
        let (read, write) = task.pipe2(OpenFlags::CLOEXEC).unwrap();
        let pid = task
            .spawn(SpawnArgs {
                path: b"yes",
                argv: strings(&["yes"]),
                actions: vec![kernel::FileAction::Dup2 { from: write, to: 1 }],
                ..sleeper("0")
            })
            .unwrap();
        task.close(write).unwrap();
        let mut buf = [0; 2];
        assert_eq!(task.read(read, &mut buf), Ok(2));
        task.close(read).unwrap();
        let event = task
            .wait(WaitTarget::Pid(pid), WaitOptions::empty())
            .unwrap()
            .unwrap();
        assert_eq!(event.status, WaitStatus::Exited(killed(Signal::PIPE)));
        Outcome::Exit(0)
    });
    assert_eq!(output.status, ExitStatus::Code(0));
}

#[test]
fn signals_reach_groups_and_respect_users() {
    let machine = Machine::new();
    let output = machine.run(|task| {
        let spawn = |pgroup| {
            let attrs = SpawnAttrs {
                pgroup: Some(pgroup),
                ..SpawnAttrs::default()
            };
            task.spawn(SpawnArgs {
                attrs,
                ..sleeper("60000")
            })
            .unwrap()
        };
        let leader = spawn(0);
        let other = spawn(leader);
        assert_eq!(
            (task.getpgid(leader as i32), task.getpgid(other as i32)),
            (Ok(leader), Ok(leader))
        );
        assert_eq!(task.kill(-(leader as i32), 0), Ok(()));
        task.kill(-(leader as i32), Signal::TERM.number().into())
            .unwrap();
        for _ in 0..2 {
            let event = task
                .wait(WaitTarget::Group(leader), WaitOptions::empty())
                .unwrap()
                .unwrap();
            assert_eq!(event.status, WaitStatus::Exited(killed(Signal::TERM)));
        }
        assert_eq!(task.kill(-(leader as i32), 0), Err(Errno::ESRCH));
        assert_eq!(
            task.kill(1, Signal::KILL.number().into()),
            Err(Errno::EPERM)
        );
        assert_eq!(task.kill(task.pid() as i32, 65), Err(Errno::EINVAL));
        Outcome::Exit(0)
    });
    assert_eq!(
        output.status,
        ExitStatus::Code(0),
        "{}",
        text(&output.stderr.bytes)
    );
}

#[test]
fn a_fruitless_wait_is_parked_and_a_child_that_ends_is_seen() {
    let machine = Machine::new();
    let output = machine.run(|task| {
        let pid = task.spawn(sleeper("30")).unwrap();
        let mut polls = 0;
        while task
            .wait(WaitTarget::Pid(pid), WaitOptions::NOHANG)
            .unwrap()
            .is_none()
        {
            polls += 1;
        }
        print!(task, "{}", polls < 1000);
        Outcome::Exit(0)
    });
    assert_eq!(text(&output.stdout.bytes), "true");
}

#[test]
fn poll_sees_pipes_and_times_out() {
    let machine = Machine::new();
    let output = machine.run(|task| {
        let (read, write) = task.pipe2(OpenFlags::empty()).unwrap();
        let mut fds = [
            PollFd {
                fd: read,
                events: PollEvents::IN,
                revents: PollEvents::empty(),
            },
            PollFd {
                fd: write,
                events: PollEvents::OUT,
                revents: PollEvents::empty(),
            },
            PollFd {
                fd: 77,
                events: PollEvents::IN,
                revents: PollEvents::empty(),
            },
            PollFd {
                fd: -1,
                events: PollEvents::IN,
                revents: PollEvents::IN,
            },
        ];
        assert_eq!(task.poll(&mut fds, None, None), Ok(2));
        assert_eq!(
            fds.map(|fd| fd.revents),
            [
                PollEvents::empty(),
                PollEvents::OUT,
                PollEvents::NVAL,
                PollEvents::empty()
            ]
        );
        assert_eq!(
            task.poll(&mut fds[..1], Some(Duration::from_millis(2)), None),
            Ok(0)
        );
        task.write(write, b"x").unwrap();
        assert_eq!(task.poll(&mut fds[..1], None, None), Ok(1));
        task.close(write).unwrap();
        task.read(read, &mut [0]).unwrap();
        assert_eq!(task.poll(&mut fds[..1], None, None), Ok(1));
        assert_eq!(fds[0].revents, PollEvents::HUP);
        Outcome::Exit(0)
    });
    assert_eq!(output.status, ExitStatus::Code(0));
}

#[test]
fn a_timeout_kills_the_whole_tree_and_keeps_what_was_printed() {
    let machine = Machine::new();
    machine.program("forker", |task| {
        for setsid in [false, true] {
            let attrs = SpawnAttrs {
                setsid,
                ..SpawnAttrs::default()
            };
            task.spawn(SpawnArgs {
                attrs,
                ..sleeper("60000")
            })
            .unwrap();
        }
        print!(task, "partial");
        task.nanosleep(Duration::from_secs(60)).ok();
        died(task)
    });
    let capture = Capture {
        timeout: Some(Duration::from_millis(50)),
        ..Capture::default()
    };
    let output = machine
        .vm
        .output(&request("forker", &[]), &capture)
        .unwrap();
    assert!(output.timed_out);
    assert_eq!(text(&output.stdout.bytes), "partial");
    assert_eq!(output.status, killed(Signal::KILL));
    let deadline = Instant::now() + Duration::from_secs(10);
    while machine.vm.processes().len() > 1 {
        assert!(Instant::now() < deadline, "{:?}", machine.vm.processes());
        std::thread::yield_now();
    }
}

#[test]
fn the_host_signals_what_guests_started() {
    let machine = Machine::new();
    machine.program("parent", |task| {
        let pid = task.spawn(sleeper("60000")).unwrap();
        let event = task
            .wait(WaitTarget::Pid(pid), WaitOptions::empty())
            .unwrap()
            .unwrap();
        print!(task, "{:?}", event.status.raw());
        Outcome::Exit(0)
    });
    let vm = machine.vm.clone();
    let host = std::thread::spawn(move || {
        loop {
            let sleeping = vm.processes().into_iter().find(|p| p.comm == b"sleep");
            if let Some(process) = sleeping {
                return vm.kill(KillTarget::Pid(process.pid), Signal::INT).unwrap();
            }
            std::thread::yield_now();
        }
    });
    assert_eq!(text(&machine.output("parent", &[]).stdout.bytes), "2");
    host.join().unwrap();
}
