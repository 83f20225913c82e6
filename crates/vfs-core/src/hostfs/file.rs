//! Open files and directories of the host.

use super::inode::HostInode;
use super::sys;
use crate::errno::{Errno, Result};
use crate::file::{FileOps, RangeChange};
use crate::sync::lock;
use crate::types::{DirEntry, FileType, OpenFlags};
use nix::fcntl::OFlag;
use std::any::Any;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};

/// An open regular file.
pub(super) struct HostFile {
    inode: Arc<HostInode>,
    fd: OwnedFd,
    /// Held while the descriptor's own offset is used.
    appending: Mutex<()>,
}

impl HostFile {
    pub(super) fn open(inode: Arc<HostInode>, flags: OpenFlags) -> Result<HostFile> {
        let mode = match (flags.readable(), flags.writable()) {
            (true, true) => OFlag::O_RDWR,
            (false, true) => OFlag::O_WRONLY,
            _ => OFlag::O_RDONLY,
        };
        // Not to block on what the host put there is the second safety: the kind was checked.
        let fd = sys::reopen(inode.fd.as_fd(), mode | OFlag::O_NONBLOCK)?;
        Ok(HostFile {
            inode,
            fd,
            appending: Mutex::new(()),
        })
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Does a write that makes the file end at `end` at least, as far as the quota goes; `write`
    /// is told how many bytes beyond the present size it may go.
    fn growing<T>(
        &self,
        end: impl FnOnce(u64) -> u64,
        write: impl FnOnce(u64, u64) -> Result<T>,
    ) -> Result<T> {
        let Some(mut left) = self.inode.fs.quota() else {
            return write(0, u64::MAX);
        };
        let old = sys::stat(self.fd())?.size;
        if end(old) > old && *left == 0 {
            return Err(Errno::EDQUOT);
        }
        let result = write(old, *left);
        let new = sys::stat(self.fd())?.size;
        *left = left
            .saturating_sub(new.saturating_sub(old))
            .saturating_add(old.saturating_sub(new));
        result
    }

    /// As [`HostFile::growing`], for a change that is done whole or not at all.
    fn growing_to(
        &self,
        end: impl Fn(u64) -> u64,
        change: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        self.growing(&end, |old, room| {
            if end(old).saturating_sub(old) > room {
                return Err(Errno::EDQUOT);
            }
            change()
        })
    }
}

/// The part of `buf`, written at `offset`, that ends within `room` bytes after `size`.
fn within(buf: &[u8], offset: u64, size: u64, room: u64) -> Result<&[u8]> {
    let end = size.saturating_add(room);
    let n = usize::try_from(end.saturating_sub(offset))
        .unwrap_or(usize::MAX)
        .min(buf.len());
    if n == 0 {
        Err(Errno::EDQUOT)
    } else {
        Ok(&buf[..n])
    }
}

impl FileOps for HostFile {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        sys::pread(self.fd(), buf, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        self.growing(
            |_| offset.saturating_add(buf.len() as u64),
            |size, room| sys::pwrite(self.fd(), within(buf, offset, size, room)?, offset),
        )
    }

    fn append(&self, buf: &[u8]) -> Result<(usize, u64)> {
        if buf.is_empty() {
            return Ok((0, self.size()?));
        }
        let _offset = lock(&self.appending);
        self.growing(
            |size| size.saturating_add(buf.len() as u64),
            |size, room| sys::append(self.fd(), within(buf, size, size, room)?),
        )
    }

    fn size(&self) -> Result<u64> {
        Ok(sys::stat(self.fd())?.size)
    }

    fn seek_data_hole(&self, offset: u64, hole: bool) -> Result<u64> {
        let _offset = lock(&self.appending);
        sys::seek_data_hole(self.fd(), offset, hole)
    }

    fn sync(&self) -> Result<()> {
        sys::sync(self.fd())
    }

    fn allocate(&self, offset: u64, len: u64, keep_size: bool) -> Result<()> {
        let mode = if keep_size {
            libc::FALLOC_FL_KEEP_SIZE
        } else {
            0
        };
        // Space beyond the end counts as if the file reached there.
        let end = offset.saturating_add(len);
        self.growing_to(
            |size| size.max(end),
            || sys::fallocate(self.fd(), mode, offset, len),
        )
    }

    fn change_range(&self, change: RangeChange, offset: u64, len: u64) -> Result<()> {
        let end = offset.saturating_add(len);
        let keep = libc::FALLOC_FL_KEEP_SIZE;
        let (mode, grows_to): (i32, Box<dyn Fn(u64) -> u64>) = match change {
            RangeChange::PunchHole => (libc::FALLOC_FL_PUNCH_HOLE | keep, Box::new(|size| size)),
            RangeChange::Zero { keep_size } => (
                libc::FALLOC_FL_ZERO_RANGE | if keep_size { keep } else { 0 },
                Box::new(move |size| size.max(end)),
            ),
            RangeChange::Collapse => (libc::FALLOC_FL_COLLAPSE_RANGE, Box::new(|size| size)),
            RangeChange::Insert => (
                libc::FALLOC_FL_INSERT_RANGE,
                Box::new(move |size| size.saturating_add(len)),
            ),
        };
        self.growing_to(grows_to, || sys::fallocate(self.fd(), mode, offset, len))
    }
}

/// Between the host's directory positions, any number, and our cookies, of which 0 to 2 are
/// reserved.
const COOKIE_SHIFT: u64 = 3;

/// An open directory.
pub(super) struct HostDir {
    fd: OwnedFd,
    state: Mutex<Listing>,
}

/// Where a listing is.
struct Listing {
    /// Position of the descriptor as a cookie; `None` if unknown.
    at: Option<u64>,
    /// Entries read and not given yet, the cookie that they come after, and where they begin.
    left: Vec<u8>,
    left_from: usize,
    left_after: u64,
}

impl HostDir {
    pub(super) fn open(dir: BorrowedFd<'_>) -> Result<HostDir> {
        let fd = sys::reopen(dir, OFlag::O_RDONLY | OFlag::O_DIRECTORY)?;
        let state = Listing {
            at: Some(0),
            left: Vec::new(),
            left_from: 0,
            left_after: 0,
        };
        Ok(HostDir {
            fd,
            state: Mutex::new(state),
        })
    }

    /// Entries after `cookie`, raw, and where in the buffer they begin.
    fn fetch(&self, cookie: u64) -> Result<(Vec<u8>, usize)> {
        let mut state = lock(&self.state);
        if state.left_after == cookie && state.left_from < state.left.len() {
            return Ok((std::mem::take(&mut state.left), state.left_from));
        }
        let from = (state.at != Some(cookie)).then(|| match cookie {
            0 => 0,
            cookie => cookie.wrapping_sub(COOKIE_SHIFT) as i64,
        });
        state.at = None;
        let raw = sys::getdents(self.fd.as_fd(), from)?;
        state.at = last_cookie(&raw).or(Some(cookie));
        Ok((raw, 0))
    }
}

/// One raw entry (`struct linux_dirent64`).
struct Raw<'a> {
    ino: u64,
    next: u64,
    kind: u8,
    name: &'a [u8],
    len: usize,
}

fn parse(raw: &[u8]) -> Option<Raw<'_>> {
    let ino = u64::from_ne_bytes(raw.get(..8)?.try_into().ok()?);
    let off = i64::from_ne_bytes(raw.get(8..16)?.try_into().ok()?);
    let len = usize::from(u16::from_ne_bytes(raw.get(16..18)?.try_into().ok()?));
    let kind = *raw.get(18)?;
    let name = raw.get(19..len)?.split(|&b| b == 0).next()?;
    Some(Raw {
        ino,
        next: (off as u64).wrapping_add(COOKIE_SHIFT),
        kind,
        name,
        len,
    })
}

fn last_cookie(raw: &[u8]) -> Option<u64> {
    let mut at = 0;
    let mut last = None;
    while let Some(entry) = raw.get(at..).and_then(parse) {
        last = Some(entry.next);
        at += entry.len;
    }
    last
}

impl HostDir {
    fn kind(&self, entry: &Raw<'_>) -> FileType {
        match entry.kind {
            libc::DT_REG => FileType::Regular,
            libc::DT_DIR => FileType::Directory,
            libc::DT_LNK => FileType::Symlink,
            libc::DT_CHR => FileType::CharDevice,
            libc::DT_BLK => FileType::BlockDevice,
            libc::DT_FIFO => FileType::Fifo,
            libc::DT_SOCK => FileType::Socket,
            // Some file systems do not say.
            _ => sys::stat_child(self.fd.as_fd(), entry.name)
                .and_then(|stat| stat.kind())
                .unwrap_or(FileType::Regular),
        }
    }
}

impl FileOps for HostDir {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn read_at(&self, _buf: &mut [u8], _offset: u64) -> Result<usize> {
        Err(Errno::EISDIR)
    }

    fn write_at(&self, _buf: &[u8], _offset: u64) -> Result<usize> {
        Err(Errno::EISDIR)
    }

    fn readdir(&self, cookie: u64, sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        let mut cookie = cookie;
        loop {
            let (raw, mut at) = self.fetch(cookie)?;
            if at >= raw.len() {
                return Ok(());
            }
            while let Some(entry) = raw.get(at..).and_then(parse) {
                if !matches!(entry.name, b"." | b"..") {
                    let (name, ino, next) = (entry.name, entry.ino, entry.next);
                    if !sink(DirEntry {
                        name,
                        ino,
                        kind: self.kind(&entry),
                        next,
                    }) {
                        let mut state = lock(&self.state);
                        (state.left_from, state.left_after) = (at, cookie);
                        state.left = raw;
                        return Ok(());
                    }
                }
                cookie = entry.next;
                at += entry.len;
            }
        }
    }

    fn sync(&self) -> Result<()> {
        sys::sync(self.fd.as_fd())
    }
}
