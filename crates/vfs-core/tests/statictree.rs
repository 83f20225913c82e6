//! Read-only trees.

mod common;

use common::Vm;
use vfs_core::statictree::{BuildError, StaticFs};
use vfs_core::{Errno, Lookup, MountFlags, OpenFlags};

#[test]
fn a_tree_is_there_and_cannot_be_written() {
    let fs = StaticFs::builder()
        .file("/etc/hostname", 0o644, "agentos\n")
        .dir("/tmp", 0o1777)
        .dir("/etc", 0o711)
        .symlink("/bin/sh", "../etc/hostname")
        .dir("home/u", 0o700)
        .owner("/home/u", 1000, 1001)
        .build()
        .unwrap();
    let vm = Vm::over(fs, MountFlags::empty());
    let at = vm.at();
    assert_eq!(vm.get("/bin/sh"), b"agentos\n");
    assert_eq!(vm.list("/"), [".", "..", "bin", "etc", "home", "tmp"]);
    let stat = |path: &[u8]| at.stat(path, Lookup::FOLLOW).unwrap();
    assert_eq!(stat(b"/etc").perm(), 0o711);
    assert_eq!((stat(b"/home/u").uid, stat(b"/home/u").gid), (1000, 1001));
    assert_eq!(stat(b"/").nlink, 6);
    assert_eq!(at.mkdir(b"/tmp/d", 0o755), Err(Errno::EROFS));
    assert_eq!(at.unlink(b"/bin/sh"), Err(Errno::EROFS));
    assert_eq!(
        at.open(b"/etc/hostname", OpenFlags::RDWR, 0).unwrap_err(),
        Errno::EROFS
    );
    let mut whole = Vec::new();
    let file = at.resolve(b"/etc/hostname", Lookup::FOLLOW).unwrap();
    file.inode()
        .content()
        .unwrap()
        .with(&mut |bytes| whole.extend_from_slice(bytes))
        .unwrap();
    assert_eq!(whole, b"agentos\n");
}

#[test]
fn a_listing_goes_on_where_it_stopped() {
    let mut builder = StaticFs::builder();
    for i in 0..10 {
        builder = builder.file(&format!("/f{i}"), 0o644, "");
    }
    let vm = Vm::over(builder.build().unwrap(), MountFlags::empty());
    let dir = vm.at().open(b"/", OpenFlags::DIRECTORY, 0).unwrap();
    let (mut cookie, mut names) = (0, Vec::new());
    loop {
        let mut took = 0;
        dir.readdir(cookie, &mut |entry| {
            if took == 3 {
                return false;
            }
            took += 1;
            cookie = entry.next;
            names.push(String::from_utf8_lossy(entry.name).into_owned());
            true
        })
        .unwrap();
        if took == 0 {
            break;
        }
    }
    assert_eq!(names.len(), 12);
    names.dedup();
    assert_eq!(names.len(), 12);
}

#[test]
fn mistakes_are_named() {
    let build = |b: vfs_core::statictree::Builder| b.build().map(drop).unwrap_err();
    let new = StaticFs::builder;
    assert_eq!(
        build(new().file("/a", 0, "").dir("/a", 0)),
        BuildError::Conflict("/a".into())
    );
    assert_eq!(
        build(new().file("/a", 0, "").dir("/a/b", 0)),
        BuildError::Conflict("/a/b".into())
    );
    assert_eq!(
        build(new().dir("/a/../b", 0)),
        BuildError::BadPath("/a/../b".into())
    );
    assert_eq!(
        build(new().file("/", 0, "")),
        BuildError::Conflict("/".into())
    );
    assert_eq!(
        build(new().symlink("/l", "")),
        BuildError::BadTarget("/l".into())
    );
    assert_eq!(
        build(new().owner("/x", 1, 1)),
        BuildError::Missing("/x".into())
    );
}
