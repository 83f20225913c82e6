//! Terminals (`ioctl_tty(2)`): modes, size, foreground group, controlling terminal.
//!
//! Every call that needs a terminal gives `EBADF` for a closed descriptor, `ENOTTY` for anything
//! that is no terminal, and `EIO` for a slave whose line was hung up.

use super::Task;
use pty::termios::{Queue, Termios, When, Winsize};
use pty::{Master, Slave, Terminal};
use std::sync::Arc;
use vfs_core::errno::{Errno, Result};
use vfs_core::file::OpenFile;
use vfs_core::types::OpenFlags;

impl Task {
    /// Whether a descriptor is a terminal (`isatty(3)`); `EBADF` if it is closed.
    pub fn isatty(&self, fd: i32) -> Result<bool> {
        Ok(self.file(fd)?.ops().is_terminal())
    }

    /// The open file at a descriptor, if it is a terminal.
    pub fn require_tty(&self, fd: i32) -> Result<Arc<OpenFile>> {
        let file = self.file(fd)?;
        terminal_of(&file)?;
        Ok(file)
    }

    fn terminal(&self, fd: i32) -> Result<Arc<Terminal>> {
        terminal_of(&*self.file(fd)?)
    }

    /// The modes (`tcgetattr(3)`).
    pub fn tcgetattr(&self, fd: i32) -> Result<Termios> {
        Ok(self.terminal(fd)?.termios())
    }

    /// Sets the modes (`tcsetattr(3)`). A background process is stopped by `SIGTTOU` first.
    pub fn tcsetattr(&self, fd: i32, modes: &Termios, when: When) -> Result<()> {
        let terminal = self.terminal(fd)?;
        self.restart(|| terminal.set_termios(Some(&self.process), modes, when))
    }

    /// Puts the terminal into raw mode, or back into the modes it had before. If the process ends
    /// without having done so, that is done for it.
    pub fn set_raw_mode(&self, fd: i32, raw: bool) -> Result<()> {
        let terminal = self.terminal(fd)?;
        let mut saved = self.cooked.borrow_mut();
        let modes = if raw {
            let before = terminal.termios();
            if saved.is_none() {
                *saved = Some((terminal.clone(), before));
            }
            let mut modes = before;
            modes.make_raw();
            modes
        } else {
            match saved.take() {
                Some((of, modes)) if Arc::ptr_eq(&of, &terminal) => modes,
                other => {
                    *saved = other;
                    Termios {
                        cflag: terminal.termios().cflag,
                        ..Termios::default()
                    }
                }
            }
        };
        drop(saved);
        self.restart(|| terminal.set_termios(Some(&self.process), &modes, When::Now))
    }

    /// Gives a terminal that this process left raw its modes back.
    pub(super) fn restore_modes(&self) {
        if let Some((terminal, modes)) = self.cooked.take() {
            // Without a process there is no job control, and so nothing to fail.
            let _ = terminal.set_termios(None, &modes, When::Now);
        }
    }

    /// The window size (`TIOCGWINSZ`).
    pub fn tcgetwinsize(&self, fd: i32) -> Result<Winsize> {
        Ok(self.terminal(fd)?.winsize())
    }

    /// Sets the window size (`TIOCSWINSZ`); the foreground group gets `SIGWINCH` if it changed.
    pub fn tcsetwinsize(&self, fd: i32, size: Winsize) -> Result<()> {
        self.terminal(fd)?.set_winsize(size);
        Ok(())
    }

    /// The foreground group (`tcgetpgrp(3)`).
    pub fn tcgetpgrp(&self, fd: i32) -> Result<u32> {
        self.terminal(fd)?.get_foreground(&self.process)
    }

    /// Sets the foreground group (`tcsetpgrp(3)`).
    pub fn tcsetpgrp(&self, fd: i32, pgid: i32) -> Result<()> {
        let terminal = self.terminal(fd)?;
        self.restart(|| terminal.set_foreground(&self.process, pgid))
    }

    /// The session of a terminal (`tcgetsid(3)`).
    pub fn tcgetsid(&self, fd: i32) -> Result<u32> {
        self.terminal(fd)?.get_session(&self.process)
    }

    /// Throws queued bytes away (`tcflush(3)`).
    pub fn tcflush(&self, fd: i32, queue: Queue) -> Result<()> {
        let terminal = self.terminal(fd)?;
        self.restart(|| terminal.flush(Some(&self.process), queue))
    }

    /// Makes a terminal the controlling one of the caller's session (`TIOCSCTTY`).
    pub fn set_controlling_tty(&self, fd: i32, steal: bool) -> Result<()> {
        self.terminal(fd)?.set_controlling(&self.process, steal)
    }

    /// Gives the controlling terminal up (`TIOCNOTTY`).
    pub fn give_up_tty(&self, fd: i32) -> Result<()> {
        self.terminal(fd)?.give_up(&self.process)
    }

    /// Number of the terminal behind a master: its slave is `/dev/pts/N` (`ptsname(3)`).
    pub fn pty_number(&self, fd: i32) -> Result<u32> {
        let file = self.file(fd)?;
        Ok(Master::of(&file).ok_or(Errno::ENOTTY)?.terminal().index())
    }

    /// Allows or forbids opening the slave of a master (`TIOCSPTLCK`, `unlockpt(3)`).
    pub fn lock_pty(&self, fd: i32, locked: bool) -> Result<()> {
        let file = self.file(fd)?;
        Master::of(&file)
            .ok_or(Errno::ENOTTY)?
            .terminal()
            .set_locked(locked);
        Ok(())
    }

    /// Makes a terminal and opens both sides, master first (`openpty(3)`).
    pub fn openpty(&self) -> Result<(i32, i32)> {
        let (master, slave) = self.at(super::Dir::Root, b"/", |at| self.vm.open_pty(at))?;
        self.insert_pair(master, slave, false)
    }
}

/// The terminal behind an open file that is one and was not hung up.
fn terminal_of(file: &OpenFile) -> Result<Arc<Terminal>> {
    if Slave::of(file).is_some_and(Slave::hung_up) {
        return Err(Errno::EIO);
    }
    // What is opened as a location alone is nothing to control.
    if file.flags().contains(OpenFlags::PATH) {
        return Err(Errno::EBADF);
    }
    pty::terminal_of(file).cloned().ok_or(Errno::ENOTTY)
}
