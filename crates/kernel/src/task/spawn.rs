//! Starting a child (`posix_spawn(3)`).

use super::{ReservedMemory, Task};
use crate::driver::Program;
use crate::launch::{self, Launch, NewImage};
use proctable::fifo::complete_open;
use proctable::{NewGroup, SigSet};
use std::sync::Arc;
use vfs_core::errno::{Errno, Result};
use vfs_core::types::{Cred, OpenFlags};

pub use crate::program::Search;

/// Most file actions of one spawn.
const MAX_ACTIONS: usize = 4096;

/// What is done to the child's descriptors and directory before it starts, in order, on a copy of
/// the parent's table (`posix_spawn_file_actions_t`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileAction {
    /// Close a descriptor; `EBADF` if it is not open.
    Close(i32),
    /// Duplicate, without `CLOEXEC`; with equal numbers only `CLOEXEC` is taken off.
    Dup2 {
        /// What.
        from: i32,
        /// To which number.
        to: i32,
    },
    /// Open a file at a number, closing what is there.
    Open {
        /// The number.
        fd: i32,
        /// Path, relative to the child's directory as it is by then.
        path: Vec<u8>,
        /// How.
        flags: OpenFlags,
        /// Permissions if it is made.
        perm: u32,
    },
    /// Change the child's directory.
    Chdir(Vec<u8>),
    /// Change the child's directory to an open one.
    Fchdir(i32),
    /// Close everything from this number up.
    CloseFrom(i32),
}

/// Attributes of a child (`posix_spawnattr_t`); the default inherits everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpawnAttrs {
    /// Process group to join; 0 is a new one that the child leads.
    pub pgroup: Option<u32>,
    /// Signal mask.
    pub sigmask: Option<SigSet>,
    /// Signals set to their default action.
    pub sigdefault: SigSet,
    /// The child leads a new session; not together with a group (`EPERM`).
    pub setsid: bool,
    /// Effective ids become the real ones.
    pub resetids: bool,
}

/// What to start.
#[derive(Clone, Debug)]
pub struct SpawnArgs<'a> {
    /// Path of the program, or a name to search for.
    pub path: &'a [u8],
    /// How a name is searched for.
    pub search: Search<'a>,
    /// Arguments, the zeroth first.
    pub argv: Vec<Vec<u8>>,
    /// The whole environment, `KEY=VALUE` each.
    pub env: Vec<Vec<u8>>,
    /// Working directory, the parent's if none.
    pub cwd: Option<&'a [u8]>,
    /// What is done to descriptors and directory.
    pub actions: Vec<FileAction>,
    /// Attributes.
    pub attrs: SpawnAttrs,
}

impl Task {
    /// Starts a child and returns its process id. Whatever goes wrong up to its first instruction
    /// is an error here, and no child was.
    pub fn spawn(&self, args: SpawnArgs<'_>) -> Result<u32> {
        let SpawnArgs {
            path,
            search,
            argv,
            env,
            cwd,
            actions,
            attrs,
        } = args;
        if actions.len() > MAX_ACTIONS {
            return Err(Errno::E2BIG);
        }
        let group = match (attrs.setsid, attrs.pgroup) {
            (true, Some(_)) => return Err(Errno::EPERM),
            (true, None) => NewGroup::Session,
            (false, None) => NewGroup::Inherit,
            (false, Some(0)) => NewGroup::Lead,
            (false, Some(pgid)) => NewGroup::Join(pgid),
        };
        let mut cred = self.cred();
        if attrs.resetids && (cred.euid != cred.uid || cred.egid != cred.gid) {
            cred = Arc::new(Cred {
                euid: cred.uid,
                egid: cred.gid,
                ..(*cred).clone()
            });
        }
        let mut child = Launch::new(&self.vm, &self.process, cred)?;
        if let Some(cwd) = cwd.filter(|cwd| !cwd.is_empty()) {
            child.chdir(cwd)?;
        }
        for action in &actions {
            self.apply(&mut child, action)?;
        }
        child.group = group;
        child.sigmask = attrs.sigmask;
        child.sigdefault = attrs.sigdefault;
        let process = launch::launch(
            child,
            NewImage {
                path,
                search,
                argv,
                env,
            },
        )?;
        Ok(process.pid())
    }

    /// Makes a child that goes on from where the caller is (`fork(2)`): the same image, arguments,
    /// environment, directories, credentials, signal handlers and mask, a copy of the descriptor
    /// table, nothing pending. What it runs is `program`, which only the driver can make: the
    /// state of the caller's program, copied; `memory` is what [`Task::reserve_memory`] gave for
    /// it. `EAGAIN` at the limit of processes.
    pub fn fork(&self, program: Box<dyn Program>, memory: ReservedMemory) -> Result<u32> {
        let process = launch::fork(&self.vm, &self.process, program, memory)?;
        Ok(process.pid())
    }

    fn apply(&self, child: &mut Launch<'_>, action: &FileAction) -> Result<()> {
        match action {
            FileAction::Close(fd) => child.fds.remove(*fd).map(drop),
            FileAction::Dup2 { from, to } if from == to => child.fds.set_cloexec(*to, false),
            FileAction::Dup2 { from, to } => child.fds.dup2(*from, *to).map(drop),
            FileAction::Open {
                fd,
                path,
                flags,
                perm,
            } => {
                if *fd < 0 {
                    return Err(Errno::EBADF);
                }
                let file = child.open(path, *flags, *perm)?;
                self.restart(|| complete_open(&self.process, &file))?;
                child
                    .fds
                    .insert_at(*fd, file, flags.contains(OpenFlags::CLOEXEC))
            }
            FileAction::Chdir(path) => child.chdir(path),
            FileAction::Fchdir(fd) => child.fchdir(*fd),
            FileAction::CloseFrom(fd) if *fd < 0 => Err(Errno::EBADF),
            FileAction::CloseFrom(fd) => {
                child.fds.close_from(*fd);
                Ok(())
            }
        }
    }
}
