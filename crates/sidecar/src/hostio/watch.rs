//! Tells sleeping guests when a descriptor of the host is ready.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use vfs_core::wait::WaitQueue;

/// One descriptor and who waits for it. The thread that polls it is started when a guest first
/// finds it not ready, and polls only what guests have asked for since it last told them.
pub(super) struct Watch {
    shared: Arc<Shared>,
}

struct Shared {
    fd: Arc<OwnedFd>,
    /// What the descriptor can become ready for at all.
    possible: PollFlags,
    queue: WaitQueue,
    state: Mutex<State>,
}

struct State {
    /// What to poll for.
    wanted: PollFlags,
    /// Wakes the thread; present once it runs.
    bell: Option<Arc<EventFd>>,
    stopped: bool,
}

impl Watch {
    /// No thread yet.
    pub(super) fn new(fd: Arc<OwnedFd>, possible: PollFlags) -> Watch {
        let state = State {
            wanted: PollFlags::empty(),
            bell: None,
            stopped: false,
        };
        let (queue, state) = (WaitQueue::new(), Mutex::new(state));
        Watch {
            shared: Arc::new(Shared {
                fd,
                possible,
                queue,
                state,
            }),
        }
    }

    /// Who is told.
    pub(super) fn queue(&self) -> &WaitQueue {
        &self.shared.queue
    }

    /// Asks to wake the queue when any of `events` comes. The caller has registered with the queue
    /// before it looked, so no wake-up is lost.
    pub(super) fn arm(&self, events: PollFlags) {
        let events = events & self.shared.possible;
        let mut state = self
            .shared
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if events.is_empty() || state.stopped || state.wanted.contains(events) {
            return;
        }
        state.wanted |= events;
        match &state.bell {
            Some(bell) => ring(bell),
            None => {
                if !self.start(&mut state) {
                    // Without a thread nobody would ever be woken: let them try again at once.
                    state.wanted = PollFlags::empty();
                    drop(state);
                    self.shared.queue.wake_all();
                }
            }
        }
    }

    /// Ends the thread; nobody will wait any more.
    pub(super) fn stop(&self) {
        let mut state = self
            .shared
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        state.stopped = true;
        if let Some(bell) = &state.bell {
            ring(bell);
        }
    }

    fn start(&self, state: &mut State) -> bool {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let Ok(bell) = EventFd::from_value_and_flags(0, flags) else {
            return false;
        };
        let bell = Arc::new(bell);
        let (shared, thread_bell) = (self.shared.clone(), bell.clone());
        let started = std::thread::Builder::new()
            .name("host-stream".to_owned())
            .stack_size(64 << 10)
            .spawn(move || shared.run(&thread_bell));
        if started.is_ok() {
            state.bell = Some(bell);
        }
        started.is_ok()
    }
}

impl Shared {
    fn run(&self, bell: &EventFd) {
        loop {
            let wanted = {
                let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
                if state.stopped {
                    return;
                }
                state.wanted
            };
            // A descriptor polled for nothing still reports a hang-up, again and again.
            let mut fds = [
                PollFd::new(bell.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.fd.as_fd(), wanted),
            ];
            let watched = if wanted.is_empty() { 1 } else { 2 };
            if poll(&mut fds[..watched], PollTimeout::NONE).is_err() {
                continue;
            }
            if fds[0].any().unwrap_or(false) {
                // Only its ringing matters, not how often it rang.
                let _ = bell.read();
            }
            if watched == 2 && fds[1].any().unwrap_or(true) {
                self.state
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .wanted = PollFlags::empty();
                self.queue.wake_all();
            }
        }
    }
}

fn ring(bell: &EventFd) {
    // It fails only when the counter is full, and then the thread is awake anyway.
    let _ = bell.write(1);
}
