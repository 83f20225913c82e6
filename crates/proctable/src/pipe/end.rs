//! The end of a pipe, as an open file has it.

use super::{PIPE_BUF, PIPEFS_DEV, Pipe};
use crate::sync::lock;
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use vfs_core::errno::Result;
use vfs_core::file::{FileOps, OpenFile};
use vfs_core::types::{FileType, OpenFlags, Stat};
use vfs_core::wait::{PollEvents, WaitQueue};

/// One end of a pipe, or both for a fifo opened for reading and writing.
pub struct PipeEnd {
    pub(super) pipe: Arc<Pipe>,
    pub(super) reads: bool,
    pub(super) writes: bool,
    pub(super) closed: AtomicBool,
    /// The missing of writers is a hang-up once there have been other than this many.
    pub(super) hung_up_after: u64,
    /// Whether an end of the other kind was there when it was opened; it may be gone before a
    /// blocking open looks.
    pub(super) met_at_open: bool,
    /// Ends that had been opened when this one was, itself included.
    pub(super) readers_at_open: u64,
    pub(super) writers_at_open: u64,
}

impl PipeEnd {
    /// The end behind an open file, if it is one.
    pub fn of(file: &OpenFile) -> Option<&PipeEnd> {
        file.ops().as_any().downcast_ref()
    }

    /// The pipe.
    pub fn pipe(&self) -> &Arc<Pipe> {
        &self.pipe
    }

    /// Whether it reads.
    pub fn reads(&self) -> bool {
        self.reads
    }

    /// Whether it writes.
    pub fn writes(&self) -> bool {
        self.writes
    }

    /// Whether an end of the other kind has been there since it was opened.
    pub(crate) fn met_partner(&self) -> bool {
        let (readers, writers) = self.pipe.ends_ever();
        self.met_at_open
            || match (self.reads, self.writes) {
                (true, false) => writers > self.writers_at_open || self.pipe.writers() > 0,
                (false, true) => readers > self.readers_at_open || self.pipe.readers() > 0,
                _ => true,
            }
    }

    fn close(&self) {
        if !self.closed.swap(true, Ordering::Relaxed) {
            self.pipe.close_end(self.reads, self.writes);
        }
    }
}

impl Drop for PipeEnd {
    fn drop(&mut self) {
        // An end whose open was given up never became an open file, so nobody released it.
        self.close();
    }
}

impl FileOps for PipeEnd {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn read_at(&self, buf: &mut [u8], _offset: u64) -> Result<usize> {
        self.pipe.read(buf)
    }

    fn write_at(&self, buf: &[u8], _offset: u64) -> Result<usize> {
        self.pipe.write(buf)
    }

    fn seekable(&self) -> bool {
        false
    }

    fn stat(&self) -> Result<Stat> {
        let at = self.pipe.created;
        Ok(Stat {
            dev: PIPEFS_DEV,
            ino: self.pipe.ino,
            mode: FileType::Fifo.mode_bits() | 0o600,
            nlink: 1,
            uid: self.pipe.uid,
            gid: self.pipe.gid,
            rdev: 0,
            size: 0,
            blocks: 0,
            atime: at,
            mtime: at,
            ctime: at,
            btime: at,
        })
    }

    fn poll(&self) -> PollEvents {
        let state = lock(&self.pipe.state);
        let mut events = PollEvents::empty();
        if self.reads {
            if state.len() > 0 {
                events |= PollEvents::IN | PollEvents::RDNORM;
            }
            // The reader of a fifo that never had a writer is not hung up on.
            if state.writers == 0 && state.writers_ever != self.hung_up_after {
                events |= PollEvents::HUP;
            }
        }
        if self.writes {
            if state.room() >= PIPE_BUF {
                events |= PollEvents::OUT | PollEvents::WRNORM;
            }
            if state.readers == 0 {
                events |= PollEvents::ERR;
            }
        }
        events
    }

    fn wait_queue(&self) -> Option<&WaitQueue> {
        Some(&self.pipe.queue)
    }

    fn readable_bytes(&self) -> Result<usize> {
        Ok(self.pipe.len())
    }

    fn release(&self, _flags: OpenFlags) {
        self.close();
    }
}
