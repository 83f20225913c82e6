//! A package that is cut short while it is in use: its reader gets an error, everybody else lives.

use std::fs::{self, File, OpenOptions};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use aospkg_format::{Error, Package, PackageBuilder, WriteOptions};

fn package_file(index: bool) -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.aospkg");
    let mut builder = PackageBuilder::new("p", "1").options(WriteOptions {
        index,
        ..WriteOptions::default()
    });
    for i in 0..100 {
        builder = builder.file(format!("f{i:03}"), 0o644, vec![b'x'; 10_000]);
    }
    builder.write(&path).unwrap();
    (dir, path)
}

fn cut(path: &std::path::Path, len: u64) {
    OpenOptions::new()
        .write(true)
        .open(path)
        .unwrap()
        .set_len(len)
        .unwrap();
}

#[test]
fn reads_of_a_cut_package_fail_and_others_go_on() {
    for (index, to) in [(true, 0), (false, 0), (false, 500_000), (true, 500_000)] {
        let (_dir, path) = package_file(index);
        let (_other_dir, other_path) = package_file(true);
        let package = Package::open(&path, None).unwrap();
        let other = Package::open(&other_path, None).unwrap();
        let late = package.lookup_path(b"f099").unwrap().unwrap();
        cut(&path, to);
        let mut buffer = vec![0; 10_000];
        assert!(matches!(
            package.read_at(late, &mut buffer, 0),
            Err(Error::Shrunk)
        ));
        assert!(matches!(
            package.with_content(late, |bytes| bytes.iter().filter(|&&b| b == b'x').count()),
            Err(Error::Shrunk)
        ));
        if index {
            // The tables were at the end of the file.
            assert!(matches!(package.lookup_path(b"f098"), Err(Error::Shrunk)));
            assert!(matches!(package.entry(late), Err(Error::Shrunk)));
        }
        let id = other.lookup_path(b"f099").unwrap().unwrap();
        assert_eq!(other.read_at(id, &mut buffer, 0).unwrap(), 10_000);
        assert!(buffer.iter().all(|&b| b == b'x'));
    }
}

#[test]
fn many_threads_meet_the_cut() {
    let (_dir, path) = package_file(true);
    let package = Package::open(&path, None).unwrap();
    let started = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (package, started) = (&package, &started);
            scope.spawn(move || {
                let mut buffer = vec![0; 10_000];
                let mut round = thread;
                loop {
                    round += 1;
                    started.fetch_add(1, Ordering::Relaxed);
                    let name = format!("f{:03}", round % 100);
                    let read = package
                        .lookup_path(name.as_bytes())
                        .and_then(|id| package.read_at(id.expect("there"), &mut buffer, 0));
                    match read {
                        // What was read is whole or it is an error, never zeros.
                        Ok(n) => assert!(buffer[..n].iter().all(|&b| b == b'x')),
                        Err(Error::Shrunk) => break,
                        Err(e) => panic!("{e}"),
                    }
                }
            });
        }
        while started.load(Ordering::Relaxed) < 100 {
            std::thread::yield_now();
        }
        cut(&path, 4096);
    });
}

#[test]
fn a_package_that_is_replaced_stays_readable() {
    let (dir, path) = package_file(true);
    let package = Package::open(&path, None).unwrap();
    let new = dir.path().join("new");
    PackageBuilder::new("p", "2")
        .file("f000", 0o644, "new")
        .write(&new)
        .unwrap();
    fs::rename(&new, &path).unwrap();
    let id = package.lookup_path(b"f099").unwrap().unwrap();
    let mut buffer = vec![0; 10_000];
    assert_eq!(package.read_at(id, &mut buffer, 0).unwrap(), 10_000);
    assert_eq!(
        Package::open(&path, None)
            .unwrap()
            .manifest()
            .unwrap()
            .version,
        "2"
    );
}

/// Maps two pages of a file and cuts the file to none.
fn cut_mapping() -> memmap2::Mmap {
    let file: File = tempfile::tempfile().unwrap();
    file.set_len(8192).unwrap();
    // SAFETY: The bytes are only read through volatile reads in this test.
    let map = unsafe { memmap2::Mmap::map(&file).unwrap() };
    file.set_len(0).unwrap();
    map
}

static SEEN: AtomicUsize = AtomicUsize::new(0);

extern "C" fn earlier_handler(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    SEEN.fetch_add(1, Ordering::Relaxed);
    // SAFETY: The kernel passes a valid `siginfo_t`; the page is one of `cut_mapping`.
    unsafe {
        let page = ((*info).si_addr() as usize & !4095) as *mut libc::c_void;
        libc::mmap(
            page,
            4096,
            libc::PROT_READ,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
            -1,
            0,
        );
    }
}

/// The handlers of a process are shared by its threads, so these run in processes of their own.
fn in_child(test: &str) -> std::process::ExitStatus {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env("SIGBUS_CHILD", "1")
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .status()
        .unwrap()
}

fn is_child() -> bool {
    std::env::var_os("SIGBUS_CHILD").is_some()
}

#[test]
fn an_earlier_handler_gets_what_is_not_ours() {
    if !is_child() {
        assert!(in_child("an_earlier_handler_gets_what_is_not_ours").success());
        return;
    }
    // SAFETY: The action is valid and its handler does nothing that is unsafe in one.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = earlier_handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(
            libc::sigaction(libc::SIGBUS, &action, std::ptr::null_mut()),
            0
        );
    }
    let (_dir, path) = package_file(true);
    let package = Package::open(&path, None).unwrap();
    let foreign = cut_mapping();
    // SAFETY: In the mapping; a fault is what the handlers are for.
    assert_eq!(unsafe { foreign.as_ptr().add(4096).read_volatile() }, 0);
    assert_eq!(SEEN.load(Ordering::Relaxed), 1);
    cut(&path, 4096);
    assert!(matches!(package.lookup_path(b"f000"), Err(Error::Shrunk)));
    assert_eq!(SEEN.load(Ordering::Relaxed), 1, "ours was not passed on");
}

#[test]
fn the_default_action_still_ends_the_process() {
    if !is_child() {
        let status = in_child("the_default_action_still_ends_the_process");
        assert_eq!(status.signal(), Some(libc::SIGBUS));
        return;
    }
    let (_dir, path) = package_file(true);
    let _package = Package::open(&path, None).unwrap();
    let foreign = cut_mapping();
    // SAFETY: In the mapping; the fault ends this process.
    unsafe { foreign.as_ptr().read_volatile() };
}

#[test]
fn a_sent_signal_is_passed_on() {
    if !is_child() {
        let status = in_child("a_sent_signal_is_passed_on");
        assert_eq!(status.signal(), Some(libc::SIGBUS));
        return;
    }
    let (_dir, path) = package_file(true);
    let _package = Package::open(&path, None).unwrap();
    // The handler before ours is that of Rust's runtime, which restores the default action at the
    // first signal that is none of its business. The second one then ends the process.
    for _ in 0..2 {
        // SAFETY: Sends a signal to this thread.
        unsafe { libc::raise(libc::SIGBUS) };
    }
}
