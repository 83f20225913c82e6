//! Descriptor tables: small numbers for open file descriptions.
//!
//! One table belongs to one process. Numbers are given out lowest first, bounded by the soft
//! `RLIMIT_NOFILE`; `CLOEXEC` belongs to the number, everything else to the description that
//! numbers share. A description is let go outside the table's lock, because its last holder runs
//! whatever closing it means.

use crate::limits::{LimitEvents, LimitExceeded, Meter, Watermark};
use crate::sync::lock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use vfs_core::errno::{Errno, Result};
use vfs_core::file::OpenFile;

/// Is told of each descriptor that a process closes, before the description is let go: record
/// locks end with the first close of any descriptor of the file (fcntl(2)).
pub trait CloseHook: Send + Sync {
    /// `pid` has closed a descriptor of `file`. No lock of this crate is held.
    fn closed(&self, pid: u32, file: &Arc<OpenFile>);
}

/// What tables of one VM have in common.
#[derive(Clone)]
pub(crate) struct FdShared {
    /// `descriptors.total`.
    pub(crate) meter: Arc<Meter>,
    pub(crate) events: Arc<dyn LimitEvents>,
    pub(crate) hook: Option<Arc<dyn CloseHook>>,
}

/// The descriptor table of a process.
pub struct FdTable {
    /// Owner; 0 until a process takes the table.
    pid: u32,
    shared: Option<FdShared>,
    /// Soft `RLIMIT_NOFILE`.
    limit: AtomicU64,
    watermark: Watermark,
    slots: Mutex<Slots>,
}

#[derive(Clone)]
struct Slot {
    file: Arc<OpenFile>,
    cloexec: bool,
}

/// Guarded by `FdTable::slots`.
#[derive(Clone, Default)]
struct Slots {
    table: Vec<Option<Slot>>,
    /// No number below it is free.
    first_free: usize,
    open: usize,
}

impl Slots {
    fn get(&self, fd: i32) -> Result<&Slot> {
        usize::try_from(fd)
            .ok()
            .and_then(|n| self.table.get(n))
            .and_then(Option::as_ref)
            .ok_or(Errno::EBADF)
    }

    /// Lowest free number at or above `min`.
    fn lowest(&self, min: usize) -> usize {
        let mut n = min.max(self.first_free);
        while self.table.get(n).is_some_and(Option::is_some) {
            n += 1;
        }
        n
    }

    /// Puts `slot` at `n` and returns what was there.
    fn put(&mut self, n: usize, slot: Slot) -> Option<Slot> {
        if n >= self.table.len() {
            self.table.resize(n + 1, None);
        }
        let old = self.table[n].replace(slot);
        if old.is_none() {
            self.open += 1;
        }
        if n == self.first_free {
            self.first_free += 1;
        }
        old
    }

    fn take(&mut self, n: usize) -> Option<Slot> {
        let slot = self.table.get_mut(n)?.take()?;
        self.open -= 1;
        self.first_free = self.first_free.min(n);
        while matches!(self.table.last(), Some(None)) {
            self.table.pop();
        }
        Some(slot)
    }
}

/// One open descriptor, as [`FdTable::list`] shows it.
#[derive(Clone, Debug)]
pub struct FdEntry {
    /// The number.
    pub fd: i32,
    /// The open file description.
    pub file: Arc<OpenFile>,
    /// Whether `exec` closes it.
    pub cloexec: bool,
}

impl Default for FdTable {
    fn default() -> FdTable {
        FdTable::new()
    }
}

impl FdTable {
    /// An empty table that belongs to no process yet, with room for what a VM allows by default.
    pub fn new() -> FdTable {
        FdTable {
            pid: 0,
            shared: None,
            limit: AtomicU64::new(crate::limits::ProcLimits::default().descriptors),
            watermark: Watermark::default(),
            slots: Mutex::new(Slots::default()),
        }
    }

    /// A copy for a child: the same numbers and flags, sharing every description. The copy
    /// belongs to nobody until a process is made with it.
    pub fn fork(&self) -> FdTable {
        let slots = lock(&self.slots).clone();
        FdTable {
            pid: 0,
            shared: None,
            limit: AtomicU64::new(self.limit.load(Ordering::Relaxed)),
            watermark: Watermark::default(),
            slots: Mutex::new(slots),
        }
    }

    /// Makes the table that of process `pid`; its descriptors count from now on.
    pub(crate) fn adopt(
        &mut self,
        pid: u32,
        shared: FdShared,
        limit: u64,
    ) -> std::result::Result<(), LimitExceeded> {
        let open = self.len() as u64;
        shared.meter.acquire(open)?;
        self.pid = pid;
        self.shared = Some(shared);
        self.set_limit(limit);
        Ok(())
    }

    /// Sets the soft `RLIMIT_NOFILE`; descriptors above it stay open.
    pub fn set_limit(&self, limit: u64) {
        self.limit
            .store(limit.min(i32::MAX as u64), Ordering::Relaxed);
    }

    /// The soft `RLIMIT_NOFILE`.
    pub fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    fn emfile(&self, used: usize) -> Errno {
        if let Some(shared) = &self.shared {
            shared.events.reached(&LimitExceeded {
                name: "descriptors",
                limit: self.limit(),
                used: used as u64,
                requested: 1,
                errno: Errno::EMFILE,
            });
        }
        Errno::EMFILE
    }

    fn count_one(&self) -> Result<()> {
        match &self.shared {
            Some(shared) => Ok(shared.meter.acquire(1)?),
            None => Ok(()),
        }
    }

    fn grown(&self, open: usize) {
        let (used, limit) = (open as u64, self.limit());
        if self.watermark.rise(used, limit)
            && let Some(shared) = &self.shared
        {
            shared.events.near("descriptors", used, limit);
        }
    }

    /// Lets go of slots taken out under the lock; returns how many there were.
    fn let_go(&self, gone: impl IntoIterator<Item = Slot>) -> u64 {
        let mut count = 0;
        for slot in gone {
            count += 1;
            if let Some(hook) = self.shared.as_ref().and_then(|s| s.hook.as_ref()) {
                hook.closed(self.pid, &slot.file);
            }
        }
        count
    }

    /// Gives `count` numbers back to the VM.
    fn uncount(&self, count: u64) {
        if count > 0
            && let Some(shared) = &self.shared
        {
            shared.meter.release(count);
        }
    }

    /// The description behind `fd`.
    pub fn get(&self, fd: i32) -> Result<Arc<OpenFile>> {
        lock(&self.slots).get(fd).map(|slot| slot.file.clone())
    }

    /// Gives `file` the lowest free number at or above `min`: `EINVAL` if `min` is negative or not
    /// below the limit, `EMFILE` if nothing is free (`F_DUPFD`).
    pub fn insert(&self, file: Arc<OpenFile>, cloexec: bool, min: i32) -> Result<i32> {
        let min = usize::try_from(min).map_err(|_| Errno::EINVAL)?;
        if min > 0 && min as u64 >= self.limit() {
            return Err(Errno::EINVAL);
        }
        let open = {
            let mut slots = lock(&self.slots);
            let n = slots.lowest(min);
            if n as u64 >= self.limit() {
                let used = slots.open;
                drop(slots);
                return Err(self.emfile(used));
            }
            self.count_one()?;
            slots.put(n, Slot { file, cloexec });
            (n as i32, slots.open)
        };
        self.grown(open.1);
        Ok(open.0)
    }

    /// Gives `file` exactly the number `fd`, closing what was there: `EBADF` if the number is
    /// negative or not below the limit.
    pub fn insert_at(&self, fd: i32, file: Arc<OpenFile>, cloexec: bool) -> Result<()> {
        let n = usize::try_from(fd).map_err(|_| Errno::EBADF)?;
        if n as u64 >= self.limit() {
            return Err(Errno::EBADF);
        }
        let (old, open) = {
            let mut slots = lock(&self.slots);
            if slots.get(fd).is_err() {
                self.count_one()?;
            }
            let old = slots.put(n, Slot { file, cloexec });
            (old, slots.open)
        };
        self.let_go(old);
        self.grown(open);
        Ok(())
    }

    /// `dup(2)`: the lowest free number, without `CLOEXEC`.
    pub fn dup(&self, fd: i32) -> Result<i32> {
        let file = self.get(fd)?;
        self.insert(file, false, 0)
    }

    /// `F_DUPFD` and, with `cloexec`, `F_DUPFD_CLOEXEC`.
    pub fn dup_min(&self, fd: i32, min: i32, cloexec: bool) -> Result<i32> {
        let file = self.get(fd)?;
        let min_ok = u64::try_from(min).is_ok_and(|m| m < self.limit());
        if !min_ok {
            return Err(Errno::EINVAL);
        }
        self.insert(file, cloexec, min)
    }

    /// `dup2(2)`: `to` becomes a copy of `from` without `CLOEXEC`; nothing changes if they are the
    /// same open descriptor.
    pub fn dup2(&self, from: i32, to: i32) -> Result<i32> {
        if from == to {
            self.get(from)?;
            return Ok(to);
        }
        self.dup3(from, to, false)
    }

    /// `dup3(2)`: `EINVAL` if the numbers are the same; `EBADF`.
    pub fn dup3(&self, from: i32, to: i32, cloexec: bool) -> Result<i32> {
        if from == to {
            return Err(Errno::EINVAL);
        }
        let file = self.get(from)?;
        self.insert_at(to, file, cloexec)?;
        Ok(to)
    }

    /// Takes `fd` out of the table (`close(2)`) and returns the description, which closes when its
    /// last holder lets go.
    pub fn remove(&self, fd: i32) -> Result<Arc<OpenFile>> {
        let slot = {
            let mut slots = lock(&self.slots);
            slots.get(fd)?;
            let slot = slots.take(fd as usize).ok_or(Errno::EBADF)?;
            self.watermark.fall(slots.open as u64, self.limit());
            slot
        };
        let file = slot.file.clone();
        self.uncount(self.let_go([slot]));
        Ok(file)
    }

    /// Whether `exec` closes `fd` (`F_GETFD`).
    pub fn cloexec(&self, fd: i32) -> Result<bool> {
        lock(&self.slots).get(fd).map(|slot| slot.cloexec)
    }

    /// Sets whether `exec` closes `fd` (`F_SETFD`).
    pub fn set_cloexec(&self, fd: i32, cloexec: bool) -> Result<()> {
        let mut slots = lock(&self.slots);
        slots.get(fd)?;
        if let Some(Some(slot)) = slots.table.get_mut(fd as usize) {
            slot.cloexec = cloexec;
        }
        Ok(())
    }

    /// Closes what `exec` closes, lowest number first.
    pub fn close_on_exec(&self) {
        self.close_where(0, |slot| slot.cloexec);
    }

    /// Closes every descriptor at or above `min` (`closefrom(3)`).
    pub fn close_from(&self, min: i32) {
        self.close_where(usize::try_from(min).unwrap_or(0), |_| true);
    }

    /// Closes every descriptor, lowest number first.
    pub fn close_all(&self) {
        self.close_where(0, |_| true);
    }

    fn close_where(&self, min: usize, mut closes: impl FnMut(&Slot) -> bool) {
        let gone: Vec<Slot> = {
            let mut slots = lock(&self.slots);
            // From the highest, so that the table shrinks as it goes.
            let mut gone: Vec<Slot> = (min..slots.table.len())
                .rev()
                .filter_map(|n| {
                    if slots.table.get(n)?.as_ref().is_some_and(&mut closes) {
                        slots.take(n)
                    } else {
                        None
                    }
                })
                .collect();
            self.watermark.fall(slots.open as u64, self.limit());
            gone.reverse();
            gone
        };
        self.uncount(self.let_go(gone));
    }

    /// Every open descriptor in rising order.
    pub fn list(&self) -> Vec<FdEntry> {
        let slots = lock(&self.slots);
        let entry = |(n, slot): (usize, &Option<Slot>)| {
            slot.as_ref().map(|s| FdEntry {
                fd: n as i32,
                file: s.file.clone(),
                cloexec: s.cloexec,
            })
        };
        slots.table.iter().enumerate().filter_map(entry).collect()
    }

    /// Calls `f` for each open description, under the table's lock.
    pub(crate) fn for_each(&self, mut f: impl FnMut(&Arc<OpenFile>)) {
        for slot in lock(&self.slots).table.iter().flatten() {
            f(&slot.file);
        }
    }

    /// Open descriptors.
    pub fn len(&self) -> usize {
        lock(&self.slots).open
    }

    /// Whether nothing is open.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Drop for FdTable {
    fn drop(&mut self) {
        self.close_all();
    }
}

impl std::fmt::Debug for FdTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FdTable")
            .field("pid", &self.pid)
            .field("open", &self.len())
            .finish()
    }
}
