//! Opening costs the same for ten files and for a million: it allocates the same, and it works.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::path::Path;

use aospkg_format::{EntryId, IndexSource, Package, PackageBuilder};

/// Counts what this thread allocates.
struct Counting;

thread_local! {
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: Everything is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.with(|n| n.set(n.get() + layout.size()));
        // SAFETY: The caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: The caller's promise is passed on.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A million entries where that takes seconds, fewer where it would take minutes.
const DIRECTORIES: u32 = if cfg!(debug_assertions) { 100 } else { 1000 };
const FILES: u32 = 1000;

fn name(directory: u32, file: u32) -> String {
    format!("lib/package-{directory:04}/module-{file:04}.js")
}

fn write(path: &Path, directories: u32, files: u32) {
    let mut builder = PackageBuilder::new("synthetic", "1.0.0");
    for directory in 0..directories {
        for file in 0..files {
            builder = builder.file(name(directory, file), 0o644, "");
        }
    }
    builder.write(path).unwrap();
}

/// Bytes allocated by an open and some calls.
fn cost(path: &Path) -> usize {
    let before = ALLOCATED.with(Cell::get);
    let package = Package::open(path, None).unwrap();
    assert_eq!(package.index_source(), IndexSource::Trailer);
    let id = package.lookup_path(name(1, 2).as_bytes()).unwrap().unwrap();
    let dir = package.parent(id).unwrap();
    assert_eq!(package.lookup(dir, b"module-0002.js").unwrap(), Some(id));
    assert_eq!(package.lookup(dir, b"module-0002").unwrap(), None);
    package.identity().unwrap();
    ALLOCATED.with(Cell::get) - before
}

#[test]
fn a_million_entries() {
    let dir = tempfile::tempdir().unwrap();
    let (small, large) = (dir.path().join("small"), dir.path().join("large"));
    write(&small, 2, 3);
    write(&large, DIRECTORIES, FILES);
    // The first open also installs the signal handler.
    cost(&small);
    // File names in the directory differ in length by nothing, so the numbers are the same.
    assert_eq!(cost(&small), cost(&large));
    let package = Package::open(&large, None).unwrap();
    assert_eq!(package.entry_count(), DIRECTORIES * (FILES + 1) + 2);
    for directory in (0..DIRECTORIES).step_by(17) {
        let path = format!("lib/package-{directory:04}");
        let id = package.lookup_path(path.as_bytes()).unwrap().unwrap();
        let children = package.children(id).unwrap();
        assert_eq!(children.count_all(), FILES);
        let last = children.get(FILES - 1).unwrap().unwrap();
        assert_eq!(
            package.path_of(last.id).unwrap(),
            name(directory, FILES - 1).as_bytes()
        );
    }
    assert_eq!(package.lookup(EntryId::ROOT, b"nothing").unwrap(), None);
}
