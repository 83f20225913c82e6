//! Compiled code: found again, never trusted when it should not be, and never needed.

use driver_wasm::{CacheDirError, DiskCache, Engine, EntryError, Found, LoadError, ModuleCache};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::sync::Barrier;

/// A module that no other test has.
fn module(salt: &str) -> Vec<u8> {
    wat::parse_str(format!(
        "(module (memory (export \"memory\") 1) (data (i32.const 0) \"{salt}\")
           (func (export \"_start\") (drop (i32.load (i32.const 0)))))"
    ))
    .unwrap()
}

fn engine() -> &'static Engine {
    Engine::shared().unwrap()
}

/// A cache as a new process has it.
fn fresh(dir: &Path) -> ModuleCache {
    let cache = ModuleCache::new(engine()).unwrap();
    assert!(cache.use_directory(dir).unwrap());
    cache
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for engine in fs::read_dir(dir).unwrap() {
        found.extend(
            fs::read_dir(engine.unwrap().path())
                .unwrap()
                .map(|e| e.unwrap().path()),
        );
    }
    found
}

/// The one entry of a cache.
fn entry(dir: &Path) -> PathBuf {
    let mut found = entries(dir);
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

#[test]
fn found_in_memory_then_on_disk() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("deep/cache");
    let module = module("found");
    let digest = *blake3::hash(&module).as_bytes();
    let cache = fresh(&dir);
    assert!(cache.find(&digest).is_none());
    assert_eq!(cache.load(&module).unwrap().1, Found::Compiled);
    assert_eq!(cache.load(&module).unwrap().1, Found::Memory);
    assert!(cache.find(&digest).is_some());
    assert_eq!(fs::metadata(&dir).unwrap().mode() & 0o7777, 0o700);
    assert_eq!(fs::metadata(entry(&dir)).unwrap().mode() & 0o7777, 0o600);

    let cache = fresh(&dir);
    assert!(cache.is_empty());
    assert_eq!(cache.load(&module).unwrap().1, Found::Disk);
    let cache = fresh(&dir);
    assert!(cache.find(&digest).is_some(), "without the bytes");
    assert_eq!(cache.len(), 1);
}

#[test]
fn without_a_directory_it_compiles() {
    let cache = ModuleCache::new(engine()).unwrap();
    let module = module("nowhere");
    assert_eq!(cache.load(&module).unwrap().1, Found::Compiled);
    assert_eq!(cache.load(&module).unwrap().1, Found::Memory);
}

#[test]
fn many_ask_at_once_and_one_compiles() {
    let dir = tempfile::tempdir().unwrap();
    let cache = fresh(&dir.path().join("c"));
    let module = module("many");
    let barrier = Barrier::new(8);
    let found: Vec<Found> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    barrier.wait();
                    cache.load(&module).unwrap().1
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    assert_eq!(
        found
            .iter()
            .filter(|found| **found == Found::Compiled)
            .count(),
        1,
        "{found:?}"
    );
    assert!(found.iter().all(|found| *found != Found::Disk));
}

#[test]
fn a_failure_is_not_remembered_for_ever() {
    let cache = ModuleCache::new(engine()).unwrap();
    for _ in 0..3 {
        let refused = cache.load(b"\0asm\x01\0\0\0\x99").map(|_| ());
        assert!(matches!(refused, Err(LoadError::Invalid(_))));
        assert!(cache.is_empty());
    }
}

#[test]
fn damage_is_noticed_and_repaired() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("c");
    let module = module("damage");
    fresh(&dir).load(&module).unwrap();
    let path = entry(&dir);
    let whole = fs::read(&path).unwrap();
    let digest = *blake3::hash(&module).as_bytes();
    let len = whole.len();
    let mut damaged: Vec<(String, Vec<u8>)> = Vec::new();
    for at in [
        0,
        17,
        64,
        len / 3,
        len / 2,
        len - 200,
        len - 152,
        len - 140,
        len - 130,
        len - 100,
        len - 64,
        len - 40,
        len - 1,
    ] {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        damaged.push((format!("bit at {at} of {len}"), bytes));
    }
    for cut in [0, 1, 100, 151, 152, len / 2, len - 1] {
        damaged.push((format!("cut to {cut} of {len}"), whole[..cut].to_vec()));
    }
    damaged.push(("longer".into(), [&whole[..], b"more"].concat()));
    damaged.push(("zeros".into(), vec![0; len]));
    for (what, bytes) in damaged {
        fs::write(&path, &bytes).unwrap();
        let disk = DiskCache::open(&dir, engine()).unwrap();
        let error = disk.load(engine(), &digest).map(|_| ()).unwrap_err();
        assert!(
            matches!(error, EntryError::Damaged | EntryError::Foreign),
            "{what}: {error}"
        );
        assert!(!path.exists(), "{what}: it is removed");
        fs::write(&path, &bytes).unwrap();
        assert_eq!(
            fresh(&dir).load(&module).unwrap().1,
            Found::Compiled,
            "{what}"
        );
        assert_eq!(
            fresh(&dir).load(&module).unwrap().1,
            Found::Disk,
            "{what}: built again"
        );
    }
}

#[test]
fn entries_of_others_are_not_taken() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("c");
    let (one, other) = (module("one"), module("other"));
    fresh(&dir).load(&one).unwrap();
    let path = entry(&dir);
    // The entry of one module under the name of another.
    let name = blake3::hash(&other).to_hex();
    let wrong = path.with_file_name(format!("{name}.cwasm"));
    fs::copy(&path, &wrong).unwrap();
    let disk = DiskCache::open(&dir, engine()).unwrap();
    let digest = *blake3::hash(&other).as_bytes();
    assert!(matches!(
        disk.load(engine(), &digest),
        Err(EntryError::WrongKey)
    ));
    // An entry of another engine: its tag is in the trailer, behind the key.
    let mut bytes = fs::read(&path).unwrap();
    let trailer = bytes.len() - 152;
    bytes[trailer + 56] ^= 1;
    let sum = *blake3::hash(&bytes[trailer..trailer + 120]).as_bytes();
    bytes[trailer + 120..].copy_from_slice(&sum);
    fs::write(&path, &bytes).unwrap();
    let digest = *blake3::hash(&one).as_bytes();
    assert!(matches!(
        disk.load(engine(), &digest),
        Err(EntryError::WrongKey)
    ));
    // A link, a directory and a file that others can write.
    fresh(&dir).load(&one).unwrap();
    let elsewhere = dir.join("elsewhere");
    fs::rename(&path, &elsewhere).unwrap();
    symlink(&elsewhere, &path).unwrap();
    assert!(matches!(
        disk.load(engine(), &digest),
        Err(EntryError::NotPrivate)
    ));
    fs::rename(&elsewhere, &path).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o622)).unwrap();
    assert!(matches!(
        disk.load(engine(), &digest),
        Err(EntryError::NotPrivate)
    ));
    fs::create_dir(&path).unwrap();
    assert!(matches!(
        disk.load(engine(), &digest),
        Err(EntryError::NotPrivate)
    ));
    // It works without being able to write there.
    assert_eq!(fresh(&dir).load(&one).unwrap().1, Found::Compiled);
}

#[test]
fn only_a_private_directory_is_used() {
    let top = tempfile::tempdir().unwrap();
    let dir = top.path().join("c");
    DiskCache::open(&dir, engine()).unwrap();
    for mode in [0o755, 0o777, 0o710, 0o701, 0o1777, 0o720] {
        fs::set_permissions(&dir, Permissions::from_mode(mode)).unwrap();
        let error = DiskCache::open(&dir, engine()).map(|_| ()).unwrap_err();
        assert!(
            matches!(error, CacheDirError::OpenToOthers { mode: seen, .. } if seen == mode),
            "{mode:o}: {error}"
        );
    }
    fs::set_permissions(&dir, Permissions::from_mode(0o700)).unwrap();

    let link = top.path().join("link");
    symlink(&dir, &link).unwrap();
    assert!(matches!(
        DiskCache::open(&link, engine()),
        Err(CacheDirError::NotADirectory(_))
    ));
    let file = top.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(matches!(
        DiskCache::open(&file, engine()),
        Err(CacheDirError::NotADirectory(_))
    ));
    let below = file.join("c");
    assert!(matches!(
        DiskCache::open(&below, engine()),
        Err(CacheDirError::Io { .. })
    ));

    // The directory of the engine inside is looked at just the same.
    let inner = fs::read_dir(&dir).unwrap().next().unwrap().unwrap().path();
    fs::set_permissions(&inner, Permissions::from_mode(0o770)).unwrap();
    assert!(matches!(
        DiskCache::open(&dir, engine()),
        Err(CacheDirError::OpenToOthers { .. })
    ));
    fs::remove_dir(&inner).unwrap();
    symlink(top.path(), &inner).unwrap();
    assert!(matches!(
        DiskCache::open(&dir, engine()),
        Err(CacheDirError::NotADirectory(_))
    ));
    fs::remove_file(&inner).unwrap();

    if nix::unistd::geteuid().is_root() {
        chown(&dir, Some(12345), None).unwrap();
        assert!(matches!(
            DiskCache::open(&dir, engine()),
            Err(CacheDirError::ForeignOwner { owner: 12345, .. })
        ));
    }
}

#[test]
fn the_first_directory_stays() {
    let dir = tempfile::tempdir().unwrap();
    let cache = fresh(&dir.path().join("a"));
    assert!(!cache.use_directory(&dir.path().join("b")).unwrap());
    assert!(!dir.path().join("b").exists());
}

/// A directory that has become unwritable, or a disk that is full, costs the cache and nothing else.
#[test]
fn a_full_disk_is_no_failure() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let top = tempfile::tempdir().unwrap();
    let full = top.path().join("full");
    fs::create_dir(&full).unwrap();
    // A tmpfs too small for an entry. In a mount namespace of this thread, so that nothing is left.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            use nix::mount::{MsFlags, mount};
            use nix::sched::{CloneFlags, unshare};
            let none: Option<&str> = None;
            if unshare(CloneFlags::CLONE_FS | CloneFlags::CLONE_NEWNS).is_err() {
                return;
            }
            mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
            mount(
                Some("tmpfs"),
                &full,
                Some("tmpfs"),
                MsFlags::empty(),
                Some("size=8k,mode=700"),
            )
            .unwrap();
            let cache = fresh(&full);
            let module = module("full");
            assert_eq!(cache.load(&module).unwrap().1, Found::Compiled);
            assert_eq!(cache.load(&module).unwrap().1, Found::Memory);
            assert_eq!(entries(&full), [] as [PathBuf; 0], "nothing half written");
        });
    });
}
