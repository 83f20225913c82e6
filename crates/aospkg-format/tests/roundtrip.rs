//! What is written is what is read, whichever way the package is opened.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use aospkg_format::{
    EntryId, EntryKind, Error, IndexSource, PackError, Package, PackageBuilder, Schema,
    WriteOptions, add_index, unpack, verify,
};
use proptest::prelude::*;

/// A tree as a person would write it down.
#[derive(Debug, Clone)]
enum Node {
    File(u32, Vec<u8>),
    Link(String),
    Dir(u32, BTreeMap<String, Node>),
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-c]{1,2}",
        "[a-z-]{14,18}",
        "[a-zé .+-]{1,40}".prop_filter("no name", |s| s != "." && s != ".."),
        "[a-z]{90,255}",
    ]
}

fn node() -> impl Strategy<Value = Node> {
    let leaf = prop_oneof![
        (0u32..0o10000, prop::collection::vec(any::<u8>(), 0..300))
            .prop_map(|(mode, bytes)| Node::File(mode, bytes)),
        (4000usize..13_000, any::<u8>()).prop_map(|(len, byte)| Node::File(0o644, vec![byte; len])),
        "[a-z]{1,120}".prop_map(Node::Link),
    ];
    leaf.prop_recursive(4, 60, 12, |inner| {
        (
            0u32..0o10000,
            prop::collection::btree_map(name(), inner, 0..12),
        )
            .prop_map(|(mode, children)| Node::Dir(mode, children))
    })
}

fn tree() -> impl Strategy<Value = BTreeMap<String, Node>> {
    prop::collection::btree_map(name(), node(), 0..10)
}

fn add(mut builder: PackageBuilder, at: &str, tree: &BTreeMap<String, Node>) -> PackageBuilder {
    for (name, node) in tree {
        let path = format!("{at}{name}");
        builder = match node {
            Node::File(mode, bytes) => builder.file(path, *mode, bytes.clone()),
            Node::Link(target) => builder.symlink(path, target.clone()),
            Node::Dir(mode, children) => {
                let builder = builder.directory(path.clone(), *mode);
                add(builder, &format!("{path}/"), children)
            }
        };
    }
    builder
}

/// Compares a directory of a package with the tree it was made of.
fn compare(package: &Package, dir: EntryId, at: &str, tree: &BTreeMap<String, Node>) {
    let children = package.children(dir).unwrap();
    assert_eq!(children.len(), tree.len());
    for (index, ((name, node), child)) in (0u32..).zip(tree.iter().zip(children.clone())) {
        let child = child.unwrap();
        assert_eq!(child.name, name.as_bytes());
        assert_eq!(children.get(index).unwrap().unwrap(), child);
        assert_eq!(package.entry(child.id).unwrap(), child);
        assert_eq!(package.parent(child.id).unwrap(), dir);
        assert_eq!(
            package.lookup(dir, name.as_bytes()).unwrap(),
            Some(child.id)
        );
        let path = format!("{at}{name}");
        assert_eq!(
            package.lookup_path(path.as_bytes()).unwrap(),
            Some(child.id)
        );
        assert_eq!(package.path_of(child.id).unwrap(), path.as_bytes());
        assert_eq!((child.uid, child.gid, child.mtime), (7, 8, -9));
        match node {
            Node::File(mode, bytes) => {
                assert_eq!((child.kind, child.mode), (EntryKind::File, 0o100000 | mode));
                assert_eq!(child.size, bytes.len() as u64);
                package
                    .with_content(child.id, |content| assert_eq!(content, bytes))
                    .unwrap();
                let mut buffer = vec![0; bytes.len() + 1];
                let half = bytes.len() / 2;
                let n = package.read_at(child.id, &mut buffer, half as u64).unwrap();
                assert_eq!(&buffer[..n], &bytes[half..]);
                assert_eq!(package.read_at(child.id, &mut buffer, u64::MAX).unwrap(), 0);
                assert_eq!(
                    package.digest(child.id).unwrap(),
                    *blake3::hash(bytes).as_bytes()
                );
                if bytes.len() >= 4096 {
                    let range = package.file_range(child.id).unwrap();
                    assert_eq!(range.start % 4096, 0, "large files are aligned");
                }
                assert!(matches!(
                    package.children(child.id),
                    Err(Error::NotADirectory(_))
                ));
            }
            Node::Link(target) => {
                assert_eq!((child.kind, child.mode), (EntryKind::Symlink, 0o120777));
                assert_eq!(child.link_target, Some(target.as_bytes()));
                assert_eq!(child.size, target.len() as u64);
                assert!(matches!(
                    package.with_content(child.id, |_| ()),
                    Err(Error::NotAFile(_))
                ));
            }
            Node::Dir(mode, inner) => {
                assert_eq!(
                    (child.kind, child.mode),
                    (EntryKind::Directory, 0o040000 | mode)
                );
                compare(package, child.id, &format!("{path}/"), inner);
            }
        }
    }
    assert!(children.get(tree.len() as u32).is_none());
    for missing in ["zzz-missing", "", ".", "..", "a\0"] {
        if !tree.contains_key(missing) {
            assert_eq!(package.lookup(dir, missing.as_bytes()).unwrap(), None);
        }
    }
}

fn builder(tree: &BTreeMap<String, Node>, schema: Schema, index: bool) -> PackageBuilder {
    let options = WriteOptions {
        schema,
        index,
        align: true,
    };
    let builder = PackageBuilder::new("test", "1.0.0")
        .options(options)
        .mtime(-9)
        .owner(7, 8);
    add(builder, "", tree)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn every_way_of_opening_gives_the_tree(tree in tree(), second in any::<bool>()) {
        let dir = tempfile::tempdir().unwrap();
        let schema = if second { Schema::V2 } else { Schema::V1 };
        let indexed = dir.path().join("indexed");
        let plain = dir.path().join("plain");
        let added = dir.path().join("added");
        let cache = dir.path().join("cache");
        let digest = builder(&tree, schema, true).write(&indexed).unwrap();
        prop_assert_eq!(builder(&tree, schema, false).write(&plain).unwrap(), digest);
        prop_assert_eq!(add_index(&plain, &added).unwrap(), digest);
        // The same input, the same bytes; and the trailer added later is the same trailer.
        let again = dir.path().join("again");
        builder(&tree, schema, true).write(&again).unwrap();
        let bytes = std::fs::read(&indexed).unwrap();
        prop_assert_eq!(&bytes, &std::fs::read(&again).unwrap());
        prop_assert_eq!(&bytes, &std::fs::read(&added).unwrap());
        for (path, cache, source) in [
            (&indexed, None, IndexSource::Trailer),
            (&plain, None, IndexSource::Decoded),
            (&plain, Some(&cache), IndexSource::Stored),
            (&plain, Some(&cache), IndexSource::Cache),
        ] {
            let package = Package::open(path, cache.map(|p| p.as_path())).unwrap();
            prop_assert_eq!(package.index_source(), source);
            prop_assert_eq!(package.schema(), schema);
            prop_assert_eq!(package.identity().unwrap(), digest);
            compare(&package, package.root(), "", &tree);
        }
        for path in [&indexed, &plain] {
            let verified = verify(path).unwrap();
            prop_assert!(verified.is_whole(), "{:?}", verified.problems);
            prop_assert_eq!(verified.identity, digest);
        }
    }
}

/// The tar part of a package, as GNU tar lists it.
fn gnu_list(package: &Package, path: &Path) -> Vec<String> {
    let mut bytes = std::fs::read(path).unwrap();
    bytes.truncate(package.container_len() as usize);
    let tar = path.with_extension("tar");
    std::fs::write(&tar, &bytes[package.header().mount_base() as usize..]).unwrap();
    let output = Command::new("tar").arg("-tf").arg(&tar).output().unwrap();
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let mut lines: Vec<String> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| line.trim_end_matches('/').to_owned())
        .collect();
    lines.sort();
    lines
}

#[test]
fn gnu_tar_reads_our_archives() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.aospkg");
    let long = format!("{}/{}", "d".repeat(120), "f".repeat(150));
    PackageBuilder::new("p", "1")
        .file(long.clone(), 0o644, vec![b'x'; 5000])
        .file("small", 0o600, "x")
        .file("big", 0o755, vec![b'y'; 4096])
        .symlink("link", "t".repeat(300))
        .write(&path)
        .unwrap();
    let package = Package::open(&path, None).unwrap();
    let mut expected = vec![
        "d".repeat(120),
        long,
        "small".into(),
        "big".into(),
        "link".into(),
    ];
    expected.sort();
    assert_eq!(gnu_list(&package, &path), expected);
}

#[test]
fn manifests_come_back_in_both_schemas() {
    use aospkg_format::{Agent, ManPage, ProvidedFile, Provides};
    let dir = tempfile::tempdir().unwrap();
    for schema in [Schema::V1, Schema::V2] {
        let path = dir.path().join("p.aospkg");
        let mut expected = None;
        let mut builder = PackageBuilder::new("p", "1.2.3-rc.1+b")
            .options(WriteOptions {
                schema,
                ..WriteOptions::default()
            })
            .manifest(|m| {
                m.provides = Some(Provides {
                    env: [("A".into(), "1".into()), ("B".into(), String::new())].into(),
                    files: vec![ProvidedFile {
                        source: "share".into(),
                        target: "/usr/share/x".into(),
                    }],
                });
                m.man_pages = vec![ManPage {
                    section: "man1".into(),
                    page: "p.1".into(),
                }];
                if schema == Schema::V1 {
                    m.agent = Some(Agent {
                        acp_entrypoint: "c-5".into(),
                        snapshot: true,
                        env: [("X".repeat(40_000), "y".into())].into(),
                        launch_args: vec!["--acp".into()],
                    });
                    m.snapshot_bundle_path = Some("/dist/sdk-snapshot.js".into());
                }
                expected = Some(m.clone());
            })
            .file("bin/tool", 0o755, "\0asm");
        for i in 0..100 {
            builder = builder.command(format!("c-{i}"), "./bin/tool");
        }
        builder.write(&path).unwrap();
        let package = Package::open(&path, None).unwrap();
        assert_eq!(package.manifest().unwrap(), expected.as_ref().unwrap());
        assert_eq!(package.command_count(), 100);
        let names: Vec<String> = package
            .commands()
            .map(|c| String::from_utf8(c.unwrap().name.to_vec()).unwrap())
            .collect();
        assert!(names.is_sorted());
        let command = package.command(b"c-42").unwrap().unwrap();
        assert_eq!(command.path, b"bin/tool");
        assert_eq!(
            package.path_of(command.entry.unwrap()).unwrap(),
            b"bin/tool"
        );
        assert_eq!(package.command(b"c-100").unwrap(), None);
    }
}

#[test]
fn unpack_writes_the_tree_and_nothing_else() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let dir = tempfile::tempdir().unwrap();
    let package = PackageBuilder::new("p", "1")
        .mtime(1_000_000_000)
        .directory("ro", 0o555)
        .file("ro/file", 0o444, "text")
        .file("run", 0o4755, "#!/bin/sh\n")
        .symlink("ro/link", "../run")
        .open()
        .unwrap();
    let to = dir.path().join("out");
    assert_eq!(unpack(&package, &to).unwrap(), 4);
    assert_eq!(std::fs::read_to_string(to.join("ro/file")).unwrap(), "text");
    assert_eq!(
        std::fs::read_link(to.join("ro/link")).unwrap(),
        Path::new("../run")
    );
    let mode = |path: &str| to.join(path).metadata().unwrap().permissions().mode() & 0o7777;
    assert_eq!(
        (mode("ro"), mode("ro/file"), mode("run")),
        (0o555, 0o444, 0o755)
    );
    assert_eq!(to.join("ro").metadata().unwrap().mtime(), 1_000_000_000);
    assert!(matches!(
        unpack(&package, &to),
        Err(Error::DestinationNotEmpty(_))
    ));
    std::fs::create_dir(dir.path().join("empty")).unwrap();
    assert_eq!(unpack(&package, &dir.path().join("empty")).unwrap(), 4);
}

#[test]
fn what_is_no_file_is_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    for path in [pipe.as_path(), dir.path(), Path::new("/dev/null")] {
        assert!(matches!(Package::open(path, None), Err(Error::NotAPackage)));
    }
    let missing = Package::open(dir.path().join("none"), None);
    assert!(matches!(missing, Err(Error::Io { .. })));
}

#[test]
fn a_full_disk_leaves_nothing_behind() {
    // A small tmpfs, where one can be mounted.
    let dir = tempfile::tempdir().unwrap();
    let mount = dir.path().join("small");
    std::fs::create_dir(&mount).unwrap();
    let source = dir.path().join("big.aospkg");
    PackageBuilder::new("p", "1")
        .options(WriteOptions {
            index: false,
            ..WriteOptions::default()
        })
        .file("big", 0o644, vec![1; 300 << 10])
        .write(&source)
        .unwrap();
    let script = format!(
        "mount -t tmpfs -o size=128k none '{0}' || exit 77; cd '{0}'; exec \"$0\" --exact on_a_small_disk --nocapture",
        mount.display()
    );
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", &script])
        .arg(std::env::current_exe().unwrap())
        .env("SMALL_DISK_SOURCE", &source)
        .output()
        .unwrap();
    if output.status.code() == Some(77)
        || output.status.code() == Some(1) && output.stdout.is_empty()
    {
        // No right to mount here.
        return;
    }
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// The part of the test above that runs with a full disk as its current directory.
#[test]
fn on_a_small_disk() {
    let Some(source) = std::env::var_os("SMALL_DISK_SOURCE") else {
        return;
    };
    let built = PackageBuilder::new("p", "1")
        .file("big", 0o644, vec![1; 300 << 10])
        .write(Path::new("built.aospkg"));
    let Err(PackError::Io { source: full, .. }) = built else {
        panic!("{built:?}");
    };
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    let result = add_index(Path::new(&source), Path::new("out.aospkg"));
    let Err(Error::Io { source, .. }) = result else {
        panic!("{result:?}");
    };
    assert_eq!(source.kind(), std::io::ErrorKind::StorageFull);
    assert_eq!(std::fs::read_dir(".").unwrap().count(), 0);
}
