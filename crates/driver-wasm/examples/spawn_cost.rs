//! What a spawn of a program costs when everything is warm: `spawn_cost MODULE [COUNT] [ARG…]`.
#![expect(clippy::print_stdout, reason = "the output is its purpose")]

use driver_wasm::WasmDriver;
use kernel::{Cred, SpawnRequest, Vm, VmConfig};
use std::sync::Arc;
use std::time::{Duration, Instant};

fn main() {
    let mut args = std::env::args().skip(1);
    let module = std::fs::read(args.next().expect("a module")).expect("readable");
    let count: usize = args
        .next()
        .map_or(2000, |count| count.parse().expect("a number"));
    let args: Vec<String> = args.collect();
    let started = Instant::now();
    let driver = WasmDriver::new().expect("a driver");
    let engine = started.elapsed();
    let started = Instant::now();
    driver.warm(&module).expect("a program");
    let warm = started.elapsed();
    let started = Instant::now();
    let vm = Vm::new(VmConfig {
        drivers: vec![Arc::new(driver)],
        cred: Cred::root(),
        ..VmConfig::default()
    })
    .expect("a machine");
    let machine = started.elapsed();
    vm.mkdir_all(b"/opt/agentos/bin", 0o755)
        .expect("a directory");
    vm.write_file(b"/opt/agentos/bin/program", &module, 0o755)
        .expect("room");
    let request = SpawnRequest::new("/opt/agentos/bin/program", args);
    let mut times: Vec<Duration> = (0..count)
        .map(|_| {
            let started = Instant::now();
            vm.spawn(&request).expect("it starts").wait();
            started.elapsed()
        })
        .collect();
    times.sort();
    println!(
        "engine {engine:?}, module {warm:?}, machine {machine:?}; spawn to exit: min {:?}, median {:?}, p95 {:?}, max {:?}",
        times[0],
        times[count / 2],
        times[count * 95 / 100],
        times[count - 1]
    );
}
