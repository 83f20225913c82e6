//! One virtual machine: its system calls and everything around them.
//!
//! This crate joins the ones below it (files, processes, programs) into a machine. It has two
//! faces:
//!
//! * the host's, [`Vm`]: make one from a [`VmConfig`], start processes with a [`SpawnRequest`],
//!   talk to them through a [`Child`], look at and signal everything, dispose of it;
//! * the runtime's, [`Driver`] and [`Task`]: a driver turns a program file into something that
//!   runs, and that runs on a thread of the process's own against one `Task`, whose methods are
//!   Linux's system calls by name.
//!
//! # The way of a spawn
//!
//! `launch` prepares descriptors and directory, then `program` searches `$PATH`, asks the
//! [`Policy`], follows `#!` lines and lets the driver for the header load the file. Only then is
//! an entry made in the process table and a thread of the [`Pool`] given to it. The thread runs
//! one program after the other, as `exec` leaves them, until one ends, and records how.
//!
//! # What else is here
//!
//! [`limits`] names every limit; [`events`] reports what happens; `/proc`, `/dev` and the base
//! tree ([`rootfs`]) are the file systems that belong to no other crate.
//!
//! ```
//! use kernel::{Vm, VmConfig};
//! let vm = Vm::new(VmConfig::default())?;
//! vm.write_file(b"/workspace/greeting", b"hello\n", 0o644).unwrap();
//! assert_eq!(vm.read_file(b"/etc/hostname", 4096).unwrap(), b"agentos\n");
//! assert_eq!(vm.processes().len(), 1);
//! vm.dispose().unwrap();
//! # Ok::<(), kernel::VmError>(())
//! ```

mod cpu;
mod devfs;
pub mod driver;
pub mod env;
pub mod events;
mod launch;
pub mod limits;
mod memory;
pub mod policy;
pub mod pool;
mod procfs;
mod program;
pub mod rootfs;
mod running;
mod sys;
pub mod task;
pub mod users;
pub mod vm;

pub use devfs::makedev;
pub use driver::{Driver, Image, Interrupt, Outcome, Program};
pub use events::{Event, EventQueue, Events};
pub use limits::{LimitError, Limits};
pub use policy::{Confined, Policy, SpawnCheck};
pub use pool::{Pool, PoolConfig};
pub use program::{LoadError, Search};
pub use task::{
    Clock, Dir, ExecCommitted, FallocateMode, FdKind, FileAction, HandlerCall, MaskHow, MsgFlags,
    PollFd, Received, RecordLock, RecordLockCmd, ReservedMemory, SocketKind, SpawnArgs, SpawnAttrs,
    Task, UtsName,
};
pub use vm::{
    Capture, Captured, Child, DisposeError, HostReader, HostTerminal, HostWriter, MountSpec,
    Output, ProcInfo, SpawnError, SpawnRequest, Stdio, Vm, VmConfig, VmError,
};

pub use binfmt;
pub use proctable;
pub use proctable::socket::Shutdown;
pub use proctable::{
    Disposition, ExitStatus, KillTarget, SaFlags, SigAction, SigSet, Signal, WaitEvent,
    WaitOptions, WaitStatus, WaitTarget,
};
pub use pty;
pub use pty::termios::{Termios, Winsize};
pub use vfs_core;
pub use vfs_core::{
    Access, Content, Cred, DirEntry, Errno, FileType, Lookup, MountFlags, OpenFile, OpenFlags,
    PollEvents, RenameFlags, Result, Stat, StatFs, TimeSet, Timespec, Whence,
};

/// `$PATH` of a process that is given none.
pub const DEFAULT_PATH: &str =
    "/usr/local/sbin:/usr/local/bin:/opt/agentos/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Name of the operating system, as `uname` gives it. With the four below it is what the published
/// commands have compiled in, so that all parts of a VM say the same.
pub const SYSNAME: &str = "Linux";
/// Release of the system.
pub const RELEASE: &str = "0.0.1-agentos";
/// Version of the system.
pub const VERSION: &str = "#1 AgentOS Linux-in-WASM";
/// Hardware of the system.
pub const MACHINE: &str = "wasm32";
