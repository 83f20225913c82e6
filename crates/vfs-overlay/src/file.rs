//! Open files the layers cannot serve alone.

use crate::node::Node;
use std::any::Any;
use std::sync::{Arc, OnceLock};
use vfs_core::errno::{Errno, Result};
use vfs_core::file::FileOps;
use vfs_core::inode::Inode;
use vfs_core::types::{Caller, DirEntry, OpenFlags};
use vfs_core::wait::{PollEvents, WaitQueue};

/// An open directory.
pub(crate) struct DirFile {
    node: Arc<Node>,
}

impl DirFile {
    pub(crate) fn new(node: Arc<Node>) -> DirFile {
        DirFile { node }
    }
}

impl FileOps for DirFile {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn read_at(&self, _buf: &mut [u8], _offset: u64) -> Result<usize> {
        Err(Errno::EISDIR)
    }

    fn write_at(&self, _buf: &[u8], _offset: u64) -> Result<usize> {
        Err(Errno::EBADF)
    }

    fn readdir(&self, cookie: u64, sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        self.node.readdir(cookie, sink)
    }
}

/// A lower file open for reading, which goes on with the upper copy once there is one: whoever
/// reads sees what others write, as on any file system.
pub(crate) struct FollowingFile {
    node: Arc<Node>,
    lower: Arc<dyn FileOps>,
    upper: OnceLock<Arc<dyn FileOps>>,
    flags: OpenFlags,
    caller: Caller,
}

impl FollowingFile {
    pub(crate) fn new(
        node: Arc<Node>,
        lower: Arc<dyn FileOps>,
        flags: OpenFlags,
        caller: &Caller,
    ) -> FollowingFile {
        FollowingFile {
            node,
            lower,
            upper: OnceLock::new(),
            flags,
            caller: caller.clone(),
        }
    }

    fn now(&self) -> Result<&dyn FileOps> {
        let Some(upper) = self.node.upper.get() else {
            return Ok(&*self.lower);
        };
        if let Some(open) = self.upper.get() {
            return Ok(&**open);
        }
        let open = upper.clone().open(self.flags, &self.caller)?;
        if let Err(spare) = self.upper.set(open) {
            // Another reader was quicker.
            spare.release(self.flags);
        }
        self.upper.get().map(|open| &**open).ok_or(Errno::EIO)
    }
}

impl FileOps for FollowingFile {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.now()?.read_at(buf, offset)
    }

    fn write_at(&self, _buf: &[u8], _offset: u64) -> Result<usize> {
        Err(Errno::EBADF)
    }

    fn size(&self) -> Result<u64> {
        self.now()?.size()
    }

    fn seek_data_hole(&self, offset: u64, hole: bool) -> Result<u64> {
        self.now()?.seek_data_hole(offset, hole)
    }

    fn poll(&self) -> PollEvents {
        self.lower.poll()
    }

    fn wait_queue(&self) -> Option<&WaitQueue> {
        self.lower.wait_queue()
    }

    fn sync(&self) -> Result<()> {
        self.now()?.sync()
    }

    fn readable_bytes(&self) -> Result<usize> {
        self.now()?.readable_bytes()
    }

    fn release(&self, flags: OpenFlags) {
        self.lower.release(flags);
        if let Some(upper) = self.upper.get() {
            upper.release(flags);
        }
    }
}
