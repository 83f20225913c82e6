//! The way of a spawn: descriptors and directory prepared, program loaded, entry made, thread
//! started.

use crate::driver::{Outcome, Program};
use crate::events::Event;
use crate::program::{self, LoadError, Loaded, Search};
use crate::task::{ReservedMemory, Task};
use crate::vm::VmInner;
use proctable::{
    DefaultAction, ExitStatus, FdTable, FsContext, Image, NewGroup, NewProcess, Process, SigSet,
    Signal,
};
use pty::Terminal;
use std::ffi::CString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use vfs_core::errno::{Errno, Result};
use vfs_core::file::OpenFile;
use vfs_core::namei::{At, Lookup, Path, permission};
use vfs_core::types::{Access, Caller, Cred, OpenFlags};

/// What a process is to run.
pub(crate) struct NewImage<'a> {
    pub(crate) path: &'a [u8],
    pub(crate) search: Search<'a>,
    pub(crate) argv: Vec<Vec<u8>>,
    pub(crate) env: Vec<Vec<u8>>,
}

/// A child in the making: what it has before there is an entry for it.
pub(crate) struct Launch<'a> {
    vm: &'a Arc<VmInner>,
    parent: &'a Arc<Process>,
    root: Path,
    cwd: Path,
    caller: Caller,
    pub(crate) fds: FdTable,
    pub(crate) group: NewGroup,
    pub(crate) sigmask: Option<SigSet>,
    pub(crate) sigdefault: SigSet,
    /// Becomes the controlling terminal of the session that the child leads.
    pub(crate) terminal: Option<Arc<Terminal>>,
}

impl<'a> Launch<'a> {
    /// A child of `parent` with a copy of its descriptors and its directories, that runs with
    /// `cred`.
    pub(crate) fn new(
        vm: &'a Arc<VmInner>,
        parent: &'a Arc<Process>,
        cred: Arc<Cred>,
    ) -> Result<Launch<'a>> {
        let fs = parent.fs().ok_or(Errno::ESRCH)?;
        Ok(Launch {
            vm,
            parent,
            root: fs.root.clone(),
            cwd: fs.cwd.clone(),
            caller: Caller {
                cred,
                ..parent.caller()
            },
            fds: parent.fds().fork(),
            group: NewGroup::Inherit,
            sigmask: None,
            sigdefault: SigSet::EMPTY,
            terminal: None,
        })
    }

    fn at(&self) -> At<'_> {
        At {
            ns: &self.vm.ns,
            root: &self.root,
            base: &self.cwd,
            caller: &self.caller,
        }
    }

    /// Changes the child's directory.
    pub(crate) fn chdir(&mut self, path: &[u8]) -> Result<()> {
        let place = self
            .at()
            .resolve(path, Lookup::FOLLOW | Lookup::DIRECTORY)?;
        permission(&place.inode().stat()?, &self.caller.cred, Access::EXEC)?;
        self.cwd = place;
        Ok(())
    }

    /// Changes the child's directory to one that it has open.
    pub(crate) fn fchdir(&mut self, fd: i32) -> Result<()> {
        let file = self.fds.get(fd)?;
        let place = file
            .path()
            .filter(|_| file.is_dir())
            .ok_or(Errno::ENOTDIR)?
            .clone();
        permission(&file.stat()?, &self.caller.cred, Access::EXEC)?;
        self.cwd = place;
        Ok(())
    }

    /// Sets the child's file mode creation mask, if one is given.
    pub(crate) fn set_umask(&mut self, umask: Option<u32>) {
        self.caller.umask = umask.unwrap_or(self.caller.umask) & 0o777;
    }

    /// Opens a file as the child.
    pub(crate) fn open(&self, path: &[u8], flags: OpenFlags, perm: u32) -> Result<Arc<OpenFile>> {
        self.at().open(path, flags - OpenFlags::CLOEXEC, perm)
    }
}

/// Loads the program, makes the entry and starts it.
pub(crate) fn launch(
    child: Launch<'_>,
    new: NewImage<'_>,
) -> std::result::Result<Arc<Process>, LoadError> {
    let vm = child.vm;
    let loaded = program::load(vm, &child.at(), new)?;
    let Loaded {
        program,
        driver,
        argv,
        env,
        comm,
        exe,
        cred,
    } = loaded;
    child.fds.close_on_exec();
    let argv: Arc<[Vec<u8>]> = argv.into();
    let process = vm.table.create(
        child.parent,
        NewProcess {
            image: Image {
                argv: argv.clone(),
                env: env.into(),
                comm,
                exe: Some(exe),
                driver,
            },
            fs: Some(FsContext {
                cwd: child.cwd,
                root: child.root,
            }),
            fds: child.fds,
            cred: Some(cred.unwrap_or(child.caller.cred)),
            umask: Some(child.caller.umask),
            group: child.group,
            sigmask: child.sigmask,
            sigdefault: child.sigdefault,
            forked: false,
        },
    );
    let process = process.map_err(Errno::from)?;
    if let Some(terminal) = child.terminal
        && let Err(error) = terminal.set_controlling(&process, false)
    {
        vm.table.discard(&process);
        return Err(error.into());
    }
    vm.emit(|| Event::ProcessStarted {
        pid: process.pid(),
        ppid: process.ppid(),
        driver,
        argv,
    });
    start(vm, &process, program, None)?;
    Ok(process)
}

/// Makes a copy of `parent` in the process table that runs `program` and has `memory` from the
/// beginning.
pub(crate) fn fork(
    vm: &Arc<VmInner>,
    parent: &Arc<Process>,
    program: Box<dyn Program>,
    memory: ReservedMemory,
) -> Result<Arc<Process>> {
    let new = NewProcess {
        forked: true,
        ..NewProcess::new(parent.image(), parent.fds().fork())
    };
    let process = vm.table.create(parent, new)?;
    vm.emit(|| Event::ProcessStarted {
        pid: process.pid(),
        ppid: process.ppid(),
        driver: process.driver(),
        argv: process.argv(),
    });
    start(vm, &process, program, Some(memory))?;
    Ok(process)
}

/// Runs `program` as `process` on a thread of the pool. The process takes over `memory`.
fn start(
    vm: &Arc<VmInner>,
    process: &Arc<Process>,
    program: Box<dyn Program>,
    memory: Option<ReservedMemory>,
) -> Result<()> {
    let job = {
        let (vm, process, counted) = (vm.clone(), process.clone(), vm.threads.count());
        Box::new(move || {
            run(vm, process, program, memory);
            drop(counted);
        })
    };
    if vm.pool.run(job).is_err() {
        vm.table.discard(process);
        return Err(Errno::EAGAIN);
    }
    Ok(())
}

/// The life of a process on its thread.
fn run(
    vm: Arc<VmInner>,
    process: Arc<Process>,
    program: Box<dyn Program>,
    memory: Option<ReservedMemory>,
) {
    name_thread(&process);
    vm.running.begin(&process);
    vm.watch_cpu(&process);
    let task = Rc::new(Task::new(vm.clone(), process.clone()));
    if let Some(memory) = memory {
        task.adopt_memory(memory);
    }
    let status = run_images(&vm, &task, program);
    if Rc::strong_count(&task) > 1 {
        // What the runtime keeps would keep the VM.
        task.fault("the driver did not let go of its task");
    }
    drop(task);
    vm.running.end(process.pid());
    vm.table.exit(&process, status);
    vm.emit(|| Event::ProcessExited {
        pid: process.pid(),
        status,
    });
}

/// Runs one image after the other until one ends.
fn run_images(vm: &VmInner, task: &Rc<Task>, first: Box<dyn Program>) -> ExitStatus {
    let mut program = first;
    loop {
        // A signal may have come before there was anything to interrupt.
        if let Err(crate::Interrupt::Die(signal)) = task.checkpoint() {
            return killed(signal);
        }
        match catch_unwind(AssertUnwindSafe(|| program.run(task))) {
            Ok(Outcome::Exit(code)) => return ExitStatus::Code((code & 0xff) as u8),
            Ok(Outcome::Killed(signal)) => return killed(signal),
            Ok(Outcome::Exec) => match task.take_next() {
                Some(next) => {
                    task.release_memory();
                    program = next;
                }
                None => {
                    task.fault("the driver reported an exec that was not committed");
                    return killed(Signal::ABRT);
                }
            },
            Err(panic) => {
                vm.emit(|| Event::DriverFault {
                    pid: task.pid(),
                    driver: task.process().driver(),
                    message: format!("panic: {}", panic_text(&*panic)),
                });
                return killed(Signal::ABRT);
            }
        }
    }
}

fn killed(signal: Signal) -> ExitStatus {
    ExitStatus::Signal {
        signal,
        core: signal.default_action() == DefaultAction::Core,
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

/// Names the calling thread after the process, for those who look at the host's threads.
pub(crate) fn name_thread(process: &Process) {
    let name = format!(
        "{}:{}",
        process.pid(),
        String::from_utf8_lossy(&process.comm()).replace('\0', "")
    );
    if let Ok(name) = CString::new(name) {
        // Linux cuts it to 15 bytes; a failure costs nothing but the name.
        let _ = nix::sys::prctl::set_name(&name);
    }
}
