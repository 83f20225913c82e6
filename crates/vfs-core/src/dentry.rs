//! Names in use: the directory entry cache.
//!
//! A dentry is a name that somebody holds: an open file, a working directory, a mount, a walk
//! under way. It ties the name to its inode and to the dentry of its directory, so that `..` and
//! the path of an open file are known although inodes know no names. As long as one is held, a
//! name has exactly one dentry, which is what makes two locations comparable by address; names
//! nobody holds have none, and the file system is asked again.
//!
//! Children are held weakly and parents strongly. A child that died leaves a dead weak reference
//! behind, which is swept when the map grows, so a dentry's death takes no lock.

use crate::errno::{Errno, Result};
use crate::inode::InodeRef;
use crate::sync::lock;
use crate::types::FileType;
use std::collections::HashMap;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

/// A name in use (`struct dentry`).
pub struct Dentry {
    inode: InodeRef,
    kind: FileType,
    /// The file system changes on its own: look names up anew.
    volatile: bool,
    /// Mounts on this dentry.
    mounts: AtomicU32,
    /// Open files that may write it, or, below zero, programs that must not be written
    /// (`i_writecount`). By name and not by inode: of a hard link the other name is not watched.
    writers: AtomicI32,
    place: Mutex<Place>,
    children: Mutex<Children>,
}

/// Where a dentry hangs; changes when it is renamed.
struct Place {
    parent: Option<Arc<Dentry>>,
    name: Arc<[u8]>,
    deleted: bool,
}

/// The names in use in a directory. Its lock is also the directory's lock (`i_rwsem`): whoever
/// adds, removes or looks up a name holds it, so that names and dentries agree.
#[derive(Default)]
pub(crate) struct Children {
    map: HashMap<Arc<[u8]>, Weak<Dentry>>,
    sweep_at: usize,
}

/// Fewest names after which dead ones are looked for.
const SWEEP_MIN: usize = 16;

impl Children {
    /// The live dentry of a name, if there is one.
    fn get(&self, name: &[u8]) -> Option<Arc<Dentry>> {
        self.map.get(name)?.upgrade()
    }

    fn insert(&mut self, name: Arc<[u8]>, dentry: &Arc<Dentry>) {
        if self.map.len() >= self.sweep_at {
            self.map.retain(|_, child| child.strong_count() > 0);
            self.sweep_at = (self.map.len() * 2).max(SWEEP_MIN);
        }
        self.map.insert(name, Arc::downgrade(dentry));
    }

    /// The name as already allocated for an earlier dentry, or a new allocation.
    fn intern(&self, name: &[u8]) -> Arc<[u8]> {
        match self.map.get_key_value(name) {
            Some((key, _)) => key.clone(),
            None => Arc::from(name),
        }
    }
}

impl Dentry {
    /// The root of a mounted file system.
    pub(crate) fn root(inode: InodeRef, volatile: bool) -> Arc<Dentry> {
        Dentry::build(inode, volatile, None, Arc::from(&b"/"[..]))
    }

    /// A dentry in no directory: an unnamed temporary file, or an open file reached through a
    /// magic link. `name` is what the path of an open file shows.
    pub(crate) fn detached(inode: InodeRef, name: &[u8]) -> Arc<Dentry> {
        let dentry = Dentry::build(inode, false, None, Arc::from(name));
        lock(&dentry.place).deleted = true;
        dentry
    }

    /// A file of the directory `dir` that has no name there (`d_tmpfile`); its path shows `name`.
    pub(crate) fn unnamed(dir: &Arc<Dentry>, inode: InodeRef, name: &[u8]) -> Arc<Dentry> {
        let dentry = Dentry::build(inode, false, Some(dir.clone()), Arc::from(name));
        lock(&dentry.place).deleted = true;
        dentry
    }

    fn build(
        inode: InodeRef,
        volatile: bool,
        parent: Option<Arc<Dentry>>,
        name: Arc<[u8]>,
    ) -> Arc<Dentry> {
        Arc::new(Dentry {
            kind: inode.kind(),
            inode,
            volatile,
            mounts: AtomicU32::new(0),
            writers: AtomicI32::new(0),
            place: Mutex::new(Place {
                parent,
                name,
                deleted: false,
            }),
            children: Mutex::new(Children::default()),
        })
    }

    /// The inode of the name.
    pub fn inode(&self) -> &InodeRef {
        &self.inode
    }

    /// Kind of the inode.
    pub fn kind(&self) -> FileType {
        self.kind
    }

    /// The name in its directory now; `/` for the root of a file system.
    pub fn name(&self) -> Arc<[u8]> {
        lock(&self.place).name.clone()
    }

    /// The directory it is in now; `None` for the root of a file system.
    pub fn parent(&self) -> Option<Arc<Dentry>> {
        lock(&self.place).parent.clone()
    }

    /// Whether the name was removed, or replaced by another.
    pub fn is_deleted(&self) -> bool {
        lock(&self.place).deleted
    }

    /// Name and directory together, as of one moment.
    pub(crate) fn place(&self) -> (Option<Arc<Dentry>>, Arc<[u8]>) {
        let place = lock(&self.place);
        (place.parent.clone(), place.name.clone())
    }

    /// Whether something is mounted on it.
    pub(crate) fn is_mountpoint(&self) -> bool {
        self.mounts.load(Ordering::Acquire) > 0
    }

    pub(crate) fn add_mount(&self) {
        self.mounts.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn remove_mount(&self) {
        self.mounts.fetch_sub(1, Ordering::AcqRel);
    }

    /// Whether `self` is `other` or one of the directories above it.
    pub(crate) fn is_above_or_same(self: &Arc<Self>, other: &Arc<Dentry>) -> bool {
        let mut at = other.clone();
        loop {
            if Arc::ptr_eq(self, &at) {
                return true;
            }
            let Some(parent) = at.parent() else {
                return false;
            };
            at = parent;
        }
    }

    /// Counts a writer (`get_write_access`): `ETXTBSY` while a program is run from it.
    pub(crate) fn get_write_access(self: &Arc<Self>) -> Result<WriteAccess> {
        self.count_writer(1)?;
        Ok(WriteAccess(self.clone()))
    }

    /// Refuses writers while the guard lives (`deny_write_access`): `ETXTBSY` if there are any.
    pub(crate) fn deny_write_access(self: &Arc<Self>) -> Result<WriteDenial> {
        self.count_writer(-1)?;
        Ok(WriteDenial(self.clone()))
    }

    /// Moves the count away from zero.
    fn count_writer(&self, by: i32) -> Result<()> {
        let counted = self
            .writers
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |n| {
                if n.signum() == -by {
                    None
                } else {
                    n.checked_add(by)
                }
            });
        counted.map(drop).map_err(|_| Errno::ETXTBSY)
    }

    /// Locks the directory against changes of its names.
    pub(crate) fn lock_children(&self) -> MutexGuard<'_, Children> {
        lock(&self.children)
    }

    /// The entry called `name`, which is valid and neither `.` nor `..`.
    pub(crate) fn lookup(self: &Arc<Self>, name: &[u8]) -> Result<Arc<Dentry>> {
        self.lookup_locked(&mut self.lock_children(), name)
    }

    /// As [`Dentry::lookup`], with the directory locked.
    pub(crate) fn lookup_locked(
        self: &Arc<Self>,
        children: &mut Children,
        name: &[u8],
    ) -> Result<Arc<Dentry>> {
        let live = children.get(name);
        if let Some(dentry) = &live
            && (!self.volatile || dentry.is_mountpoint())
        {
            return Ok(dentry.clone());
        }
        let found = self.inode.lookup(name);
        if let Some(dentry) = live {
            match &found {
                Ok(inode) if same_node(inode, &dentry.inode) => return Ok(dentry),
                Ok(_) | Err(Errno::ENOENT) => self.forget_locked(children, name, &dentry),
                Err(_) => {}
            }
        }
        Ok(self.instantiate_locked(children, name, found?))
    }

    /// Gives a name just made or found in this locked directory its dentry.
    pub(crate) fn instantiate_locked(
        self: &Arc<Self>,
        children: &mut Children,
        name: &[u8],
        inode: InodeRef,
    ) -> Arc<Dentry> {
        let name = children.intern(name);
        let dentry = Dentry::build(inode, self.volatile, Some(self.clone()), name.clone());
        children.insert(name, &dentry);
        dentry
    }

    /// The name is gone (`d_delete`); the dentry lives on for those who hold it.
    pub(crate) fn forget_locked(&self, children: &mut Children, name: &[u8], dentry: &Dentry) {
        children.map.remove(name);
        lock(&dentry.place).deleted = true;
    }

    /// The name was renamed (`d_move`): `children` are those of the old directory, `others` those
    /// of the new one if it is another.
    pub(crate) fn move_locked(
        dentry: &Arc<Dentry>,
        children: &mut Children,
        others: Option<&mut Children>,
        new_dir: &Arc<Dentry>,
        new_name: &[u8],
    ) {
        let old_name = dentry.name();
        children.map.remove(&*old_name);
        let target = others.unwrap_or(children);
        let name = target.intern(new_name);
        target.insert(name.clone(), dentry);
        let old = {
            let mut place = lock(&dentry.place);
            place.name = name;
            place.parent.replace(new_dir.clone())
        };
        drop(old);
    }

    /// Two names were exchanged (`d_exchange`); locks as for [`Dentry::move_locked`].
    pub(crate) fn exchange_locked(
        a: &Arc<Dentry>,
        b: &Arc<Dentry>,
        a_children: &mut Children,
        b_children: Option<&mut Children>,
    ) {
        let (a_dir, a_name) = a.place();
        let (b_dir, b_name) = b.place();
        match b_children {
            Some(b_children) => b_children.insert(b_name.clone(), a),
            None => a_children.insert(b_name.clone(), a),
        }
        a_children.insert(a_name.clone(), b);
        for (dentry, dir, name) in [(a, b_dir, b_name), (b, a_dir, a_name)] {
            let mut place = lock(&dentry.place);
            place.name = name;
            place.parent = dir;
        }
    }
}

/// A writer, counted until it is dropped.
pub(crate) struct WriteAccess(Arc<Dentry>);

impl Drop for WriteAccess {
    fn drop(&mut self) {
        self.0.writers.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Keeps a file that is run as a program from being opened for writing (`ETXTBSY`); see
/// [`Path::deny_write`](crate::Path::deny_write).
#[must_use = "dropping it lets writers in again"]
pub struct WriteDenial(Arc<Dentry>);

impl Drop for WriteDenial {
    fn drop(&mut self) {
        self.0.writers.fetch_add(1, Ordering::AcqRel);
    }
}

/// Whether a fresh lookup found the node a dentry already has.
pub(crate) fn same_node(a: &InodeRef, b: &InodeRef) -> bool {
    if Arc::ptr_eq(a, b) {
        return true;
    }
    if a.kind() != b.kind() {
        return false;
    }
    matches!((a.stat(), b.stat()), (Ok(a), Ok(b)) if a.dev == b.dev && a.ino == b.ino)
}

impl Drop for Dentry {
    fn drop(&mut self) {
        // A guest can nest directories without end: let go of the parents one by one, not by
        // recursion, which would end the host's stack.
        let place = self
            .place
            .get_mut()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut parent = place.parent.take();
        while let Some(mut dentry) = parent.and_then(Arc::into_inner) {
            let place = dentry
                .place
                .get_mut()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            parent = place.parent.take();
        }
    }
}

impl std::fmt::Debug for Dentry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dentry")
            .field("name", &String::from_utf8_lossy(&self.name()))
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}
