//! Unix socket pairs, with descriptors passed over them. Other sockets would leave the VM, which
//! has no network.

use super::Task;
use proctable::socket::{self, Shutdown, Socket};
use std::sync::Arc;
use vfs_core::errno::{Errno, Result};
use vfs_core::file::OpenFile;
use vfs_core::types::OpenFlags;

pub use proctable::socket::{MsgFlags, SocketKind};

/// What [`Task::recvmsg`] received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Bytes put into the buffer.
    pub bytes: usize,
    /// Length of the whole message; more than `bytes` if the buffer was too small for it.
    pub full_len: usize,
    /// Descriptors that came along.
    pub rights: Vec<i32>,
    /// More descriptors came than there was room for; the rest are closed.
    pub rights_truncated: bool,
}

impl Received {
    /// Whether the message was longer than the buffer.
    pub fn truncated(&self) -> bool {
        self.full_len > self.bytes
    }
}

impl Task {
    /// Makes a connected pair of unix sockets (`socketpair(2)`). Flags: `CLOEXEC`, `NONBLOCK`;
    /// others are `EINVAL`.
    pub fn socketpair(&self, kind: SocketKind, flags: OpenFlags) -> Result<(i32, i32)> {
        if !(OpenFlags::CLOEXEC | OpenFlags::NONBLOCK).contains(flags) {
            return Err(Errno::EINVAL);
        }
        let limits = self.vm.table.socket_limits();
        let (a, b) = socket::socketpair(limits, kind, &self.cred(), flags - OpenFlags::CLOEXEC)?;
        self.insert_pair(a, b, flags.contains(OpenFlags::CLOEXEC))
    }

    /// Makes a socket of an address family (Linux number). The policy is asked, and then there is
    /// no network to make one of: the error of the policy, or `EAFNOSUPPORT`.
    pub fn socket(&self, family: u32) -> Result<i32> {
        self.vm.policy.network(self.pid(), family)?;
        Err(Errno::EAFNOSUPPORT)
    }

    /// Sends on a socket (`send(2)`): `ENOTSOCK` for anything else.
    pub fn send(&self, fd: i32, data: &[u8], flags: MsgFlags) -> Result<usize> {
        self.sendmsg(fd, data, &[], flags)
    }

    /// Receives from a socket (`recv(2)`); 0 is the end.
    pub fn recv(&self, fd: i32, buf: &mut [u8], flags: MsgFlags) -> Result<usize> {
        Ok(self.recvmsg(fd, buf, 0, false, flags)?.bytes)
    }

    /// Sends bytes together with descriptors (`sendmsg(2)` with `SCM_RIGHTS`).
    pub fn sendmsg(&self, fd: i32, data: &[u8], rights: &[i32], flags: MsgFlags) -> Result<usize> {
        let file = self.file(fd)?;
        let rights = rights
            .iter()
            .map(|fd| self.file(*fd))
            .collect::<Result<Vec<_>>>()?;
        self.restart(|| socket::send(&self.process, &file, data, &rights, flags))
    }

    /// Receives bytes and at most `max_rights` descriptors, which get the lowest free numbers,
    /// closed by `exec` if `cloexec` (`recvmsg(2)`). Descriptors that the table has no room for
    /// are closed, as on Linux.
    pub fn recvmsg(
        &self,
        fd: i32,
        buf: &mut [u8],
        max_rights: usize,
        cloexec: bool,
        flags: MsgFlags,
    ) -> Result<Received> {
        let file = self.file(fd)?;
        let came = self.restart(|| socket::recv(&self.process, &file, buf, max_rights, flags))?;
        let mut received = Received {
            bytes: came.len,
            full_len: came.full_len,
            rights: Vec::with_capacity(came.rights.len()),
            rights_truncated: came.rights_cut,
        };
        for file in came.rights {
            match self.process.fds().insert(file, cloexec, 0) {
                Ok(fd) => received.rights.push(fd),
                Err(_) => received.rights_truncated = true,
            }
        }
        Ok(received)
    }

    /// Shuts one direction of a socket, or both (`shutdown(2)`).
    pub fn shutdown(&self, fd: i32, how: Shutdown) -> Result<()> {
        self.socket_of(fd, |socket| socket.shutdown(how))
    }

    fn socket_of<R>(&self, fd: i32, f: impl FnOnce(&Socket) -> R) -> Result<R> {
        let file: Arc<OpenFile> = self.file(fd)?;
        Socket::of(&file).map(f).ok_or(Errno::ENOTSOCK)
    }
}
