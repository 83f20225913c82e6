//! Getting a process to look at its signals, and what it finds there.

use super::{Interrupter, Process};
use crate::rlimit::Resource;
use crate::signal::{SigInfo, Signal};
use crate::sigstate::{Delivery, Taken};
use crate::sync::lock;
use crate::table::Wakes;
use vfs_core::errno::Result;

impl Process {
    /// Sets whom to call when it should stop computing and look at its signals. If there is
    /// something to look at already, it is called at once.
    pub fn set_interrupter(&self, interrupter: Option<Interrupter>) {
        let call = interrupter.clone();
        let old = std::mem::replace(&mut *lock(&self.interrupter), interrupter);
        drop(old);
        if let Some(call) = call
            && self.signals.interrupted()
        {
            call();
        }
    }

    /// Wakes it from a blocking call and from computing.
    pub(crate) fn kick(&self) {
        self.waiter.notify();
        let call = lock(&self.interrupter).clone();
        if let Some(call) = call {
            call();
        }
    }

    /// Posts a signal from the system itself.
    pub fn raise(&self, signal: Signal) {
        // Cannot fail: details of a signal from the system may be dropped.
        let _ = self.post(SigInfo::kernel(signal));
    }

    /// Posts a signal without asking for permission; `EAGAIN` if it carries a value and the queue
    /// is full.
    pub fn post(&self, info: SigInfo) -> Result<()> {
        match self.table.upgrade() {
            // Continuing tells the parent, for which the tree must hold still.
            Some(table) if info.signal == Signal::CONT => {
                let mut wakes = Wakes::default();
                let sent = table.post_in(&table.tree(), self, info, &mut wakes);
                wakes.fire();
                sent
            }
            _ => {
                if self.signals.post(info)?.wake {
                    self.kick();
                }
                Ok(())
            }
        }
    }

    /// Takes the next thing to do about signals; `None` when there is nothing. With
    /// [`Delivery::Stop`] the process is stopped already and its parent knows.
    pub fn take_signal(&self) -> Option<Delivery> {
        // The usual answer costs one load. A temporary mask is put back by `take`, which a call
        // that set one makes sure to reach.
        if !self.signals.interrupted() && !self.signals.has_temporary_mask() {
            return None;
        }
        loop {
            match self.signals.take() {
                Taken::Nothing => return None,
                Taken::Deliver(Delivery::Terminate { signal, core }) => {
                    // Without room for a core image there is none (`do_coredump`).
                    let core = core && self.rlimit(Resource::Core).soft > 0;
                    return Some(Delivery::Terminate { signal, core });
                }
                Taken::Deliver(delivery) => return Some(delivery),
                Taken::Stop(info) => {
                    let stopped = match self.table.upgrade() {
                        Some(table) => table.stop(self, info.signal),
                        None => false,
                    };
                    if stopped {
                        return Some(Delivery::Stop(info.signal));
                    }
                }
            }
        }
    }

    /// Sleeps while it is stopped. Returns at once if it is not; ends when it is continued or
    /// killed.
    pub fn wait_while_stopped(&self) {
        while self.signals.stopped().is_some() {
            self.waiter.wait(None);
        }
    }
}
