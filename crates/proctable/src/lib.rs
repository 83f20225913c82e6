//! The processes of one VM, as data: who exists, what is open, which signals wait, who sleeps.
//!
//! Nothing runs here. A process is an entry in a [`ProcTable`] that some thread of the host acts
//! for; this crate gives that thread the parts of a Linux process, with Linux's rules:
//!
//! - [`ProcTable`] makes, lists, signals, waits for and buries processes, and keeps groups and
//!   sessions. One per VM.
//! - [`Process`] is one of them: identity, image, credentials, directories, limits, CPU time, and
//!   the two parts with a life of their own, [`FdTable`] and [`SignalState`].
//! - [`block_on`] is how a call blocks: it sleeps on any number of wait queues and ends with
//!   `EINTR` when a signal can be delivered. [`poll`](poll::poll), [`io::read`], [`io::write`],
//!   [`ProcTable::wait_blocking`] and [`fifo::complete_open`] are made of it.
//! - [`pipe`], [`fifo`] and [`socket`] are what processes talk through.
//! - [`limits`] names every bound, and tells the host when one is near or reached.
//!
//! # A process's life
//!
//! ```
//! use proctable::*;
//! use std::sync::Arc;
//!
//! let table = ProcTable::new(ProcLimits::default(), Arc::new(NoEvents));
//! let image = Image { argv: Arc::from([b"true".to_vec()]), ..Image::default() };
//! let shell = table.create(table.init(), NewProcess::new(image.clone(), FdTable::new()))?;
//! let child = table.create(&shell, NewProcess::new(image, shell.fds().fork()))?;
//!
//! // A thread acts for the child; here it is killed before it does anything.
//! table.kill(Some(&shell), KillTarget::Pid(child.pid()), Some(Signal::TERM)).unwrap();
//! if let Some(Delivery::Terminate { signal, core }) = child.take_signal() {
//!     table.exit(&child, ExitStatus::Signal { signal, core });
//! }
//!
//! let options = WaitOptions::empty();
//! let event = table.wait_blocking(&shell, WaitTarget::Any, options, None).unwrap().unwrap();
//! assert_eq!((event.pid, event.status.raw()), (child.pid(), 15));
//! # Ok::<(), CreateError>(())
//! ```
//!
//! # What a thread that acts for a process does
//!
//! At each boundary of guest work, and when its [`Interrupter`] was called, it takes signals with
//! [`Process::take_signal`] until there is none: it ends on `Terminate`, calls
//! [`Process::wait_while_stopped`] on `Stop`, runs the guest's handler on `Handler` and then
//! [`SignalState::sigreturn`]. A call that came back with `EINTR` is started again if no handler
//! ran, or if every handler that ran has `SA_RESTART` and the call is one of those that restart
//! (signal(7)); else the guest sees `EINTR`.
//!
//! # Locks
//!
//! From first to last; whoever holds one may take only later ones.
//!
//! 1. `FifoTable::open`, `SocketLimits::passing`
//! 2. the tree lock (`ProcTable::tree`): parents, children, groups, sessions, being a zombie
//! 3. `SignalState::inner`; `FdTable::slots`; the one-field locks of [`Process`]
//! 4. a pipe's `write_side`, `read_side`, `state`; a socket's `inbox`, one at a time
//! 5. a wait queue's own lock, then a waiter's
//!
//! An open file description is never let go under any of them, because closing runs code of
//! whoever made it. State is changed under its own lock and sleepers are woken after, so that one
//! who has registered and then looked cannot miss a change.

pub mod block;
mod eager;
mod exec;
mod exit;
pub mod fdtable;
pub mod fifo;
pub mod io;
mod kill;
pub mod limits;
pub mod pipe;
pub mod poll;
mod process;
mod ring;
pub mod rlimit;
mod session;
pub mod signal;
mod sigstate;
pub mod socket;
mod stall;
mod sync;
mod table;
pub mod timer;
mod wait;

pub use block::block_on;
pub use exec::ExecImage;
pub use fdtable::{CloseHook, FdEntry, FdTable};
pub use kill::KillTarget;
pub use limits::{LimitEvents, LimitExceeded, NoEvents, ProcLimits};
pub use process::{FsContext, Image, InWait, Interrupter, NewGroup, NewProcess, Process, State};
pub use session::ControllingTerminal;
pub use signal::{
    DefaultAction, Disposition, SaFlags, SigAction, SigCode, SigInfo, SigSet, Signal,
};
pub use sigstate::{Delivery, MaskHow, SignalState};
pub use table::{CreateError, INIT_PID, ProcTable};
pub use wait::{ExitStatus, Rusage, WaitEvent, WaitOptions, WaitStatus, WaitTarget};
