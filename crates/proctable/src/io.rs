//! Reading and writing as a process does it: blocking where the file blocks, with `EINTR`,
//! `SIGPIPE` and short counts as Linux has them.

use crate::block::block_on;
use crate::pipe::{Pipe, PipeEnd};
use crate::process::Process;
use crate::signal::Signal;
use crate::socket::Socket;
use std::time::{Duration, Instant};
use vfs_core::errno::{Errno, Result};
use vfs_core::file::{MAX_RW_COUNT, OpenFile};
use vfs_core::types::OpenFlags;
use vfs_core::wait::PollEvents;

/// Reads at the file's offset. Blocks unless `O_NONBLOCK`; `EINTR` when a signal can be delivered
/// before anything was read.
pub fn read(process: &Process, file: &OpenFile, buf: &mut [u8]) -> Result<usize> {
    match file.read(buf) {
        Err(Errno::EAGAIN) if !file.flags().contains(OpenFlags::NONBLOCK) => {}
        done => return done,
    }
    let Some(queue) = file.ops().wait_queue() else {
        return Err(Errno::EAGAIN);
    };
    if let Some(end) = PipeEnd::of(file) {
        match end.pipe().eager.look_again(|| file.read(buf)) {
            Err(Errno::EAGAIN) => {}
            done => return done,
        }
    }
    block_on(
        process,
        &[(queue, PollEvents::IN | PollEvents::RDNORM)],
        None,
        || file.read(buf),
    )
}

/// Writes at the file's offset, or at the end under `O_APPEND`. Blocks unless `O_NONBLOCK` until
/// all is written, and returns less only when a signal, an error or the end of room comes after a
/// part was written. Writing to what nobody reads raises `SIGPIPE` and gives `EPIPE`.
///
/// A writer that finds a pipe full for good has it grown; see [`ProcTable::is_stalled`](crate::ProcTable::is_stalled).
pub fn write(process: &Process, file: &OpenFile, buf: &[u8]) -> Result<usize> {
    let buf = &buf[..buf.len().min(MAX_RW_COUNT)];
    let mut done = 0;
    loop {
        let error = match write_some(process, file, &buf[done..]) {
            Ok(n) => {
                done += n;
                // A file that takes nothing would be asked for ever.
                if done >= buf.len() || n == 0 {
                    return Ok(done);
                }
                continue;
            }
            Err(error) => error,
        };
        if error == Errno::EPIPE && Socket::of(file).is_none_or(Socket::raises_sigpipe) {
            process.raise(Signal::PIPE);
        }
        return if done > 0 { Ok(done) } else { Err(error) };
    }
}

/// How long a writer waits at first before it asks whether the reader can come at all.
const FIRST_SLICE: Duration = Duration::from_millis(4);
/// How rarely it asks in the end.
const LAST_SLICE: Duration = Duration::from_millis(64);

fn write_some(process: &Process, file: &OpenFile, buf: &[u8]) -> Result<usize> {
    match file.write(buf) {
        Err(Errno::EAGAIN) if !file.flags().contains(OpenFlags::NONBLOCK) => {}
        done => return done,
    }
    let Some(queue) = file.ops().wait_queue() else {
        return Err(Errno::EAGAIN);
    };
    let queues = [(queue, PollEvents::OUT | PollEvents::WRNORM)];
    let Some(pipe) = PipeEnd::of(file).map(PipeEnd::pipe) else {
        return block_on(process, &queues, None, || file.write(buf));
    };
    let mut slice = FIRST_SLICE;
    loop {
        match block_on(process, &queues, Some(Instant::now() + slice), || {
            file.write(buf)
        }) {
            Err(Errno::ETIMEDOUT) if stalled(process, pipe) => {
                pipe.grow()?;
                slice = FIRST_SLICE;
            }
            Err(Errno::ETIMEDOUT) => slice = (slice * 2).min(LAST_SLICE),
            done => return done,
        }
    }
}

fn stalled(process: &Process, pipe: &Pipe) -> bool {
    process
        .table()
        .is_some_and(|table| table.is_stalled(pipe, process))
}
