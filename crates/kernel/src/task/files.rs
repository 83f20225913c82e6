//! Open files: opening, reading, writing, descriptors.

use super::{Dir, Task};
use proctable::fifo::complete_open;
use proctable::io;
use proctable::pipe::PipeEnd;
use proctable::socket::{Socket, SocketKind};
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;
use vfs_core::errno::{Errno, Result};
use vfs_core::file::{OpenFile, Whence};
use vfs_core::types::{DirEntry, FileType, OpenFlags, Stat};

/// What is behind a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FdKind {
    /// A file of a file system, named fifos excepted.
    File(FileType),
    /// An end of a pipe or of a fifo.
    Pipe,
    /// A socket.
    Socket {
        /// Of a stream or of packets that keep their order, not of datagrams.
        stream: bool,
    },
    /// A terminal.
    Terminal,
    /// A stream of the host.
    Other,
}

/// What `fallocate(2)` is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FallocateMode {
    /// Reserve space; the file grows to hold it.
    Allocate,
    /// Reserve space; the size stays.
    KeepSize,
    /// Make the range a hole; the size stays.
    PunchHole,
    /// Make the range read as zeros.
    ZeroRange {
        /// The size stays.
        keep_size: bool,
    },
    /// Take the range out of the file.
    Collapse,
    /// Insert a hole.
    Insert,
}

impl Task {
    /// Opens a file (`openat(2)`); the umask is applied to `perm`, `CLOEXEC` in `flags` is
    /// honoured. Waits for the other side of a fifo unless `NONBLOCK`.
    pub fn openat(&self, dir: Dir, path: &[u8], flags: OpenFlags, perm: u32) -> Result<i32> {
        let file = self.open_file(dir, path, flags, perm)?;
        self.process
            .fds()
            .insert(file, flags.contains(OpenFlags::CLOEXEC), 0)
    }

    fn open_file(
        &self,
        dir: Dir,
        path: &[u8],
        flags: OpenFlags,
        perm: u32,
    ) -> Result<Arc<OpenFile>> {
        let file = self.at(dir, path, |at| {
            at.open(path, flags - OpenFlags::CLOEXEC, perm)
        })?;
        self.restart(|| complete_open(&self.process, &file))?;
        Ok(file)
    }

    /// Opens an unnamed file in the directory `path` (`O_TMPFILE`).
    pub fn tmpfile(&self, dir: Dir, path: &[u8], flags: OpenFlags, perm: u32) -> Result<i32> {
        let file = self.at(dir, path, |at| {
            at.tmpfile(path, flags - OpenFlags::CLOEXEC, perm)
        })?;
        self.process
            .fds()
            .insert(file, flags.contains(OpenFlags::CLOEXEC), 0)
    }

    /// Closes a descriptor (`close(2)`).
    pub fn close(&self, fd: i32) -> Result<()> {
        self.process.fds().remove(fd).map(drop)
    }

    /// Closes every descriptor from `fd` up (`closefrom(3)`).
    pub fn closefrom(&self, fd: i32) {
        self.process.fds().close_from(fd);
    }

    /// Reads (`read(2)`).
    pub fn read(&self, fd: i32, buf: &mut [u8]) -> Result<usize> {
        let file = self.file(fd)?;
        self.read_file(&file, buf)
    }

    fn read_file(&self, file: &OpenFile, buf: &mut [u8]) -> Result<usize> {
        if file.ops().seekable() {
            return io::read(&self.process, file, buf);
        }
        self.restart(|| match pty::read(&self.process, file, buf) {
            Some(done) => done,
            None => io::read(&self.process, file, buf),
        })
    }

    /// Reads into several buffers (`readv(2)`): what one read gives, spread over them.
    pub fn readv(&self, fd: i32, bufs: &mut [IoSliceMut<'_>]) -> Result<usize> {
        let file = self.file(fd)?;
        let mut total = 0;
        for buf in bufs.iter_mut().filter(|buf| !buf.is_empty()) {
            let done = if total == 0 {
                self.read_file(&file, buf)
            } else {
                file.read(buf)
            };
            match done {
                Ok(n) => {
                    total += n;
                    if n < buf.len() {
                        break;
                    }
                }
                Err(_) if total > 0 => break,
                Err(error) => return Err(error),
            }
        }
        if total == 0 && bufs.iter().all(|buf| buf.is_empty()) {
            return file.read(&mut []);
        }
        Ok(total)
    }

    /// Writes (`write(2)`). A stream that blocks takes all of it unless a signal comes between.
    pub fn write(&self, fd: i32, buf: &[u8]) -> Result<usize> {
        let file = self.file(fd)?;
        self.write_file(&file, buf)
    }

    /// Writes several buffers (`writev(2)`); to a pipe as one write if they are small enough to be
    /// atomic.
    pub fn writev(&self, fd: i32, bufs: &[IoSlice<'_>]) -> Result<usize> {
        let file = self.file(fd)?;
        match bufs {
            [] => return self.write_file(&file, &[]),
            [one] => return self.write_file(&file, one),
            _ => {}
        }
        let len: usize = bufs.iter().map(|buf| buf.len()).sum();
        if len <= 4096 {
            let mut joined = Vec::with_capacity(len);
            bufs.iter().for_each(|buf| joined.extend_from_slice(buf));
            return self.write_file(&file, &joined);
        }
        let mut total = 0;
        for buf in bufs.iter().filter(|buf| !buf.is_empty()) {
            match self.write_file(&file, buf) {
                Ok(n) => {
                    total += n;
                    if n < buf.len() {
                        break;
                    }
                }
                Err(_) if total > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(total)
    }

    fn write_file(&self, file: &OpenFile, buf: &[u8]) -> Result<usize> {
        if file.ops().seekable() {
            let buf = self.within_file_limit(file, buf, None)?;
            return io::write(&self.process, file, buf);
        }
        self.restart(|| match pty::write(&self.process, file, buf) {
            Some(done) => done,
            None => io::write(&self.process, file, buf),
        })
    }

    /// Reads at an offset (`pread(2)`).
    pub fn pread(&self, fd: i32, buf: &mut [u8], offset: u64) -> Result<usize> {
        if i64::try_from(offset).is_err() {
            return Err(Errno::EINVAL);
        }
        self.file(fd)?.pread(buf, offset)
    }

    /// Writes at an offset (`pwrite(2)`).
    pub fn pwrite(&self, fd: i32, buf: &[u8], offset: u64) -> Result<usize> {
        if i64::try_from(offset).is_err() {
            return Err(Errno::EINVAL);
        }
        let file = self.file(fd)?;
        if !file.ops().seekable() {
            return file.pwrite(buf, offset);
        }
        let buf = self.within_file_limit(&file, buf, Some(offset))?;
        file.pwrite(buf, offset)
    }

    /// What of `buf` may be written under `RLIMIT_FSIZE` (`generic_write_check_limits`).
    fn within_file_limit<'b>(
        &self,
        file: &OpenFile,
        buf: &'b [u8],
        offset: Option<u64>,
    ) -> Result<&'b [u8]> {
        let limit = self.file_bytes.get();
        if limit == u64::MAX
            || buf.is_empty()
            || !file.inode().is_some_and(|i| i.kind() == FileType::Regular)
        {
            return Ok(buf);
        }
        let start = if file.flags().contains(OpenFlags::APPEND) {
            file.ops().size()?
        } else {
            match offset {
                Some(offset) => offset,
                None => file.seek(0, Whence::Current)?,
            }
        };
        if start >= limit {
            self.check_file_size(u64::min(start.saturating_add(1), i64::MAX as u64))?;
        }
        let room = usize::try_from(limit - start.min(limit)).unwrap_or(usize::MAX);
        Ok(&buf[..buf.len().min(room)])
    }

    /// Moves the offset (`lseek(2)`).
    pub fn lseek(&self, fd: i32, delta: i64, whence: Whence) -> Result<u64> {
        let file = self.file(fd)?;
        if file.is_dir() && !matches!(whence, Whence::Set | Whence::Current) {
            return Err(Errno::EINVAL);
        }
        file.seek(delta, whence)
    }

    /// Duplicates to the lowest free number (`dup(2)`).
    pub fn dup(&self, fd: i32) -> Result<i32> {
        self.process.fds().dup(fd)
    }

    /// Duplicates to the lowest free number from `min` up (`F_DUPFD`).
    pub fn dup_min(&self, fd: i32, min: i32) -> Result<i32> {
        self.process.fds().dup_min(fd, min, false)
    }

    /// Duplicates to this number (`dup2(2)`).
    pub fn dup2(&self, old: i32, new: i32) -> Result<i32> {
        self.process.fds().dup2(old, new)
    }

    /// Duplicates to another number (`dup3(2)`).
    pub fn dup3(&self, old: i32, new: i32, cloexec: bool) -> Result<i32> {
        self.process.fds().dup3(old, new, cloexec)
    }

    /// Moves a descriptor to another number, closing what was there (WASI's `fd_renumber`).
    pub fn renumber(&self, old: i32, new: i32) -> Result<()> {
        let fds = self.process.fds();
        let cloexec = fds.cloexec(old)?;
        if old == new {
            return Ok(());
        }
        fds.dup3(old, new, cloexec)?;
        self.close(old)
    }

    /// Whether `exec` closes it (`F_GETFD`).
    pub fn getfd(&self, fd: i32) -> Result<bool> {
        self.process.fds().cloexec(fd)
    }

    /// Sets whether `exec` closes it (`F_SETFD`).
    pub fn setfd(&self, fd: i32, cloexec: bool) -> Result<()> {
        self.process.fds().set_cloexec(fd, cloexec)
    }

    /// Access mode and status flags (`F_GETFL`).
    pub fn getfl(&self, fd: i32) -> Result<OpenFlags> {
        Ok(self.file(fd)?.flags())
    }

    /// Sets `O_APPEND`, `O_NONBLOCK` and `O_DIRECT` (`F_SETFL`).
    pub fn setfl(&self, fd: i32, flags: OpenFlags) -> Result<()> {
        self.file(fd)?.set_flags(flags);
        Ok(())
    }

    /// What is behind a descriptor.
    pub fn fd_kind(&self, fd: i32) -> Result<FdKind> {
        let file = self.file(fd)?;
        if file.ops().is_terminal() {
            return Ok(FdKind::Terminal);
        }
        if PipeEnd::of(&file).is_some() {
            return Ok(FdKind::Pipe);
        }
        if let Some(socket) = Socket::of(&file) {
            return Ok(FdKind::Socket {
                stream: socket.kind() != SocketKind::Datagram,
            });
        }
        Ok(file
            .inode()
            .map_or(FdKind::Other, |inode| FdKind::File(inode.kind())))
    }

    /// Attributes (`fstat(2)`).
    pub fn fstat(&self, fd: i32) -> Result<Stat> {
        self.file(fd)?.stat()
    }

    /// Lists a directory, `.` and `..` first, after `cookie` (0 starts) until `sink` gives
    /// `false`, which means that the entry it was given was not taken. Cookies are stable.
    pub fn readdir(
        &self,
        fd: i32,
        cookie: u64,
        sink: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<()> {
        self.file(fd)?.readdir(cookie, sink)
    }

    /// Makes written data and attributes safe (`fsync(2)`): `EINVAL` for streams.
    pub fn fsync(&self, fd: i32) -> Result<()> {
        let file = self.file(fd)?;
        match file.inode().map(|inode| inode.kind()) {
            Some(FileType::Regular | FileType::Directory | FileType::BlockDevice) => {
                file.ops().sync()
            }
            _ => Err(Errno::EINVAL),
        }
    }

    /// Makes written data safe (`fdatasync(2)`).
    pub fn fdatasync(&self, fd: i32) -> Result<()> {
        self.fsync(fd)
    }

    /// Reserves, frees, zeroes or moves space (`fallocate(2)`). As on tmpfs, ranges can be neither
    /// taken out nor inserted (`EOPNOTSUPP`).
    pub fn fallocate(&self, fd: i32, mode: FallocateMode, offset: u64, len: u64) -> Result<()> {
        let file = self.file(fd)?;
        let end = offset
            .checked_add(len)
            .filter(|end| i64::try_from(*end).is_ok())
            .ok_or(Errno::EFBIG)?;
        if len == 0 {
            return Err(Errno::EINVAL);
        }
        if !file.flags().writable() {
            return Err(Errno::EBADF);
        }
        match file.inode().map(|inode| inode.kind()) {
            Some(FileType::Regular) => {}
            Some(FileType::Directory) => return Err(Errno::EISDIR),
            None | Some(FileType::Fifo) => return Err(Errno::ESPIPE),
            Some(_) => return Err(Errno::ENODEV),
        }
        let grows = matches!(
            mode,
            FallocateMode::Allocate | FallocateMode::ZeroRange { keep_size: false }
        );
        if grows && end > file.ops().size()? {
            self.check_file_size(end)?;
        }
        match mode {
            FallocateMode::Allocate => file.ops().allocate(offset, len, false),
            FallocateMode::KeepSize => file.ops().allocate(offset, len, true),
            FallocateMode::PunchHole => zero(&file, offset, end),
            FallocateMode::ZeroRange { keep_size } => {
                if !keep_size && end > file.ops().size()? {
                    file.ops().allocate(offset, len, false)?;
                }
                zero(&file, offset, end)
            }
            FallocateMode::Collapse | FallocateMode::Insert => Err(Errno::EOPNOTSUPP),
        }
    }

    /// The `index`th stretch of data of a file as `(start, end)` (`FS_IOC_FIEMAP`); `None` after
    /// the last.
    pub fn fiemap(&self, fd: i32, index: u32) -> Result<Option<(u64, u64)>> {
        let file = self.file(fd)?;
        if !file
            .inode()
            .is_some_and(|inode| inode.kind() == FileType::Regular)
        {
            return Err(Errno::EOPNOTSUPP);
        }
        let mut at = 0;
        for i in 0..=index {
            let start = match file.ops().seek_data_hole(at, false) {
                Ok(start) => start,
                Err(Errno::ENXIO) => return Ok(None),
                Err(error) => return Err(error),
            };
            let end = file.ops().seek_data_hole(start, true)?;
            if i == index {
                return Ok(Some((start, end)));
            }
            at = end;
        }
        Ok(None)
    }
}

/// Writes zeros over what there is of a file in a range; holes stay holes.
fn zero(file: &OpenFile, offset: u64, end: u64) -> Result<()> {
    static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
    let end = end.min(file.ops().size()?);
    let mut at = offset;
    while at < end {
        let start = match file.ops().seek_data_hole(at, false) {
            Ok(start) => start,
            Err(Errno::ENXIO) => return Ok(()),
            Err(error) => return Err(error),
        };
        let stop = file.ops().seek_data_hole(start, true)?.min(end);
        at = start;
        while at < stop {
            let n = usize::try_from(stop - at)
                .unwrap_or(usize::MAX)
                .min(ZEROS.len());
            at += file.ops().write_at(&ZEROS[..n], at)? as u64;
        }
        at = at.max(stop).max(start + 1);
    }
    Ok(())
}
