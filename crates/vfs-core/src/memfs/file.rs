//! Open files and directories of the memory file system.

use super::Shared;
use super::data::{Data, MAX_SIZE, PAGE};
use super::inode::{Body, MemInode, State};
use crate::errno::{Errno, Result};
use crate::file::{FileOps, RangeChange};
use crate::inode::Inode;
use crate::namei::setid_dropped;
use crate::sync::{read, write};
use crate::types::{Caller, Cred, DirEntry, OpenFlags, Timespec};
use std::any::Any;
use std::sync::Arc;

/// An open regular file.
pub(super) struct MemFile {
    inode: Arc<MemInode>,
    atime: bool,
    /// Whose writes take set-ID bits away; `None` for root, whose writes do not.
    writer: Option<Arc<Cred>>,
}

impl MemFile {
    pub(super) fn new(inode: Arc<MemInode>, flags: OpenFlags, caller: &Caller) -> MemFile {
        let atime = !flags.contains(OpenFlags::NOATIME);
        let writer = (!caller.cred.is_root()).then(|| caller.cred.clone());
        MemFile {
            inode,
            atime,
            writer,
        }
    }

    /// Changes the content; times and set-ID bits follow if `change` succeeds.
    fn change<T>(&self, change: impl FnOnce(&mut Data, &Shared) -> Result<T>) -> Result<T> {
        let mut state = write(&self.inode.state);
        let state: &mut State = &mut state;
        let Body::File(data) = &mut state.body else {
            return Err(Errno::EINVAL);
        };
        let result = change(data, &self.inode.fs)?;
        state.modified(Timespec::now());
        if state.perm & 0o6000 != 0
            && let Some(cred) = &self.writer
            && let Some(perm) = setid_dropped(state.perm, state.gid, cred)
        {
            state.perm = perm;
        }
        Ok(result)
    }

    fn with_data<T>(&self, f: impl FnOnce(&Data) -> T) -> Result<T> {
        match &read(&self.inode.state).body {
            Body::File(data) => Ok(f(data)),
            _ => Err(Errno::EINVAL),
        }
    }
}

/// Writes at `offset` as much as fits.
fn put(data: &mut Data, fs: &Shared, buf: &[u8], offset: u64) -> Result<usize> {
    if offset >= MAX_SIZE {
        return Err(Errno::EFBIG);
    }
    data.write(buf, offset, fs).ok_or(Errno::ENOSPC)
}

/// The end of a range: `EINVAL` for an empty one, `EFBIG` beyond the largest size.
fn range_end(offset: u64, len: u64) -> Result<u64> {
    if len == 0 {
        return Err(Errno::EINVAL);
    }
    offset
        .checked_add(len)
        .filter(|&end| end <= MAX_SIZE)
        .ok_or(Errno::EFBIG)
}

impl FileOps for MemFile {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        let state = read(&self.inode.state);
        let Body::File(data) = &state.body else {
            return Err(Errno::EINVAL);
        };
        let n = data.read(buf, offset);
        if self.atime && state.wants_atime() {
            drop(state);
            write(&self.inode.state).atime = Timespec::now();
        }
        Ok(n)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        self.change(|data, fs| put(data, fs, buf, offset))
    }

    fn append(&self, buf: &[u8]) -> Result<(usize, u64)> {
        if buf.is_empty() {
            return Ok((0, self.size()?));
        }
        self.change(|data, fs| {
            let end = data.size();
            let n = put(data, fs, buf, end)?;
            Ok((n, end + n as u64))
        })
    }

    fn size(&self) -> Result<u64> {
        self.with_data(Data::size)
    }

    fn seek_data_hole(&self, offset: u64, hole: bool) -> Result<u64> {
        self.with_data(|data| data.seek(offset, hole))?
            .ok_or(Errno::ENXIO)
    }

    fn allocate(&self, offset: u64, len: u64, keep_size: bool) -> Result<()> {
        let end = range_end(offset, len)?;
        self.change(|data, fs| {
            if !data.reserve(offset, end, fs) {
                return Err(Errno::ENOSPC);
            }
            if !keep_size {
                data.extend(end);
            }
            Ok(())
        })
    }

    fn change_range(&self, change: RangeChange, offset: u64, len: u64) -> Result<()> {
        let end = range_end(offset, len)?;
        let whole = offset.is_multiple_of(PAGE as u64) && len.is_multiple_of(PAGE as u64);
        self.change(|data, fs| {
            match change {
                RangeChange::PunchHole => data.punch(offset, end, fs),
                RangeChange::Zero { keep_size } => {
                    if !data.reserve(offset, end, fs) {
                        return Err(Errno::ENOSPC);
                    }
                    data.zero(offset, end);
                    if !keep_size {
                        data.extend(end);
                    }
                }
                RangeChange::Collapse => {
                    if !whole || end >= data.size() {
                        return Err(Errno::EINVAL);
                    }
                    data.collapse(offset, end, fs);
                }
                RangeChange::Insert => {
                    if !whole || offset >= data.size() {
                        return Err(Errno::EINVAL);
                    }
                    if data.size() > MAX_SIZE - len {
                        return Err(Errno::EFBIG);
                    }
                    data.insert(offset, len);
                }
            }
            Ok(())
        })
    }
}

/// An open directory.
pub(super) struct MemDir {
    inode: Arc<MemInode>,
    atime: bool,
}

impl MemDir {
    pub(super) fn new(inode: Arc<MemInode>, flags: OpenFlags) -> MemDir {
        MemDir {
            inode,
            atime: !flags.contains(OpenFlags::NOATIME),
        }
    }
}

impl FileOps for MemDir {
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
        if self.atime {
            self.inode.touch_atime(Timespec::now());
        }
        self.inode.list(cookie, sink)
    }
}
