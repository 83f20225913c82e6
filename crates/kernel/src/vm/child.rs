//! Processes that the host starts.

use super::{HostReader, HostTerminal, HostWriter, Vm, VmInner};
use crate::launch::{self, Launch, NewImage};
use crate::program::{LoadError, Search};
use proctable::pipe::pipe;
use proctable::{ExitStatus, KillTarget, NewGroup, Process, Signal};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use vfs_core::errno::Errno;
use vfs_core::file::OpenFile;
use vfs_core::namei::At;
use vfs_core::types::{Caller, Cred, OpenFlags};

/// Where a stream of a process comes from or goes to.
#[derive(Clone, Default)]
pub enum Stdio {
    /// `/dev/null`: input is at its end, output vanishes.
    #[default]
    Null,
    /// A pipe, whose other end the host gets.
    Pipe,
    /// An open file.
    File(Arc<OpenFile>),
    /// Closed.
    Closed,
}

/// A process to start.
#[derive(Clone, Default)]
pub struct SpawnRequest {
    /// A path, or a name to search for in the `PATH` of the environment.
    pub command: Vec<u8>,
    /// Arguments, the zeroth first; the command alone if empty.
    pub argv: Vec<Vec<u8>>,
    /// Environment over the VM's own, `KEY=VALUE` each. What the host's own environment holds
    /// should go through [`env::sanitize`](crate::env::sanitize) first.
    pub env: Vec<Vec<u8>>,
    /// Whether `env` is the whole environment.
    pub clear_env: bool,
    /// Working directory; the VM's if none.
    pub cwd: Option<Vec<u8>>,
    /// Credentials; the VM's if none.
    pub cred: Option<Cred>,
    /// File mode creation mask; 022 if none.
    pub umask: Option<u32>,
    /// Standard input, output and error.
    pub stdio: [Stdio; 3],
    /// A terminal: it is all three streams, whatever `stdio` says, and the controlling terminal of
    /// the process's session.
    pub terminal: Option<Arc<HostTerminal>>,
}

impl SpawnRequest {
    /// A request for a command and its arguments (without the zeroth, which is the command), with
    /// no input and output.
    pub fn new<A: Into<Vec<u8>>>(
        command: impl Into<Vec<u8>>,
        args: impl IntoIterator<Item = A>,
    ) -> SpawnRequest {
        let command = command.into();
        let argv = std::iter::once(command.clone())
            .chain(args.into_iter().map(Into::into))
            .collect();
        SpawnRequest {
            command,
            argv,
            ..SpawnRequest::default()
        }
    }
}

/// Why a process could not be started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpawnError {
    /// The VM is disposed of.
    #[error("the VM has been disposed of")]
    Disposed,
    /// The program could not be found or run.
    #[error("{command}: {reason}")]
    Program {
        /// The command.
        command: String,
        /// Why, with the places that were searched or the interpreter that is at fault.
        reason: LoadError,
    },
    /// The working directory can't be used.
    #[error("working directory {path}: {errno}")]
    Cwd {
        /// The directory.
        path: String,
        /// Why.
        errno: Errno,
    },
    /// The standard streams could not be set up.
    #[error("standard streams: {0}")]
    Stdio(Errno),
}

impl SpawnError {
    /// The error number.
    pub fn errno(&self) -> Errno {
        match self {
            SpawnError::Disposed => Errno::ESRCH,
            SpawnError::Program { reason, .. } => reason.errno(),
            SpawnError::Cwd { errno, .. } | SpawnError::Stdio(errno) => *errno,
        }
    }

    /// The exit status a shell gives for it: 127 for what is not there, else 126.
    pub fn shell_code(&self) -> u8 {
        if self.errno() == Errno::ENOENT {
            127
        } else {
            126
        }
    }
}

/// A process that the host has started. Dropping it leaves the process running; it holds the VM.
pub struct Child {
    vm: Vm,
    process: Arc<Process>,
    /// The host's end of standard input, if that is a pipe.
    pub stdin: Option<HostWriter>,
    /// The host's end of standard output, if that is a pipe.
    pub stdout: Option<HostReader>,
    /// The host's end of standard error, if that is a pipe.
    pub stderr: Option<HostReader>,
}

impl Child {
    /// Process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// The process.
    pub fn process(&self) -> &Arc<Process> {
        &self.process
    }

    /// How it ended, if it has.
    pub fn try_wait(&self) -> Option<ExitStatus> {
        self.process.exit_status()
    }

    /// Waits for its end.
    pub fn wait(&self) -> ExitStatus {
        loop {
            if let Some(status) = self.process.wait_exit(None) {
                return status;
            }
        }
    }

    /// Waits for its end for at most `timeout`.
    pub fn wait_timeout(&self, timeout: Duration) -> Option<ExitStatus> {
        self.process.wait_exit(Instant::now().checked_add(timeout))
    }

    /// Sends it a signal; `ESRCH` when it has ended.
    pub fn kill(&self, signal: Signal) -> vfs_core::Result<()> {
        self.vm.kill(KillTarget::Pid(self.pid()), signal)
    }

    /// Kills it and everything it has started: its session, and all descendants wherever they went.
    pub fn kill_tree(&self) {
        self.vm.kill_tree(self.pid());
    }
}

impl Vm {
    /// Starts a process: in a session of its own, as a child of pid 1, which reaps it.
    pub fn spawn(&self, request: &SpawnRequest) -> Result<Child, SpawnError> {
        let vm = &self.inner;
        if vm.disposed.load(Ordering::Acquire) {
            return Err(SpawnError::Disposed);
        }
        let cred = request
            .cred
            .clone()
            .map_or_else(|| vm.cred.clone(), Arc::new);
        let env = vm.environment(request, &cred);
        let init = vm.table.init();
        let mut child = Launch::new(vm, init, cred.clone()).map_err(SpawnError::Stdio)?;
        child.set_umask(request.umask);
        let cwd = request
            .cwd
            .clone()
            .or_else(|| vm.cwd.clone())
            .unwrap_or_else(|| vm.home(&cred));
        child.chdir(&cwd).map_err(|errno| SpawnError::Cwd {
            path: text(&cwd),
            errno,
        })?;
        let mut ends = Ends::default();
        let tty = match &request.terminal {
            Some(terminal) => Some(vm.open_slave(terminal, &cred).map_err(SpawnError::Stdio)?),
            None => None,
        };
        for (fd, stdio) in (0..).zip(&request.stdio) {
            let file = match &tty {
                Some(tty) => Some(tty.clone()),
                None => vm
                    .stream(fd, stdio, &cred, &mut ends)
                    .map_err(SpawnError::Stdio)?,
            };
            if let Some(file) = file {
                child
                    .fds
                    .insert_at(fd, file, false)
                    .map_err(SpawnError::Stdio)?;
            }
        }
        child.group = NewGroup::Session;
        child.terminal = request
            .terminal
            .as_ref()
            .map(|terminal| terminal.terminal().clone());
        let argv = if request.argv.is_empty() {
            vec![request.command.clone()]
        } else {
            request.argv.clone()
        };
        let new = NewImage {
            path: &request.command,
            search: Search::Env,
            argv,
            env,
        };
        let process = launch::launch(child, new).map_err(|reason| SpawnError::Program {
            command: text(&request.command),
            reason,
        })?;
        let [stdin, stdout, stderr] = ends.0;
        Ok(Child {
            vm: self.clone(),
            process,
            stdin: stdin.map(HostWriter::new),
            stdout: stdout.map(HostReader::new),
            stderr: stderr.map(HostReader::new),
        })
    }
}

/// The host's ends of the three streams.
#[derive(Default)]
struct Ends([Option<Arc<OpenFile>>; 3]);

impl VmInner {
    /// The environment of a request: defaults, the VM's, the request's, each over the one before.
    fn environment(&self, request: &SpawnRequest, cred: &Cred) -> Vec<Vec<u8>> {
        if request.clear_env {
            return request.env.clone();
        }
        let mut env = self.login_env(cred);
        for entry in &request.env {
            let Some(at) = entry.iter().position(|&b| b == b'=') else {
                continue;
            };
            let name = &entry[..=at];
            env.retain(|old| !old.starts_with(name));
            env.push(entry.clone());
        }
        env
    }

    /// The child's side of a stream; the host's goes to `ends`.
    fn stream(
        &self,
        fd: i32,
        stdio: &Stdio,
        cred: &Arc<Cred>,
        ends: &mut Ends,
    ) -> vfs_core::Result<Option<Arc<OpenFile>>> {
        Ok(match stdio {
            Stdio::Closed => None,
            Stdio::File(file) => Some(file.clone()),
            Stdio::Null => Some(self.open_null(fd, cred)?),
            Stdio::Pipe => {
                let (read, write) = pipe(&self.pipes, cred, OpenFlags::empty())?;
                let (theirs, ours) = if fd == 0 {
                    (read, write)
                } else {
                    (write, read)
                };
                if let Some(end) = ends.0.get_mut(fd as usize) {
                    *end = Some(ours);
                }
                Some(theirs)
            }
        })
    }

    fn open_null(&self, fd: i32, cred: &Arc<Cred>) -> vfs_core::Result<Arc<OpenFile>> {
        let root = self.ns.root();
        let caller = Caller {
            cred: cred.clone(),
            ..Caller::host()
        };
        let flags = if fd == 0 {
            OpenFlags::empty()
        } else {
            OpenFlags::WRONLY
        };
        At {
            ns: &self.ns,
            root: &root,
            base: &root,
            caller: &caller,
        }
        .open_path(&self.null, flags)
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
