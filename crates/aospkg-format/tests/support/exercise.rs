//! Using everything of a package that may be hostile.
#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]

use std::fs::File;
use std::io::Write;

use aospkg_format::{EntryKind, Error, PackOptions, Package, pack_bytes, verify_file};

/// A file in memory.
pub fn memory_file(bytes: &[u8]) -> File {
    let fd = nix::sys::memfd::memfd_create(c"test", nix::sys::memfd::MFdFlags::MFD_CLOEXEC)
        .expect("memfd");
    let mut file = File::from(fd);
    file.write_all(bytes).expect("writing to memory");
    file
}

/// Opens bytes as a package and calls everything there is. Whatever they say, the only bad end is a
/// panic, a crash or no end. Returns what opening said.
pub fn exercise(bytes: &[u8]) -> Result<(), Error> {
    let package = Package::from_file(memory_file(bytes), None)?;
    let _ = package.manifest().cloned();
    let _ = package.identity();
    let mut buffer = [0; 64];
    // The reader promises that what can be reached is a tree, so a walk ends by itself.
    let mut todo = vec![package.root()];
    let mut visited = 0u64;
    while let Some(id) = todo.pop() {
        visited += 1;
        assert!(
            visited <= u64::from(package.entry_count()),
            "a walk visits no entry twice"
        );
        let Ok(children) = package.children(id) else {
            continue;
        };
        for child in children {
            let Ok(child) = child else {
                continue;
            };
            assert!(!child.name.is_empty() && !child.name.contains(&b'/'));
            let _ = package.lookup(id, child.name);
            if let Ok(path) = package.path_of(child.id) {
                let _ = package.lookup_path(&path);
            }
            let _ = package.parent(child.id);
            let _ = package.stored_digest(child.id);
            let _ = package.digest(child.id);
            let _ = package.read_at(child.id, &mut buffer, 3);
            let _ = package.with_content(child.id, |content| content.len());
            if child.kind == EntryKind::Directory {
                todo.push(child.id);
            } else {
                visited += 1;
            }
        }
    }
    for command in package.commands().flatten() {
        assert!(!command.name.contains(&b'/'));
        let _ = package.command(command.name);
    }
    for name in [
        &b"tool"[..],
        b"",
        b"\xff",
        b"bin/tool",
        b"/bin/tool",
        b"lib/deep/down/f",
    ] {
        let _ = package.command(name);
        let _ = package.lookup(package.root(), name);
        let _ = package.lookup_path(name);
    }
    Ok(())
}

/// Whether a package is provably whole.
pub fn whole(bytes: &[u8]) -> bool {
    verify_file(memory_file(bytes)).is_ok_and(|verified| verified.is_whole())
}

/// Packs bytes as an archive. A package that comes out of it must be whole and stay in its tree.
pub fn pack(bytes: &[u8]) {
    let output = memory_file(b"");
    let options = PackOptions {
        drop_native: true,
        ..PackOptions::default()
    };
    if pack_bytes(bytes, &output, &options).is_err() {
        return;
    }
    let verified = verify_file(output).expect("what was packed opens");
    assert!(verified.is_whole(), "{:?}", verified.problems);
}
