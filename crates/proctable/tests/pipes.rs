//! Pipes: order, atomicity, ends, readiness, limits; random operations beside a real pipe.

mod common;

use common::{World, eventually, host_available, host_poll, patience};
use proctable::pipe::{DEFAULT_CAPACITY, PIPE_BUF, PipeEnd, pipe};
use proctable::poll::{PollFd, poll};
use proctable::{Process, Signal, State, io};
use proptest::prelude::*;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;
use vfs_core::errno::Errno;
use vfs_core::file::OpenFile;
use vfs_core::types::{Cred, FileType, OpenFlags};
use vfs_core::wait::PollEvents;

type Ends = (Arc<OpenFile>, Arc<OpenFile>);

fn ends(world: &World, flags: OpenFlags) -> Ends {
    pipe(&world.table.pipe_limits(), &Cred::user(4, 5), flags).unwrap()
}

fn now() -> Option<Instant> {
    Some(Instant::now())
}

#[test]
fn ends_have_a_direction_and_no_offset() {
    let world = World::new();
    let (r, w) = ends(&world, OpenFlags::empty());
    assert_eq!(r.write(b"x"), Err(Errno::EBADF));
    assert_eq!(w.read(&mut [0]), Err(Errno::EBADF));
    assert_eq!(r.pread(&mut [0], 0), Err(Errno::ESPIPE));
    assert_eq!(r.seek(0, vfs_core::file::Whence::Set), Err(Errno::ESPIPE));
    let stat = r.stat().unwrap();
    assert_eq!(
        (stat.file_type(), stat.perm(), stat.uid, stat.gid),
        (FileType::Fifo, 0o600, 4, 5)
    );
    assert_eq!(stat, w.stat().unwrap());
    assert_eq!(w.write(b"hello"), Ok(5));
    assert_eq!(r.ops().readable_bytes(), Ok(5));
    let mut buf = [0; 9];
    assert_eq!((r.read(&mut buf), &buf[..5]), (Ok(5), &b"hello"[..]));
    assert_eq!(r.read(&mut buf), Err(Errno::EAGAIN));
    drop(w);
    assert_eq!(r.read(&mut buf), Ok(0));
}

#[test]
fn what_was_written_is_read_after_the_writer_is_gone() {
    let world = World::new();
    let (r, w) = ends(&world, OpenFlags::empty());
    w.write(&[7; 5000]).unwrap();
    drop(w);
    assert_eq!(
        r.poll(),
        PollEvents::IN | PollEvents::RDNORM | PollEvents::HUP
    );
    let mut buf = [0; 9000];
    assert_eq!(r.read(&mut buf), Ok(5000));
    assert_eq!(r.read(&mut buf), Ok(0));
    assert_eq!(r.poll(), PollEvents::HUP);
}

#[test]
fn writing_without_a_reader_raises_sigpipe() {
    let world = World::new();
    let p = world.shell();
    let (r, w) = ends(&world, OpenFlags::empty());
    drop(r);
    assert_eq!(
        w.poll(),
        PollEvents::OUT | PollEvents::WRNORM | PollEvents::ERR
    );
    assert_eq!(
        io::write(&p, &w, b""),
        Ok(0),
        "nothing can always be written"
    );
    assert_eq!(io::write(&p, &w, b"x"), Err(Errno::EPIPE));
    assert!(p.signals().fatal());
}

#[test]
fn small_writes_are_all_or_nothing() {
    let world = World::new();
    let (r, w) = ends(&world, OpenFlags::NONBLOCK);
    assert_eq!(w.write(&vec![1; 100_000]), Ok(DEFAULT_CAPACITY));
    assert_eq!(w.write(b"x"), Err(Errno::EAGAIN));
    assert!(!w.poll().contains(PollEvents::OUT));
    r.read(&mut [0; PIPE_BUF - 1]).unwrap();
    assert!(!w.poll().contains(PollEvents::OUT));
    assert_eq!(w.write(&[2; PIPE_BUF]), Err(Errno::EAGAIN));
    r.read(&mut [0]).unwrap();
    assert!(w.poll().contains(PollEvents::OUT));
    assert_eq!(w.write(&[2; PIPE_BUF]), Ok(PIPE_BUF));
}

#[test]
fn concurrent_small_writes_never_mix() {
    let world = World::new();
    let (r, w) = ends(&world, OpenFlags::empty());
    const WRITERS: u8 = 6;
    const EACH: usize = 400;
    let threads: Vec<_> = (0..WRITERS)
        .map(|id| {
            let (p, w) = (world.shell(), w.clone());
            std::thread::spawn(move || {
                for i in 0..EACH {
                    // A record: its length, then the writer's number.
                    let len = 3 + (i * 37) % (PIPE_BUF - 3);
                    let mut record = vec![id; len];
                    record[..2].copy_from_slice(&(len as u16).to_le_bytes());
                    assert_eq!(io::write(&p, &w, &record), Ok(len));
                }
            })
        })
        .collect();
    drop(w);
    let p = world.shell();
    let mut all = Vec::new();
    let mut buf = vec![0; 10_000];
    loop {
        match io::read(&p, &r, &mut buf).unwrap() {
            0 => break,
            n => all.extend_from_slice(&buf[..n]),
        }
    }
    threads.into_iter().for_each(|t| t.join().unwrap());
    let mut records = 0;
    let mut rest = &all[..];
    while let [a, b, ..] = *rest {
        let len = usize::from(u16::from_le_bytes([a, b]));
        let (record, after) = rest.split_at(len);
        assert!(record[2..].iter().all(|byte| *byte == record[2]));
        records += 1;
        rest = after;
    }
    assert_eq!(records, usize::from(WRITERS) * EACH);
}

#[test]
fn a_long_write_blocks_until_all_is_through() {
    let world = World::new();
    let (writer, reader) = (world.shell(), world.shell());
    let (r, w) = ends(&world, OpenFlags::empty());
    let data: Vec<u8> = (0..3_000_000u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let expected = data.clone();
    let thread = {
        let writer = writer.clone();
        std::thread::spawn(move || io::write(&writer, &w, &data))
    };
    let mut all = Vec::new();
    let mut size = 1;
    loop {
        let mut buf = vec![0; size];
        match io::read(&reader, &r, &mut buf).unwrap() {
            0 => break,
            n => all.extend_from_slice(&buf[..n]),
        }
        size = (size * 3 + 1) % 150_000 + 1;
    }
    assert_eq!(thread.join().unwrap(), Ok(expected.len()));
    assert!(all == expected, "the bytes arrive in order");
}

#[test]
fn a_signal_interrupts_with_a_short_count_or_eintr() {
    let world = World::new();
    let p = world.shell();
    let (r, w) = ends(&world, OpenFlags::empty());
    let blocked = |p: &Arc<Process>, w: &Arc<OpenFile>, len| {
        let (p, w) = (p.clone(), w.clone());
        std::thread::spawn(move || io::write(&p, &w, &vec![0; len]))
    };
    let thread = blocked(&p, &w, 100_000);
    eventually("full", || {
        PipeEnd::of(&r).unwrap().pipe().len() == DEFAULT_CAPACITY
    });
    eventually("asleep", || p.state() == State::Sleeping);
    p.raise(Signal::TERM);
    assert_eq!(thread.join().unwrap(), Ok(DEFAULT_CAPACITY));
    assert_eq!(blocked(&p, &w, 10).join().unwrap(), Err(Errno::EINTR));
    let q = world.shell();
    let (empty, _open) = ends(&world, OpenFlags::empty());
    let thread = {
        let q = q.clone();
        std::thread::spawn(move || io::read(&q, &empty, &mut [0]))
    };
    eventually("asleep", || q.state() == State::Sleeping);
    q.raise(Signal::TERM);
    assert_eq!(thread.join().unwrap(), Err(Errno::EINTR));
}

#[test]
fn the_last_reader_wakes_a_blocked_writer() {
    let world = World::new();
    let p = world.shell();
    let (r, w) = ends(&world, OpenFlags::empty());
    let thread = {
        let p = p.clone();
        std::thread::spawn(move || io::write(&p, &w, &vec![0; 70_000]))
    };
    eventually("asleep", || p.state() == State::Sleeping);
    drop(r);
    assert_eq!(
        thread.join().unwrap(),
        Ok(DEFAULT_CAPACITY),
        "a part, and the signal"
    );
    assert!(p.signals().fatal());
}

#[test]
fn poll_waits_for_both_ends() {
    let world = World::new();
    let p = world.shell();
    let (r, w) = ends(&world, OpenFlags::empty());
    let list = |p: &Process| {
        vec![
            PollFd::for_file(r.clone(), PollEvents::IN),
            PollFd::for_fd(p, -1, PollEvents::IN),
            PollFd::for_file(w.clone(), PollEvents::empty()),
        ]
    };
    let mut fds = list(&p);
    assert_eq!(poll(&mut fds, now(), &p), Ok(0));
    let thread = {
        let (p, mut fds) = (p.clone(), list(&p));
        std::thread::spawn(move || poll(&mut fds, patience(), &p).map(|n| (n, fds[0].revents)))
    };
    eventually("asleep", || p.state() == State::Sleeping);
    w.write(b"x").unwrap();
    assert_eq!(thread.join().unwrap(), Ok((1, PollEvents::IN)));
    let mut closed = [PollFd::for_fd(&p, 77, PollEvents::IN)];
    assert_eq!(
        (poll(&mut closed, None, &p), closed[0].revents),
        (Ok(1), PollEvents::NVAL)
    );
}

#[test]
fn the_number_of_pipes_is_limited_and_memory_counted() {
    let world =
        World::with(|l| (l.pipes, l.pipe_max_bytes, l.pipe_total_bytes) = (2, 1 << 18, 1 << 18));
    let limits = world.table.pipe_limits();
    let (a, b) = (
        ends(&world, OpenFlags::empty()),
        ends(&world, OpenFlags::empty()),
    );
    let full = pipe(&limits, &Cred::root(), OpenFlags::empty());
    assert_eq!(full.err(), Some(Errno::ENFILE));
    let pipe_a = PipeEnd::of(&a.0).unwrap().pipe().clone();
    assert_eq!([pipe_a.grow(), pipe_a.grow()], [Ok(1 << 17), Ok(1 << 18)]);
    world.log.take();
    assert_eq!(pipe_a.grow(), Err(Errno::ENOSPC));
    assert_eq!(world.log.take(), ["reached pipe.max_bytes"]);
    let pipe_b = PipeEnd::of(&b.0).unwrap().pipe().clone();
    assert_eq!(pipe_b.grow(), Ok(1 << 17));
    assert_eq!(pipe_b.grow(), Err(Errno::ENOSPC));
    assert!(
        world
            .log
            .take()
            .contains(&"reached pipe.total_bytes".to_owned())
    );
    // Read empty, a grown pipe falls back.
    assert_eq!(a.1.write(&vec![1; 200_000]), Ok(200_000));
    assert_eq!(a.0.read(&mut vec![0; 300_000]), Ok(200_000));
    assert_eq!(
        (pipe_a.capacity(), limits.bytes.used()),
        (DEFAULT_CAPACITY, 1 << 16)
    );
    drop((a, b, pipe_a, pipe_b));
    assert_eq!((limits.bytes.used(), limits.count.used()), (0, 0));
}

#[test]
fn capacity_can_be_set_as_with_fcntl() {
    let world = World::new();
    let (r, w) = ends(&world, OpenFlags::empty());
    let p = PipeEnd::of(&r).unwrap().pipe();
    assert_eq!(p.set_capacity(1), Ok(4096));
    assert_eq!(w.write(&[3; 9000]), Ok(4096));
    assert_eq!(p.set_capacity(100_000), Ok(131_072));
    assert_eq!(w.write(&vec![4; 200_000]), Ok(131_072 - 4096));
    assert_eq!(p.set_capacity(65_536), Err(Errno::EBUSY));
    assert_eq!(p.set_capacity(1 << 40), Err(Errno::EPERM));
    let mut buf = vec![0; 131_072];
    assert_eq!(r.read(&mut buf), Ok(131_072));
    assert!(buf[..4096].iter().all(|b| *b == 3) && buf[4096..].iter().all(|b| *b == 4));
    assert_eq!(p.set_capacity(4096), Ok(4096));
    assert_eq!(world.table.pipe_limits().bytes.used(), 0);
}

#[test]
fn a_pipe_whose_reader_waits_for_the_writer_grows() {
    let world = World::with(|l| l.pipe_max_bytes = 1 << 20);
    let shell = world.shell();
    let (r, w) = ends(&world, OpenFlags::empty());
    shell.fds().insert(r, false, 0).unwrap();
    let child = world.spawn(&shell);
    let held = shell.fds().get(0).unwrap();
    let write = |len: usize| {
        let (child, w) = (child.clone(), w.clone());
        std::thread::spawn(move || io::write(&child, &w, &vec![5; len]))
    };
    // The shell does not wait: back-pressure.
    let thread = write(300_000);
    eventually("asleep", || child.state() == State::Sleeping);
    assert!(
        !world
            .table
            .is_stalled(PipeEnd::of(&held).unwrap().pipe(), &child)
    );
    assert!(!thread.is_finished());
    let mark = shell.enter_wait();
    assert_eq!(thread.join().unwrap(), Ok(300_000));
    // At its limit the write fails by name.
    assert_eq!(write(2_000_000).join().unwrap(), Ok((1 << 20) - 300_000));
    assert_eq!(write(1).join().unwrap(), Err(Errno::ENOSPC));
    assert!(
        world
            .log
            .take()
            .contains(&"reached pipe.max_bytes".to_owned())
    );
    drop(mark);
    // A read end that the host holds may be read at any time.
    let (r, w) = ends(&world, OpenFlags::empty());
    shell.fds().insert(r.clone(), false, 0).unwrap();
    let (host, _w) = ends(&world, OpenFlags::empty());
    let _mark = shell.enter_wait();
    assert!(
        world
            .table
            .is_stalled(PipeEnd::of(&r).unwrap().pipe(), &child)
    );
    assert!(
        !world
            .table
            .is_stalled(PipeEnd::of(&host).unwrap().pipe(), &child)
    );
    drop(w);
}

#[derive(Clone, Debug)]
enum Op {
    /// In whole pages, where Linux's slots and our bytes agree.
    Write(usize),
    Read(usize),
    CloseReader,
    CloseWriter,
    Poll,
    Available,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        8 => (0usize..20).prop_map(|pages| Op::Write(pages * PIPE_BUF)),
        8 => (0usize..20).prop_map(|pages| Op::Read(pages * PIPE_BUF)),
        1 => Just(Op::CloseReader),
        1 => Just(Op::CloseWriter),
        4 => Just(Op::Poll),
        2 => Just(Op::Available),
    ];
    proptest::collection::vec(op, 1..50)
}

fn small_ops() -> impl Strategy<Value = Vec<Op>> {
    // Never near full, so that any size will do.
    let op = prop_oneof![
        8 => (0usize..900).prop_map(Op::Write),
        8 => (0usize..2000).prop_map(Op::Read),
        1 => Just(Op::CloseReader),
        1 => Just(Op::CloseWriter),
        4 => Just(Op::Poll),
        2 => Just(Op::Available),
    ];
    proptest::collection::vec(op, 1..50)
}

fn content(step: usize, len: usize) -> Vec<u8> {
    // A pattern with a period that no page has, repeated without touching each byte in turn.
    let pattern: Vec<u8> = (0..251).map(|i| (i / 7 + step * 31) as u8).collect();
    let mut all = pattern.repeat(len / pattern.len() + 1);
    all.truncate(len);
    all
}

fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    std::hash::Hasher::write(&mut hasher, bytes);
    std::hash::Hasher::finish(&hasher)
}

fn ours(ops: &[Op]) -> Vec<String> {
    let world = World::new();
    let (r, w) = ends(&world, OpenFlags::NONBLOCK);
    let (mut r, mut w) = (Some(r), Some(w));
    let name = |r: Result<usize, Errno>| r.map_err(|e| e.name());
    ops.iter()
        .enumerate()
        .map(|(step, op)| match op {
            Op::Write(len) => format!(
                "{:?}",
                w.as_ref().map(|w| name(w.write(&content(step, *len))))
            ),
            Op::Read(len) => {
                let mut buf = vec![0; *len];
                let n = r.as_ref().map(|r| name(r.read(&mut buf)));
                format!("{n:?} {:?}", digest(&buf))
            }
            Op::CloseReader => format!("{:?}", r.take().map(drop)),
            Op::CloseWriter => format!("{:?}", w.take().map(drop)),
            Op::Poll => {
                let of = |f: &Option<Arc<OpenFile>>| f.as_ref().map(|f| f.poll().bits());
                format!("{:?} {:?}", of(&r), of(&w))
            }
            Op::Available => {
                format!(
                    "{:?}",
                    r.as_ref().map(|r| r.ops().readable_bytes().unwrap())
                )
            }
        })
        .collect()
}

fn hosts(ops: &[Op]) -> Vec<String> {
    let (r, w) = nix::unistd::pipe2(nix::fcntl::OFlag::O_NONBLOCK).unwrap();
    let (mut r, mut w) = (Some(r), Some(w));
    let name = |r: nix::Result<usize>| r.map_err(|e| Errno::from(e).name());
    ops.iter()
        .enumerate()
        .map(|(step, op)| match op {
            Op::Write(len) => {
                let data = content(step, *len);
                format!(
                    "{:?}",
                    w.as_ref().map(|w| name(nix::unistd::write(w, &data)))
                )
            }
            Op::Read(len) => {
                let mut buf = vec![0; *len];
                let n = r.as_ref().map(|r| name(nix::unistd::read(r, &mut buf)));
                format!("{n:?} {:?}", digest(&buf))
            }
            Op::CloseReader => format!("{:?}", r.take().map(drop)),
            Op::CloseWriter => format!("{:?}", w.take().map(drop)),
            Op::Poll => {
                let of = |f: &Option<OwnedFd>| f.as_ref().map(host_poll);
                format!("{:?} {:?}", of(&r), of(&w))
            }
            Op::Available => {
                format!("{:?}", r.as_ref().map(host_available))
            }
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, failure_persistence: None, ..Default::default() })]

    #[test]
    fn whole_pages_behave_as_in_a_pipe_of_the_host(ops in ops()) {
        prop_assert_eq!(ours(&ops), hosts(&ops));
    }

    #[test]
    fn small_pieces_behave_as_in_a_pipe_of_the_host(ops in small_ops()) {
        prop_assert_eq!(ours(&ops), hosts(&ops));
    }
}
