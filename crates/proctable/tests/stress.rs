//! Many threads at once: nothing is lost, nothing hangs, nothing is left over.

mod common;

use common::{World, blank, eventually, patience};
use proctable::fifo::{FifoTable, complete_open};
use proctable::pipe::pipe;
use proctable::poll::{PollFd, poll};
use proctable::{
    CreateError, Delivery, ExitStatus, FdTable, KillTarget, NewGroup, Signal, WaitOptions,
    WaitTarget, block_on, io,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use vfs_core::errno::Errno;
use vfs_core::file::OpenFile;
use vfs_core::types::{Cred, OpenFlags};
use vfs_core::wait::PollEvents;

#[test]
fn parents_wait_for_children_that_end_on_their_own_threads() {
    let world = World::new();
    let parents: Vec<_> = (0..4u8)
        .map(|_| {
            let table = world.table.clone();
            let parent = world.shell();
            std::thread::spawn(move || {
                let mut sum = 0u64;
                for round in 0..150u64 {
                    let child = table.create(&parent, blank(FdTable::new())).unwrap();
                    let thread = {
                        let table = table.clone();
                        std::thread::spawn(move || {
                            table.exit(&child, ExitStatus::Code(round as u8))
                        })
                    };
                    let event = table
                        .wait_blocking(&parent, WaitTarget::Any, WaitOptions::empty(), patience())
                        .unwrap()
                        .unwrap();
                    sum += u64::from(event.status.raw() >> 8);
                    thread.join().unwrap();
                }
                table.exit(&parent, ExitStatus::Code(0));
                sum
            })
        })
        .collect();
    for parent in parents {
        assert_eq!(parent.join().unwrap(), (0..150).sum::<u64>());
    }
    assert_eq!(
        (
            world.table.list().len(),
            world.table.meters().processes.used()
        ),
        (1, 0)
    );
}

#[test]
fn a_byte_goes_round_and_round() {
    // Each step is a wake-up that must not be lost.
    let world = World::new();
    let limits = world.table.pipe_limits();
    const STEPS: usize = 4;
    let pipes: Vec<_> = (0..STEPS)
        .map(|_| pipe(&limits, &Cred::root(), OpenFlags::empty()).unwrap())
        .collect();
    let threads: Vec<_> = (0..STEPS)
        .map(|i| {
            let (r, w) = (pipes[i].0.clone(), pipes[(i + 1) % STEPS].1.clone());
            let p = world.shell();
            std::thread::spawn(move || {
                let mut byte = [0];
                for _ in 0..2000 {
                    assert_eq!(io::read(&p, &r, &mut byte), Ok(1));
                    assert_eq!(io::write(&p, &w, &byte), Ok(1));
                }
            })
        })
        .collect();
    pipes[0].1.write(b"x").unwrap();
    threads.into_iter().for_each(|t| t.join().unwrap());
}

#[test]
fn many_writers_many_readers_and_pollers_move_every_byte() {
    let world = World::new();
    let (r, w) = pipe(
        &world.table.pipe_limits(),
        &Cred::root(),
        OpenFlags::empty(),
    )
    .unwrap();
    let total = Arc::new(AtomicU64::new(0));
    let writers: Vec<_> = (1..=4usize)
        .map(|n| {
            let (p, w) = (world.shell(), w.clone());
            std::thread::spawn(move || {
                for size in (1..300).map(|i| i * n * 17 % 9000 + 1) {
                    assert_eq!(io::write(&p, &w, &vec![1; size]), Ok(size));
                }
                (1..300u64)
                    .map(|i| i * n as u64 * 17 % 9000 + 1)
                    .sum::<u64>()
            })
        })
        .collect();
    drop(w);
    let readers: Vec<_> = (0..3usize)
        .map(|n| {
            let (p, r, total) = (world.shell(), r.clone(), total.clone());
            std::thread::spawn(move || {
                let mut buf = vec![0; 5000 + n];
                loop {
                    if n == 0 {
                        let mut list = [PollFd::for_file(r.clone(), PollEvents::IN)];
                        assert_eq!(poll(&mut list, patience(), &p), Ok(1));
                    }
                    match io::read(&p, &r, &mut buf).unwrap() {
                        0 => return,
                        got => total.fetch_add(got as u64, Ordering::Relaxed),
                    };
                }
            })
        })
        .collect();
    let written: u64 = writers.into_iter().map(|t| t.join().unwrap()).sum();
    readers.into_iter().for_each(|t| t.join().unwrap());
    assert_eq!(total.load(Ordering::Relaxed), written);
}

#[test]
fn stops_and_continuations_race_without_hanging() {
    let world = World::new();
    let shell = world.shell();
    let mut new = blank(FdTable::new());
    new.group = NewGroup::Lead;
    let job = world.table.create(&shell, new).unwrap();
    let runner = {
        let job = job.clone();
        std::thread::spawn(move || {
            let mut stops = 0u32;
            loop {
                let slept = block_on(&job, &[], patience(), || Err::<(), _>(Errno::EAGAIN));
                assert_eq!(slept, Err(Errno::EINTR));
                while let Some(delivery) = job.take_signal() {
                    match delivery {
                        Delivery::Stop(_) => {
                            stops += 1;
                            job.wait_while_stopped();
                        }
                        Delivery::Terminate { signal, core } => {
                            return (stops, ExitStatus::Signal { signal, core });
                        }
                        other => panic!("{other:?}"),
                    }
                }
            }
        })
    };
    let senders: Vec<_> = [Signal::TSTP, Signal::CONT]
        .map(|signal| {
            let (table, pid) = (world.table.clone(), job.pid());
            std::thread::spawn(move || {
                for _ in 0..3000 {
                    table
                        .kill(None, KillTarget::Group(pid), Some(signal))
                        .unwrap();
                }
            })
        })
        .into();
    senders.into_iter().for_each(|t| t.join().unwrap());
    world
        .table
        .kill(None, KillTarget::Pid(job.pid()), Some(Signal::KILL))
        .unwrap();
    let (_, status) = runner.join().unwrap();
    assert_eq!(
        status,
        ExitStatus::Signal {
            signal: Signal::KILL,
            core: false
        }
    );
}

#[test]
fn a_whole_group_is_killed_however_fast_it_spawns() {
    let world = World::new();
    let shell = world.shell();
    let mut new = blank(FdTable::new());
    new.group = NewGroup::Lead;
    let leader = world.table.create(&shell, new).unwrap();
    let first: Vec<_> = (0..3).map(|_| world.spawn(&leader)).collect();
    let bombs: Vec<_> = first
        .into_iter()
        .map(|mut parent| {
            let table = world.table.clone();
            std::thread::spawn(move || {
                let mut made = vec![parent.clone()];
                // Each child makes the next one, until it is killed; the limit only slows it.
                loop {
                    match table.create(&parent, blank(FdTable::new())) {
                        Ok(child) => {
                            made.push(child.clone());
                            parent = child;
                        }
                        Err(CreateError::Ending) => return made,
                        Err(CreateError::Limit(_)) => std::thread::yield_now(),
                        Err(other) => panic!("{other}"),
                    }
                }
            })
        })
        .collect();
    eventually("some exist", || world.table.alive() > 50);
    world
        .table
        .kill(None, KillTarget::Group(leader.pid()), Some(Signal::KILL))
        .unwrap();
    for bomb in bombs {
        let made = bomb.join().unwrap();
        assert!(made.iter().all(|p| p.signals().fatal()), "nobody escaped");
        made.iter()
            .for_each(|p| world.table.exit(p, ExitStatus::Code(0)));
    }
}

#[test]
fn fifos_meet_from_both_sides_again_and_again() {
    let (world, fifos) = (World::new(), Arc::new(FifoTable::new()));
    let side = |flags: OpenFlags| {
        let (fifos, limits, p) = (fifos.clone(), world.table.pipe_limits(), world.shell());
        std::thread::spawn(move || {
            for _ in 0..300 {
                let end = fifos.open(&limits, (1, 1), flags, &Cred::root()).unwrap();
                let file = OpenFile::anonymous(end, flags);
                complete_open(&p, &file).unwrap();
                if flags.writable() {
                    // The reader of another round may have gone already.
                    let _ = file.write(b"x");
                } else {
                    let _ = io::read(&p, &file, &mut [0; 4]).unwrap();
                }
            }
        })
    };
    let (reader, writer) = (side(OpenFlags::empty()), side(OpenFlags::WRONLY));
    // One side may run ahead by a round and then wait for a partner that has finished; keep
    // offering one until both are done.
    eventually("both done", || {
        for (done, flags) in [
            (reader.is_finished(), OpenFlags::empty()),
            (writer.is_finished(), OpenFlags::WRONLY),
        ] {
            if done
                && let Ok(end) = fifos.open(
                    &world.table.pipe_limits(),
                    (1, 1),
                    flags | OpenFlags::NONBLOCK,
                    &Cred::root(),
                )
            {
                drop(end);
            }
        }
        reader.is_finished() && writer.is_finished()
    });
    reader.join().unwrap();
    writer.join().unwrap();
    assert_eq!(world.table.meters().pipes.used(), 0);
}
