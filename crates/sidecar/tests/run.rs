//! `aos run` as a person uses it: the real program, with real pipes, files and signals around it.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

const AOS: &str = env!("CARGO_BIN_EXE_aos");

fn aos(words: &[&str]) -> Command {
    // Whoever runs the tests in the background may ignore signals, which is inherited.
    let mut command = Command::new("env");
    command.args(["--default-signal", AOS, "run"]);
    command.args(words).stdin(Stdio::null());
    command
}

fn run(words: &[&str]) -> Output {
    aos(words).output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs a host script in which `$aos` is the program; gives what it printed.
fn bash(script: &str) -> String {
    let output = Command::new("bash")
        .args(["-c", script])
        .env("aos", AOS)
        .output()
        .unwrap();
    assert!(output.status.success(), "{script}: {}", err(&output));
    out(&output)
}

fn dir() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn executable(path: PathBuf, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_pipeline_of_published_commands_runs() {
    let output = run(&["--", "sh", "-c", "seq 1 1000 | sort -rn | head -3"]);
    assert_eq!(out(&output), "1000\n999\n998\n");
    assert_eq!(err(&output), "");
    assert!(output.status.success());
}

#[test]
fn the_status_is_the_command_s() {
    for (words, status) in [
        (&["true"][..], 0),
        (&["false"], 1),
        (&["sh", "-c", "exit 7"], 7),
        (&["sh", "-c", "exit 137"], 137),
        (&["sh", "-c", "kill -9 $$"], 137),
        (&["sh", "-c", "kill -TERM $$"], 143),
        (&["no-such-command"], 127),
        (&["/no/such/file"], 127),
        (&["/etc/passwd"], 126),
        (&["/etc"], 126),
    ] {
        let output = run(&[&["--"], words].concat());
        assert_eq!(
            output.status.code(),
            Some(status),
            "{words:?}: {}",
            err(&output)
        );
    }
}

#[test]
fn what_cannot_be_run_is_explained() {
    let said = err(&run(&["--", "no-such-command"]));
    for place in [
        "no-such-command",
        "/usr/local/bin",
        "/opt/agentos/bin",
        "/bin",
    ] {
        assert!(said.contains(place), "{said}");
    }
    assert!(err(&run(&["--", "/etc/passwd"])).contains("/etc/passwd"));
    assert_eq!(said.lines().count(), 1);
}

#[test]
fn a_wrong_command_line_is_named_and_status_two() {
    for (words, hint) in [
        (&["--pakage", "x", "--", "true"][..], "--package"),
        (
            &["--limit", "proceses=5", "--", "true"],
            "did you mean processes?",
        ),
        (&["--limit", "processes", "--", "true"], "NAME=VALUE"),
        (&["--limit", "path.symlinks=50", "--", "true"], "fixed"),
        (&["--mount", "/tmp", "--", "true"], "HOST:GUEST"),
        (&["--env", "X", "--", "true"], "KEY=VALUE"),
        (&["--user", "root", "--", "true"], "UID:GID"),
        (&["--timeout", "soon", "--", "true"], "number"),
        (&["--package", "npm:sed", "--", "true"], "version"),
        (&["--"], "COMMAND"),
    ] {
        let output = run(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(err(&output).contains(hint), "{words:?}: {}", err(&output));
    }
}

#[test]
fn what_keeps_a_machine_from_being_made_is_status_125() {
    for (words, hint) in [
        (
            &["--package", "/no/such.aospkg", "--", "true"][..],
            "/no/such.aospkg",
        ),
        (&["--package", "/etc/passwd", "--", "true"], "not a package"),
        (&["--mount", "/no/such:/data", "--", "true"], "/no/such"),
        (&["--cwd", "/no/such", "--", "true"], "/no/such"),
    ] {
        let output = run(words);
        assert_eq!(
            output.status.code(),
            Some(125),
            "{words:?}: {}",
            err(&output)
        );
        assert!(err(&output).contains(hint), "{words:?}: {}", err(&output));
    }
}

#[test]
fn input_is_streamed_and_no_byte_taken_that_was_not_asked_for() {
    // A command that reads nothing takes nothing; all others of the published ones read ahead.
    let script = "printf 'one\ntwo\n' | { $aos run -- echo none; cat; }";
    assert_eq!(bash(script), "none\none\ntwo\n");
    let script =
        "f=$(mktemp); printf 'one\ntwo\n' > $f; { $aos run -- echo none; cat; } < $f; rm $f";
    assert_eq!(bash(script), "none\none\ntwo\n");
    let script = "seq 3 | while read n; do $aos run -- echo $n; done";
    assert_eq!(bash(script), "1\n2\n3\n");
    let script = "f=$(mktemp); seq 3 > $f; { $aos run -- cat; cat; } < $f; rm $f";
    assert_eq!(bash(script), "1\n2\n3\n");
    assert_eq!(
        bash("head -c 3000000 /dev/zero | $aos run -- wc -c"),
        "3000000\n"
    );
}

#[test]
fn input_arrives_while_the_command_runs() {
    let mut child = aos(&["--", "sh", "-c", "while read x; do echo \"<$x>\"; done"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for word in ["a", "b"] {
        writeln!(input, "{word}").unwrap();
        assert_eq!(lines.next().unwrap().unwrap(), format!("<{word}>"));
    }
    drop(input);
    assert!(lines.next().is_none());
    assert!(child.wait().unwrap().success());
}

#[test]
fn without_input_a_reader_sees_the_end_at_once() {
    assert_eq!(bash("$aos run -- cat < /dev/null; echo $?"), "0\n");
    assert_eq!(bash("$aos run -- cat <&-; echo $?"), "0\n");
    assert_eq!(bash("$aos run -- sh -c 'cat; wc -c' <&-"), "0\n");
}

#[test]
fn output_goes_where_the_caller_s_does() {
    let script = "f=$(mktemp); echo before > $f; \
                  $aos run -- sh -c 'echo out; echo err >&2; echo out2' >> $f 2>&1; cat $f; rm $f";
    assert_eq!(bash(script), "before\nout\nerr\nout2\n");
    let script = "f=$(mktemp); { $aos run -- echo a; echo b; $aos run -- echo c; } > $f; cat $f";
    assert_eq!(bash(script), "a\nb\nc\n");
    assert_eq!(
        bash("$aos run -- sh -c 'echo out; echo err >&2' 2>/dev/null"),
        "out\n"
    );
    assert_eq!(
        bash("$aos run -- head -c 2000000 /dev/zero | wc -c"),
        "2000000\n"
    );
}

#[test]
fn a_writer_nobody_reads_from_ends_like_a_tool() {
    assert_eq!(
        bash("$aos run -- yes | head -1; echo ${PIPESTATUS[0]}"),
        "y\n141\n"
    );
    assert_eq!(bash("$aos run -- sh -c 'yes | head -1'"), "y\n");
    let full = bash("$aos run -- echo x > /dev/full 2>/dev/null; echo $?");
    assert_ne!(full, "0\n");
}

#[test]
fn when_the_guest_closes_its_output_the_reader_sees_it() {
    // If the end were only that of the program, this would take as long as the sleep.
    let script =
        "$aos run --timeout 60 -- sh -c 'echo a; exec sleep 50 >/dev/null' | cat; echo end";
    let mut child = Command::new("bash")
        .args(["-c", script])
        .env("aos", AOS)
        .stdout(Stdio::piped())
        .process_group_of_its_own()
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(line, "a\n");
    kill(Pid::from_raw(-(child.id() as i32)), Signal::SIGKILL).unwrap();
    child.wait().unwrap();
}

/// What tests that signal whole groups need.
trait OwnGroup {
    fn process_group_of_its_own(&mut self) -> &mut Self;
}

impl OwnGroup for Command {
    fn process_group_of_its_own(&mut self) -> &mut Self {
        use std::os::unix::process::CommandExt;
        self.process_group(0)
    }
}

/// Starts a command that prints a line when it runs, and waits for the line.
fn started(words: &[&str]) -> Child {
    let mut child = aos(words)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut byte = [0];
    let output = child.stdout.as_mut().unwrap();
    while output.read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
        line.push(char::from(byte[0]));
    }
    assert_eq!(line, "ready");
    child
}

#[test]
fn signals_reach_the_guest_and_its_children() {
    for signal in [
        Signal::SIGINT,
        Signal::SIGTERM,
        Signal::SIGHUP,
        Signal::SIGUSR1,
    ] {
        let mut child = started(&["--", "sh", "-c", "echo ready; sleep 1000"]);
        kill(Pid::from_raw(child.id() as i32), signal).unwrap();
        let status = child.wait().unwrap();
        assert_eq!(status.code(), Some(128 + signal as i32), "{signal}");
    }
}

#[test]
fn a_busy_guest_is_ended_by_a_signal_too() {
    let mut child = started(&["--", "sh", "-c", "echo ready; while :; do :; done"]);
    kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(143));
}

#[test]
fn what_the_caller_ignores_the_guest_does_not_get() {
    let script = "trap '' HUP; $aos run -- sh -c 'echo ready; sleep 0.5; echo still' & sleep 0.3; \
                  kill -HUP $!; wait $!; echo $?";
    assert_eq!(bash(script), "ready\nstill\n0\n");
}

#[test]
fn case_74_the_time_limit_ends_the_whole_tree() {
    let json = dir().keep().join("report");
    let option = format!("--json={}", json.display());
    let output = run(&[
        "--timeout",
        "1s",
        &option,
        "--",
        "sh",
        "-c",
        "echo partial; sleep 60 & sleep 60",
    ]);
    assert_eq!(output.status.code(), Some(124));
    assert_eq!(out(&output), "partial\n");
    let report: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    assert_eq!(report["timed_out"], true);
    assert_eq!(report["status"], 124);
    fs::remove_dir_all(json.parent().unwrap()).unwrap();
}

#[test]
fn case_83_a_report_keeps_codes_and_signals_apart() {
    let report = |words: &[&str]| -> Value {
        let output = run(&[&["--json", "--"], words].concat());
        let text = err(&output);
        serde_json::from_str(text.lines().last().unwrap()).unwrap()
    };
    let exited = report(&["sh", "-c", "echo noise >&2; exit 137"]);
    assert_eq!(
        (&exited["code"], &exited["signal"]),
        (&137.into(), &Value::Null)
    );
    let killed = report(&["sh", "-c", "kill -9 $$"]);
    assert_eq!(
        (&killed["code"], &killed["signal"]),
        (&Value::Null, &"SIGKILL".into())
    );
    assert_eq!(exited["status"], killed["status"]);
    let missing = report(&["no-such-command"]);
    assert_eq!(missing["status"], 127);
    assert!(
        missing["error"]
            .as_str()
            .unwrap()
            .contains("no-such-command")
    );
}

#[test]
fn case_152_the_host_s_environment_stays_outside() {
    let output = aos(&["--env", "OWN=1", "--", "env"])
        .env("API_TOKEN", "secret")
        .env("LD_PRELOAD_X", "secret")
        .output()
        .unwrap();
    let text = out(&output);
    assert!(
        !text.contains("secret") && text.contains("OWN=1\n"),
        "{text}"
    );
    let names: Vec<_> = text.lines().filter_map(|l| l.split('=').next()).collect();
    for name in names {
        let own = [
            "HOME", "USER", "LOGNAME", "SHELL", "PATH", "TMPDIR", "PWD", "OWN",
        ];
        assert!(own.contains(&name), "{name}");
    }
}

#[test]
fn directories_of_the_host_are_mounted_to_read_or_to_write() {
    let dir = dir();
    fs::write(dir.path().join("in"), "input\n").unwrap();
    let mount = format!("{}:/data", dir.path().display());
    let script = "cat in; echo output > out; mkdir d; pwd";
    let output = run(&[
        "--mount", &mount, "--cwd", "/data", "--", "sh", "-c", script,
    ]);
    assert_eq!(out(&output), "input\n/data\n", "{}", err(&output));
    assert_eq!(
        fs::read_to_string(dir.path().join("out")).unwrap(),
        "output\n"
    );
    assert!(dir.path().join("d").is_dir());
    let mount = format!("{mount}:ro");
    let output = run(&[
        "--mount",
        &mount,
        "--",
        "sh",
        "-c",
        "cat /data/in; echo x > /data/new",
    ]);
    assert_eq!(out(&output), "input\n");
    assert!(!output.status.success());
    assert!(!dir.path().join("new").exists());
    // The way to the directory is nobody's business in there.
    let shown = dir.path().display().to_string();
    assert!(!err(&output).contains(&shown), "{}", err(&output));
    assert!(!out(&run(&["--mount", &mount, "--", "cat", "/proc/mounts"])).contains(&shown));
}

#[test]
fn case_118_a_mount_keeps_its_quota() {
    let dir = dir();
    let mount = format!("{}:/data:quota=1M", dir.path().display());
    let script = "head -c 2000000 /dev/zero > /data/big; echo $?";
    let output = run(&["--mount", &mount, "--", "sh", "-c", script]);
    assert_ne!(out(&output), "0\n");
    assert!(fs::metadata(dir.path().join("big")).unwrap().len() <= 1 << 20);
}

#[test]
fn the_user_and_the_limits_are_the_given_ones() {
    assert_eq!(out(&run(&["--", "id", "-u"])), "1000\n");
    assert_eq!(out(&run(&["--user", "0:0", "--", "id", "-u"])), "0\n");
    let status = out(&run(&["--user", "5:6", "--", "cat", "/proc/self/status"]));
    assert!(
        status.contains("Uid:\t5\t5") && status.contains("Gid:\t6\t6"),
        "{status}"
    );
    let limit = ["--limit", "processes=4", "--json", "--"];
    let output = run(&[
        &limit[..],
        &["sh", "-c", "sleep 9 & sleep 9 & sleep 9 & sleep 9 & wait"],
    ]
    .concat());
    let said = err(&output);
    assert!(said.contains("processes"), "{said}");
}

#[test]
fn packages_come_from_files_directories_and_npm() {
    let dir = dir();
    let package = r#"{"name": "tool", "version": "1.0.0", "bin": {"hi": "bin/hi"}}"#;
    executable(
        dir.path().join("tool/bin/hi"),
        "#!/bin/sh\necho hi from $0 $1\n",
    );
    fs::write(dir.path().join("tool/package.json"), package).unwrap();
    let tool = dir.path().join("tool").display().to_string();
    let file = dir.path().join("tool.aospkg").display().to_string();
    assert!(
        Command::new(AOS)
            .args(["pack", &tool, "-o", &file])
            .status()
            .unwrap()
            .success()
    );
    let common = sidecar::npm::pinned::COMMON;
    for package in [&tool, &file] {
        let output = run(&["--package", package, "--package", common, "--", "hi", "you"]);
        assert_eq!(
            out(&output),
            "hi from /opt/agentos/bin/hi you\n",
            "{}",
            err(&output)
        );
    }
    // With packages named, only they are there.
    let output = run(&["--package", &file, "--", "hi"]);
    assert_eq!(output.status.code(), Some(127));
    assert!(err(&output).contains("/bin/sh"), "{}", err(&output));
    let links = run(&[
        "--package",
        &file,
        "--package",
        common,
        "--",
        "sh",
        "-c",
        "readlink /opt/agentos/pkgs/tool/current; cat /opt/agentos/pkgs/tool/current/package.json",
    ]);
    assert_eq!(out(&links), format!("1.0.0\n{package}"));
}

#[test]
fn an_install_writes_nothing() {
    // Warm, so that what is counted is the install and not the making of caches.
    assert!(run(&["--", "true"]).status.success());
    let log = dir().keep().join("trace");
    let output = Command::new("strace")
        .args(["-f", "-qq", "-o"])
        .arg(&log)
        .args(["-e", "trace=open,openat,openat2,creat,write,pwrite64,writev,pwritev,mkdir,mkdirat,rename,renameat,renameat2,link,linkat,symlink,symlinkat,unlink,unlinkat,truncate,ftruncate,mknod,mknodat,execve,fork,vfork"])
        .args([AOS, "run", "--", "true"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let text = fs::read_to_string(&log).unwrap();
    let calls: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(_, call)| call.trim_start())
        .collect();
    let writes = |call: &&&str| {
        let opens = ["O_CREAT", "O_WRONLY", "O_RDWR"]
            .iter()
            .any(|flag| call.contains(flag));
        // Its own null device, its own streams and the names of its threads are no one's files.
        let own = ["\"/dev/null\"", "\"/proc/self/"]
            .iter()
            .any(|path| call.contains(path));
        // Eight bytes written are an eventfd's.
        let bell = call.starts_with("write(") && call.ends_with(", 8) = 8");
        let other = ["execve(", "exit", "+++", "---", "<..."]
            .iter()
            .any(|p| call.starts_with(p));
        let failed = call.contains(" = -1 ");
        !(failed || own || bell || other) && (!call.starts_with("open") || opens)
    };
    let written: Vec<&&str> = calls.iter().filter(writes).collect();
    assert!(written.is_empty(), "{written:#?}");
    let programs = calls
        .iter()
        .filter(|call| call.starts_with("execve("))
        .count();
    assert_eq!(programs, 1, "a program of the host was started");
    fs::remove_dir_all(log.parent().unwrap()).unwrap();
}

#[test]
fn the_signal_that_ended_aos_itself_is_none() {
    // `aos` always exits; callers need not tell two ways of dying apart.
    let output = run(&["--", "sh", "-c", "kill -KILL $$"]);
    assert_eq!(output.status.signal(), None);
}
