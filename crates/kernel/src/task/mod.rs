//! The system calls of one guest process.
//!
//! A [`Task`] belongs to the thread that runs a process, and is all a driver ever holds. Its
//! methods are named after the system calls they are and take bytes and numbers; the driver
//! translates its guest's ABI to them. One file here is one family of calls.
//!
//! A call that blocks sleeps until it can go on or a signal wants attention, and then fails with
//! `EINTR`; the driver runs the handler ([`Task::next_handler`]) or ends
//! ([`Task::checkpoint`]), and starts the call again if every handler said `SA_RESTART`.

mod attrs;
mod creds;
mod dirs;
mod exec;
mod files;
mod locks;
mod pipes;
mod poll;
mod procs;
mod signal;
mod sockets;
mod spawn;
mod time;
mod tty;
mod users;
mod wait;
mod xattrs;

pub(crate) use creds::MAX_GROUPS;
pub use exec::ExecCommitted;
pub use files::{FallocateMode, FdKind};
pub use locks::{RecordLock, RecordLockCmd};
pub use poll::PollFd;
pub use procs::UtsName;
pub use signal::{HandlerCall, MaskHow};
pub use sockets::{MsgFlags, Received, SocketKind};
pub use spawn::{FileAction, Search, SpawnArgs, SpawnAttrs};
pub use time::Clock;

use crate::driver::Program;
use crate::events::Event;
use crate::vm::VmInner;
use proctable::{FsContext, Process};
use pty::Terminal;
use pty::termios::Termios;
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;
use vfs_core::errno::{Errno, Result};
use vfs_core::file::OpenFile;
use vfs_core::namei::{At, Path};
use vfs_core::types::Caller;

/// From where a relative path starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dir {
    /// The working directory.
    Cwd,
    /// The process's root directory.
    Root,
    /// The directory open at this descriptor.
    Fd(i32),
}

/// One guest process as its driver sees it. It stays on the thread it was made for.
pub struct Task {
    vm: Arc<VmInner>,
    process: Arc<Process>,
    /// The image that a committed `exec` left for the run loop.
    next: RefCell<Option<Box<dyn Program>>>,
    /// Guest memory charged to the process now.
    memory: Cell<u64>,
    /// `RLIMIT_FSIZE`, kept here because every write looks at it and only this process sets it.
    file_bytes: Cell<u64>,
    /// Handler calls that [`Task::checkpoint`] came across and the driver has not taken yet, the
    /// next one last.
    handlers: RefCell<Vec<HandlerCall>>,
    /// Modes of a terminal before this process made it raw.
    cooked: RefCell<Option<(Arc<Terminal>, Termios)>>,
    /// How long the next fruitless `wait` with `WNOHANG` is parked; see `wait.rs`.
    park: Cell<u32>,
    on_its_thread: PhantomData<Rc<()>>,
}

impl Task {
    pub(crate) fn new(vm: Arc<VmInner>, process: Arc<Process>) -> Task {
        let task = Task {
            vm,
            process,
            next: RefCell::new(None),
            memory: Cell::new(0),
            file_bytes: Cell::new(u64::MAX),
            handlers: RefCell::new(Vec::new()),
            cooked: RefCell::new(None),
            park: Cell::new(0),
            on_its_thread: PhantomData,
        };
        task.refresh_file_limit();
        task
    }

    /// Takes the program that `exec` left.
    pub(crate) fn take_next(&self) -> Option<Box<dyn Program>> {
        self.next.borrow_mut().take()
    }

    /// Changes the guest memory charged to this process to `bytes`; `false`, and no change, if
    /// that is beyond the limit of the process or of the VM. What is charged is given back when
    /// the process ends or replaces its image.
    #[must_use]
    pub fn charge_memory(&self, bytes: u64) -> bool {
        let old = self.memory.get();
        if bytes > old
            && (bytes > self.memory_limit() || !self.vm.memory.grow(bytes - old, self.pid()))
        {
            return false;
        }
        if bytes < old {
            self.vm.memory.shrink(old - bytes);
        }
        self.memory.set(bytes);
        self.vm.running.set_memory(self.pid(), bytes);
        true
    }

    /// Charges `bytes` of guest memory to the VM for a child that [`Task::fork`] will make, before
    /// its memory is; `ENOMEM` if that is beyond the limit of a process or of the VM.
    pub fn reserve_memory(&self, bytes: u64) -> Result<ReservedMemory> {
        if bytes > self.memory_limit() || !self.vm.memory.grow(bytes, self.pid()) {
            return Err(Errno::ENOMEM);
        }
        Ok(ReservedMemory {
            vm: self.vm.clone(),
            bytes,
        })
    }

    /// Takes over what was reserved, for a process that has no memory yet.
    pub(crate) fn adopt_memory(&self, mut reserved: ReservedMemory) {
        let bytes = std::mem::take(&mut reserved.bytes);
        self.memory.set(bytes);
        self.vm.running.set_memory(self.pid(), bytes);
    }

    /// Gives back what the image that has ended was charged.
    pub(crate) fn release_memory(&self) {
        self.vm.memory.shrink(self.memory.take());
        self.vm.running.set_memory(self.pid(), 0);
    }

    /// Bytes of guest memory this process may have.
    pub fn memory_limit(&self) -> u64 {
        self.vm.limits.memory_bytes.min(self.rlimit_as())
    }

    /// Reports a trap of the program or a failure of its runtime as an event.
    pub fn fault(&self, message: &str) {
        self.vm.emit(|| Event::DriverFault {
            pid: self.pid(),
            driver: self.process.driver(),
            message: message.to_owned(),
        });
    }

    /// The open file at a descriptor; `EBADF`.
    pub fn file(&self, fd: i32) -> Result<Arc<OpenFile>> {
        self.process.fds().get(fd)
    }

    pub(crate) fn process(&self) -> &Arc<Process> {
        &self.process
    }

    fn caller(&self) -> Caller {
        self.process.caller()
    }

    /// Root and working directory. They are there as long as the process has not ended, and a task
    /// ends with it.
    fn fs(&self) -> Result<Arc<FsContext>> {
        self.process.fs().ok_or(Errno::ESRCH)
    }

    /// Calls `f` with the place a path is relative to. The directory of a descriptor is only
    /// looked at if it matters: an absolute `path` may come with any descriptor.
    fn at<R>(&self, dir: Dir, path: &[u8], f: impl FnOnce(&At<'_>) -> Result<R>) -> Result<R> {
        let fs = self.fs()?;
        let open;
        let base = match self.open_base(dir, path)? {
            Some(file) => {
                open = file;
                open.path().ok_or(Errno::ENOTDIR)?
            }
            None => base_of(dir, &fs),
        };
        let caller = self.caller();
        f(&At {
            ns: &self.vm.ns,
            root: &fs.root,
            base,
            caller: &caller,
        })
    }

    /// As [`Task::at`] for calls that take two paths.
    fn at_two<R>(
        &self,
        (old_dir, old): (Dir, &[u8]),
        (new_dir, new): (Dir, &[u8]),
        f: impl FnOnce(&At<'_>, &At<'_>) -> Result<R>,
    ) -> Result<R> {
        self.at(old_dir, old, |old_at| {
            self.at(new_dir, new, |new_at| {
                f(
                    old_at,
                    &At {
                        caller: old_at.caller,
                        ..*new_at
                    },
                )
            })
        })
    }

    /// The open directory that a relative `path` starts from, if it starts from one.
    fn open_base(&self, dir: Dir, path: &[u8]) -> Result<Option<Arc<OpenFile>>> {
        let Dir::Fd(fd) = dir else { return Ok(None) };
        if path.first() == Some(&b'/') {
            return Ok(None);
        }
        let file = self.file(fd)?;
        if !file.is_dir() {
            return Err(Errno::ENOTDIR);
        }
        Ok(Some(file))
    }
}

fn base_of(dir: Dir, fs: &FsContext) -> &Path {
    match dir {
        Dir::Cwd => &fs.cwd,
        Dir::Root | Dir::Fd(_) => &fs.root,
    }
}

/// Guest memory that is charged to a VM and belongs to no process yet; dropped, it is given back.
pub struct ReservedMemory {
    vm: Arc<VmInner>,
    bytes: u64,
}

impl Drop for ReservedMemory {
    fn drop(&mut self) {
        self.vm.memory.shrink(self.bytes);
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.restore_modes();
        self.vm.memory.shrink(self.memory.get());
    }
}
