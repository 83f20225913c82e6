//! What a guest sees of an overlay, case by case.

mod machine;

use machine::{Layers, Machine, memory, read_all, small_memory, write_all};
use std::collections::BTreeSet;
use std::sync::Arc;
use vfs_core::namei::fd;
use vfs_core::statictree::StaticFs;
use vfs_core::{
    Caller, Errno, FileSystem, FileType, Inode, Lookup, OpenFlags, RenameFlags, SetAttr, TimeSet,
    Timespec, Whence,
};
use vfs_overlay::{Marks, OVERLAYFS_MAGIC, OverlayFs, OverlayOptions};

/// A small lower tree.
fn tree(m: &Machine) -> vfs_core::Result<()> {
    m.mkdir("d")?;
    m.mkdir("d/e")?;
    m.write("d/a", "from below")?;
    m.write("d/e/deep", "deep")?;
    m.write("f", "file")?;
    m.symlink("d/a", "s")
}

#[test]
fn a_removed_lower_directory_made_again_is_empty() {
    let m = Layers::new(&[tree]).machine();
    m.remove_all("d").unwrap();
    assert_eq!(m.stat("d"), Err(Errno::ENOENT));
    m.mkdir("d").unwrap();
    assert!(m.ls("d").is_empty());
    m.mkdir("d/e").unwrap();
    assert!(m.ls("d/e").is_empty());
    m.write("d/a", "new").unwrap();
    assert_eq!(m.read("d/a").unwrap(), "new");
    m.unlink("d/a").unwrap();
    assert_eq!(m.stat("d/a"), Err(Errno::ENOENT));
}

#[test]
fn names_that_look_like_whiteouts_are_names() {
    let layers = Layers::new(&[tree]);
    let m = layers.machine();
    m.write(".wh.f", "x").unwrap();
    m.mkdir(".wh..wh..opq").unwrap();
    m.mknod("d/dev", FileType::CharDevice, 0).unwrap();
    let opaque = b"trusted.overlay.opaque";
    m.at()
        .setxattr(b"d", opaque, b"y", false, false, Lookup::FOLLOW)
        .unwrap();
    assert_eq!(m.ls("."), [".wh..wh..opq", ".wh.f", "d", "f", "s"]);
    assert_eq!(m.ls("d"), ["a", "dev", "e"]);
    assert_eq!(m.at().getxattr(b"d", opaque, Lookup::FOLLOW).unwrap(), b"y");
    let dev = m.stat("d/dev").unwrap();
    assert_eq!((dev.file_type(), dev.rdev), (FileType::CharDevice, 0));
}

#[test]
fn lower_directories_are_renamed_whole() {
    let layers = Layers::new(&[tree, |m| {
        m.mkdir("d")?;
        m.write("d/second", "2")
    }]);
    let m = layers.machine();
    let ino = m.ino("d/e/deep");
    m.rename("d", "moved").unwrap();
    assert_eq!(m.stat("d"), Err(Errno::ENOENT));
    assert_eq!(m.ls("moved"), ["a", "e", "second"]);
    assert_eq!(m.read("moved/e/deep").unwrap(), "deep");
    assert_eq!(m.ino("moved/e/deep"), ino);
    // Nothing below the directory itself was copied.
    assert_eq!(layers.upper.used_inodes(), 2);
    // A new directory of the old name has nothing of the old one.
    m.mkdir("d").unwrap();
    assert!(m.ls("d").is_empty());
    // Moved on, changed, and moved back over it.
    m.rename("moved/e", "e2").unwrap();
    m.append("e2/deep", "er").unwrap();
    m.rename("e2", "moved/e").unwrap();
    m.rename("moved", "d").unwrap();
    assert_eq!(m.read("d/e/deep").unwrap(), "deeper");
    assert_eq!(m.ino("d/e/deep"), ino);
    assert_eq!(m.ls("d"), ["a", "e", "second"]);
    assert_eq!(m.rename("d", "d/e/x"), Err(Errno::EINVAL));
}

#[test]
fn lower_directories_are_exchanged() {
    let m = Layers::new(&[tree]).machine();
    m.exchange("d/e", "f").unwrap();
    assert_eq!(m.ls("f"), ["deep"]);
    assert_eq!(m.read("d/e").unwrap(), "file");
    m.exchange("f", "d").unwrap();
    assert_eq!(m.ls("d"), ["deep"]);
    assert_eq!(m.ls("f"), ["a", "e"]);
}

#[test]
fn copy_up_keeps_everything_but_ctime() {
    let layers = Layers::new(&[|m| {
        m.write("f", "content")?;
        m.chmod("f", 0o4751)?;
        m.at().chown(b"f", Some(7), Some(8), Lookup::FOLLOW)?;
        m.chmod("f", 0o4751)?;
        m.at()
            .setxattr(b"f", b"user.x", b"value", false, false, Lookup::FOLLOW)?;
        let (a, b) = (
            Timespec {
                sec: -5,
                nsec: 999_999_999,
            },
            Timespec { sec: 7, nsec: 1 },
        );
        m.at()
            .utimens(b"f", TimeSet::At(a), TimeSet::At(b), Lookup::FOLLOW)?;
        m.symlink("gone", "s")?;
        m.at().chown(b"s", Some(3), Some(4), Lookup::empty())
    }]);
    let m = layers.machine();
    let before = m.stat("f").unwrap();
    m.at()
        .setxattr(b"f", b"user.y", b"", false, false, Lookup::FOLLOW)
        .unwrap();
    let after = m.stat("f").unwrap();
    assert!(after.ctime > before.ctime);
    let same = vfs_core::Stat {
        ctime: before.ctime,
        btime: before.btime,
        ..after
    };
    assert_eq!(same, before);
    assert_eq!(m.read("f").unwrap(), "content");
    assert_eq!(
        m.at().getxattr(b"f", b"user.x", Lookup::FOLLOW).unwrap(),
        b"value"
    );
    m.link("s", "s2").unwrap();
    let s = m.stat("s2").unwrap();
    assert_eq!((s.uid, s.gid, s.nlink), (3, 4, 2));
    assert_eq!(m.at().readlink(b"s").unwrap(), b"gone");
}

#[test]
fn sparse_files_stay_sparse_and_cut_data_is_not_copied() {
    let mut layers = Layers::new(&[|m| {
        m.write("sparse", "head")?;
        m.at().truncate(b"sparse", 1 << 32)?;
        m.write("big", vec![b'x'; 1 << 20])
    }]);
    layers.upper = small_memory(64 << 10);
    let m = layers.machine();
    m.append("sparse", "tail").unwrap();
    let file = m.open("sparse", OpenFlags::empty()).unwrap();
    assert_eq!(file.seek(4096, Whence::Data).unwrap(), 1 << 32);
    assert_eq!(m.stat("sparse").unwrap().size, (1 << 32) + 4);
    // Too big to copy; but cut short, it fits.
    assert_eq!(m.append("big", "y"), Err(Errno::ENOSPC));
    assert_eq!(m.stat("big").unwrap().size, 1 << 20);
    assert_eq!(m.ls("."), ["big", "sparse"]);
    m.at().truncate(b"big", 10).unwrap();
    assert_eq!(m.read("big").unwrap(), "x".repeat(10));
    m.write("big", "all new").unwrap();
    assert_eq!(m.read("big").unwrap(), "all new");
}

#[test]
fn a_failed_copy_up_leaves_the_lower_file() {
    let mut layers = Layers::new(&[|m| m.write("big", vec![b'x'; 1 << 20])]);
    layers.upper = small_memory(128 << 10);
    let m = layers.machine();
    let ino = m.ino("big");
    for _ in 0..3 {
        assert_eq!(m.append("big", "y"), Err(Errno::ENOSPC));
        assert_eq!(layers.upper.used_inodes(), 1);
    }
    assert_eq!((m.ino("big"), m.read("big").unwrap().len()), (ino, 1 << 20));
    m.unlink("big").unwrap();
    assert!(m.ls(".").is_empty());
}

#[test]
fn an_unlinked_lower_file_lives_while_it_is_open() {
    let layers = Layers::new(&[tree]);
    let m = layers.machine();
    let reader = m.open("d/a", OpenFlags::empty()).unwrap();
    let writer = m.open("f", OpenFlags::RDWR).unwrap();
    m.unlink("d/a").unwrap();
    m.unlink("f").unwrap();
    assert_eq!(read_all(&reader).unwrap(), "from below");
    assert_eq!(
        (reader.stat().unwrap().nlink, writer.stat().unwrap().nlink),
        (0, 0)
    );
    write_all(&writer, b"FI").unwrap();
    assert_eq!(read_all(&writer).unwrap(), "FIle");
    // Copied up although it has no name.
    let caller = Caller::host();
    fd::chmod(&reader, 0o600, &caller).unwrap();
    assert_eq!(reader.stat().unwrap().mode & 0o777, 0o600);
    assert_eq!(
        (reader.stat().unwrap().nlink, read_all(&reader).unwrap()),
        (0, "from below".into())
    );
    m.write("d/a", "other").unwrap();
    assert_eq!(read_all(&reader).unwrap(), "from below");
    assert_eq!(m.ls("."), ["d", "s"]);
    let used = layers.upper.used_inodes();
    drop((reader, writer));
    assert_eq!(layers.upper.used_inodes(), used - 2);
}

#[test]
fn an_open_reader_sees_what_is_written() {
    let m = Layers::new(&[tree]).machine();
    let reader = m.open("f", OpenFlags::empty()).unwrap();
    let mut buf = [0; 4];
    assert_eq!(reader.read(&mut buf).unwrap(), 4);
    m.append("f", " more").unwrap();
    assert_eq!(reader.seek(0, Whence::End).unwrap(), 9);
    assert_eq!(read_all(&reader).unwrap(), "file more");
    m.write("f", "cut").unwrap();
    assert_eq!(read_all(&reader).unwrap(), "cut");
}

fn linked(m: &Machine) -> vfs_core::Result<()> {
    m.mkdir("d")?;
    m.write("a", "one")?;
    m.link("a", "d/b")?;
    m.link("a", "c")
}

#[test]
fn hard_links_of_a_lower_file_stay_together() {
    let layers = Layers::new(&[linked]);
    let m = layers.machine();
    let ino = m.ino("a");
    m.append("d/b", " two").unwrap();
    for name in ["a", "d/b", "c"] {
        assert_eq!(m.read(name).unwrap(), "one two");
        let stat = m.stat(name).unwrap();
        assert_eq!((stat.ino, stat.nlink), (ino, 3), "{name}");
    }
    m.unlink("d/b").unwrap();
    assert_eq!(m.stat("a").unwrap().nlink, 2);
    // The copy has no proper name in the upper layer now, but it can still get one.
    m.link("c", "d/e").unwrap();
    m.rename("a", "d/a").unwrap();
    m.append("c", " three").unwrap();
    for name in ["c", "d/a", "d/e"] {
        assert_eq!(m.read(name).unwrap(), "one two three");
        let stat = m.stat(name).unwrap();
        assert_eq!((stat.ino, stat.nlink), (ino, 3), "{name}");
    }
    assert_eq!(
        (m.ls("."), m.ls("d")),
        (vec!["c".into(), "d".into()], vec!["a".into(), "e".into()])
    );
    m.remove_all("d").unwrap();
    assert_eq!(
        (m.stat("c").unwrap().nlink, m.read("c").unwrap()),
        (1, "one two three".into())
    );
    m.unlink("c").unwrap();
    // Not even a spare name is left.
    assert_eq!(layers.upper.used_inodes(), 1);
}

#[test]
fn a_spare_name_makes_way_for_the_guest() {
    let m = Layers::new(&[linked]).machine();
    m.append("d/b", "!").unwrap();
    m.rename("d", "gone").unwrap();
    m.unlink("gone/b").unwrap();
    assert_eq!(m.ls("."), ["a", "c", "gone"]);
    assert_eq!(m.stat(".parked-0"), Err(Errno::ENOENT));
    m.write(".parked-0", "mine").unwrap();
    m.mkdir(".parked-1").unwrap();
    m.rename("gone", ".parked-2").unwrap();
    assert_eq!(m.ls("."), [".parked-0", ".parked-1", ".parked-2", "a", "c"]);
    assert_eq!(m.read(".parked-0").unwrap(), "mine");
    m.link("c", "new").unwrap();
    assert_eq!(m.read("new").unwrap(), "one!");
    assert_eq!(
        m.ls("."),
        [".parked-0", ".parked-1", ".parked-2", "a", "c", "new"]
    );
}

#[test]
fn listings_give_each_lasting_entry_once() {
    let layers = Layers::new(&[
        |m| (0..200).try_for_each(|i| m.write(&format!("l{i}"), "")),
        |m| (100..300).try_for_each(|i| m.write(&format!("l{i}"), "")),
    ]);
    let m = layers.machine();
    for i in 0..200 {
        m.write(&format!("u{i}"), "").unwrap();
    }
    let dir = m.open(".", OpenFlags::DIRECTORY).unwrap();
    let (mut seen, mut cookie, mut step) = (Vec::new(), 0, 0);
    loop {
        let before = seen.len();
        let mut room = 7;
        dir.readdir(cookie, &mut |entry| {
            if room == 0 {
                return false;
            }
            room -= 1;
            cookie = entry.next;
            seen.push(String::from_utf8(entry.name.to_vec()).unwrap());
            true
        })
        .unwrap();
        if seen.len() == before {
            break;
        }
        // Copy up, remove, remove and make again, on both sides of the place of the listing.
        m.append(&format!("l{}", (step * 37) % 300), "x")
            .unwrap_or_default();
        let _ = m.unlink(&format!("l{}", (step * 3 + 1) % 300));
        let _ = m.unlink(&format!("u{}", (step * 3 + 1) % 200));
        let again = format!("l{}", (step * 5) % 300);
        if m.unlink(&again).is_ok() {
            m.write(&again, "").unwrap();
        }
        step += 1;
    }
    let distinct: BTreeSet<_> = seen.iter().cloned().collect();
    assert_eq!(distinct.len(), seen.len(), "an entry came twice");
    for name in m.ls(".") {
        assert!(
            distinct.contains(&name),
            "{name} was there all the time and is missing"
        );
    }
}

#[test]
fn a_listing_of_thousands_is_removed_while_it_is_read() {
    let m = Layers::new(&[|m| (0..3000).try_for_each(|i| m.write(&format!("f{i}"), ""))]).machine();
    (0..2000).for_each(|i| m.write(&format!("g{i}"), "").unwrap());
    assert_eq!(m.list(".").unwrap().len(), 5000);
    let dir = m.open(".", OpenFlags::DIRECTORY).unwrap();
    let (mut cookie, mut count) = (0, 0);
    loop {
        let mut names = Vec::new();
        dir.readdir(cookie, &mut |entry| {
            if names.len() == 50 {
                return false;
            }
            cookie = entry.next;
            names.push(String::from_utf8(entry.name.to_vec()).unwrap());
            true
        })
        .unwrap();
        if names.is_empty() {
            break;
        }
        for name in names.iter().filter(|name| !matches!(&***name, "." | "..")) {
            m.unlink(name).unwrap();
            count += 1;
        }
    }
    assert_eq!(count, 5000);
    assert!(m.ls(".").is_empty());
}

#[test]
fn without_an_upper_layer_everything_is_read_only() {
    let layers = Layers::new(&[tree]);
    let fs = OverlayFs::new(None, layers.lowers.clone(), OverlayOptions::default()).unwrap();
    assert!(fs.read_only());
    let m = Machine::new(fs.clone());
    assert_eq!(m.read("d/a").unwrap(), "from below");
    assert_eq!(m.write("new", ""), Err(Errno::EROFS));
    assert_eq!(m.append("f", ""), Err(Errno::EROFS));
    assert_eq!(m.mkdir("d/new"), Err(Errno::EROFS));
    assert_eq!(m.mkdir("d/e"), Err(Errno::EEXIST));
    assert_eq!(m.unlink("f"), Err(Errno::EROFS));
    assert_eq!(m.rmdir("d/e"), Err(Errno::EROFS));
    assert_eq!(m.rename("f", "g"), Err(Errno::EROFS));
    assert_eq!(m.link("f", "g"), Err(Errno::EROFS));
    assert_eq!(m.symlink("f", "g"), Err(Errno::EROFS));
    assert_eq!(m.chmod("f", 0o600), Err(Errno::EROFS));
    // The inodes refuse by themselves too.
    let root = fs.root();
    let file = root.lookup(b"f").unwrap();
    assert_eq!(file.setattr(&SetAttr::default()), Err(Errno::EROFS));
    assert_eq!(root.unlink(b"f"), Err(Errno::EROFS));
    assert_eq!(root.rmdir(b"d"), Err(Errno::EROFS));
    assert_eq!(
        root.rename(b"f", &root, b"g", RenameFlags::empty()),
        Err(Errno::EROFS)
    );
    assert_eq!(root.link(b"g", &file), Err(Errno::EROFS));
    assert_eq!(
        file.setxattr(b"user.x", b"", false, false),
        Err(Errno::EROFS)
    );
    assert_eq!(file.removexattr(b"user.x"), Err(Errno::EROFS));
    assert!(
        file.clone()
            .open(OpenFlags::RDWR, &Caller::host())
            .is_err_and(|e| e == Errno::EROFS)
    );
}

#[test]
fn set_group_id_and_sticky_lower_directories() {
    let m = Layers::new(&[|m| {
        m.mkdir("team")?;
        m.at().chown(b"team", Some(1), Some(50), Lookup::FOLLOW)?;
        m.chmod("team", 0o2777)?;
        m.mkdir("tmp")?;
        m.chmod("tmp", 0o1777)?;
        m.write("tmp/roots", "")
    }])
    .machine();
    let user = m.as_user(1000, 1000);
    user.write("team/file", "").unwrap();
    user.mkdir("team/dir").unwrap();
    assert_eq!(m.stat("team/file").unwrap().gid, 50);
    let dir = m.stat("team/dir").unwrap();
    assert_eq!((dir.gid, dir.mode & 0o7777), (50, 0o2755));
    assert_eq!(user.unlink("tmp/roots"), Err(Errno::EPERM));
    assert_eq!(user.rename("tmp/roots", "tmp/mine"), Err(Errno::EPERM));
    user.write("tmp/mine", "").unwrap();
    user.unlink("tmp/mine").unwrap();
}

#[test]
fn one_device_and_distinct_lasting_inode_numbers() {
    let layers = Layers::new(&[|m| m.write("x", ""), |m| m.write("y", "")]);
    let m = layers.machine();
    m.write("z", "").unwrap();
    let stats = ["x", "y", "z", "."].map(|name| m.stat(name).unwrap());
    let inos: BTreeSet<u64> = stats.iter().map(|s| s.ino).collect();
    assert_eq!(inos.len(), 4);
    assert!(stats.iter().all(|s| s.dev == stats[0].dev));
    m.append("x", "1").unwrap();
    m.rename("x", "w").unwrap();
    assert_eq!(m.ino("w"), stats[0].ino);
    let other = layers.machine();
    assert_ne!(other.stat(".").unwrap().dev, stats[0].dev);
}

#[test]
fn totals_are_those_of_the_upper_layer() {
    let layers = Layers::new(&[tree]);
    let fs = layers.overlay(Marks::default());
    let (ours, upper) = (fs.statfs().unwrap(), layers.upper.statfs().unwrap());
    assert_eq!(
        (ours.magic, ours.blocks, ours.bfree),
        (OVERLAYFS_MAGIC, upper.blocks, upper.bfree)
    );
    assert_eq!(fs.fs_type(), "overlay");
    assert!(!fs.read_only() && !fs.volatile());
}

#[test]
fn content_is_lent_until_it_is_copied_up() {
    let lower = StaticFs::builder()
        .file("/bin/tool", 0o755, "program")
        .build()
        .unwrap();
    let fs = OverlayFs::new(Some(memory()), vec![lower], OverlayOptions::default()).unwrap();
    let m = Machine::new(fs.clone());
    let inode = fs.root().lookup(b"bin").unwrap().lookup(b"tool").unwrap();
    let mut seen = Vec::new();
    inode
        .content()
        .expect("lent")
        .with(&mut |bytes| seen.extend_from_slice(bytes))
        .unwrap();
    assert_eq!(seen, b"program");
    m.append("bin/tool", "med").unwrap();
    assert!(inode.content_id().is_none());
    assert_eq!(m.read("bin/tool").unwrap(), "programmed");
    assert_eq!(m.stat("bin/tool").unwrap().mode & 0o7777, 0o755);
}

#[test]
fn a_temporary_file_gets_a_name_in_a_lower_directory() {
    let m = Layers::new(&[tree]).machine();
    let file = m.at().tmpfile(b"d/e", OpenFlags::RDWR, 0o600).unwrap();
    write_all(&file, b"data").unwrap();
    assert_eq!(
        (m.ls("d/e"), file.stat().unwrap().nlink),
        (vec!["deep".to_owned()], 0)
    );
    fd::link(&file, &m.at(), b"d/e/named").unwrap();
    assert_eq!(m.read("d/e/named").unwrap(), "data");
    assert_eq!(m.ino("d/e/named"), file.stat().unwrap().ino);
}

#[test]
fn nothing_crosses_from_one_overlay_to_another() {
    let (a, b) = (Layers::new(&[tree]), Layers::new(&[tree]));
    let (a, b) = (
        a.overlay(Marks::default()).root(),
        b.overlay(Marks::default()).root(),
    );
    let file = a.lookup(b"f").unwrap();
    assert_eq!(b.link(b"g", &file), Err(Errno::EXDEV));
    assert_eq!(
        a.rename(b"f", &b, b"g", RenameFlags::empty()),
        Err(Errno::EXDEV)
    );
    assert_eq!(
        a.rename(b"f", &memory().root(), b"g", RenameFlags::empty()),
        Err(Errno::EXDEV)
    );
}

#[test]
fn a_removed_directory_is_dead() {
    let fs = Layers::new(&[tree]).overlay(Marks::default());
    let d = fs.root().lookup(b"d").unwrap();
    let e = d.lookup(b"e").unwrap();
    e.unlink(b"deep").unwrap();
    d.rmdir(b"e").unwrap();
    let node = vfs_core::NewNode {
        kind: FileType::Regular,
        perm: 0o644,
        uid: 0,
        gid: 0,
        rdev: 0,
    };
    assert!(
        e.create(b"x", &node)
            .is_err_and(|error| error == Errno::ENOENT)
    );
    assert!(e.lookup(b"deep").is_err_and(|error| error == Errno::ENOENT));
    assert_eq!(e.readdir(0, &mut |_| true), Err(Errno::ENOENT));
    assert_eq!(e.stat().unwrap().nlink, 0);
    let f: Arc<dyn Inode> = fs.root().lookup(b"f").unwrap();
    assert_eq!(e.link(b"x", &f), Err(Errno::ENOENT));
    assert_eq!(
        fs.root().rename(b"f", &e, b"x", RenameFlags::empty()),
        Err(Errno::ENOENT)
    );
}

#[test]
fn directories_without_end_are_let_go_of() {
    let fs = Layers::new(&[tree]).overlay(Marks::default());
    let node = vfs_core::NewNode {
        kind: FileType::Directory,
        perm: 0o755,
        uid: 0,
        gid: 0,
        rdev: 0,
    };
    let mut dir = fs.root().lookup(b"d").unwrap();
    for _ in 0..30_000 {
        dir = dir.create(b"d", &node).unwrap();
    }
    drop(fs);
    drop(dir);
}

#[test]
fn layers_are_checked() {
    let none = OverlayOptions::default;
    assert!(OverlayFs::new(None, vec![], none()).is_err_and(|e| e == Errno::EINVAL));
    let many: Vec<Arc<dyn FileSystem>> = vec![memory(); vfs_overlay::MAX_LOWERS + 1]
        .into_iter()
        .map(|fs| fs as Arc<dyn FileSystem>)
        .collect();
    assert!(OverlayFs::new(None, many, none()).is_err_and(|e| e == Errno::EINVAL));
    assert!(OverlayFs::new(Some(memory()), vec![], none()).is_ok());
}
