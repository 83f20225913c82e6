//! `/proc` and `/dev` as guests see them.

mod common;

use common::{Machine, read_all, read_path, request, strings, text};
use kernel::{
    Capture, Cred, Dir, Errno, ExitStatus, FileType, Lookup, OpenFlags, Outcome, SpawnRequest,
    Stdio, Task, Whence,
};
use std::collections::BTreeMap;

fn open(task: &Task, path: &str, flags: OpenFlags) -> kernel::Result<i32> {
    task.openat(Dir::Cwd, path.as_bytes(), flags, 0)
}

fn ok(machine: &Machine, main: impl Fn(&std::rc::Rc<Task>) + Send + Sync + 'static) {
    let output = machine.run(move |task| {
        main(task);
        Outcome::Exit(0)
    });
    assert_eq!(
        output.status,
        ExitStatus::Code(0),
        "the guest's assertion is above"
    );
}

/// The fields of a `status` file.
fn fields(status: &str) -> BTreeMap<&str, &str> {
    status
        .lines()
        .filter_map(|line| line.split_once(":\t"))
        .collect()
}

#[test]
fn a_process_sees_itself() {
    let machine = Machine::new();
    ok(&machine, |task| {
        let pid = task.pid();
        assert_eq!(
            task.readlinkat(Dir::Cwd, b"/proc/self").unwrap(),
            pid.to_string().as_bytes()
        );
        assert_eq!(
            read_path(task, "/proc/self/cmdline").unwrap(),
            "test-main\0"
        );
        assert_eq!(read_path(task, "/proc/self/comm").unwrap(), "test-main\n");
        assert!(
            read_path(task, "/proc/self/environ")
                .unwrap()
                .contains("HOME=/home/agentos\0")
        );
        assert_eq!(
            text(&task.readlinkat(Dir::Cwd, b"/proc/self/cwd").unwrap()),
            "/home/agentos"
        );
        assert_eq!(
            text(&task.readlinkat(Dir::Cwd, b"/proc/self/exe").unwrap()),
            "/usr/local/bin/test-main"
        );
        assert_eq!(
            text(&task.readlinkat(Dir::Cwd, b"/proc/self/root").unwrap()),
            "/"
        );
        let status = read_path(task, "/proc/self/status").unwrap();
        let fields = fields(&status);
        assert_eq!(fields["Name"], "test-main");
        assert_eq!(fields["Pid"], pid.to_string());
        assert_eq!(fields["PPid"], "1");
        assert_eq!(fields["Uid"], "1000\t1000\t1000\t1000");
        assert_eq!(fields["Groups"], "1000 ");
        assert_eq!(fields["State"], "R (running)");
        assert_eq!(fields["Umask"], "0022");
        let stat = read_path(task, "/proc/self/stat").unwrap();
        assert_eq!(stat.split(' ').count(), 52, "{stat}");
        assert!(
            stat.starts_with(&format!("{pid} (test-main) R 1 {pid} {pid} ")),
            "{stat}"
        );
        assert_eq!(
            read_path(task, &format!("/proc/self/task/{pid}/comm")).unwrap(),
            "test-main\n"
        );
        assert_eq!(
            open(task, "/proc/self/mem", OpenFlags::empty()),
            Err(Errno::ENOENT)
        );
        assert_eq!(
            open(task, "/proc/999999", OpenFlags::empty()),
            Err(Errno::ENOENT)
        );
        assert_eq!(
            open(task, "/proc/01", OpenFlags::empty()),
            Err(Errno::ENOENT)
        );
    });
}

/// Names of the fields of the host's files, which ours must have in the same order.
#[test]
fn formats_are_those_of_the_host() {
    let machine = Machine::new();
    let names = |text: &str| -> Vec<String> {
        text.lines()
            .filter_map(|line| line.split_once(':'))
            .map(|(name, _)| name.to_owned())
            .collect()
    };
    let host_status = names(&std::fs::read_to_string("/proc/self/status").unwrap());
    let host_limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let host_stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let host_meminfo = std::fs::read_to_string("/proc/meminfo").unwrap();
    ok(&machine, move |task| {
        let ours = names(&read_path(task, "/proc/self/status").unwrap());
        let mut theirs = host_status.iter();
        for name in &ours {
            assert!(
                theirs.any(|host| host == name),
                "{name} is not on the host, or elsewhere"
            );
        }
        let ours = read_path(task, "/proc/self/limits").unwrap();
        for (ours, theirs) in ours.lines().zip(host_limits.lines()) {
            assert_eq!(ours[..26], theirs[..26]);
            assert_eq!(ours[68..], theirs[68..]);
        }
        let ours = read_path(task, "/proc/self/stat").unwrap();
        assert_eq!(ours.split(' ').count(), host_stat.split(' ').count());
        let memory = read_path(task, "/proc/meminfo").unwrap();
        for line in memory.lines() {
            let name = line.split(':').next().unwrap();
            let host = host_meminfo
                .lines()
                .find(|host| host.starts_with(&format!("{name}:")))
                .unwrap();
            assert_eq!(host.len(), line.len(), "{line}");
        }
    });
}

#[test]
fn others_may_not_look_at_environment_and_descriptors() {
    let machine = Machine::new();
    let private = machine.vm.spawn(&SpawnRequest {
        cred: Some(Cred::user(7, 7)),
        env: strings(&["SECRET=1"]),
        ..request("sleep", &["60000"])
    });
    let private = private.unwrap();
    let pid = private.pid();
    let look = move |task: &std::rc::Rc<Task>| {
        let path = |name: &str| format!("/proc/{pid}/{name}");
        let errors: Vec<String> = ["environ", "fd", "fd/0", "io"]
            .iter()
            .map(|name| format!("{:?}", open(task, &path(name), OpenFlags::empty()).err()))
            .chain(["cwd", "exe", "root"].iter().map(|name| {
                format!(
                    "{:?}",
                    task.readlinkat(Dir::Cwd, path(name).as_bytes()).err()
                )
            }))
            .collect();
        assert!(
            read_path(task, &path("status"))
                .unwrap()
                .contains("Uid:\t7\t7\t7\t7")
        );
        assert_eq!(
            read_path(task, &path("cmdline")).unwrap(),
            "sleep\x0060000\0"
        );
        print!(task, "{}", errors.join(" "));
        Outcome::Exit(0)
    };
    machine.program("look", look);
    let denied = ["Some(EACCES)"; 7].join(" ");
    assert_eq!(text(&machine.output("look", &[]).stdout.bytes), denied);
    let as_user = |cred| {
        let request = SpawnRequest {
            cred: Some(cred),
            ..request("look", &[])
        };
        text(
            &machine
                .vm
                .output(&request, &Capture::default())
                .unwrap()
                .stdout
                .bytes,
        )
    };
    assert_eq!(as_user(Cred::user(7, 7)), ["None"; 7].join(" "));
    assert_eq!(as_user(Cred::root()), ["None"; 7].join(" "));
    // The first process shows nothing of the host.
    let output = machine.run(|task| {
        print!(
            task,
            "{} {:?}",
            read_path(task, "/proc/1/cmdline").unwrap(),
            open(task, "/proc/1/environ", OpenFlags::empty())
        );
        Outcome::Exit(0)
    });
    assert_eq!(text(&output.stdout.bytes), "init\0 Err(EACCES)");
    private.kill_tree();
    private.wait();
}

#[test]
fn the_root_lists_processes_and_the_system() {
    let machine = Machine::new();
    ok(&machine, |task| {
        let dir = open(task, "/proc", OpenFlags::DIRECTORY).unwrap();
        let mut names = Vec::new();
        // One entry at a time, so that every cookie is used.
        let mut cookie = 0;
        loop {
            let mut got = false;
            task.readdir(dir, cookie, &mut |entry| {
                if got {
                    return false;
                }
                got = true;
                names.push(text(entry.name));
                cookie = entry.next;
                true
            })
            .unwrap();
            if !got {
                break;
            }
        }
        assert_eq!(names[..2], [".", ".."]);
        for name in [
            "1",
            &task.pid().to_string(),
            "self",
            "sys",
            "meminfo",
            "uptime",
            "mounts",
        ] {
            assert!(names.iter().any(|n| n == name), "{name} in {names:?}");
        }
        let unique: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(unique.len(), names.len());
        assert_eq!(
            read_path(task, "/proc/sys/kernel/hostname").unwrap(),
            "agentos\n"
        );
        assert_eq!(
            read_path(task, "/proc/sys/kernel/ostype").unwrap(),
            "Linux\n"
        );
        assert_eq!(
            read_path(task, "/proc/sys/kernel/pid_max").unwrap(),
            "32768\n"
        );
        assert_eq!(
            read_path(task, "/proc/sys/kernel/random/uuid")
                .unwrap()
                .len(),
            37
        );
        assert!(
            read_path(task, "/proc/cpuinfo")
                .unwrap()
                .starts_with("processor\t: 0\n")
        );
        assert_eq!(
            read_path(task, "/proc/uptime")
                .unwrap()
                .split_whitespace()
                .count(),
            2
        );
        assert_eq!(
            read_path(task, "/proc/loadavg")
                .unwrap()
                .split_whitespace()
                .count(),
            5
        );
        assert!(
            read_path(task, "/proc/version")
                .unwrap()
                .starts_with("Linux version ")
        );
        assert!(read_path(task, "/proc/stat").unwrap().contains("\nbtime "));
        assert_eq!(
            task.openat(
                Dir::Cwd,
                b"/proc/x",
                OpenFlags::CREAT | OpenFlags::WRONLY,
                0o644
            ),
            Err(Errno::EROFS)
        );
    });
}

#[test]
fn mounts_are_listed_without_the_hosts_paths() {
    let machine = Machine::new();
    ok(&machine, |task| {
        let mounts = read_path(task, "/proc/mounts").unwrap();
        let lines: Vec<_> = mounts.lines().collect();
        assert_eq!(lines[0], "overlay / overlay rw,relatime 0 0");
        assert_eq!(
            lines[1],
            "proc /proc proc rw,nosuid,nodev,noexec,relatime 0 0"
        );
        assert_eq!(lines[2], "devtmpfs /dev tmpfs rw,nosuid,relatime 0 0");
        assert_eq!(
            lines[3],
            "devpts /dev/pts devpts rw,nosuid,noexec,relatime 0 0"
        );
        let info = read_path(task, "/proc/self/mountinfo").unwrap();
        assert_eq!(info.lines().count(), lines.len());
        assert!(info.lines().all(|line| line.split(" - ").count() == 2));
    });
}

#[test]
fn descriptors_are_links() {
    let machine = Machine::new();
    ok(&machine, |task| {
        let fd = open(task, "/etc/passwd", OpenFlags::empty()).unwrap();
        assert_eq!(
            text(
                &task
                    .readlinkat(Dir::Cwd, format!("/proc/self/fd/{fd}").as_bytes())
                    .unwrap()
            ),
            "/etc/passwd"
        );
        let (read, write) = task.pipe2(OpenFlags::empty()).unwrap();
        let name = text(
            &task
                .readlinkat(Dir::Cwd, format!("/proc/self/fd/{read}").as_bytes())
                .unwrap(),
        );
        assert!(name.starts_with("pipe:["), "{name}");
        // Opening an end of a pipe this way is the same end.
        let again = open(task, &format!("/dev/fd/{write}"), OpenFlags::WRONLY).unwrap();
        task.write(again, b"through").unwrap();
        task.close(again).unwrap();
        task.close(write).unwrap();
        let alias = open(task, &format!("/proc/self/fd/{read}"), OpenFlags::empty()).unwrap();
        assert_eq!(read_all(task, alias).unwrap(), b"through");
        let info = read_path(task, &format!("/proc/self/fdinfo/{fd}")).unwrap();
        assert!(info.starts_with("pos:\t0\nflags:\t0"), "{info}");
        let dir = open(task, "/proc/self/fd", OpenFlags::DIRECTORY).unwrap();
        let mut fds = Vec::new();
        task.readdir(dir, 0, &mut |entry| {
            fds.push(text(entry.name));
            true
        })
        .unwrap();
        let expected: Vec<_> = [0, 1, 2, fd, read, alias, dir]
            .iter()
            .map(i32::to_string)
            .collect();
        let mut expected: Vec<_> = [".", ".."]
            .map(str::to_owned)
            .into_iter()
            .chain(expected)
            .collect();
        expected.sort();
        fds.sort();
        assert_eq!(fds, expected);
    });
}

#[test]
fn standard_streams_have_names() {
    let machine = Machine::new();
    machine.program("stdin", |task| {
        let fd = open(task, "/dev/stdin", OpenFlags::empty()).unwrap();
        let out = open(task, "/dev/stdout", OpenFlags::WRONLY).unwrap();
        common::write_all(task, out, &read_all(task, fd).unwrap());
        Outcome::Exit(0)
    });
    let capture = Capture {
        stdin: Some(b"hi".to_vec()),
        ..Capture::default()
    };
    let output = machine.vm.output(&request("stdin", &[]), &capture).unwrap();
    assert_eq!(output.stdout.bytes, b"hi");
}

#[test]
fn memory_devices_behave_like_linux() {
    let machine = Machine::new();
    ok(&machine, |task| {
        let mut buf = [1; 100];
        let null = open(task, "/dev/null", OpenFlags::RDWR).unwrap();
        assert_eq!(
            (task.read(null, &mut buf), task.write(null, b"x")),
            (Ok(0), Ok(1))
        );
        let zero = open(task, "/dev/zero", OpenFlags::RDWR).unwrap();
        assert_eq!((task.read(zero, &mut buf), buf), (Ok(100), [0; 100]));
        assert_eq!(task.write(zero, b"x"), Ok(1));
        let full = open(task, "/dev/full", OpenFlags::RDWR).unwrap();
        assert_eq!(
            (task.write(full, b"x"), task.read(full, &mut buf)),
            (Err(Errno::ENOSPC), Ok(100))
        );
        let random = open(task, "/dev/urandom", OpenFlags::empty()).unwrap();
        assert_eq!(task.read(random, &mut buf), Ok(100));
        assert_ne!(buf, [0; 100]);
        assert_eq!(open(task, "/dev/tty", OpenFlags::RDWR), Err(Errno::ENXIO));
        let stat = task
            .fstatat(Dir::Cwd, b"/dev/null", Lookup::FOLLOW)
            .unwrap();
        assert_eq!(
            (stat.file_type(), stat.rdev, stat.perm()),
            (FileType::CharDevice, kernel::makedev(1, 3), 0o666)
        );
        assert!(!task.isatty(null).unwrap());
        assert_eq!(task.require_tty(null).err(), Some(Errno::ENOTTY));
        assert_eq!(task.isatty(77), Err(Errno::EBADF));
        // A node is a device wherever it lies, if root made it.
        assert_eq!(
            task.mknodat(Dir::Cwd, b"/tmp/z", 0o020666, kernel::makedev(1, 5)),
            Err(Errno::EPERM)
        );
        task.openat(
            Dir::Cwd,
            b"/dev/shm/x",
            OpenFlags::CREAT | OpenFlags::RDWR,
            0o600,
        )
        .unwrap();
    });
}

#[test]
fn named_fifos_join_two_processes() {
    let machine = Machine::new();
    machine.program("fifo-writer", |task| {
        let fd = open(task, "/tmp/f", OpenFlags::WRONLY).unwrap();
        common::write_all(task, fd, b"through the fifo");
        Outcome::Exit(0)
    });
    machine.vm.namespace();
    let output = machine.run(|task| {
        task.mknodat(Dir::Cwd, b"/tmp/f", 0o010666, 0).unwrap();
        assert_eq!(
            open(task, "/tmp/f", OpenFlags::WRONLY | OpenFlags::NONBLOCK),
            Err(Errno::ENXIO)
        );
        task.spawn(kernel::SpawnArgs {
            path: b"/usr/local/bin/fifo-writer",
            search: kernel::Search::Never,
            argv: strings(&["w"]),
            env: vec![],
            cwd: None,
            actions: vec![],
            attrs: kernel::SpawnAttrs::default(),
        })
        .unwrap();
        let fd = open(task, "/tmp/f", OpenFlags::empty()).unwrap();
        assert_eq!(task.lseek(fd, 0, Whence::Set), Err(Errno::ESPIPE));
        common::write_all(task, 1, &read_all(task, fd).unwrap());
        Outcome::Exit(0)
    });
    assert_eq!(text(&output.stdout.bytes), "through the fifo");
}

#[test]
fn a_pipe_fd_can_be_given_by_the_host() {
    let machine = Machine::new();
    let mut first = machine
        .vm
        .spawn(&SpawnRequest {
            stdio: [Stdio::Null, Stdio::Pipe, Stdio::Null],
            ..request("echo", &["piped"])
        })
        .unwrap();
    let stdout = first.stdout.take().unwrap();
    let second = SpawnRequest {
        stdio: [Stdio::File(stdout.file().clone()), Stdio::Pipe, Stdio::Null],
        ..request("cat", &[])
    };
    let mut second = machine.vm.spawn(&second).unwrap();
    drop(stdout);
    let mut all = String::new();
    std::io::Read::read_to_string(second.stdout.as_mut().unwrap(), &mut all).unwrap();
    assert_eq!(all, "piped\n");
}
