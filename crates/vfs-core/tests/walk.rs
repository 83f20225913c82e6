//! Paths of every shape through every call, with the host's error numbers.

mod common;

use common::Vm;
use common::against::{Subject, table};
use common::ops::{Name, Op};
use vfs_core::{Cred, Errno, FileType, Lookup, MemFs, MemFsOptions, OpenFlags};

fn name(text: &str) -> Name {
    Name(text.as_bytes().to_vec())
}

fn memory() -> Subject {
    Subject {
        fs: MemFs::new(MemFsOptions::default()),
        dir: None,
    }
}

/// Files, directories and links of every kind.
fn fixture() -> Vec<Op> {
    let mut ops = vec![
        Op::Chmod(name("/"), 0o777),
        Op::Mkdir(name("/d"), 0o777),
        Op::Mkdir(name("/d/e"), 0o777),
        Op::Mkdir(name("/empty"), 0o777),
        Op::Mknod(name("/f"), FileType::Regular, 0o666),
        Op::Mknod(name("/d/f"), FileType::Regular, 0o666),
        Op::Symlink(name("f"), name("/s")),
        Op::Symlink(name("/d"), name("/sd")),
        Op::Symlink(name("d/"), name("/sd2")),
        Op::Symlink(name("f/"), name("/sf")),
        Op::Symlink(name("nowhere"), name("/dangling")),
        Op::Symlink(name("d/new"), name("/danglingd")),
        Op::Symlink(name("nowhere/"), name("/danglings")),
        Op::Symlink(name("loop"), name("/loop")),
        Op::Symlink(name("/"), name("/slash")),
        Op::Symlink(name("."), name("/dot")),
        Op::Symlink(name(".."), name("/d/up")),
        Op::Mkdir(name("/closed"), 0o755),
        Op::Mknod(name("/closed/f"), FileType::Regular, 0o644),
        Op::Mkdir(name("/closed/d"), 0o777),
        Op::Chmod(name("/closed"), 0o700),
        Op::Mkdir(name("/sticky"), 0o777),
        Op::Mknod(name("/sticky/f"), FileType::Regular, 0o666),
        Op::Mkdir(name("/sticky/d"), 0o777),
        Op::Chmod(name("/sticky"), 0o1777),
        Op::Mkdir(name("/ro"), 0o755),
        Op::Mknod(name("/ro/f"), FileType::Regular, 0o444),
    ];
    // A chain of 41 links: the 40th can be followed from its start, the 41st can't.
    ops.push(Op::Symlink(name("f"), name("/l1")));
    for i in 2..=41 {
        ops.push(Op::Symlink(
            name(&format!("l{}", i - 1)),
            name(&format!("/l{i}")),
        ));
    }
    ops
}

fn paths() -> Vec<String> {
    let mut paths: Vec<String> = [
        "",
        "/",
        "//",
        ".",
        "..",
        "/.",
        "/..",
        "f",
        "f/",
        "f//",
        "f/.",
        "f/..",
        "f/x",
        "d",
        "d/",
        "d//",
        "d/.",
        "d/..",
        "d/../f",
        "d/./f",
        "d//f",
        "d/f",
        "d/f/",
        "d/e",
        "d/e/",
        "d/e/..",
        "empty",
        "empty/",
        "empty/.",
        "new",
        "new/",
        "new//",
        "new/.",
        "new/..",
        "new/x",
        "d/new",
        "d/new/",
        "s",
        "s/",
        "s/.",
        "s/..",
        "s/x",
        "sd",
        "sd/",
        "sd/.",
        "sd/..",
        "sd/f",
        "sd/new",
        "sd2",
        "sd2/",
        "sd2/f",
        "sf",
        "sf/",
        "dangling",
        "dangling/",
        "dangling/.",
        "dangling/x",
        "danglingd",
        "danglingd/",
        "danglings",
        "danglings/",
        "loop",
        "loop/",
        "loop/x",
        "slash",
        "slash/",
        "slash/f",
        "slash/new",
        "dot",
        "dot/",
        "dot/f",
        "dot/dot/dot/f",
        "d/up",
        "d/up/",
        "d/up/f",
        "d/up/up/f",
        "closed",
        "closed/",
        "closed/f",
        "closed/new",
        "closed/d/x",
        "closed/.",
        "closed/..",
        "sticky/f",
        "sticky/d",
        "sticky/new",
        "ro/f",
        "ro/new",
        "ro/f/",
        "ro/f/x",
        "l40",
        "l41",
        "l40/",
        "l41/",
        "l39",
    ]
    .map(str::to_owned)
    .to_vec();
    paths.push("n".repeat(255));
    paths.push("n".repeat(256));
    paths.push(format!("f/{}", "n".repeat(256)));
    paths.push(format!("none/{}", "n".repeat(256)));
    paths.push(format!("{}/x", "n".repeat(256)));
    paths.push(format!("{}f", "./".repeat(2047)));
    paths.push(format!("{}f/", "./".repeat(2047)));
    paths
}

fn operations(path: &str) -> Vec<Op> {
    let p = || name(path);
    let mut ops = vec![
        Op::Stat(p(), true),
        Op::Stat(p(), false),
        Op::Readlink(p()),
        Op::Mkdir(p(), 0o755),
        Op::Rmdir(p()),
        Op::Unlink(p()),
        Op::Mknod(p(), FileType::Regular, 0o600),
        Op::Mknod(p(), FileType::CharDevice, 0o600),
        Op::Mknod(p(), FileType::Directory, 0o600),
        Op::Symlink(name("target"), p()),
        Op::Link(name("f"), p(), false),
        Op::Link(name("d"), p(), false),
        Op::Link(p(), name("made"), false),
        Op::Link(p(), name("made"), true),
        Op::Link(p(), name("made/"), true),
        Op::Chmod(p(), 0o700),
        Op::Chown(p(), Some(1000), None, true),
        Op::Chown(p(), None, Some(1000), false),
        Op::Truncate(p(), 5),
        Op::Access(p(), 0),
        Op::Access(p(), 1),
        Op::Access(p(), 2),
        Op::Access(p(), 4),
        Op::Utimens(p(), 0, true),
        Op::Utimens(p(), 3, false),
        Op::Tmpfile(0, p(), false),
    ];
    for from in [
        "f", "d", "empty", "s", "sd", "none", "d/", "f/", ".", "d/..", "/",
    ] {
        for flags in [0, 1, 2] {
            ops.push(Op::Rename(name(from), p(), flags));
        }
    }
    for to in [
        "made", "made/", "f", "empty", "d", "d/e/x", "empty/", "d/f", ".",
    ] {
        for flags in [0, 1, 2] {
            ops.push(Op::Rename(p(), name(to), flags));
        }
    }
    let nonblock = OpenFlags::NONBLOCK;
    for mode in [OpenFlags::empty(), OpenFlags::WRONLY, OpenFlags::RDWR] {
        for flags in [
            OpenFlags::empty(),
            OpenFlags::CREAT,
            OpenFlags::CREAT | OpenFlags::EXCL,
            OpenFlags::CREAT | OpenFlags::NOFOLLOW,
            OpenFlags::CREAT | OpenFlags::DIRECTORY,
            OpenFlags::CREAT | OpenFlags::TRUNC,
            OpenFlags::TRUNC,
            OpenFlags::DIRECTORY,
            OpenFlags::NOFOLLOW,
            OpenFlags::DIRECTORY | OpenFlags::NOFOLLOW,
            OpenFlags::PATH,
            OpenFlags::PATH | OpenFlags::NOFOLLOW,
            OpenFlags::PATH | OpenFlags::NOFOLLOW | OpenFlags::DIRECTORY,
            OpenFlags::PATH | OpenFlags::CREAT,
            OpenFlags::NOATIME,
        ] {
            ops.push(Op::Open(0, p(), (mode | flags | nonblock).bits(), 0o644));
        }
    }
    ops
}

fn everything() -> Vec<Op> {
    paths().iter().flat_map(|path| operations(path)).collect()
}

#[test]
fn every_call_says_what_the_host_says_to_root() {
    table(&Cred::root(), &fixture(), &everything(), memory);
}

#[test]
fn every_call_says_what_the_host_says_to_a_user() {
    table(&Cred::user(1000, 1000), &fixture(), &everything(), memory);
}

#[test]
fn a_root_of_its_own_is_a_ceiling() {
    let vm = Vm::new();
    let at = vm.at();
    at.mkdir(b"/jail", 0o755).unwrap();
    at.mkdir(b"/jail/in", 0o755).unwrap();
    vm.put("/outside", b"");
    at.symlink(b"/outside", b"/jail/absolute").unwrap();
    at.symlink(b"../../outside", b"/jail/in/relative").unwrap();
    let jail = at.resolve(b"/jail", Lookup::empty()).unwrap();
    let inside = vfs_core::At {
        root: &jail,
        base: &jail,
        ..at
    };
    for path in [
        "../outside",
        "/../outside",
        "absolute",
        "in/relative",
        "in/../../outside",
    ] {
        assert_eq!(
            inside.resolve(path.as_bytes(), Lookup::FOLLOW).unwrap_err(),
            Errno::ENOENT
        );
    }
    assert_eq!(inside.resolve(b"/..", Lookup::empty()).unwrap(), jail);
    assert_eq!(vm.ns.absolute(&jail, &jail).bytes, b"/");
    let shown = vm.ns.absolute(&vm.root, &jail);
    assert!(shown.unreachable);
    // A base outside the root can walk on up, as an escaped working directory can on Linux.
    let escaped = vfs_core::At {
        root: &jail,
        base: &vm.root,
        ..at
    };
    assert!(escaped.resolve(b"outside", Lookup::empty()).is_ok());
}

#[test]
fn the_error_numbers_are_the_hosts() {
    for &errno in Errno::ALL {
        let host = nix::errno::Errno::from_raw(errno.number());
        assert_eq!(format!("{host:?}"), errno.name());
        // SAFETY: `strerror` gives a string that is valid until the next call on this thread.
        let text = unsafe { std::ffi::CStr::from_ptr(libc::strerror(errno.number())) };
        assert_eq!(text.to_str().unwrap(), errno.message());
    }
}
