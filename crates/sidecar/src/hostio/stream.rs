//! A stream of the host, never waited for on a guest's thread.

use super::watch::Watch;
use nix::errno::Errno as HostErrno;
use nix::fcntl::{OFlag, open};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, recv, send};
use nix::sys::stat::{Mode, SFlag, fstat};
use nix::unistd::{read, write};
use std::any::Any;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use vfs_core::errno::{Errno, Result};
use vfs_core::file::FileOps;
use vfs_core::types::{OpenFlags, Stat, Timespec};
use vfs_core::wait::{PollEvents, WaitQueue};

/// Most bytes that a pipe which reports room takes without blocking (`PIPE_BUF`).
const PIPE_BUF: usize = 4096;

/// How a stream is kept from blocking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    /// It never blocks: a regular file, `/dev/null` and its like.
    Ready,
    /// It was opened anew without blocking; the description that others share is untouched.
    Reopened,
    /// A socket, asked call by call.
    Socket,
    /// It may block and can't be opened anew: asked for readiness before each call.
    Polled,
}

/// A descriptor of the host that has no offset of its own in the guest.
pub struct Stream {
    fd: Arc<OwnedFd>,
    manner: Manner,
    kind: SFlag,
    watch: Watch,
}

impl Stream {
    /// A stream of `fd`, which is of the kind and access mode given.
    pub fn new(fd: OwnedFd, kind: SFlag, access: OFlag) -> io::Result<Arc<Stream>> {
        let (fd, manner) = match kind {
            SFlag::S_IFREG => (fd, Manner::Ready),
            SFlag::S_IFSOCK => (fd, Manner::Socket),
            SFlag::S_IFCHR if is_memory_device(&fd) => (fd, Manner::Ready),
            _ => {
                // Setting O_NONBLOCK on the descriptor itself would set it for every process
                // that shares it. A second opening of the same pipe or terminal has flags of its
                // own.
                let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
                let flags = access | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
                match open(path.as_str(), flags, Mode::empty()) {
                    Ok(second) => (second, Manner::Reopened),
                    Err(_) => (fd, Manner::Polled),
                }
            }
        };
        let fd = Arc::new(fd);
        let events = match access {
            OFlag::O_RDONLY => PollFlags::POLLIN,
            OFlag::O_WRONLY => PollFlags::POLLOUT,
            _ => PollFlags::POLLIN | PollFlags::POLLOUT,
        };
        Ok(Arc::new(Stream {
            watch: Watch::new(fd.clone(), events),
            fd,
            manner,
            kind,
        }))
    }

    /// `EAGAIN` also asks the watch to tell when to try again.
    fn result(&self, result: nix::Result<usize>, events: PollFlags) -> Result<usize> {
        match result {
            Err(HostErrno::EAGAIN) => {
                self.watch.arm(events);
                Err(Errno::EAGAIN)
            }
            other => other.map_err(errno),
        }
    }

    /// Whether a call would go through now.
    fn ready(&self, events: PollFlags) -> nix::Result<()> {
        let mut fds = [PollFd::new(self.fd.as_fd(), events)];
        match poll(&mut fds, PollTimeout::ZERO)? {
            0 => Err(HostErrno::EAGAIN),
            _ => Ok(()),
        }
    }
}

impl FileOps for Stream {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn seekable(&self) -> bool {
        false
    }

    fn read_at(&self, buf: &mut [u8], _offset: u64) -> Result<usize> {
        let result = match self.manner {
            Manner::Ready | Manner::Reopened => read(&*self.fd, buf),
            Manner::Socket => recv(self.fd.as_raw_fd(), buf, MsgFlags::MSG_DONTWAIT),
            Manner::Polled => self
                .ready(PollFlags::POLLIN)
                .and_then(|()| read(&*self.fd, buf)),
        };
        self.result(result, PollFlags::POLLIN)
    }

    fn write_at(&self, buf: &[u8], _offset: u64) -> Result<usize> {
        let result = match self.manner {
            Manner::Ready | Manner::Reopened => write(&*self.fd, buf),
            Manner::Socket => {
                let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
                send(self.fd.as_raw_fd(), buf, flags)
            }
            Manner::Polled => self
                .ready(PollFlags::POLLOUT)
                .and_then(|()| write(&*self.fd, &buf[..buf.len().min(PIPE_BUF)])),
        };
        self.result(result, PollFlags::POLLOUT)
    }

    fn stat(&self) -> Result<Stat> {
        // Whatever is not a file or a memory device is a pipe to the guest: a terminal is none
        // here, and a socket of the host is not one of the VM's.
        let kind = match self.kind {
            SFlag::S_IFREG => 0o100_000,
            SFlag::S_IFCHR if self.manner == Manner::Ready => 0o020_000,
            _ => 0o010_000,
        };
        stat(&self.fd, kind)
    }

    fn poll(&self) -> PollEvents {
        let mut fds = [PollFd::new(
            self.fd.as_fd(),
            PollFlags::POLLIN | PollFlags::POLLOUT,
        )];
        let seen = match poll(&mut fds, PollTimeout::ZERO) {
            Ok(_) => fds[0].revents().unwrap_or(PollFlags::empty()),
            Err(_) => PollFlags::POLLERR,
        };
        let missing = (PollFlags::POLLIN | PollFlags::POLLOUT).difference(seen);
        if !missing.is_empty() {
            self.watch.arm(missing);
        }
        let mut events = PollEvents::empty();
        for (flag, event) in [
            (PollFlags::POLLIN, PollEvents::IN | PollEvents::RDNORM),
            (PollFlags::POLLOUT, PollEvents::OUT | PollEvents::WRNORM),
            (PollFlags::POLLERR, PollEvents::ERR),
            (PollFlags::POLLHUP, PollEvents::HUP),
        ] {
            if seen.contains(flag) {
                events |= event;
            }
        }
        events
    }

    fn wait_queue(&self) -> Option<&WaitQueue> {
        (self.manner != Manner::Ready).then(|| self.watch.queue())
    }

    fn release(&self, _flags: OpenFlags) {
        self.watch.stop();
    }
}

/// `/dev/null`, `/dev/zero`, `/dev/full`, `/dev/urandom`: they answer at once.
fn is_memory_device(fd: &OwnedFd) -> bool {
    /// Major number of the memory devices.
    const MEM_MAJOR: u64 = 1;
    fstat(fd.as_fd()).is_ok_and(|stat| nix::sys::stat::major(stat.st_rdev) == MEM_MAJOR)
}

/// Linux numbers on both sides.
pub(super) fn errno(host: HostErrno) -> Errno {
    Errno::from_number(host as i32).unwrap_or(Errno::EIO)
}

/// Attributes of a host descriptor as a guest may see them: what kind it is and how large, not
/// whose it is or where it lies.
pub(super) fn stat(fd: &OwnedFd, kind: u32) -> Result<Stat> {
    /// A device number of no host file system: 0:255 of the anonymous ones.
    const DEV: u64 = 0xff;
    let host = fstat(fd.as_fd()).map_err(errno)?;
    let time = |sec: i64, nsec: i64| Timespec {
        sec,
        nsec: u32::try_from(nsec).unwrap_or(0),
    };
    let unsigned = |n: i64| u64::try_from(n).unwrap_or(0);
    Ok(Stat {
        dev: DEV,
        ino: host.st_ino.max(1),
        mode: kind | if kind == 0o010_000 { 0o600 } else { 0o666 },
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: if kind == 0o020_000 { host.st_rdev } else { 0 },
        size: if kind == 0o100_000 {
            unsigned(host.st_size)
        } else {
            0
        },
        blocks: if kind == 0o100_000 {
            unsigned(host.st_blocks)
        } else {
            0
        },
        atime: time(host.st_atime, host.st_atime_nsec),
        mtime: time(host.st_mtime, host.st_mtime_nsec),
        ctime: time(host.st_ctime, host.st_ctime_nsec),
        btime: time(host.st_ctime, host.st_ctime_nsec),
    })
}
