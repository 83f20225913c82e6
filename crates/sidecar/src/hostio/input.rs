//! A regular file as standard input.

use nix::sys::stat::fstat;
use nix::sys::uio::pread;
use nix::unistd::{Whence, lseek};
use std::any::Any;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use vfs_core::errno::{Errno, Result};
use vfs_core::file::FileOps;
use vfs_core::types::Stat;

/// A regular file of the host, read only, whose host offset follows the guest's, so that what the
/// guest left is there for whoever reads the descriptor next.
pub struct InputFile {
    fd: OwnedFd,
}

impl InputFile {
    /// The operations, and the offset at which the host left the file.
    pub fn new(fd: OwnedFd) -> io::Result<(Arc<InputFile>, i64)> {
        let offset = lseek(fd.as_fd(), 0, Whence::SeekCur)?;
        Ok((Arc::new(InputFile { fd }), offset))
    }

    /// Sets the host's offset; called with the guest's last one when it has ended.
    pub fn leave_at(&self, offset: u64) {
        if let Ok(offset) = i64::try_from(offset) {
            // A file that can't be positioned now could not at the start either.
            let _ = lseek(self.fd.as_fd(), offset, Whence::SeekSet);
        }
    }
}

impl FileOps for InputFile {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let at = i64::try_from(offset).map_err(|_| Errno::EINVAL)?;
        let n = pread(&self.fd, buf, at).map_err(super::stream::errno)?;
        self.leave_at(offset + n as u64);
        Ok(n)
    }

    fn write_at(&self, _buf: &[u8], _offset: u64) -> Result<usize> {
        Err(Errno::EBADF)
    }

    fn size(&self) -> Result<u64> {
        let stat = fstat(self.fd.as_fd()).map_err(super::stream::errno)?;
        Ok(u64::try_from(stat.st_size).unwrap_or(0))
    }

    fn stat(&self) -> Result<Stat> {
        super::stream::stat(&self.fd, 0o100_000)
    }
}
