//! Carries keys from a terminal of the host to one of a VM, and the picture back.
//!
//! Two threads, one for each direction, asleep unless there is something to carry. Each takes no
//! more than the other end has room for: a screen that is not read stops the guest's output, and a
//! guest that does not read stops the keyboard, both once the terminal's own buffers are full.

use kernel::{Errno, HostTerminal};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::unistd::{read, write};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Weak};
use vfs_core::file::OpenFile;
use vfs_core::wait::{PollEvents, Waiter};

/// Bytes carried at once; a terminal's own buffers are no larger.
const PIECE: usize = 4096;

/// What has come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The keyboard is gone: the host's terminal was hung up.
    Keyboard,
    /// The screen takes nothing any more.
    Screen,
    /// Everything is shown that there was to show after [`Relay::finish`].
    Shown,
}

/// Two directions under way. Dropping it lets go of the VM's terminal.
pub struct Relay {
    /// The only lasting hold on the master: without it the line is hung up.
    master: Option<Arc<OpenFile>>,
    keyboard: Arc<Control>,
    screen: Arc<Control>,
}

/// How a thread is told.
struct Control {
    /// One of the constants below.
    state: AtomicU8,
    /// Wakes it where it waits for the VM's terminal.
    waiter: Arc<Waiter>,
    /// Wakes it where it waits for the host's.
    bell: EventFd,
}

/// Carry on.
const CARRY: u8 = 0;
/// Carry what there is, then end.
const FINISH: u8 = 1;
/// End.
const STOP: u8 = 2;

impl Control {
    fn new() -> io::Result<Arc<Control>> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        Ok(Arc::new(Control {
            state: AtomicU8::new(CARRY),
            waiter: Waiter::new(),
            bell: EventFd::from_value_and_flags(0, flags)?,
        }))
    }

    fn tell(&self, state: u8) {
        self.state.fetch_max(state, Ordering::SeqCst);
        self.waiter.notify();
        // It fails only when the counter is full, and then the thread is awake anyway.
        let _ = self.bell.write(1);
    }

    fn state(&self) -> u8 {
        self.state.load(Ordering::SeqCst)
    }

    /// Repeats `attempt` until it gives something other than `EAGAIN`; `None` once the thread was
    /// told something.
    fn until<T>(
        &self,
        file: &OpenFile,
        events: PollEvents,
        mut attempt: impl FnMut() -> Result<T, Errno>,
    ) -> Option<Result<T, Errno>> {
        let queue = file.ops().wait_queue()?;
        let _place = queue.register(&self.waiter, events);
        loop {
            match attempt() {
                Err(Errno::EAGAIN) if self.state() != CARRY => return None,
                Err(Errno::EAGAIN) => self.waiter.wait(None),
                done => return Some(done),
            };
        }
    }

    /// Waits for a descriptor of the host; false once the thread was told something.
    fn ready(&self, fd: &OwnedFd, events: PollFlags) -> bool {
        loop {
            if self.state() != CARRY {
                return false;
            }
            let mut fds = [
                PollFd::new(fd.as_fd(), events),
                PollFd::new(self.bell.as_fd(), PollFlags::POLLIN),
            ];
            if poll(&mut fds, PollTimeout::NONE).is_ok() && fds[0].any().unwrap_or(true) {
                return true;
            }
        }
    }
}

impl Relay {
    /// Starts to carry between `terminal` and the two descriptors, which are read and written as
    /// they are. `ended` is called once by each direction that comes to its end by itself.
    pub fn start(
        terminal: &HostTerminal,
        keyboard: OwnedFd,
        screen: OwnedFd,
        ended: impl Fn(End) + Clone + Send + 'static,
    ) -> io::Result<Relay> {
        let master = terminal.reader().file().clone();
        let (file, tell) = (Arc::downgrade(&master), ended.clone());
        let screen = start("screen", move |control| {
            if let Some(end) = show(control, &file, &screen) {
                tell(end);
            }
        })?;
        let file = Arc::downgrade(&master);
        let keyboard = start("keyboard", move |control| {
            if let Some(end) = type_in(control, &file, &keyboard) {
                ended(end);
            }
        })?;
        Ok(Relay {
            master: Some(master),
            keyboard,
            screen,
        })
    }

    /// The guest has ended: takes no key any more, and calls `ended` with [`End::Shown`] when all
    /// that the guest wrote is on the screen.
    pub fn finish(&mut self) {
        self.keyboard.tell(STOP);
        self.screen.tell(FINISH);
    }

    /// Lets go of the VM's terminal, whose line is hung up unless somebody else holds it too. What
    /// was not shown yet is lost.
    pub fn let_go(&mut self) {
        self.keyboard.tell(STOP);
        // This thread may sit in a write that never ends; it holds nothing there.
        self.screen.tell(STOP);
        self.master = None;
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.let_go();
    }
}

/// Starts the thread of one direction. Nobody waits for its end: it may sit in a call of the host
/// that has none.
fn start(name: &str, run: impl FnOnce(&Control) + Send + 'static) -> io::Result<Arc<Control>> {
    let control = Control::new()?;
    let theirs = control.clone();
    std::thread::Builder::new()
        .name(name.to_owned())
        .stack_size(64 << 10)
        .spawn(move || run(&theirs))?;
    Ok(control)
}

/// From the host's keyboard to the VM's terminal.
fn type_in(control: &Control, master: &Weak<OpenFile>, keyboard: &OwnedFd) -> Option<End> {
    let mut buffer = [0; PIECE];
    while control.ready(keyboard, PollFlags::POLLIN) {
        let mut keys = match read(keyboard, &mut buffer) {
            Ok(0) => return Some(End::Keyboard),
            Ok(n) => &buffer[..n],
            // Somebody who shares the descriptor may have made it nonblocking.
            Err(nix::Error::EINTR | nix::Error::EAGAIN) => continue,
            Err(_) => return Some(End::Keyboard),
        };
        while !keys.is_empty() {
            let file = master.upgrade()?;
            match control.until(&file, PollEvents::OUT, || file.write(keys))? {
                Ok(n) => keys = &keys[n..],
                // Nobody has the terminal open, so nobody gets what was typed.
                Err(_) => break,
            }
        }
    }
    None
}

/// From the VM's terminal to the host's screen.
fn show(control: &Control, master: &Weak<OpenFile>, screen: &OwnedFd) -> Option<End> {
    let mut buffer = [0; PIECE];
    loop {
        let n = {
            let file = master.upgrade()?;
            let read = control.until(&file, PollEvents::IN, || match file.read(&mut buffer) {
                // Closed by everybody; but who still controls the session may open it again.
                Err(Errno::EIO) => Err(Errno::EAGAIN),
                other => other,
            });
            match read {
                Some(Ok(n)) => n,
                Some(Err(_)) => return Some(End::Shown),
                None if control.state() == FINISH => return Some(End::Shown),
                None => return None,
            }
        };
        let mut picture = &buffer[..n];
        while !picture.is_empty() && control.state() != STOP {
            match write(screen, picture) {
                Ok(n) => picture = &picture[n..],
                Err(nix::Error::EINTR) => {}
                Err(nix::Error::EAGAIN) => {
                    let mut fds = [PollFd::new(screen.as_fd(), PollFlags::POLLOUT)];
                    // An error shows in the next write.
                    let _ = poll(&mut fds, PollTimeout::NONE);
                }
                Err(_) => return Some(End::Screen),
            }
        }
    }
}
