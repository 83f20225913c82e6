//! Waiting for several descriptors at once.

use super::Task;
use proctable::{SigSet, poll};
use std::time::{Duration, Instant};
use vfs_core::errno::{Errno, Result};
use vfs_core::wait::PollEvents;

/// One descriptor to look at (`struct pollfd`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PollFd {
    /// The descriptor; a negative one is passed over.
    pub fd: i32,
    /// Events asked for.
    pub events: PollEvents,
    /// Events that are there; set by the call.
    pub revents: PollEvents,
}

impl Task {
    /// Waits until a descriptor is ready and returns how many are, 0 when the time is up
    /// (`ppoll(2)`). No timeout waits for ever, a zero one only looks. With a mask, that is the
    /// signal mask while it waits. More entries than `RLIMIT_NOFILE` are `EINVAL`.
    pub fn poll(
        &self,
        fds: &mut [PollFd],
        timeout: Option<Duration>,
        mask: Option<SigSet>,
    ) -> Result<usize> {
        if fds.len() as u64 > self.process.fds().limit() {
            return Err(Errno::EINVAL);
        }
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut list: Vec<poll::PollFd> = fds
            .iter()
            .map(|fd| poll::PollFd::for_fd(&self.process, fd.fd, fd.events))
            .collect();
        let ready = self.restart(|| poll::ppoll(&mut list, deadline, mask, &self.process))?;
        for (fd, seen) in fds.iter_mut().zip(&list) {
            fd.revents = seen.revents;
        }
        Ok(ready)
    }
}
