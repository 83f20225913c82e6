//! `aos shell` and `aos run --tty`, with the published shell.

use crate::host::Sitting;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

const AOS: &str = env!("CARGO_BIN_EXE_aos");

/// The published shell says when it begins to edit a line (bracketed paste on)…
const EDITING: &str = "\x1b[?2004h";
/// …and when it has one and runs it (off).
const RUNNING: &str = "\x1b[?2004l";
/// It shows the cursor when a line is drawn.
const DRAWN: &str = "\x1b[?25h";

fn aos(words: &[&str]) -> Command {
    let mut command = Command::new(AOS);
    command.args(words).env("TERM", "xterm-test");
    command
}

/// A shell whose terminal answers for itself, at its first prompt.
fn shell(options: &[&str]) -> Sitting {
    let words = [&["shell", "--answer-cursor"], options].concat();
    let mut shell = Sitting::start(&mut aos(&words));
    shell.expect(EDITING);
    prompt(&mut shell);
    assert!(shell.is_raw());
    shell
}

/// Waits for the prompt of a line that the shell has begun to edit. What is typed before the
/// shell knows where the cursor is it takes for a part of the answer.
fn prompt(shell: &mut Sitting) {
    shell.expect("$ ");
    shell.expect(DRAWN);
}

/// Runs a command line; gives what it printed.
fn enter(shell: &mut Sitting, line: &str) -> String {
    shell.keys(&format!("{line}\r"));
    shell.expect(RUNNING);
    let output = shell.expect(EDITING);
    prompt(shell);
    output
}

#[test]
fn a_line_runs_and_the_next_prompt_comes() {
    let mut shell = shell(&[]);
    assert_eq!(enter(&mut shell, "echo hi"), "hi\r\n");
    assert_eq!(
        enter(&mut shell, "pwd; echo $0"),
        "/home/agentos\r\n-sh\r\n"
    );
    shell.keys("exit 5\r");
    assert_eq!(shell.end(), 5);
}

#[test]
fn a_person_s_emulator_answers_where_the_cursor_is() {
    let mut shell = Sitting::start(&mut aos(&["shell"]));
    shell.answer();
    shell.expect(EDITING);
    prompt(&mut shell);
    assert_eq!(enter(&mut shell, "echo $((6*7))"), "42\r\n");
    shell.keys("exit\r");
    assert_eq!(shell.end(), 0);
}

#[test]
fn case_94_an_interrupt_ends_the_job_and_not_the_shell() {
    let mut shell = shell(&[]);
    // Each says that it runs. An interrupt before it does would find nobody but the shell.
    for job in [
        "sh -c 'echo go; cat'",
        "sh -c 'echo go; sleep 1000'",
        "sleep 1000 | sh -c 'echo go; sleep 1000'",
    ] {
        shell.keys(&format!("{job}\r"));
        shell.expect("go\r\n");
        if !job.starts_with("sleep") {
            shell.keys("abc\r");
            shell.expect("abc\r\n");
        }
        shell.keys("\x03");
        shell.expect("^C");
        shell.expect(EDITING);
        prompt(&mut shell);
        assert_eq!(enter(&mut shell, "echo $?"), "130\r\n", "{job}");
    }
    shell.keys("\x04");
    assert_eq!(shell.end(), 0);
}

#[test]
fn case_95_the_end_of_input_ends_a_program() {
    let mut shell = shell(&[]);
    shell.keys("echo go; cat; echo $?\r");
    shell.expect("go\r\n");
    shell.keys("last\r\x04");
    shell.expect("last\r\nlast\r\n0\r\n");
    shell.expect(EDITING);
    prompt(&mut shell);
    shell.keys("\x04");
    assert_eq!(shell.end(), 0);
}

/// A guest that exits with a number of its terminal's size.
fn size_guest(which: &str) -> Vec<u8> {
    let at = if which == "cols" { 0 } else { 2 };
    let text = format!(
        r#"(module
            (import "host_tty" "get_size" (func $size (param i32 i32 i32) (result i32)))
            (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
            (memory (export "memory") 1)
            (func (export "_start")
                (if (call $size (i32.const 0) (i32.const 0) (i32.const 2))
                    (then (call $exit (i32.const 255))))
                (call $exit (i32.load16_u (i32.const {at})))))"#
    );
    wat::parse_str(text).unwrap()
}

#[test]
fn case_91_a_new_size_of_the_window_reaches_the_guest() {
    let dir = tempfile::tempdir().unwrap();
    for which in ["cols", "rows"] {
        let path = dir.path().join(which);
        fs::write(&path, size_guest(which)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mount = format!("{}:/g:ro", dir.path().display());
    let mut shell = shell(&["--mount", &mount]);
    let ask = "/g/cols; c=$?; /g/rows; echo $c $?";
    assert_eq!(enter(&mut shell, ask), "80 24\r\n");
    assert_eq!(
        enter(&mut shell, "echo $COLUMNS $LINES $TERM"),
        "80 24 xterm-test\r\n"
    );
    shell.pty.resize(132, 43);
    // The signal comes when it comes.
    let mut sizes = Vec::new();
    while sizes.last().is_none_or(|size| size != "132 43\r\n") {
        sizes.push(enter(&mut shell, ask));
        assert!(sizes.len() < 200, "{sizes:?}");
    }
    shell.keys("exit\r");
    assert_eq!(shell.end(), 0);
}

#[test]
fn case_101_the_modes_come_back_when_the_guest_is_killed() {
    let mut shell = shell(&[]);
    shell.keys("kill -9 $$\r");
    assert_eq!(shell.end(), 137);
}

#[test]
fn the_modes_come_back_when_nothing_could_be_started() {
    for words in [
        &["shell", "--", "no-such-command"][..],
        &["run", "--tty", "--", "/etc/passwd"],
        &["shell", "--cwd", "/no/such"],
    ] {
        let mut session = Sitting::start(&mut aos(words));
        let status = session.end();
        assert!([125, 126, 127].contains(&status), "{words:?}: {status}");
    }
}

#[test]
fn a_signal_ends_the_session_and_the_modes_come_back() {
    for signal in [
        Signal::SIGTERM,
        Signal::SIGHUP,
        Signal::SIGINT,
        Signal::SIGQUIT,
    ] {
        let mut shell = shell(&[]);
        shell.send(signal);
        assert_eq!(shell.end(), 128 + signal as i32, "{signal}");
    }
}

#[test]
fn a_program_that_ignores_the_hang_up_is_killed() {
    let mut session = Sitting::start(&mut aos(&[
        "run",
        "--tty",
        "--",
        "nohup",
        "sh",
        "-c",
        "echo ready >/dev/tty; while :; do :; done",
    ]));
    session.expect("ready\r\n");
    session.send(Signal::SIGTERM);
    assert_eq!(session.end(), 143);
}

#[test]
fn the_time_limit_ends_a_session() {
    let mut session = Sitting::start(&mut aos(&[
        "run",
        "--tty",
        "--timeout",
        "1s",
        "--",
        "sh",
        "-c",
        "echo partial; sleep 1000",
    ]));
    session.expect("partial\r\n");
    assert_eq!(session.end(), 124);
}

#[test]
fn case_104_closing_the_window_hangs_the_session_up() {
    let dir = tempfile::tempdir().unwrap();
    let json = dir.path().join("report");
    let mut shell = shell(&[&format!("--json={}", json.display())]);
    shell.keys("sleep 1000 & echo go; sleep 1000\r");
    shell.expect("go\r\n");
    let status = shell.close();
    assert_eq!(status.code(), Some(129), "{status}");
    let report: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    assert_eq!(report["signal"], "SIGHUP", "{report}");
}

#[test]
fn case_98_without_a_terminal_it_says_so() {
    for (words, hint) in [
        (&["shell"][..], "aos run"),
        (&["shell", "--answer-cursor", "--", "true"], "aos run"),
        (&["run", "--tty", "--", "true"], "--tty"),
    ] {
        let output = aos(words).stdin(Stdio::null()).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{words:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            said.contains("not a terminal") && said.contains(hint),
            "{said}"
        );
        assert_eq!(said.lines().count(), 1);
        assert!(output.stdout.is_empty());
    }
    let output = aos(&["run", "--answer-cursor", "--", "true"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_command_may_have_a_terminal_too() {
    let mut session = Sitting::start(&mut aos(&[
        "run",
        "--tty",
        "--env",
        "TERM=mine",
        "--",
        "sh",
        "-c",
        "test -t 0 && test -t 1 && test -t 2 && echo yes $TERM",
    ]));
    let (text, status) = session.rest();
    assert_eq!(text, "yes mine\r\n");
    assert!(status.success());
    // Here `sh` is the job itself, and an interrupt ends it.
    let mut session = Sitting::start(&mut aos(&[
        "run",
        "--tty",
        "--",
        "sh",
        "-c",
        "echo go; sleep 1000",
    ]));
    session.expect("go\r\n");
    session.keys("\x03");
    session.expect("^C");
    assert_eq!(session.end(), 130);
}

#[test]
fn all_output_is_shown_however_late_it_is_read() {
    let mut session = Sitting::start(&mut aos(&["run", "--tty", "--", "seq", "1", "50000"]));
    // The guest must wait for room; it loses nothing by it.
    std::thread::sleep(std::time::Duration::from_millis(500));
    let (text, status) = session.rest();
    assert!(status.success());
    assert_eq!(session.pty.modes(), session.before);
    let numbers: Vec<&str> = text.split("\r\n").collect();
    assert_eq!(numbers.len(), 50_001, "{:?}", numbers.last());
    for (at, number) in numbers[..50_000].iter().enumerate() {
        assert_eq!(*number, (at + 1).to_string());
    }
}

#[test]
fn a_screen_that_nobody_reads_does_not_keep_the_session_alive() {
    let mut session = Sitting::start(&mut aos(&["run", "--tty", "--", "yes"]));
    session.expect("y\r\ny\r\n");
    std::thread::sleep(std::time::Duration::from_millis(300));
    session.send(Signal::SIGTERM);
    let status = session.child.wait().unwrap();
    assert_eq!(status.code(), Some(143));
    assert_eq!(session.end(), 143);
}

/// Stops and continues as with any other program, under a shell of the host.
#[test]
fn the_host_s_job_control_works() {
    let mut bash = Sitting::start(
        Command::new("bash")
            .args(["--norc", "--noediting", "-i"])
            .env("PS1", "host> ")
            .env("AOS", AOS),
    );
    bash.expect("host> ");
    let cooked = bash.pty.modes();
    bash.keys("$AOS shell --answer-cursor\r");
    bash.expect(EDITING);
    prompt(&mut bash);
    assert!(bash.is_raw());
    assert_eq!(enter(&mut bash, "echo one"), "one\r\n");
    let children = format!("/proc/{0}/task/{0}/children", bash.child.id());
    let aos: i32 = fs::read_to_string(children)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    let aos = nix::unistd::Pid::from_raw(aos);
    nix::sys::signal::kill(aos, Signal::SIGTSTP).unwrap();
    bash.expect("Stopped");
    bash.expect("host> ");
    assert_eq!(bash.pty.modes(), cooked);
    bash.keys("fg\r");
    bash.expect("shell --answer-cursor");
    // It goes on where it was, with the line it was editing.
    while !bash.is_raw() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(enter(&mut bash, "echo two"), "two\r\n");
    bash.keys("exit 3\r");
    bash.expect("host> ");
    assert_eq!(bash.pty.modes(), cooked);
    bash.keys("exit $?\r");
    let (text, status) = bash.rest();
    assert_eq!(status.code(), Some(3), "{text}");
}
