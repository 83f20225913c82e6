//! Packages that are cut short, or were never sound: errors, and nothing else.

mod support;

use aospkg_format::Package;
use pkg_projection::{Options, Projection};
use proptest::prelude::*;
use std::io::Write;
use std::sync::Arc;
use support::{Recipe, Vm};
use vfs_core::{Errno, FileSystem, FileType, InodeRef, Lookup, OpenFlags};

fn recipe() -> Recipe {
    Recipe::new("p", "1")
        .program("run", "\0asm")
        .file("lib/early", 0o644, "early")
        .file("lib/late", 0o644, &"late".repeat(5000))
        .link("lib/link", "late")
        .command("other", "lib/early")
        .provides("lib", "/usr/lib/p")
        .provides("lib/early", "/etc/early")
        .env("K", "V")
}

#[test]
fn a_file_cut_short_is_an_input_error() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&recipe().bytes()).unwrap();
    let package = Arc::new(Package::open(file.path(), None).unwrap());
    let vm = Vm::of(vec![package], &Options::default());
    let late = "/opt/agentos/pkgs/p/current/lib/late";
    let open = vm
        .at()
        .open(late.as_bytes(), OpenFlags::empty(), 0)
        .unwrap();
    let inode = vm
        .at()
        .resolve(late.as_bytes(), Lookup::FOLLOW)
        .unwrap()
        .inode()
        .clone();
    assert_eq!(vm.cat(late).map(|c| c.len()), Ok(20_000));

    file.as_file().set_len(0).unwrap();
    assert_eq!(vm.cat(late).err(), Some(Errno::EIO));
    assert_eq!(open.read(&mut [0; 64]).err(), Some(Errno::EIO));
    assert_eq!(
        inode.content().unwrap().with(&mut |_| ()).err(),
        Some(Errno::EIO)
    );
    assert_eq!(
        inode.stat().map(|s| s.size),
        Ok(20_000),
        "the index was decoded before"
    );
}

/// Goes everywhere a guest can go.
fn roam(inode: &InodeRef, steps: &mut u32) {
    *steps += 1;
    assert!(*steps < 10_000, "no end");
    let _ = inode.stat();
    let caller = vfs_core::Caller::host();
    match inode.kind() {
        FileType::Directory => {
            let mut names = Vec::new();
            let _ = inode.readdir(0, &mut |entry| {
                names.push(entry.name.to_vec());
                names.len() < 1000
            });
            for name in names {
                if let Ok(child) = inode.lookup(&name) {
                    roam(&child, steps);
                }
            }
        }
        FileType::Symlink => drop(inode.readlink(&caller)),
        _ => {
            if let Ok(ops) = inode.clone().open(OpenFlags::empty(), &caller) {
                let _ = ops.read_at(&mut [0; 64], 0);
                let _ = ops.read_at(&mut [0; 64], u64::MAX - 3);
            }
            let _ = inode.content_id();
            let _ = inode
                .content()
                .map(|c| c.with(&mut |bytes| drop(bytes.to_vec())));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

    #[test]
    fn changed_bytes(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in proptest::option::weighted(0.2, any::<prop::sample::Index>()),
    ) {
        let mut bytes = recipe().bytes();
        // The content of files is not interesting, and most of the package.
        let head = bytes.len() - 20_000;
        for (at, byte) in changes {
            bytes[at.index(head)] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        let Ok(package) = Package::from_file(file, None) else { return Ok(()) };
        let sound = recipe().program("q", "").open();
        if let Ok((projection, _)) =
            Projection::new(vec![Arc::new(package), sound], &Options::default())
        {
            roam(&projection.root(), &mut 0);
        }
    }
}
