//! A pseudoterminal of the host, with a program at it that is watched and typed to.

use nix::fcntl::{OFlag, open};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{PtyMaster, Winsize, grantpt, posix_openpt, ptsname_r, unlockpt};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::sys::termios::{LocalFlags, Termios, tcgetattr};
use nix::unistd::Pid;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// Turns a hang into a failure; nothing else depends on it.
const PATIENCE: Duration = Duration::from_secs(60);

/// A terminal nobody sits at yet.
pub(crate) struct Pty {
    master: PtyMaster,
    pub(crate) slave: OwnedFd,
}

impl Pty {
    pub(crate) fn new() -> Pty {
        // Not inherited by what other tests start meanwhile, or it would never be hung up.
        let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        let master = posix_openpt(flags).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname_r(&master).unwrap();
        let slave = open(name.as_str(), flags, Mode::empty()).unwrap();
        Pty { master, slave }
    }

    pub(crate) fn resize(&self, cols: u16, rows: u16) {
        let size = Winsize {
            ws_row: rows,
            ws_col: cols,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        // SAFETY: the descriptor is open, and the call reads the size it is given.
        let set = unsafe { libc::ioctl(self.master.as_raw_fd(), libc::TIOCSWINSZ, &size) };
        assert_eq!(set, 0);
    }

    pub(crate) fn modes(&self) -> Termios {
        tcgetattr(&self.slave).unwrap()
    }
}

/// A program that leads a session of its own at a terminal.
pub(crate) struct Sitting {
    pub(crate) pty: Pty,
    pub(crate) before: Termios,
    pub(crate) child: Child,
    screen: Vec<u8>,
    /// Up to here the screen has been looked at.
    seen: usize,
    /// Whether the test is the emulator that answers where the cursor is.
    answers: bool,
    answered: usize,
}

impl Sitting {
    pub(crate) fn start(command: &mut Command) -> Sitting {
        let pty = Pty::new();
        pty.resize(80, 24);
        let before = pty.modes();
        let stream = || pty.slave.try_clone().unwrap();
        command.stdin(stream()).stdout(stream()).stderr(stream());
        // SAFETY: all calls may be made between fork and exec.
        unsafe {
            command.pre_exec(|| {
                // Whoever runs the tests in the background may ignore signals.
                for number in 1..=64 {
                    libc::signal(number, libc::SIG_DFL);
                }
                if libc::setsid() < 0 || libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            });
        }
        let child = command.spawn().unwrap();
        Sitting {
            pty,
            before,
            child,
            screen: Vec::new(),
            seen: 0,
            answers: false,
            answered: 0,
        }
    }

    /// From now on the test answers like an emulator whose cursor is at home.
    pub(crate) fn answer(&mut self) {
        self.answers = true;
    }

    /// Types, all of it at once.
    pub(crate) fn keys(&mut self, keys: &str) {
        assert_eq!(
            self.pty.master.write(keys.as_bytes()).unwrap(),
            keys.len(),
            "{keys:?}"
        );
    }

    /// Waits until `wanted` has appeared after what was looked at before; gives what came until
    /// there, without it.
    pub(crate) fn expect(&mut self, wanted: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let new = &self.screen[self.seen..];
            let found = new
                .windows(wanted.len())
                .position(|part| part == wanted.as_bytes());
            if let Some(at) = found {
                let text = String::from_utf8_lossy(&new[..at]).into_owned();
                self.seen += at + wanted.len();
                return text;
            }
            assert!(
                self.read(deadline),
                "{wanted:?} did not come after {:?}",
                String::from_utf8_lossy(&self.screen[self.seen..])
            );
        }
    }

    /// Reads some; false at the end or when patience is.
    fn read(&mut self, deadline: Instant) -> bool {
        let left = deadline.saturating_duration_since(Instant::now());
        let mut fds = [PollFd::new(self.pty.master.as_fd(), PollFlags::POLLIN)];
        let timeout = PollTimeout::try_from(left).unwrap();
        if poll(&mut fds, timeout).unwrap() == 0 {
            return false;
        }
        let mut buffer = [0; 4096];
        let n = self.pty.master.read(&mut buffer).unwrap_or(0);
        self.screen.extend(&buffer[..n]);
        const QUESTION: &[u8] = b"\x1b[6n";
        while let Some(at) = self.screen[self.answered..]
            .windows(QUESTION.len())
            .position(|part| part == QUESTION)
        {
            self.answered += at + QUESTION.len();
            if self.answers {
                self.keys("\x1b[1;1R");
            }
        }
        n > 0
    }

    /// Everything not looked at yet that comes until the program has ended, and its status.
    pub(crate) fn rest(&mut self) -> (String, ExitStatus) {
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < deadline, "the program does not end");
            self.read(Instant::now() + Duration::from_millis(20));
        };
        // It has written all it will; the test's own slave keeps the terminal from ending.
        while self.read(Instant::now()) {}
        let text = String::from_utf8_lossy(&self.screen[self.seen..]).into_owned();
        self.seen = self.screen.len();
        (text, status)
    }

    /// Waits for the end; the modes must be as they were. Gives the exit code.
    pub(crate) fn end(&mut self) -> i32 {
        let (text, status) = self.rest();
        assert_eq!(self.pty.modes(), self.before, "{text}");
        status.code().unwrap_or_else(|| panic!("{status}: {text}"))
    }

    pub(crate) fn is_raw(&self) -> bool {
        !self.pty.modes().local_flags.contains(LocalFlags::ICANON)
    }

    pub(crate) fn send(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    /// Waits for the end of the program without a look at its terminal, which is closed.
    pub(crate) fn close(self) -> ExitStatus {
        let Sitting { pty, mut child, .. } = self;
        drop(pty);
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = child.try_wait().unwrap() {
                return status;
            }
            if Instant::now() > deadline {
                child.kill().unwrap();
                panic!("the program outlives its terminal");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
