//! `host_process`: processes, signals, and what preview 1 lacks about descriptors.

mod fds;
mod identity;
mod signals;
mod sockets;
mod spawn;
mod spawn_args;
mod wait;

use crate::guest::Guest;
use wasmtime::{Linker, Result};

pub(crate) use fds::poll_fds;
pub(crate) use sockets::{MSG_TRUNC, message_flags};

/// Defines every function of the module.
pub(crate) fn link(linker: &mut Linker<Guest>) -> Result<()> {
    fds::link(linker)?;
    identity::link(linker)?;
    sockets::link(linker)?;
    spawn::link(linker)?;
    signals::link(linker)?;
    wait::link(linker)
}

/// Defines, over an existing definition, `proc_waitpid` as the first generation of guests imports
/// it.
pub(crate) fn link_first_generation(linker: &mut Linker<Guest>) -> Result<()> {
    wait::link_first_generation(linker)
}
