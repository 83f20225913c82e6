//! Every published package opens unchanged, with and without a cache directory.

use aospkg_format::{EntryId, EntryKind, IndexSource, Package, Schema};

mod support;

/// Path, mode, size, time and link target.
type Line = (Vec<u8>, u32, u64, i64, Option<Vec<u8>>);

/// Everything the two ways of opening must agree on, down to every path and link.
fn tree(package: &Package) -> Vec<Line> {
    let mut out = Vec::new();
    let mut todo = vec![package.root()];
    while let Some(dir) = todo.pop() {
        for child in package.children(dir).unwrap() {
            let child = child.unwrap();
            assert_eq!(child.parent, dir);
            let path = package.path_of(child.id).unwrap();
            assert_eq!(package.lookup_path(&path).unwrap(), Some(child.id));
            assert_eq!(package.lookup(dir, child.name).unwrap(), Some(child.id));
            if child.kind == EntryKind::Directory {
                todo.push(child.id);
            }
            let link = child.link_target.map(<[u8]>::to_vec);
            out.push((path, child.mode, child.size, child.mtime, link));
        }
    }
    out.sort();
    out
}

#[test]
fn published_packages_open() {
    let cache = tempfile::tempdir().unwrap();
    let cache = cache.path().join("index");
    for &(name, version, entries, commands) in support::PUBLISHED {
        let path = support::published(name, version);
        let plain = Package::open(&path, None).unwrap();
        assert_eq!(plain.schema(), Schema::V1);
        assert_eq!(plain.index_source(), IndexSource::Decoded);
        assert_eq!(plain.entry_count(), entries, "{name}");
        assert_eq!(plain.command_count(), commands, "{name}");
        let manifest = plain.manifest().unwrap();
        assert_eq!((&*manifest.name, &*manifest.version), (name, version));

        let first = Package::open(&path, Some(&cache)).unwrap();
        assert_eq!(
            first.index_source(),
            IndexSource::Stored,
            "{:?}",
            first.cache_problem()
        );
        let again = Package::open(&path, Some(&cache)).unwrap();
        assert_eq!(again.index_source(), IndexSource::Cache);
        assert_eq!(tree(&plain), tree(&again));
        assert_eq!(plain.manifest().unwrap(), again.manifest().unwrap());
        assert_eq!(plain.identity().unwrap(), again.identity().unwrap());
        assert_eq!(first.identity().unwrap(), again.identity().unwrap());

        for package in [&plain, &again] {
            let mut count = 0;
            for command in package.commands() {
                let command = command.unwrap();
                count += 1;
                assert_eq!(package.command(command.name).unwrap(), Some(command));
                let id = command.entry.expect("every published command has its file");
                assert_eq!(package.path_of(id).unwrap(), command.path);
                let mut start = [0; 4];
                assert_eq!(package.read_at(id, &mut start, 0).unwrap(), 4);
                assert!(&start == b"\0asm" || start.starts_with(b"#!"));
            }
            assert_eq!(count, commands);
            assert_eq!(package.command(b"no-such-command").unwrap(), None);
            assert_eq!(package.lookup_path(b"bin/").unwrap(), None);
            assert_eq!(package.lookup_path(b"/").unwrap(), Some(EntryId::ROOT));
        }
        let id = plain.commands().next().unwrap().unwrap().entry.unwrap();
        assert_eq!(plain.stored_digest(id).unwrap(), None);
        assert_eq!(plain.digest(id).unwrap(), again.digest(id).unwrap());
        assert!(again.stored_digest(id).unwrap().is_some());
    }
}

#[test]
fn the_agent_block_is_read() {
    let pi = Package::open(support::published("pi", "0.2.7"), None).unwrap();
    let manifest = pi.manifest().unwrap();
    let agent = manifest.agent.as_ref().unwrap();
    assert_eq!(agent.acp_entrypoint, "pi-sdk-acp");
    assert!(agent.snapshot);
    assert_eq!(
        manifest.snapshot_bundle_path.as_deref(),
        Some("/dist/sdk-snapshot.js")
    );
    let bundle = pi.lookup_path(b"/dist/sdk-snapshot.js").unwrap().unwrap();
    assert_eq!(pi.entry(bundle).unwrap().kind, EntryKind::File);
}
