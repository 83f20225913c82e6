//! Advisory locks.

mod common;

use LockKind::{Exclusive, Shared};
use common::Vm;
use proptest::prelude::*;
use std::sync::Arc;
use vfs_core::locks::{LockKey, LockKind, LockOwner, LockRange, LockTable, RecordLock};
use vfs_core::{Errno, OpenFile, OpenFlags, PollEvents, Waiter};

fn files(n: usize) -> (Vm, Vec<Arc<OpenFile>>) {
    let vm = Vm::new();
    vm.put("/f", b"");
    let files = (0..n)
        .map(|_| vm.at().open(b"/f", OpenFlags::RDWR, 0).unwrap())
        .collect();
    (vm, files)
}

fn record(pid: u32, kind: LockKind, start: i64, len: i64) -> RecordLock {
    let range = LockRange::new(start, len).unwrap();
    RecordLock {
        owner: LockOwner::Process(pid),
        kind,
        range,
    }
}

#[test]
fn whole_file_locks_exclude_and_go_with_the_description() {
    let (_vm, f) = files(3);
    let table = LockTable::new(100);
    table.flock(&f[0], Some(Shared)).unwrap();
    table.flock(&f[1], Some(Shared)).unwrap();
    assert_eq!(table.flock(&f[2], Some(Exclusive)), Err(Errno::EWOULDBLOCK));
    // A failed change of kind loses the old lock.
    assert_eq!(table.flock(&f[0], Some(Exclusive)), Err(Errno::EWOULDBLOCK));
    assert_eq!(table.held(), 1);
    table.flock(&f[1], Some(Exclusive)).unwrap();
    let waiter = Waiter::new();
    let _registration = table.wait_queue().register(&waiter, PollEvents::IN);
    let mut f = f;
    drop(f.remove(1));
    assert!(waiter.wait(Some(std::time::Instant::now())));
    table.flock(&f[1], Some(Exclusive)).unwrap();
    table.flock(&f[1], None).unwrap();
    assert_eq!(table.held(), 0);
}

#[test]
fn record_locks_split_join_and_answer_who_is_in_the_way() {
    let (_vm, f) = files(1);
    let table = LockTable::new(100);
    let key = LockKey::of(&f[0]).unwrap();
    table
        .set(&f[0], record(1, Exclusive, 0, 100), false)
        .unwrap();
    table
        .unset(
            &f[0],
            LockOwner::Process(1),
            LockRange::new(40, 20).unwrap(),
        )
        .unwrap();
    assert_eq!(table.held(), 2);
    table
        .set(&f[0], record(2, Exclusive, 40, 20), false)
        .unwrap();
    assert_eq!(
        table.set(&f[0], record(2, Shared, 59, 2), false),
        Err(Errno::EAGAIN)
    );
    let other = table.conflict(key, &record(2, Shared, 0, 0)).unwrap();
    assert_eq!(other.owner, LockOwner::Process(1));
    table
        .unset(&f[0], LockOwner::Process(2), LockRange::new(0, 0).unwrap())
        .unwrap();
    table
        .set(&f[0], record(1, Exclusive, 40, 20), false)
        .unwrap();
    assert_eq!(table.held(), 1);
    table.closed_by_process(&f[0], 1);
    assert_eq!(table.held(), 0);
}

#[test]
fn a_circle_of_waiters_is_refused() {
    let vm = Vm::new();
    let open = |path: &str| {
        vm.put(path, b"");
        vm.at().open(path.as_bytes(), OpenFlags::RDWR, 0).unwrap()
    };
    let (a, b, c) = (open("/a"), open("/b"), open("/c"));
    let table = LockTable::new(100);
    for (pid, file) in [(1, &a), (2, &b), (3, &c)] {
        table.set(file, record(pid, Exclusive, 0, 0), true).unwrap();
    }
    assert_eq!(
        table.set(&b, record(1, Exclusive, 0, 0), true),
        Err(Errno::EAGAIN)
    );
    assert_eq!(
        table.set(&c, record(2, Exclusive, 0, 0), true),
        Err(Errno::EAGAIN)
    );
    assert_eq!(
        table.set(&a, record(3, Exclusive, 0, 0), true),
        Err(Errno::EDEADLK)
    );
    table.stop_waiting(LockOwner::Process(2));
    assert_eq!(
        table.set(&a, record(3, Exclusive, 0, 0), true),
        Err(Errno::EAGAIN)
    );
    table.exited(1);
    table.set(&a, record(3, Exclusive, 0, 0), true).unwrap();
}

#[test]
fn the_mode_of_the_descriptor_and_the_limit_count() {
    let (vm, f) = files(1);
    let read_only = vm.at().open(b"/f", OpenFlags::empty(), 0).unwrap();
    let table = LockTable::new(4);
    assert_eq!(
        table.set(&read_only, record(1, Exclusive, 0, 1), false),
        Err(Errno::EBADF)
    );
    for i in 0..3 {
        table
            .set(&f[0], record(1, Exclusive, i * 2, 1), false)
            .unwrap();
    }
    assert_eq!(
        table.set(&f[0], record(1, Exclusive, 8, 1), false),
        Err(Errno::ENOLCK)
    );
    assert_eq!(LockRange::new(5, -6).unwrap_err(), Errno::EINVAL);
    assert_eq!(
        LockRange::new(5, -5).unwrap(),
        LockRange { start: 0, end: 4 }
    );
    assert_eq!(LockRange::new(i64::MAX, 2).unwrap_err(), Errno::EOVERFLOW);
}

#[test]
fn a_description_can_own_record_locks() {
    let (_vm, mut f) = files(2);
    let table = LockTable::new(10);
    let wanted = |file: &OpenFile| RecordLock {
        owner: LockOwner::Description(file.id()),
        kind: Exclusive,
        range: LockRange { start: 0, end: 9 },
    };
    table.set(&f[0], wanted(&f[0]), false).unwrap();
    assert_eq!(table.set(&f[1], wanted(&f[1]), false), Err(Errno::EAGAIN));
    f.remove(0);
    table.set(&f[0], wanted(&f[0]), false).unwrap();
}

proptest! {
    /// Byte by byte, the table is what a plain array of owners says.
    #[test]
    fn ranges_agree_with_a_model(
        steps in prop::collection::vec((1u32..4, 0usize..3, 0u64..24, 1u64..12), 1..60)
    ) {
        let (_vm, f) = files(1);
        let table = LockTable::new(1000);
        let key = LockKey::of(&f[0]).unwrap();
        // Kind by owner and byte: 0 none, 1 shared, 2 exclusive.
        let mut model = [[0u8; 40]; 4];
        for (pid, what, start, len) in steps {
            let range = LockRange { start, end: start + len - 1 };
            let owner = LockOwner::Process(pid);
            let bytes = start as usize..(start + len) as usize;
            if what == 0 {
                table.unset(&f[0], owner, range).unwrap();
                model[pid as usize][bytes].fill(0);
            } else {
                let kind = if what == 1 { Shared } else { Exclusive };
                let blocked = (1..4).filter(|&other| other != pid as usize).any(|other| {
                    model[other][bytes.clone()].iter().any(|&h| h == 2 || (h == 1 && what == 2))
                });
                let got = table.set(&f[0], RecordLock { owner, kind, range }, false);
                prop_assert_eq!(got.is_err(), blocked);
                if !blocked {
                    model[pid as usize][bytes].fill(what as u8);
                }
            }
            for byte in 0..40u64 {
                let range = LockRange { start: byte, end: byte };
                let probe = RecordLock { owner: LockOwner::Process(9), kind: Exclusive, range };
                let held = (1..4).any(|pid| model[pid][byte as usize] != 0);
                prop_assert_eq!(table.conflict(key, &probe).is_some(), held);
            }
        }
    }
}
