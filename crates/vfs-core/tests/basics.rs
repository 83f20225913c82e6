//! The everyday operations through the path walk.

mod common;

use common::{Vm, contents};
use vfs_core::namei::fd;
use vfs_core::{Errno, FileType, Lookup, MemFs, MemFsOptions, MountFlags, OpenFlags, RenameFlags};

#[test]
fn a_file_lives_on_after_its_name() {
    let vm = Vm::new();
    vm.put("/f", b"content");
    let file = vm.at().open(b"/f", OpenFlags::RDWR, 0).unwrap();
    vm.at().unlink(b"/f").unwrap();
    assert_eq!(vm.at().stat(b"/f", Lookup::FOLLOW), Err(Errno::ENOENT));
    assert_eq!(contents(&file), b"content");
    assert_eq!(file.stat().unwrap().nlink, 0);
    let shown = vm.ns.absolute(file.path().unwrap(), &vm.root);
    assert_eq!((shown.bytes.as_slice(), shown.deleted), (&b"/f"[..], true));
}

#[test]
fn an_open_file_follows_a_rename_of_a_directory_above() {
    let vm = Vm::new();
    let at = vm.at();
    at.mkdir(b"/a", 0o755).unwrap();
    at.mkdir(b"/a/b", 0o755).unwrap();
    vm.put("/a/b/f", b"");
    let file = at.open(b"/a/b/f", OpenFlags::empty(), 0).unwrap();
    at.rename(b"/a", &at, b"/z", RenameFlags::empty()).unwrap();
    let path = file.path().unwrap();
    assert_eq!(vm.ns.absolute(path, &vm.root).bytes, b"/z/b/f");
    assert_eq!(at.resolve(b"/z/b/f", Lookup::empty()).unwrap(), *path);
}

#[test]
fn mounts_are_crossed_down_and_up() {
    let vm = Vm::new();
    let at = vm.at();
    at.mkdir(b"/mnt", 0o755).unwrap();
    let place = at.resolve(b"/mnt", Lookup::empty()).unwrap();
    let fs = MemFs::new(MemFsOptions::default());
    vm.ns
        .mount(&place, fs, MountFlags::empty(), "tmpfs")
        .unwrap();
    at.mkdir(b"/mnt/d", 0o755).unwrap();
    let inside = at.resolve(b"/mnt/d", Lookup::empty()).unwrap();
    assert_eq!(vm.ns.absolute(&inside, &vm.root).bytes, b"/mnt/d");
    assert_eq!(
        at.resolve(b"/mnt/d/../..", Lookup::empty()).unwrap(),
        vm.root
    );
    assert_ne!(
        at.stat(b"/mnt", Lookup::empty()).unwrap().dev,
        at.stat(b"/", Lookup::empty()).unwrap().dev
    );

    assert_eq!(at.rmdir(b"/mnt"), Err(Errno::EBUSY));
    assert_eq!(
        at.rename(b"/mnt", &at, b"/x", RenameFlags::empty()),
        Err(Errno::EBUSY)
    );
    assert_eq!(
        at.rename(b"/mnt/d", &at, b"/d", RenameFlags::empty()),
        Err(Errno::EXDEV)
    );
    let top = at.resolve(b"/mnt", Lookup::empty()).unwrap();
    assert_eq!(vm.ns.umount(&top), Err(Errno::EBUSY));
    drop(inside);
    vm.ns.umount(&top).unwrap();
    assert_eq!(at.stat(b"/mnt/d", Lookup::empty()), Err(Errno::ENOENT));
    at.rmdir(b"/mnt").unwrap();
    assert_eq!(vm.ns.mounts().len(), 1);
}

#[test]
fn a_read_only_mount_says_so_and_can_be_remounted() {
    let vm = Vm::over(MemFs::new(MemFsOptions::default()), MountFlags::empty());
    vm.put("/f", b"x");
    vm.ns.remount(&vm.root, MountFlags::RDONLY).unwrap();
    let at = vm.at();
    assert_eq!(at.mkdir(b"/d", 0o755), Err(Errno::EROFS));
    assert_eq!(at.mkdir(b"/f", 0o755), Err(Errno::EEXIST));
    assert_eq!(at.unlink(b"/f"), Err(Errno::EROFS));
    assert_eq!(
        at.open(b"/f", OpenFlags::WRONLY, 0).unwrap_err(),
        Errno::EROFS
    );
    assert_eq!(
        at.open(b"/n", OpenFlags::WRONLY | OpenFlags::CREAT, 0)
            .unwrap_err(),
        Errno::EROFS
    );
    assert_eq!(at.chmod(b"/f", 0o600, Lookup::FOLLOW), Err(Errno::EROFS));
    assert_eq!(vm.get("/f"), b"x");
    vm.ns.remount(&vm.root, MountFlags::empty()).unwrap();
    at.unlink(b"/f").unwrap();
}

#[test]
fn an_unnamed_file_can_be_named_once() {
    let vm = Vm::new();
    let at = vm.at();
    let file = at.tmpfile(b"/", OpenFlags::RDWR, 0o600).unwrap();
    file.write(b"new").unwrap();
    assert_eq!(file.stat().unwrap().nlink, 0);
    assert_eq!(vm.list("/"), [".", ".."]);
    fd::link(&file, &at, b"/named").unwrap();
    assert_eq!(vm.get("/named"), b"new");
    assert_eq!(file.stat().unwrap().nlink, 1);

    let secret = at
        .tmpfile(b"/", OpenFlags::RDWR | OpenFlags::EXCL, 0o600)
        .unwrap();
    assert_eq!(fd::link(&secret, &at, b"/other"), Err(Errno::ENOENT));
    assert_eq!(
        at.tmpfile(b"/", OpenFlags::empty(), 0o600).unwrap_err(),
        Errno::EINVAL
    );
}

#[test]
fn a_tree_deeper_than_any_stack_can_be_made_and_dropped() {
    let vm = Vm::new();
    let mut base = vm.root.clone();
    for _ in 0..100_000 {
        let at = vfs_core::At {
            base: &base,
            ..vm.at()
        };
        at.mkdir(b"d", 0o755).unwrap();
        let next = at.resolve(b"d", Lookup::empty()).unwrap();
        base = next;
    }
    assert_eq!(vm.ns.absolute(&base, &vm.root).bytes.len(), 200_000);
    drop(base);
    drop(vm);
}

#[test]
fn kinds_and_link_counts() {
    let vm = Vm::new();
    let at = vm.at();
    at.mkdir(b"/d", 0o700).unwrap();
    at.mkdir(b"/d/e", 0o700).unwrap();
    at.symlink(b"d/e", b"/s").unwrap();
    at.mknod(b"/p", FileType::Fifo, 0o644, 0).unwrap();
    let kind = |path: &[u8]| at.stat(path, Lookup::empty()).unwrap().file_type();
    assert_eq!(kind(b"/d"), FileType::Directory);
    assert_eq!(kind(b"/s"), FileType::Symlink);
    assert_eq!(kind(b"/s/"), FileType::Directory);
    assert_eq!(kind(b"/p"), FileType::Fifo);
    assert_eq!(at.stat(b"/d", Lookup::empty()).unwrap().nlink, 3);
    assert_eq!(at.readlink(b"/s").unwrap(), b"d/e");
    assert_eq!(at.rmdir(b"/d"), Err(Errno::ENOTEMPTY));
    at.rmdir(b"/s/").unwrap_err();
    at.rmdir(b"/d/e").unwrap();
    assert_eq!(at.stat(b"/d", Lookup::empty()).unwrap().nlink, 2);
}

#[test]
fn limits_are_kept_and_named() {
    use std::sync::{Arc, Mutex};
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let options = MemFsOptions {
        max_bytes: 10 * 4096,
        max_inodes: 4,
        ..MemFsOptions::default()
    };
    let events = Arc::new(move |event| log.lock().unwrap().push(event));
    let fs = MemFs::with_events(options, events);
    let vm = Vm::over(fs.clone(), MountFlags::empty());
    let file = vm
        .at()
        .open(b"/f", OpenFlags::RDWR | OpenFlags::CREAT, 0o600)
        .unwrap();
    assert_eq!(file.write(&vec![1; 100_000]).unwrap(), 10 * 4096);
    assert_eq!(file.write(b"x"), Err(Errno::ENOSPC));
    assert_eq!(fs.used_bytes(), 10 * 4096);
    fd::truncate(&file, 5000, &vm.caller).unwrap();
    assert_eq!(fs.used_bytes(), 2 * 4096);
    vm.put("/a", b"");
    vm.at()
        .link(b"/a", Lookup::empty(), &vm.at(), b"/b")
        .unwrap();
    assert_eq!(vm.at().mkdir(b"/c", 0o755), Err(Errno::ENOSPC));
    vm.at().unlink(b"/a").unwrap();
    vm.at().mkdir(b"/c", 0o755).unwrap();
    vm.at().unlink(b"/f").unwrap();
    drop(file);
    assert_eq!((fs.used_bytes(), fs.used_inodes()), (0, 3));
    let seen = seen.lock().unwrap();
    assert!(
        seen.iter()
            .any(|e| e.limit == "max_bytes" && e.refused && e.max == 40_960)
    );
    assert!(seen.iter().any(|e| e.limit == "max_bytes" && !e.refused));
    assert!(
        seen.iter()
            .any(|e| e.limit == "max_inodes" && e.refused && e.max == 4)
    );
}

#[test]
fn a_program_that_runs_is_not_written() {
    let vm = Vm::new();
    let at = vm.at();
    vm.put("/tool", b"code");
    let tool = at.resolve(b"/tool", Lookup::FOLLOW).unwrap();
    let writer = at.open(b"/tool", OpenFlags::RDWR, 0).unwrap();
    assert_eq!(tool.deny_write().err(), Some(Errno::ETXTBSY));
    drop(writer);
    let first = tool.deny_write().unwrap();
    let second = tool.deny_write().unwrap();
    drop(first);
    let open = |flags| at.open(b"/tool", flags, 0).map(drop);
    assert_eq!(open(OpenFlags::WRONLY), Err(Errno::ETXTBSY));
    assert_eq!(open(OpenFlags::TRUNC), Err(Errno::ETXTBSY));
    assert_eq!(at.truncate(b"/tool", 0), Err(Errno::ETXTBSY));
    assert_eq!(open(OpenFlags::empty()), Ok(()));
    // It can be replaced, as an upgrade does.
    vm.put("/new", b"new code");
    at.rename(b"/new", &at, b"/tool", RenameFlags::empty())
        .unwrap();
    assert_eq!(open(OpenFlags::WRONLY), Ok(()));
    drop(second);
    assert_eq!(
        at.open_path(&tool, OpenFlags::TRUNC)
            .unwrap()
            .stat()
            .unwrap()
            .size,
        0
    );
    assert!(tool.deny_write().is_ok());
}
