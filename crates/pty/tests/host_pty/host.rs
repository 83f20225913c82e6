//! The host kernel's pseudoterminal.

use super::sequence::Op;
use nix::sys::signal::{SigHandler, SigSet, SigmaskHow, Signal, pthread_sigmask, signal};
use pty::termios::*;
use std::fmt::Write as _;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// Signals that typing can raise.
const TYPED: [Signal; 4] = [
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTSTP,
    Signal::SIGWINCH,
];

/// Runs `f` in a child that leads a session and has the typed signals blocked; gives its status.
pub(crate) fn in_own_session(f: impl FnOnce() -> i32) -> i32 {
    // SAFETY: this is the first thing the program does, so there is one thread.
    match unsafe { nix::unistd::fork() }.expect("fork") {
        nix::unistd::ForkResult::Parent { child } => {
            match nix::sys::wait::waitpid(child, None).expect("waitpid") {
                nix::sys::wait::WaitStatus::Exited(_, code) => code,
                other => panic!("the child ended as {other:?}"),
            }
        }
        nix::unistd::ForkResult::Child => {
            nix::unistd::setsid().expect("setsid");
            // SAFETY: ignoring a signal runs no code of ours.
            unsafe {
                signal(Signal::SIGHUP, SigHandler::SigIgn).expect("signal");
                signal(Signal::SIGCONT, SigHandler::SigIgn).expect("signal");
            }
            let mut set = SigSet::empty();
            TYPED.iter().for_each(|s| set.add(*s));
            pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&set), None).expect("sigmask");
            // A SIGWINCH that is ignored by default is kept pending only if blocked; it is.
            let code = f();
            std::process::exit(code);
        }
    }
}

struct Pair {
    master: OwnedFd,
    slave: OwnedFd,
}

impl Pair {
    fn open() -> Pair {
        let pair = nix::pty::openpty(None, None).expect("openpty");
        for fd in [&pair.master, &pair.slave] {
            nix::fcntl::fcntl(
                fd,
                nix::fcntl::FcntlArg::F_SETFL(nix::fcntl::OFlag::O_NONBLOCK),
            )
            .expect("fcntl");
        }
        // SAFETY: the descriptor is open and the request takes a number.
        let status = unsafe { libc::ioctl(pair.slave.as_raw_fd(), libc::TIOCSCTTY, 0) };
        assert_eq!(status, 0, "TIOCSCTTY: {}", std::io::Error::last_os_error());
        Pair {
            master: pair.master,
            slave: pair.slave,
        }
    }

    fn modes(&self) -> libc::termios {
        // SAFETY: all zeros are a valid value, and the call fills it.
        unsafe {
            let mut modes: libc::termios = std::mem::zeroed();
            assert_eq!(libc::tcgetattr(self.slave.as_raw_fd(), &mut modes), 0);
            modes
        }
    }

    fn readable(&self) -> usize {
        let mut n: libc::c_int = 0;
        // SAFETY: the request fills one int.
        let status = unsafe { libc::ioctl(self.slave.as_raw_fd(), libc::FIONREAD, &mut n) };
        assert_eq!(status, 0);
        n as usize
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        // SAFETY: the descriptor is open; the next sequence needs the session to have none.
        unsafe { libc::ioctl(self.slave.as_raw_fd(), libc::TIOCNOTTY) };
    }
}

/// Modes of a new terminal.
pub(crate) fn initial_modes() -> Termios {
    let pair = Pair::open();
    let host = pair.modes();
    let mut cc = [0; NCCS];
    cc.copy_from_slice(&host.c_cc[..NCCS]);
    Termios {
        iflag: Iflag::from_bits_retain(host.c_iflag),
        oflag: Oflag::from_bits_retain(host.c_oflag),
        cflag: host.c_cflag,
        lflag: Lflag::from_bits_retain(host.c_lflag),
        cc,
    }
}

/// Runs a sequence; gives what was seen after each step. What a step sets off in the host happens
/// in a worker thread, so the same look is taken until nothing changes for `patience_ms`.
pub(crate) fn run(ops: &[Op], patience_ms: u64) -> Vec<String> {
    let pair = Pair::open();
    ops.iter()
        .map(|op| {
            let mut seen = String::new();
            apply(&pair, op, &mut seen);
            settle(&pair, Duration::from_millis(patience_ms), &mut seen);
            seen
        })
        .collect()
}

fn apply(pair: &Pair, op: &Op, seen: &mut String) {
    let result = match op {
        Op::Type(bytes) => nix::unistd::write(&pair.master, bytes).map(|n| n.to_string()),
        Op::Write(bytes) => nix::unistd::write(&pair.slave, bytes).map(|n| n.to_string()),
        Op::Read(n) => {
            let mut buf = vec![0; *n];
            nix::unistd::read(&pair.slave, &mut buf).map(|n| {
                String::from_utf8_lossy(&buf[..n])
                    .escape_debug()
                    .to_string()
            })
        }
        Op::Modes(modes, when) => {
            let mut host = pair.modes();
            host.c_iflag = modes.iflag.bits();
            host.c_oflag = modes.oflag.bits();
            host.c_cflag = modes.cflag;
            host.c_lflag = modes.lflag.bits();
            host.c_cc[..NCCS].copy_from_slice(&modes.cc);
            let when = match when {
                When::Now => libc::TCSANOW,
                When::Drain => libc::TCSADRAIN,
                When::Flush => libc::TCSAFLUSH,
            };
            // SAFETY: the descriptor is open and the modes are whole.
            nix::errno::Errno::result(unsafe {
                libc::tcsetattr(pair.slave.as_raw_fd(), when, &host)
            })
            .map(|_| String::new())
        }
        Op::Flush(queue) => {
            let queue = match queue {
                Queue::Input => libc::TCIFLUSH,
                Queue::Output => libc::TCOFLUSH,
                Queue::Both => libc::TCIOFLUSH,
            };
            // SAFETY: the descriptor is open.
            nix::errno::Errno::result(unsafe { libc::tcflush(pair.slave.as_raw_fd(), queue) })
                .map(|_| String::new())
        }
        Op::Rows(rows) => {
            let size = libc::winsize {
                ws_row: *rows,
                ws_col: 80,
                ws_xpixel: 0,
                ws_ypixel: 0,
            };
            // SAFETY: the request reads one `winsize`.
            nix::errno::Errno::result(unsafe {
                libc::ioctl(pair.master.as_raw_fd(), libc::TIOCSWINSZ, &size)
            })
            .map(|_| String::new())
        }
    };
    match result {
        Ok(text) => write!(seen, "ok [{text}]"),
        Err(error) => write!(seen, "{error:?}"),
    }
    .expect("writing to a string");
}

/// Collects what the master shows, and then the state of the input queue and the signals.
fn settle(pair: &Pair, patience: Duration, seen: &mut String) {
    let mut screen = Vec::new();
    let mut quiet_since = Instant::now();
    let mut readable = pair.readable();
    let mut buf = vec![0; 65536];
    while quiet_since.elapsed() < patience {
        match nix::unistd::read(&pair.master, &mut buf) {
            Ok(n) => {
                screen.extend_from_slice(&buf[..n]);
                quiet_since = Instant::now();
            }
            Err(nix::errno::Errno::EAGAIN) => {
                std::thread::sleep(Duration::from_micros(100));
            }
            Err(error) => panic!("reading the master: {error}"),
        }
        let now = pair.readable();
        if now != readable {
            readable = now;
            quiet_since = Instant::now();
        }
    }
    let mut signals = Vec::new();
    for signal in TYPED {
        let mut set = SigSet::empty();
        set.add(signal);
        // SAFETY: the set is whole, no information is asked for, and the time is zero.
        let got = unsafe {
            let zero = libc::timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            libc::sigtimedwait(set.as_ref(), std::ptr::null_mut(), &zero)
        };
        if got == signal as i32 {
            signals.push(signal as i32);
        }
    }
    write!(
        seen,
        " screen [{}] readable {readable} signals {signals:?}",
        String::from_utf8_lossy(&screen).escape_debug()
    )
    .expect("writing to a string");
}
