//! Processes, sessions, groups, wait, signals, descriptor tables, pipes and poll.

pub mod block;
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
