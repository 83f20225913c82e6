//! How a guest ends: by itself, by a trap, by a signal, by running out of something.

mod common;

use common::{Machine, PATIENCE, text};
use kernel::Limits;
use kernel::proctable::{ExitStatus, Signal};
use std::time::Duration;

fn signal(signal: Signal) -> ExitStatus {
    ExitStatus::Signal {
        signal,
        core: matches!(
            signal,
            Signal::ABRT | Signal::SEGV | Signal::FPE | Signal::ILL | Signal::BUS | Signal::QUIT
        ),
    }
}

#[test]
fn exit_codes_have_eight_bits() {
    let machine = Machine::new();
    for (code, seen) in [
        (0, 0),
        (1, 1),
        (125, 125),
        (126, 126),
        (137, 137),
        (255, 255),
        (256, 0),
        (-1, 255),
    ] {
        machine.install_wat(
            "exit",
            &format!(
                "(module (import \"wasi_snapshot_preview1\" \"proc_exit\" (func $exit (param i32)))
                   (func (export \"_start\") (call $exit (i32.const {code})) unreachable))"
            ),
        );
        assert_eq!(
            machine.run("exit", &[]).status,
            ExitStatus::Code(seen),
            "{code}"
        );
    }
    machine.install_wat("return", "(module (func (export \"_start\")))");
    assert_eq!(machine.run("return", &[]).status, ExitStatus::Code(0));
}

#[test]
fn traps_are_signals_and_say_so() {
    let machine = Machine::new();
    let cases = [
        ("unreachable", "unreachable", Signal::ABRT),
        (
            "(drop (i32.div_s (i32.const 1) (i32.load (i32.const 0))))",
            "integer divide by zero",
            Signal::FPE,
        ),
        (
            "(drop (i32.div_s (i32.const 0x80000000) (i32.load (i32.const 4))))",
            "integer overflow",
            Signal::FPE,
        ),
        (
            "(drop (i32.trunc_f32_s (f32.const nan)))",
            "invalid conversion to integer",
            Signal::FPE,
        ),
        (
            "(drop (i32.load (i32.const 65533)))",
            "out of bounds memory access",
            Signal::SEGV,
        ),
        (
            "(drop (i32.load offset=0xfffffff0 (i32.const 0xffffffff)))",
            "out of bounds memory access",
            Signal::SEGV,
        ),
        (
            "(call_indirect (type $t) (i32.const 7))",
            "out of bounds table access",
            Signal::ILL,
        ),
        (
            "(call_indirect (type $t) (i32.const 0))",
            "uninitialized element",
            Signal::ILL,
        ),
        (
            "(call_indirect (type $t) (i32.const 1))",
            "indirect call type mismatch",
            Signal::ILL,
        ),
        ("(call $deep)", "call stack exhausted", Signal::SEGV),
    ];
    for (body, words, expected) in cases {
        machine.install_wat(
            "trap",
            &format!(
                "(module (memory (export \"memory\") 1) (data (i32.const 4) \"\\ff\\ff\\ff\\ff\")
                   (type $t (func)) (table 2 funcref) (elem (i32.const 1) $other)
                   (func $other (param i32)) (func $deep (call $deep) (call $deep))
                   (func (export \"_start\") {body}))"
            ),
        );
        let output = machine.run("trap", &[]);
        assert_eq!(output.status, signal(expected), "{body}");
        let said = text(&output.stderr.bytes);
        assert!(
            said.starts_with("trap: wasm trap: ") && said.contains(words),
            "{body}: {said:?}"
        );
        assert!(said.ends_with('\n'));
    }
    // The machine lives on.
    machine.install_wat("true", "(module (func (export \"_start\")))");
    assert_eq!(machine.run("true", &[]).status, ExitStatus::Code(0));
}

/// A guest that recurses with much on its stack in the midst of a host call's way back.
#[test]
fn deep_stacks_leave_room_for_host_calls() {
    let machine = Machine::new();
    machine.install_wat(
        "deep",
        "(module (import \"wasi_snapshot_preview1\" \"path_filestat_get\"
             (func $stat (param i32 i32 i32 i32 i32) (result i32)))
           (memory (export \"memory\") 1) (data (i32.const 0) \"/etc/../etc/../etc/passwd\")
           (func $down (param i64 i64 i64 i64)
             (drop (call $stat (i32.const 0x40000003) (i32.const 1) (i32.const 0) (i32.const 25) (i32.const 64)))
             (call $down (local.get 1) (local.get 2) (local.get 3) (i64.add (local.get 0) (i64.const 1)))
             (call $down (local.get 3) (local.get 2) (local.get 1) (local.get 0)))
           (func (export \"_start\") (call $down (i64.const 1) (i64.const 2) (i64.const 3) (i64.const 4))))",
    );
    assert_eq!(machine.run("deep", &[]).status, signal(Signal::SEGV));
}

const LOOP: &str = "(module (func (export \"_start\") (loop $again (br $again))))";

#[test]
fn a_guest_without_calls_can_be_killed() {
    let machine = Machine::new();
    machine.install_wat("loop", LOOP);
    for deadly in [Signal::TERM, Signal::KILL, Signal::INT, Signal::ALRM] {
        let child = machine.start("loop", &[]);
        assert_eq!(child.wait_timeout(Duration::from_millis(20)), None);
        child.kill(deadly).unwrap();
        let status = child.wait_timeout(PATIENCE);
        assert_eq!(
            status,
            Some(ExitStatus::Signal {
                signal: deadly,
                core: false
            })
        );
    }
    // Signals that mean nothing to it do not end it.
    let child = machine.start("loop", &[]);
    for harmless in [Signal::CHLD, Signal::WINCH, Signal::URG, Signal::CONT] {
        child.kill(harmless).unwrap();
    }
    assert_eq!(child.wait_timeout(Duration::from_millis(20)), None);
    child.kill(Signal::KILL).unwrap();
    assert!(child.wait_timeout(PATIENCE).is_some());
}

#[test]
fn a_guest_without_calls_can_be_stopped() {
    let machine = Machine::new();
    machine.install_wat("loop", LOOP);
    let child = machine.start("loop", &[]);
    child.kill(Signal::STOP).unwrap();
    assert_eq!(child.wait_timeout(Duration::from_millis(20)), None);
    child.kill(Signal::CONT).unwrap();
    assert_eq!(child.wait_timeout(Duration::from_millis(20)), None);
    child.kill(Signal::STOP).unwrap();
    child.kill(Signal::KILL).unwrap();
    let status = child.wait_timeout(PATIENCE);
    assert_eq!(
        status,
        Some(ExitStatus::Signal {
            signal: Signal::KILL,
            core: false
        })
    );
}

#[test]
fn a_signal_to_one_does_not_end_the_others() {
    let machine = Machine::new();
    machine.install_wat("loop", LOOP);
    let children: Vec<_> = (0..8).map(|_| machine.start("loop", &[])).collect();
    children[3].kill(Signal::TERM).unwrap();
    assert!(children[3].wait_timeout(PATIENCE).is_some());
    for (index, child) in children.iter().enumerate().filter(|(index, _)| *index != 3) {
        assert_eq!(child.try_wait(), None, "{index}");
    }
    for child in &children {
        let _ = child.kill(Signal::KILL);
        assert!(child.wait_timeout(PATIENCE).is_some());
    }
}

#[test]
fn a_blocked_guest_can_be_killed() {
    let machine = Machine::new();
    machine.install_wat(
        "sleep",
        "(module (import \"host_process\" \"sleep_ms\" (func $sleep (param i32) (result i32)))
           (func (export \"_start\") (drop (call $sleep (i32.const -1)))))",
    );
    let child = machine.start("sleep", &[]);
    assert_eq!(child.wait_timeout(Duration::from_millis(20)), None);
    child.kill(Signal::TERM).unwrap();
    assert_eq!(
        child.wait_timeout(PATIENCE),
        Some(ExitStatus::Signal {
            signal: Signal::TERM,
            core: false
        })
    );
}

/// Exits with the number of pages it could grow by, in steps of 16.
const GROW: &str = "(module
    (import \"wasi_snapshot_preview1\" \"proc_exit\" (func $exit (param i32)))
    (memory (export \"memory\") 1)
    (func (export \"_start\") (local $steps i32)
      (block $full (loop $more
        (br_if $full (i32.eq (memory.grow (i32.const 16)) (i32.const -1)))
        (local.set $steps (i32.add (local.get $steps) (i32.const 1)))
        (br_if $more (i32.lt_u (local.get $steps) (i32.const 200)))))
      (call $exit (local.get $steps))))";

#[test]
fn memory_has_a_limit() {
    let limits = Limits {
        memory_bytes: 65 << 16,
        ..Limits::default()
    };
    let machine = Machine::with_limits(limits);
    machine.install_wat("grow", GROW);
    // 1 page, then 4 times 16.
    assert_eq!(machine.run("grow", &[]).status, ExitStatus::Code(4));
    machine.install_wat(
        "large",
        "(module (memory (export \"memory\") 66) (func (export \"_start\")))",
    );
    let output = machine.run("large", &[]);
    assert_eq!(output.status, signal(Signal::KILL));
    assert!(text(&output.stderr.bytes).starts_with("large: cannot start: "));
    machine.install_wat(
        "fits",
        "(module (memory (export \"memory\") 65) (func (export \"_start\")))",
    );
    assert_eq!(machine.run("fits", &[]).status, ExitStatus::Code(0));
}

#[test]
fn memory_of_all_has_a_limit() {
    let limits = Limits {
        vm_memory_bytes: 70 << 16,
        ..Limits::default()
    };
    let machine = Machine::with_limits(limits);
    machine.install_wat(
        "hold",
        "(module (import \"host_process\" \"sleep_ms\" (func $sleep (param i32) (result i32)))
           (memory (export \"memory\") 64)
           (func (export \"_start\") (drop (call $sleep (i32.const -1)))))",
    );
    machine.install_wat(
        "more",
        "(module (memory (export \"memory\") 10) (func (export \"_start\")))",
    );
    let child = machine.start("hold", &[]);
    // It holds its memory from a moment after its start on.
    let deadline = std::time::Instant::now() + PATIENCE;
    while machine.run("more", &[]).status == ExitStatus::Code(0) {
        assert!(std::time::Instant::now() < deadline);
    }
    child.kill(Signal::KILL).unwrap();
    child.wait();
    assert_eq!(machine.run("more", &[]).status, ExitStatus::Code(0));
}
