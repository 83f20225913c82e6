//! The terminal a person sits at: lent to a guest's terminal in raw mode, and given back as it was.
//!
//! While a guest has it every key goes to the guest's own line discipline, and what that shows is
//! shown as it is: there is one discipline between the keyboard and the program, not two.

use kernel::Winsize;
use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};
use nix::unistd::{getpgrp, tcgetpgrp};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

/// A terminal of the host.
#[derive(Clone, Debug)]
pub struct HostTty {
    fd: Arc<OwnedFd>,
}

impl HostTty {
    /// The terminal behind a descriptor, if it is one.
    pub fn of(fd: impl AsFd) -> io::Result<Option<HostTty>> {
        match tcgetattr(fd.as_fd()) {
            Ok(_) => Ok(Some(HostTty {
                fd: Arc::new(fd.as_fd().try_clone_to_owned()?),
            })),
            Err(_) => Ok(None),
        }
    }

    /// Its window size; zeros, as from the kernel, if nobody has set one.
    pub fn size(&self) -> Winsize {
        let mut size = libc::winsize {
            ws_row: 0,
            ws_col: 0,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        // SAFETY: the descriptor is open as long as `self` lives, and the call writes a `winsize`
        // to the one it is given.
        let failed = unsafe { libc::ioctl(self.fd.as_raw_fd(), libc::TIOCGWINSZ, &mut size) } < 0;
        if failed {
            return Winsize::default();
        }
        Winsize {
            rows: size.ws_row,
            cols: size.ws_col,
            xpixel: size.ws_xpixel,
            ypixel: size.ws_ypixel,
        }
    }

    /// Puts it into raw mode until what is returned is dropped. A program in the background is
    /// stopped here by the host, as with any other change of the modes, until it is brought to the
    /// foreground.
    pub fn raw(&self) -> io::Result<RawMode> {
        let before = tcgetattr(&self.fd)?;
        let raw = RawMode {
            tty: self.clone(),
            before,
        };
        raw.again()?;
        Ok(raw)
    }

    /// Whether another job has the terminal. One that does not control us has no jobs of ours.
    fn in_background(&self) -> bool {
        tcgetpgrp(&self.fd).is_ok_and(|foreground| foreground != getpgrp())
    }
}

impl AsFd for HostTty {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A terminal in raw mode. Dropping it, in a panic too, gives the terminal its modes back.
pub struct RawMode {
    tty: HostTty,
    before: Termios,
}

impl RawMode {
    /// Raw mode once more, after [`RawMode::leave`] or when somebody else has changed the modes
    /// while we were stopped.
    pub fn again(&self) -> io::Result<()> {
        let mut modes = self.before.clone();
        cfmakeraw(&mut modes);
        retry(|| tcsetattr(&self.tty, SetArg::TCSADRAIN, &modes))
    }

    /// The modes of before, for now. Modes that belong to another job are left alone: whoever
    /// brought that job to the foreground has set them.
    pub fn leave(&self) -> io::Result<()> {
        if self.tty.in_background() {
            return Ok(());
        }
        // If we are sent to the background just now, this must not stop us on our way out.
        let stop: SigSet = [Signal::SIGTTOU].into_iter().collect();
        let mask = SigSet::thread_get_mask()?;
        stop.thread_block()?;
        // Not TCSADRAIN: nobody may be taking what was written, and we want to leave.
        let result = retry(|| tcsetattr(&self.tty, SetArg::TCSANOW, &self.before));
        mask.thread_set_mask()?;
        result
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        // A terminal that is gone has no modes to give back.
        let _ = self.leave();
    }
}

fn retry(mut call: impl FnMut() -> nix::Result<()>) -> io::Result<()> {
    loop {
        match call() {
            Err(Errno::EINTR) => {}
            result => return Ok(result?),
        }
    }
}
