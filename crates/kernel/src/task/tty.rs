//! Terminals. A VM has none yet, so every descriptor is told apart and none is a terminal; the
//! calls are here so that guests get the answers Linux gives for other files.

use super::Task;
use std::sync::Arc;
use vfs_core::errno::{Errno, Result};
use vfs_core::file::OpenFile;

impl Task {
    /// Whether a descriptor is a terminal (`isatty(3)`); `EBADF` if it is closed.
    pub fn isatty(&self, fd: i32) -> Result<bool> {
        Ok(self.file(fd)?.ops().is_terminal())
    }

    /// The terminal at a descriptor: `EBADF` if it is closed, `ENOTTY` if it is something else.
    pub fn require_tty(&self, fd: i32) -> Result<Arc<OpenFile>> {
        let file = self.file(fd)?;
        if !file.ops().is_terminal() {
            return Err(Errno::ENOTTY);
        }
        Ok(file)
    }
}
