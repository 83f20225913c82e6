//! `poll(2)` and `ppoll(2)` over any open file.

use crate::block::block_on;
use crate::process::Process;
use crate::signal::SigSet;
use std::sync::Arc;
use std::time::Instant;
use vfs_core::errno::{Errno, Result};
use vfs_core::file::OpenFile;
use vfs_core::wait::{PollEvents, WaitQueue};

/// What one entry of the list is about.
#[derive(Clone, Debug)]
pub enum PollTarget {
    /// A negative number: passed over.
    Nothing,
    /// A number that is not open: `NVAL`.
    Closed,
    /// An open file.
    File(Arc<OpenFile>),
}

/// One entry of the list (`struct pollfd`).
#[derive(Clone, Debug)]
pub struct PollFd {
    /// The file.
    pub target: PollTarget,
    /// Events asked for; errors and hang-ups come unasked.
    pub events: PollEvents,
    /// Events that are there.
    pub revents: PollEvents,
}

impl PollFd {
    /// An entry for the descriptor `fd` of `process`.
    pub fn for_fd(process: &Process, fd: i32, events: PollEvents) -> PollFd {
        let target = match process.fds().get(fd) {
            Ok(file) => PollTarget::File(file),
            Err(_) if fd < 0 => PollTarget::Nothing,
            Err(_) => PollTarget::Closed,
        };
        PollFd {
            target,
            events,
            revents: PollEvents::empty(),
        }
    }

    /// An entry for an open file.
    pub fn for_file(file: Arc<OpenFile>, events: PollEvents) -> PollFd {
        PollFd {
            target: PollTarget::File(file),
            events,
            revents: PollEvents::empty(),
        }
    }

    fn look(&self) -> PollEvents {
        match &self.target {
            PollTarget::Nothing => PollEvents::empty(),
            PollTarget::Closed => PollEvents::NVAL,
            PollTarget::File(file) => {
                file.poll() & (self.events | PollEvents::ERR | PollEvents::HUP)
            }
        }
    }
}

/// Waits until a file of the list is ready and returns how many are, 0 at the deadline; a
/// deadline that has passed only looks. `EINTR` when a signal can be delivered.
pub fn poll(list: &mut [PollFd], deadline: Option<Instant>, process: &Process) -> Result<usize> {
    let mut seen = vec![PollEvents::empty(); list.len()];
    let shared: &[PollFd] = list;
    let mut scan = || {
        let mut ready = 0;
        for (entry, seen) in shared.iter().zip(&mut seen) {
            *seen = entry.look();
            ready += usize::from(!seen.is_empty());
        }
        if ready > 0 {
            Ok(ready)
        } else {
            Err(Errno::EAGAIN)
        }
    };
    let queues: Vec<(&WaitQueue, PollEvents)> = shared
        .iter()
        .filter_map(|entry| match &entry.target {
            PollTarget::File(file) => Some((file.ops().wait_queue()?, entry.events)),
            _ => None,
        })
        .collect();
    let ready = match block_on(process, &queues, deadline, &mut scan) {
        Err(Errno::ETIMEDOUT) => Ok(0),
        other => other,
    };
    for (entry, seen) in list.iter_mut().zip(seen) {
        entry.revents = seen;
    }
    ready
}

/// The same with another signal mask while it waits. After `EINTR` the mask stays until the
/// process has taken its signals ([`Process::take_signal`]), so that a signal only this mask lets
/// in is delivered.
pub fn ppoll(
    list: &mut [PollFd],
    deadline: Option<Instant>,
    mask: Option<SigSet>,
    process: &Process,
) -> Result<usize> {
    let Some(mask) = mask else {
        return poll(list, deadline, process);
    };
    process.signals().begin_temporary_mask(mask);
    let result = poll(list, deadline, process);
    if result != Err(Errno::EINTR) {
        process.signals().end_temporary_mask();
    }
    result
}
