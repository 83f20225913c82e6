//! The host's terminal itself.

use crate::host::Pty;
use nix::sys::termios::{InputFlags, LocalFlags, OutputFlags};
use sidecar::hostio::HostTty;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};

#[test]
fn only_a_terminal_is_one() {
    assert!(
        HostTty::of(File::open("/dev/null").unwrap())
            .unwrap()
            .is_none()
    );
    let (reader, _writer) = std::io::pipe().unwrap();
    assert!(HostTty::of(reader).unwrap().is_none());
    assert!(HostTty::of(&Pty::new().slave).unwrap().is_some());
}

#[test]
fn its_size_is_the_window_s() {
    let pty = Pty::new();
    let tty = HostTty::of(&pty.slave).unwrap().unwrap();
    assert_eq!((tty.size().cols, tty.size().rows), (0, 0));
    pty.resize(132, 43);
    assert_eq!((tty.size().cols, tty.size().rows), (132, 43));
}

#[test]
fn raw_mode_lasts_as_long_as_its_guard() {
    let pty = Pty::new();
    let before = pty.modes();
    let tty = HostTty::of(&pty.slave).unwrap().unwrap();
    let raw = tty.raw().unwrap();
    let modes = pty.modes();
    assert!(
        !modes.local_flags.intersects(
            LocalFlags::ICANON | LocalFlags::ECHO | LocalFlags::ISIG | LocalFlags::IEXTEN
        )
    );
    assert!(
        !modes
            .input_flags
            .intersects(InputFlags::ICRNL | InputFlags::IXON)
    );
    assert!(!modes.output_flags.contains(OutputFlags::OPOST));
    raw.leave().unwrap();
    assert_eq!(pty.modes(), before);
    raw.again().unwrap();
    assert_eq!(pty.modes(), modes);
    drop(raw);
    assert_eq!(pty.modes(), before);
}

#[test]
fn a_panic_gives_the_modes_back() {
    let pty = Pty::new();
    let before = pty.modes();
    let tty = HostTty::of(&pty.slave).unwrap().unwrap();
    let result = catch_unwind(AssertUnwindSafe(|| {
        let _raw = tty.raw().unwrap();
        assert_ne!(pty.modes(), before);
        std::panic::resume_unwind(Box::new(()));
    }));
    assert!(result.is_err());
    assert_eq!(pty.modes(), before);
}
