//! Caught signals: they run at the edge of host calls, and interrupted calls fail or start again.

mod common;

use common::{Machine, PATIENCE, text};
use kernel::proctable::{ExitStatus, Signal};
use std::time::{Duration, Instant};

/// A guest with a handler for `SIGUSR1` that writes `h` and a `_start` to be filled in.
fn guest(flags: u32, body: &str) -> String {
    format!(
        r#"(module
          (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
          (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
          (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
          (import "wasi_snapshot_preview1" "sched_yield" (func $yield (result i32)))
          (import "host_process" "sleep_ms" (func $sleep (param i32) (result i32)))
          (import "host_process" "proc_getpid" (func $getpid (param i32) (result i32)))
          (import "host_process" "proc_kill" (func $kill (param i32 i32) (result i32)))
          (import "host_process" "proc_sigaction" (func $sigaction (param i32 i32 i32 i32 i32) (result i32)))
          (import "host_process" "proc_signal_mask_v2" (func $mask (param i32 i32 i32 i32 i32) (result i32)))
          (memory (export "memory") 1)
          (data (i32.const 0) "\20\00\00\00\01\00\00\00")   ;; iovec of one byte at 32
          (data (i32.const 8) "\21\00\00\00\01\00\00\00")   ;; iovec of one byte at 33, to read into
          (func $say (param i32)
            (i32.store8 (i32.const 32) (local.get 0))
            (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 16))))
          (func $read (result i32) (call $fd_read (i32.const 0) (i32.const 8) (i32.const 1) (i32.const 16)))
          (func $raise (param i32)
            (drop (call $getpid (i32.const 24)))
            (drop (call $kill (i32.load (i32.const 24)) (local.get 0))))
          (func (export "__wasi_signal_trampoline") (param i32)
            (if (i32.eq (local.get 0) (i32.const 10)) (then (call $say (i32.const 104))))
            (if (i32.eq (local.get 0) (i32.const 12)) (then
              (call $say (i32.const 60)) (call $raise (i32.const 10)) (call $say (i32.const 62))))
            (if (i32.eq (local.get 0) (i32.const 14)) (then unreachable))
            (if (i32.eq (local.get 0) (i32.const 1)) (then (call $exit (i32.const 42)))))
          (func (export "_start") (local $n i64)
            (drop (call $sigaction (i32.const 10) (i32.const 2) (i32.const 0) (i32.const 0) (i32.const {flags})))
            {body}))"#
    )
}

const RESTART: u32 = 0x1000_0000;

#[test]
fn handlers_run_at_host_calls() {
    let machine = Machine::new();
    machine.install_wat(
        "g",
        &guest(
            0,
            "(call $say (i32.const 97)) (call $raise (i32.const 10)) (call $say (i32.const 98))",
        ),
    );
    let output = machine.run("g", &[]);
    assert_eq!(
        (output.status, text(&output.stdout.bytes)),
        (ExitStatus::Code(0), "ahb".into())
    );
}

#[test]
fn handlers_nest_by_their_masks() {
    let machine = Machine::new();
    // SIGUSR2's handler sends SIGUSR1; whether that one runs inside is a matter of the mask.
    for (mask, seen) in [(0, "<h>"), (1 << 9, "<>h")] {
        let body = format!(
            "(drop (call $sigaction (i32.const 12) (i32.const 2) (i32.const {mask}) (i32.const 0) (i32.const 0)))
             (call $raise (i32.const 12))"
        );
        machine.install_wat("g", &guest(0, &body));
        assert_eq!(text(&machine.run("g", &[]).stdout.bytes), seen);
    }
}

#[test]
fn blocked_signals_wait() {
    let machine = Machine::new();
    machine.install_wat(
        "g",
        &guest(
            0,
            "(drop (call $mask (i32.const 0) (i32.const 0x200) (i32.const 0) (i32.const 24) (i32.const 28)))
             (call $raise (i32.const 10)) (call $say (i32.const 97))
             (drop (call $mask (i32.const 1) (i32.const 0x200) (i32.const 0) (i32.const 24) (i32.const 28)))
             (call $say (i32.const 98))",
        ),
    );
    assert_eq!(text(&machine.run("g", &[]).stdout.bytes), "ahb");
}

#[test]
fn a_handler_may_exit_or_trap() {
    let machine = Machine::new();
    let body = |signal: u32| {
        format!(
            "(drop (call $sigaction (i32.const {signal}) (i32.const 2) (i32.const 0) (i32.const 0) (i32.const 0)))
             (call $raise (i32.const {signal}))"
        )
    };
    machine.install_wat("g", &guest(0, &body(1)));
    assert_eq!(machine.run("g", &[]).status, ExitStatus::Code(42));
    machine.install_wat("g", &guest(0, &body(14)));
    assert_eq!(
        machine.run("g", &[]).status,
        ExitStatus::Signal {
            signal: Signal::ABRT,
            core: true
        }
    );
}

/// Starts the guest, waits until it says `a`, sends `SIGUSR1` and waits until it says `h`.
fn interrupted(machine: &Machine, flags: u32, body: &str) -> kernel::Child {
    machine.install_wat("g", &guest(flags, body));
    let mut child = machine.start_piped("g", &[]);
    let mut stdout = child.stdout.take().unwrap();
    let mut byte = [0];
    assert_eq!(stdout.read_timeout(&mut byte, PATIENCE), Ok(1));
    assert_eq!(&byte, b"a");
    // Most likely it waits by now. If not, the handler runs before, and the call is not interrupted:
    // the results are the same but for EINTR, and there the signal is sent until it is.
    std::thread::sleep(Duration::from_millis(20));
    child.kill(Signal::USR1).unwrap();
    let heard = stdout.read_timeout(&mut byte, PATIENCE);
    assert_eq!((heard, &byte), (Ok(1), b"h"), "{:?}", child.try_wait());
    child.stdout = Some(stdout);
    child
}

#[test]
fn interrupted_reads_fail_or_start_again() {
    let machine = Machine::new();
    let body = "(call $say (i32.const 97)) (call $exit (call $read))";
    let child = interrupted(&machine, 0, body);
    assert_eq!(child.wait_timeout(PATIENCE), Some(ExitStatus::Code(27)));

    let mut child = interrupted(&machine, RESTART, body);
    assert_eq!(child.wait_timeout(Duration::from_millis(20)), None);
    child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
    assert_eq!(child.wait_timeout(PATIENCE), Some(ExitStatus::Code(0)));
}

#[test]
fn sleep_is_not_started_again() {
    let machine = Machine::new();
    for flags in [0, RESTART] {
        let child = interrupted(
            &machine,
            flags,
            "(call $say (i32.const 97)) (call $exit (call $sleep (i32.const -1)))",
        );
        assert_eq!(child.wait_timeout(PATIENCE), Some(ExitStatus::Code(27)));
    }
}

#[test]
fn handlers_wait_for_the_next_call_of_a_busy_guest() {
    let machine = Machine::new();
    // It looks at a counter for some time before it makes a call.
    machine.install_wat(
        "g",
        &guest(
            0,
            "(call $say (i32.const 97))
             (loop $busy
               (local.set $n (i64.add (local.get $n) (i64.const 1)))
               (br_if $busy (i64.lt_u (local.get $n) (i64.const 300000000))))
             (drop (call $yield))
             (call $say (i32.const 98))",
        ),
    );
    let mut child = machine.start_piped("g", &[]);
    let mut stdout = child.stdout.take().unwrap();
    let mut byte = [0];
    assert_eq!(stdout.read_timeout(&mut byte, PATIENCE), Ok(1));
    child.kill(Signal::USR1).unwrap();
    let deadline = Instant::now() + PATIENCE;
    let mut rest = Vec::new();
    while rest.len() < 2 && Instant::now() < deadline {
        if stdout.read_timeout(&mut byte, PATIENCE) == Ok(1) {
            rest.push(byte[0]);
        }
    }
    assert_eq!(rest, b"hb");
}

#[test]
fn catching_needs_a_trampoline() {
    let machine = Machine::new();
    let mut script = common::script::Script::new();
    let cases = [
        (10, 2),
        (10, 1),
        (10, 0),
        (0, 1),
        (65, 1),
        (10, 3),
        (9, 1),
        (19, 0),
        (64, 1),
    ];
    for (signal, action) in cases {
        script.call(
            "host_process.proc_sigaction",
            args![signal, action, 0, 0, 0],
        );
    }
    assert_eq!(
        machine.script(&script).results,
        [58, 0, 0, 28, 28, 28, 28, 28, 0]
    );
}

#[test]
fn an_inherited_mask_is_told_to_the_guest() {
    let machine = Machine::new();
    machine.install_wat(
        "told",
        r#"(module (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
          (global $lo (mut i32) (i32.const 7))
          (func (export "__agentos_set_initial_sigmask") (param i32 i32) (result i32)
            (global.set $lo (local.get 0)) (i32.const 0))
          (func (export "_start") (call $exit (global.get $lo))))"#,
    );
    assert_eq!(machine.run("told", &[]).status, ExitStatus::Code(7));
    let mut script = common::script::Script::new();
    let path = script.bytes("/opt/agentos/bin/told");
    let pid = script.room(4);
    let status = script.room(4);
    let spawn = |script: &mut common::script::Script, mask: u32| {
        script.call(
            "host_process.proc_spawn_v3",
            args![
                path.ptr, path.len, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, mask, 0, 0, pid.ptr
            ],
        )
    };
    spawn(&mut script, 0x20);
    script.call(
        "host_process.proc_waitpid_v3",
        &[pid.load(), 0.into(), status.ptr.into(), pid.ptr.into()],
    );
    let shown = machine.script(&script);
    assert_eq!(shown.results, [0, 0]);
    assert_eq!(shown.u32(status), 0x20 << 8);
}
