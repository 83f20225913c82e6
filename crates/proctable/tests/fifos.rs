//! Named pipes: what each kind of open does, with and without the other side; beside the host.

mod common;

use common::{World, eventually, host_poll};
use proctable::fifo::{FifoTable, complete_open};
use proctable::{Process, Signal, State, io};
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::Arc;
use vfs_core::errno::{Errno, Result};
use vfs_core::file::OpenFile;
use vfs_core::types::{Cred, OpenFlags};

const R: OpenFlags = OpenFlags::empty();
const W: OpenFlags = OpenFlags::WRONLY;
const RW: OpenFlags = OpenFlags::RDWR;
const NB: OpenFlags = OpenFlags::NONBLOCK;

fn open(world: &World, fifos: &FifoTable, ino: u64, flags: OpenFlags) -> Result<Arc<OpenFile>> {
    let end = fifos.open(&world.table.pipe_limits(), (1, ino), flags, &Cred::root())?;
    Ok(OpenFile::anonymous(end, flags))
}

type Opener = std::thread::JoinHandle<Result<Arc<OpenFile>>>;

fn open_blocking(world: &World, fifos: &FifoTable, flags: OpenFlags) -> (Arc<Process>, Opener) {
    let p = world.shell();
    let file = open(world, fifos, 7, flags).unwrap();
    let thread = {
        let p = p.clone();
        std::thread::spawn(move || complete_open(&p, &file).map(|()| file))
    };
    eventually("asleep", || p.state() == State::Sleeping);
    (p, thread)
}

#[test]
fn each_side_waits_for_the_other() {
    for (first, second) in [(R, W), (W, R)] {
        let (world, fifos) = (World::new(), FifoTable::new());
        let (_, thread) = open_blocking(&world, &fifos, first);
        let second = open(&world, &fifos, 7, second).unwrap();
        complete_open(&world.shell(), &second).unwrap();
        let first = thread.join().unwrap().unwrap();
        let (r, w) = if first.flags() == R {
            (first, second)
        } else {
            (second, first)
        };
        let p = world.shell();
        assert_eq!(io::write(&p, &w, b"over"), Ok(4));
        let mut buf = [0; 9];
        assert_eq!(io::read(&p, &r, &mut buf), Ok(4));
        drop(w);
        assert_eq!(io::read(&p, &r, &mut buf), Ok(0));
        // Another writer brings it back to life, and the reader need not open it again.
        let w = open(&world, &fifos, 7, W).unwrap();
        complete_open(&p, &w).unwrap();
        io::write(&p, &w, b"again").unwrap();
        assert_eq!(io::read(&p, &r, &mut buf), Ok(5));
    }
}

#[test]
fn a_partner_that_came_and_went_is_enough() {
    let (world, fifos) = (World::new(), FifoTable::new());
    let (_, thread) = open_blocking(&world, &fifos, R);
    drop(open(&world, &fifos, 7, W | NB).unwrap());
    assert!(thread.join().unwrap().is_ok());
}

#[test]
fn an_interrupted_open_leaves_nothing_behind() {
    let (world, fifos) = (World::new(), FifoTable::new());
    let (p, thread) = open_blocking(&world, &fifos, R);
    p.raise(Signal::TERM);
    assert_eq!(thread.join().unwrap().err(), Some(Errno::EINTR));
    assert_eq!(open(&world, &fifos, 7, W | NB).err(), Some(Errno::ENXIO));
    assert_eq!(world.table.meters().pipes.used(), 0);
}

#[test]
fn different_inodes_are_different_pipes_and_all_are_given_back() {
    let (world, fifos) = (World::new(), FifoTable::new());
    for round in 0..3 {
        let ends: Vec<_> = (0..200)
            .map(|ino| open(&world, &fifos, ino, RW).unwrap())
            .collect();
        for (i, end) in ends.iter().enumerate() {
            end.write(&[i as u8, round]).unwrap();
        }
        for (i, end) in ends.iter().enumerate() {
            let mut buf = [0; 4];
            assert_eq!((end.read(&mut buf), buf[0]), (Ok(2), i as u8));
            end.write(b"lost with the last end").unwrap();
        }
        drop(ends);
        assert_eq!(world.table.meters().pipes.used(), 0);
    }
    let r = open(&world, &fifos, 3, R | NB).unwrap();
    assert_eq!(r.read(&mut [0]), Ok(0), "starts empty");
}

#[test]
fn a_blocked_open_holds_no_lock() {
    let (world, fifos) = (World::new(), FifoTable::new());
    let (_, thread) = open_blocking(&world, &fifos, R);
    let other = open(&world, &fifos, 8, RW).unwrap();
    complete_open(&world.shell(), &other).unwrap();
    drop(open(&world, &fifos, 7, RW).unwrap());
    assert!(thread.join().unwrap().is_ok());
}

/// Opens in this order without blocking, then looks at errors and readiness, on the host too.
#[test]
fn opens_that_do_not_block_are_the_hosts() {
    let orders: &[&[OpenFlags]] = &[
        &[R],
        &[W],
        &[RW],
        &[R, W],
        &[R, R, W],
        &[RW, W],
        &[RW, R],
        &[W, R],
        &[R, W, W],
        &[R, RW],
    ];
    for order in orders {
        // Each is closed in turn from the front, and readiness looked at after each step.
        assert_eq!(ours(order), hosts(order), "{order:?}");
    }
}

fn ours(order: &[OpenFlags]) -> Vec<String> {
    let (world, fifos) = (World::new(), FifoTable::new());
    let mut files = Vec::new();
    let mut log = Vec::new();
    let look = |files: &Vec<Option<Arc<OpenFile>>>, log: &mut Vec<String>| {
        let events: Vec<_> = files
            .iter()
            .map(|f| f.as_ref().map(|f| f.poll().bits()))
            .collect();
        log.push(format!("{events:?}"));
    };
    for flags in order {
        let file = open(&world, &fifos, 1, *flags | NB);
        log.push(format!("{:?}", file.as_ref().err().map(|e| e.number())));
        files.push(file.ok());
        look(&files, &mut log);
    }
    for i in 0..files.len() {
        files[i] = None;
        look(&files, &mut log);
    }
    log
}

fn hosts(order: &[OpenFlags]) -> Vec<String> {
    let path = std::env::temp_dir().join(format!("fifo-{}-{order:?}", std::process::id()));
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    let mut files = Vec::new();
    let mut log = Vec::new();
    let look = |files: &Vec<Option<OwnedFd>>, log: &mut Vec<String>| {
        let events: Vec<_> = files.iter().map(|f| f.as_ref().map(host_poll)).collect();
        log.push(format!("{events:?}"));
    };
    for flags in order {
        // SAFETY: a valid C string; the result is checked and owned once.
        let file = unsafe {
            match libc::open(name.as_ptr(), (flags.bits() as i32) | libc::O_NONBLOCK) {
                -1 => Err(std::io::Error::last_os_error().raw_os_error().unwrap()),
                fd => Ok(OwnedFd::from_raw_fd(fd)),
            }
        };
        log.push(format!("{:?}", file.as_ref().err()));
        files.push(file.ok());
        look(&files, &mut log);
    }
    for i in 0..files.len() {
        files[i] = None;
        look(&files, &mut log);
    }
    std::fs::remove_file(path).unwrap();
    log
}

#[test]
fn a_partner_that_was_there_when_a_side_was_opened_may_be_gone_when_it_looks() {
    for (mine, theirs) in [(R, W), (W, R)] {
        let (world, fifos) = (World::new(), FifoTable::new());
        let partner = open(&world, &fifos, 7, theirs).unwrap();
        let file = open(&world, &fifos, 7, mine).unwrap();
        drop(partner);
        complete_open(&world.shell(), &file).unwrap();
    }
}
