//! Limits end in typed errors and in events that name them.

mod common;

use common::{Machine, died, request, strings, text};
use kernel::{
    Capture, Dir, Errno, Event, EventQueue, ExitStatus, FileAction, Limits, OpenFlags, Outcome,
    Search, SigAction, Signal, SpawnArgs, SpawnAttrs, VmConfig, WaitOptions, WaitTarget,
};
use std::sync::Arc;
use std::time::{Duration, Instant};

fn limited(settings: &[&str]) -> (Machine, Arc<EventQueue>) {
    let mut limits = Limits::default();
    for setting in settings {
        limits.set_text(setting).unwrap();
    }
    let events = Arc::new(EventQueue::new(10_000));
    let machine = Machine::with(VmConfig {
        limits,
        events: Some(events.clone()),
        ..VmConfig::default()
    });
    (machine, events)
}

fn reached(events: &EventQueue) -> Vec<&'static str> {
    let mut names = Vec::new();
    while let Some(event) = events.pop() {
        if let Event::LimitReached { name, .. } = event
            && !names.contains(&name)
        {
            names.push(name);
        }
    }
    names
}

fn child(path: &'static [u8], argv: &[&str]) -> SpawnArgs<'static> {
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
fn a_fork_bomb_ends_in_an_error_and_another_vm_does_not_notice() {
    let (machine, events) = limited(&["processes=100"]);
    machine.program("bomb", |task| {
        loop {
            match task.spawn(child(b"bomb", &["bomb"])) {
                Ok(_) => {}
                Err(Errno::EAGAIN) => return Outcome::Exit(0),
                Err(_) => return Outcome::Exit(1),
            }
        }
    });
    let other = Machine::new();
    let bomb = machine.spawn("bomb", &[]);
    let started = std::time::Instant::now();
    let mut runs = 0;
    let mut stopped = false;
    while runs < 20 || !stopped {
        assert_eq!(other.output("true", &[]).status, ExitStatus::Code(0));
        runs += 1;
        stopped |= reached(&events).contains(&"processes");
        assert!(
            started.elapsed().as_secs() < 60,
            "the limit was never reached"
        );
    }
    bomb.kill_tree();
    bomb.wait();
}

#[test]
fn descriptors_run_out() {
    let (machine, events) = limited(&["descriptors=50"]);
    let output = machine.run(|task| {
        let mut opened = 0;
        loop {
            match task.dup(0) {
                Ok(_) => opened += 1,
                Err(error) => {
                    print!(task, "{opened} {error:?}");
                    return Outcome::Exit(0);
                }
            }
        }
    });
    assert_eq!(text(&output.stdout.bytes), "47 EMFILE");
    let mut warned = false;
    while let Some(event) = events.pop() {
        warned |= matches!(
            event,
            Event::LimitWarning {
                name: "descriptors",
                used: 40,
                limit: 50
            }
        );
    }
    assert!(warned);
}

#[test]
fn cpu_time_ends_a_busy_loop() {
    let (machine, events) = limited(&["process.cpu_seconds=1"]);
    let output = machine.output("spin", &[]);
    assert_eq!(
        output.status,
        ExitStatus::Signal {
            signal: Signal::XCPU,
            core: true
        }
    );
    assert!(reached(&events).contains(&"process.cpu_seconds"));
}

#[test]
fn file_size_raises_a_signal_or_an_error() {
    let (machine, events) = limited(&["process.file_bytes=10"]);
    let output = machine.run(|task| {
        task.sigaction(Signal::XFSZ, Some(SigAction::IGNORE))
            .unwrap();
        let fd = task
            .openat(
                Dir::Cwd,
                b"/tmp/f",
                OpenFlags::CREAT | OpenFlags::RDWR,
                0o600,
            )
            .unwrap();
        assert_eq!(task.write(fd, b"0123456789abc"), Ok(10));
        assert_eq!(task.write(fd, b"x"), Err(Errno::EFBIG));
        assert_eq!(task.pwrite(fd, b"xyz", 8), Ok(2));
        assert_eq!(task.ftruncate(fd, 11), Err(Errno::EFBIG));
        assert_eq!(task.ftruncate(fd, 3), Ok(()));
        task.sigaction(Signal::XFSZ, Some(SigAction::DEFAULT))
            .unwrap();
        assert_eq!(task.pwrite(fd, b"x", 10), Err(Errno::EFBIG));
        died(task)
    });
    assert_eq!(
        output.status,
        ExitStatus::Signal {
            signal: Signal::XFSZ,
            core: true
        }
    );
    assert!(reached(&events).contains(&"process.file_bytes"));
}

#[test]
fn memory_of_a_process_is_bounded_and_shown() {
    let (machine, _events) = limited(&["process.memory_bytes=1M"]);
    let output = machine.run(|task| {
        assert_eq!(task.memory_limit(), 1 << 20);
        assert!(task.charge_memory(1 << 20));
        assert!(!task.charge_memory((1 << 20) + 1));
        let status = common::read_path(task, "/proc/self/status").unwrap();
        assert!(status.contains("VmRSS:\t    1024 kB"), "{status}");
        assert!(task.charge_memory(0));
        Outcome::Exit(0)
    });
    assert_eq!(output.status, ExitStatus::Code(0));
}

#[test]
fn a_vm_out_of_memory_says_so() {
    let (machine, events) = limited(&["vm.memory_bytes=1M"]);
    let output = machine.run(|task| {
        // A part is charged when another process takes the rest.
        assert!(task.charge_memory(900 << 10));
        assert!(!task.charge_memory(2 << 20));
        Outcome::Exit(0)
    });
    assert_eq!(output.status, ExitStatus::Code(0));
    assert_eq!(reached(&events), ["vm.memory_bytes"]);
    // All of it was given back.
    let output = machine.run(|task| Outcome::Exit(i32::from(!task.charge_memory(1 << 20))));
    assert_eq!(output.status, ExitStatus::Code(0));
}

#[test]
fn the_writable_layer_is_bounded() {
    let (machine, events) = limited(&["fs.bytes=1M", "fs.inodes=100"]);
    let output = machine.run(|task| {
        let fd = task
            .openat(
                Dir::Cwd,
                b"/tmp/big",
                OpenFlags::CREAT | OpenFlags::WRONLY,
                0o600,
            )
            .unwrap();
        let mut written = 0;
        let error = loop {
            match task.write(fd, &[1; 10_000]) {
                Ok(n) => written += n,
                Err(error) => break error,
            }
        };
        assert_eq!(error, Errno::ENOSPC);
        assert!((900_000..=1 << 20).contains(&written), "{written}");
        let mut made = 0;
        while task
            .mkdirat(Dir::Cwd, format!("/tmp/d{made}").as_bytes(), 0o700)
            .is_ok()
        {
            made += 1;
            assert!(made < 100);
        }
        Outcome::Exit(0)
    });
    assert_eq!(output.status, ExitStatus::Code(0));
    let reached = reached(&events);
    assert!(
        reached.contains(&"fs.bytes") && reached.contains(&"fs.inodes"),
        "{reached:?}"
    );
}

#[test]
fn a_pipe_nobody_can_drain_grows_to_its_limit() {
    let (machine, events) = limited(&["pipe.max_bytes=1M"]);
    machine.program("writer", |task| {
        let mut written = 0;
        loop {
            match task.write(1, &[0; 65536]) {
                Ok(n) => written += n,
                Err(error) => {
                    common::write_all(task, 2, format!("{} {error:?}", written >> 16).as_bytes());
                    return Outcome::Exit(0);
                }
            }
        }
    });
    let output = machine.run(|task| {
        // As the published shell does: the pipe is read only when the child has ended.
        let (read, write) = task.pipe2(OpenFlags::CLOEXEC).unwrap();
        let actions = vec![FileAction::Dup2 { from: write, to: 1 }];
        task.spawn(SpawnArgs {
            actions,
            ..child(b"writer", &["writer"])
        })
        .unwrap();
        task.close(write).unwrap();
        task.wait(WaitTarget::Any, WaitOptions::empty()).unwrap();
        print!(task, "{}", common::read_all(task, read).unwrap().len());
        Outcome::Exit(0)
    });
    assert_eq!(text(&output.stderr.bytes), "16 ENOSPC");
    assert_eq!(text(&output.stdout.bytes), (1 << 20).to_string());
    assert!(reached(&events).contains(&"pipe.max_bytes"));
}

#[test]
fn a_pipe_whose_reader_is_slow_does_not_grow() {
    let machine = Machine::new();
    machine.program("slow", |task| {
        while task.readable_bytes(0).unwrap() < 65536 {
            task.sched_yield();
        }
        task.nanosleep(Duration::from_millis(100)).unwrap();
        print!(task, "{}", task.readable_bytes(0).unwrap());
        Outcome::Exit(0)
    });
    let output = machine.run(|task| {
        let (read, write) = task.pipe2(OpenFlags::CLOEXEC).unwrap();
        let to = |from, to| vec![FileAction::Dup2 { from, to }];
        task.spawn(SpawnArgs {
            actions: to(write, 1),
            ..child(b"yes", &["yes"])
        })
        .unwrap();
        task.spawn(SpawnArgs {
            actions: to(read, 0),
            ..child(b"slow", &["slow"])
        })
        .unwrap();
        task.close(read).unwrap();
        task.close(write).unwrap();
        while task.wait(WaitTarget::Any, WaitOptions::empty()).is_ok() {}
        Outcome::Exit(0)
    });
    assert_eq!(text(&output.stdout.bytes), "65536");
}

#[test]
fn captured_output_is_bounded_and_says_what_was_dropped() {
    let machine = Machine::new();
    machine.program("much", |task| {
        for _ in 0..100 {
            common::write_all(task, 1, &[b'o'; 10_000]);
        }
        common::write_all(task, 2, b"ERR");
        Outcome::Exit(3)
    });
    let capture = Capture {
        stdout_bytes: Some(64 << 10),
        ..Capture::default()
    };
    let output = machine.vm.output(&request("much", &[]), &capture).unwrap();
    assert_eq!(output.status, ExitStatus::Code(3));
    assert_eq!(
        (
            output.stdout.bytes.len(),
            output.stdout.dropped,
            output.stdout.truncated()
        ),
        (65_536, 1_000_000 - 65_536, true)
    );
    assert_eq!(
        (
            text(&output.stderr.bytes).as_str(),
            output.stderr.truncated()
        ),
        ("ERR", false)
    );
    let capture = Capture {
        stdout_bytes: Some(1_000_000),
        ..Capture::default()
    };
    let output = machine.vm.output(&request("much", &[]), &capture).unwrap();
    assert_eq!(
        (output.stdout.bytes.len(), output.stdout.truncated()),
        (1_000_000, false)
    );
}

#[test]
fn an_endless_printer_is_cut_by_its_timeout() {
    let machine = Machine::new();
    let capture = Capture {
        stdout_bytes: Some(1000),
        timeout: Some(Duration::from_millis(50)),
        ..Capture::default()
    };
    let begun = Instant::now();
    let output = machine.vm.output(&request("yes", &[]), &capture).unwrap();
    assert!(output.timed_out && output.stdout.truncated());
    assert_eq!(output.stdout.bytes.len(), 1000);
    assert!(begun.elapsed() < Duration::from_secs(30));
}

#[test]
fn limits_of_packages_are_those_of_the_projection() {
    let (ours, theirs) = (Limits::default(), pkg_projection::Options::default());
    assert_eq!(
        (ours.packages, ours.package_links),
        (theirs.max_packages, theirs.max_links)
    );
}

#[test]
fn the_document_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/limits.md");
    let text = kernel::limits::markdown();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        written == text,
        "docs/limits.md is old: UPDATE_DOCS=1 cargo test -p kernel --test limits the_document"
    );
}
