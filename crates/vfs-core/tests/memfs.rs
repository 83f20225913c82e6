//! The memory file system beyond what the host comparison shows.

mod common;

use common::Vm;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use vfs_core::namei::fd;
use vfs_core::{
    Errno, FileSystem, FileType, Lookup, MemFs, MemFsOptions, MountFlags, OpenFile, OpenFlags,
    RangeChange, RenameFlags, Timespec, Whence,
};

/// The next `most` entries of an open directory, moving `cookie`.
fn portion(dir: &OpenFile, cookie: &mut u64, most: usize) -> Vec<String> {
    let mut names = Vec::new();
    dir.readdir(*cookie, &mut |entry| {
        if names.len() == most {
            return false;
        }
        names.push(String::from_utf8_lossy(entry.name).into_owned());
        *cookie = entry.next;
        true
    })
    .unwrap();
    names
}

proptest! {
    /// What is in a directory all the while is listed exactly once, what never was is not, and
    /// nothing is listed twice unless it was made anew.
    #[test]
    fn a_listing_is_stable_while_the_directory_changes(
        start in prop::collection::btree_set(0u8..40, 0..30),
        steps in prop::collection::vec((1usize..5, 0u8..4, 0u8..40, 0u8..40), 0..40),
    ) {
        let vm = Vm::new();
        let at = vm.at();
        let path = |n: u8| format!("/f{n}").into_bytes();
        let mut present: BTreeSet<u8> = BTreeSet::new();
        for n in start {
            at.mknod(&path(n), FileType::Regular, 0o644, 0).unwrap();
            present.insert(n);
        }
        let mut steady = present.clone();
        let mut ever = present.clone();
        let dir = at.open(b"/", OpenFlags::DIRECTORY, 0).unwrap();
        let (mut cookie, mut seen) = (0, Vec::new());
        for (most, what, a, b) in steps {
            seen.extend(portion(&dir, &mut cookie, most));
            match what {
                0 => if at.mknod(&path(a), FileType::Regular, 0o644, 0).is_ok() {
                    present.insert(a);
                    ever.insert(a);
                },
                1 => if at.unlink(&path(a)).is_ok() {
                    present.remove(&a);
                    steady.remove(&a);
                },
                2 => if at.rename(&path(a), &at, &path(b), RenameFlags::empty()).is_ok() && a != b {
                    present.remove(&a);
                    steady.remove(&a);
                    present.insert(b);
                    ever.insert(b);
                },
                _ => {
                    // An exchange leaves both names.
                    let _ = at.rename(&path(a), &at, &path(b), RenameFlags::EXCHANGE);
                }
            }
        }
        loop {
            let more = portion(&dir, &mut cookie, 3);
            if more.is_empty() {
                break;
            }
            seen.extend(more);
        }
        let mut count: BTreeMap<String, usize> = BTreeMap::new();
        for name in seen {
            *count.entry(name).or_default() += 1;
        }
        for n in &steady {
            prop_assert_eq!(count.get(&format!("f{n}")), Some(&1));
        }
        let ever: BTreeSet<String> = ever.iter().map(|n| format!("f{n}")).collect();
        for name in count.keys().filter(|name| !name.starts_with('.')) {
            prop_assert!(ever.contains(name), "{}", name);
        }
    }

    /// Writing, cutting, punching, inserting and collapsing agree with a plain vector of bytes.
    #[test]
    fn content_agrees_with_a_vector(
        steps in prop::collection::vec((0u8..8, 0u64..50_000, 0u64..20_000), 1..40)
    ) {
        let fs = MemFs::new(MemFsOptions::default());
        let vm = Vm::over(fs.clone(), MountFlags::empty());
        let file = vm.at().open(b"/f", OpenFlags::RDWR | OpenFlags::CREAT, 0o644).unwrap();
        let mut model: Vec<u8> = Vec::new();
        for (what, offset, len) in steps {
            let (from, n) = (offset as usize, len as usize);
            let to = from + n;
            match what {
                0 | 1 => {
                    let bytes: Vec<u8> = (0..n).map(|i| (i % 255) as u8 + 1).collect();
                    prop_assert_eq!(file.pwrite(&bytes, offset), Ok(n));
                    if n > 0 {
                        model.resize(model.len().max(to), 0);
                        model[from..to].copy_from_slice(&bytes);
                    }
                }
                2 => {
                    fd::truncate(&file, offset, &vm.caller).unwrap();
                    model.resize(from, 0);
                }
                3 => {
                    let got = file.ops().change_range(RangeChange::PunchHole, offset, len);
                    prop_assert_eq!(got.is_ok(), n > 0);
                    let size = model.len();
                    model[from.min(size)..to.min(size)].fill(0);
                }
                4 => {
                    let keep_size = n % 2 == 0;
                    let got = file.ops().change_range(RangeChange::Zero { keep_size }, offset, len);
                    prop_assert_eq!(got.is_ok(), n > 0);
                    if n > 0 && !keep_size {
                        model.resize(model.len().max(to), 0);
                    }
                    let size = model.len();
                    model[from.min(size)..to.min(size)].fill(0);
                }
                5 | 6 => {
                    let (from, n) = (from / 4096 * 4096, (n / 4096 + 1) * 4096);
                    let change = if what == 5 { RangeChange::Collapse } else { RangeChange::Insert };
                    let fits = if what == 5 { from + n < model.len() } else { from < model.len() };
                    let got = file.ops().change_range(change, from as u64, n as u64);
                    prop_assert_eq!(got, if fits { Ok(()) } else { Err(Errno::EINVAL) });
                    if fits && what == 5 {
                        model.drain(from..from + n);
                    } else if fits {
                        model.splice(from..from, std::iter::repeat_n(0, n));
                    }
                }
                _ => {
                    let got = file.ops().allocate(offset, len, n % 2 == 0);
                    prop_assert_eq!(got.is_ok(), n > 0);
                    if n > 0 && n % 2 != 0 {
                        model.resize(model.len().max(to), 0);
                    }
                }
            }
            let mut all = vec![0xff; model.len() + 10];
            prop_assert_eq!(file.pread(&mut all, 0), Ok(model.len()));
            prop_assert_eq!(&all[..model.len()], &model[..]);
            let stat = file.stat().unwrap();
            prop_assert_eq!(stat.size, model.len() as u64);
            prop_assert_eq!(stat.blocks * 512, fs.used_bytes());
        }
        vm.at().unlink(b"/f").unwrap();
        drop(file);
        prop_assert_eq!(fs.used_bytes(), 0);
    }
}

#[test]
fn a_sparse_file_costs_what_was_written() {
    let fs = MemFs::new(MemFsOptions::default());
    let vm = Vm::over(fs.clone(), MountFlags::empty());
    let file = vm
        .at()
        .open(b"/f", OpenFlags::RDWR | OpenFlags::CREAT, 0o644)
        .unwrap();
    file.pwrite(b"x", 1 << 50).unwrap();
    file.pwrite(b"y", 4096).unwrap();
    assert_eq!(fs.used_bytes(), 8192);
    assert_eq!(file.seek(0, Whence::Data), Ok(4096));
    assert_eq!(file.seek(4096, Whence::Hole), Ok(8192));
    assert_eq!(file.seek(8192, Whence::Data), Ok(1 << 50));
    assert_eq!(file.seek((1 << 50) + 1, Whence::Data), Err(Errno::ENXIO));
    assert_eq!(file.pwrite(b"z", i64::MAX as u64), Err(Errno::EFBIG));
    assert_eq!(file.pwrite(b"zz", i64::MAX as u64 - 1), Ok(1));
}

#[test]
fn access_times_follow_relatime() {
    let vm = Vm::new();
    let at = vm.at();
    vm.put("/f", b"x");
    let atime = || at.stat(b"/f", Lookup::FOLLOW).unwrap().atime;
    let set = |atime: i64, mtime: i64| {
        let time = |sec| vfs_core::TimeSet::At(Timespec { sec, nsec: 0 });
        at.utimens(b"/f", time(atime), time(mtime), Lookup::FOLLOW)
            .unwrap();
    };
    // Setting times moves ctime to now, which every older access time is before.
    set(10, 5);
    vm.get("/f");
    let now = Timespec::now();
    assert!(atime().sec >= now.sec - 10);
    // An access time after both and younger than a day stays.
    set(now.sec + 1000, 5);
    vm.get("/f");
    assert_eq!(atime().sec, now.sec + 1000);
    set(10, 20);
    at.open(b"/f", OpenFlags::NOATIME, 0)
        .unwrap()
        .read(&mut [0])
        .unwrap();
    assert_eq!(atime().sec, 10);
    vm.ns.remount(&vm.root, MountFlags::NOATIME).unwrap();
    vm.get("/f");
    assert_eq!(atime().sec, 10);
}

#[test]
fn threads_leave_a_whole_tree() {
    let fs = MemFs::new(MemFsOptions::default());
    let vm = Vm::over(fs.clone(), MountFlags::empty());
    for dir in ["/a", "/b", "/a/c"] {
        vm.at().mkdir(dir.as_bytes(), 0o777).unwrap();
    }
    std::thread::scope(|scope| {
        for seed in 0..4u64 {
            let vm = &vm;
            scope.spawn(move || {
                let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
                let mut next = move |n: u64| {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    state % n
                };
                let at = vm.at();
                let mut held = Vec::new();
                for _ in 0..4000 {
                    let mut path = || {
                        let mut path = Vec::new();
                        for _ in 0..=next(2) {
                            path.push(b'/');
                            path.push(b"abcd"[next(4) as usize]);
                        }
                        path
                    };
                    let (p, q) = (path(), path());
                    // Most fail, as another thread was there first; all that counts is the tree.
                    match next(9) {
                        0 => drop(at.mkdir(&p, 0o777)),
                        1 => drop(at.unlink(&p)),
                        2 => drop(at.rmdir(&p)),
                        3 => drop(at.rename(&p, &at, &q, RenameFlags::empty())),
                        4 => drop(at.rename(&p, &at, &q, RenameFlags::EXCHANGE)),
                        5 => drop(at.link(&p, Lookup::empty(), &at, &q)),
                        6 => drop(at.symlink(&q, &p)),
                        7 => held.extend(at.open(&p, OpenFlags::CREAT | OpenFlags::RDWR, 0o666)),
                        _ => held.extend(at.open(&p, OpenFlags::empty(), 0)),
                    }
                    if held.len() > 8 {
                        held.swap_remove(next(8) as usize);
                    }
                    if let Some(file) = held.last() {
                        vm.ns.absolute(file.path().unwrap(), &vm.root);
                        let _ = file.write(b"x");
                    }
                }
            });
        }
    });
    // Every directory counts its children right, and every inode is counted.
    let at = vm.at();
    let mut inodes = BTreeMap::new();
    let mut todo = vec![String::new()];
    while let Some(dir) = todo.pop() {
        let shown = if dir.is_empty() { "/" } else { &dir };
        let stat = at.stat(shown.as_bytes(), Lookup::empty()).unwrap();
        let mut dirs = 0;
        for name in vm.list(shown).into_iter().skip(2) {
            let path = format!("{dir}/{name}");
            let stat = at.stat(path.as_bytes(), Lookup::empty()).unwrap();
            let names: &mut (u32, u32) = inodes.entry(stat.ino).or_insert((stat.nlink, 0));
            names.1 += 1;
            if stat.file_type() == FileType::Directory {
                dirs += 1;
                *names = (1, 1);
                todo.push(path);
            }
        }
        assert_eq!(stat.nlink, 2 + dirs, "{shown}");
    }
    assert!(inodes.values().all(|(nlink, names)| nlink == names));
    let links: u32 = inodes.values().map(|(_, names)| names).sum();
    assert_eq!(fs.used_inodes(), u64::from(links) + 1);
    assert_eq!(
        fs.statfs().unwrap().files,
        fs.statfs().unwrap().ffree + u64::from(links) + 1
    );
}
