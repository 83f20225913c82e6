//! What a machine and a process cost, without any runtime: programs are closures.
//!
//! `cargo run --release -p kernel --example cost`

#![allow(clippy::print_stdout, reason = "it is what it is for")]

#[path = "../tests/common/mod.rs"]
mod common;

use common::{Machine, request, strings};
use kernel::{
    Outcome, Search, SpawnArgs, SpawnAttrs, SpawnRequest, Stdio, Vm, VmConfig, WaitOptions,
    WaitTarget,
};
use std::time::{Duration, Instant};

/// Median of `n` runs.
fn median(n: usize, mut run: impl FnMut()) -> Duration {
    let mut times: Vec<Duration> = (0..n)
        .map(|_| {
            let begun = Instant::now();
            run();
            begun.elapsed()
        })
        .collect();
    times.sort();
    times[n / 2]
}

fn main() {
    println!(
        "create and dispose of a VM: {:?}",
        median(200, || {
            Vm::new(VmConfig::default()).unwrap().dispose().unwrap();
        })
    );
    let machine = Machine::new();
    println!(
        "host spawn to exit: {:?}",
        median(2000, || {
            machine.spawn("true", &[]).wait();
        })
    );
    let from_root = SpawnRequest {
        cwd: Some(b"/".to_vec()),
        ..request("/usr/local/bin/true", &[])
    };
    println!(
        "the same by path: {:?}",
        median(2000, || {
            machine.vm.spawn(&from_root).unwrap().wait();
        })
    );
    machine.program("spawner", |task| {
        let env = strings(&["PATH=/usr/local/bin"]);
        println!(
            "guest spawn to wait: {:?}",
            median(2000, || {
                let args = SpawnArgs {
                    path: b"/usr/local/bin/true",
                    search: Search::Env,
                    argv: strings(&["true"]),
                    env: env.clone(),
                    cwd: None,
                    actions: vec![],
                    attrs: SpawnAttrs::default(),
                };
                let pid = task.spawn(args).unwrap();
                task.wait(WaitTarget::Pid(pid), WaitOptions::empty())
                    .unwrap();
            })
        );
        Outcome::Exit(0)
    });
    machine.spawn("spawner", &[]).wait();
    machine.program("zero", |task| {
        let fd = task
            .openat(
                kernel::Dir::Cwd,
                b"/dev/zero",
                kernel::OpenFlags::empty(),
                0,
            )
            .unwrap();
        let mut buf = vec![0; 65536];
        let begun = Instant::now();
        for _ in 0..16384 {
            task.read(fd, &mut buf).unwrap();
        }
        println!(
            "/dev/zero: {:.1} GB/s",
            1.073 / begun.elapsed().as_secs_f64()
        );
        let begun = Instant::now();
        for _ in 0..1_000_000 {
            task.read(fd, &mut buf[..1]).unwrap();
        }
        println!("a read of one byte: {:?}", begun.elapsed() / 1_000_000);
        let begun = Instant::now();
        for _ in 0..1_000_000 {
            task.checkpoint().unwrap();
        }
        println!("a checkpoint: {:?}", begun.elapsed() / 1_000_000);
        let begun = Instant::now();
        for _ in 0..100_000 {
            task.fstatat(
                kernel::Dir::Cwd,
                b"/usr/local/bin/true",
                kernel::Lookup::FOLLOW,
            )
            .unwrap();
        }
        println!("a stat of four components: {:?}", begun.elapsed() / 100_000);
        Outcome::Exit(0)
    });
    machine.spawn("zero", &[]).wait();
    machine.program("yes64k", |task| {
        let buf = vec![b'y'; 65536];
        for _ in 0..16384 {
            if task.write(1, &buf).is_err() {
                break;
            }
        }
        Outcome::Exit(0)
    });
    let streams = [Stdio::Null, Stdio::Pipe, Stdio::Null];
    let mut writer = machine
        .vm
        .spawn(&SpawnRequest {
            stdio: streams,
            ..request("yes64k", &[])
        })
        .unwrap();
    let mut reader = writer.stdout.take().unwrap();
    let begun = Instant::now();
    let mut buf = vec![0; 65536];
    let mut total = 0;
    while let Ok(n @ 1..) = reader.read(&mut buf) {
        total += n;
    }
    println!(
        "a pipe to the host: {:.1} GB/s",
        total as f64 / 1e9 / begun.elapsed().as_secs_f64()
    );
    let before = resident();
    let machines: Vec<Machine> = (0..500)
        .map(|_| {
            let machine = Machine::new();
            machine.spawn("sleep", &["600000"]);
            machine
        })
        .collect();
    std::thread::sleep(Duration::from_millis(200));
    println!(
        "a VM with one sleeping process: {} KiB",
        (resident() - before) / 1024 / 500
    );
    let begun = Instant::now();
    drop(machines);
    println!("disposing of each: {:?}", begun.elapsed() / 500);
}

/// Resident memory of this host process.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}
