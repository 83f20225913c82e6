//! Measures what a VM's speed rests on: a process's life in the table, and bytes through a pipe.
//!
//!     cargo run --release -p proctable --example measure
#![allow(clippy::print_stdout, reason = "printing is what it is for")]

use proctable::pipe::pipe;
use proctable::{
    ExitStatus, FdTable, Image, NewProcess, NoEvents, ProcLimits, ProcTable, WaitOptions,
    WaitTarget, io,
};
use std::sync::Arc;
use std::time::Instant;
use vfs_core::types::{Cred, OpenFlags};

fn main() {
    let table = ProcTable::new(ProcLimits::default(), Arc::new(NoEvents));
    let new = |fds| table.create(table.init(), NewProcess::new(Image::default(), fds));
    let (Ok(parent), Ok(writer)) = (new(FdTable::new()), new(FdTable::new())) else {
        return;
    };

    let limits = table.pipe_limits();
    let Ok((r, w)) = pipe(&limits, &Cred::root(), OpenFlags::empty()) else {
        return;
    };
    for _ in 0..3 {
        let _ = parent.fds().insert(r.clone(), false, 0);
    }
    let rounds = 200_000;
    let start = Instant::now();
    for _ in 0..rounds {
        let new = NewProcess::new(Image::default(), parent.fds().fork());
        let Ok(child) = table.create(&parent, new) else {
            return;
        };
        table.exit(&child, ExitStatus::Code(0));
        let _ = table.wait(&parent, WaitTarget::Pid(child.pid()), WaitOptions::empty());
    }
    println!(
        "create, exit, wait: {:.2} us",
        start.elapsed().as_secs_f64() * 1e6 / f64::from(rounds)
    );
    parent.fds().close_all();
    drop((r, w));

    for size in [4096, 32 << 10, 64 << 10, 256 << 10, 1 << 20] {
        let Ok((r, w)) = pipe(&limits, &Cred::root(), OpenFlags::empty()) else {
            return;
        };
        let total = 1usize << 30;
        let start = Instant::now();
        let thread = {
            let writer = writer.clone();
            std::thread::spawn(move || {
                let data = vec![1u8; size];
                for _ in 0..total / size {
                    if io::write(&writer, &w, &data).is_err() {
                        return;
                    }
                }
            })
        };
        let mut buf = vec![0; size];
        while io::read(&parent, &r, &mut buf).is_ok_and(|n| n > 0) {}
        let rate = total as f64 / start.elapsed().as_secs_f64() / 1e9;
        println!("pipe, {:>4} KiB at a time: {rate:.2} GB/s", size >> 10);
        let _ = thread.join();
    }
}
