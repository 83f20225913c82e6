//! Host directories: confinement, what the host changes meanwhile, quotas.

mod common;

use common::{Vm, contents, host};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use vfs_core::namei::fd;
use vfs_core::{
    Errno, FileType, HostFs, HostFsOptions, Lookup, MountFlags, OpenFlags, RenameFlags,
};

/// A VM with `dir` of the host at `/mnt`, in a tree of its own with a file at `/secret`.
fn vm_with(dir: &Path, options: HostFsOptions) -> Vm {
    let vm = Vm::new();
    vm.put("/secret", b"the guest's");
    vm.at().mkdir(b"/mnt", 0o755).unwrap();
    let at = vm.at().resolve(b"/mnt", Lookup::empty()).unwrap();
    let fs = HostFs::open(dir, options).unwrap();
    vm.ns.mount(&at, fs, MountFlags::empty(), "host").unwrap();
    vm
}

/// A directory with `inside` in it to be mounted and `secret` beside that.
fn place() -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let inside = dir.path().join("inside");
    std::fs::create_dir(&inside).unwrap();
    std::fs::write(dir.path().join("secret"), "the host's").unwrap();
    (dir, inside)
}

#[test]
fn links_are_text_and_lead_through_the_guests_tree() {
    let (dir, inside) = place();
    let outside = dir.path().join("secret");
    symlink(&outside, inside.join("absolute")).unwrap();
    symlink("../secret", inside.join("up")).unwrap();
    symlink("../../../../../../secret", inside.join("far")).unwrap();
    symlink("/etc", inside.join("etc")).unwrap();
    let vm = vm_with(&inside, HostFsOptions::default());
    let at = vm.at();
    // Up from the mount is the guest's root.
    for path in [
        "/mnt/up",
        "/mnt/far",
        "/mnt/../secret",
        "/mnt/x/../../secret",
    ] {
        match at.open(path.as_bytes(), OpenFlags::empty(), 0) {
            Ok(file) => assert_eq!(contents(&file), b"the guest's", "{path}"),
            Err(error) => assert_eq!((path, error), ("/mnt/x/../../secret", Errno::ENOENT)),
        }
    }
    assert_eq!(
        at.stat(b"/mnt/absolute", Lookup::FOLLOW),
        Err(Errno::ENOENT)
    );
    assert_eq!(
        at.stat(b"/mnt/etc/passwd", Lookup::FOLLOW),
        Err(Errno::ENOENT)
    );
    assert_eq!(at.readlink(b"/mnt/up").unwrap(), b"../secret");
    // Made by the guest, it is the same.
    at.symlink(outside.to_str().unwrap().as_bytes(), b"/mnt/mine")
        .unwrap();
    for path in [&b"/mnt/mine"[..], b"/mnt/mine/", b"/mnt/mine/."] {
        assert_eq!(at.stat(path, Lookup::FOLLOW), Err(Errno::ENOENT));
    }
    let flags = OpenFlags::WRONLY | OpenFlags::CREAT;
    assert_eq!(
        at.open(b"/mnt/mine", flags, 0o644).unwrap_err(),
        Errno::ENOENT
    );
    assert_eq!(std::fs::read(&outside).unwrap(), b"the host's");
}

#[test]
fn trailing_slashes_do_not_follow_out() {
    let (_dir, inside) = place();
    std::fs::write(inside.join("file"), "x").unwrap();
    symlink("file", inside.join("s")).unwrap();
    let vm = vm_with(&inside, HostFsOptions::default());
    let at = vm.at();
    let open = |flags| at.open(b"/mnt/s/", flags, 0o644).unwrap_err();
    assert_eq!(open(OpenFlags::empty()), Errno::ENOTDIR);
    assert_eq!(at.mkdir(b"/mnt/s/", 0o755), Err(Errno::EEXIST));
    assert_eq!(open(OpenFlags::CREAT | OpenFlags::WRONLY), Errno::EISDIR);
    assert_eq!(open(OpenFlags::NOFOLLOW), Errno::ENOTDIR);
    assert_eq!(at.stat(b"/mnt/s/.", Lookup::FOLLOW), Err(Errno::ENOTDIR));
}

#[test]
fn a_race_of_directory_and_link_never_leads_out() {
    let (dir, inside) = place();
    let outside = dir.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("f"), "the host's").unwrap();
    let real = inside.join("real");
    std::fs::create_dir(&real).unwrap();
    std::fs::write(real.join("f"), "inside").unwrap();
    let vm = vm_with(&inside, HostFsOptions::default());
    let stop = Arc::new(AtomicBool::new(false));
    let racer = std::thread::spawn({
        let (stop, inside, outside) = (stop.clone(), inside.clone(), outside.clone());
        move || {
            while !stop.load(Ordering::Relaxed) {
                let spot = inside.join("spot");
                symlink(&outside, inside.join("new")).unwrap();
                std::fs::rename(inside.join("new"), &spot).unwrap();
                std::fs::remove_file(&spot).unwrap();
                std::fs::rename(inside.join("real"), &spot).unwrap();
                std::fs::rename(&spot, inside.join("real")).unwrap();
            }
        }
    });
    for _ in 0..3000 {
        match vm.at().open(b"/mnt/spot/f", OpenFlags::empty(), 0) {
            Ok(file) => assert_eq!(contents(&file), b"inside"),
            Err(error) => assert_eq!(error, Errno::ENOENT),
        }
        let made = vm.at().open(
            b"/mnt/spot/made",
            OpenFlags::WRONLY | OpenFlags::CREAT,
            0o600,
        );
        assert!(made.is_ok() || made.unwrap_err() == Errno::ENOENT);
    }
    stop.store(true, Ordering::Relaxed);
    racer.join().unwrap();
    assert!(!outside.join("made").exists());
}

#[test]
fn old_descriptors_keep_old_files_and_new_ones_see_new() {
    let (_dir, inside) = place();
    std::fs::write(inside.join("f"), "old").unwrap();
    let vm = vm_with(&inside, HostFsOptions::default());
    let old = vm.at().open(b"/mnt/f", OpenFlags::empty(), 0).unwrap();
    std::fs::write(inside.join("g"), "new").unwrap();
    std::fs::rename(inside.join("g"), inside.join("f")).unwrap();
    assert_eq!(vm.get("/mnt/f"), b"new");
    assert_eq!(contents(&old), b"old");
    assert_eq!(old.stat().unwrap().nlink, 0);
    std::fs::remove_file(inside.join("f")).unwrap();
    assert_eq!(vm.at().stat(b"/mnt/f", Lookup::FOLLOW), Err(Errno::ENOENT));
    // A name that changes its kind.
    std::fs::create_dir(inside.join("f")).unwrap();
    assert_eq!(
        vm.at().stat(b"/mnt/f", Lookup::FOLLOW).unwrap().file_type(),
        FileType::Directory
    );
}

#[test]
fn what_the_guest_writes_is_on_the_host() {
    let (_dir, inside) = place();
    let vm = vm_with(&inside, HostFsOptions::default());
    let at = vm.at();
    at.mkdir(b"/mnt/d", 0o750).unwrap();
    vm.put("/mnt/d/f", b"bytes");
    at.chmod(b"/mnt/d/f", 0o4751, Lookup::FOLLOW).unwrap();
    at.symlink(b"f", b"/mnt/d/l").unwrap();
    at.link(b"/mnt/d/f", Lookup::empty(), &at, b"/mnt/hard")
        .unwrap();
    at.rename(b"/mnt/d/f", &at, b"/mnt/d/g", RenameFlags::empty())
        .unwrap();
    let file = at
        .open(b"/mnt/d/g", OpenFlags::RDWR | OpenFlags::APPEND, 0)
        .unwrap();
    file.write(b"+more").unwrap();
    let unnamed = at.tmpfile(b"/mnt", OpenFlags::RDWR, 0o640).unwrap();
    unnamed.write(b"tmp").unwrap();
    fd::link(&unnamed, &at, b"/mnt/named").unwrap();
    assert_eq!(std::fs::read(inside.join("hard")).unwrap(), b"bytes+more");
    assert_eq!(std::fs::read(inside.join("named")).unwrap(), b"tmp");
    let meta = std::fs::metadata(inside.join("d/g")).unwrap();
    // The set-user-ID bit did not arrive.
    assert_eq!(meta.permissions().mode() & 0o7777, 0o751);
    assert_eq!(
        std::fs::metadata(inside.join("d")).unwrap().mode() & 0o7777,
        0o750
    );
    assert_eq!(
        at.rename(b"/mnt/hard", &at, b"/hard", RenameFlags::empty()),
        Err(Errno::EXDEV)
    );
    at.unlink(b"/mnt/d/l").unwrap();
    at.unlink(b"/mnt/d/g").unwrap();
    at.rmdir(b"/mnt/d").unwrap();
    assert!(!inside.join("d").exists());
}

#[test]
fn a_read_only_mount_is_not_written() {
    let (_dir, inside) = place();
    std::fs::write(inside.join("f"), "x").unwrap();
    let vm = vm_with(
        &inside,
        HostFsOptions {
            read_only: true,
            ..HostFsOptions::default()
        },
    );
    let at = vm.at();
    assert_eq!(vm.get("/mnt/f"), b"x");
    for error in [
        at.mkdir(b"/mnt/d", 0o755).unwrap_err(),
        at.unlink(b"/mnt/f").unwrap_err(),
        at.open(b"/mnt/f", OpenFlags::RDWR, 0).unwrap_err(),
        at.open(b"/mnt/n", OpenFlags::WRONLY | OpenFlags::CREAT, 0o644)
            .unwrap_err(),
        at.truncate(b"/mnt/f", 0).unwrap_err(),
        at.chmod(b"/mnt/f", 0o600, Lookup::FOLLOW).unwrap_err(),
        at.rename(b"/mnt/f", &at, b"/mnt/g", RenameFlags::empty())
            .unwrap_err(),
        at.symlink(b"x", b"/mnt/l").unwrap_err(),
        at.tmpfile(b"/mnt", OpenFlags::RDWR, 0o600).unwrap_err(),
        at.setxattr(b"/mnt/f", b"user.x", b"", false, false, Lookup::FOLLOW)
            .unwrap_err(),
    ] {
        assert_eq!(error, Errno::EROFS);
    }
}

#[test]
fn the_quota_counts_what_files_grow_by() {
    let (_dir, inside) = place();
    std::fs::write(inside.join("old"), vec![1; 5000]).unwrap();
    let options = HostFsOptions {
        quota_bytes: Some(10_000),
        ..HostFsOptions::default()
    };
    let vm = vm_with(&inside, options);
    let at = vm.at();
    let file = at
        .open(b"/mnt/f", OpenFlags::RDWR | OpenFlags::CREAT, 0o644)
        .unwrap();
    assert_eq!(file.write(&[7; 20_000]).unwrap(), 10_000);
    assert_eq!(file.write(&[7; 1]), Err(Errno::EDQUOT));
    assert_eq!(file.pwrite(&[8; 100], 9_900).unwrap(), 100);
    assert_eq!(at.truncate(b"/mnt/f", 10_001), Err(Errno::EDQUOT));
    assert_eq!(file.ops().allocate(0, 20_000, false), Err(Errno::EDQUOT));
    at.truncate(b"/mnt/f", 4_000).unwrap();
    let appended = at
        .open(b"/mnt/f", OpenFlags::WRONLY | OpenFlags::APPEND, 0)
        .unwrap();
    assert_eq!(appended.write(&[9; 7_000]).unwrap(), 6_000);
    at.unlink(b"/mnt/f").unwrap();
    vm.put("/mnt/g", &[1; 10_000]);
    assert_eq!(std::fs::metadata(inside.join("g")).unwrap().len(), 10_000);
}

#[test]
fn a_fixed_owner_hides_the_hosts_numbers() {
    let (_dir, inside) = place();
    std::fs::write(inside.join("f"), "x").unwrap();
    std::fs::set_permissions(inside.join("f"), PermissionsExt::from_mode(0o600)).unwrap();
    let vm = vm_with(
        &inside,
        HostFsOptions {
            owner: Some((1000, 1001)),
            ..Default::default()
        },
    );
    let user = vm.as_user(1000, 1001);
    let stat = user.at().stat(b"/mnt/f", Lookup::FOLLOW).unwrap();
    assert_eq!((stat.uid, stat.gid), (1000, 1001));
    assert_eq!(user.get("/mnt/f"), b"x");
    user.put("/mnt/new", b"y");
    let host_uid = std::fs::metadata(&inside).unwrap().uid();
    assert_eq!(
        std::fs::metadata(inside.join("new")).unwrap().uid(),
        host_uid
    );
    let chown = |uid| vm.at().chown(b"/mnt/f", Some(uid), None, Lookup::FOLLOW);
    assert_eq!((chown(1000), chown(0)), (Ok(()), Err(Errno::EPERM)));
    let other = vm.as_user(7, 7);
    assert_eq!(
        other
            .at()
            .open(b"/mnt/f", OpenFlags::empty(), 0)
            .unwrap_err(),
        Errno::EACCES
    );
}

#[test]
fn devices_and_sockets_of_the_host_stay_shut() {
    let (_dir, inside) = place();
    let _listener = std::os::unix::net::UnixListener::bind(inside.join("socket")).unwrap();
    let vm = vm_with(&inside, HostFsOptions::default());
    let open = |path: &[u8]| vm.at().open(path, OpenFlags::RDWR, 0).unwrap_err();
    assert_eq!(open(b"/mnt/socket"), Errno::ENXIO);
    assert_eq!(
        vm.at().mknod(b"/mnt/n", FileType::CharDevice, 0o666, 0x103),
        Err(Errno::EPERM)
    );
    if host::available() {
        let null = inside.join("null");
        host::mknod(
            null.to_str().unwrap().as_bytes(),
            FileType::CharDevice,
            0o666,
            0x103,
        )
        .unwrap();
        assert_eq!(open(b"/mnt/null"), Errno::EACCES);
    }
}

#[test]
fn a_large_directory_is_listed_once_whatever_happens_to_it() {
    let (_dir, inside) = place();
    for i in 0..5000 {
        std::fs::write(inside.join(format!("keep{i}")), "").unwrap();
    }
    let vm = vm_with(&inside, HostFsOptions::default());
    let dir = vm.at().open(b"/mnt", OpenFlags::DIRECTORY, 0).unwrap();
    let (mut cookie, mut names, mut round) = (0, Vec::new(), 0);
    loop {
        let mut took = 0;
        dir.readdir(cookie, &mut |entry| {
            assert!(entry.next > 0);
            if took == 7 {
                return false;
            }
            took += 1;
            cookie = entry.next;
            names.push(entry.name.to_vec());
            true
        })
        .unwrap();
        if took == 0 {
            break;
        }
        std::fs::write(inside.join(format!("more{round}")), "").unwrap();
        round += 1;
    }
    names.retain(|name| name.starts_with(b"keep"));
    assert_eq!(names.len(), 5000);
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 5000);
}

#[test]
fn errors_and_paths_do_not_tell_where_the_directory_is() {
    let (dir, inside) = place();
    std::fs::write(inside.join("f"), "").unwrap();
    let vm = vm_with(&inside, HostFsOptions::default());
    let at = vm.at();
    let secret = dir.path().file_name().unwrap().to_str().unwrap().to_owned();
    let mut said = vec![
        format!(
            "{:?}",
            at.open(b"/mnt/none", OpenFlags::empty(), 0).unwrap_err()
        ),
        format!(
            "{}",
            at.open(b"/mnt/f/x", OpenFlags::empty(), 0).unwrap_err()
        ),
        format!("{:?}", vm.ns),
    ];
    let file = at.open(b"/mnt/f", OpenFlags::empty(), 0).unwrap();
    std::fs::remove_file(inside.join("f")).unwrap();
    said.push(String::from_utf8(vm.ns.absolute(file.path().unwrap(), &vm.root).bytes).unwrap());
    said.extend(
        HostFs::open(&dir.path().join("no"), HostFsOptions::default())
            .err()
            .map(|e| e.to_string()),
    );
    for text in said {
        assert!(!text.contains(&secret), "{text}");
    }
}
