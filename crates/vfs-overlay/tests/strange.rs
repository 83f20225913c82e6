//! Layers with numbers, names and errors that other file systems have.

mod machine;

use machine::{Machine, memory};
use std::any::Any;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use vfs_core::{
    Caller, DirEntry, Errno, FileOps, FileSystem, FileType, Inode, InodeRef, OpenFlags, Result,
    Stat, StatFs, Timespec,
};
use vfs_overlay::{OverlayFs, OverlayOptions};

/// A directory of empty files whose inode numbers and cookies use all 64 bits.
struct Hashed {
    calls: AtomicUsize,
    names: u64,
}

struct Entry {
    fs: Arc<Hashed>,
    /// `None` for the root.
    number: Option<u64>,
}

/// Spreads numbers over all bits, in rising order.
fn spread(number: u64) -> u64 {
    (number + 1) << 57 | 0x55
}

impl FileSystem for Hashed {
    fn root(&self) -> InodeRef {
        Arc::new(Entry {
            fs: Arc::new(Hashed {
                calls: AtomicUsize::new(0),
                names: self.names,
            }),
            number: None,
        })
    }

    fn fs_type(&self) -> &'static str {
        "hashed"
    }

    fn statfs(&self) -> Result<StatFs> {
        Err(Errno::ENOSYS)
    }
}

impl Inode for Entry {
    fn stat(&self) -> Result<Stat> {
        let time = Timespec::default();
        Ok(Stat {
            dev: 1,
            ino: self.number.map_or(u64::MAX, spread),
            mode: self.kind().mode_bits() | 0o755,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            size: 0,
            blocks: 0,
            atime: time,
            mtime: time,
            ctime: time,
            btime: time,
        })
    }

    fn kind(&self) -> FileType {
        if self.number.is_some() {
            FileType::Regular
        } else {
            FileType::Directory
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn lookup(&self, name: &[u8]) -> Result<InodeRef> {
        self.fs.calls.fetch_add(1, Ordering::Relaxed);
        if name == b"broken" {
            return Err(Errno::EIO);
        }
        let name = std::str::from_utf8(name).map_err(|_| Errno::ENOENT)?;
        match name.parse::<u64>() {
            Ok(number) if number < self.fs.names => Ok(Arc::new(Entry {
                fs: self.fs.clone(),
                number: Some(number),
            })),
            _ => Err(Errno::ENOENT),
        }
    }

    fn readdir(&self, cookie: u64, sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        for number in (0..self.fs.names).filter(|n| spread(*n) > cookie) {
            let name = number.to_string();
            let (ino, next) = (spread(number), spread(number));
            if !sink(DirEntry {
                name: name.as_bytes(),
                ino,
                kind: FileType::Regular,
                next,
            }) {
                break;
            }
        }
        Ok(())
    }

    fn open(self: Arc<Self>, _flags: OpenFlags, _caller: &Caller) -> Result<Arc<dyn FileOps>> {
        Err(Errno::EIO)
    }
}

fn overlay() -> Machine {
    let lower = Arc::new(Hashed {
        calls: AtomicUsize::new(0),
        names: 60,
    });
    Machine::new(OverlayFs::new(Some(memory()), vec![lower], OverlayOptions::default()).unwrap())
}

#[test]
fn large_numbers_are_made_to_fit() {
    let m = overlay();
    m.write("new", "").unwrap();
    let dir = m.open(".", OpenFlags::DIRECTORY).unwrap();
    let (mut names, mut inos, mut cookies, mut at) =
        (BTreeSet::new(), BTreeSet::new(), BTreeSet::new(), 0);
    loop {
        let before = names.len();
        dir.readdir(at, &mut |entry| {
            if at != 0 && names.len() > before {
                return false;
            }
            assert!(names.insert(entry.name.to_vec()), "{:?} twice", entry.name);
            inos.insert(entry.ino);
            cookies.insert(entry.next);
            at = entry.next;
            names.len() == before
        })
        .unwrap();
        if names.len() == before {
            break;
        }
    }
    assert_eq!((names.len(), cookies.len()), (63, 63));
    // The root is `.` and `..`.
    assert_eq!(inos.len(), 62);
    assert_eq!(m.ino("17"), m.ino("17"));
    m.chmod("17", 0o600).unwrap();
    assert!(inos.contains(&m.ino("17")));
}

#[test]
fn a_wrong_cookie_is_an_error() {
    let fs = OverlayFs::new(Some(memory()), vec![], OverlayOptions::default()).unwrap();
    for cookie in [1, 2, u64::MAX, 63 << 56, 62 << 56 | 7] {
        let result = fs.root().readdir(cookie, &mut |_| true);
        assert!(
            matches!(result, Ok(()) | Err(Errno::EINVAL)),
            "{cookie}: {result:?}"
        );
    }
}

#[test]
fn errors_of_a_layer_come_through() {
    let m = overlay();
    assert_eq!(m.stat("broken"), Err(Errno::EIO));
    assert_eq!(m.write("broken", ""), Err(Errno::EIO));
    assert_eq!(m.rename("1", "broken"), Err(Errno::EIO));
    // Empty, so nothing has to be read for it.
    assert_eq!(m.append("2", "x"), Ok(()));
    assert_eq!(m.read("3"), Err(Errno::EIO));
    assert_eq!(m.read("2").unwrap(), "x");
}

#[test]
fn names_that_exist_are_looked_up_once() {
    let lower = Arc::new(Entry {
        fs: Arc::new(Hashed {
            calls: AtomicUsize::new(0),
            names: 60,
        }),
        number: None,
    });
    struct Rooted(Arc<Entry>);
    impl FileSystem for Rooted {
        fn root(&self) -> InodeRef {
            self.0.clone()
        }
        fn fs_type(&self) -> &'static str {
            "rooted"
        }
        fn statfs(&self) -> Result<StatFs> {
            Err(Errno::ENOSYS)
        }
    }
    let layers: Vec<Arc<dyn FileSystem>> = vec![Arc::new(Rooted(lower.clone()))];
    let fs = OverlayFs::new(Some(memory()), layers, OverlayOptions::default()).unwrap();
    assert_eq!(
        lower.fs.calls.load(Ordering::Relaxed),
        0,
        "construction looks at roots only"
    );
    for _ in 0..100 {
        fs.root().lookup(b"5").unwrap();
    }
    assert_eq!(lower.fs.calls.load(Ordering::Relaxed), 1);
}
