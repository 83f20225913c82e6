//! `aos_process.clone`: what a clone has of its parent, and what it does not share with it.

mod common;

use common::{Machine, PATIENCE, text};
use kernel::proctable::{ExitStatus, Signal};
use kernel::{Limits, Output};
use std::time::Instant;

/// A guest with a table of functions that clones may begin in (`elements`, of type `$f`), and a
/// `_start`. Below 1024 is scratch space.
fn guest(elements: &str, functions: &str, start: &str) -> String {
    format!(
        r#"(module
          (type $f (func (param i32) (result i32)))
          (import "aos_process" "clone" (func $clone_raw (param i32 i32 i32 i32) (result i32)))
          (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
          (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
          (import "wasi_snapshot_preview1" "fd_close" (func $fd_close (param i32) (result i32)))
          (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
          (import "host_process" "fd_pipe" (func $pipe (param i32 i32) (result i32)))
          (import "host_process" "sleep_ms" (func $sleep (param i32) (result i32)))
          (import "host_process" "proc_getpid" (func $getpid_raw (param i32) (result i32)))
          (import "host_process" "proc_getppid" (func $getppid_raw (param i32) (result i32)))
          (import "host_process" "proc_kill" (func $kill (param i32 i32) (result i32)))
          (import "host_process" "proc_sigaction" (func $sigaction (param i32 i32 i32 i32 i32) (result i32)))
          (import "host_process" "proc_waitpid_v3" (func $waitpid (param i32 i32 i32 i32) (result i32)))
          (import "host_process" "proc_exec" (func $exec (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)))
          (memory (export "memory") 4)
          (global $sp (export "__stack_pointer") (mut i32) (i32.const 65536))
          (global $wide (export "wide") (mut i64) (i64.const 1))
          (global $vector (export "vector") (mut v128) (v128.const i64x2 0 0))
          (table funcref (elem {elements}))
          (func (export "__aos_clone_entry") (param i32 i32) (result i32)
            (call_indirect (type $f) (local.get 1) (local.get 0)))
          (func $write (param $fd i32) (param $ptr i32) (param $len i32) (result i32)
            (i32.store (i32.const 0) (local.get $ptr)) (i32.store (i32.const 4) (local.get $len))
            (call $fd_write (local.get $fd) (i32.const 0) (i32.const 1) (i32.const 8)))
          ;; gives the number of bytes, or traps
          (func $read (param $fd i32) (param $ptr i32) (param $len i32) (result i32)
            (i32.store (i32.const 0) (local.get $ptr)) (i32.store (i32.const 4) (local.get $len))
            (if (call $fd_read (local.get $fd) (i32.const 0) (i32.const 1) (i32.const 8))
              (then unreachable))
            (i32.load (i32.const 8)))
          ;; prints a number and a space
          (func $num (param $n i32) (local $at i32)
            (local.set $at (i32.const 127)) (i32.store8 (i32.const 127) (i32.const 32))
            (loop $more
              (local.set $at (i32.sub (local.get $at) (i32.const 1)))
              (i32.store8 (local.get $at)
                (i32.add (i32.const 48) (i32.rem_u (local.get $n) (i32.const 10))))
              (local.set $n (i32.div_u (local.get $n) (i32.const 10)))
              (br_if $more (local.get $n)))
            (drop (call $write (i32.const 1) (local.get $at)
              (i32.sub (i32.const 128) (local.get $at)))))
          (func $clone (param i32 i32) (result i32)
            (if (call $clone_raw (local.get 0) (local.get 1) (i32.const 0) (i32.const 16))
              (then unreachable))
            (i32.load (i32.const 16)))
          ;; raw status, or 1000 and the error number
          (func $wait (param i32) (result i32) (local $errno i32)
            (local.set $errno
              (call $waitpid (local.get 0) (i32.const 0) (i32.const 20) (i32.const 24)))
            (if (result i32) (local.get $errno)
              (then (i32.add (i32.const 1000) (local.get $errno)))
              (else (i32.load (i32.const 20)))))
          (func $getpid (result i32)
            (drop (call $getpid_raw (i32.const 24))) (i32.load (i32.const 24)))
          (func $getppid (result i32)
            (drop (call $getppid_raw (i32.const 24))) (i32.load (i32.const 24)))
          (func $sleep_long (param i32) (result i32)
            (loop $more (drop (call $sleep (i32.const 100000))) (br $more)) unreachable)
          {functions}
          (func (export "_start") {start}))"#
    )
}

fn run_on(machine: &Machine, elements: &str, functions: &str, start: &str) -> Output {
    machine.install_wat("g", &guest(elements, functions, start));
    machine.run("g", &[])
}

/// What a guest prints that ends well.
#[track_caller]
fn says_on(machine: &Machine, elements: &str, functions: &str, start: &str) -> String {
    let output = run_on(machine, elements, functions, start);
    assert_eq!(
        (output.status, text(&output.stderr.bytes)),
        (ExitStatus::Code(0), String::new())
    );
    text(&output.stdout.bytes)
}

#[track_caller]
fn says(elements: &str, functions: &str, start: &str) -> String {
    says_on(&Machine::new(), elements, functions, start)
}

#[test]
fn a_clone_has_its_parents_memory_and_globals_and_shares_neither() {
    let said = says(
        "$child",
        r#"(data (i32.const 131072) "image")
           (data (i32.const 200000) "untouched")
           (func $child (param $arg i32) (result i32)
             ;; Waits until the parent has written to its own memory.
             (drop (call $read (i32.load (i32.const 300)) (i32.const 128) (i32.const 1)))
             (call $num (local.get $arg))
             (call $num (i32.load (i32.const 70000)))
             (call $num (i32.load offset=4 (global.get $sp)))
             (call $num (i32.wrap_i64 (global.get $wide)))
             (call $num (i32x4.extract_lane 2 (global.get $vector)))
             (call $num (memory.size))
             (call $num (i32.load (i32.const 600000)))
             (call $num (i32.load8_u (i32.const 131072)))
             (call $num (i32.load8_u (i32.const 131073)))
             (call $num (i32.load8_u (i32.const 200000)))
             (i32.store (i32.const 70000) (i32.const 99))
             (i32.store8 (i32.const 200000) (i32.const 99))
             (global.set $wide (i64.const 98))
             (i32.const 7))"#,
        r#"(local $pid i32)
           (drop (call $pipe (i32.const 300) (i32.const 304)))
           (i32.store (i32.const 70000) (i32.const 11))
           (global.set $sp (i32.const 60000))
           (i32.store (i32.const 60004) (i32.const 22))
           (global.set $wide (i64.const 0x100000021))
           (global.set $vector (v128.const i32x4 0 0 44 0))
           (drop (memory.grow (i32.const 6)))
           (i32.store (i32.const 600000) (i32.const 55))
           ;; What the module's image has is zero in the parent, and so it must be in the child.
           (i32.store8 (i32.const 131072) (i32.const 0))
           (local.set $pid (call $clone (i32.const 0) (i32.const 5)))
           (i32.store (i32.const 70000) (i32.const 12))
           (global.set $wide (i64.const 34))
           (drop (call $write (i32.load (i32.const 304)) (i32.const 0) (i32.const 1)))
           (call $num (call $wait (local.get $pid)))
           (call $num (i32.load (i32.const 70000)))
           (call $num (i32.wrap_i64 (global.get $wide)))
           (call $num (i32.load8_u (i32.const 200000)))"#,
    );
    assert_eq!(said, "5 11 22 33 44 10 55 0 109 117 1792 12 34 117 ");
}

#[test]
fn a_clone_is_a_child_process() {
    let said = says(
        "$child",
        "(func $child (param $parent i32) (result i32)
           (call $num (i32.eq (call $getppid) (local.get $parent)))
           (call $num (i32.eq (call $getpid) (local.get $parent)))
           ;; The number is the parent's to know: here is what was there before.
           (call $num (i32.load (i32.const 16)))
           (i32.const 0))",
        "(local $pid i32)
         (i32.store (i32.const 16) (i32.const 77))
         (local.set $pid (call $clone (i32.const 0) (call $getpid)))
         (call $num (call $wait (local.get $pid)))
         (call $num (i32.eq (local.get $pid) (i32.load (i32.const 24))))
         (call $num (call $wait (i32.const -1)))",
    );
    assert_eq!(said, "1 0 77 0 1 1012 ");
}

#[test]
fn ways_to_end() {
    let start = |arg: i32, entry: i32| {
        format!(
            "(call $num (call $wait (call $clone (i32.const {entry}) (i32.const {arg}))))
             (call $num (i32.const 1))"
        )
    };
    let machine = Machine::new();
    let functions = r#"
        (func $return (param i32) (result i32) (local.get 0))
        (func $leave (param i32) (result i32) (call $exit (local.get 0)) unreachable)
        (func $trap (param i32) (result i32) unreachable)
        (func $load (param i32) (result i32) (i32.load (local.get 0)))
        (func $other_type (param i64))"#;
    for (entry, arg, status) in [
        (0, 0, 0),
        (0, 7, 7 << 8),
        (0, 300, 44 << 8),
        (0, -1, 255 << 8),
        (1, 130, 130 << 8),
        (2, 0, 6 | 0x80),
        (3, -1, 11 | 0x80),
        // A pointer to nothing, or to a function of another type.
        (4, 0, 4 | 0x80),
        (99, 0, 4 | 0x80),
    ] {
        let output = run_on(
            &machine,
            "$return $leave $trap $load $other_type",
            functions,
            &start(arg, entry),
        );
        assert_eq!(
            (output.status, text(&output.stdout.bytes)),
            (ExitStatus::Code(0), format!("{status} 1 ")),
            "{entry} {arg}"
        );
        let trapped = status & 0x7f != 0;
        assert_eq!(
            text(&output.stderr.bytes).contains("g: wasm trap: "),
            trapped
        );
    }
    // An entry without a result ends with status 0.
    let module = guest("$return", functions, &start(9, 0)).replace(
        "(param i32 i32) (result i32)\n            (call_indirect (type $f) (local.get 1) (local.get 0))",
        "(param i32 i32)\n            (drop (call_indirect (type $f) (local.get 1) (local.get 0)))",
    );
    assert!(module.contains("(drop (call_indirect"));
    machine.install_wat("g", &module);
    assert_eq!(text(&machine.run("g", &[]).stdout.bytes), "0 1 ");
}

#[test]
fn clones_are_concurrent_stages_of_a_pipeline() {
    // 4 MiB of ones through a stage that doubles every byte, to the parent that adds them up.
    let said = says(
        "$producer $doubler",
        r#"(func $all (param $fd i32) (param $ptr i32) (param $len i32)
             (loop $more
               (if (call $write (local.get $fd) (local.get $ptr) (local.get $len)) (then unreachable))
               (local.set $ptr (i32.add (local.get $ptr) (i32.load (i32.const 8))))
               (local.set $len (i32.sub (local.get $len) (i32.load (i32.const 8))))
               (br_if $more (local.get $len))))
           (func $close (param i32) (if (call $fd_close (i32.load (local.get 0))) (then unreachable)))
           (func $producer (param $blocks i32) (result i32)
             (call $close (i32.const 300)) (call $close (i32.const 308)) (call $close (i32.const 312))
             (memory.fill (i32.const 70000) (i32.const 1) (i32.const 65536))
             (loop $more
               (call $all (i32.load (i32.const 304)) (i32.const 70000) (i32.const 65536))
               (local.set $blocks (i32.sub (local.get $blocks) (i32.const 1)))
               (br_if $more (local.get $blocks)))
             (i32.const 1))
           (func $doubler (param i32) (result i32) (local $n i32) (local $i i32)
             (call $close (i32.const 304)) (call $close (i32.const 308))
             (block $end (loop $more
               (br_if $end (i32.eqz (local.tee $n
                 (call $read (i32.load (i32.const 300)) (i32.const 70000) (i32.const 30000)))))
               (local.set $i (i32.const 0))
               (loop $each
                 (i32.store8 offset=70000 (local.get $i)
                   (i32.mul (i32.const 2) (i32.load8_u offset=70000 (local.get $i))))
                 (local.set $i (i32.add (local.get $i) (i32.const 1)))
                 (br_if $each (i32.lt_u (local.get $i) (local.get $n))))
               (call $all (i32.load (i32.const 312)) (i32.const 70000) (local.get $n))
               (br $more)))
             (i32.const 2))"#,
        "(local $a i32) (local $b i32) (local $n i32) (local $i i32) (local $sum i32)
         (drop (call $pipe (i32.const 300) (i32.const 304)))
         (drop (call $pipe (i32.const 308) (i32.const 312)))
         (local.set $a (call $clone (i32.const 0) (i32.const 64)))
         (local.set $b (call $clone (i32.const 1) (i32.const 0)))
         (call $close (i32.const 300)) (call $close (i32.const 304)) (call $close (i32.const 312))
         (block $end (loop $more
           (br_if $end (i32.eqz (local.tee $n
             (call $read (i32.load (i32.const 308)) (i32.const 70000) (i32.const 50000)))))
           (local.set $i (i32.const 0))
           (loop $each
             (local.set $sum (i32.add (local.get $sum)
               (i32.load8_u offset=70000 (local.get $i))))
             (local.set $i (i32.add (local.get $i) (i32.const 1)))
             (br_if $each (i32.lt_u (local.get $i) (local.get $n))))
           (br $more)))
         (call $num (local.get $sum))
         (call $num (call $wait (local.get $b)))
         (call $num (call $wait (local.get $a)))",
    );
    assert_eq!(said, format!("{} 512 256 ", 2 * (4 << 20)));
}

#[test]
fn a_signal_to_a_clone_ends_it_alone() {
    for (child, signal) in [
        ("(loop $for_ever (br $for_ever)) unreachable", 9),
        ("(loop $for_ever (br $for_ever)) unreachable", 15),
        ("(call $sleep_long (i32.const 0))", 15),
        // Blocked in a read for ever.
        (
            "(drop (call $pipe (i32.const 300) (i32.const 304)))
             (call $read (i32.load (i32.const 300)) (i32.const 128) (i32.const 1))",
            1,
        ),
    ] {
        let said = says(
            "$child",
            &format!("(func $child (param i32) (result i32) {child})"),
            &format!(
                "(local $pid i32)
                 (local.set $pid (call $clone (i32.const 0) (i32.const 0)))
                 (drop (call $sleep (i32.const 20)))
                 (call $num (call $kill (local.get $pid) (i32.const {signal})))
                 (call $num (call $wait (local.get $pid)))
                 ;; At once, before it can have begun.
                 (local.set $pid (call $clone (i32.const 0) (i32.const 0)))
                 (call $num (call $kill (local.get $pid) (i32.const {signal})))
                 (call $num (call $wait (local.get $pid)))"
            ),
        );
        assert_eq!(said, format!("0 {signal} 0 {signal} "));
    }
}

#[test]
fn handlers_stay_and_what_is_pending_does_not() {
    let said = says(
        "$child",
        r#"(func (export "__wasi_signal_trampoline") (param i32)
             (call $num (i32.add (i32.const 100) (local.get 0))))
           (func $child (param i32) (result i32)
             (drop (call $kill (call $getpid) (i32.const 10)))
             (call $num (i32.const 1))
             (i32.const 0))"#,
        "(drop (call $sigaction (i32.const 10) (i32.const 2) (i32.const 0) (i32.const 0) (i32.const 0)))
         (call $num (call $wait (call $clone (i32.const 0) (i32.const 0))))",
    );
    assert_eq!(said, "110 1 0 ");
}

#[test]
fn clones_clone() {
    // Each returns one more than its child, and changes what its child will see.
    let said = says(
        "$child",
        "(func $child (param $depth i32) (result i32)
           (i32.store (i32.const 70000)
             (i32.add (i32.load (i32.const 70000)) (i32.const 1)))
           (if (i32.eqz (local.get $depth)) (then (return (i32.load (i32.const 70000)))))
           (i32.add (i32.const 1) (i32.shr_u (call $wait
             (call $clone (i32.const 0) (i32.sub (local.get $depth) (i32.const 1)))) (i32.const 8))))",
        "(call $num (i32.shr_u (call $wait (call $clone (i32.const 0) (i32.const 40))) (i32.const 8)))
         (call $num (i32.load (i32.const 70000)))",
    );
    assert_eq!(said, "81 0 ");
}

#[test]
fn a_clone_may_exec() {
    let machine = Machine::new();
    machine.install_wat(
        "five",
        "(module (import \"wasi_snapshot_preview1\" \"proc_exit\" (func $exit (param i32)))
           (func (export \"_start\") (call $exit (i32.const 5))))",
    );
    let said = says_on(
        &machine,
        "$child",
        r#"(data (i32.const 1024) "/opt/agentos/bin/five\00")
           (func $child (param i32) (result i32)
             (call $exec (i32.const 1024) (i32.const 21) (i32.const 1024) (i32.const 22)
               (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)))"#,
        "(call $num (call $wait (call $clone (i32.const 0) (i32.const 0))))
         (call $num (call $wait (call $clone (i32.const 0) (i32.const 0))))",
    );
    assert_eq!(said, "1280 1280 ");
}

#[test]
fn a_clone_may_be_made_deep_in_the_stack() {
    // Much of the parent's native stack is in use; the clone begins with all of its own.
    let said = says(
        "$child",
        "(func $deep (param $n i32) (result i32)
           (if (result i32) (local.get $n)
             (then (i32.add (i32.const 1) (call $deep (i32.sub (local.get $n) (i32.const 1)))))
             (else (i32.shr_u (call $wait (call $clone (i32.const 0) (i32.const 20000))) (i32.const 8)))))
         (func $down (param $n i32) (result i32)
           (if (result i32) (local.get $n)
             (then (i32.add (i32.const 1) (call $down (i32.sub (local.get $n) (i32.const 1)))))
             (else (i32.const 0))))
         (func $child (param i32) (result i32)
           (i32.eq (call $down (local.get 0)) (local.get 0)))",
        "(call $num (call $deep (i32.const 40000)))",
    );
    assert_eq!(said, "40001 ");
}

#[test]
fn a_clone_bomb_meets_the_limit_of_processes() {
    let mut limits = Limits::default();
    limits.set("processes", 20).unwrap();
    let machine = Machine::with_limits(limits);
    let bomb = "(local $n i32) (local $errno i32)
        (block $end (loop $more
          (br_if $end (local.tee $errno (call $clone_raw
            (i32.const 0) (i32.const 0) (i32.const 0)
            (i32.add (i32.const 4096) (i32.mul (i32.const 4) (local.get $n))))))
          (local.set $n (i32.add (local.get $n) (i32.const 1)))
          (br $more)))
        (call $num (local.get $errno))
        (call $num (i32.ge_u (local.get $n) (i32.const 17)))
        (loop $each
          (local.set $n (i32.sub (local.get $n) (i32.const 1)))
          (drop (call $kill (i32.load offset=4096 (i32.mul (i32.const 4) (local.get $n))) (i32.const 9)))
          (drop (call $wait (i32.const -1)))
          (br_if $each (local.get $n)))";
    // Twice, for it must be possible again afterwards.
    let said = says_on(
        &machine,
        "$sleep_long",
        "",
        &[bomb, &bomb.replace("(local $n i32) (local $errno i32)", "")].concat(),
    );
    assert_eq!(said, "6 1 6 1 ");
}

#[test]
fn clones_count_as_memory() {
    let mut limits = Limits::default();
    // The parent has 4 pages and grows to 16, one MiB.
    limits.set("vm.memory_bytes", 3 << 20).unwrap();
    let machine = Machine::with_limits(limits);
    let said = says_on(
        &machine,
        "$sleep_long",
        "(func $try (result i32)
           (call $clone_raw (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 16)))",
        "(local $first i32)
         (drop (memory.grow (i32.const 12)))
         (call $num (call $try))
         (local.set $first (i32.load (i32.const 16)))
         (call $num (call $try)) (call $num (call $try))
         (call $num (call $kill (i32.load (i32.const 16)) (i32.const 9)))
         (call $num (call $wait (i32.const -1)))
         (call $num (call $try)) (call $num (call $try))
         (drop (call $kill (i32.load (i32.const 16)) (i32.const 9)))
         (drop (call $kill (local.get $first) (i32.const 9)))
         (call $num (call $wait (i32.const -1)))
         (call $num (call $wait (i32.const -1)))",
    );
    assert_eq!(said, "0 0 48 0 9 0 48 9 9 ");
}

#[test]
fn programs_that_lack_something_are_told() {
    let machine = Machine::new();
    let whole = guest(
        "$sleep_long",
        "",
        "(call $num (call $clone_raw (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 16)))",
    );
    let entry = "(export \"__aos_clone_entry\") (param i32 i32) (result i32)
            (call_indirect (type $f) (local.get 1) (local.get 0))";
    for (what, with) in [
        ("(export \"__stack_pointer\")", ""),
        (
            "(export \"__stack_pointer\") (mut i32)",
            "(export \"__stack_pointer\") i32",
        ),
        (
            "(export \"__stack_pointer\") (mut i32) (i32.const 65536)",
            "(export \"__stack_pointer\") (mut i64) (i64.const 65536)",
        ),
        ("(export \"__aos_clone_entry\")", ""),
        (
            entry,
            "(export \"__aos_clone_entry\") (param i32) (result i32) (local.get 0)",
        ),
        (
            entry,
            "(export \"__aos_clone_entry\") (param i32 i64) (result i32) (local.get 0)",
        ),
        (
            entry,
            "(export \"__aos_clone_entry\") (param i32 i32) (result i64) (i64.const 0)",
        ),
        // State that no clone could get.
        (
            "(table funcref",
            "(global (export \"g\") (mut funcref) (ref.null func)) (table funcref",
        ),
        // What would run again in the clone.
        (
            "(table funcref",
            "(start $nothing) (func $nothing) (table funcref",
        ),
    ] {
        let module = whole.replace(what, with);
        assert_ne!(module, whole, "{what}");
        machine.install_wat("g", &module);
        let output = machine.run("g", &[]);
        assert_eq!(text(&output.stdout.bytes), "45 ", "{with}");
        assert_eq!(output.status, ExitStatus::Code(0));
    }
    for (flags, out, errno) in [(1, 16, 28), (-1, 16, 28), (0, -1, 21), (0, 262_141, 21)] {
        let said = says_on(
            &machine,
            "$sleep_long",
            "",
            &format!(
                "(call $num (call $clone_raw (i32.const 0) (i32.const 0)
                   (i32.const {flags}) (i32.const {out})))
                 (call $num (call $wait (i32.const -1)))"
            ),
        );
        assert_eq!(said, format!("{errno} 1012 "));
    }
}

#[test]
fn many_clones_leave_nothing() {
    let machine = Machine::new();
    // More than there are instances to be had, with memory that is dirty all over.
    let count = driver_wasm::MAX_INSTANCES + 500;
    let said = says_on(
        &machine,
        "$child",
        "(func $child (param $n i32) (result i32)
           (memory.fill (i32.const 100000) (i32.const 7) (i32.const 100000))
           (i32.and (local.get $n) (i32.const 1)))",
        &format!(
            "(local $n i32) (local $ends i32)
             (local.set $n (i32.const {count}))
             (loop $more
               (local.set $ends (i32.add (local.get $ends)
                 (call $wait (call $clone (i32.const 0) (local.get $n)))))
               (local.set $n (i32.sub (local.get $n) (i32.const 1)))
               (br_if $more (local.get $n)))
             (call $num (local.get $ends))"
        ),
    );
    assert_eq!(said, format!("{} ", count / 2 * 256));
    assert_eq!(
        machine.vm.processes().len(),
        1,
        "only the first process is left"
    );
}

#[test]
fn disposing_a_machine_ends_its_clones() {
    let machine = Machine::new();
    machine.install_wat(
        "g",
        &guest(
            "$spin $sleep_long",
            "(func $spin (param i32) (result i32) (loop $more (br $more)) unreachable)",
            "(drop (call $clone (i32.const 0) (i32.const 0)))
             (drop (call $clone (i32.const 1) (i32.const 0)))
             (call $num (i32.const 1))
             (drop (call $sleep_long (i32.const 0)))",
        ),
    );
    let mut child = machine.start_piped("g", &[]);
    let mut stdout = child.stdout.take().unwrap();
    let mut byte = [0];
    assert_eq!(stdout.read_timeout(&mut byte, PATIENCE), Ok(1));
    let began = Instant::now();
    machine.vm.dispose().unwrap();
    assert!(began.elapsed() < PATIENCE);
    assert_eq!(
        child.wait(),
        ExitStatus::Signal {
            signal: Signal::KILL,
            core: false
        }
    );
}
