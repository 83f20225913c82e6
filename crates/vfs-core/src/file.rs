//! Open files: what backs a descriptor, and the open file description itself.

use crate::dentry::WriteAccess;
use crate::errno::{Errno, Result};
use crate::inode::InodeRef;
use crate::locks::DescriptionLocks;
use crate::namei::Path;
use crate::types::{DirEntry, FileType, OpenFlags, SetAttr, Stat};
use crate::wait::{PollEvents, WaitQueue};
use std::any::Any;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Operations behind an open file description (`struct file_operations`).
///
/// Nothing here sleeps: what would block returns `EAGAIN`, and [`FileOps::wait_queue`] tells whom
/// to wait for. Offsets are meaningless to streams, which ignore them.
pub trait FileOps: Send + Sync + Any {
    /// For downcasts by the module that made the operations.
    fn as_any(&self) -> &dyn Any;

    /// Reads at `offset` into `buf`; 0 is the end of the file. Short reads are allowed.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize>;

    /// Writes `buf` at `offset`; short writes are allowed, zero-length successes are not unless
    /// `buf` is empty.
    fn write_at(&self, buf: &[u8], offset: u64) -> Result<usize>;

    /// Writes at the end, atomically with finding the end (`O_APPEND`). Returns the count and the
    /// offset after the written bytes. A stream writes as always.
    fn append(&self, buf: &[u8]) -> Result<(usize, u64)> {
        Ok((self.write_at(buf, 0)?, 0))
    }

    /// Whether there is a file offset; pipes, sockets and terminals have none (`ESPIPE`).
    fn seekable(&self) -> bool {
        true
    }

    /// Size in bytes for `SEEK_END`.
    fn size(&self) -> Result<u64> {
        Ok(0)
    }

    /// Next data (`SEEK_DATA`) or hole (`SEEK_HOLE`) at or after `offset`. The default knows no
    /// holes: data runs to the end of the file, where the one hole is.
    fn seek_data_hole(&self, offset: u64, hole: bool) -> Result<u64> {
        let size = self.size()?;
        if offset >= size {
            return Err(Errno::ENXIO);
        }
        Ok(if hole { size } else { offset })
    }

    /// Lists a directory; see [`crate::Inode::readdir`].
    fn readdir(&self, cookie: u64, sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        let _ = (cookie, sink);
        Err(Errno::ENOTDIR)
    }

    /// Attributes of an object without an inode (a pipe, a socket).
    fn stat(&self) -> Result<Stat> {
        Err(Errno::EBADF)
    }

    /// What the file is ready for now. Regular files are always readable and writable.
    fn poll(&self) -> PollEvents {
        PollEvents::IN | PollEvents::OUT | PollEvents::RDNORM | PollEvents::WRNORM
    }

    /// Who is woken when [`FileOps::poll`] may have changed; `None` if it never does.
    fn wait_queue(&self) -> Option<&WaitQueue> {
        None
    }

    /// Makes what was written safe (`fsync`).
    fn sync(&self) -> Result<()> {
        Ok(())
    }

    /// Reserves or punches space (`fallocate`); offsets and lengths in bytes.
    fn allocate(&self, offset: u64, len: u64, keep_size: bool) -> Result<()> {
        let _ = (offset, len, keep_size);
        Err(Errno::ENOTSUP)
    }

    /// Removes, zeroes or moves a range (`fallocate` with flags); offsets and lengths in bytes.
    fn change_range(&self, change: RangeChange, offset: u64, len: u64) -> Result<()> {
        let _ = (change, offset, len);
        Err(Errno::ENOTSUP)
    }

    /// Bytes readable without blocking (`FIONREAD`).
    fn readable_bytes(&self) -> Result<usize> {
        Err(Errno::ENOTTY)
    }

    /// Whether it is a terminal.
    fn is_terminal(&self) -> bool {
        false
    }

    /// The last descriptor is gone. Called once, never under a lock of ours.
    fn release(&self, flags: OpenFlags) {
        let _ = flags;
    }
}

/// What [`FileOps::change_range`] does to a range (`FALLOC_FL_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeChange {
    /// Gives its space back; it reads as zeros and the size stays.
    PunchHole,
    /// Makes it read as zeros, with space reserved. Extends the file unless `keep_size`.
    Zero {
        /// The size stays although the range goes beyond it.
        keep_size: bool,
    },
    /// Takes it out; what follows moves down. `EINVAL` unless offset and length are whole blocks
    /// and the range ends before the end of the file.
    Collapse,
    /// Makes room for it; what is there and follows moves up. `EINVAL` unless offset and length
    /// are whole blocks and the offset is before the end of the file.
    Insert,
}

/// From where [`OpenFile::seek`] counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whence {
    /// The start.
    Set,
    /// The present offset.
    Current,
    /// The end.
    End,
    /// The next data at or after the given offset.
    Data,
    /// The next hole at or after the given offset.
    Hole,
}

/// An open file description (`struct file`): what `open` makes, and `dup`, `spawn` and descriptor
/// passing share. Its offset and status flags are common to all who share it.
pub struct OpenFile {
    id: u64,
    ops: Arc<dyn FileOps>,
    path: Option<Path>,
    inode: Option<InodeRef>,
    /// `O_APPEND`, `O_NONBLOCK` and `O_DIRECT` may change; the rest is as opened.
    flags: AtomicU32,
    offset: Mutex<u64>,
    /// Advisory locks it may hold; they go with it.
    locks: OnceLock<DescriptionLocks>,
    /// It may write its file, which so can't be run as a program.
    _writes: Option<WriteAccess>,
}

/// Source of [`OpenFile::id`].
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// Status flags that `fcntl(F_SETFL)` may change.
const SETTABLE: OpenFlags = OpenFlags::APPEND
    .union(OpenFlags::NONBLOCK)
    .union(OpenFlags::DIRECT);

/// Most bytes one read or write moves (`MAX_RW_COUNT`).
pub const MAX_RW_COUNT: usize = 0x7fff_f000;

impl OpenFile {
    /// An open file of a file system.
    pub fn new(
        path: Path,
        inode: InodeRef,
        ops: Arc<dyn FileOps>,
        flags: OpenFlags,
    ) -> Arc<OpenFile> {
        OpenFile::build(ops, Some(path), Some(inode), flags, None)
    }

    /// An open file of a file system that counts as a writer of its file.
    pub(crate) fn opened(
        path: Path,
        ops: Arc<dyn FileOps>,
        flags: OpenFlags,
        writes: Option<WriteAccess>,
    ) -> Arc<OpenFile> {
        let inode = path.inode().clone();
        OpenFile::build(ops, Some(path), Some(inode), flags, writes)
    }

    /// An open file with no name: a pipe end, a socket, a terminal side, a stream of the host.
    pub fn anonymous(ops: Arc<dyn FileOps>, flags: OpenFlags) -> Arc<OpenFile> {
        OpenFile::build(ops, None, None, flags, None)
    }

    fn build(
        ops: Arc<dyn FileOps>,
        path: Option<Path>,
        inode: Option<InodeRef>,
        flags: OpenFlags,
        writes: Option<WriteAccess>,
    ) -> Arc<OpenFile> {
        Arc::new(OpenFile {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            ops,
            path,
            inode,
            flags: AtomicU32::new(flags.bits()),
            offset: Mutex::new(0),
            locks: OnceLock::new(),
            _writes: writes,
        })
    }

    /// A number no other open file description of this host process has had.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The operations.
    pub fn ops(&self) -> &Arc<dyn FileOps> {
        &self.ops
    }

    /// Where it was opened; `None` for anonymous files.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_ref()
    }

    /// The inode; `None` for anonymous files.
    pub fn inode(&self) -> Option<&InodeRef> {
        self.inode.as_ref()
    }

    /// Ties locks to the life of this description. All are on its one inode and in the one table
    /// of its VM, so the first tie serves for all.
    pub(crate) fn tie_locks(&self, locks: impl FnOnce() -> DescriptionLocks) {
        self.locks.get_or_init(locks);
    }

    /// Access mode and status flags as they are now (`F_GETFL`).
    pub fn flags(&self) -> OpenFlags {
        OpenFlags::from_bits_retain(self.flags.load(Ordering::Relaxed))
    }

    /// Sets `O_APPEND`, `O_NONBLOCK` and `O_DIRECT` as in `new`; other bits are ignored (`F_SETFL`).
    pub fn set_flags(&self, new: OpenFlags) {
        let _ = self
            .flags
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |old| {
                Some((old & !SETTABLE.bits()) | (new & SETTABLE).bits())
            });
    }

    /// Whether calls must not block.
    pub fn nonblocking(&self) -> bool {
        self.flags().contains(OpenFlags::NONBLOCK)
    }

    /// Attributes.
    pub fn stat(&self) -> Result<Stat> {
        match &self.inode {
            Some(inode) => inode.stat(),
            None => self.ops.stat(),
        }
    }

    /// Changes attributes of what is open; permission was checked.
    pub fn setattr(&self, changes: &SetAttr) -> Result<()> {
        match &self.inode {
            Some(inode) => inode.setattr(changes),
            None => Err(Errno::EINVAL),
        }
    }

    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.inode
            .as_ref()
            .is_some_and(|i| i.kind() == FileType::Directory)
    }

    /// Reads at the offset and moves it. `EBADF` if not open for reading, `EISDIR`, `EAGAIN` if
    /// it would block.
    pub fn read(&self, buf: &mut [u8]) -> Result<usize> {
        self.check_read()?;
        let len = buf.len().min(MAX_RW_COUNT);
        if !self.ops.seekable() {
            return self.ops.read_at(&mut buf[..len], 0);
        }
        let mut offset = self.offset.lock().unwrap_or_else(PoisonError::into_inner);
        let n = self.ops.read_at(&mut buf[..len], *offset)?;
        *offset += n as u64;
        Ok(n)
    }

    /// Writes at the offset, or at the end under `O_APPEND`, and moves the offset. `EBADF` if not
    /// open for writing, `EAGAIN` if it would block.
    pub fn write(&self, buf: &[u8]) -> Result<usize> {
        self.check_write()?;
        let buf = &buf[..buf.len().min(MAX_RW_COUNT)];
        if !self.ops.seekable() {
            return self.ops.write_at(buf, 0);
        }
        let mut offset = self.offset.lock().unwrap_or_else(PoisonError::into_inner);
        if self.flags().contains(OpenFlags::APPEND) {
            let (n, end) = self.ops.append(buf)?;
            *offset = end;
            return Ok(n);
        }
        let n = self.ops.write_at(buf, *offset)?;
        *offset += n as u64;
        Ok(n)
    }

    /// Reads at `offset` without moving the file's own; `ESPIPE` for streams,
    /// `EINVAL` beyond the largest offset.
    pub fn pread(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.check_read()?;
        if !self.ops.seekable() {
            return Err(Errno::ESPIPE);
        }
        check_offset(offset)?;
        let len = buf.len().min(MAX_RW_COUNT);
        self.ops.read_at(&mut buf[..len], offset)
    }

    /// Writes at `offset` without moving the file's own; under `O_APPEND` it appends, as Linux
    /// does (pwrite(2), BUGS).
    pub fn pwrite(&self, buf: &[u8], offset: u64) -> Result<usize> {
        self.check_write()?;
        if !self.ops.seekable() {
            return Err(Errno::ESPIPE);
        }
        check_offset(offset)?;
        let buf = &buf[..buf.len().min(MAX_RW_COUNT)];
        if self.flags().contains(OpenFlags::APPEND) {
            return Ok(self.ops.append(buf)?.0);
        }
        self.ops.write_at(buf, offset)
    }

    /// Moves the offset and returns it (`lseek(2)`): `ESPIPE`, `EINVAL` for a negative result,
    /// `ENXIO` past the end for data and holes.
    pub fn seek(&self, delta: i64, whence: Whence) -> Result<u64> {
        if !self.ops.seekable() {
            return Err(Errno::ESPIPE);
        }
        let mut offset = self.offset.lock().unwrap_or_else(PoisonError::into_inner);
        let from = |base: u64| -> Result<u64> {
            let base = i64::try_from(base).map_err(|_| Errno::EOVERFLOW)?;
            let to = base.checked_add(delta).ok_or(Errno::EOVERFLOW)?;
            u64::try_from(to).map_err(|_| Errno::EINVAL)
        };
        let to = match whence {
            Whence::Set => from(0)?,
            Whence::Current => from(*offset)?,
            Whence::End => from(self.ops.size()?)?,
            Whence::Data | Whence::Hole => {
                let at = u64::try_from(delta).map_err(|_| Errno::ENXIO)?;
                self.ops.seek_data_hole(at, whence == Whence::Hole)?
            }
        };
        *offset = to;
        Ok(to)
    }

    /// Lists the directory from `cookie` on (0 starts) until `sink` returns `false`, which means
    /// that it did not take the entry it was given: first `.` and `..`, then the entries of the
    /// file system under its own cookies. `ENOTDIR` for anything else, `EBADF` under `O_PATH`,
    /// `ENOENT` once it was removed.
    pub fn readdir(&self, cookie: u64, sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        if self.flags().contains(OpenFlags::PATH) {
            return Err(Errno::EBADF);
        }
        let (Some(path), Some(inode), true) = (&self.path, &self.inode, self.is_dir()) else {
            return Err(Errno::ENOTDIR);
        };
        // A directory that was removed while open is dead (`iterate_dir`).
        if path.dentry().is_deleted() {
            return Err(Errno::ENOENT);
        }
        let mut dot = |name: &[u8], ino: u64, next: u64| {
            sink(DirEntry {
                name,
                ino,
                kind: FileType::Directory,
                next,
            })
        };
        if cookie == 0 && !dot(b".", inode.stat()?.ino, 1) {
            return Ok(());
        }
        if cookie <= 1 && !dot(b"..", path.parent().inode().stat()?.ino, 2) {
            return Ok(());
        }
        self.ops.readdir(if cookie <= 2 { 0 } else { cookie }, sink)
    }

    /// What the file is ready for now.
    pub fn poll(&self) -> PollEvents {
        self.ops.poll()
    }

    fn check_read(&self) -> Result<()> {
        if !self.flags().readable() {
            return Err(Errno::EBADF);
        }
        if self.is_dir() {
            return Err(Errno::EISDIR);
        }
        Ok(())
    }

    fn check_write(&self) -> Result<()> {
        if !self.flags().writable() {
            return Err(Errno::EBADF);
        }
        Ok(())
    }
}

/// `EINVAL` for an offset that `off_t` has no room for.
fn check_offset(offset: u64) -> Result<()> {
    if i64::try_from(offset).is_err() {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        self.ops.release(self.flags());
    }
}

impl std::fmt::Debug for OpenFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenFile")
            .field("id", &self.id)
            .field("flags", &self.flags())
            .finish()
    }
}
