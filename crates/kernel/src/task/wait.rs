//! Waiting for children.

use super::Task;
use proctable::block::block_on;
use proctable::{WaitEvent, WaitOptions, WaitTarget};
use std::time::{Duration, Instant};
use vfs_core::errno::{Errno, Result};
use vfs_core::wait::PollEvents;

/// How long the first fruitless `WNOHANG` call of a row is parked, in milliseconds.
const FIRST_PARK: u32 = 1;
/// Longest parking of one such call.
const LONGEST_PARK: u32 = 16;

impl Task {
    /// Waits for a child to change state (`waitpid(2)`): `ECHILD` if there is none, `EINTR` if a
    /// signal comes first, `None` with `NOHANG` when nothing has happened.
    ///
    /// The published shell asks with `NOHANG` in a loop that does nothing else. Such a call is
    /// therefore parked: it returns after some milliseconds, longer the more often it was in vain,
    /// or at once when any child changes, unless a child that was not asked for has a report
    /// already, which the caller may be about to ask for next.
    pub fn wait(&self, target: WaitTarget, options: WaitOptions) -> Result<Option<WaitEvent>> {
        let table = &self.vm.table;
        if !options.contains(WaitOptions::NOHANG) {
            return self.restart(|| table.wait_blocking(&self.process, target, options, None));
        }
        if let Some(event) = table.wait(&self.process, target, options)? {
            self.park.set(0);
            return Ok(Some(event));
        }
        let peek =
            (options & (WaitOptions::UNTRACED | WaitOptions::CONTINUED)) | WaitOptions::NOWAIT;
        if table.wait(&self.process, WaitTarget::Any, peek)?.is_some() {
            return Ok(None);
        }
        let park = (self.park.get() * 2).clamp(FIRST_PARK, LONGEST_PARK);
        self.park.set(park);
        let deadline = Instant::now() + Duration::from_millis(u64::from(park));
        let _mark = self.process.enter_wait();
        let queues = [(self.process.child_events(), PollEvents::all())];
        let changed = block_on(&self.process, &queues, Some(deadline), || {
            match table.wait(&self.process, WaitTarget::Any, peek) {
                Ok(None) => Err(Errno::EAGAIN),
                Ok(Some(_)) | Err(_) => Ok(()),
            }
        });
        match changed {
            Ok(()) => {
                self.park.set(0);
                table.wait(&self.process, target, options)
            }
            // A call with WNOHANG does not fail for a signal; the driver sees it at its checkpoint.
            Err(_) => Ok(None),
        }
    }
}
