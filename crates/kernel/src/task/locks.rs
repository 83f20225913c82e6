//! Advisory locks on files: whole files for open file descriptions (`flock(2)`), ranges for
//! processes (`fcntl(2)` record locks).

use super::Task;
use proctable::block_on;
use vfs_core::errno::{Errno, Result};
use vfs_core::file::OpenFile;
use vfs_core::locks::{LockKey, LockKind, LockOwner, LockRange, RecordLock as HeldLock};
use vfs_core::wait::PollEvents;

/// Operations of [`Task::flock`], with Linux's numbers.
const LOCK_SH: u32 = 1;
const LOCK_EX: u32 = 2;
const LOCK_NB: u32 = 4;
const LOCK_UN: u32 = 8;

/// Kinds in [`RecordLock::kind`], with Linux's numbers.
const F_RDLCK: u32 = 0;
const F_WRLCK: u32 = 1;
const F_UNLCK: u32 = 2;

/// What [`Task::record_lock`] is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordLockCmd {
    /// Say what is in the way (`F_GETLK`).
    Get,
    /// Lock, or fail with `EAGAIN` (`F_SETLK`).
    Set,
    /// Lock, waiting for others (`F_SETLKW`).
    SetWait,
}

/// A lock on a range of a file (`struct flock` from the start of the file).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordLock {
    /// 0 for reading, 1 for writing, 2 none.
    pub kind: u32,
    /// First byte.
    pub start: u64,
    /// Bytes; 0 is to the end of the file.
    pub len: u64,
    /// Who holds it; 0 if nobody.
    pub pid: u32,
}

impl Task {
    /// Locks a file for its open file description (`flock(2)`): 1 shared, 2 exclusive, 8 not, 4 in
    /// addition not to wait (`EAGAIN`).
    pub fn flock(&self, fd: i32, op: u32) -> Result<()> {
        let file = self.file(fd)?;
        let kind = match op & !LOCK_NB {
            LOCK_SH => Some(LockKind::Shared),
            LOCK_EX => Some(LockKind::Exclusive),
            LOCK_UN => None,
            _ => return Err(Errno::EINVAL),
        };
        let locks = &self.vm.locks;
        if op & LOCK_NB != 0 {
            return locks.flock(&file, kind);
        }
        let queues = [(locks.wait_queue(), PollEvents::all())];
        self.restart(|| block_on(&self.process, &queues, None, || locks.flock(&file, kind)))
    }

    /// Asks for, takes or gives up a lock on a range for the process (`fcntl(2)`). With `Get` the
    /// lock in the way is returned, or one of kind 2; otherwise the lock that was asked for.
    pub fn record_lock(&self, fd: i32, cmd: RecordLockCmd, lock: RecordLock) -> Result<RecordLock> {
        let file = self.file(fd)?;
        let number = |n: u64| i64::try_from(n).map_err(|_| Errno::EINVAL);
        let range = LockRange::new(number(lock.start)?, number(lock.len)?)?;
        let owner = LockOwner::Process(self.pid());
        let kind = match lock.kind {
            F_RDLCK => LockKind::Shared,
            F_WRLCK => LockKind::Exclusive,
            F_UNLCK if cmd != RecordLockCmd::Get => {
                self.vm.locks.unset(&file, owner, range)?;
                return Ok(lock);
            }
            _ => return Err(Errno::EINVAL),
        };
        let wanted = HeldLock { owner, kind, range };
        match cmd {
            RecordLockCmd::Get => {
                let found = self.vm.locks.conflict(LockKey::of(&file)?, &wanted);
                return Ok(found.map_or(
                    RecordLock {
                        kind: F_UNLCK,
                        pid: 0,
                        ..lock
                    },
                    show,
                ));
            }
            RecordLockCmd::Set => self.vm.locks.set(&file, wanted, false)?,
            RecordLockCmd::SetWait => self.wait_for_lock(&file, &wanted)?,
        }
        Ok(lock)
    }

    fn wait_for_lock(&self, file: &OpenFile, wanted: &HeldLock) -> Result<()> {
        let locks = &self.vm.locks;
        let queues = [(locks.wait_queue(), PollEvents::all())];
        let done = self.restart(|| {
            block_on(&self.process, &queues, None, || {
                locks.set(file, *wanted, true)
            })
        });
        if done.is_err() {
            locks.stop_waiting(wanted.owner);
        }
        done
    }
}

fn show(held: HeldLock) -> RecordLock {
    RecordLock {
        kind: match held.kind {
            LockKind::Shared => F_RDLCK,
            LockKind::Exclusive => F_WRLCK,
        },
        start: held.range.start,
        len: match held.range.end {
            u64::MAX => 0,
            end => end - held.range.start + 1,
        },
        pid: match held.owner {
            LockOwner::Process(pid) => pid,
            LockOwner::Description(_) => 0,
        },
    }
}
