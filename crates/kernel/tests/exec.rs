//! Replacing the process image, point by point.

mod common;

use common::{Machine, read_path, strings, text};
use kernel::{Dir, Errno, ExitStatus, OpenFlags, Outcome, Search, SigAction, SigSet, Signal, Task};
use kernel::{Disposition, MaskHow, SaFlags};
use std::rc::Rc;

fn exec(task: &Rc<Task>, path: &str, argv: &[&str], env: &[&str]) -> Outcome {
    match task.exec(path.as_bytes(), strings(argv), strings(env), &[]) {
        Ok(_) => Outcome::Exec,
        Err(error) => {
            print!(task, "exec: {error:?}");
            Outcome::Exit(126)
        }
    }
}

#[test]
fn arguments_and_environment_are_exact() {
    let machine = Machine::new();
    machine.program("show", |task| {
        for arg in task.argv().iter().chain(task.environ().iter()) {
            print!(task, "[{}]", text(arg));
        }
        Outcome::Exit(0)
    });
    let output = machine.run(|task| {
        exec(
            task,
            "/usr/local/bin/show",
            &["", "a", ""],
            &["X=1", "odd", "X=2"],
        )
    });
    assert_eq!(text(&output.stdout.bytes), "[][a][][X=1][odd][X=2]");
    // Linux gives an empty list an empty zeroth argument.
    let output = machine.run(|task| exec(task, "/usr/local/bin/show", &[], &[]));
    assert_eq!(text(&output.stdout.bytes), "[]");
}

#[test]
fn what_survives_and_what_does_not() {
    let machine = Machine::new();
    fn describe(task: &Task) -> String {
        let mut fds: Vec<_> = (0..20).filter(|fd| task.file(*fd).is_ok()).collect();
        fds.sort();
        format!(
            "pid {} ppid {} pgid {} sid {} cwd {} umask {:o} mask {:?} pending {:?} fds {fds:?} usr1 {:?} usr2 {:?}\n",
            task.pid(),
            task.ppid(),
            task.pgid(),
            task.sid(),
            text(&task.cwd()),
            task.umask(None),
            task.sigmask(),
            task.sigpending(),
            task.sigaction(Signal::USR1, None).unwrap().disposition,
            task.sigaction(Signal::USR2, None).unwrap().disposition,
        )
    }
    machine.program("describe", |task| {
        print!(task, "{}", describe(task));
        Outcome::Exit(0)
    });
    let output = machine.run(|task| {
        task.chdir(b"/tmp").unwrap();
        task.umask(Some(0o027));
        let open = |flags| task.openat(Dir::Cwd, b"/etc/passwd", flags, 0).unwrap();
        let kept = open(OpenFlags::empty());
        let closed = open(OpenFlags::CLOEXEC);
        assert_eq!(task.dup2(kept, 9), Ok(9));
        assert_eq!(task.dup3(kept, 10, true), Ok(10));
        task.lseek(9, 7, kernel::Whence::Set).unwrap();
        let handler = SigAction {
            disposition: Disposition::Handler,
            mask: SigSet::EMPTY,
            flags: SaFlags::RESTART,
        };
        task.sigaction(Signal::USR1, Some(handler)).unwrap();
        task.sigaction(Signal::USR2, Some(SigAction::IGNORE))
            .unwrap();
        task.sigprocmask(
            MaskHow::Set,
            SigSet::EMPTY.with(Signal::HUP).with(Signal::USR1),
        );
        task.kill(task.pid() as i32, Signal::HUP.number().into())
            .unwrap();
        let mut expected = describe(task);
        expected = expected
            .replace(&format!("{closed}, "), "")
            .replace(", 10", "")
            .replace("usr1 Handler", "usr1 Default");
        print!(task, "{expected}");
        exec(task, "/usr/local/bin/describe", &["describe"], &[])
    });
    let printed = text(&output.stdout.bytes);
    let lines: Vec<_> = printed.lines().collect();
    assert_eq!(lines.len(), 2, "{printed}");
    assert_eq!(lines[0], lines[1]);
    assert!(
        lines[0].contains("usr2 Ignore") && lines[0].contains("SIGHUP"),
        "{printed}"
    );
}

#[test]
fn the_path_is_literal() {
    let machine = Machine::new();
    let output = machine.run(|task| {
        assert_eq!(
            task.exec(
                b"true",
                strings(&["true"]),
                strings(&["PATH=/usr/local/bin"]),
                &[]
            )
            .err(),
            Some(Errno::ENOENT)
        );
        assert_eq!(
            task.exec(b"", vec![], vec![], &[]).err(),
            Some(Errno::ENOENT)
        );
        task.chdir(b"/usr/local/bin").unwrap();
        exec(task, "args", &["args", "found"], &[])
    });
    assert_eq!(text(&output.stdout.bytes), "[args][found]");
    let output = machine.run(|task| {
        let env = strings(&["PATH=/nowhere:/usr/local/bin"]);
        match task.exec_search(b"args", Search::Env, strings(&["zero"]), env, &[]) {
            Ok(_) => Outcome::Exec,
            Err(_) => Outcome::Exit(1),
        }
    });
    assert_eq!(text(&output.stdout.bytes), "[zero]");
}

#[test]
fn a_failed_exec_changes_nothing() {
    let machine = Machine::new();
    machine.script("/usr/local/bin/plain", "no header");
    machine.script("/usr/local/bin/loop", "#!/usr/local/bin/loop\n");
    machine.script("/usr/local/bin/lost", "#!/no/such/file\n");
    machine
        .vm
        .write_file(b"/tmp/noexec", b"\0aostrue\n", 0o644)
        .unwrap();
    let output = machine.run(|task| {
        let fd = task
            .openat(Dir::Cwd, b"/etc/passwd", OpenFlags::CLOEXEC, 0)
            .unwrap();
        let handler = SigAction {
            disposition: Disposition::Handler,
            ..SigAction::DEFAULT
        };
        task.sigaction(Signal::USR1, Some(handler)).unwrap();
        let argv = task.argv();
        for (path, error) in [
            ("/missing", Errno::ENOENT),
            ("/tmp", Errno::EACCES),
            ("/tmp/noexec", Errno::EACCES),
            ("/usr/local/bin/plain", Errno::ENOEXEC),
            ("/usr/local/bin/loop", Errno::ELOOP),
            ("/usr/local/bin/lost", Errno::ENOENT),
        ] {
            assert_eq!(
                task.exec(path.as_bytes(), strings(&["x"]), vec![], &[fd])
                    .err(),
                Some(error),
                "{path}"
            );
        }
        assert!(task.file(fd).is_ok());
        assert_eq!(task.argv(), argv);
        assert_eq!(
            task.sigaction(Signal::USR1, None).unwrap().disposition,
            Disposition::Handler
        );
        assert_eq!(read_path(task, "/proc/self/comm").unwrap(), "test-main\n");
        Outcome::Exit(0)
    });
    assert_eq!(output.status, ExitStatus::Code(0));
}

#[test]
fn a_script_and_a_program_exec_each_other() {
    let machine = Machine::new();
    machine.program("again", |task| {
        let argv = task.argv();
        match argv.len() {
            5.. => {
                print!(task, "{} {}", task.pid(), argv.len());
                Outcome::Exit(0)
            }
            _ => {
                let mut next: Vec<Vec<u8>> = argv.to_vec();
                next[0] = b"/tmp/s".to_vec();
                match task.exec(b"/tmp/s", next, Vec::new(), &[]) {
                    Ok(_) => Outcome::Exec,
                    Err(_) => Outcome::Exit(1),
                }
            }
        }
    });
    machine.script("/tmp/s", "#!/usr/local/bin/again\n");
    let mut child = machine
        .vm
        .spawn(&kernel::SpawnRequest {
            stdio: [
                kernel::Stdio::Null,
                kernel::Stdio::Pipe,
                kernel::Stdio::Null,
            ],
            ..common::request("again", &[])
        })
        .unwrap();
    let mut printed = String::new();
    std::io::Read::read_to_string(child.stdout.as_mut().unwrap(), &mut printed).unwrap();
    assert_eq!(printed, format!("{} 5", child.pid()));
    assert_eq!(child.wait(), ExitStatus::Code(0));
}

#[test]
fn exec_by_descriptor() {
    let machine = Machine::new();
    machine.script("/tmp/s", "#!/usr/local/bin/args\n");
    let output = machine.run(|task| {
        let script = task
            .openat(Dir::Cwd, b"/tmp/s", OpenFlags::CLOEXEC, 0)
            .unwrap();
        assert_eq!(
            task.fexec(script, strings(&["x"]), vec![], &[]).err(),
            Some(Errno::ENOENT)
        );
        let dir = task
            .openat(Dir::Cwd, b"/tmp", OpenFlags::empty(), 0)
            .unwrap();
        assert_eq!(
            task.fexec(dir, strings(&["x"]), vec![], &[]).err(),
            Some(Errno::EACCES)
        );
        let program = task
            .openat(Dir::Cwd, b"/usr/local/bin/args", OpenFlags::CLOEXEC, 0)
            .unwrap();
        match task.fexec(program, strings(&["x", "y"]), vec![], &[]) {
            Ok(_) => Outcome::Exec,
            Err(_) => Outcome::Exit(1),
        }
    });
    assert_eq!(text(&output.stdout.bytes), "[x][y]");
    let output = machine.run(|task| {
        let script = task
            .openat(Dir::Cwd, b"/tmp/s", OpenFlags::empty(), 0)
            .unwrap();
        match task.fexec(script, strings(&["x", "y"]), vec![], &[]) {
            Ok(_) => Outcome::Exec,
            Err(_) => Outcome::Exit(1),
        }
    });
    assert_eq!(
        text(&output.stdout.bytes),
        "[/usr/local/bin/args][/dev/fd/3][y]"
    );
}

#[test]
fn set_id_programs_change_the_effective_ids_and_lose_dangerous_variables() {
    let machine = Machine::new();
    machine.program("ids", |task| {
        print!(
            task,
            "{:?} {:?} {}",
            task.getresuid(),
            task.getresgid(),
            text(&task.environ().join(&b' '))
        );
        Outcome::Exit(0)
    });
    machine.vm.chmod(b"/usr/local/bin/ids", 0o6755).unwrap();
    let output = machine.run(|task| {
        exec(
            task,
            "/usr/local/bin/ids",
            &["ids"],
            &["A=1", "LD_PRELOAD=x", "PATH=/evil"],
        )
    });
    assert_eq!(text(&output.stdout.bytes), "(1000, 0, 0) (1000, 0, 0) A=1");
}

#[test]
fn comm_and_exe_follow_the_image() {
    let machine = Machine::new();
    machine.program("look", |task| {
        let exe = task.readlinkat(Dir::Cwd, b"/proc/self/exe").unwrap();
        print!(
            task,
            "{} {}",
            read_path(task, "/proc/self/comm").unwrap().trim(),
            text(&exe)
        );
        Outcome::Exit(0)
    });
    machine.script("/tmp/a-script-with-a-long-name", "#!/usr/local/bin/look\n");
    let output = machine.run(|task| exec(task, "/tmp/a-script-with-a-long-name", &["x"], &[]));
    assert_eq!(
        text(&output.stdout.bytes),
        "a-script-with-a /usr/local/bin/look"
    );
}
