//! The host's standard streams as open files of a guest.
//!
//! Nothing is copied through buffers of our own and no byte is read that the guest did not ask
//! for, so `while read x; do aos run -- echo "$x"; done < list` behaves as with any other program,
//! back-pressure is the host's, and when the guest has ended all its output is where it belongs.
//!
//! | what the descriptor is | what the guest gets |
//! |---|---|
//! | a regular file as input | a seekable file; the host's offset follows the guest's ([`InputFile`]) |
//! | a regular file as output, `/dev/null` and its like | a stream, each write at the offset the host keeps ([`Stream`]) |
//! | a pipe, a fifo, a terminal, a socket | a stream that is waited for by one thread, only while a guest waits ([`Stream`]) |
//!
//! A terminal is a plain stream to the guest here. A guest that is to have a terminal gets one of
//! the VM's own, and the host's is lent to that: [`HostTty`] puts it into raw mode, a [`Relay`]
//! carries keys and picture.

mod input;
mod relay;
mod stream;
mod tty;
mod watch;

pub use input::InputFile;
pub use relay::{End, Relay};
pub use stream::Stream;
pub use tty::{HostTty, RawMode};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::stat::{SFlag, fstat};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use vfs_core::file::{FileOps, OpenFile};
use vfs_core::types::OpenFlags;

/// Which way data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the host into the guest.
    Input,
    /// From the guest to the host.
    Output,
}

/// Makes an open file of a descriptor of the host.
pub fn open(fd: OwnedFd, direction: Direction) -> io::Result<Arc<OpenFile>> {
    let flags = OFlag::from_bits_retain(fcntl(&fd, FcntlArg::F_GETFL)?);
    let access = flags & OFlag::O_ACCMODE;
    let kind = SFlag::from_bits_truncate(fstat(fd.as_fd())?.st_mode) & SFlag::S_IFMT;
    let readable = access != OFlag::O_WRONLY;
    if kind == SFlag::S_IFREG && direction == Direction::Input && readable {
        let (ops, offset) = InputFile::new(fd)?;
        let file = OpenFile::anonymous(ops, OpenFlags::empty());
        file.seek(offset, vfs_core::file::Whence::Set)
            .map_err(|errno| io::Error::from_raw_os_error(errno.number()))?;
        return Ok(file);
    }
    // The mode the descriptor really has: a program may well write to its stdin if that is a
    // terminal or a socket, and must get EBADF if it is not.
    let mode = match access {
        OFlag::O_RDONLY => OpenFlags::empty(),
        OFlag::O_WRONLY => OpenFlags::WRONLY,
        _ => OpenFlags::RDWR,
    };
    let ops: Arc<dyn FileOps> = Stream::new(fd, kind, access)?;
    Ok(OpenFile::anonymous(ops, mode))
}
