//! Advisory locks: whole files with `flock(2)`, byte ranges with `fcntl(2)` (`fs/locks.c`).
//!
//! One [`LockTable`] serves one VM. Locks belong to the inode, by device and inode number, and to
//! an owner: an open file description for `flock` and for `F_OFD_*`, a process for the classic
//! POSIX record locks. Trying never blocks; whoever wants to wait registers with
//! [`LockTable::wait_queue`] and tries again when it is woken.
//!
//! What a description holds goes with it, by itself. What a process holds on a file goes when it
//! closes *any* descriptor of that file, which the kernel tells with
//! [`LockTable::closed_by_process`], and when it exits ([`LockTable::exited`]).

use crate::errno::{Errno, Result};
use crate::file::OpenFile;
use crate::sync::lock;
use crate::types::OpenFlags;
use crate::wait::{PollEvents, WaitQueue};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, Weak};

/// The file a lock is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LockKey {
    dev: u64,
    ino: u64,
}

impl LockKey {
    /// The file behind an open file; `EBADF` under `O_PATH`.
    pub fn of(file: &OpenFile) -> Result<LockKey> {
        if file.flags().contains(OpenFlags::PATH) {
            return Err(Errno::EBADF);
        }
        let stat = file.stat()?;
        Ok(LockKey {
            dev: stat.dev,
            ino: stat.ino,
        })
    }
}

/// How a lock excludes others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// Any number at once (`LOCK_SH`, `F_RDLCK`).
    Shared,
    /// Alone (`LOCK_EX`, `F_WRLCK`).
    Exclusive,
}

/// Who holds a record lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockOwner {
    /// A process, by its id (`F_SETLK`).
    Process(u32),
    /// An open file description, by [`OpenFile::id`] (`F_OFD_SETLK`).
    Description(u64),
}

/// Bytes of a file: from `start` to `end`, both included; to `u64::MAX` is to the end, wherever
/// that will be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockRange {
    /// First byte.
    pub start: u64,
    /// Last byte.
    pub end: u64,
}

impl LockRange {
    /// From `struct flock` with `l_start` made absolute: a length of zero is to the end, a
    /// negative one lies before the start. `EINVAL` before the first byte, `EOVERFLOW` beyond the
    /// last.
    pub fn new(start: i64, len: i64) -> Result<LockRange> {
        let start_at = u64::try_from(start).map_err(|_| Errno::EINVAL)?;
        if len == 0 {
            return Ok(LockRange {
                start: start_at,
                end: u64::MAX,
            });
        }
        if len > 0 {
            let last = start.checked_add(len - 1).ok_or(Errno::EOVERFLOW)?;
            return Ok(LockRange {
                start: start_at,
                end: last as u64,
            });
        }
        let first = start
            .checked_add(len)
            .and_then(|first| u64::try_from(first).ok());
        let last = start_at.checked_sub(1);
        match (first, last) {
            (Some(start), Some(end)) => Ok(LockRange { start, end }),
            _ => Err(Errno::EINVAL),
        }
    }

    fn overlaps(self, other: LockRange) -> bool {
        self.start <= other.end && other.start <= self.end
    }

    /// Overlaps or touches.
    fn joins(self, other: LockRange) -> bool {
        self.start <= other.end.saturating_add(1) && other.start <= self.end.saturating_add(1)
    }
}

/// A lock on a range, held or asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordLock {
    /// Who holds or wants it.
    pub owner: LockOwner,
    /// Shared or exclusive.
    pub kind: LockKind,
    /// Which bytes.
    pub range: LockRange,
}

impl RecordLock {
    fn conflicts(&self, other: &RecordLock) -> bool {
        self.owner != other.owner
            && (self.kind == LockKind::Exclusive || other.kind == LockKind::Exclusive)
            && self.range.overlaps(other.range)
    }
}

/// All advisory locks of a VM.
pub struct LockTable {
    inner: Mutex<Inner>,
    released: WaitQueue,
    max: usize,
}

#[derive(Default)]
struct Inner {
    files: HashMap<LockKey, FileLocks>,
    /// Locks held in all.
    held: usize,
    /// What owners of record locks wait for; the edges of the deadlock check.
    waiting: HashMap<LockOwner, (LockKey, RecordLock)>,
}

#[derive(Default)]
struct FileLocks {
    /// By open file description.
    whole: Vec<(u64, LockKind)>,
    records: Vec<RecordLock>,
}

/// Takes a description's locks with it; kept in the [`OpenFile`].
pub(crate) struct DescriptionLocks {
    table: Weak<LockTable>,
    key: LockKey,
    id: u64,
}

impl Drop for DescriptionLocks {
    fn drop(&mut self) {
        if let Some(table) = self.table.upgrade() {
            table.release(self.key, |locks| {
                locks.whole.retain(|(id, _)| *id != self.id);
                locks
                    .records
                    .retain(|lock| lock.owner != LockOwner::Description(self.id));
            });
            table.stop_waiting(LockOwner::Description(self.id));
        }
    }
}

impl LockTable {
    /// An empty table for at most `max` locks; more are `ENOLCK`.
    pub fn new(max: usize) -> Arc<LockTable> {
        Arc::new(LockTable {
            inner: Mutex::new(Inner::default()),
            released: WaitQueue::new(),
            max,
        })
    }

    /// Woken whenever a lock is given up or weakened.
    pub fn wait_queue(&self) -> &WaitQueue {
        &self.released
    }

    /// Locks held now.
    pub fn held(&self) -> usize {
        lock(&self.inner).held
    }

    /// `flock(2)` without waiting: `None` unlocks, `EWOULDBLOCK` if another description's lock is
    /// in the way. A change of kind gives the old lock up first, and loses it if the new one can't
    /// be had, as on Linux.
    pub fn flock(self: &Arc<Self>, file: &OpenFile, kind: Option<LockKind>) -> Result<()> {
        let key = LockKey::of(file)?;
        let id = file.id();
        let mut given_up = false;
        let result = {
            let mut inner = lock(&self.inner);
            let inner = &mut *inner;
            let locks = inner.files.entry(key).or_default();
            let result = match locks.whole.iter().position(|(owner, _)| *owner == id) {
                Some(at) if Some(locks.whole[at].1) == kind => Ok(()),
                at => {
                    if let Some(at) = at {
                        locks.whole.swap_remove(at);
                        inner.held -= 1;
                        given_up = true;
                    }
                    let taken = |kind: LockKind| {
                        locks.whole.iter().any(|(_, other)| {
                            kind == LockKind::Exclusive || *other == LockKind::Exclusive
                        })
                    };
                    match kind {
                        None => Ok(()),
                        Some(kind) if taken(kind) => Err(Errno::EWOULDBLOCK),
                        Some(_) if inner.held >= self.max => Err(Errno::ENOLCK),
                        Some(kind) => {
                            locks.whole.push((id, kind));
                            inner.held += 1;
                            Ok(())
                        }
                    }
                }
            };
            inner.tidy(key);
            result
        };
        if result.is_ok() && kind.is_some() {
            self.tie(file, key);
        }
        if given_up {
            self.released.wake(PollEvents::all());
        }
        result
    }

    /// What keeps `wanted` from being had, if anything does (`F_GETLK`).
    pub fn conflict(&self, key: LockKey, wanted: &RecordLock) -> Option<RecordLock> {
        let inner = lock(&self.inner);
        inner
            .files
            .get(&key)?
            .records
            .iter()
            .find(|held| held.conflicts(wanted))
            .copied()
    }

    /// Takes a record lock without waiting (`F_SETLK`): `EAGAIN` if another owner's is in the way,
    /// `ENOLCK` beyond the table's limit, `EBADF` if `file` is not open for what the kind needs.
    /// Own locks on the range change their kind.
    ///
    /// With `will_wait` an `EAGAIN` also notes that the owner now waits for it, until it gets a
    /// lock or [`LockTable::stop_waiting`] is called; `EDEADLK` if it would wait for itself.
    pub fn set(
        self: &Arc<Self>,
        file: &OpenFile,
        wanted: RecordLock,
        will_wait: bool,
    ) -> Result<()> {
        let flags = file.flags();
        let allowed = match wanted.kind {
            LockKind::Shared => flags.readable(),
            LockKind::Exclusive => flags.writable(),
        };
        if !allowed {
            return Err(Errno::EBADF);
        }
        let key = LockKey::of(file)?;
        {
            let mut inner = lock(&self.inner);
            let inner = &mut *inner;
            let records = inner
                .files
                .get(&key)
                .map_or(&[][..], |locks| &locks.records);
            if records.iter().any(|held| held.conflicts(&wanted)) {
                if !will_wait {
                    return Err(Errno::EAGAIN);
                }
                if inner.would_deadlock(key, &wanted) {
                    inner.waiting.remove(&wanted.owner);
                    return Err(Errno::EDEADLK);
                }
                inner.waiting.insert(wanted.owner, (key, wanted));
                return Err(Errno::EAGAIN);
            }
            // Cutting a hole into one lock makes two of it, besides the new one.
            if inner.held + 2 > self.max {
                return Err(Errno::ENOLCK);
            }
            inner.waiting.remove(&wanted.owner);
            inner.change(key, |locks| locks.set(wanted));
        }
        if matches!(wanted.owner, LockOwner::Description(_)) {
            self.tie(file, key);
        }
        // An exclusive lock may have become shared.
        if wanted.kind == LockKind::Shared {
            self.released.wake(PollEvents::all());
        }
        Ok(())
    }

    /// Gives up what `owner` holds in `range` (`F_UNLCK`).
    pub fn unset(&self, file: &OpenFile, owner: LockOwner, range: LockRange) -> Result<()> {
        let key = LockKey::of(file)?;
        if lock(&self.inner).held + 1 > self.max {
            return Err(Errno::ENOLCK);
        }
        self.release(key, |locks| locks.cut(owner, range));
        Ok(())
    }

    /// The owner no longer waits: it was interrupted, or gave up.
    pub fn stop_waiting(&self, owner: LockOwner) {
        lock(&self.inner).waiting.remove(&owner);
    }

    /// The process `pid` closed a descriptor of the file: its record locks on it are gone.
    pub fn closed_by_process(&self, file: &OpenFile, pid: u32) {
        // Most processes hold no lock; then this costs nothing but a look.
        if lock(&self.inner).files.is_empty() {
            return;
        }
        if let Ok(key) = LockKey::of(file) {
            let owner = LockOwner::Process(pid);
            self.release(key, |locks| {
                locks.records.retain(|held| held.owner != owner)
            });
        }
    }

    /// The process `pid` is gone, with all its record locks.
    pub fn exited(&self, pid: u32) {
        let owner = LockOwner::Process(pid);
        let keys: Vec<LockKey> = {
            let mut inner = lock(&self.inner);
            inner.waiting.remove(&owner);
            let holds = |locks: &FileLocks| locks.records.iter().any(|held| held.owner == owner);
            inner
                .files
                .iter()
                .filter(|(_, locks)| holds(locks))
                .map(|(key, _)| *key)
                .collect()
        };
        for key in keys {
            self.release(key, |locks| {
                locks.records.retain(|held| held.owner != owner)
            });
        }
    }

    /// Applies a change that only gives locks up, and wakes who waits.
    fn release(&self, key: LockKey, change: impl FnOnce(&mut FileLocks)) {
        let changed = {
            let mut inner = lock(&self.inner);
            inner.files.contains_key(&key) && inner.change(key, change)
        };
        if changed {
            self.released.wake(PollEvents::all());
        }
    }

    /// Sees to it that the description's locks go when it does.
    fn tie(self: &Arc<Self>, file: &OpenFile, key: LockKey) {
        let id = file.id();
        file.tie_locks(|| DescriptionLocks {
            table: Arc::downgrade(self),
            key,
            id,
        });
    }
}

impl Inner {
    /// Changes the locks of a file and the count; returns whether any went or changed.
    fn change(&mut self, key: LockKey, change: impl FnOnce(&mut FileLocks)) -> bool {
        let locks = self.files.entry(key).or_default();
        let before = (locks.whole.len(), locks.records.clone());
        change(locks);
        let changed = before.0 != locks.whole.len() || before.1 != locks.records;
        self.held = self.held + locks.whole.len() + locks.records.len() - before.0 - before.1.len();
        self.tidy(key);
        changed
    }

    fn tidy(&mut self, key: LockKey) {
        if self
            .files
            .get(&key)
            .is_some_and(|l| l.whole.is_empty() && l.records.is_empty())
        {
            self.files.remove(&key);
        }
    }

    /// Whether somebody that `wanted` would wait for waits, maybe over others, for its owner.
    fn would_deadlock(&self, key: LockKey, wanted: &RecordLock) -> bool {
        let mut seen: HashSet<LockOwner> = HashSet::new();
        let mut edges = vec![(key, *wanted)];
        while let Some((key, wanted_there)) = edges.pop() {
            let Some(locks) = self.files.get(&key) else {
                continue;
            };
            for held in locks
                .records
                .iter()
                .filter(|held| held.conflicts(&wanted_there))
            {
                if held.owner == wanted.owner {
                    return true;
                }
                if seen.insert(held.owner)
                    && let Some(edge) = self.waiting.get(&held.owner)
                {
                    edges.push(*edge);
                }
            }
        }
        false
    }
}

impl FileLocks {
    /// Takes what `owner` holds out of `range`.
    fn cut(&mut self, owner: LockOwner, range: LockRange) {
        let mut rest = Vec::new();
        self.records.retain(|held| {
            if held.owner != owner || !held.range.overlaps(range) {
                return true;
            }
            if held.range.start < range.start {
                let before = LockRange {
                    start: held.range.start,
                    end: range.start - 1,
                };
                rest.push(RecordLock {
                    range: before,
                    ..*held
                });
            }
            if held.range.end > range.end {
                let after = LockRange {
                    start: range.end + 1,
                    end: held.range.end,
                };
                rest.push(RecordLock {
                    range: after,
                    ..*held
                });
            }
            false
        });
        self.records.append(&mut rest);
    }

    /// Puts a lock in place, joined with neighbours of its owner and kind.
    fn set(&mut self, wanted: RecordLock) {
        self.cut(wanted.owner, wanted.range);
        let mut joined = wanted;
        self.records.retain(|held| {
            let same = held.owner == wanted.owner && held.kind == wanted.kind;
            if !same || !held.range.joins(joined.range) {
                return true;
            }
            joined.range.start = joined.range.start.min(held.range.start);
            joined.range.end = joined.range.end.max(held.range.end);
            false
        });
        self.records.push(joined);
    }
}
