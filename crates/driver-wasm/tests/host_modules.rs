//! `host_fs`, `host_user`, `host_tty`, `host_system` and `host_net`.

mod common;

use common::script::{Place, Script};
use common::{Machine, request};
use kernel::{Cred, FileType};

const CWD: u32 = 0x4000_0003;

fn open(s: &mut Script, path: &str, oflags: u32) -> Place {
    let (name, fd) = (s.bytes(path), s.room(4));
    s.call(
        "wasi.path_open",
        args![
            CWD,
            1,
            name.ptr,
            name.len,
            oflags,
            0xfff_ffffi64,
            0i64,
            0,
            fd.ptr
        ],
    );
    fd
}

fn user() -> kernel::SpawnRequest {
    let mut request = request("script", &[]);
    request.cred = Some(Cred {
        groups: vec![1000, 44],
        ..Cred::user(1000, 1000)
    });
    request
}

const NO_SIZE: u64 = u64::MAX;

#[test]
fn modes_sizes_and_owners() {
    let machine = Machine::new();
    machine
        .vm
        .write_file(b"/work/f", &[7; 5000], 0o640)
        .unwrap();
    machine.vm.chown(b"/work/f", 12, 34).unwrap();
    machine.vm.symlink(b"f", b"/work/link").unwrap();
    let mut s = Script::new();
    let (f, link, null, none) = (
        s.bytes("f"),
        s.bytes("link"),
        s.bytes("/dev/null"),
        s.bytes("none"),
    );
    for (name, follow) in [(f, 1), (link, 1), (link, 0), (null, 1), (none, 1)] {
        for function in ["path_mode", "path_size", "path_rdev"] {
            s.call(
                &format!("host_fs.{function}"),
                args![CWD, name.ptr, name.len, follow],
            );
        }
    }
    s.call("host_fs.path_blocks", args![3, f.ptr, f.len, 1]);
    s.call("host_fs.path_blocks", args![3, none.ptr, none.len, 1]);
    let fd = open(&mut s, "f", 0);
    for function in ["fd_mode", "fd_size", "fd_blocks"] {
        s.call(&format!("host_fs.{function}"), &[fd.load()]);
        s.call(&format!("host_fs.{function}"), args![99]);
    }
    s.call("host_fs.fd_mode", args![CWD]);
    let (uid, gid) = (s.room(4), s.room(4));
    s.call(
        "host_fs.path_owner",
        args![-1, f.ptr, f.len, 1, uid.ptr, gid.ptr],
    );
    s.call(
        "host_fs.path_owner",
        args![-1, none.ptr, none.len, 1, uid.ptr, gid.ptr],
    );
    s.call(
        "host_fs.fd_owner",
        &[fd.load(), (uid.ptr + 16).into(), (gid.ptr + 16).into()],
    );
    s.call("host_fs.fd_owner", args![99, uid.ptr, gid.ptr]);
    let _room = s.room(32);
    let shown = machine.script(&s);
    let blocks = machine.vm.stat(b"/work/f").unwrap().blocks;
    let expected = [
        0o100640, 5000, 0, 0o100640, 5000, 0, 0o120777, 1, 0, 0o020666, 0, 0x103, 0, NO_SIZE, 0,
        blocks, NO_SIZE, 0, 0o100640, 0, 5000, NO_SIZE, blocks, NO_SIZE, 0o040777, 0, 44, 0, 8,
    ];
    let mode = |mode: u64| {
        if mode == 0o040777 {
            shown.results[24]
        } else {
            mode
        }
    };
    assert_eq!(shown.results, expected.map(mode));
    assert_eq!(shown.results[24] & 0o170000, 0o040000);
    assert_eq!((shown.u32(uid), shown.u32(gid)), (12, 34));
}

#[test]
fn changing_attributes() {
    let machine = Machine::new();
    machine
        .vm
        .write_file(b"/work/f", b"content", 0o644)
        .unwrap();
    machine.vm.symlink(b"f", b"/work/link").unwrap();
    let mut s = Script::new();
    let (f, link) = (s.bytes("f"), s.bytes("link"));
    s.call("host_fs.chmod", args![3, f.ptr, f.len, 0o106755]);
    s.call(
        "host_fs.path_chown",
        args![-1, f.ptr, f.len, 5, 0xffff_ffffu32, 1],
    );
    s.call(
        "host_fs.chown",
        args![CWD, link.ptr, link.len, 0xffff_ffffu32, 6, 0],
    );
    let fd = open(&mut s, "f", 0);
    s.call(
        "host_fs.fd_chown",
        &[fd.load(), 0xffff_ffffu32.into(), 9.into()],
    );
    s.call("host_fs.fchown", args![99, 1, 1]);
    s.call("host_fs.fchmod", &[fd.load(), 0o600.into()]);
    s.call("host_fs.ftruncate", &[fd.load(), 3i64.into()]);
    s.call("host_fs.ftruncate", &[fd.load(), (-3i64).into()]);
    s.call("host_fs.ftruncate", args![0, 3i64]);
    let shown = machine.script(&s);
    assert_eq!(shown.results, [0, 0, 0, 0, 0, 8, 0, 0, 28, 28]);
    let stat = machine.vm.stat(b"/work/f").unwrap();
    assert_eq!(
        (stat.mode, stat.uid, stat.gid, stat.size),
        (0o100600, 5, 9, 3)
    );
    assert_eq!(machine.vm.lstat(b"/work/link").unwrap().gid, 6);
    // Somebody else may not.
    let mut s = Script::new();
    let f = s.bytes("f");
    s.call("host_fs.chmod", args![CWD, f.ptr, f.len, 0o777]);
    s.call(
        "host_fs.path_chown",
        args![CWD, f.ptr, f.len, 1000, 1000, 1],
    );
    for mode in [0, 4, 2, 1, 7, 8] {
        s.call("host_fs.path_access", args![CWD, f.ptr, f.len, mode, 1]);
    }
    assert_eq!(
        machine.script_as(&user(), &s).results,
        [63, 63, 0, 2, 2, 2, 2, 28]
    );
}

#[test]
fn making_names() {
    let machine = Machine::new();
    let mut s = Script::new();
    let dir = s.bytes(".");
    let (tmp, ptr) = (s.room(4), s.bytes("linked"));
    s.call(
        "host_fs.open_tmpfile",
        args![CWD, dir.ptr, dir.len, 0x1400_0000, 0o600, tmp.ptr],
    );
    s.call(
        "host_fs.open_tmpfile",
        args![CWD, dir.ptr, dir.len, 0x0400_0000, 0o600, tmp.ptr + 4],
    );
    s.call(
        "host_fs.fd_link",
        &[tmp.load(), CWD.into(), ptr.ptr.into(), ptr.len.into()],
    );
    s.call(
        "host_fs.fd_link",
        &[tmp.load(), CWD.into(), ptr.ptr.into(), ptr.len.into()],
    );
    let (fifo, null) = (s.bytes("fifo"), s.bytes("null"));
    s.call(
        "host_fs.path_mknod",
        args![CWD, fifo.ptr, fifo.len, 0o010644, 0i64],
    );
    s.call(
        "host_fs.path_mknod",
        args![CWD, null.ptr, null.len, 0o020666, 0x103i64],
    );
    s.call(
        "host_fs.path_mknod",
        args![CWD, null.ptr, null.len, 0o020666, 0x103i64],
    );
    let rename = |s: &mut Script, a: Place, b: Place, flags: u32| {
        s.call(
            "host_fs.path_renameat2",
            args![CWD, a.ptr, a.len, CWD, b.ptr, b.len, flags],
        )
    };
    rename(&mut s, ptr, fifo, 1);
    rename(&mut s, ptr, fifo, 2);
    rename(&mut s, ptr, fifo, 3);
    rename(&mut s, ptr, fifo, 8);
    let _room = s.room(16);
    let shown = machine.script(&s);
    assert_eq!(shown.results, [0, 28, 0, 20, 0, 0, 20, 20, 0, 28, 28]);
    let kind = |path: &[u8]| machine.vm.lstat(path).unwrap().file_type();
    assert_eq!(kind(b"/work/fifo"), FileType::Regular);
    assert_eq!(kind(b"/work/linked"), FileType::Fifo);
    assert_eq!(machine.vm.stat(b"/work/null").unwrap().rdev, 0x103);
}

#[test]
fn extended_attributes() {
    let machine = Machine::new();
    machine
        .vm
        .write_file(b"/work/f", b"content", 0o644)
        .unwrap();
    let mut s = Script::new();
    let (f, name, other, value) = (
        s.bytes("f"),
        s.bytes("user.one"),
        s.bytes("user.two"),
        s.bytes("value"),
    );
    let (out, buf) = (s.room(4), s.room(64));
    let get = |s: &mut Script, name: Place, cap: u32| {
        s.call(
            "host_fs.path_getxattr",
            args![
                CWD, f.ptr, f.len, name.ptr, name.len, buf.ptr, cap, 1, out.ptr
            ],
        )
    };
    let set = |s: &mut Script, flags: u32, len: u32| {
        s.call(
            "host_fs.path_setxattr",
            args![
                CWD, f.ptr, f.len, name.ptr, name.len, value.ptr, len, flags, 1
            ],
        )
    };
    set(&mut s, 2, 5);
    set(&mut s, 1, 5);
    set(&mut s, 1, 5);
    set(&mut s, 0, 65_537);
    get(&mut s, name, 0);
    get(&mut s, name, 4);
    get(&mut s, name, 5);
    get(&mut s, other, 5);
    s.call(
        "host_fs.path_getxattr",
        args![CWD, f.ptr, f.len, name.ptr, 256, buf.ptr, 5, 1, out.ptr],
    );
    let fd = open(&mut s, "f", 0);
    s.call(
        "host_fs.fd_setxattr",
        &[
            fd.load(),
            other.ptr.into(),
            other.len.into(),
            value.ptr.into(),
            2.into(),
            0.into(),
        ],
    );
    let (got, got_len) = (s.room(8), s.room(4));
    s.call(
        "host_fs.fd_getxattr",
        &[
            fd.load(),
            other.ptr.into(),
            other.len.into(),
            got.ptr.into(),
            8.into(),
            got_len.ptr.into(),
        ],
    );
    let (list, list_len) = (s.room(64), s.room(4));
    s.call(
        "host_fs.fd_listxattr",
        &[fd.load(), list.ptr.into(), 64.into(), list_len.ptr.into()],
    );
    s.call(
        "host_fs.path_listxattr",
        args![CWD, f.ptr, f.len, list.ptr, 3, 1, list_len.ptr],
    );
    s.call(
        "host_fs.fd_removexattr",
        &[fd.load(), other.ptr.into(), other.len.into()],
    );
    s.call(
        "host_fs.path_removexattr",
        args![CWD, f.ptr, f.len, other.ptr, other.len, 1],
    );
    s.call(
        "host_fs.path_removexattr",
        args![CWD, f.ptr, f.len, name.ptr, name.len, 1],
    );
    let shown = machine.script(&s);
    assert_eq!(
        shown.results,
        [78, 0, 20, 1, 0, 68, 0, 78, 28, 0, 0, 0, 0, 68, 0, 78, 0]
    );
    assert_eq!(&shown.bytes(buf)[..5], b"value");
    assert_eq!(
        (&shown.bytes(got)[..2], shown.u32(got_len)),
        (&b"va"[..], 2)
    );
    assert_eq!(shown.u32(list_len), 18);
    let mut names: Vec<_> = shown.bytes(list)[..18].split(|byte| *byte == 0).collect();
    names.sort_unstable();
    assert_eq!(names, [&b""[..], b"user.one", b"user.two"]);
}

#[test]
fn space_and_extents() {
    let machine = Machine::new();
    let mut s = Script::new();
    let root = s.bytes("/");
    let out = s.room(40);
    s.call(
        "host_fs.path_statfs",
        args![
            CWD,
            root.ptr,
            root.len,
            out.ptr,
            out.ptr + 8,
            out.ptr + 16,
            out.ptr + 24,
            out.ptr + 32
        ],
    );
    s.call(
        "host_fs.path_statfs",
        args![
            CWD,
            root.ptr,
            root.len,
            -4,
            out.ptr + 8,
            out.ptr + 16,
            out.ptr + 24,
            out.ptr + 32
        ],
    );
    let fd = open(&mut s, "f", 1);
    s.call(
        "wasi.fd_allocate",
        &[fd.load(), 0i64.into(), 4096i64.into()],
    );
    s.call(
        "wasi.fd_allocate",
        &[fd.load(), 0i64.into(), (-1i64).into()],
    );
    s.call("wasi.fd_allocate", &[fd.load(), 0i64.into(), 0i64.into()]);
    let (start, end, flags) = (s.room(8), s.room(8), s.room(4));
    s.call(
        "host_fs.fd_fiemap",
        &[
            fd.load(),
            7.into(),
            start.ptr.into(),
            end.ptr.into(),
            flags.ptr.into(),
        ],
    );
    s.call(
        "host_fs.fd_fiemap",
        args![99, 0, start.ptr, end.ptr, flags.ptr],
    );
    s.call("host_fs.fd_punch_hole", args![99, 0i64, 5i64]);
    s.call("host_fs.fd_zero_range", args![99, 0i64, 5i64, 1]);
    s.call("host_fs.fd_insert_range", args![99, 0i64, 5i64]);
    s.call("host_fs.fd_collapse_range", args![99, -1i64, 5i64]);
    let shown = machine.script(&s);
    assert_eq!(shown.results, [0, 21, 0, 0, 28, 28, 78, 8, 8, 8, 8, 28]);
    assert_eq!(machine.vm.stat(b"/work/f").unwrap().size, 4096);
    let word =
        |index: usize| u64::from_le_bytes(shown.bytes(out)[index * 8..][..8].try_into().unwrap());
    assert!(word(0) >= word(2) && word(0) > 0 && word(3) >= word(4));
}

#[test]
fn users_and_groups() {
    let machine = Machine::new();
    let mut s = Script::new();
    let out = s.room(64);
    for (index, function) in ["getuid", "geteuid", "getgid", "getegid"]
        .into_iter()
        .enumerate()
    {
        s.call(
            &format!("host_user.{function}"),
            args![out.ptr + 4 * index as u32],
        );
    }
    s.call(
        "host_user.getresuid",
        args![out.ptr + 16, out.ptr + 20, out.ptr + 24],
    );
    s.call("host_user.getresgid", args![out.ptr + 16, -2, out.ptr + 24]);
    s.call("host_user.getgroups", args![0, 0, out.ptr + 28]);
    s.call("host_user.getgroups", args![1, out.ptr + 32, out.ptr + 28]);
    s.call("host_user.getgroups", args![2, out.ptr + 32, out.ptr + 28]);
    s.call("host_user.getgroups", args![65, out.ptr + 32, out.ptr + 28]);
    let cases = [
        ("setuid", args![0] as &[_], 63),
        ("setuid", args![1000], 0),
        ("setgid", args![0], 63),
        ("seteuid", args![0], 63),
        ("setegid", args![7], 63),
        ("setreuid", args![-1, -1], 0),
        ("setregid", args![-1, 0], 63),
        ("setresuid", args![-1, 1000, -1], 0),
        ("setresgid", args![0, -1, -1], 63),
        ("setgroups", args![0, 0], 63),
        ("setgroups", args![65, 0], 28),
    ];
    for (function, args, _) in cases {
        s.call(&format!("host_user.{function}"), args);
    }
    let shown = machine.script_as(&user(), &s);
    assert_eq!(
        shown.results,
        [
            0, 0, 0, 0, 0, 21, 0, 28, 0, 28, 63, 0, 63, 63, 63, 0, 63, 0, 63, 63, 28
        ]
    );
    let numbers: Vec<u32> = shown.bytes(out)[..40]
        .chunks(4)
        .map(|b| u32::from_le_bytes(b.try_into().unwrap()))
        .collect();
    assert_eq!(
        numbers,
        [1000, 1000, 1000, 1000, 1000, 1000, 1000, 2, 1000, 44]
    );

    // The superuser becomes somebody else, and stays it.
    let mut s = Script::new();
    let groups = s.bytes([5u32.to_le_bytes(), 6u32.to_le_bytes()].concat());
    let out = s.room(16);
    s.call("host_user.setgroups", args![2, groups.ptr]);
    s.call("host_user.setgid", args![50]);
    s.call("host_user.setuid", args![60]);
    s.call("host_user.setuid", args![0]);
    s.call(
        "host_user.getresuid",
        args![out.ptr, out.ptr + 4, out.ptr + 8],
    );
    let shown = machine.script(&s);
    assert_eq!(shown.results, [0, 0, 0, 63, 0]);
    assert_eq!(
        shown.bytes(out)[..12],
        [60, 0, 0, 0, 60, 0, 0, 0, 60, 0, 0, 0]
    );
}

#[test]
fn records_of_users_and_groups() {
    let machine = Machine::new();
    machine
        .vm
        .write_file(
            b"/etc/passwd",
            b"root:x:0:0:root:/root:/bin/sh\nagentos:x:1000:1000::/home/agentos:/bin/sh\n",
            0o644,
        )
        .unwrap();
    machine
        .vm
        .write_file(
            b"/etc/group",
            b"root:x:0:\nagentos:x:1000:agentos,root\n",
            0o644,
        )
        .unwrap();
    let root = "root:x:0:0:root:/root:/bin/sh";
    let agentos = "agentos:x:1000:1000::/home/agentos:/bin/sh";
    let mut s = Script::new();
    let (name, nobody) = (s.bytes("agentos"), s.bytes("nobody"));
    let mut seen = Vec::new();
    let mut ask = |s: &mut Script, function: &str, what: &[u32], cap: u32| {
        let (buf, len) = (s.room(64), s.room(4));
        let mut args: Vec<_> = what.iter().map(|n| common::script::Arg::from(*n)).collect();
        args.extend_from_slice(args![buf.ptr, cap, len.ptr]);
        s.call(&format!("host_user.{function}"), &args);
        seen.push((buf, len));
    };
    ask(&mut s, "getpwuid", &[0], 64);
    ask(&mut s, "getpwnam", &[name.ptr, name.len], 64);
    ask(&mut s, "getgrgid", &[1000], 64);
    ask(&mut s, "getgrnam", &[name.ptr, name.len], 64);
    ask(&mut s, "getpwent", &[1], 64);
    ask(&mut s, "getgrent", &[0], 64);
    ask(&mut s, "getpwuid", &[0], 10);
    ask(&mut s, "getpwuid", &[77], 64);
    ask(&mut s, "getpwnam", &[nobody.ptr, nobody.len], 64);
    ask(&mut s, "getpwent", &[2], 64);
    ask(&mut s, "getgrent", &[9], 64);
    ask(&mut s, "getgrnam", &[0, 4097], 64);
    let shown = machine.script(&s);
    assert_eq!(shown.results, [0, 0, 0, 0, 0, 0, 68, 44, 44, 44, 44, 37]);
    let records = [
        root,
        agentos,
        "agentos:x:1000:agentos,root",
        "agentos:x:1000:agentos,root",
        agentos,
        "root:x:0:",
    ];
    for ((buf, len), record) in seen.iter().zip(records) {
        assert_eq!(shown.u32(*len) as usize, record.len());
        assert_eq!(&shown.bytes(*buf)[..record.len()], record.as_bytes());
    }
    assert_eq!(
        shown.u32(seen[6].1) as usize,
        root.len(),
        "the length is told without room"
    );
    assert_eq!(shown.bytes(seen[6].0)[0], 0);
}

#[test]
fn files_are_no_terminals() {
    let machine = Machine::new();
    let mut s = Script::new();
    let out = s.room(16);
    s.call("host_user.isatty", args![0, out.ptr]);
    s.call("host_user.isatty", args![99, out.ptr]);
    s.call("host_tty.isatty", args![0]);
    s.call("host_tty.isatty", args![99]);
    s.call("host_tty.set_raw_mode", args![1]);
    s.call("host_tty.get_size", args![0, out.ptr, out.ptr + 2]);
    s.call("host_tty.get_size", args![99, out.ptr, out.ptr + 2]);
    s.call("host_tty.get_size", args![0, -1, out.ptr + 2]);
    s.call("host_tty.set_size", args![0, 80, 24]);
    s.call("host_tty.set_size", args![0, 70_000, 24]);
    s.call("host_tty.get_attr", args![1, out.ptr, out.ptr + 4]);
    s.call("host_tty.set_attr", args![99, 0, out.ptr]);
    s.call("host_tty.get_pgrp", args![1, out.ptr]);
    s.call("host_tty.set_pgrp", args![1, 1]);
    s.call("host_tty.get_sid", args![1, out.ptr]);
    // Reading with a time limit works on whatever standard input is.
    let buf = s.room(32);
    s.call("host_tty.read", args![buf.ptr, 8, 0xffff_ffffu32]);
    s.call("host_tty.read", args![buf.ptr + 8, 20, 1000]);
    s.call("host_tty.read", args![buf.ptr, 8, 0]);
    s.call("host_tty.read", args![-1, 8, 0]);
    let shown = machine.script(&s);
    assert_eq!(
        shown.results[..15],
        [0, 8, 0, 0, 59, 25, 9, 21, 59, 28, 59, 8, 59, 59, 59]
    );
    assert_eq!(shown.results[15..], [8, 7, 0, 0]);
    assert_eq!(&shown.bytes(buf)[..15], b"standard input\n");
}

#[test]
fn the_names_of_the_machine() {
    let machine = Machine::new();
    let mut s = Script::new();
    let buf = s.room(128);
    s.call("host_system.get_identity", args![0, buf.ptr, 8]);
    s.call("host_system.get_identity", args![0, buf.ptr + 64, 7]);
    s.call("host_system.get_identity", args![1, buf.ptr + 16, 16]);
    s.call("host_system.get_identity", args![4, buf.ptr + 32, 16]);
    s.call("host_system.get_identity", args![2, buf.ptr + 64, 0]);
    s.call("host_system.get_identity", args![6, buf.ptr + 64, 64]);
    s.call("host_system.get_identity", args![5, buf.ptr + 64, 64]);
    let shown = machine.script(&s);
    assert_eq!(shown.results, [0, 37, 0, 0, 37, 28, 0]);
    let bytes = shown.bytes(buf);
    assert_eq!(
        (&bytes[..8], &bytes[16..22], &bytes[32..39]),
        (&b"agentos\0"[..], &b"Linux\0"[..], &b"wasm32\0"[..])
    );
}

#[test]
fn no_network() {
    let machine = Machine::new();
    let mut s = Script::new();
    let (buf, len, out) = (s.room(16), s.bytes(16u32.to_le_bytes()), s.room(16));
    let addr = s.bytes("127.0.0.1:80");
    let cases = [
        ("net_send", args![1, buf.ptr, 4, 0, out.ptr] as &[_], 57),
        ("net_recv", args![0, buf.ptr, 4, 0, out.ptr], 57),
        ("net_send", args![99, buf.ptr, 4, 0, out.ptr], 8),
        ("net_recv", args![99, buf.ptr, 4, 0, out.ptr], 8),
        (
            "net_sendto",
            args![1, buf.ptr, 4, 0, addr.ptr, addr.len, out.ptr],
            57,
        ),
        (
            "net_recvfrom",
            args![0, buf.ptr, 4, 0, out.ptr, buf.ptr, len.ptr],
            57,
        ),
        ("net_socket", args![1, 6, 0, out.ptr], 2),
        ("net_socket", args![9, 6, 0, out.ptr], 5),
        ("net_set_nonblock", args![0, 1], 57),
        ("net_connect", args![0, addr.ptr, addr.len], 57),
        ("net_bind", args![0, addr.ptr, addr.len], 57),
        ("net_listen", args![0, 1], 57),
        ("net_accept", args![0, out.ptr, buf.ptr, len.ptr], 57),
        ("net_getsockname", args![0, buf.ptr, len.ptr], 57),
        ("net_getpeername", args![99, buf.ptr, len.ptr], 8),
        ("net_validate_socket", args![0], 57),
        ("net_validate_accept", args![99], 8),
        ("net_setsockopt", args![0, 1, 2, buf.ptr, 4], 57),
        ("net_getsockopt", args![0, 1, 4, buf.ptr, len.ptr], 57),
        (
            "net_getaddrinfo",
            args![addr.ptr, addr.len, 0, 0, 0, buf.ptr, len.ptr],
            58,
        ),
        (
            "net_dns_query_rr_v1",
            args![
                addr.ptr, addr.len, 12, buf.ptr, 16, out.ptr, out.ptr, out.ptr
            ],
            58,
        ),
        ("net_tls_connect", args![0, addr.ptr, addr.len], 57),
        ("net_close", args![99], 8),
    ];
    for (function, args, _) in cases {
        s.call(&format!("host_net.{function}"), args);
    }
    let fds = s.bytes([1, 0, 0, 0, 4, 0, 0, 0]);
    s.call("host_net.net_poll", args![fds.ptr, 1, -1, out.ptr]);
    s.call("host_net.net_close", args![0]);
    let shown = machine.script(&s);
    let expected: Vec<u64> = cases.iter().map(|case| case.2).chain([0, 0]).collect();
    assert_eq!(shown.results, expected);
    assert_eq!(shown.bytes(fds)[6], 4);
}
