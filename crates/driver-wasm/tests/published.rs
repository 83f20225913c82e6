//! The published command packages run unchanged.

mod common;

use common::{Machine, published, text};
use driver_wasm::WasmDriver;
use kernel::proctable::{ExitStatus, Signal};

/// A machine with every published command installed.
fn machine() -> Machine {
    let machine = Machine::new();
    for (name, module) in published::commands() {
        machine.install(name, module);
    }
    machine
}

#[test]
fn one_liners() {
    let machine = machine();
    machine
        .vm
        .write_file(b"/work/greeting", b"hello\nworld\n", 0o644)
        .unwrap();
    for (args, status, stdout) in [
        (&["true"][..], 0, ""),
        (&["false"], 1, ""),
        (&["echo", "hi", "there"], 0, "hi there\n"),
        (&["cat", "greeting"], 0, "hello\nworld\n"),
        (&["ls"], 0, "greeting\n"),
        (&["pwd"], 0, "/work\n"),
        (&["seq", "3"], 0, "1\n2\n3\n"),
        (&["sh", "-c", "echo hi | cat"], 0, "hi\n"),
        (&["sh", "-c", "exit 7"], 7, ""),
        (
            &["sh", "-c", "x=$(cat greeting | wc -l); echo \"<$x>\""],
            0,
            "<2>\n",
        ),
        (
            &["sh", "-c", "seq 1 1000 | sort -rn | head -2; false"],
            1,
            "1000\n999\n",
        ),
    ] {
        let output = machine.run(args[0], &args[1..]);
        assert_eq!(
            (output.status, text(&output.stdout.bytes)),
            (ExitStatus::Code(status), stdout.to_owned()),
            "{args:?}: {}",
            text(&output.stderr.bytes)
        );
    }
}

/// A shell function that calls itself without end takes the shell with it and nothing else.
#[test]
fn endless_recursion_ends_the_shell() {
    let machine = machine();
    let output = machine.run("sh", &["-c", "f() { f; }; f"]);
    assert!(
        matches!(
            output.status,
            ExitStatus::Signal {
                signal: Signal::SEGV | Signal::ABRT,
                ..
            }
        ),
        "{:?}",
        output.status
    );
    assert_eq!(machine.run("true", &[]).status, ExitStatus::Code(0));
}

/// A writer whose reader has gone dies of `SIGPIPE`, and the shell lives.
#[test]
fn writers_without_readers_die() {
    let machine = machine();
    let output = machine.run("sh", &["-c", "yes | head -n 2; echo end"]);
    assert_eq!(
        (output.status, text(&output.stdout.bytes)),
        (ExitStatus::Code(0), "y\ny\nend\n".to_owned())
    );
}

#[test]
fn every_command_links() {
    let driver = WasmDriver::new().unwrap();
    // Compiling all of them takes minutes; the imports are what matters here, and those of the
    // small ones and the shells cover the ABI.
    for (name, module) in published::commands()
        .iter()
        .filter(|(_, m)| m.len() < 150_000)
    {
        driver
            .warm(module)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}
