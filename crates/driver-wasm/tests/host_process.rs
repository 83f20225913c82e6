//! `host_process`: descriptors, spawn, exec, wait, identity.

mod common;

use common::script::{Place, Script};
use common::{Machine, request, text};
use kernel::Cred;
use kernel::proctable::ExitStatus;

/// A program that exits with a number.
fn exits(machine: &Machine, name: &str, code: u32) {
    machine.install_wat(
        name,
        &format!(
            "(module (import \"wasi_snapshot_preview1\" \"proc_exit\" (func $exit (param i32)))
               (func (export \"_start\") (call $exit (i32.const {code}))))"
        ),
    );
}

/// A program that writes its arguments, environment and working directory (as the guest knows it)
/// to standard output, strings ending in NUL, and then what comes from standard input.
const TELL: &str = r#"(module
  (import "wasi_snapshot_preview1" "args_sizes_get" (func $as (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "args_get" (func $a (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_sizes_get" (func $es (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_get" (func $e (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $w (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read" (func $r (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 2)
  (func $say (param i32 i32)
    (i32.store (i32.const 0) (local.get 0)) (i32.store (i32.const 4) (local.get 1))
    (drop (call $w (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8))))
  (func (export "_start")
    (drop (call $as (i32.const 16) (i32.const 20)))
    (drop (call $a (i32.const 1024) (i32.const 4096)))
    (call $say (i32.const 4096) (i32.load (i32.const 20)))
    (drop (call $es (i32.const 16) (i32.const 20)))
    (drop (call $e (i32.const 1024) (i32.const 4096)))
    (call $say (i32.const 4096) (i32.load (i32.const 20)))
    (block $end (loop $more
      (i32.store (i32.const 0) (i32.const 4096)) (i32.store (i32.const 4) (i32.const 4096))
      (br_if $end (call $r (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
      (br_if $end (i32.eqz (i32.load (i32.const 8))))
      (call $say (i32.const 4096) (i32.load (i32.const 8)))
      (br $more)))))"#;

#[test]
fn descriptors() {
    let machine = Machine::new();
    let mut s = Script::new();
    let (r, w, a, b, flag, c) = (
        s.room(4),
        s.room(4),
        s.room(4),
        s.room(4),
        s.room(4),
        s.room(4),
    );
    s.call("host_process.fd_pipe", args![r.ptr, w.ptr]);
    s.call("host_process.fd_dup", &[w.load(), a.ptr.into()]);
    s.call(
        "host_process.fd_dup_min",
        &[w.load(), 20.into(), b.ptr.into()],
    );
    s.call("host_process.fd_dup2", &[w.load(), 30.into()]);
    s.call("host_process.fd_setfd", args![30, 1]);
    s.call("host_process.fd_getfd", args![30, flag.ptr]);
    s.call("host_process.fd_dup", args![30, c.ptr]);
    let dup_flag = s.room(4);
    s.call("host_process.fd_getfd", &[c.load(), dup_flag.ptr.into()]);
    let cases = [
        ("host_process.fd_dup", args![99, a.ptr] as &[_], 8),
        ("host_process.fd_dup2", args![99, 5], 8),
        ("host_process.fd_dup2", args![0, -1], 8),
        ("host_process.fd_dup2", args![0, 1 << 20], 8),
        ("host_process.fd_dup2", args![0, 0], 0),
        ("host_process.fd_dup2", args![99, 99], 8),
        ("host_process.fd_dup_min", args![0, 1 << 20, a.ptr], 28),
        ("host_process.fd_dup_min", args![0, -1, a.ptr], 28),
        ("host_process.fd_getfd", args![99, a.ptr], 8),
        ("host_process.fd_setfd", args![99, 1], 8),
        ("host_process.fd_pipe", args![a.ptr, -1], 21),
    ];
    for (function, args, _) in cases {
        s.call(function, args);
    }
    s.call("host_process.proc_closefrom", args![5]);
    s.call("host_process.fd_getfd", args![20, flag.ptr + 4]);
    let shown = machine.script(&s);
    assert_eq!(shown.results[..8], [0; 8]);
    let expected: Vec<u64> = cases.iter().map(|case| case.2).chain([0, 8]).collect();
    assert_eq!(shown.results[8..], expected);
    assert_eq!(
        [r, w, a, b, c].map(|place| shown.u32(place)),
        [3, 4, 5, 20, 6]
    );
    assert_eq!((shown.u32(flag), shown.u32(dup_flag)), (1, 0));
}

#[test]
fn locks() {
    let machine = Machine::new();
    machine
        .vm
        .write_file(b"/work/f", b"content", 0o644)
        .unwrap();
    let mut s = Script::new();
    let (f, a, b) = (s.bytes("f"), s.room(4), s.room(4));
    for fd in [a, b] {
        s.call(
            "wasi.path_open",
            args![
                0x4000_0003,
                1,
                f.ptr,
                f.len,
                0,
                0xfff_ffffi64,
                0i64,
                0,
                fd.ptr
            ],
        );
    }
    s.call("host_process.fd_flock", &[a.load(), 2.into()]);
    s.call("host_process.fd_flock", &[b.load(), 6.into()]);
    s.call("host_process.fd_flock", &[a.load(), 8.into()]);
    s.call("host_process.fd_flock", &[b.load(), 6.into()]);
    s.call("host_process.fd_flock", &[b.load(), 3.into()]);
    let outs = s.room(24);
    let lock = |s: &mut Script, fd: Place, cmd: u32, kind: u32, start: i64, len: i64| {
        s.call(
            "host_process.fd_record_lock",
            &[
                fd.load(),
                cmd.into(),
                kind.into(),
                start.into(),
                len.into(),
                outs.ptr.into(),
                (outs.ptr + 4).into(),
                (outs.ptr + 8).into(),
                (outs.ptr + 16).into(),
            ],
        );
    };
    // Its own locks never conflict.
    lock(&mut s, a, 13, 1, 0, 10);
    lock(&mut s, b, 12, 1, 5, 0);
    lock(&mut s, a, 11, 1, 0, 10);
    lock(&mut s, a, 13, 3, 0, 10);
    lock(&mut s, a, 13, 1, -1, 10);
    let shown = machine.script(&s);
    assert_eq!(shown.results, [0, 0, 0, 6, 0, 0, 28, 0, 0, 28, 28, 28]);
    assert_eq!(shown.bytes(outs)[..8], [2, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn polling_with_a_mask() {
    let machine = Machine::new();
    let mut s = Script::new();
    let (r, w, n) = (s.room(4), s.room(4), s.room(4));
    s.call("host_process.fd_pipe", args![r.ptr, w.ptr]);
    let fds = s.bytes(
        [
            3u32.to_le_bytes(),
            [1, 0, 0, 0],
            4u32.to_le_bytes(),
            [4, 0, 0, 0],
            99u32.to_le_bytes(),
            [1, 0, 0, 0],
            u32::MAX.to_le_bytes(),
            [1, 0, 0, 0],
        ]
        .concat(),
    );
    s.call(
        "host_process.proc_ppoll_v1",
        args![fds.ptr, 4, 0i64, 0i64, 0, 0, 0, n.ptr],
    );
    s.call(
        "host_process.proc_ppoll_v1",
        args![fds.ptr, 1, 0i64, 1_000_000i64, 0, 0, 1, n.ptr + 4],
    );
    let m = s.room(4);
    s.call(
        "host_process.proc_ppoll_v1",
        args![fds.ptr + 8, 1, -1i64, -1i64, 0, 0, 0, m.ptr],
    );
    s.call(
        "host_process.proc_ppoll_v1",
        args![fds.ptr, 4, 0i64, 1_000_000_000i64, 0, 0, 0, n.ptr],
    );
    s.call(
        "host_process.proc_ppoll_v1",
        args![fds.ptr, 4, 0i64, -1i64, 0, 0, 0, n.ptr],
    );
    s.call(
        "host_process.proc_ppoll_v1",
        args![fds.ptr, 1025, 0i64, 0i64, 0, 0, 0, n.ptr],
    );
    let shown = machine.script(&s);
    assert_eq!(shown.results, [0, 0, 0, 0, 28, 28, 28]);
    assert_eq!((shown.u32(n), shown.u32(m)), (2, 1));
    let revents: Vec<u8> = shown.bytes(fds).chunks(8).map(|fd| fd[6]).collect();
    assert_eq!(revents, [0, 4, 0x20, 0]);
}

#[test]
fn identity_and_limits() {
    let machine = Machine::new();
    let mut s = Script::new();
    let (pid, ppid, pgid, soft, hard, mask) = (
        s.room(4),
        s.room(4),
        s.room(4),
        s.room(8),
        s.room(8),
        s.room(4),
    );
    s.call("host_process.proc_getpid", args![pid.ptr]);
    s.call("host_process.proc_getppid", args![ppid.ptr]);
    s.call("host_process.proc_getpgid", args![0, pgid.ptr]);
    s.call("host_process.proc_getpgid", args![-1, mask.ptr]);
    s.call("host_process.proc_getpgid", args![9999, mask.ptr]);
    s.call("host_process.proc_setpgid", args![-1, 0]);
    s.call("host_process.proc_setrlimit", args![7, 64i64, 128i64]);
    s.call("host_process.proc_getrlimit", args![7, soft.ptr, hard.ptr]);
    s.call("host_process.proc_getrlimit", args![10, soft.ptr, hard.ptr]);
    s.call("host_process.proc_setrlimit", args![7, 129i64, 128i64]);
    s.call("host_process.umask", args![0o77, 0, mask.ptr]);
    s.call("host_process.proc_umask", args![0o1027, mask.ptr]);
    s.call("host_process.umask", args![0, 0, mask.ptr]);
    let (left, interval) = (s.room(8), s.room(8));
    s.call(
        "host_process.proc_itimer_real",
        args![1, 60_000_000i64, 5_000_000i64, left.ptr, interval.ptr],
    );
    s.call(
        "host_process.proc_itimer_real",
        args![0, 0i64, 0i64, left.ptr, interval.ptr],
    );
    s.call(
        "host_process.proc_itimer_real",
        args![2, 0i64, 0i64, left.ptr, interval.ptr],
    );
    s.call("host_process.sleep_ms", args![1]);
    let shown = machine.script(&s);
    assert_eq!(
        shown.results,
        [0, 0, 0, 71, 71, 28, 0, 0, 28, 28, 0, 0, 0, 0, 0, 28, 0]
    );
    assert_eq!((shown.u32(ppid), shown.u32(pid)), (1, shown.u32(pgid)));
    assert_eq!((shown.u64(soft), shown.u64(hard)), (64, 128));
    assert_eq!(shown.u32(mask), 0o27);
    assert_eq!(shown.u64(interval), 5_000_000);
    assert!((1..=60_000_000).contains(&shown.u64(left)));
}

/// Adds a `proc_spawn_v3` and a `proc_waitpid_v2`; the exit code, signal, pid, core go to the place.
fn spawn(s: &mut Script, path: &str, argv: &str, env: &str, actions: &[u8], cwd: &str) -> Place {
    let [path, argv, env] = [path, argv, env].map(|text| s.bytes(text));
    let (actions, cwd) = (s.bytes(actions), s.bytes(cwd));
    let out = s.room(20);
    s.call(
        "host_process.proc_spawn_v3",
        args![
            path.ptr,
            path.len,
            argv.ptr,
            argv.len,
            env.ptr,
            env.len,
            actions.ptr,
            actions.len,
            cwd.ptr,
            cwd.len,
            0,
            0,
            0,
            0,
            0,
            0,
            out.ptr + 16
        ],
    );
    s.call(
        "host_process.proc_waitpid_v2",
        &[
            Place {
                ptr: out.ptr + 16,
                len: 4,
            }
            .load(),
            0.into(),
            out.ptr.into(),
            (out.ptr + 4).into(),
            (out.ptr + 8).into(),
            (out.ptr + 12).into(),
        ],
    );
    out
}

fn action(command: u32, fd: i32, source: i32, oflag: u32, mode: u32, path: &str) -> Vec<u8> {
    let mut bytes: Vec<u8> = [
        command,
        fd as u32,
        source as u32,
        oflag,
        mode,
        path.len() as u32,
    ]
    .iter()
    .flat_map(|word| word.to_le_bytes())
    .collect();
    bytes.extend_from_slice(path.as_bytes());
    bytes
}

#[test]
fn spawn_and_wait() {
    let machine = Machine::new();
    exits(&machine, "seven", 7);
    machine.install_wat("abort", "(module (func (export \"_start\") unreachable))");
    machine
        .vm
        .write_file(b"/work/script", b"#!/opt/agentos/bin/seven\n", 0o755)
        .unwrap();
    machine
        .vm
        .write_file(b"/work/plain", b"no header\n", 0o755)
        .unwrap();
    machine
        .vm
        .write_file(b"/work/data", b"data", 0o644)
        .unwrap();
    let mut s = Script::new();
    let quiet = action(3, 2, 0, 1, 0, "/dev/null");
    let outs = [
        spawn(&mut s, "/opt/agentos/bin/seven", "seven\0", "", b"", ""),
        spawn(
            &mut s,
            "seven",
            "",
            "PATH=/nowhere:/opt/agentos/bin\0",
            b"",
            "/work",
        ),
        spawn(&mut s, "./script", "script\0arg", "", b"", "/work"),
        spawn(
            &mut s,
            "abort",
            "abort\0",
            "PATH=/opt/agentos/bin\0",
            &quiet,
            "/",
        ),
    ];
    let failed = [
        ("missing", "PATH=/opt/agentos/bin\0", "", 44),
        ("/work/missing", "", "", 44),
        ("", "", "", 44),
        ("/work/data", "", "", 2),
        ("/work", "", "", 2),
        ("/work/plain", "", "", 45),
        ("seven", "PATH=/opt/agentos/bin\0", "/nowhere", 44),
        ("seven", "PATH=/opt/agentos/bin\0", "/work/data", 54),
    ];
    for (path, env, cwd, _) in failed {
        spawn(&mut s, path, "", env, b"", cwd);
    }
    let shown = machine.script(&s);
    assert_eq!(shown.results[..8], [0; 8]);
    let numbers = |place: Place| -> Vec<u32> {
        shown
            .bytes(place)
            .chunks(4)
            .map(|b| u32::from_le_bytes(b.try_into().unwrap()))
            .collect()
    };
    for out in &outs[..3] {
        let [code, signal, pid, core, spawned] = numbers(*out)[..] else {
            unreachable!()
        };
        assert_eq!((code, signal, core, pid), (7, 0, 0, spawned));
    }
    let aborted = numbers(outs[3]);
    assert_eq!(aborted[1], 6);
    assert_eq!(aborted[2], aborted[4]);
    for (index, (path, .., errno)) in failed.iter().enumerate() {
        assert_eq!(shown.results[8 + 2 * index], *errno, "{path}");
    }
}

#[test]
fn children_get_what_they_are_given() {
    let machine = Machine::new();
    machine.install_wat("tell", TELL);
    machine
        .vm
        .write_file(b"/work/input", b"from a file", 0o644)
        .unwrap();
    let mut s = Script::new();
    let actions = [
        action(3, 0, 0, 0x0400_0000, 0, "input"),
        action(3, 1, 0, 0x1000_9000, 0o640, "/work/output"),
        action(2, 9, 1, 0, 0, ""),
        action(1, 9, 0, 0, 0, ""),
        action(4, 0, 0, 0, 0, "/tmp"),
        action(6, 3, 0, 0, 0, ""),
    ]
    .concat();
    spawn(
        &mut s,
        "tell",
        "tell\0a b\0\0c",
        "A=1\0PATH=/opt/agentos/bin\0=x\0B\0A=2\0PWD=/work\0",
        &actions,
        "/work",
    );
    assert_eq!(machine.script(&s).results, [0, 0]);
    let told = machine.vm.read_file(b"/work/output", 4096).unwrap();
    assert_eq!(
        text(&told),
        "tell\0a b\0\0c\0PATH=/opt/agentos/bin\0A=2\0PWD=/tmp\0from a file"
    );
    assert_eq!(machine.vm.stat(b"/work/output").unwrap().perm(), 0o640);
}

#[test]
fn bad_spawns() {
    let machine = Machine::new();
    exits(&machine, "seven", 7);
    let mut s = Script::new();
    let cases: Vec<(Vec<u8>, u64)> = vec![
        (action(1, 99, 0, 0, 0, ""), 8),
        (action(2, 1, 99, 0, 0, ""), 8),
        (action(2, -1, 0, 0, 0, ""), 8),
        (action(3, 5, 0, 0, 0, "missing"), 44),
        (action(4, 0, 0, 0, 0, "missing"), 44),
        (action(4, 0, 0, 0, 0, "/opt/agentos/bin/seven"), 54),
        (action(5, 99, 0, 0, 0, ""), 8),
        (action(5, 0, 0, 0, 0, ""), 54),
        (action(7, 0, 0, 0, 0, ""), 28),
        (action(1, 0, 0, 0, 0, "")[..20].to_vec(), 28),
    ];
    for (actions, _) in &cases {
        spawn(&mut s, "/opt/agentos/bin/seven", "", "", actions, "/work");
    }
    // Attribute flags: unknown ones, a group that is not there, a session.
    let path = s.bytes("/opt/agentos/bin/seven");
    let pid = s.room(4);
    for (flags, pgroup) in [(256, 0), (2, 9999), (2, -1), (128 | 2, 0)] {
        s.call(
            "host_process.proc_spawn_v3",
            args![
                path.ptr, path.len, 0, 0, 0, 0, 0, 0, 0, 0, flags, 0, 0, 0, 0, pgroup, pid.ptr
            ],
        );
    }
    let mut v4 = |search: (u32, u32), flags: u32, policy: u32, priority: u32| {
        s.call(
            "host_process.proc_spawn_v4",
            args![
                path.ptr + 17,
                5,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                0,
                search.0,
                search.1,
                flags,
                0,
                0,
                0,
                0,
                0,
                policy,
                priority,
                pid.ptr
            ],
        )
    };
    v4((0, 0), 0, 0, 0);
    v4((path.ptr, 16), 0, 0, 0);
    v4((path.ptr, 16), 128 | 2, 0, 0);
    v4((path.ptr, 16), 16, 0, 1);
    v4((path.ptr, 16), 32, 1, 0);
    v4((path.ptr, 16), 16 | 32, 0, 0);
    s.call(
        "host_process.proc_waitpid_v3",
        args![-1, 4, pid.ptr, pid.ptr],
    );
    s.call(
        "host_process.proc_waitpid_v2",
        args![-1, 2, pid.ptr, pid.ptr, pid.ptr, pid.ptr],
    );
    s.call(
        "host_process.proc_waitpid",
        args![9999, 0, pid.ptr, pid.ptr],
    );
    let shown = machine.script(&s);
    for (index, (_, errno)) in cases.iter().enumerate() {
        assert_eq!(shown.results[2 * index], *errno, "case {index}");
    }
    let rest = &shown.results[2 * cases.len()..];
    assert_eq!(rest, [58, 63, 28, 63, 44, 0, 63, 28, 63, 0, 28, 28, 12]);
}

#[test]
fn the_older_spawns() {
    let machine = Machine::new();
    machine.install_wat("tell", TELL);
    let mut s = Script::new();
    let (r, w, pid, status) = (s.room(4), s.room(4), s.room(4), s.room(4));
    s.call("host_process.fd_pipe", args![r.ptr, w.ptr]);
    let argv = s.bytes("tell\0one\0");
    let env = s.bytes("PATH=/opt/agentos/bin\0");
    let cwd = s.bytes("/tmp");
    s.call(
        "host_process.proc_spawn",
        &[
            argv.ptr.into(),
            argv.len.into(),
            env.ptr.into(),
            env.len.into(),
            u32::MAX.into(),
            w.load(),
            2.into(),
            cwd.ptr.into(),
            cwd.len.into(),
            pid.ptr.into(),
        ],
    );
    s.call(
        "host_process.proc_waitpid",
        &[pid.load(), 0.into(), status.ptr.into(), pid.ptr.into()],
    );
    let name = s.bytes("tell");
    // Standard input and output crosswise: what the child reads is what we write to.
    s.call("host_process.fd_dup2", &[r.load(), 0.into()]);
    s.call("host_process.fd_setfd", &[r.load(), 1.into()]);
    s.call(
        "host_process.proc_spawn_v2",
        &[
            name.ptr.into(),
            name.len.into(),
            argv.ptr.into(),
            argv.len.into(),
            env.ptr.into(),
            env.len.into(),
            u32::MAX.into(),
            w.load(),
            2.into(),
            0.into(),
            0.into(),
            pid.ptr.into(),
        ],
    );
    s.call(
        "host_process.proc_waitpid_v3",
        &[pid.load(), 0.into(), status.ptr.into(), pid.ptr.into()],
    );
    let empty = s.bytes("\0x");
    s.call(
        "host_process.proc_spawn",
        args![empty.ptr, 2, 0, 0, 0, 1, 2, 0, 0, pid.ptr],
    );
    s.call(
        "host_process.proc_spawn",
        args![argv.ptr, 4, 0, 0, 0, 1, 2, 0, 0, pid.ptr],
    );
    s.call(
        "host_process.proc_spawn_v2",
        args![name.ptr, 4, 0, 0, env.ptr, env.len, 77, 1, 2, 0, 0, pid.ptr],
    );
    let (buf, n) = (s.room(256), s.room(4));
    let iov = s.iovec(buf);
    s.call(
        "wasi.fd_read",
        &[r.load(), iov.ptr.into(), 1.into(), n.ptr.into()],
    );
    let shown = machine.script(&s);
    assert_eq!(shown.results, [0, 0, 0, 0, 0, 0, 0, 21, 21, 8, 0]);
    let told = text(&shown.bytes(buf)[..shown.u32(n) as usize]);
    assert_eq!(
        told,
        "tell\0one\0PATH=/opt/agentos/bin\0PWD=/tmp\0tell\0one\0PATH=/opt/agentos/bin\0PWD=/work\0"
    );
}

#[test]
fn exec_replaces_the_program() {
    let machine = Machine::new();
    machine.install_wat("tell", TELL);
    let mut s = Script::new();
    let (path, argv) = (s.bytes("tell"), s.bytes("zero\0one\0"));
    let env = s.bytes("PATH=/opt/agentos/bin\0PWD=/tmp\0");
    let (missing, close) = (s.bytes("missing"), s.bytes(99u32.to_le_bytes()));
    s.call(
        "host_process.proc_exec",
        args![
            missing.ptr,
            missing.len,
            argv.ptr,
            argv.len,
            env.ptr,
            env.len,
            0,
            0
        ],
    );
    s.call(
        "host_process.proc_exec",
        args![
            path.ptr, path.len, argv.ptr, argv.len, env.ptr, env.len, close.ptr, 1
        ],
    );
    machine.install("script", &s.wasm());
    let output = machine.run_with(&request("script", &[]), b"input");
    assert_eq!(
        output.status,
        ExitStatus::Code(0),
        "{}",
        text(&output.stderr.bytes)
    );
    assert_eq!(
        text(&output.stdout.bytes),
        "zero\0one\0PATH=/opt/agentos/bin\0PWD=/tmp\0input"
    );
}

#[test]
fn fexec_runs_what_is_open() {
    let machine = Machine::new();
    machine.install_wat("tell", TELL);
    let mut s = Script::new();
    let (path, argv, fd) = (
        s.bytes("/opt/agentos/bin/tell"),
        s.bytes("zero\0"),
        s.room(4),
    );
    s.call(
        "wasi.path_open",
        args![0x4000_0004, 1, path.ptr, path.len, 0, 2i64, 0i64, 0, fd.ptr],
    );
    s.call(
        "host_process.proc_fexec",
        args![99, argv.ptr, argv.len, 0, 0, 0, 0],
    );
    s.call(
        "host_process.proc_fexec",
        &[
            fd.load(),
            argv.ptr.into(),
            argv.len.into(),
            0.into(),
            0.into(),
            0.into(),
            0.into(),
        ],
    );
    machine.install("script", &s.wasm());
    let output = machine.run("script", &[]);
    assert_eq!(text(&output.stdout.bytes), "zero\0PWD=/work\0");
}

#[test]
fn killing() {
    let machine = Machine::new();
    machine.install_wat(
        "loop",
        "(module (func (export \"_start\") (loop $again (br $again))))",
    );
    let mut s = Script::new();
    let (path, pid, out) = (s.bytes("/opt/agentos/bin/loop"), s.room(4), s.room(16));
    s.call(
        "host_process.proc_spawn_v3",
        args![
            path.ptr, path.len, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, pid.ptr
        ],
    );
    s.call("host_process.proc_kill", &[pid.load(), 0.into()]);
    s.call(
        "host_process.proc_waitpid_v2",
        &[
            pid.load(),
            1.into(),
            out.ptr.into(),
            (out.ptr + 4).into(),
            (out.ptr + 8).into(),
            (out.ptr + 12).into(),
        ],
    );
    s.call("host_process.proc_kill", &[pid.load(), 15.into()]);
    s.call(
        "host_process.proc_waitpid_v2",
        &[
            pid.load(),
            0.into(),
            out.ptr.into(),
            (out.ptr + 4).into(),
            (out.ptr + 8).into(),
            (out.ptr + 12).into(),
        ],
    );
    s.call("host_process.proc_kill", &[pid.load(), 0.into()]);
    s.call("host_process.proc_kill", args![1, 65]);
    s.call("host_process.proc_kill", args![9999, 15]);
    let shown = machine.script(&s);
    assert_eq!(shown.results, [0, 0, 0, 0, 0, 71, 28, 71]);
    assert_eq!(shown.bytes(out)[4..8], [15, 0, 0, 0]);
    let mut s = Script::new();
    s.call("host_process.proc_kill", args![1, 9]);
    let mut request = request("script", &[]);
    request.cred = Some(Cred::user(1000, 1000));
    assert_eq!(machine.script_as(&request, &s).results, [63]);
}
