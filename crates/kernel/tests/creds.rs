//! Credentials, compared with the host kernel's: random sequences of calls on both sides.

mod common;

use common::{Machine, request, text};
use kernel::{Capture, Cred, Dir, Errno, Outcome, SpawnRequest, Task};
use proptest::prelude::*;
use std::fmt::Write as _;
use std::sync::Mutex;

/// One call. Ids are few, so that they meet.
#[derive(Clone, Debug)]
#[allow(clippy::enum_variant_names, reason = "the names of the calls")]
enum Call {
    SetUid(u32),
    SetGid(u32),
    SetReUid(Option<u32>, Option<u32>),
    SetReGid(Option<u32>, Option<u32>),
    SetResUid(Option<u32>, Option<u32>, Option<u32>),
    SetResGid(Option<u32>, Option<u32>, Option<u32>),
    SetGroups(Vec<u32>),
}

fn id() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0), Just(1), Just(2), Just(1000)]
}

fn optional() -> impl Strategy<Value = Option<u32>> {
    prop_oneof![1 => Just(None), 3 => id().prop_map(Some)]
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        id().prop_map(Call::SetUid),
        id().prop_map(Call::SetGid),
        (optional(), optional()).prop_map(|(a, b)| Call::SetReUid(a, b)),
        (optional(), optional()).prop_map(|(a, b)| Call::SetReGid(a, b)),
        (optional(), optional(), optional()).prop_map(|(a, b, c)| Call::SetResUid(a, b, c)),
        (optional(), optional(), optional()).prop_map(|(a, b, c)| Call::SetResGid(a, b, c)),
        proptest::collection::vec(id(), 0..3).prop_map(Call::SetGroups),
    ]
}

fn ours(task: &Task, call: &Call) -> Result<(), Errno> {
    match call {
        Call::SetUid(id) => task.setuid(*id),
        Call::SetGid(id) => task.setgid(*id),
        Call::SetReUid(a, b) => task.setreuid(*a, *b),
        Call::SetReGid(a, b) => task.setregid(*a, *b),
        Call::SetResUid(a, b, c) => task.setresuid(*a, *b, *c),
        Call::SetResGid(a, b, c) => task.setresgid(*a, *b, *c),
        Call::SetGroups(groups) => task.setgroups(groups),
    }
}

/// The call on the host, for the calling thread alone: the C library's wrappers would change the
/// whole process.
fn hosts(call: &Call) -> Result<(), Errno> {
    let or = |id: &Option<u32>| id.unwrap_or(u32::MAX);
    // SAFETY: the calls take numbers, and one a slice that lives across it.
    let result = unsafe {
        match call {
            Call::SetUid(id) => libc::syscall(libc::SYS_setuid, *id),
            Call::SetGid(id) => libc::syscall(libc::SYS_setgid, *id),
            Call::SetReUid(a, b) => libc::syscall(libc::SYS_setreuid, or(a), or(b)),
            Call::SetReGid(a, b) => libc::syscall(libc::SYS_setregid, or(a), or(b)),
            Call::SetResUid(a, b, c) => libc::syscall(libc::SYS_setresuid, or(a), or(b), or(c)),
            Call::SetResGid(a, b, c) => libc::syscall(libc::SYS_setresgid, or(a), or(b), or(c)),
            Call::SetGroups(groups) => {
                libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr())
            }
        }
    };
    if result == 0 {
        Ok(())
    } else {
        Err(Errno::from_host(&std::io::Error::last_os_error()))
    }
}

fn host_ids() -> ((u32, u32, u32), (u32, u32, u32)) {
    let (mut a, mut b, mut c) = (0u32, 0u32, 0u32);
    let (mut d, mut e, mut f) = (0u32, 0u32, 0u32);
    // SAFETY: six places for the results.
    unsafe {
        libc::syscall(libc::SYS_getresuid, &mut a, &mut b, &mut c);
        libc::syscall(libc::SYS_getresgid, &mut d, &mut e, &mut f);
    }
    ((a, b, c), (d, e, f))
}

/// What happened, call by call, on the host: in a thread that ends with what it made of itself.
fn on_the_host(calls: &[Call]) -> String {
    let calls = calls.to_vec();
    let run = move || {
        let mut log = String::new();
        for call in &calls {
            let result = hosts(call);
            let _ = writeln!(log, "{call:?} {result:?} {:?}", host_ids());
        }
        log
    };
    std::thread::spawn(run).join().unwrap()
}

#[test]
fn sequences_of_calls_have_the_hosts_results() {
    if host_ids() != ((0, 0, 0), (0, 0, 0)) {
        // Only the superuser can be asked.
        return;
    }
    let machine = Machine::new();
    let calls: &'static Mutex<Vec<Call>> = Box::leak(Box::default());
    machine.program("calls", move |task| {
        for call in calls.lock().unwrap().iter() {
            let result = ours(task, call);
            print!(
                task,
                "{call:?} {result:?} {:?}\n",
                (task.getresuid(), task.getresgid())
            );
        }
        Outcome::Exit(0)
    });
    let root = SpawnRequest {
        cred: Some(Cred::root()),
        ..request("calls", &[])
    };
    proptest!(ProptestConfig::with_cases(300), |(sequence in proptest::collection::vec(call(), 1..12))| {
        *calls.lock().unwrap() = sequence.clone();
        let output = machine.vm.output(&root, &Capture::default()).unwrap();
        prop_assert_eq!(text(&output.stdout.bytes), on_the_host(&sequence));
    });
}

#[test]
fn users_and_groups_come_from_the_files() {
    let machine = Machine::new();
    machine
        .vm
        .append_file(
            b"/etc/passwd",
            b"late:x:5:6:Late:/home/late:/bin/sh\n",
            0o644,
        )
        .unwrap();
    let output = machine.run(|task| {
        let show = |record: kernel::Result<Vec<u8>>| record.map(|r| text(&r));
        print!(task, "{:?}\n", show(task.getpwuid(1000)));
        print!(task, "{:?}\n", show(task.getpwnam(b"late")));
        print!(task, "{:?}\n", show(task.getpwnam(b"nobody-of-that-name")));
        print!(task, "{:?}\n", show(task.getgrnam(b"root")));
        let all: Vec<_> = (0..).map_while(|i| task.getpwent(i).ok()).collect();
        print!(task, "{}\n", all.len());
        print!(task, "{:?}\n", show(task.getgrgid(4242)));
        Outcome::Exit(0)
    });
    assert_eq!(
        text(&output.stdout.bytes),
        "Ok(\"agentos:x:1000:1000:agentos:/home/agentos:/bin/sh\")\n\
         Ok(\"late:x:5:6:Late:/home/late:/bin/sh\")\n\
         Err(ENOENT)\nOk(\"root:x:0:\")\n5\nErr(ENOENT)\n"
    );
}

#[test]
fn children_inherit_and_permissions_follow_the_ids() {
    let machine = Machine::new();
    machine.vm.write_file(b"/tmp/secret", b"s", 0o600).unwrap();
    machine.program("su", |task| {
        task.setgroups(&[7]).unwrap();
        task.setgid(7).unwrap();
        task.setuid(7).unwrap();
        let read = task.openat(Dir::Cwd, b"/tmp/secret", kernel::OpenFlags::empty(), 0);
        print!(
            task,
            "{read:?} {:?} {:?} ",
            task.getgroups(),
            task.setuid(0)
        );
        let access = |effective| {
            task.faccessat(
                Dir::Cwd,
                b"/tmp/secret",
                kernel::Access::READ,
                effective,
                kernel::Lookup::FOLLOW,
            )
        };
        print!(task, "{:?}", access(true));
        Outcome::Exit(0)
    });
    let root = SpawnRequest {
        cred: Some(Cred::root()),
        ..request("su", &[])
    };
    let output = machine.vm.output(&root, &Capture::default()).unwrap();
    assert_eq!(
        text(&output.stdout.bytes),
        "Err(EACCES) [7] Err(EPERM) Err(EACCES)"
    );
}
