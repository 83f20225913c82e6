//! The descriptor table, alone and beside the host's.

mod common;

use common::{World, blank};
use proctable::pipe::pipe;
use proctable::rlimit::{Resource, Rlimit};
use proctable::{CloseHook, ExecImage, FdTable, Image};
use proptest::prelude::*;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex};
use vfs_core::errno::Errno;
use vfs_core::file::OpenFile;
use vfs_core::types::{Cred, OpenFlags};

fn file(world: &World) -> Arc<OpenFile> {
    pipe(
        &world.table.pipe_limits(),
        &Cred::root(),
        OpenFlags::empty(),
    )
    .unwrap()
    .0
}

#[test]
fn lowest_free_number_first() {
    let world = World::new();
    let f = file(&world);
    let fds = FdTable::new();
    let add = |min| fds.insert(f.clone(), false, min);
    assert_eq!(
        [add(0), add(0), add(5), add(0), add(5)],
        [Ok(0), Ok(1), Ok(5), Ok(2), Ok(6)]
    );
    fds.remove(1).unwrap();
    fds.remove(5).unwrap();
    assert_eq!(
        [add(0), add(0), add(0), add(0), add(0)],
        [Ok(1), Ok(3), Ok(4), Ok(5), Ok(7)]
    );
    assert_eq!(fds.remove(99).err(), Some(Errno::EBADF));
    assert_eq!(fds.get(-1).err(), Some(Errno::EBADF));
    assert_eq!(add(-1), Err(Errno::EINVAL));
    assert_eq!(
        fds.list().iter().map(|e| e.fd).collect::<Vec<_>>(),
        [0, 1, 2, 3, 4, 5, 6, 7]
    );
}

#[test]
fn limits_are_named_and_given_back() {
    let world = World::with(|l| (l.descriptors_total, l.descriptors) = (6, 100));
    let p = world.shell();
    let f = file(&world);
    p.set_rlimit(Resource::Nofile, Rlimit { soft: 4, hard: 100 })
        .unwrap();
    for _ in 0..4 {
        p.fds().insert(f.clone(), false, 0).unwrap();
    }
    assert_eq!(p.fds().insert(f.clone(), false, 0), Err(Errno::EMFILE));
    assert_eq!(p.fds().dup2(0, 4), Err(Errno::EBADF));
    assert_eq!(p.fds().dup_min(0, 4, false), Err(Errno::EINVAL));
    assert_eq!(p.fds().dup2(0, 3), Ok(3), "a replacement takes no number");
    assert_eq!(
        world.log.take(),
        ["near descriptors 4/4", "reached descriptors"]
    );
    let refused = world.table.create(&p, blank(p.fds().fork())).unwrap_err();
    assert_eq!(Errno::from(refused), Errno::ENFILE);
    assert_eq!(world.table.meters().descriptors.used(), 4);
    p.fds().close_from(1);
    let child = world.spawn(&p);
    assert_eq!(world.table.meters().descriptors.used(), 2);
    world.exit(&child, 0);
    world.exit(&p, 0);
    assert_eq!(world.table.meters().descriptors.used(), 0);
    assert_eq!(Arc::strong_count(&f), 1);
}

#[test]
fn exec_closes_what_is_marked_and_the_list() {
    let world = World::new();
    let p = world.shell();
    let f = file(&world);
    for cloexec in [false, true, false, true] {
        p.fds().insert(f.clone(), cloexec, 0).unwrap();
    }
    p.fds().set_cloexec(3, false).unwrap();
    assert_eq!(p.fds().set_cloexec(9, true), Err(Errno::EBADF));
    p.exec_commit(ExecImage {
        image: Image::default(),
        cred: None,
        close: vec![2, 50, -1],
    });
    assert_eq!(
        p.fds().list().iter().map(|e| e.fd).collect::<Vec<_>>(),
        [0, 3]
    );
}

#[derive(Default)]
struct Closes(Mutex<Vec<(u32, u64)>>);

impl CloseHook for Closes {
    fn closed(&self, pid: u32, file: &Arc<OpenFile>) {
        self.0.lock().unwrap().push((pid, file.id()));
    }
}

#[test]
fn the_hook_hears_of_every_closed_descriptor() {
    let world = World::new();
    let closes = Arc::new(Closes::default());
    assert!(world.table.set_close_hook(closes.clone()));
    assert!(!world.table.set_close_hook(closes.clone()));
    let p = world.shell();
    let (a, b) = (file(&world), file(&world));
    for f in [&a, &b, &a] {
        p.fds().insert(f.clone(), false, 0).unwrap();
    }
    p.fds().dup2(0, 1).unwrap();
    p.fds().remove(2).unwrap();
    world.exit(&p, 0);
    let expected = [b.id(), a.id(), a.id(), a.id()].map(|id| (p.pid(), id));
    assert_eq!(*closes.0.lock().unwrap(), expected);
}

#[derive(Clone, Debug)]
enum Op {
    Dup(i32),
    DupMin(i32, i32, bool),
    Dup2(i32, i32),
    Dup3(i32, i32, bool),
    Close(i32),
    GetFd(i32),
    SetFd(i32, bool),
}

/// Numbers are relative to a base, below which the host's test process has descriptors of its own.
const LIMIT: i32 = 12;

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let fd = || -1..LIMIT + 2;
    let op = prop_oneof![
        2 => fd().prop_map(Op::Dup),
        2 => (fd(), 0..LIMIT + 2, any::<bool>()).prop_map(|(f, m, c)| Op::DupMin(f, m, c)),
        3 => (fd(), fd()).prop_map(|(a, b)| Op::Dup2(a, b)),
        2 => (fd(), fd(), any::<bool>()).prop_map(|(a, b, c)| Op::Dup3(a, b, c)),
        2 => fd().prop_map(Op::Close),
        1 => fd().prop_map(Op::GetFd),
        1 => (fd(), any::<bool>()).prop_map(|(f, c)| Op::SetFd(f, c)),
    ];
    proptest::collection::vec(op, 1..60)
}

/// Runs the operations in a child of the host with its own table and descriptor limit; results
/// come back as numbers, errors negative.
fn on_host(ops: &[Op]) -> Vec<i32> {
    let (mut reader, writer) = std::io::pipe().unwrap();
    // SAFETY: the child calls only functions that are safe after fork, allocates nothing, and
    // leaves with _exit.
    match unsafe { libc::fork() } {
        // SAFETY: as above; the limit and each value are memory of this frame.
        0 => unsafe {
            // Everything else moves out of the way; the result pipe lies far above the limit.
            let out = libc::dup2(writer.as_raw_fd(), 500);
            libc::dup2(out, 0);
            libc::close_range(1, 499, 0);
            let limit = libc::rlimit {
                rlim_cur: LIMIT as u64,
                rlim_max: 1024,
            };
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
            for op in ops {
                let value = match *op {
                    Op::Dup(f) => libc::dup(f),
                    Op::DupMin(f, m, c) => libc::fcntl(
                        f,
                        if c {
                            libc::F_DUPFD_CLOEXEC
                        } else {
                            libc::F_DUPFD
                        },
                        m,
                    ),
                    Op::Dup2(a, b) => libc::dup2(a, b),
                    Op::Dup3(a, b, c) => libc::dup3(a, b, if c { libc::O_CLOEXEC } else { 0 }),
                    Op::Close(f) => libc::close(f),
                    Op::GetFd(f) => libc::fcntl(f, libc::F_GETFD),
                    Op::SetFd(f, c) => libc::fcntl(f, libc::F_SETFD, i32::from(c)),
                };
                let value = if value < 0 {
                    -*libc::__errno_location()
                } else {
                    value
                };
                libc::write(500, (&raw const value).cast(), 4);
            }
            libc::_exit(0);
        },
        pid => {
            assert!(pid > 0);
            drop(writer);
            let mut bytes = Vec::new();
            std::io::Read::read_to_end(&mut reader, &mut bytes).unwrap();
            // SAFETY: the child is ours and nobody else waits for it.
            unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
            bytes
                .chunks(4)
                .map(|c| i32::from_ne_bytes(c.try_into().unwrap()))
                .collect()
        }
    }
}

fn ours(ops: &[Op]) -> Vec<i32> {
    let world = World::new();
    let fds = FdTable::new();
    fds.set_limit(LIMIT as u64);
    fds.insert(file(&world), false, 0).unwrap();
    let number = |r: Result<i32, Errno>| r.unwrap_or_else(|e| -e.number());
    ops.iter()
        .map(|op| match *op {
            Op::Dup(f) => number(fds.dup(f)),
            Op::DupMin(f, m, c) => number(fds.dup_min(f, m, c)),
            Op::Dup2(a, b) => number(fds.dup2(a, b)),
            Op::Dup3(a, b, c) => number(fds.dup3(a, b, c)),
            Op::Close(f) => number(fds.remove(f).map(|_| 0)),
            Op::GetFd(f) => number(fds.cloexec(f).map(i32::from)),
            Op::SetFd(f, c) => number(fds.set_cloexec(f, c).map(|()| 0)),
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() })]

    #[test]
    fn the_dup_family_does_what_the_host_does(ops in ops()) {
        prop_assert_eq!(ours(&ops), on_host(&ops));
    }
}
