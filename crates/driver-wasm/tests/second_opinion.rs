//! Preview 1 here and in wasmtime-wasi: the same guests on the same tree get the same answers,
//! but for the differences listed by name.
//!
//! wasmtime-wasi shows a directory of the host, here a temporary one; we show `/work` of a virtual
//! machine. Both guests find it at descriptor 3, as programs built with wasi-libc do.
//!
//! Left out is what wasmtime-wasi ends a guest for and we answer as a system call would: pointers
//! outside of memory (`EFAULT`) and enumerations out of range (`EINVAL`).

mod common;

use common::Machine;
use common::script::{Arg, Place, Script, Shown};
use wasmtime_wasi::p1::{self, WasiP1Ctx};
use wasmtime_wasi::p2::pipe::MemoryOutputPipe;
use wasmtime_wasi::{FsPerms, I32Exit, WasiCtxBuilder};

/// The preopened directory.
const DIR: u32 = 3;
/// Rights to read and to write, and all others.
const ALL: u64 = 0x0fff_ffff;
const READ: u64 = 0x0fbf_febe;

/// Answers that differ: label, wasmtime-wasi's, ours, and why ours is what it is.
const DIFFERENCES: &[(&str, u64, u64, &str)] = &[
    (
        "open ..",
        63,
        0,
        "a directory is where a path starts, not a wall: the wall is the machine",
    ),
    (
        "open absolute",
        63,
        0,
        "an absolute path is absolute, as for openat(2)",
    ),
    ("stat ..", 63, 0, "as opening it"),
    (
        "symlink absolute",
        63,
        0,
        "a link's text is anyone's business, symlink(2) takes all",
    ),
    (
        "clock 2",
        8,
        58,
        "no processor clocks in either; the ABI says ENOTSUP",
    ),
    (
        "clock 3",
        8,
        58,
        "no processor clocks in either; the ABI says ENOTSUP",
    ),
];

/// A guest made of labelled calls, and what of its memory both must agree on.
#[derive(Default)]
struct Guest {
    script: Script,
    labels: Vec<&'static str>,
    agreed: Vec<(&'static str, Place)>,
}

impl Guest {
    /// A guest that has looked for its directory.
    fn new() -> Guest {
        let mut guest = Guest {
            script: Script::new(),
            ..Guest::default()
        };
        let stat = guest.script.room(8);
        guest.call("prestat", "fd_prestat_get", args![DIR, stat.ptr]);
        guest
    }

    fn call(&mut self, label: &'static str, function: &str, args: &[Arg]) {
        self.script.call(&format!("wasi.{function}"), args);
        self.labels.push(label);
    }

    /// A call with a path in the directory.
    fn at(&mut self, label: &'static str, function: &str, path: &str) {
        let name = self.script.bytes(path);
        self.call(label, function, args![DIR, name.ptr, name.len]);
    }

    fn open(
        &mut self,
        label: &'static str,
        path: &str,
        oflags: u32,
        rights: u64,
        fdflags: u32,
    ) -> Place {
        let (name, fd) = (self.script.bytes(path), self.script.room(4));
        self.call(
            label,
            "path_open",
            args![
                DIR, 1, name.ptr, name.len, oflags, rights, ALL, fdflags, fd.ptr
            ],
        );
        fd
    }

    fn write(&mut self, label: &'static str, fd: Place, bytes: &str) {
        let buf = self.script.bytes(bytes);
        let (iov, n) = (self.script.iovec(buf), self.script.room(4));
        self.call(
            label,
            "fd_write",
            &[fd.load(), iov.ptr.into(), 1.into(), n.ptr.into()],
        );
        self.agreed.push((label, n));
    }

    fn read(&mut self, label: &'static str, fd: Place, len: u32) {
        let buf = self.script.room(len);
        let (iov, n) = (self.script.iovec(buf), self.script.room(4));
        self.call(
            label,
            "fd_read",
            &[fd.load(), iov.ptr.into(), 1.into(), n.ptr.into()],
        );
        self.agreed.extend([(label, buf), (label, n)]);
    }

    /// Asks for attributes, of which the kind must agree, if both answer.
    fn stat(&mut self, label: &'static str, path: &str, follow: u32) -> Place {
        let (name, stat) = (self.script.bytes(path), self.script.room(64));
        self.call(
            label,
            "path_filestat_get",
            args![DIR, follow, name.ptr, name.len, stat.ptr],
        );
        if DIFFERENCES.iter().all(|difference| difference.0 != label) {
            let kind = Place {
                ptr: stat.ptr + 16,
                len: 1,
            };
            self.agreed.push((label, kind));
        }
        stat
    }

    /// Asks for attributes of what is no directory: links and size must agree as well, which for
    /// directories are a matter of the file system.
    fn stat_file(&mut self, label: &'static str, path: &str, follow: u32) {
        let stat = self.stat(label, path, follow);
        let links_and_size = Place {
            ptr: stat.ptr + 24,
            len: 16,
        };
        self.agreed.push((label, links_and_size));
    }

    fn seek(&mut self, label: &'static str, fd: Place, delta: i64, whence: u32) {
        let at = self.script.room(8);
        self.call(
            label,
            "fd_seek",
            &[fd.load(), delta.into(), whence.into(), at.ptr.into()],
        );
        self.agreed.push((label, at));
    }

    /// Runs it both ways and compares.
    fn compare(&self) {
        let module = self.script.wasm();
        let ours = {
            let machine = Machine::new();
            machine
                .vm
                .write_file(b"/work/file", b"the content of a file\n", 0o644)
                .unwrap();
            machine.vm.mkdir(b"/work/dir", 0o755).unwrap();
            machine.vm.symlink(b"file", b"/work/link").unwrap();
            machine.script(&self.script)
        };
        let theirs = self.script.read(&second(&module));
        let mut wrong = Vec::new();
        for (index, label) in self.labels.iter().enumerate() {
            let answers = (theirs.results[index], ours.results[index]);
            let listed = DIFFERENCES.iter().find(|difference| difference.0 == *label);
            let expected = match listed {
                Some((_, theirs, ours, _)) => answers == (*theirs, *ours),
                None => answers.0 == answers.1,
            };
            if !expected {
                wrong.push(format!("{label}: theirs {}, ours {}", answers.0, answers.1));
            }
        }
        let shown = |shown: &Shown, place: Place| shown.bytes(place).to_vec();
        for (label, place) in &self.agreed {
            if shown(&theirs, *place) != shown(&ours, *place) {
                wrong.push(format!(
                    "{label}: theirs {:?}, ours {:?}",
                    shown(&theirs, *place),
                    shown(&ours, *place)
                ));
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}

/// Runs a module on wasmtime-wasi over a fresh tree, and gives its standard output.
fn second(module: &[u8]) -> Vec<u8> {
    let tree = tempfile::tempdir().unwrap();
    std::fs::write(tree.path().join("file"), "the content of a file\n").unwrap();
    std::fs::create_dir(tree.path().join("dir")).unwrap();
    std::os::unix::fs::symlink("file", tree.path().join("link")).unwrap();
    let engine = wasmtime::Engine::default();
    let module = wasmtime::Module::new(&engine, module).unwrap();
    let mut linker: wasmtime::Linker<WasiP1Ctx> = wasmtime::Linker::new(&engine);
    p1::add_to_linker_sync(&mut linker, |context| context).unwrap();
    let stdout = MemoryOutputPipe::new(1 << 20);
    let context = WasiCtxBuilder::new()
        .arg("script")
        .stdout(stdout.clone())
        .preopened_dir(tree.path(), "/work", FsPerms::ReadWrite)
        .unwrap()
        .build_p1();
    let mut store = wasmtime::Store::new(&engine, context);
    let instance = linker.instantiate(&mut store, &module).unwrap();
    let start = instance
        .get_typed_func::<(), ()>(&mut store, "_start")
        .unwrap();
    match start.call(&mut store, ()) {
        Ok(()) => {}
        Err(error) => assert!(error.downcast_ref::<I32Exit>().is_some(), "{error:#}"),
    }
    stdout.contents().to_vec()
}

#[test]
fn files() {
    let mut g = Guest::new();
    let fd = g.open("open", "file", 0, ALL, 0);
    g.read("read", fd, 11);
    g.seek("seek set", fd, 4, 0);
    g.seek("seek current", fd, 3, 1);
    g.seek("seek end", fd, -5, 2);
    g.seek("seek negative", fd, -100, 1);
    g.seek("seek far", fd, 1 << 40, 0);
    g.read("read past the end", fd, 4);
    g.seek("seek back", fd, 16, 0);
    g.write("overwrite", fd, "FILES and more");
    let tell = g.script.room(8);
    g.call("tell", "fd_tell", &[fd.load(), tell.ptr.into()]);
    g.agreed.push(("tell", tell));
    g.stat_file("stat after write", "file", 1);
    g.call(
        "set size",
        "fd_filestat_set_size",
        &[fd.load(), 5i64.into()],
    );
    g.stat_file("stat after set size", "file", 1);
    g.call("sync", "fd_sync", &[fd.load()]);
    g.call("datasync", "fd_datasync", &[fd.load()]);
    g.call("close", "fd_close", &[fd.load()]);
    g.call("close again", "fd_close", &[fd.load()]);
    g.read("read closed", fd, 4);
    let appending = g.open("open append", "file", 0, ALL, 1);
    g.write("append", appending, "-end");
    g.stat_file("stat after append", "file", 1);
    let reading = g.open("open to read", "file", 0, READ, 0);
    g.write("write what is open to read", reading, "x");
    g.read("read it all", reading, 32);
    g.compare();
}

#[test]
fn scattered_and_positioned() {
    let mut g = Guest::new();
    let fd = g.open("open", "file", 0, ALL, 0);
    let (a, b, n) = (g.script.room(3), g.script.room(9), g.script.room(4));
    let vectors = [a.ptr, a.len, 0, 0, b.ptr, b.len]
        .map(u32::to_le_bytes)
        .concat();
    let iov = g.script.bytes(vectors);
    g.call(
        "pread",
        "fd_pread",
        &[
            fd.load(),
            iov.ptr.into(),
            3.into(),
            4i64.into(),
            n.ptr.into(),
        ],
    );
    g.call(
        "pread none",
        "fd_pread",
        &[
            fd.load(),
            iov.ptr.into(),
            0.into(),
            4i64.into(),
            n.ptr.into(),
        ],
    );
    let tell = g.script.room(8);
    g.call("tell", "fd_tell", &[fd.load(), tell.ptr.into()]);
    g.agreed.extend([("pread", n), ("tell", tell)]);
    let m = g.script.room(4);
    g.call(
        "write none",
        "fd_write",
        &[fd.load(), iov.ptr.into(), 0.into(), m.ptr.into()],
    );
    g.compare();
}

#[test]
fn opening() {
    let mut g = Guest::new();
    g.open("open missing", "missing", 0, READ, 0);
    g.open("open below a file", "file/x", 0, READ, 0);
    g.open("open a directory", "dir", 2, READ, 0);
    g.open("open a file as a directory", "file", 2, READ, 0);
    g.open("open a directory to write", "dir", 0, ALL, 0);
    g.open("create what exists", "file", 1 | 4, ALL, 0);
    g.open("create", "new", 1 | 4, ALL, 0);
    g.open("create below nothing", "nothing/new", 1, ALL, 0);
    g.open("open through a link", "link", 0, READ, 0);
    g.open("open ..", "..", 2, READ, 0);
    g.open("open absolute", "/etc", 2, READ, 0);
    g.open("open dots", "dir/../dir/./../file", 0, READ, 0);
    let (link, fd) = (g.script.bytes("link"), g.script.room(4));
    g.call(
        "open a link itself",
        "path_open",
        args![DIR, 0, link.ptr, link.len, 0, READ, ALL, 0, fd.ptr],
    );
    g.call(
        "open at a closed descriptor",
        "path_open",
        args![99, 1, link.ptr, link.len, 0, READ, ALL, 0, fd.ptr],
    );
    g.stat_file("stat new", "new", 1);
    g.open("truncate", "file", 8, ALL, 0);
    g.stat_file("stat truncated", "file", 1);
    g.compare();
}

#[test]
fn names() {
    let mut g = Guest::new();
    g.at("mkdir", "path_create_directory", "d");
    g.at("mkdir again", "path_create_directory", "d");
    g.at("mkdir deep", "path_create_directory", "x/y");
    g.stat("stat directory", "dir", 1);
    g.stat_file("stat link", "link", 0);
    g.stat_file("stat through link", "link", 1);
    g.stat("stat missing", "missing", 1);
    g.stat("stat ..", "..", 1);
    let [file, link, sub, gone] = ["file", "link", "d/f", "gone"].map(|name| g.script.bytes(name));
    g.call(
        "link",
        "path_link",
        args![DIR, 0, file.ptr, file.len, DIR, sub.ptr, sub.len],
    );
    g.call(
        "link again",
        "path_link",
        args![DIR, 0, file.ptr, file.len, DIR, sub.ptr, sub.len],
    );
    g.stat_file("stat linked", "file", 1);
    g.call(
        "symlink",
        "path_symlink",
        args![sub.ptr, sub.len, DIR, gone.ptr, gone.len],
    );
    g.call(
        "symlink again",
        "path_symlink",
        args![sub.ptr, sub.len, DIR, gone.ptr, gone.len],
    );
    let (slash, other) = (g.script.bytes("/etc"), g.script.bytes("abs"));
    g.call(
        "symlink absolute",
        "path_symlink",
        args![slash.ptr, slash.len, DIR, other.ptr, other.len],
    );
    let (buf, n) = (g.script.room(16), g.script.room(4));
    g.call(
        "readlink",
        "path_readlink",
        args![DIR, link.ptr, link.len, buf.ptr, 16, n.ptr],
    );
    g.agreed.extend([("readlink", buf), ("readlink", n)]);
    g.call(
        "readlink of a file",
        "path_readlink",
        args![DIR, file.ptr, file.len, buf.ptr, 16, n.ptr],
    );
    g.at("rmdir not empty", "path_remove_directory", "d");
    g.at("rmdir a file", "path_remove_directory", "file");
    g.at("rmdir missing", "path_remove_directory", "missing");
    g.at("unlink a directory", "path_unlink_file", "d");
    g.at("unlink missing", "path_unlink_file", "missing");
    g.call(
        "rename",
        "path_rename",
        args![DIR, file.ptr, file.len, DIR, sub.ptr, sub.len],
    );
    let moved = g.script.bytes("d/moved");
    g.call(
        "rename on",
        "path_rename",
        args![DIR, sub.ptr, sub.len, DIR, moved.ptr, moved.len],
    );
    g.call(
        "rename missing",
        "path_rename",
        args![DIR, sub.ptr, sub.len, DIR, moved.ptr, moved.len],
    );
    g.at("unlink moved", "path_unlink_file", "d/moved");
    g.at("unlink dangling link", "path_unlink_file", "gone");
    g.compare();
}

#[test]
fn descriptors_and_clocks() {
    let mut g = Guest::new();
    let fd = g.open("open", "file", 0, ALL, 0);
    let stat = g.script.room(24);
    g.call("fdstat", "fd_fdstat_get", &[fd.load(), stat.ptr.into()]);
    g.agreed.push((
        "fdstat type and flags",
        Place {
            ptr: stat.ptr,
            len: 4,
        },
    ));
    g.call("fdstat closed", "fd_fdstat_get", args![99, stat.ptr]);
    g.call("set flags", "fd_fdstat_set_flags", &[fd.load(), 1.into()]);
    let after = g.script.room(24);
    g.call(
        "fdstat after",
        "fd_fdstat_get",
        &[fd.load(), after.ptr.into()],
    );
    g.agreed.push((
        "fdstat flags after",
        Place {
            ptr: after.ptr,
            len: 4,
        },
    ));
    let second = g.open("open again", "file", 0, ALL, 0);
    g.call("renumber", "fd_renumber", &[second.load(), fd.load()]);
    g.call("renumber closed", "fd_renumber", args![99, 98]);
    g.read("read renumbered", fd, 8);
    g.call(
        "set times",
        "fd_filestat_set_times",
        &[fd.load(), 5i64.into(), 7i64.into(), 5.into()],
    );
    g.call(
        "set times both ways",
        "fd_filestat_set_times",
        &[fd.load(), 5i64.into(), 7i64.into(), 3.into()],
    );
    let full = g.script.room(64);
    g.call("filestat", "fd_filestat_get", &[fd.load(), full.ptr.into()]);
    g.agreed.push((
        "times",
        Place {
            ptr: full.ptr + 40,
            len: 16,
        },
    ));
    let time = g.script.room(8);
    for (label, clock) in [
        ("clock 0", 0),
        ("clock 1", 1),
        ("clock 2", 2),
        ("clock 3", 3),
    ] {
        g.call(label, "clock_time_get", args![clock, 0i64, time.ptr]);
    }
    g.call("random", "random_get", args![time.ptr, 8]);
    g.call("yield", "sched_yield", &[]);
    g.compare();
}
