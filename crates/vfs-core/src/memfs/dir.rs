//! Entries of a directory: found by name, listed in order of arrival.

use super::MemInode;
use crate::types::FileType;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::{Arc, Weak};

/// The first cookie; 0 to 2 belong to the start, `.` and `..`.
const FIRST_COOKIE: u64 = 3;

/// A name, shared between the two maps.
pub(super) type Name = Arc<[u8]>;

/// An entry as a listing shows it.
#[derive(Clone)]
pub(super) struct Listed {
    pub(super) name: Name,
    pub(super) ino: u64,
    pub(super) kind: FileType,
}

/// A directory's entries. Every new name gets a cookie above all before it and keeps it while it
/// exists, so a listing that goes on after a cookie meets each lasting name once.
pub(super) struct Dir {
    /// Hashed with a random key: a guest chooses the names.
    index: HashMap<Name, (u64, Arc<MemInode>)>,
    order: BTreeMap<u64, Listed>,
    next: u64,
    /// The directory above; dangling for the root and once removed.
    pub(super) parent: Weak<MemInode>,
    /// Removed: nothing can be made in it any more.
    pub(super) dead: bool,
}

impl Dir {
    pub(super) fn new(parent: Weak<MemInode>) -> Dir {
        Dir {
            index: HashMap::new(),
            order: BTreeMap::new(),
            next: FIRST_COOKIE,
            parent,
            dead: false,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    pub(super) fn get(&self, name: &[u8]) -> Option<&Arc<MemInode>> {
        self.index.get(name).map(|(_, inode)| inode)
    }

    /// Adds a name, or gives one that exists another inode in the same place; returns the old one.
    pub(super) fn put(&mut self, name: &[u8], inode: Arc<MemInode>) -> Option<Arc<MemInode>> {
        if let Some((cookie, old)) = self.index.get_mut(name) {
            if let Some(listed) = self.order.get_mut(cookie) {
                (listed.ino, listed.kind) = (inode.ino, inode.kind);
            }
            return Some(std::mem::replace(old, inode));
        }
        let name: Name = Arc::from(name);
        let listed = Listed {
            name: name.clone(),
            ino: inode.ino,
            kind: inode.kind,
        };
        self.order.insert(self.next, listed);
        self.index.insert(name, (self.next, inode));
        self.next += 1;
        None
    }

    pub(super) fn remove(&mut self, name: &[u8]) -> Option<Arc<MemInode>> {
        let (cookie, inode) = self.index.remove(name)?;
        self.order.remove(&cookie);
        if self.index.is_empty() {
            // Give back what a once large directory took.
            self.index = HashMap::new();
        }
        Some(inode)
    }

    /// Up to `most` entries after `cookie`, each with its own cookie.
    pub(super) fn after(&self, cookie: u64, most: usize, into: &mut Vec<(u64, Listed)>) {
        let range = (Bound::Excluded(cookie), Bound::Unbounded);
        into.extend(
            self.order
                .range(range)
                .take(most)
                .map(|(c, listed)| (*c, listed.clone())),
        );
    }

    /// Empties it, giving the inodes to whoever takes them apart.
    pub(super) fn drain_into(&mut self, into: &mut Vec<Arc<MemInode>>) {
        into.extend(self.index.drain().map(|(_, (_, inode))| inode));
        self.order.clear();
    }
}
