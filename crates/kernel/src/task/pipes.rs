//! Pipes.

use super::Task;
use proctable::pipe::pipe;
use std::sync::Arc;
use vfs_core::errno::{Errno, Result};
use vfs_core::file::OpenFile;
use vfs_core::types::OpenFlags;

impl Task {
    /// Makes a pipe (`pipe2(2)`) and returns the descriptors of its reading and writing end.
    /// Flags: `CLOEXEC`, `NONBLOCK` and `DIRECT`, which is recorded only; others are `EINVAL`.
    pub fn pipe2(&self, flags: OpenFlags) -> Result<(i32, i32)> {
        if !(OpenFlags::CLOEXEC | OpenFlags::NONBLOCK | OpenFlags::DIRECT).contains(flags) {
            return Err(Errno::EINVAL);
        }
        let (read, write) = pipe(&self.vm.pipes, &self.cred(), flags - OpenFlags::CLOEXEC)?;
        if flags.contains(OpenFlags::DIRECT) {
            for end in [&read, &write] {
                end.set_flags(end.flags() | OpenFlags::DIRECT);
            }
        }
        self.insert_pair(read, write, flags.contains(OpenFlags::CLOEXEC))
    }

    /// Gives two open files the lowest free numbers, both or neither.
    pub(super) fn insert_pair(
        &self,
        a: Arc<OpenFile>,
        b: Arc<OpenFile>,
        cloexec: bool,
    ) -> Result<(i32, i32)> {
        let fds = self.process.fds();
        let first = fds.insert(a, cloexec, 0)?;
        match fds.insert(b, cloexec, 0) {
            Ok(second) => Ok((first, second)),
            Err(error) => {
                // Ours since a moment ago; nobody else runs in this process.
                let _ = fds.remove(first);
                Err(error)
            }
        }
    }

    /// Bytes that can be read without waiting (`FIONREAD`); `ENOTTY` where that has no meaning.
    pub fn readable_bytes(&self, fd: i32) -> Result<usize> {
        self.file(fd)?.ops().readable_bytes()
    }
}
