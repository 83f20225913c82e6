//! The cache of indexes: private, tied to the file's state, rebuilt when damaged.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use aospkg_format::{CacheError, IndexSource, Package, PackageBuilder, WriteOptions};

fn write(path: &Path, content: &str) {
    PackageBuilder::new("p", "1")
        .options(WriteOptions {
            index: false,
            ..WriteOptions::default()
        })
        .file("bin/a", 0o755, content)
        .command("a", "bin/a")
        .write(path)
        .unwrap();
}

struct Fixture {
    _dir: tempfile::TempDir,
    package: PathBuf,
    cache: PathBuf,
}

fn fixture() -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let package = dir.path().join("p.aospkg");
    write(&package, "#!/bin/one\n");
    Fixture {
        cache: dir.path().join("deep/cache"),
        package,
        _dir: dir,
    }
}

fn open(f: &Fixture) -> Package {
    let package = Package::open(&f.package, Some(&f.cache)).unwrap();
    let id = package.lookup_path(b"bin/a").unwrap().unwrap();
    assert_eq!(package.command(b"a").unwrap().unwrap().entry, Some(id));
    package
}

fn entries(cache: &Path) -> Vec<PathBuf> {
    fs::read_dir(cache)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect()
}

#[test]
fn the_second_open_uses_what_the_first_made() {
    let f = fixture();
    assert_eq!(open(&f).index_source(), IndexSource::Stored);
    assert_eq!(open(&f).index_source(), IndexSource::Cache);
    let mode = fs::metadata(&f.cache).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    assert_eq!(entries(&f.cache).len(), 1);
}

#[test]
fn a_changed_package_gets_a_new_entry() {
    let f = fixture();
    let first = open(&f).identity().unwrap();
    write(&f.package, "#!/bin/two\n");
    let package = open(&f);
    assert_eq!(package.index_source(), IndexSource::Stored);
    assert_ne!(package.identity().unwrap(), first);
}

#[test]
fn a_damaged_entry_is_rebuilt() {
    let f = fixture();
    let identity = open(&f).identity().unwrap();
    let entry = entries(&f.cache).remove(0);
    let good = fs::read(&entry).unwrap();
    let mut damaged: Vec<Vec<u8>> = vec![
        vec![],
        good[..good.len() / 2].to_vec(),
        [&good[..], b"more"].concat(),
    ];
    for at in (0..good.len()).step_by(37) {
        let mut bytes = good.clone();
        bytes[at] ^= 0x10;
        damaged.push(bytes);
    }
    for bytes in damaged {
        fs::write(&entry, &bytes).unwrap();
        let package = open(&f);
        assert_eq!(package.index_source(), IndexSource::Stored);
        assert_eq!(package.identity().unwrap(), identity);
        assert_eq!(fs::read(&entry).unwrap(), good);
    }
}

#[test]
fn an_entry_of_another_package_is_not_taken() {
    let (f, g) = (fixture(), fixture());
    open(&f);
    write(&g.package, "#!/bin/other\n");
    open(&g);
    let (mine, other) = (entries(&f.cache).remove(0), entries(&g.cache).remove(0));
    fs::copy(&other, &mine).unwrap();
    assert_eq!(open(&f).index_source(), IndexSource::Stored);
}

#[test]
fn only_a_private_directory_is_used() {
    let f = fixture();
    fs::create_dir_all(&f.cache).unwrap();
    for mode in [0o755, 0o777, 0o701, 0o720] {
        fs::set_permissions(&f.cache, fs::Permissions::from_mode(mode)).unwrap();
        let package = open(&f);
        assert_eq!(package.index_source(), IndexSource::Decoded);
        assert!(matches!(
            package.cache_problem(),
            Some(CacheError::NotPrivate(_))
        ));
        assert_eq!(entries(&f.cache).len(), 0);
    }
    fs::set_permissions(&f.cache, fs::Permissions::from_mode(0o700)).unwrap();
    let link = f.cache.with_file_name("link");
    symlink(&f.cache, &link).unwrap();
    let package = Package::open(&f.package, Some(&link)).unwrap();
    assert!(matches!(
        package.cache_problem(),
        Some(CacheError::NotPrivate(_))
    ));
    let nowhere = f.package.join("below/a/file");
    let package = Package::open(&f.package, Some(&nowhere)).unwrap();
    assert!(matches!(
        package.cache_problem(),
        Some(CacheError::Io { .. })
    ));
    assert_eq!(package.index_source(), IndexSource::Decoded);
}

#[test]
fn without_a_directory_nothing_is_written() {
    let f = fixture();
    let package = Package::open(&f.package, None).unwrap();
    assert_eq!(package.index_source(), IndexSource::Decoded);
    assert!(package.cache_problem().is_none());
    assert_eq!(
        fs::read_dir(f.package.parent().unwrap()).unwrap().count(),
        1
    );
}

#[test]
fn many_open_at_once() {
    let f = fixture();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..5 {
                    let source = open(&f).index_source();
                    assert!(matches!(source, IndexSource::Stored | IndexSource::Cache));
                }
            });
        }
    });
    assert_eq!(entries(&f.cache).len(), 1);
}
