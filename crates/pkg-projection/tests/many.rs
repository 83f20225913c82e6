//! A package of 100,000 commands costs nothing to link: what is allocated is counted.

mod support;

use pkg_projection::{Options, Projection};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use support::{Recipe, Vm};
use vfs_core::{FileSystem, FileType};

/// The system's allocator, counting what the calling thread asks of it.
struct Counting;

thread_local! {
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call is handed on to the system's allocator as it is; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.with(|a| a.set(a.get() + layout.size()));
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`, and `pointer` is the system's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes allocated by `f`.
fn allocated<T>(f: impl FnOnce() -> T) -> (T, usize) {
    let before = ALLOCATED.with(Cell::get);
    let value = f();
    (value, ALLOCATED.with(Cell::get) - before)
}

const COMMANDS: usize = 100_000;

fn many() -> Recipe {
    let recipe = Recipe::new("many", "1").file("libexec/all", 0o644, "\0asm");
    (0..COMMANDS).fold(recipe, |r, n| {
        r.command(&format!("command-{n}"), "libexec/all")
    })
}

fn few(name: &str) -> Recipe {
    Recipe::new(name, "1")
        .program(&format!("{name}-one"), "")
        .program("command-7", "")
}

#[test]
fn linking_allocates_nothing_per_command() {
    let options = Options {
        max_links: 200_000,
        ..Options::default()
    };
    let packages = vec![few("first").open(), many().open(), few("last").open()];
    let ((projection, warnings), bytes) =
        allocated(|| Projection::new(packages, &options).expect("a projection"));
    // Reading a manifest takes a buffer of a fixed size.
    assert!(bytes < COMMANDS / 2, "{bytes} bytes for linking");
    let warnings: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    let hidden =
        |loser: &str| format!("package {loser}: commands hidden by package first: command-7");
    assert_eq!(warnings, [hidden("many"), hidden("last")]);

    let root = projection.root();
    let (farm, bytes) = allocated(|| {
        let agentos = root.lookup(b"opt").and_then(|opt| opt.lookup(b"agentos"));
        agentos
            .and_then(|agentos| agentos.lookup(b"bin"))
            .expect("the link farm")
    });
    assert!(bytes < 4 << 10, "{bytes} bytes for walking to the links");

    for name in ["command-0", "command-99999", "last-one", "command-7"] {
        let (link, bytes) = allocated(|| farm.lookup(name.as_bytes()).expect(name));
        assert_eq!(link.kind(), FileType::Symlink);
        assert!(bytes < 256, "{bytes} bytes for looking up {name}");
    }
    let (missing, bytes) = allocated(|| farm.lookup(b"command-100000").err());
    assert_eq!((missing, bytes), (Some(vfs_core::Errno::ENOENT), 0));

    let mut names = 0;
    let ((), bytes) = allocated(|| {
        farm.readdir(0, &mut |_| {
            names += 1;
            true
        })
        .expect("a listing");
    });
    assert_eq!((names, bytes), (COMMANDS + 2, 0));
}

#[test]
fn every_command_runs() {
    let options = Options {
        max_links: 200_000,
        ..Options::default()
    };
    let vm = Vm::with(&[many()], &options);
    for n in (0..COMMANDS).step_by(997) {
        let path = format!("/opt/agentos/bin/command-{n}");
        let stat = vm.stat(&path).expect("a command");
        assert_eq!(stat.mode, 0o100755);
    }
}
