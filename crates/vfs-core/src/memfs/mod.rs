//! A file system in memory, as Linux's tmpfs: the writable layer of a VM, and its `/tmp`.
//!
//! Files are sparse page by page, directories are found by hash and listed in order of arrival
//! with stable cookies, times have nanoseconds, and everything a guest can make is counted: pages
//! against [`MemFsOptions::max_bytes`] and inodes and further links against
//! [`MemFsOptions::max_inodes`]. Beyond a limit there is `ENOSPC`, and whoever gave
//! [`MemFs::with_events`] is told which limit it was.
//!
//! Locks: each inode has one, for its attributes and content, and is held for one operation on
//! that inode alone. Whatever changes the tree first takes the tree lock of the file system, so
//! that changes see each other whole; reading, writing and looking up never do.

mod data;
mod dir;
mod file;
mod inode;
mod tree;

pub use inode::MemInode;

use crate::errno::{Errno, Result};
use crate::inode::{FileSystem, InodeRef};
use crate::types::{NAME_MAX, StatFs};
use data::{Budget, PAGE};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// `TMPFS_MAGIC`.
const MAGIC: u64 = 0x0102_1994;

/// How a [`MemFs`] is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemFsOptions {
    /// Most bytes of content, counted in pages of 4 KiB.
    pub max_bytes: u64,
    /// Most inodes, the root included; a further hard link counts as one.
    pub max_inodes: u64,
    /// Permission bits of the root directory.
    pub mode: u32,
    /// Owner of the root directory.
    pub uid: u32,
    /// Group of the root directory.
    pub gid: u32,
}

impl Default for MemFsOptions {
    /// 1 GiB, an inode per page of it, and a root directory of the superuser with mode 0755.
    fn default() -> MemFsOptions {
        MemFsOptions {
            max_bytes: 1 << 30,
            max_inodes: (1 << 30) / PAGE as u64,
            mode: 0o755,
            uid: 0,
            gid: 0,
        }
    }
}

/// News of a limit of a [`MemFs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpaceEvent {
    /// Name of the option: `"max_bytes"` or `"max_inodes"`.
    pub limit: &'static str,
    /// What is used now, in the unit of the option.
    pub used: u64,
    /// The limit.
    pub max: u64,
    /// Whether something was refused; otherwise four fifths were passed just now.
    pub refused: bool,
}

/// Is told of limits. Called with locks of the file system held: note it and return.
pub type SpaceEvents = Arc<dyn Fn(SpaceEvent) + Send + Sync>;

/// A file system in memory.
pub struct MemFs {
    shared: Arc<Shared>,
    root: Arc<MemInode>,
}

/// What the inodes of one file system have in common.
struct Shared {
    dev: u64,
    pages: Counter,
    inodes: Counter,
    next_ino: AtomicU64,
    /// Held while the tree changes.
    tree: Mutex<()>,
    events: Option<SpaceEvents>,
}

/// A counted resource with a limit.
struct Counter {
    used: AtomicU64,
    max: u64,
    name: &'static str,
    /// Units of the option that one of the counted things stands for.
    unit: u64,
}

impl Counter {
    fn take(&self, n: u64, events: &Option<SpaceEvents>) -> bool {
        let taken = self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(n).filter(|&used| used <= self.max)
            });
        if let Some(events) = events {
            let event = |used: u64, refused| SpaceEvent {
                limit: self.name,
                used: used.saturating_mul(self.unit),
                max: self.max.saturating_mul(self.unit),
                refused,
            };
            let mark = self.max - self.max / 5;
            match taken {
                Ok(used) if used < mark && used + n >= mark => events(event(used + n, false)),
                Err(used) => events(event(used, true)),
                Ok(_) => {}
            }
        }
        taken.is_ok()
    }

    fn give(&self, n: u64) {
        self.used.fetch_sub(n, Ordering::Relaxed);
    }

    fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}

impl Budget for Shared {
    fn reserve(&self, pages: u64) -> bool {
        self.pages.take(pages, &self.events)
    }

    fn release(&self, pages: u64) {
        self.pages.give(pages);
    }
}

impl Shared {
    /// Counts one more inode or link.
    fn reserve_inode(&self) -> Result<()> {
        if self.inodes.take(1, &self.events) {
            Ok(())
        } else {
            Err(Errno::ENOSPC)
        }
    }
}

impl MemFs {
    /// An empty file system.
    pub fn new(options: MemFsOptions) -> Arc<MemFs> {
        MemFs::build(options, None)
    }

    /// An empty file system that tells `events` of its limits.
    pub fn with_events(options: MemFsOptions, events: SpaceEvents) -> Arc<MemFs> {
        MemFs::build(options, Some(events))
    }

    fn build(options: MemFsOptions, events: Option<SpaceEvents>) -> Arc<MemFs> {
        let counter = |name, max, unit, used| Counter {
            used: AtomicU64::new(used),
            max,
            name,
            unit,
        };
        let shared = Arc::new(Shared {
            dev: crate::inode::anonymous_dev(),
            pages: counter("max_bytes", options.max_bytes / PAGE as u64, PAGE as u64, 0),
            inodes: counter("max_inodes", options.max_inodes, 1, 1),
            next_ino: AtomicU64::new(2),
            tree: Mutex::new(()),
            events,
        });
        let root = MemInode::root(&shared, &options);
        Arc::new(MemFs { shared, root })
    }

    /// Bytes of content in use, in whole pages.
    pub fn used_bytes(&self) -> u64 {
        self.shared.pages.used() * PAGE as u64
    }

    /// Inodes in use.
    pub fn used_inodes(&self) -> u64 {
        self.shared.inodes.used()
    }
}

impl FileSystem for MemFs {
    fn root(&self) -> InodeRef {
        self.root.clone()
    }

    fn fs_type(&self) -> &'static str {
        "tmpfs"
    }

    fn statfs(&self) -> Result<StatFs> {
        let (pages, inodes) = (&self.shared.pages, &self.shared.inodes);
        let bfree = pages.max.saturating_sub(pages.used());
        Ok(StatFs {
            magic: MAGIC,
            bsize: PAGE as u64,
            blocks: pages.max,
            bfree,
            bavail: bfree,
            files: inodes.max,
            ffree: inodes.max.saturating_sub(inodes.used()),
            namelen: NAME_MAX as u64,
        })
    }
}
