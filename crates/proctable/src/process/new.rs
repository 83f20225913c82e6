//! What a process is made of: program, directories, group.

use crate::fdtable::FdTable;
use std::sync::Arc;
use vfs_core::namei::Path;
use vfs_core::types::Cred;

/// The program a process runs, replaced as a whole by `exec`.
#[derive(Clone, Default)]
pub struct Image {
    /// Arguments, the program's name first; may be empty.
    pub argv: Arc<[Vec<u8>]>,
    /// Environment, `NAME=VALUE` each.
    pub env: Arc<[Vec<u8>]>,
    /// Short name as `ps` shows it, at most 15 bytes (longer ones are cut).
    pub comm: Vec<u8>,
    /// The file it was started from.
    pub exe: Option<Path>,
    /// Which driver runs it.
    pub driver: &'static str,
}

/// Longest `comm` (`TASK_COMM_LEN` without its NUL).
pub(super) const COMM_LEN: usize = 15;

impl Image {
    pub(super) fn cut(mut self) -> Image {
        self.comm.truncate(COMM_LEN);
        self
    }
}

/// Where a process is in the file system (`struct fs_struct`).
#[derive(Clone)]
pub struct FsContext {
    /// Current directory.
    pub cwd: Path,
    /// Root directory.
    pub root: Path,
}

/// What to make with [`ProcTable::create`](crate::ProcTable::create). Everything not given here is
/// inherited from the parent.
pub struct NewProcess {
    /// The program.
    pub image: Image,
    /// Directories; `None` inherits the parent's.
    pub fs: Option<FsContext>,
    /// Descriptors; usually [`FdTable::fork`] of the parent's, with the child's actions applied.
    pub fds: FdTable,
    /// Credentials; `None` inherits.
    pub cred: Option<Arc<Cred>>,
    /// File mode creation mask; `None` inherits.
    pub umask: Option<u32>,
    /// Group and session.
    pub group: NewGroup,
    /// Signal mask; `None` inherits.
    pub sigmask: Option<crate::SigSet>,
    /// Signals set to their default action.
    pub sigdefault: crate::SigSet,
    /// Whether the child goes on in its parent's image (`fork`) instead of a new one: it then
    /// keeps signal handlers, and its parent may still move it between groups.
    pub forked: bool,
}

impl NewProcess {
    /// A child that starts `image` with `fds` and inherits the rest.
    pub fn new(image: Image, fds: FdTable) -> NewProcess {
        NewProcess {
            image,
            fs: None,
            fds,
            cred: None,
            umask: None,
            group: NewGroup::Inherit,
            sigmask: None,
            sigdefault: crate::SigSet::EMPTY,
            forked: false,
        }
    }
}

/// The process group a child starts in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum NewGroup {
    /// Its parent's.
    #[default]
    Inherit,
    /// A new one that it leads.
    Lead,
    /// This one, of the parent's session; `EPERM` if there is none.
    Join(u32),
    /// A new session and a new group that it leads.
    Session,
}
