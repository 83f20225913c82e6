//! Copies whose last name in the upper layer went while the file has names in a lower layer.
//!
//! A lower file with several names is copied up under one of them. When that name is removed, the
//! others still lead to the copy, and it may be given a new name later, which no file system lets
//! happen to a file without names. So it is moved to a spare name in the upper root, which the
//! overlay does not show, and which makes way if a guest wants that name for itself.

use crate::links::LinkSet;
use crate::node::Node;
use crate::{Shared, lock};
use rustc_hash::FxHashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, Weak};
use vfs_core::errno::{Errno, Result};
use vfs_core::inode::InodeRef;
use vfs_core::types::{RenameFlags, SetAttr};

/// The spare names in use.
#[derive(Default)]
pub(crate) struct Parked {
    count: AtomicUsize,
    names: Mutex<FxHashSet<Box<[u8]>>>,
}

/// Runs `change`, after which the directory has the times it had before.
pub(crate) fn quietly<T>(dir: &InodeRef, change: impl FnOnce() -> Result<T>) -> Result<T> {
    let before = dir.stat()?;
    let result = change()?;
    dir.setattr(&SetAttr {
        atime: Some(before.atime),
        mtime: Some(before.mtime),
        ..SetAttr::default()
    })?;
    Ok(result)
}

impl Shared {
    fn is_root(&self, dir: &Node) -> bool {
        self.root
            .get()
            .is_some_and(|root| std::ptr::eq(root.as_ptr(), dir))
    }

    /// Whether the upper entry `name` of `dir` is one that nobody sees.
    pub(crate) fn is_parked(&self, dir: &Node, name: &[u8]) -> bool {
        self.parked.count.load(Ordering::Acquire) > 0
            && self.is_root(dir)
            && lock(&self.parked.names).contains(name)
    }

    /// Takes over a spare name of an earlier overlay.
    pub(crate) fn import_parked(&self, name: &[u8]) {
        let mut names = lock(&self.parked.names);
        names.insert(name.into());
        self.parked.count.store(names.len(), Ordering::Release);
    }

    /// Moves `name` of the upper directory `dir` to a new spare name.
    fn move_to_spare(
        &self,
        names: &mut FxHashSet<Box<[u8]>>,
        dir: &InodeRef,
        name: &[u8],
    ) -> Result<Box<[u8]>> {
        let top = self.writable()?.root();
        let root = self.root.get().and_then(Weak::upgrade);
        for n in 0u64.. {
            let spare = format!(".parked-{n}").into_bytes().into_boxed_slice();
            let visible = match &root {
                Some(root) => root.covered(&spare)?.is_some(),
                None => false,
            };
            if visible || names.contains(&spare) {
                continue;
            }
            match dir.rename(name, &top, &spare, RenameFlags::NOREPLACE) {
                Ok(()) => {
                    names.insert(spare.clone());
                    self.parked.count.store(names.len(), Ordering::Release);
                    return Ok(spare);
                }
                Err(Errno::EEXIST) => {}
                Err(error) => return Err(error),
            }
        }
        Err(Errno::EEXIST)
    }

    /// Makes way for a guest that wants `name` in `dir`, which is locked.
    pub(crate) fn make_way(&self, dir: &Node, name: &[u8]) -> Result<()> {
        if !self.is_parked(dir, name) {
            return Ok(());
        }
        let top = self.writable()?.root();
        let mut names = lock(&self.parked.names);
        let spare = quietly(&top, || self.move_to_spare(&mut names, &top, name))?;
        names.remove(name);
        self.links.reparked(name, spare);
        Ok(())
    }

    /// Instead of removing `name` from the upper directory of `dir`: parks the file if that is
    /// its last name there but not in the overlay. Says whether it did.
    pub(crate) fn park(&self, dir: &Node, name: &[u8], node: &Node) -> Result<bool> {
        let Some(set) = node
            .link_set()
            .filter(|set| set.links_of_lower().is_some_and(|n| n > 1))
        else {
            return Ok(false);
        };
        let (Some(upper), Some(parent)) = (node.upper.get(), dir.upper.get()) else {
            return Ok(false);
        };
        if upper.stat()?.nlink > 1 || parent.lookup(name).is_err() {
            return Ok(false);
        }
        let mut names = lock(&self.parked.names);
        let spare = if self.is_root(dir) {
            self.move_to_spare(&mut names, parent, name)?
        } else {
            let top = self.writable()?.root();
            quietly(&top, || self.move_to_spare(&mut names, parent, name))?
        };
        *lock(&set.parked) = Some(spare);
        Ok(true)
    }

    /// Removes the spare name of `set`, which has a proper one again or none at all.
    pub(crate) fn unpark(&self, set: &LinkSet) -> Result<()> {
        if self.parked.count.load(Ordering::Acquire) == 0 {
            return Ok(());
        }
        // In this order, so that the name cannot be changed meanwhile.
        let mut names = lock(&self.parked.names);
        let Some(spare) = lock(&set.parked).take() else {
            return Ok(());
        };
        let top = self.writable()?.root();
        quietly(&top, || top.unlink(&spare))?;
        names.remove(&spare);
        self.parked.count.store(names.len(), Ordering::Release);
        Ok(())
    }
}
