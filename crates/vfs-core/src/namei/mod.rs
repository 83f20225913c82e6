//! The path walk: locations, permission checks and every call that takes a name.
//!
//! Named after `fs/namei.c`, whose order of checks it keeps, because programs see it in the error
//! numbers. A [`Path`] is a mount and a dentry in it, as Linux's `struct path`. An [`At`] is what
//! a call starts from: the namespace, the process's root, the directory that relative names start
//! in, and the caller's credentials.
//!
//! The calls are spread by what they do: `walk` follows names, `open` makes open files, `edit`
//! adds, moves and removes names, `attr` reads and changes attributes, [`fd`] does so through an
//! open file.

mod attr;
mod edit;
pub mod fd;
mod magic;
mod open;
mod perm;
mod walk;

pub use attr::TimeSet;
pub use perm::{access_permission, permission, setid_dropped};

use crate::dentry::{Dentry, WriteDenial};
use crate::errno::Result;
use crate::file::FileOps;
use crate::inode::InodeRef;
use crate::mount::{Mount, Namespace};
use crate::types::{Caller, FileType, OpenFlags, Stat};
use bitflags::bitflags;
use std::sync::Arc;

/// A location: a dentry in a mount (`struct path`).
#[derive(Clone)]
pub struct Path {
    pub(crate) mount: Arc<Mount>,
    pub(crate) dentry: Arc<Dentry>,
}

impl Path {
    /// The inode there.
    pub fn inode(&self) -> &InodeRef {
        self.dentry.inode()
    }

    /// The mount it is in.
    pub fn mount(&self) -> &Arc<Mount> {
        &self.mount
    }

    /// The name there.
    pub fn dentry(&self) -> &Arc<Dentry> {
        &self.dentry
    }

    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.dentry.kind() == FileType::Directory
    }

    /// Whether its name was removed.
    pub fn is_deleted(&self) -> bool {
        self.dentry.is_deleted()
    }

    /// Keeps the file from being written while it is run as a program: until the guard is dropped,
    /// opening it for writing is `ETXTBSY`. `ETXTBSY` if somebody has it open for writing now.
    pub fn deny_write(&self) -> Result<WriteDenial> {
        self.dentry.deny_write_access()
    }

    /// The directory above, out of mounts if need be; itself at the very top. It knows of no
    /// process root and so is no walk.
    pub fn parent(&self) -> Path {
        let mut at = self.clone();
        loop {
            if Arc::ptr_eq(&at.dentry, at.mount.root()) {
                match at.mount.mountpoint() {
                    Some(up) => at = up,
                    None => return at,
                }
            } else {
                match at.dentry.parent() {
                    Some(parent) => {
                        at.dentry = parent;
                        return at;
                    }
                    None => return at,
                }
            }
        }
    }
}

impl PartialEq for Path {
    fn eq(&self, other: &Path) -> bool {
        Arc::ptr_eq(&self.dentry, &other.dentry) && Arc::ptr_eq(&self.mount, &other.mount)
    }
}

impl Eq for Path {}

impl std::fmt::Debug for Path {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Path")
            .field("mount", &self.mount.id())
            .field("dentry", &self.dentry)
            .finish()
    }
}

/// Opens device nodes and fifos, which belong to whoever owns devices and pipes and not to the
/// file system that holds the name (`def_chr_fops`, `pipefifo_fops`).
pub trait SpecialFiles: Send + Sync {
    /// Operations for opening `inode`, a device node (`rdev` in its attributes), fifo or socket;
    /// `ENXIO` if there is no such device or nobody listens.
    fn open(
        &self,
        inode: &InodeRef,
        stat: &Stat,
        flags: OpenFlags,
        caller: &Caller,
    ) -> Result<Arc<dyn FileOps>>;
}

/// No devices and no fifos: every open is `ENXIO`.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSpecialFiles;

impl SpecialFiles for NoSpecialFiles {
    fn open(
        &self,
        _inode: &InodeRef,
        _stat: &Stat,
        _flags: OpenFlags,
        _caller: &Caller,
    ) -> Result<Arc<dyn FileOps>> {
        Err(crate::errno::Errno::ENXIO)
    }
}

/// Where a walk starts and for whom.
#[derive(Clone, Copy)]
pub struct At<'a> {
    /// The tree.
    pub ns: &'a Namespace,
    /// The root directory of the caller (`chroot`): where `/` starts and `..` ends.
    pub root: &'a Path,
    /// The directory where relative paths start.
    pub base: &'a Path,
    /// On whose behalf.
    pub caller: &'a Caller,
}

bitflags! {
    /// How the last component of a path is taken.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub struct Lookup: u32 {
        /// A symbolic link there is followed.
        const FOLLOW = 1;
        /// It must be a directory.
        const DIRECTORY = 2;
    }
}
