//! What is in a file of a package: copied out on read, or lent whole.

use crate::members::errno;
use aospkg_format::{EntryId, Package};
use std::any::Any;
use std::sync::Arc;
use vfs_core::{Content, Errno, FileOps, Result};

/// An open file. It keeps its package open, whatever becomes of the projection.
pub(crate) struct OpenEntry {
    package: Arc<Package>,
    id: EntryId,
    size: u64,
}

impl OpenEntry {
    pub(crate) fn new(package: Arc<Package>, id: EntryId) -> Result<OpenEntry> {
        let size = package.entry(id).map_err(errno)?.size;
        Ok(OpenEntry { package, id, size })
    }
}

impl FileOps for OpenEntry {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        if offset >= self.size {
            return Ok(0);
        }
        self.package.read_at(self.id, buf, offset).map_err(errno)
    }

    fn write_at(&self, _buf: &[u8], _offset: u64) -> Result<usize> {
        Err(Errno::EROFS)
    }

    fn size(&self) -> Result<u64> {
        Ok(self.size)
    }
}

/// The whole content of a file, in the mapping of its package.
pub(crate) struct EntryContent {
    package: Arc<Package>,
    id: EntryId,
}

impl EntryContent {
    pub(crate) fn new(package: Arc<Package>, id: EntryId) -> EntryContent {
        EntryContent { package, id }
    }
}

impl Content for EntryContent {
    fn with(&self, f: &mut dyn FnMut(&[u8])) -> Result<()> {
        self.package.with_content(self.id, f).map_err(errno)
    }
}
