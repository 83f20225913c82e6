//! The end of a VM.

use super::Vm;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Processes that were killed and did not end in time; their runtimes do not react to being
/// interrupted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} processes did not end within {waited:?}: {pids:?}", pids.len())]
pub struct DisposeError {
    /// Who is left.
    pub pids: Vec<u32>,
    /// How long was waited.
    pub waited: Duration,
}

impl Vm {
    /// How long [`Vm::dispose`] waits for killed processes.
    pub const DISPOSE_TIMEOUT: Duration = Duration::from_secs(5);

    /// Ends the VM: kills every process, lets none be made any more, and returns when their threads
    /// are back in the pool.
    pub fn dispose(&self) -> Result<(), DisposeError> {
        let vm = &self.inner;
        vm.disposed.store(true, Ordering::Release);
        vm.table.shut_down();
        let deadline = Instant::now() + Vm::DISPOSE_TIMEOUT;
        if vm.table.wait_empty(Some(deadline)) && vm.threads.wait_zero(deadline) {
            return Ok(());
        }
        let alive = vm.table.list();
        let pids = alive
            .iter()
            .filter(|p| p.is_alive() && p.pid() != proctable::INIT_PID)
            .map(|p| p.pid());
        Err(DisposeError {
            pids: pids.collect(),
            waited: Vm::DISPOSE_TIMEOUT,
        })
    }
}
