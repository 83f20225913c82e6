//! An open file as a location: what a magic link to a pipe or a socket leads to.

use crate::dentry::Dentry;
use crate::errno::{Errno, Result};
use crate::file::{FileOps, OpenFile};
use crate::inode::Inode;
use crate::mount::Mount;
use crate::namei::Path;
use crate::types::{Caller, FileType, OpenFlags, SetAttr, Stat};
use std::any::Any;
use std::sync::Arc;

/// Stands in for the inode that an anonymous open file lacks.
pub(crate) struct OpenInode {
    file: Arc<OpenFile>,
    kind: FileType,
}

impl OpenInode {
    /// The location of an open file: where it was opened, or a nameless place of its own.
    pub(crate) fn locate(mount: &Arc<Mount>, file: &Arc<OpenFile>) -> Path {
        if let Some(path) = file.path() {
            return path.clone();
        }
        let kind = file.stat().map_or(FileType::Fifo, |stat| stat.file_type());
        let inode = Arc::new(OpenInode {
            file: file.clone(),
            kind,
        });
        Path {
            mount: mount.clone(),
            dentry: Dentry::detached(inode, b""),
        }
    }

    /// The open file that a location stands for, if it is such a one.
    pub(crate) fn file_at(path: &Path) -> Option<Arc<OpenFile>> {
        path.inode()
            .as_any()
            .downcast_ref::<OpenInode>()
            .map(|inode| inode.file.clone())
    }
}

impl Inode for OpenInode {
    fn stat(&self) -> Result<Stat> {
        self.file.stat()
    }

    fn kind(&self) -> FileType {
        self.kind
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn setattr(&self, changes: &SetAttr) -> Result<()> {
        self.file.setattr(changes)
    }

    fn open(self: Arc<Self>, _flags: OpenFlags, _caller: &Caller) -> Result<Arc<dyn FileOps>> {
        // `At::open_path` hands out the file itself and never comes here.
        Err(Errno::ENXIO)
    }

    fn opens_itself(&self) -> bool {
        true
    }
}
