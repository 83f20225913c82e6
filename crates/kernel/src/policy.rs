//! The permission policy of a VM.
//!
//! One policy governs every process of a VM; a program can't grant itself anything. Inside the
//! VM, files, processes and pipes are guarded by Linux's own rules. The policy speaks where
//! something new comes into being (a program is started) or where the VM would be left (the
//! network), and is trusted input: it belongs to the host.

use vfs_core::errno::{Errno, Result};
use vfs_core::types::Cred;

/// A program that is about to be started, by `spawn` or `exec`.
pub struct SpawnCheck<'a> {
    /// The process that asks; 0 for the host.
    pub pid: u32,
    /// The file as it was named, after the `$PATH` search.
    pub path: &'a [u8],
    /// Arguments.
    pub argv: &'a [Vec<u8>],
    /// With whose rights it will run.
    pub cred: &'a Cred,
}

/// Decides what a VM may do. Called on guest threads: it must not block.
pub trait Policy: Send + Sync {
    /// Whether a program may be started; an error is what the caller gets, `EPERM` or `EACCES`.
    fn spawn(&self, check: &SpawnCheck<'_>) -> Result<()> {
        let _ = check;
        Ok(())
    }

    /// Whether a socket of this address family (Linux number) that leaves the VM may be made.
    fn network(&self, pid: u32, family: u32) -> Result<()> {
        let _ = (pid, family);
        Err(Errno::EACCES)
    }
}

/// Allows everything within the VM and nothing outside it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Confined;

impl Policy for Confined {}
