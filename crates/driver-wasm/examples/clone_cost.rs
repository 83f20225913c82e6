//! What `aos_process.clone` costs: `clone_cost [COUNT]`.
//!
//! A guest writes so many KiB of its memory, then clones itself again and again and takes the
//! time: of the call, until the clone has begun, and until the clone was waited for.
#![expect(clippy::print_stdout, reason = "the output is its purpose")]

use driver_wasm::WasmDriver;
use kernel::{Capture, Cred, SpawnRequest, Vm, VmConfig};
use std::sync::Arc;

/// KiB of live state: what a small shell has, the shell that was measured first, the bar, more.
const SIZES: [usize; 4] = [64, 872, 2048, 8192];

/// A guest that makes `count` clones with `kib` KiB written and prints four times for each: when
/// the call began, when it returned, when the clone began and when it was reaped.
fn guest(kib: usize, count: usize) -> String {
    let pages = kib.div_ceil(64);
    format!(
        r#"(module
          (import "aos_process" "clone" (func $clone (param i32 i32 i32 i32) (result i32)))
          (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
          (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
          (import "wasi_snapshot_preview1" "clock_time_get" (func $clock (param i32 i64 i32) (result i32)))
          (import "host_process" "fd_pipe" (func $pipe (param i32 i32) (result i32)))
          (import "host_process" "proc_waitpid_v3" (func $wait (param i32 i32 i32 i32) (result i32)))
          (memory (export "memory") 2)
          (global (export "__stack_pointer") (mut i32) (i32.const 65536))
          (func $now (param i32) (if (call $clock (i32.const 1) (i64.const 0) (local.get 0)) (then unreachable)))
          (func $write (param i32 i32 i32)
            (i32.store (i32.const 0) (local.get 1)) (i32.store (i32.const 4) (local.get 2))
            (if (call $fd_write (local.get 0) (i32.const 0) (i32.const 1) (i32.const 8)) (then unreachable)))
          (func (export "__aos_clone_entry") (param i32 i32)
            (call $now (i32.const 128))
            (call $write (i32.load (i32.const 20)) (i32.const 128) (i32.const 8)))
          (func (export "_start") (local $n i32) (local $at i32)
            (drop (memory.grow (i32.const {pages})))
            (if (call $pipe (i32.const 16) (i32.const 20)) (then unreachable))
            (memory.fill (i32.const 65536) (i32.const 7) (i32.const {}))
            (local.set $n (i32.const {count}))
            (loop $more
              (call $now (i32.const 32))
              (if (call $clone (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 24)) (then unreachable))
              (call $now (i32.const 40))
              (i32.store (i32.const 0) (i32.const 48)) (i32.store (i32.const 4) (i32.const 8))
              (if (call $fd_read (i32.load (i32.const 16)) (i32.const 0) (i32.const 1) (i32.const 8)) (then unreachable))
              (if (call $wait (i32.load (i32.const 24)) (i32.const 0) (i32.const 28) (i32.const 12)) (then unreachable))
              (call $now (i32.const 56))
              (call $write (i32.const 1) (i32.const 32) (i32.const 32))
              (local.set $n (i32.sub (local.get $n) (i32.const 1)))
              (br_if $more (local.get $n)))))"#,
        kib * 1024
    )
}

fn main() {
    let count: usize = std::env::args()
        .nth(1)
        .map_or(2000, |count| count.parse().expect("a number"));
    let driver = WasmDriver::new().expect("a driver");
    let vm = Vm::new(VmConfig {
        drivers: vec![Arc::new(driver)],
        cred: Cred::root(),
        ..VmConfig::default()
    })
    .expect("a machine");
    vm.mkdir_all(b"/opt/agentos/bin", 0o755)
        .expect("a directory");
    for kib in SIZES {
        let module = wat::parse_str(guest(kib, count)).expect("a module");
        let name = format!("/opt/agentos/bin/clone-{kib}");
        vm.write_file(name.as_bytes(), &module, 0o755)
            .expect("room");
        let request = SpawnRequest::new(name.as_str(), Vec::<String>::new());
        let output = vm.output(&request, &Capture::default()).expect("it starts");
        let times: Vec<u64> = output
            .stdout
            .bytes
            .chunks_exact(8)
            .map(|bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
            .collect();
        assert_eq!(times.len(), 4 * count, "{:?}", output.status);
        let show = |what: &str, end: usize| {
            let mut spans: Vec<u64> = times
                .chunks_exact(4)
                .map(|record| record[end].saturating_sub(record[0]) / 1000)
                .collect();
            spans.sort_unstable();
            format!(
                "{what} {} µs (min {}, p95 {})",
                spans[count / 2],
                spans[0],
                spans[count * 95 / 100]
            )
        };
        println!(
            "{kib:>5} KiB live: {}; {}; {}",
            show("call", 1),
            show("child begins", 2),
            show("child reaped", 3)
        );
    }
}
