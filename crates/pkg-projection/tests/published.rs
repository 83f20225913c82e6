//! The published packages, all at once.

mod support;

#[path = "../../aospkg-format/tests/support/mod.rs"]
mod npm;

use aospkg_format::{EntryId, EntryKind, Package};
use pkg_projection::Options;
use std::sync::Arc;
use support::Vm;
use vfs_core::{FileType, Lookup};

fn open() -> Vec<Arc<Package>> {
    let open = |&(name, version, _, _): &(&str, &str, u32, u32)| {
        Arc::new(Package::open(npm::published(name, version), None).expect("it opens"))
    };
    npm::PUBLISHED.iter().map(open).collect()
}

#[test]
fn every_command_leads_to_a_program() {
    let packages = open();
    let vm = Vm::of(packages.clone(), &Options::default());
    let farm = "/opt/agentos/bin";
    let names = vm.ls(farm).expect("a listing");
    let total: u32 = packages.iter().map(|p| p.command_count()).sum();
    assert!(names.len() as u32 <= total && names.len() > 100);
    for name in names {
        let path = format!("{farm}/{name}");
        let stat = vm.stat(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
        assert_eq!(
            (stat.file_type(), stat.mode & 0o111),
            (FileType::Regular, 0o111),
            "{path}"
        );
        let at = vm
            .at()
            .resolve(path.as_bytes(), Lookup::FOLLOW)
            .expect("it is there");
        let mut start = Vec::new();
        let mut take = |bytes: &[u8]| start = bytes[..4].to_vec();
        at.inode()
            .content()
            .expect("a file")
            .with(&mut take)
            .expect("it can be read");
        assert!(
            start == b"\0asm" || start.starts_with(b"#!"),
            "{path}: {}",
            start.escape_ascii()
        );
    }
}

#[test]
fn every_entry_is_where_it_was_packed() {
    let packages = open();
    let vm = Vm::of(packages.clone(), &Options::default());
    for package in &packages {
        let manifest = package.manifest().expect("a manifest");
        let top = format!("/opt/agentos/pkgs/{}/{}", manifest.name, manifest.version);
        let mut entries = 0;
        // A sample of the large ones.
        let step = 1 + package.entry_count() / 1000;
        for number in (1..package.entry_count()).step_by(step as usize) {
            let entry = package.entry(EntryId(number)).expect("an entry");
            let path = String::from_utf8(package.path_of(entry.id).expect("a path")).expect("text");
            let stat = vm
                .lstat(&format!("{top}/{path}"))
                .unwrap_or_else(|e| panic!("{path}: {e}"));
            let size = if entry.kind == EntryKind::Directory {
                0
            } else {
                entry.size
            };
            assert_eq!((stat.size, stat.mtime.sec), (size, entry.mtime), "{path}");
            assert_eq!(stat.mode & 0o666, entry.mode & 0o666, "{path}");
            entries += 1;
        }
        // Nothing more is there but links in `bin`.
        if step == 1 {
            let own: Vec<String> = vm
                .walk(&top)
                .into_iter()
                .filter(|p| !p.contains("/bin/"))
                .collect();
            assert!(own.len() <= entries, "{top}");
        }
    }
}
