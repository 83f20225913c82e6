//! `wasi_snapshot_preview1` call by call: files and directories.

mod common;

use common::files::{CWD, RDWR, READ, ROOT, WRITE, open, read, seen, write};
use common::script::{Place, Script};
use common::{Machine, request, text};
use kernel::{Cred, FileType};

#[test]
fn open_read_write_seek() {
    let machine = Machine::new();
    let mut s = Script::new();
    let fd = open(&mut s, "new", 1 | 4, RDWR, 0);
    write(&mut s, fd, "hello, world");
    let at = s.room(8);
    s.call(
        "wasi.fd_seek",
        &[fd.load(), 7i64.into(), 0.into(), at.ptr.into()],
    );
    let world = read(&mut s, fd, 16);
    let end = read(&mut s, fd, 16);
    let tell = s.room(8);
    s.call("wasi.fd_tell", &[fd.load(), tell.ptr.into()]);
    s.call(
        "wasi.fd_seek",
        &[fd.load(), (-20i64).into(), 1.into(), at.ptr.into()],
    );
    s.call(
        "wasi.fd_seek",
        &[fd.load(), 0i64.into(), 9.into(), at.ptr.into()],
    );
    // Two iovecs, overlapping with nothing.
    let (a, b) = (s.room(3), s.room(5));
    let iov = s.bytes(
        [
            a.ptr.to_le_bytes(),
            3u32.to_le_bytes(),
            b.ptr.to_le_bytes(),
            5u32.to_le_bytes(),
        ]
        .concat(),
    );
    let n = s.room(4);
    s.call(
        "wasi.fd_pread",
        &[
            fd.load(),
            iov.ptr.into(),
            2.into(),
            2i64.into(),
            n.ptr.into(),
        ],
    );
    s.call(
        "wasi.fd_pwrite",
        &[
            fd.load(),
            iov.ptr.into(),
            2.into(),
            20i64.into(),
            n.ptr.into(),
        ],
    );
    s.call(
        "wasi.fd_pread",
        &[
            fd.load(),
            iov.ptr.into(),
            2.into(),
            (-1i64).into(),
            n.ptr.into(),
        ],
    );
    s.call(
        "wasi.fd_pread",
        &[
            fd.load(),
            iov.ptr.into(),
            1025.into(),
            0i64.into(),
            n.ptr.into(),
        ],
    );
    s.call("wasi.fd_sync", &[fd.load()]);
    s.call("wasi.fd_datasync", &[fd.load()]);
    s.call("wasi.fd_filestat_set_size", &[fd.load(), 24i64.into()]);
    s.call("wasi.fd_filestat_set_size", &[fd.load(), (-1i64).into()]);
    s.call("wasi.fd_close", &[fd.load()]);
    s.call("wasi.fd_close", &[fd.load()]);
    let shown = machine.script(&s);
    assert_eq!(
        shown.results,
        [0, 0, 0, 0, 0, 0, 28, 28, 0, 0, 28, 28, 0, 0, 0, 28, 0, 8]
    );
    assert_eq!(seen(&shown, world), b"world");
    assert_eq!(seen(&shown, end), b"");
    assert_eq!(shown.u64(tell), 12);
    assert_eq!(
        (shown.bytes(a), shown.bytes(b)),
        (&b"llo"[..], &b", wor"[..])
    );
    assert_eq!(
        machine.vm.read_file(b"/work/new", 100).unwrap(),
        b"hello, world\0\0\0\0\0\0\0\0llo,"
    );
    assert_eq!(machine.vm.stat(b"/work/new").unwrap().perm(), 0o644);
}

#[test]
fn access_modes_follow_from_rights() {
    let machine = Machine::new();
    machine
        .vm
        .write_file(b"/work/f", b"content", 0o644)
        .unwrap();
    let mut s = Script::new();
    let r = open(&mut s, "f", 0, READ, 0);
    let w = open(&mut s, "f", 0, WRITE, 0);
    let rw = open(&mut s, "f", 0, RDWR, 0);
    let none = open(&mut s, "f", 0, 0, 0);
    let mut stats = Vec::new();
    for fd in [r, w, rw, none] {
        let stat = s.room(24);
        s.call("wasi.fd_fdstat_get", &[fd.load(), stat.ptr.into()]);
        stats.push(stat);
        read(&mut s, fd, 1);
        write(&mut s, fd, "x");
    }
    let shown = machine.script(&s);
    assert_eq!(shown.results[4..], [0, 0, 8, 0, 8, 0, 0, 0, 0, 0, 0, 8]);
    let rights = |stat: Place| u64::from_le_bytes(shown.bytes(stat)[8..16].try_into().unwrap());
    assert_eq!(
        stats.into_iter().map(rights).collect::<Vec<_>>(),
        [READ, WRITE, RDWR, READ]
    );
}

#[test]
fn open_flags() {
    let machine = Machine::new();
    machine
        .vm
        .write_file(b"/work/f", b"content", 0o644)
        .unwrap();
    machine.vm.symlink(b"f", b"/work/link").unwrap();
    machine.vm.mkdir(b"/work/d", 0o755).unwrap();
    let mut s = Script::new();
    let fd = s.room(4);
    let mut expected = Vec::new();
    let mut case = |s: &mut Script,
                    dir: u32,
                    follow: u32,
                    path: &str,
                    oflags: u32,
                    rights: u64,
                    errno: u64| {
        let name = s.bytes(path);
        s.call(
            "wasi.path_open",
            args![
                dir, follow, name.ptr, name.len, oflags, rights, RDWR, 4, fd.ptr
            ],
        );
        expected.push(errno);
    };
    case(&mut s, CWD, 1, "missing", 0, READ, 44);
    case(&mut s, CWD, 1, "", 0, READ, 44);
    case(&mut s, CWD, 1, "a\0b", 0, READ, 28);
    case(&mut s, CWD, 1, "f", 5, RDWR, 20);
    case(&mut s, CWD, 1, "g", 3, RDWR, 28);
    case(&mut s, CWD, 1, "f", 2, READ, 54);
    case(&mut s, CWD, 1, "f/x", 0, READ, 54);
    case(&mut s, CWD, 1, "d", 0, WRITE, 31);
    case(&mut s, CWD, 1, "d", 2, READ, 0);
    case(&mut s, CWD, 0, "link", 0, READ, 32);
    case(&mut s, CWD, 1, "link", 0, READ, 0);
    // Preopened directories are no walls, and absolute paths are absolute.
    case(&mut s, CWD, 1, "../work/./f", 0, READ, 0);
    case(&mut s, CWD, 1, "/work/f", 0, READ, 0);
    case(&mut s, ROOT, 1, "work/f", 0, READ, 0);
    case(&mut s, ROOT, 1, "../../work/f", 0, READ, 0);
    case(&mut s, 99, 1, "/work/f", 0, READ, 0);
    case(&mut s, 99, 1, "f", 0, READ, 8);
    case(&mut s, 0, 1, "f", 0, READ, 54);
    case(&mut s, -1i32 as u32, 1, "f", 0, READ, 0);
    case(&mut s, -2i32 as u32, 1, "f", 0, READ, 0);
    case(&mut s, -100i32 as u32, 1, "f", 0, READ, 0);
    case(&mut s, -3i32 as u32, 1, "f", 0, READ, 8);
    case(&mut s, CWD, 1, &"x".repeat(256), 0, READ, 37);
    case(&mut s, CWD, 1, &"y/".repeat(2048), 0, READ, 37);
    let shown = machine.script(&s);
    assert_eq!(shown.results, expected);
}

#[test]
fn creation_modes_are_latched_for_one_open() {
    let machine = Machine::new();
    let mut s = Script::new();
    s.call("host_fs.set_open_mode", args![0o751]);
    open(&mut s, "missing/x", 1, RDWR, 0);
    open(&mut s, "plain", 1, RDWR, 0);
    s.call("host_fs.set_open_mode", args![0o640]);
    open(&mut s, "special", 1, RDWR, 0);
    let previous = s.room(4);
    s.call("host_process.umask", args![0o077, 1, previous.ptr]);
    open(&mut s, "private", 1, RDWR, 0);
    assert_eq!(machine.script(&s).results, [0, 44, 0, 0, 0, 0, 0]);
    let perm = |path: &[u8]| machine.vm.stat(path).unwrap().perm();
    assert_eq!(perm(b"/work/plain"), 0o644);
    assert_eq!(perm(b"/work/special"), 0o640);
    assert_eq!(perm(b"/work/private"), 0o600);
}

#[test]
fn status_flags_can_be_changed() {
    let machine = Machine::new();
    machine.vm.write_file(b"/work/f", b"start ", 0o644).unwrap();
    let mut s = Script::new();
    let fd = open(&mut s, "f", 0, RDWR, 1);
    let (before, after) = (s.room(24), s.room(24));
    s.call("wasi.fd_fdstat_get", &[fd.load(), before.ptr.into()]);
    write(&mut s, fd, "appended");
    s.call("wasi.fd_fdstat_set_flags", &[fd.load(), 0x24.into()]);
    s.call("wasi.fd_fdstat_get", &[fd.load(), after.ptr.into()]);
    s.call("wasi.fd_fdstat_set_flags", args![77, 0]);
    let shown = machine.script(&s);
    assert_eq!(shown.results, [0, 0, 0, 0, 0, 8]);
    assert_eq!((shown.bytes(before)[2], shown.bytes(after)[2]), (1, 0x24));
    assert_eq!(
        machine.vm.read_file(b"/work/f", 100).unwrap(),
        b"start appended"
    );
}

#[test]
fn file_attributes() {
    let machine = Machine::new();
    machine
        .vm
        .write_file(b"/work/f", b"content", 0o644)
        .unwrap();
    machine.vm.symlink(b"f", b"/work/link").unwrap();
    let mut s = Script::new();
    let stats: Vec<Place> = [
        (1, "f"),
        (1, "link"),
        (0, "link"),
        (1, "."),
        (1, "/dev/null"),
    ]
    .into_iter()
    .map(|(follow, path)| {
        let (name, stat) = (s.bytes(path), s.room(64));
        s.call(
            "wasi.path_filestat_get",
            args![CWD, follow, name.ptr, name.len, stat.ptr],
        );
        stat
    })
    .collect();
    let fd = open(&mut s, "f", 0, RDWR, 0);
    let opened = s.room(64);
    s.call("wasi.fd_filestat_get", &[fd.load(), opened.ptr.into()]);
    let f = s.bytes("f");
    s.call(
        "wasi.path_filestat_set_times",
        args![CWD, 1, f.ptr, f.len, 1_234_567_890_123_456_789i64, -5i64, 5],
    );
    let times = s.room(64);
    s.call(
        "wasi.path_filestat_get",
        args![CWD, 1, f.ptr, f.len, times.ptr],
    );
    s.call(
        "wasi.fd_filestat_set_times",
        &[fd.load(), 7i64.into(), 8i64.into(), 1.into()],
    );
    let later = s.room(64);
    s.call("wasi.fd_filestat_get", &[fd.load(), later.ptr.into()]);
    s.call(
        "wasi.fd_filestat_set_times",
        &[fd.load(), 7i64.into(), 8i64.into(), 3.into()],
    );
    let shown = machine.script(&s);
    assert_eq!(shown.results, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 28]);
    let kinds: Vec<u8> = stats.iter().map(|stat| shown.bytes(*stat)[16]).collect();
    assert_eq!(kinds, [4, 4, 7, 3, 2]);
    let number = |stat: Place, at: usize| {
        u64::from_le_bytes(shown.bytes(stat)[at..at + 8].try_into().unwrap())
    };
    assert_eq!(
        (
            number(stats[0], 24),
            number(stats[0], 32),
            number(stats[2], 32)
        ),
        (1, 7, 1)
    );
    assert_eq!(shown.bytes(opened), shown.bytes(stats[0]));
    assert_eq!(
        (number(times, 40), number(times, 48)),
        (1_234_567_890_123_456_789, 0)
    );
    assert_eq!((number(later, 40), number(later, 48)), (7, 0));
}

#[test]
fn names_come_and_go() {
    let machine = Machine::new();
    machine
        .vm
        .write_file(b"/work/f", b"content", 0o644)
        .unwrap();
    let mut s = Script::new();
    let names = ["f", "d", "d/g", "link", "nope", "d/h", "../dev/shm/f"].map(|name| s.bytes(name));
    let [f, d, g, link, nope, h, far] = names;
    s.call("wasi.path_create_directory", args![CWD, d.ptr, d.len]);
    s.call("wasi.path_create_directory", args![CWD, d.ptr, d.len]);
    s.call(
        "wasi.path_link",
        args![CWD, 0, f.ptr, f.len, CWD, g.ptr, g.len],
    );
    s.call(
        "wasi.path_link",
        args![CWD, 0, f.ptr, f.len, CWD, g.ptr, g.len],
    );
    s.call(
        "wasi.path_symlink",
        args![g.ptr, g.len, CWD, link.ptr, link.len],
    );
    let (buf, n) = (s.room(8), s.room(4));
    s.call(
        "wasi.path_readlink",
        args![CWD, link.ptr, link.len, buf.ptr, 8, n.ptr],
    );
    let (short, m) = (s.room(2), s.room(4));
    s.call(
        "wasi.path_readlink",
        args![CWD, link.ptr, link.len, short.ptr, 2, m.ptr],
    );
    s.call(
        "wasi.path_readlink",
        args![CWD, f.ptr, f.len, buf.ptr, 8, m.ptr],
    );
    s.call(
        "wasi.path_readlink",
        args![CWD, nope.ptr, nope.len, buf.ptr, 8, m.ptr],
    );
    s.call("wasi.path_remove_directory", args![CWD, d.ptr, d.len]);
    s.call("wasi.path_unlink_file", args![CWD, d.ptr, d.len]);
    s.call("wasi.path_remove_directory", args![CWD, f.ptr, f.len]);
    s.call(
        "wasi.path_rename",
        args![CWD, g.ptr, g.len, CWD, h.ptr, h.len],
    );
    s.call(
        "wasi.path_rename",
        args![CWD, nope.ptr, nope.len, CWD, h.ptr, h.len],
    );
    s.call(
        "wasi.path_rename",
        args![CWD, f.ptr, f.len, CWD, far.ptr, far.len],
    );
    s.call("wasi.path_unlink_file", args![CWD, h.ptr, h.len]);
    s.call("wasi.path_remove_directory", args![CWD, d.ptr, d.len]);
    let shown = machine.script(&s);
    assert_eq!(
        shown.results,
        [0, 20, 0, 20, 0, 0, 0, 28, 44, 55, 31, 54, 0, 44, 75, 0, 0]
    );
    assert_eq!((shown.u32(n), &shown.bytes(buf)[..3]), (3, &b"d/g"[..]));
    assert_eq!((shown.u32(m), shown.bytes(short)), (2, &b"d/"[..]));
    let left = machine.vm.read_dir(b"/work").unwrap();
    assert!(
        left.iter()
            .any(|(name, kind)| name == b"link" && *kind == FileType::Symlink)
    );
}

/// Records of a `fd_readdir` buffer: cookie, inode, type, name.
fn records(mut bytes: &[u8]) -> Vec<(u64, u64, u8, String)> {
    let mut found = Vec::new();
    while bytes.len() >= 24 {
        let len = u32::from_le_bytes(bytes[16..20].try_into().unwrap()) as usize;
        if bytes.len() < 24 + len {
            break;
        }
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        found.push((word(0), word(8), bytes[20], text(&bytes[24..24 + len])));
        bytes = &bytes[24 + len..];
    }
    found
}

#[test]
fn directories_are_read_piece_by_piece() {
    let machine = Machine::new();
    for name in ["a", "bb", "ccc"] {
        machine
            .vm
            .write_file(format!("/work/d-{name}").as_bytes(), b"", 0o644)
            .unwrap();
    }
    machine.vm.mkdir(b"/work/sub", 0o755).unwrap();
    let mut s = Script::new();
    let dir = open(&mut s, ".", 2, READ, 4);
    let (all, n) = (s.room(4096), s.room(4));
    s.call(
        "wasi.fd_readdir",
        &[
            dir.load(),
            all.ptr.into(),
            4096.into(),
            0i64.into(),
            n.ptr.into(),
        ],
    );
    let (cut, m) = (s.room(60), s.room(4));
    s.call(
        "wasi.fd_readdir",
        &[
            dir.load(),
            cut.ptr.into(),
            60.into(),
            0i64.into(),
            m.ptr.into(),
        ],
    );
    s.call("wasi.fd_readdir", args![0, cut.ptr, 60, 0i64, m.ptr]);
    s.call("wasi.fd_readdir", args![55, cut.ptr, 60, 0i64, m.ptr]);
    let shown = machine.script(&s);
    assert_eq!(shown.results, [0, 0, 0, 54, 8]);
    let entries = records(&shown.bytes(all)[..shown.u32(n) as usize]);
    assert_eq!((entries[0].3.as_str(), entries[1].3.as_str()), (".", ".."));
    let mut names: Vec<_> = entries
        .iter()
        .map(|(.., kind, name)| (name.as_str(), *kind))
        .collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            (".", 3),
            ("..", 3),
            ("d-a", 4),
            ("d-bb", 4),
            ("d-ccc", 4),
            ("sub", 3)
        ]
    );
    assert!(entries.iter().all(|(_, ino, ..)| *ino != 0));
    // A buffer too small for all is full to its last byte.
    assert_eq!(shown.u32(m), 60);
    assert_eq!(records(shown.bytes(cut)).len(), 2);

    // From each cookie on, the rest comes.
    let mut s = Script::new();
    let dir = open(&mut s, ".", 2, READ, 4);
    let rests: Vec<_> = entries
        .iter()
        .map(|(cookie, ..)| {
            let (buf, n) = (s.room(512), s.room(4));
            s.call(
                "wasi.fd_readdir",
                &[
                    dir.load(),
                    buf.ptr.into(),
                    512.into(),
                    (*cookie).into(),
                    n.ptr.into(),
                ],
            );
            (buf, n)
        })
        .collect();
    let shown = machine.script(&s);
    for (index, (buf, n)) in rests.into_iter().enumerate() {
        let rest = records(&shown.bytes(buf)[..shown.u32(n) as usize]);
        assert_eq!(rest, entries[index + 1..]);
    }
}

#[test]
fn a_removed_directory_is_empty() {
    let machine = Machine::new();
    let mut s = Script::new();
    let d = s.bytes("d");
    s.call("wasi.path_create_directory", args![CWD, d.ptr, d.len]);
    let dir = open(&mut s, "d", 2, READ, 0);
    s.call("wasi.path_remove_directory", args![CWD, d.ptr, d.len]);
    let (buf, n) = (s.room(256), s.bytes([9, 9, 9, 9]));
    s.call(
        "wasi.fd_readdir",
        &[
            dir.load(),
            buf.ptr.into(),
            256.into(),
            0i64.into(),
            n.ptr.into(),
        ],
    );
    let shown = machine.script(&s);
    assert_eq!(shown.results, [0, 0, 0, 0]);
    assert_eq!(shown.u32(n), 0);
}

#[test]
fn descriptors_move() {
    let machine = Machine::new();
    machine
        .vm
        .write_file(b"/work/f", b"content", 0o644)
        .unwrap();
    let mut s = Script::new();
    let a = open(&mut s, "f", 0, READ, 0);
    let b = open(&mut s, "f", 0, READ, 0);
    s.call("wasi.fd_renumber", &[b.load(), a.load()]);
    read(&mut s, b, 1);
    let content = read(&mut s, a, 16);
    s.call("wasi.fd_renumber", &[a.load(), a.load()]);
    s.call("wasi.fd_renumber", args![40, 40]);
    s.call("wasi.fd_renumber", args![40, 41]);
    s.call("wasi.sock_shutdown", args![0, 3]);
    s.call("wasi.sock_shutdown", args![0, 4]);
    let shown = machine.script(&s);
    assert_eq!((shown.u32(a), shown.u32(b)), (3, 4));
    assert_eq!(shown.results, [0, 0, 0, 8, 0, 0, 8, 8, 57, 28]);
    assert_eq!(seen(&shown, content), b"content");
}

#[test]
fn streams_have_no_offset_and_no_type() {
    let machine = Machine::new();
    let mut s = Script::new();
    let (r, w) = (s.room(4), s.room(4));
    s.call("host_process.fd_pipe", args![r.ptr, w.ptr]);
    let (stat, at) = (s.room(24), s.room(8));
    s.call("wasi.fd_fdstat_get", &[r.load(), stat.ptr.into()]);
    s.call(
        "wasi.fd_seek",
        &[r.load(), 0i64.into(), 1.into(), at.ptr.into()],
    );
    s.call("wasi.fd_tell", &[w.load(), at.ptr.into()]);
    read(&mut s, w, 1);
    write(&mut s, r, "x");
    write(&mut s, w, "through");
    let through = read(&mut s, r, 100);
    s.call("wasi.fd_fdstat_set_flags", &[r.load(), 4.into()]);
    read(&mut s, r, 1);
    s.call("wasi.fd_close", &[w.load()]);
    let end = read(&mut s, r, 1);
    let shown = machine.script(&s);
    assert_eq!(shown.results, [0, 0, 70, 70, 8, 8, 0, 0, 0, 6, 0, 0]);
    assert_eq!(shown.bytes(stat)[0], 0);
    assert_eq!(seen(&shown, through), b"through");
    assert_eq!(shown.u32(end.1), 0);
}

#[test]
fn permissions_are_those_of_the_user() {
    let machine = Machine::new();
    machine.vm.write_file(b"/work/secret", b"x", 0o600).unwrap();
    machine.vm.chmod(b"/work", 0o755).unwrap();
    let mut s = Script::new();
    open(&mut s, "secret", 0, READ, 0);
    open(&mut s, "new", 1, RDWR, 0);
    let mut request = request("script", &[]);
    request.cred = Some(Cred::user(1000, 1000));
    assert_eq!(machine.script_as(&request, &s).results, [2, 2]);
}
