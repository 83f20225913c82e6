//! The host's ends of a process's streams: blocking reads and writes from threads of the host.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use vfs_core::errno::{Errno, Result};
use vfs_core::file::OpenFile;
use vfs_core::wait::{PollEvents, Waiter};

/// The reading end of a stream that guests write.
pub struct HostReader {
    file: Arc<OpenFile>,
    waiter: Arc<Waiter>,
}

/// The writing end of a stream that guests read. Dropping it is the end of the stream.
pub struct HostWriter {
    file: Arc<OpenFile>,
    waiter: Arc<Waiter>,
}

/// Repeats `attempt` until it gives something other than `EAGAIN` or the time is up (`ETIMEDOUT`).
fn wait<T>(
    file: &OpenFile,
    waiter: &Arc<Waiter>,
    events: PollEvents,
    deadline: Option<Instant>,
    mut attempt: impl FnMut() -> Result<T>,
) -> Result<T> {
    match attempt() {
        Err(Errno::EAGAIN) => {}
        done => return done,
    }
    let queue = file.ops().wait_queue().ok_or(Errno::EAGAIN)?;
    let _place = queue.register(waiter, events);
    loop {
        match attempt() {
            Err(Errno::EAGAIN) => {}
            done => return done,
        }
        if !waiter.wait(deadline) {
            return match attempt() {
                Err(Errno::EAGAIN) => Err(Errno::ETIMEDOUT),
                done => done,
            };
        }
    }
}

fn deadline(timeout: Duration) -> Option<Instant> {
    Instant::now().checked_add(timeout)
}

impl HostReader {
    pub(crate) fn new(file: Arc<OpenFile>) -> HostReader {
        HostReader {
            file,
            waiter: Waiter::new(),
        }
    }

    /// Reads what is there, waiting for some; 0 is the end, when no guest can write any more.
    pub fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        wait(&self.file, &self.waiter, PollEvents::IN, None, || {
            self.file.read(buf)
        })
    }

    /// The same, for at most `timeout`, then `ETIMEDOUT`.
    pub fn read_timeout(&mut self, buf: &mut [u8], timeout: Duration) -> Result<usize> {
        wait(
            &self.file,
            &self.waiter,
            PollEvents::IN,
            deadline(timeout),
            || self.file.read(buf),
        )
    }

    /// Reads what is there now; `EAGAIN` if nothing is.
    pub fn try_read(&mut self, buf: &mut [u8]) -> Result<usize> {
        self.file.read(buf)
    }

    /// The open file, for [`SpawnRequest`](crate::SpawnRequest) of another process.
    pub fn file(&self) -> &Arc<OpenFile> {
        &self.file
    }
}

impl HostWriter {
    pub(crate) fn new(file: Arc<OpenFile>) -> HostWriter {
        HostWriter {
            file,
            waiter: Waiter::new(),
        }
    }

    /// Writes some of `buf`, waiting for room; `EPIPE` when no guest can read any more.
    pub fn write(&mut self, buf: &[u8]) -> Result<usize> {
        wait(&self.file, &self.waiter, PollEvents::OUT, None, || {
            self.file.write(buf)
        })
    }

    /// The same, for at most `timeout`, then `ETIMEDOUT`.
    pub fn write_timeout(&mut self, buf: &[u8], timeout: Duration) -> Result<usize> {
        wait(
            &self.file,
            &self.waiter,
            PollEvents::OUT,
            deadline(timeout),
            || self.file.write(buf),
        )
    }

    /// Writes what there is room for now; `EAGAIN` if there is none.
    pub fn try_write(&mut self, buf: &[u8]) -> Result<usize> {
        self.file.write(buf)
    }

    /// Writes all of `buf`.
    pub fn write_all(&mut self, mut buf: &[u8]) -> Result<()> {
        while !buf.is_empty() {
            let n = self.write(buf)?;
            buf = &buf[n..];
        }
        Ok(())
    }

    /// The open file, for [`SpawnRequest`](crate::SpawnRequest) of another process.
    pub fn file(&self) -> &Arc<OpenFile> {
        &self.file
    }
}

/// An error of the guest's system as one of the host's, which has the same numbers on Linux.
fn host_error(errno: Errno) -> io::Error {
    io::Error::from_raw_os_error(errno.number())
}

impl io::Read for HostReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        HostReader::read(self, buf).map_err(host_error)
    }
}

impl io::Write for HostWriter {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        HostWriter::write(self, buf).map_err(host_error)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
