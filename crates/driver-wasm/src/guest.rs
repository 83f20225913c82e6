//! The state of one running guest: what a store owns, and how a host call ends.

use crate::engine::Engine;
use crate::limits::MemoryLimits;
use crate::link::Linked;
use crate::memory::Memory;
use kernel::proctable::Signal;
use kernel::{Dir, Errno, FdKind, FileType, Task};
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;
use wasmtime::{Caller, Extern, TypedFunc};

/// Set in the numbers of the hidden preopened directories; see [`Guest::dir`].
pub(crate) const PREOPEN_TAG: u32 = 0x4000_0000;
/// The first preopened directory, as everywhere in WASI.
pub(crate) const FIRST_PREOPEN: u32 = 3;

/// What a store owns: the guest's side of one process.
pub(crate) struct Guest {
    /// The process.
    pub(crate) task: TaskSlot,
    /// The engine that runs it.
    pub(crate) engine: &'static Engine,
    /// The program, from which clones are made.
    pub(crate) linked: Arc<Linked>,
    /// Arguments and environment as the guest reads them.
    pub(crate) strings: Arc<Strings>,
    /// Absolute names of the preopened directories: the working directory, then `/`.
    pub(crate) preopens: Arc<[Vec<u8>]>,
    /// Creation mode for the next `path_open` (`host_fs.set_open_mode`).
    pub(crate) open_mode: Option<u32>,
    /// `O_DIRECT` for the next `path_open` (`host_fs.set_open_direct`).
    pub(crate) open_direct: bool,
    /// Whether the preopened directories are ordinary descriptors too; see
    /// [`crate::preview1::prestat`].
    pub(crate) plain_preopens: bool,
    /// Bounds of memory and tables.
    pub(crate) limits: MemoryLimits,
    /// How far the instance is.
    pub(crate) phase: Phase,
    /// The exported memory, once instantiated.
    pub(crate) memory: Option<wasmtime::Memory>,
    /// The exported signal trampoline, if the guest has one.
    pub(crate) trampoline: Option<TypedFunc<u32, ()>>,
}

/// The task of a guest. Only a clone that its parent still makes has none; guest code never runs
/// there.
pub(crate) struct TaskSlot(Option<Rc<Task>>);

impl TaskSlot {
    /// No task yet.
    pub(crate) const EMPTY: TaskSlot = TaskSlot(None);

    /// The slot of a guest that runs on this thread.
    pub(crate) fn of(task: &Rc<Task>) -> TaskSlot {
        TaskSlot(Some(task.clone()))
    }
}

impl Deref for TaskSlot {
    type Target = Rc<Task>;

    fn deref(&self) -> &Rc<Task> {
        match &self.0 {
            Some(task) => task,
            None => unreachable!("a guest that has no task yet makes no calls"),
        }
    }
}

/// How far an instance is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It is being made.
    Making,
    /// It is being made, and the module's start function has run.
    Starting,
    /// It is complete; the module has no start function.
    Plain,
    /// It is complete; the module has a start function, so an instance of it is not what the
    /// module says but what a run of that function made of it.
    Started,
}

impl Phase {
    /// What follows when instantiation is over.
    pub(crate) fn complete(self) -> Phase {
        match self {
            Phase::Making | Phase::Plain => Phase::Plain,
            Phase::Starting | Phase::Started => Phase::Started,
        }
    }
}

/// Arguments and environment, each string without its NUL.
pub(crate) struct Strings {
    /// Arguments, the program's name first.
    pub(crate) argv: Arc<[Vec<u8>]>,
    /// `KEY=VALUE`.
    pub(crate) env: Vec<Vec<u8>>,
}

impl Guest {
    /// The directory that `dirfd` means in a call that names a path.
    ///
    /// The published guests use more than descriptors: tagged numbers are the preopened
    /// directories, some negative numbers the working directory, and the constant 3 stands for it
    /// too while 3 is no open directory. Absolute paths need no directory; the walk ignores it.
    pub(crate) fn dir(&self, dirfd: u32) -> kernel::Result<Dir> {
        const AT_FDCWD: u32 = -100_i32 as u32;
        const UNSET: u32 = -1_i32 as u32;
        const UNSET_TOO: u32 = -2_i32 as u32;
        match dirfd {
            UNSET | UNSET_TOO | AT_FDCWD => Ok(Dir::Cwd),
            FIRST_PREOPEN => match self.task.fd_kind(FIRST_PREOPEN as i32) {
                Ok(FdKind::File(FileType::Directory)) => Ok(Dir::Fd(FIRST_PREOPEN as i32)),
                _ => Ok(Dir::Cwd),
            },
            tagged if tagged & PREOPEN_TAG != 0 && tagged >> 31 == 0 => self.preopen(tagged),
            fd => Ok(Dir::Fd(fd as i32)),
        }
    }

    /// The preopened directory of a tagged number; `EBADF` if there is none.
    pub(crate) fn preopen(&self, tagged: u32) -> kernel::Result<Dir> {
        match self.preopen_index(tagged) {
            Some(0) => Ok(Dir::Cwd),
            Some(_) => Ok(Dir::Root),
            None => Err(Errno::EBADF),
        }
    }

    /// Place in [`Guest::preopens`] of a tagged number.
    pub(crate) fn preopen_index(&self, tagged: u32) -> Option<usize> {
        let index = (tagged ^ PREOPEN_TAG).checked_sub(FIRST_PREOPEN)? as usize;
        (index < self.preopens.len()).then_some(index)
    }
}

/// A host call's view of the guest that made it.
pub(crate) struct View<'a> {
    /// Linear memory.
    pub(crate) memory: Memory<'a>,
    /// Everything else.
    pub(crate) guest: &'a mut Guest,
}

impl View<'_> {
    /// The process.
    pub(crate) fn task(&self) -> &Rc<Task> {
        &self.guest.task
    }
}

/// Borrows memory and state of the calling guest.
pub(crate) fn view<'a>(caller: &'a mut Caller<'_, Guest>) -> View<'a> {
    let memory = match caller.data().memory {
        Some(memory) => memory,
        // A start function calls before the instance is known, or there is no memory at all.
        None => match caller.get_export("memory") {
            Some(Extern::Memory(memory)) => {
                caller.data_mut().memory = Some(memory);
                memory
            }
            _ => {
                return View {
                    memory: Memory::new(&mut []),
                    guest: caller.data_mut(),
                };
            }
        },
    };
    let (bytes, guest) = memory.data_and_store_mut(&mut *caller);
    View {
        memory: Memory::new(bytes),
        guest,
    }
}

/// Why a guest does not run on after a host call. It travels through Wasmtime as an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum End {
    /// `proc_exit`.
    #[error("exit with status {0}")]
    Exit(i32),
    /// `exec` was committed.
    #[error("replaced by another program")]
    Exec,
    /// A signal ended the process.
    #[error("ended by {0}")]
    Killed(Signal),
}

/// Why a host call has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The guest is told an error number and runs on.
    Errno(Errno),
    /// The guest does not run on.
    End(End),
}

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Stop {
        Stop::Errno(errno)
    }
}

impl From<End> for Stop {
    fn from(end: End) -> Stop {
        Stop::End(end)
    }
}

impl From<kernel::Interrupt> for Stop {
    fn from(interrupt: kernel::Interrupt) -> Stop {
        Stop::End(interrupt.into())
    }
}

impl From<kernel::Interrupt> for End {
    fn from(interrupt: kernel::Interrupt) -> End {
        match interrupt {
            kernel::Interrupt::Die(signal) => End::Killed(signal),
        }
    }
}

/// What most host functions give: nothing, an error number, or the end.
pub(crate) type Done = Result<(), Stop>;
