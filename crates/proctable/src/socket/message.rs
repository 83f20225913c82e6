//! Sending and receiving as a process does it (`sendmsg(2)`, `recvmsg(2)`).

use super::{READABLE, Received, Socket, SocketKind, WRITABLE};
use crate::block::block_on;
use crate::process::Process;
use crate::signal::Signal;
use std::sync::Arc;
use vfs_core::errno::{Errno, Result};
use vfs_core::file::OpenFile;
use vfs_core::types::OpenFlags;

/// How [`send`] and [`recv`] behave (`MSG_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MsgFlags {
    /// Do not block (`MSG_DONTWAIT`), whatever the file says.
    pub dont_wait: bool,
    /// Leave what is received (`MSG_PEEK`).
    pub peek: bool,
    /// Receive until the buffer is full (`MSG_WAITALL`); for streams.
    pub wait_all: bool,
    /// Raise no `SIGPIPE` (`MSG_NOSIGNAL`).
    pub no_signal: bool,
}

/// Sends bytes and descriptors, blocking as the file and `flags` say (`sendmsg(2)`). `ENOTSOCK`,
/// and the errors of [`Socket::send`]; a stream returns less only when something comes after a
/// part was sent.
pub fn send(
    process: &Process,
    file: &OpenFile,
    data: &[u8],
    rights: &[Arc<OpenFile>],
    flags: MsgFlags,
) -> Result<usize> {
    let socket = Socket::of(file).ok_or(Errno::ENOTSOCK)?;
    let blocks = !flags.dont_wait && !file.flags().contains(OpenFlags::NONBLOCK);
    let mut done = 0;
    let mut rights = rights;
    loop {
        let attempt = || socket.send(&data[done..], rights);
        let sent = if blocks {
            block_on(process, &[(&socket.mine().queue, WRITABLE)], None, attempt)
        } else {
            attempt()
        };
        match sent {
            Ok(n) => {
                done += n;
                rights = &[];
                if done >= data.len() || n == 0 {
                    return Ok(done);
                }
            }
            Err(error) => {
                if error == Errno::EPIPE && socket.raises_sigpipe() && !flags.no_signal {
                    process.raise(Signal::PIPE);
                }
                return if done > 0 { Ok(done) } else { Err(error) };
            }
        }
    }
}

/// Receives bytes and descriptors, blocking as the file and `flags` say (`recvmsg(2)`).
/// `ENOTSOCK`; `EINTR` when a signal can be delivered before anything came.
pub fn recv(
    process: &Process,
    file: &OpenFile,
    buf: &mut [u8],
    max_rights: usize,
    flags: MsgFlags,
) -> Result<Received> {
    let socket = Socket::of(file).ok_or(Errno::ENOTSOCK)?;
    let blocks = !flags.dont_wait && !file.flags().contains(OpenFlags::NONBLOCK);
    let all = flags.wait_all && !flags.peek && socket.kind() == SocketKind::Stream;
    let mut got = Received::default();
    loop {
        let done = got.len;
        let mut attempt = || socket.recv(&mut buf[done..], max_rights, flags.peek);
        let part = if blocks {
            block_on(process, &[(&socket.mine().queue, READABLE)], None, attempt)
        } else {
            attempt()
        };
        match part {
            Ok(part) => {
                let ended = part.len == 0;
                got = Received {
                    len: done + part.len,
                    full_len: done + part.full_len,
                    rights: part.rights,
                    rights_cut: part.rights_cut,
                };
                let came_with_rights = !got.rights.is_empty() || got.rights_cut;
                if !all || ended || came_with_rights || got.len == buf.len() {
                    return Ok(got);
                }
            }
            Err(_) if done > 0 => return Ok(got),
            Err(error) => return Err(error),
        }
    }
}
