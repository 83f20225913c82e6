//! `wasi_snapshot_preview1` call by call: everything but files.

mod common;

use common::files::{CWD, RDWR, READ, ROOT, read, seen, write};
use common::script::{Place, Script};
use common::{Machine, request, text};

#[test]
fn arguments_and_environment() {
    let machine = Machine::new();
    let mut s = Script::new();
    let (argc, argl) = (s.room(4), s.room(4));
    let (envc, envl) = (s.room(4), s.room(4));
    let (argv, args) = (s.room(64), s.room(64));
    let (envp, env) = (s.room(64), s.room(64));
    s.call("wasi.args_sizes_get", args![argc.ptr, argl.ptr]);
    s.call("wasi.args_get", args![argv.ptr, args.ptr]);
    s.call("wasi.environ_sizes_get", args![envc.ptr, envl.ptr]);
    s.call("wasi.environ_get", args![envp.ptr, env.ptr]);
    // A table that does not fit writes nothing.
    s.call("wasi.args_get", args![0x2_ffff, args.ptr]);
    s.call("wasi.args_get", args![argv.ptr, 0x2_ffff]);
    s.call("wasi.args_sizes_get", args![argc.ptr, 0x2_fffd]);
    let mut request = request("script", &["one", "", "thr\u{e9}e"]);
    request.clear_env = true;
    request.env = vec![
        b"A=1".to_vec(),
        b"PATH=/opt/agentos/bin".to_vec(),
        b"PWD=/nowhere".to_vec(),
    ];
    let shown = machine.script_as(&request, &s);
    assert_eq!(shown.results, [0, 0, 0, 0, 21, 21, 21]);
    assert_eq!(
        (shown.u32(argc), shown.u32(argl)),
        (4, 6 + 1 + 3 + 1 + 1 + 6 + 1)
    );
    assert!(
        shown
            .bytes(args)
            .starts_with("script\0one\0\0thr\u{e9}e\0\0".as_bytes())
    );
    let pointers: Vec<u32> = shown.bytes(argv)[..16]
        .chunks(4)
        .map(|b| u32::from_le_bytes(b.try_into().unwrap()) - args.ptr)
        .collect();
    assert_eq!(pointers, [0, 7, 11, 12]);
    // PWD says where the process is, whatever it was told.
    assert_eq!((shown.u32(envc), shown.u32(envl)), (3, 4 + 22 + 10));
    assert!(
        shown
            .bytes(env)
            .starts_with(b"A=1\0PATH=/opt/agentos/bin\0PWD=/work\0")
    );
}

#[test]
fn a_logical_working_directory_is_kept() {
    let machine = Machine::new();
    machine.vm.symlink(b"/work", b"/link").unwrap();
    for (pwd, kept) in [
        ("/link", "/link"),
        ("/work/../work", "/work/../work"),
        ("work", "/work"),
        ("/tmp", "/work"),
    ] {
        let mut s = Script::new();
        let (envp, env) = (s.room(256), s.room(512));
        let stat = s.room(8);
        let name = s.room(16);
        s.call("wasi.environ_get", args![envp.ptr, env.ptr]);
        s.call("wasi.fd_prestat_get", args![CWD, stat.ptr]);
        s.call("wasi.fd_prestat_dir_name", args![CWD, name.ptr, name.len]);
        let mut request = request("script", &[]);
        request.env = vec![format!("PWD={pwd}").into_bytes()];
        let shown = machine.script_as(&request, &s);
        assert_eq!(shown.results, [0, 0, 0]);
        let env = text(shown.bytes(env));
        assert!(
            env.split('\0').any(|entry| entry == format!("PWD={kept}")),
            "{pwd}: {env}"
        );
        assert!(text(shown.bytes(name)).starts_with(kept));
    }
}

#[test]
fn clocks() {
    let machine = Machine::new();
    let mut s = Script::new();
    let (real, first, second, resolution) = (s.room(8), s.room(8), s.room(8), s.room(8));
    s.call("wasi.clock_time_get", args![0, 0i64, real.ptr]);
    s.call("wasi.clock_time_get", args![1, 0i64, first.ptr]);
    s.call("wasi.clock_time_get", args![1, 0i64, second.ptr]);
    s.call("wasi.clock_res_get", args![1, resolution.ptr]);
    for clock in [2, 3, 4, -1] {
        s.call("wasi.clock_time_get", args![clock, 0i64, real.ptr]);
        s.call("wasi.clock_res_get", args![clock, real.ptr]);
    }
    let shown = machine.script(&s);
    assert_eq!(shown.results, [0, 0, 0, 0, 58, 58, 58, 58, 28, 28, 28, 28]);
    let now = std::time::UNIX_EPOCH.elapsed().unwrap();
    assert!(now.as_nanos() as u64 - shown.u64(real) < 60_000_000_000);
    assert!(shown.u64(first) <= shown.u64(second));
}

#[test]
fn randomness() {
    let machine = Machine::new();
    let mut s = Script::new();
    let (a, b) = (s.room(32), s.room(32));
    s.call("wasi.random_get", args![a.ptr, 32]);
    s.call("wasi.random_get", args![b.ptr, 32]);
    s.call("wasi.random_get", args![b.ptr, 0]);
    s.call("wasi.random_get", args![0x2_fff0, 32]);
    let shown = machine.script(&s);
    assert_eq!(shown.results, [0, 0, 0, 21]);
    assert_ne!(shown.bytes(a), shown.bytes(b));
}

#[test]
fn preopened_directories() {
    let machine = Machine::new();
    let mut s = Script::new();
    let (cwd, root) = (s.room(8), s.room(8));
    let (name, slash) = (s.room(5), s.room(4));
    let fdstat = s.room(24);
    s.call("wasi.fd_prestat_get", args![CWD, cwd.ptr]);
    s.call("wasi.fd_prestat_get", args![ROOT, root.ptr]);
    s.call("wasi.fd_prestat_get", args![0x4000_0005, root.ptr]);
    s.call("wasi.fd_prestat_get", args![0x4000_0002, root.ptr]);
    s.call("wasi.fd_prestat_get", args![0, root.ptr]);
    s.call("wasi.fd_prestat_dir_name", args![CWD, name.ptr, 5]);
    s.call("wasi.fd_prestat_dir_name", args![CWD, name.ptr, 4]);
    s.call("wasi.fd_prestat_dir_name", args![ROOT, slash.ptr, 4]);
    s.call("wasi.fd_fdstat_get", args![CWD, fdstat.ptr]);
    s.call("wasi.fd_close", args![CWD]);
    let shown = machine.script(&s);
    assert_eq!(shown.results, [0, 0, 8, 8, 8, 0, 37, 0, 0, 8]);
    assert_eq!(shown.bytes(cwd), [0, 0, 0, 0, 5, 0, 0, 0]);
    assert_eq!(shown.bytes(root), [0, 0, 0, 0, 1, 0, 0, 0]);
    assert_eq!(
        (shown.bytes(name), shown.bytes(slash)),
        (&b"/work"[..], &b"/\0\0\0"[..])
    );
    assert_eq!(shown.bytes(fdstat)[0], 3);
    assert_eq!(
        shown.bytes(fdstat)[8..],
        [
            0xff, 0xff, 0xff, 0xf, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xf, 0, 0, 0, 0
        ]
    );
}

#[test]
fn one_preopened_directory_at_the_root() {
    let machine = Machine::new();
    let mut s = Script::new();
    let (cwd, name) = (s.room(8), s.room(1));
    s.call("wasi.fd_prestat_get", args![CWD, cwd.ptr]);
    s.call("wasi.fd_prestat_dir_name", args![CWD, name.ptr, 1]);
    s.call("wasi.fd_prestat_get", args![ROOT, cwd.ptr]);
    let mut request = request("script", &[]);
    request.cwd = Some(b"/".to_vec());
    let shown = machine.script_as(&request, &s);
    assert_eq!(shown.results, [0, 0, 8]);
    assert_eq!(shown.bytes(name), b"/");
}

/// What a program built with plain wasi-libc does: it probes from 3 on, and then opens files.
#[test]
fn plain_preopened_directories() {
    let machine = Machine::new();
    machine
        .vm
        .write_file(b"/work/f", b"content", 0o644)
        .unwrap();
    let mut s = Script::new();
    let stat = s.room(8);
    s.call("wasi.fd_prestat_get", args![3, stat.ptr]);
    s.call("wasi.fd_prestat_get", args![4, stat.ptr]);
    s.call("wasi.fd_prestat_get", args![5, stat.ptr]);
    let (f, fd, etc, fd2) = (s.bytes("f"), s.room(4), s.bytes("work/f"), s.room(4));
    s.call(
        "wasi.path_open",
        args![3, 1, f.ptr, f.len, 0, READ, RDWR, 0, fd.ptr],
    );
    s.call(
        "wasi.path_open",
        args![4, 1, etc.ptr, etc.len, 0, READ, RDWR, 0, fd2.ptr],
    );
    let content = read(&mut s, fd2, 16);
    let shown = machine.script(&s);
    assert_eq!(shown.results, [0, 0, 8, 0, 0, 0]);
    assert_eq!((shown.u32(fd), shown.u32(fd2)), (5, 6));
    assert_eq!(seen(&shown, content), b"content");
}

#[test]
fn polling() {
    let machine = Machine::new();
    let mut s = Script::new();
    let subscription = |userdata: u64, tag: u8, at16: u64, timeout: u64, flags: u16| {
        let mut bytes = [0u8; 48];
        bytes[0..8].copy_from_slice(&userdata.to_le_bytes());
        bytes[8] = tag;
        bytes[16..24].copy_from_slice(&at16.to_le_bytes());
        bytes[24..32].copy_from_slice(&timeout.to_le_bytes());
        bytes[40..42].copy_from_slice(&flags.to_le_bytes());
        bytes
    };
    // Standard output can be written; a pipe has something; 99 is closed.
    let (r, w) = (s.room(4), s.room(4));
    s.call("host_process.fd_pipe", args![r.ptr, w.ptr]);
    write(&mut s, w, "five!");
    let ready = s.bytes(
        [
            subscription(1, 2, 1, 0, 0),
            subscription(2, 1, 3, 0, 0),
            subscription(3, 1, 99, 0, 0),
            subscription(4, 0, 1, u64::MAX, 0),
        ]
        .concat(),
    );
    let (events, n) = (s.room(128), s.room(4));
    s.call("wasi.poll_oneoff", args![ready.ptr, events.ptr, 4, n.ptr]);
    // Only time passes, relative and absolute.
    let clocks = s.bytes(
        [
            subscription(5, 0, 1, 1_000_000, 0),
            subscription(6, 0, 0, 1, 1),
            subscription(7, 0, 9, 1, 0),
        ]
        .concat(),
    );
    let (times, m) = (s.room(96), s.room(4));
    s.call("wasi.poll_oneoff", args![clocks.ptr, times.ptr, 1, m.ptr]);
    let (absolute, k) = (s.room(32), s.room(4));
    s.call(
        "wasi.poll_oneoff",
        args![clocks.ptr + 48, absolute.ptr, 1, k.ptr],
    );
    let (invalid, l) = (s.room(32), s.room(4));
    s.call(
        "wasi.poll_oneoff",
        args![clocks.ptr + 96, invalid.ptr, 1, l.ptr],
    );
    s.call("wasi.poll_oneoff", args![clocks.ptr, times.ptr, 0, m.ptr]);
    s.call(
        "wasi.poll_oneoff",
        args![clocks.ptr, times.ptr, 1025, m.ptr],
    );
    s.call("wasi.poll_oneoff", args![clocks.ptr, 0x2_fff0, 1, m.ptr]);
    let shown = machine.script(&s);
    assert_eq!(shown.results, [0, 0, 0, 0, 0, 0, 28, 28, 21]);
    assert_eq!(shown.bytes(events)[32 + 16], 5, "bytes that can be read");
    let event = |place: Place, index: usize| {
        let e = &shown.bytes(place)[index * 32..][..32];
        (e[0], u16::from_le_bytes([e[8], e[9]]), e[10])
    };
    assert_eq!(shown.u32(n), 3);
    assert_eq!(
        [event(events, 0), event(events, 1), event(events, 2)],
        [(1, 0, 2), (2, 0, 1), (3, 8, 1)]
    );
    assert_eq!((shown.u32(m), event(times, 0)), (1, (5, 0, 0)));
    assert_eq!((shown.u32(k), event(absolute, 0)), (1, (6, 0, 0)));
    assert_eq!((shown.u32(l), event(invalid, 0)), (1, (7, 28, 0)));
}
