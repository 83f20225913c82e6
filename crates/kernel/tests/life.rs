//! The life of a VM: many processes at once, disposal, and nothing left behind.

mod common;

use common::{Machine, request, strings, text};
use kernel::vfs_core::memfs::{MemFs, MemFsOptions};
use kernel::{
    Errno, Event, EventQueue, ExitStatus, MountFlags, MountSpec, Outcome, Policy, Pool, PoolConfig,
    Search, Signal, SpawnArgs, SpawnAttrs, SpawnCheck, SpawnError, SpawnRequest, Stdio, Vm,
    VmConfig, WaitOptions, WaitTarget,
};
use std::sync::Arc;
use std::time::Duration;

#[test]
fn two_hundred_sleepers_and_fifty_workers_all_finish() {
    let machine = Machine::new();
    machine.program("work", |task| {
        let mut sum = 0u64;
        for i in 0..100_000u64 {
            sum = sum.wrapping_mul(31).wrapping_add(i);
        }
        print!(task, "{}", sum != 1);
        Outcome::Exit(0)
    });
    let sleepers: Vec<_> = (0..200).map(|_| machine.spawn("sleep", &["200"])).collect();
    let workers: Vec<_> = (0..50).map(|_| machine.spawn("work", &[])).collect();
    for child in sleepers.iter().chain(&workers) {
        assert_eq!(child.wait(), ExitStatus::Code(0));
    }
}

#[test]
fn disposal_ends_whatever_is_there_and_returns_all_threads() {
    let pool = Pool::new(PoolConfig::default());
    let machine = Machine::with(VmConfig {
        pool: Some(pool.clone()),
        ..VmConfig::default()
    });
    let pipe = SpawnRequest {
        stdio: [Stdio::Pipe, Stdio::Pipe, Stdio::Null],
        ..request("cat", &[])
    };
    let mut blocked: Vec<_> = (0..5).map(|_| machine.vm.spawn(&pipe).unwrap()).collect();
    let full = SpawnRequest {
        stdio: [Stdio::Null, Stdio::Pipe, Stdio::Null],
        ..request("yes", &[])
    };
    blocked.push(machine.vm.spawn(&full).unwrap());
    let busy = machine.spawn("spin", &[]);
    let stopped = machine.spawn("sleep", &["60000"]);
    stopped.kill(Signal::STOP).unwrap();
    let reader = blocked[0].stdout.take();
    let host = std::thread::spawn(move || {
        let mut reader = reader.unwrap();
        reader.read(&mut [0; 10])
    });
    machine.vm.dispose().unwrap();
    let killed = ExitStatus::Signal {
        signal: Signal::KILL,
        core: false,
    };
    for child in blocked.iter().chain([&busy, &stopped]) {
        assert_eq!(child.wait(), killed);
    }
    assert_eq!(host.join().unwrap(), Ok(0));
    assert_eq!(machine.vm.processes().len(), 1);
    assert!(matches!(
        machine.vm.spawn(&request("true", &[])),
        Err(SpawnError::Disposed)
    ));
    while pool.idle() < pool.threads() {
        std::thread::yield_now();
    }
}

#[test]
fn the_last_handle_ends_the_vm_and_frees_it() {
    let vm = Machine::undisposed();
    let child = vm.spawn(&request("sleep", &["60000"])).unwrap();
    let process = child.process().clone();
    let table = Arc::downgrade(vm.table());
    let ns = Arc::downgrade(vm.namespace());
    drop(child);
    drop(vm);
    process.wait_exit(None).unwrap();
    drop(process);
    for _ in 0..10_000 {
        if table.upgrade().is_none() && ns.upgrade().is_none() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!(
        "the VM lives on: {} {}",
        table.strong_count(),
        ns.strong_count()
    );
}

#[test]
fn many_vms_leave_nothing_behind() {
    let pool = Pool::new(PoolConfig::default());
    let mut weak = Vec::new();
    for _ in 0..200 {
        let machine = Machine::with(VmConfig {
            pool: Some(pool.clone()),
            ..VmConfig::default()
        });
        assert_eq!(machine.output("true", &[]).status, ExitStatus::Code(0));
        weak.push(Arc::downgrade(machine.vm.table()));
    }
    assert!(pool.threads() <= 3, "{}", pool.threads());
    assert!(weak.iter().filter(|vm| vm.strong_count() > 0).count() <= 1);
}

#[test]
fn vms_do_not_see_each_other() {
    let one = Machine::new();
    let two = Machine::new();
    let child = one.spawn("sleep", &["60000"]);
    assert_eq!(two.vm.processes().len(), 1);
    one.vm.write_file(b"/tmp/x", b"1", 0o644).unwrap();
    assert!(!two.vm.exists(b"/tmp/x"));
    assert_eq!(
        two.vm
            .kill(kernel::KillTarget::Pid(child.pid()), Signal::KILL),
        Err(Errno::ESRCH)
    );
    child.kill_tree();
}

#[test]
fn mounts_are_there_and_stay_as_restricted_as_the_host_made_them() {
    let fs = MemFs::new(MemFsOptions::default());
    let mounts = vec![
        MountSpec {
            at: b"/data/in/side".to_vec(),
            fs: fs.clone(),
            flags: MountFlags::RDONLY | MountFlags::NOEXEC,
            source: "data".into(),
        },
        MountSpec {
            at: b"/rw".to_vec(),
            fs,
            flags: MountFlags::empty(),
            source: "data".into(),
        },
    ];
    let machine = Machine::with(VmConfig {
        mounts,
        ..VmConfig::default()
    });
    machine.vm.write_file(b"/rw/f", b"seen", 0o755).unwrap();
    assert_eq!(
        machine.vm.read_file(b"/data/in/side/f", 100).unwrap(),
        b"seen"
    );
    assert_eq!(
        machine.vm.write_file(b"/data/in/side/g", b"x", 0o644),
        Err(Errno::EROFS)
    );
    let error = machine
        .vm
        .spawn(&request("/data/in/side/f", &[]))
        .err()
        .unwrap();
    assert_eq!(error.errno(), Errno::EACCES);
    machine.program("remount", |task| {
        print!(task, "{:?} ", task.remount(b"/data/in/side", b"remount,rw"));
        print!(task, "{:?} ", task.remount(b"/rw", b"remount,ro"));
        print!(task, "{:?}", task.remount(b"/tmp", b"ro"));
        Outcome::Exit(0)
    });
    let root = SpawnRequest {
        cred: Some(kernel::Cred::root()),
        ..request("remount", &[])
    };
    let output = machine
        .vm
        .output(&root, &kernel::Capture::default())
        .unwrap();
    assert_eq!(text(&output.stdout.bytes), "Err(EPERM) Ok(()) Err(EINVAL)");
    assert_eq!(
        text(&machine.output("remount", &[]).stdout.bytes),
        ["Err(EPERM)"; 3].join(" ")
    );
}

struct NoSleep;

impl Policy for NoSleep {
    fn spawn(&self, check: &SpawnCheck<'_>) -> kernel::Result<()> {
        if check.path.ends_with(b"/sleep") {
            Err(Errno::EACCES)
        } else {
            Ok(())
        }
    }
}

#[test]
fn the_policy_is_asked_for_every_program() {
    let events = Arc::new(EventQueue::new(100));
    let config = VmConfig {
        policy: Arc::new(NoSleep),
        events: Some(events.clone()),
        ..VmConfig::default()
    };
    let machine = Machine::with(config);
    assert_eq!(
        machine
            .vm
            .spawn(&request("sleep", &["1"]))
            .err()
            .unwrap()
            .errno(),
        Errno::EACCES
    );
    let output = machine.run(|task| {
        let args = SpawnArgs {
            path: b"sleep",
            search: Search::Env,
            argv: strings(&["sleep", "0"]),
            env: strings(&["PATH=/usr/local/bin"]),
            cwd: None,
            actions: vec![],
            attrs: SpawnAttrs::default(),
        };
        assert_eq!(task.spawn(args), Err(Errno::EACCES));
        assert_eq!(
            task.exec(b"/usr/local/bin/sleep", vec![], vec![], &[])
                .err(),
            Some(Errno::EACCES)
        );
        Outcome::Exit(0)
    });
    assert_eq!(output.status, ExitStatus::Code(0));
    let mut denied = 0;
    while let Some(event) = events.pop() {
        denied += usize::from(matches!(event, Event::PolicyDenied { .. }));
    }
    assert_eq!(denied, 3);
}

#[test]
fn events_tell_the_life_of_a_process() {
    let events = Arc::new(EventQueue::new(100));
    let machine = Machine::with(VmConfig {
        events: Some(events.clone()),
        ..VmConfig::default()
    });
    let child = machine.spawn("panic", &[]);
    child.wait();
    let pid = child.pid();
    let mut seen = Vec::new();
    while let Some(event) = events.pop_timeout(Duration::from_secs(10)) {
        let last = matches!(event, Event::ProcessExited { .. });
        seen.push(event);
        if last {
            break;
        }
    }
    assert!(
        matches!(&seen[0], Event::ProcessStarted { pid: p, ppid: 1, driver: "closure", argv } if *p == pid && argv[0] == b"panic")
    );
    assert!(
        matches!(&seen[1], Event::DriverFault { message, .. } if message.contains("broken driver"))
    );
    assert!(matches!(
        &seen[2],
        Event::ProcessExited {
            status: ExitStatus::Signal {
                signal: Signal::ABRT,
                ..
            },
            ..
        }
    ));
}

#[test]
fn the_tree_shows_what_runs() {
    let machine = Machine::new();
    machine.program("parent", |task| {
        let args = SpawnArgs {
            path: b"sleep",
            search: Search::Env,
            argv: strings(&["sleep", "60000"]),
            env: strings(&["PATH=/usr/local/bin"]),
            cwd: Some(b"/tmp"),
            actions: vec![],
            attrs: SpawnAttrs::default(),
        };
        let pid = task.spawn(args).unwrap();
        task.wait(WaitTarget::Pid(pid), WaitOptions::empty()).ok();
        Outcome::Exit(0)
    });
    let parent = machine.spawn("parent", &[]);
    let sleeper = loop {
        if let Some(found) = machine
            .vm
            .processes()
            .into_iter()
            .find(|p| p.comm == b"sleep")
        {
            break found;
        }
        std::thread::yield_now();
    };
    assert_eq!(
        (sleeper.ppid, sleeper.sid, sleeper.driver),
        (parent.pid(), parent.pid(), "closure")
    );
    assert_eq!(
        (sleeper.cwd.as_deref(), &*sleeper.argv),
        (Some(&b"/tmp"[..]), &strings(&["sleep", "60000"])[..])
    );
    machine
        .vm
        .kill(kernel::KillTarget::Pid(sleeper.pid), Signal::TERM)
        .unwrap();
    assert_eq!(parent.wait(), ExitStatus::Code(0));
}

#[test]
fn a_vm_without_drivers_runs_nothing_but_has_files() {
    let vm = Vm::new(VmConfig::default()).unwrap();
    vm.write_file(b"/tmp/a", b"abc", 0o644).unwrap();
    vm.append_file(b"/tmp/a", b"def", 0o644).unwrap();
    assert_eq!(vm.read_file(b"/tmp/a", 6).unwrap(), b"abcdef");
    assert_eq!(vm.read_file(b"/tmp/a", 5), Err(Errno::EFBIG));
    vm.mkdir_all(b"/tmp/x/y/z", 0o755).unwrap();
    vm.symlink(b"y", b"/tmp/x/l").unwrap();
    assert_eq!(vm.read_link(b"/tmp/x/l").unwrap(), b"y");
    let mut names: Vec<_> = vm
        .read_dir(b"/tmp/x")
        .unwrap()
        .into_iter()
        .map(|(name, _)| text(&name))
        .collect();
    names.sort();
    assert_eq!(names, ["l", "y"]);
    assert_eq!(
        vm.spawn(&request("/tmp/a", &[])).err().unwrap().errno(),
        Errno::EACCES
    );
    vm.dispose().unwrap();
}
