//! Processor time of the common calls on a memory file system:
//! `cargo run --release -p vfs-core --example speed`.
#![allow(clippy::print_stdout)]

use nix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;
use vfs_core::namei::NoSpecialFiles;
use vfs_core::{At, Caller, Cred, Lookup, MemFs, MemFsOptions, MountFlags, Namespace, OpenFlags};

/// Time this thread has run, which other load on the machine does not count in.
fn processor_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .map(Duration::from)
        .unwrap_or_default()
}

fn time<T>(what: &str, n: u32, mut f: impl FnMut(u32) -> T) {
    let start = processor_time();
    for i in 0..n {
        black_box(f(i));
    }
    println!(
        "{what:<44} {:>10.0} ns",
        (processor_time() - start).as_nanos() as f64 / f64::from(n)
    );
}

fn main() {
    let build = |_| {
        let fs = MemFs::new(MemFsOptions::default());
        Namespace::new(fs, MountFlags::empty(), Arc::new(NoSpecialFiles))
    };
    time("create a file system and a namespace", 10_000, build);
    let ns = build(0);
    let root = ns.root();
    let superuser = Caller {
        cred: Arc::new(Cred::root()),
        pid: 1,
        umask: 0,
    };
    let user = Caller {
        cred: Arc::new(Cred::user(1000, 1000)),
        pid: 1,
        umask: 0,
    };
    let at = At {
        ns: &ns,
        root: &root,
        base: &root,
        caller: &superuser,
    };
    let by_user = At {
        caller: &user,
        ..at
    };
    for dir in ["/usr", "/usr/local", "/usr/local/bin", "/big"] {
        at.mkdir(dir.as_bytes(), 0o755).expect("a new directory");
    }
    let create = OpenFlags::CREAT | OpenFlags::RDWR;
    let file = at
        .open(b"/usr/local/bin/tool", create, 0o755)
        .expect("a new file");
    at.symlink(b"/usr/local", b"/l").expect("a new link");

    drop(file);
    time("resolve 1 component, name not held", 1_000_000, |_| {
        by_user.resolve(b"/usr", Lookup::FOLLOW)
    });
    time("stat of 4 components, the last missing", 300_000, |_| {
        by_user.stat(b"/usr/local/bin/none", Lookup::FOLLOW)
    });
    time(
        "stat of 4 components, user, names not held",
        300_000,
        |_| by_user.stat(b"/usr/local/bin/tool", Lookup::FOLLOW),
    );
    let _held = at.open(b"/usr/local/bin/tool", OpenFlags::empty(), 0);
    time("stat of 4 components, user, names held", 300_000, |_| {
        by_user.stat(b"/usr/local/bin/tool", Lookup::FOLLOW)
    });
    time("stat through a link, user, names held", 300_000, |_| {
        by_user.stat(b"/l/bin/tool", Lookup::FOLLOW)
    });
    time("open and close", 300_000, |_| {
        at.open(b"/usr/local/bin/tool", OpenFlags::empty(), 0)
    });
    time("create in a directory of up to 100,000", 100_000, |i| {
        at.open(format!("/big/file{i}").as_bytes(), create, 0o644)
    });
    time("stat in a directory of 100,000", 100_000, |i| {
        at.stat(format!("/big/file{i}").as_bytes(), Lookup::FOLLOW)
    });
    let big = at
        .open(b"/big", OpenFlags::DIRECTORY, 0)
        .expect("the directory");
    time("list a directory of 100,000", 10, |_| {
        let mut n = 0;
        big.readdir(0, &mut |_| {
            n += 1;
            true
        })
        .map(|()| n)
    });
    time("unlink in a directory of 100,000", 100_000, |i| {
        at.unlink(format!("/big/file{i}").as_bytes())
    });
    let file = at.open(b"/data", create, 0o644).expect("a new file");
    let mut buf = vec![7; 65_536];
    time("write of 64 KiB, new", 4_000, |i| {
        file.pwrite(&buf, u64::from(i) * 65_536)
    });
    time("write of 64 KiB, again", 4_000, |i| {
        file.pwrite(&buf, u64::from(i) * 65_536)
    });
    time("read of 64 KiB", 4_000, |i| {
        file.pread(&mut buf, u64::from(i) * 65_536)
    });
    time("read of 1 byte", 1_000_000, |i| {
        file.pread(&mut buf[..1], u64::from(i))
    });
    time("write of 1 byte", 1_000_000, |i| {
        file.pwrite(&buf[..1], u64::from(i))
    });
}
