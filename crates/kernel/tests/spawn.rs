//! Starting, ending and collecting processes.

mod common;

use common::{Machine, request, strings, text};
use kernel::{
    Capture, Dir, Errno, ExitStatus, FileAction, LoadError, Lookup, OpenFlags, Outcome, Search,
    Signal, SpawnArgs, SpawnAttrs, SpawnError, SpawnRequest, Stdio, WaitOptions, WaitStatus,
    WaitTarget,
};
use std::io::{Read, Write};

/// What a guest's spawn of a command by name takes at least.
fn args<'a>(path: &'a [u8], argv: &[&str]) -> SpawnArgs<'a> {
    SpawnArgs {
        path,
        search: Search::Env,
        argv: strings(argv),
        env: strings(&["PATH=/usr/local/bin"]),
        cwd: None,
        actions: Vec::new(),
        attrs: SpawnAttrs::default(),
    }
}

#[test]
fn exit_codes_and_signals_are_told_apart() {
    let machine = Machine::new();
    assert_eq!(machine.output("true", &[]).status, ExitStatus::Code(0));
    assert_eq!(
        machine.output("exit", &["137"]).status,
        ExitStatus::Code(137)
    );
    assert_eq!(machine.output("exit", &["256"]).status, ExitStatus::Code(0));
    let killed = ExitStatus::Signal {
        signal: Signal::TERM,
        core: false,
    };
    assert_eq!(machine.output("kill-self", &[]).status, killed);
}

#[test]
fn output_and_errors_are_separate() {
    let machine = Machine::new();
    let output = machine.run(|task| {
        print!(task, "out {:?}", task.argv().len());
        common::write_all(task, 2, b"err");
        Outcome::Exit(3)
    });
    assert_eq!(
        (output.status, output.stdout.bytes, output.stderr.bytes),
        (ExitStatus::Code(3), b"out 1".to_vec(), b"err".to_vec())
    );
}

#[test]
fn streams_of_the_host_reach_the_process() {
    let machine = Machine::new();
    let mut child = machine
        .vm
        .spawn(&SpawnRequest {
            stdio: [Stdio::Pipe, Stdio::Pipe, Stdio::Null],
            ..request("cat", &[])
        })
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    stdin.write_all(b"late ").unwrap();
    let mut buf = [0; 5];
    Read::read_exact(&mut stdout, &mut buf).unwrap();
    assert_eq!(&buf, b"late ");
    Write::write_all(&mut stdin, b"words").unwrap();
    drop(stdin);
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "words");
    assert_eq!(child.wait(), ExitStatus::Code(0));
}

#[test]
fn without_streams_input_is_at_its_end() {
    let machine = Machine::new();
    assert_eq!(machine.spawn("cat", &[]).wait(), ExitStatus::Code(0));
    let output = machine.output("cat", &[]);
    assert_eq!(
        (output.status, output.stdout.bytes.len()),
        (ExitStatus::Code(0), 0)
    );
}

#[test]
fn a_missing_command_says_where_it_was_looked_for() {
    let machine = Machine::new();
    let error = machine.vm.spawn(&request("nope", &[])).err().unwrap();
    assert_eq!((error.errno(), error.shell_code()), (Errno::ENOENT, 127));
    assert!(error.to_string().contains("/usr/local/bin"), "{error}");
    machine
        .vm
        .write_file(b"/usr/local/bin/plain", b"text", 0o644)
        .unwrap();
    let error = machine.vm.spawn(&request("plain", &[])).err().unwrap();
    assert_eq!((error.errno(), error.shell_code()), (Errno::EACCES, 126));
    machine.script("/usr/local/bin/headerless", "echo hi\n");
    let error = machine.vm.spawn(&request("headerless", &[])).err().unwrap();
    assert_eq!((error.errno(), error.shell_code()), (Errno::ENOEXEC, 126));
}

#[test]
fn a_missing_interpreter_is_named() {
    let machine = Machine::new();
    machine.script("/usr/local/bin/s", "#!/no/such\n");
    let error = machine.vm.spawn(&request("s", &[])).err().unwrap();
    assert_eq!(error.errno(), Errno::ENOENT);
    assert!(error.to_string().contains("/no/such"), "{error}");
    assert!(matches!(
        error,
        SpawnError::Program {
            reason: LoadError::Chain(_),
            ..
        }
    ));
}

#[test]
fn scripts_run_their_interpreter() {
    let machine = Machine::new();
    machine.script("/usr/local/bin/s", "#!/usr/local/bin/args -x  y \n");
    let output = machine.output("s", &["1", "2"]);
    assert_eq!(
        text(&output.stdout.bytes),
        "[/usr/local/bin/args][-x  y][/usr/local/bin/s][1][2]"
    );
    machine.script("/tmp/outer", "#!/usr/local/bin/s\n");
    let output = machine.output("/tmp/outer", &[]);
    assert_eq!(
        text(&output.stdout.bytes),
        "[/usr/local/bin/args][-x  y][/usr/local/bin/s][/tmp/outer]"
    );
}

#[test]
fn a_guest_spawns_and_waits() {
    let machine = Machine::new();
    let output = machine.run(|task| {
        let pid = task.spawn(args(b"exit", &["exit", "7"])).unwrap();
        let event = task
            .wait(WaitTarget::Any, WaitOptions::empty())
            .unwrap()
            .unwrap();
        print!(task, "{} {:?}", event.pid == pid, event.status);
        assert_eq!(
            task.wait(WaitTarget::Any, WaitOptions::empty()),
            Err(Errno::ECHILD)
        );
        Outcome::Exit(0)
    });
    assert_eq!(
        text(&output.stdout.bytes),
        format!("true {:?}", WaitStatus::Exited(ExitStatus::Code(7)))
    );
}

#[test]
fn failures_of_a_spawn_are_errors_and_leave_no_child() {
    let machine = Machine::new();
    machine.script("/usr/local/bin/plain", "no header");
    let output = machine.run(|task| {
        for (path, error) in [
            (&b"missing"[..], Errno::ENOENT),
            (b"plain", Errno::ENOEXEC),
            (b"/tmp", Errno::EACCES),
            (b"", Errno::ENOENT),
            (b"/etc/passwd/x", Errno::ENOTDIR),
        ] {
            assert_eq!(task.spawn(args(path, &["x"])), Err(error), "{}", text(path));
        }
        let bad = SpawnArgs {
            actions: vec![FileAction::Close(77)],
            ..args(b"true", &["true"])
        };
        assert_eq!(task.spawn(bad), Err(Errno::EBADF));
        let big = SpawnArgs {
            argv: vec![vec![b'x'; 131_072]],
            ..args(b"true", &[])
        };
        assert_eq!(task.spawn(big), Err(Errno::E2BIG));
        let many = SpawnArgs {
            argv: vec![vec![b'x'; 131_000]; 20],
            ..args(b"true", &[])
        };
        assert_eq!(task.spawn(many), Err(Errno::E2BIG));
        assert_eq!(
            task.wait(WaitTarget::Any, WaitOptions::empty()),
            Err(Errno::ECHILD)
        );
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
fn file_actions_apply_in_order_to_the_child_alone() {
    let machine = Machine::new();
    let output = machine.run(|task| {
        task.mkdirat(Dir::Cwd, b"/tmp/d", 0o755).unwrap();
        let spawn = SpawnArgs {
            actions: vec![
                FileAction::Chdir(b"/tmp/d".to_vec()),
                FileAction::Open {
                    fd: 1,
                    path: b"out".to_vec(),
                    flags: OpenFlags::WRONLY | OpenFlags::CREAT,
                    perm: 0o640,
                },
                FileAction::Dup2 { from: 1, to: 9 },
                FileAction::CloseFrom(5),
            ],
            ..args(b"echo", &["echo", "hello"])
        };
        task.spawn(spawn).unwrap();
        task.wait(WaitTarget::Any, WaitOptions::empty()).unwrap();
        assert_eq!(task.file(9).err(), Some(Errno::EBADF));
        assert_eq!(
            task.fstatat(Dir::Cwd, b"/tmp/d/out", Lookup::FOLLOW)
                .unwrap()
                .perm(),
            0o640
        );
        print!(task, "{}", common::read_path(task, "/tmp/d/out").unwrap());
        Outcome::Exit(0)
    });
    assert_eq!(text(&output.stdout.bytes), "hello\n");
}

#[test]
fn the_working_directory_of_a_child_is_what_was_asked_for() {
    let machine = Machine::new();
    machine.program("pwd", |task| {
        print!(task, "{}", text(&task.cwd()));
        Outcome::Exit(0)
    });
    assert_eq!(
        text(&machine.output("pwd", &[]).stdout.bytes),
        "/home/agentos"
    );
    let request = SpawnRequest {
        cwd: Some(b"/usr/../tmp".to_vec()),
        ..request("pwd", &[])
    };
    let output = machine.vm.output(&request, &Capture::default()).unwrap();
    assert_eq!(text(&output.stdout.bytes), "/tmp");
    let request = SpawnRequest {
        cwd: Some(b"/nowhere".to_vec()),
        ..request
    };
    assert!(matches!(
        machine.vm.spawn(&request),
        Err(SpawnError::Cwd { .. })
    ));
}

#[test]
fn the_environment_is_the_vms_and_the_requests_and_nothing_of_the_host() {
    let machine = Machine::new();
    let request = SpawnRequest {
        env: strings(&["X=1", "HOME=/tmp"]),
        ..request("env", &[])
    };
    let output = machine.vm.output(&request, &Capture::default()).unwrap();
    let mut lines: Vec<_> = text(&output.stdout.bytes)
        .lines()
        .map(str::to_owned)
        .collect();
    lines.sort();
    assert_eq!(
        lines,
        [
            "HOME=/tmp",
            "LOGNAME=agentos",
            "PATH=/usr/local/sbin:/usr/local/bin:/opt/agentos/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "SHELL=/bin/sh",
            "TMPDIR=/tmp",
            "USER=agentos",
            "X=1",
        ]
    );
    let request = SpawnRequest {
        clear_env: true,
        ..request
    };
    let output = machine.vm.output(&request, &Capture::default()).unwrap();
    assert_eq!(text(&output.stdout.bytes), "X=1\nHOME=/tmp\n");
}

#[test]
fn a_panic_of_the_driver_ends_one_process() {
    let machine = Machine::new();
    let aborted = ExitStatus::Signal {
        signal: Signal::ABRT,
        core: true,
    };
    assert_eq!(machine.output("panic", &[]).status, aborted);
    assert_eq!(machine.output("true", &[]).status, ExitStatus::Code(0));
}

#[test]
fn orphans_are_given_to_the_first_process() {
    let machine = Machine::new();
    machine.program("leaver", |task| {
        let pid = task.spawn(args(b"sleep", &["sleep", "30000"])).unwrap();
        print!(task, "{pid}");
        Outcome::Exit(0)
    });
    let capture = Capture {
        until_exit: true,
        ..Capture::default()
    };
    let output = machine
        .vm
        .output(&request("leaver", &[]), &capture)
        .unwrap();
    let pid: u32 = text(&output.stdout.bytes).parse().unwrap();
    assert_eq!(machine.vm.process(pid).unwrap().ppid, 1);
    machine
        .vm
        .kill(kernel::KillTarget::Pid(pid), Signal::KILL)
        .unwrap();
    while machine.vm.process(pid).is_some() {
        std::thread::yield_now();
    }
}
