//! Files with several names.
//!
//! Two names of one real file must lead to one node, or each would be copied up on its own. A
//! directory knows the nodes of its own names only, so files with more than one link are found
//! here, by their real inode. A lower file that was copied up through one of its names is found
//! by its other names, which the upper layer does not have, through the same entry.

use crate::lock;
use crate::node::{Lower, Node};
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use vfs_core::errno::{Errno, Result};
use vfs_core::inode::InodeRef;

/// A lower file with several names that was copied up or lost a name.
#[derive(Clone)]
pub struct LinkMark {
    /// Its layer, 1 for the topmost lower one.
    pub layer: u8,
    /// Its inode number there.
    pub ino: u64,
    /// Its copy in the upper layer, if there is one. The copy may have no name left there while
    /// the file still has names in the lower layer.
    pub upper: Option<InodeRef>,
    /// Its links before anything was changed.
    pub lower_links: u32,
    /// Names it has left in the overlay.
    pub links: u32,
    /// The entry of the upper layer's root that stands in for a name the copy does not have
    /// there, if so; no guest sees it.
    pub parked: Option<Vec<u8>>,
}

/// What outlives the node of a file with several names.
pub(crate) struct LinkSet {
    /// The layer of `lower_ino`; 0 if the file was never a lower one.
    layer: u8,
    lower_ino: u64,
    lower_links: u32,
    /// Names left; kept for lower files, whose upper copy has fewer names than they.
    pub(crate) links: AtomicU32,
    pub(crate) upper: OnceLock<InodeRef>,
    /// Its spare name; see [`crate::parked`].
    pub(crate) parked: Mutex<Option<Box<[u8]>>>,
    node: Mutex<Weak<Node>>,
}

impl LinkSet {
    /// The node of the set; `make` makes it if it is not alive.
    pub(crate) fn node(&self, make: impl FnOnce() -> Arc<Node>) -> Arc<Node> {
        let mut node = lock(&self.node);
        node.upgrade().unwrap_or_else(|| {
            let made = make();
            *node = Arc::downgrade(&made);
            made
        })
    }

    /// Names left of a file that was a lower one; of any other the upper layer counts.
    pub(crate) fn links_of_lower(&self) -> Option<u32> {
        (self.layer > 0).then(|| self.links.load(Ordering::Relaxed))
    }

    /// Whether the set says something that no layer says.
    pub(crate) fn matters(&self) -> bool {
        let links = self.links.load(Ordering::Relaxed);
        self.layer > 0 && links > 0 && (self.upper.get().is_some() || links != self.lower_links)
    }
}

/// Sets by layer and inode number; a copied-up file is there twice.
#[derive(Default)]
pub(crate) struct LinkTable {
    count: AtomicUsize,
    sets: Mutex<Sets>,
}

#[derive(Default)]
struct Sets {
    by_inode: FxHashMap<(u8, u64), Arc<LinkSet>>,
    sweep_at: usize,
}

impl LinkTable {
    /// The set of a real inode, if it has one.
    pub(crate) fn get(&self, layer: u8, ino: u64) -> Option<Arc<LinkSet>> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        lock(&self.sets).by_inode.get(&(layer, ino)).cloned()
    }

    /// The set of the real inode `lower`, which has `links` names.
    pub(crate) fn of_lower(&self, lower: &Lower, ino: u64, links: u32) -> Arc<LinkSet> {
        self.get_or_insert((lower.layer, ino), || LinkSet {
            layer: lower.layer,
            lower_ino: ino,
            lower_links: links,
            links: AtomicU32::new(links),
            upper: OnceLock::new(),
            parked: Mutex::default(),
            node: Mutex::default(),
        })
    }

    /// The set of the upper inode `ino`, which is no copy of a lower file with several names.
    pub(crate) fn of_upper(&self, ino: u64) -> Arc<LinkSet> {
        self.get_or_insert((0, ino), || LinkSet {
            layer: 0,
            lower_ino: 0,
            lower_links: 0,
            links: AtomicU32::new(0),
            upper: OnceLock::new(),
            parked: Mutex::default(),
            node: Mutex::default(),
        })
    }

    /// Makes `set` known under the upper inode `ino` too: its file was copied up to it.
    pub(crate) fn copied_up(&self, set: &Arc<LinkSet>, ino: u64, upper: &InodeRef) {
        // A set is copied up once, under its node's lock.
        let _ = set.upper.set(upper.clone());
        self.get_or_insert_set((0, ino), || set.clone());
    }

    fn get_or_insert(&self, key: (u8, u64), make: impl FnOnce() -> LinkSet) -> Arc<LinkSet> {
        self.get_or_insert_set(key, || Arc::new(make()))
    }

    fn get_or_insert_set(
        &self,
        key: (u8, u64),
        make: impl FnOnce() -> Arc<LinkSet>,
    ) -> Arc<LinkSet> {
        let mut sets = lock(&self.sets);
        if sets.by_inode.len() >= sets.sweep_at {
            sets.by_inode
                .retain(|_, set| set.matters() || lock(&set.node).strong_count() > 0);
            sets.sweep_at = sets.by_inode.len() * 2 + 32;
        }
        let set = sets.by_inode.entry(key).or_insert_with(make).clone();
        self.count.store(sets.by_inode.len(), Ordering::Release);
        set
    }

    /// Forgets `set`, whose file is gone; `upper` is its inode number in the upper layer.
    pub(crate) fn forget(&self, set: &LinkSet, upper: Option<u64>) {
        let mut sets = lock(&self.sets);
        if set.layer > 0 {
            sets.by_inode.remove(&(set.layer, set.lower_ino));
        }
        if let Some(ino) = upper {
            sets.by_inode.remove(&(0, ino));
        }
        self.count.store(sets.by_inode.len(), Ordering::Release);
    }

    /// A spare name was changed.
    pub(crate) fn reparked(&self, old: &[u8], new: Box<[u8]>) {
        for set in lock(&self.sets).by_inode.values() {
            let mut parked = lock(&set.parked);
            if parked.as_deref() == Some(old) {
                *parked = Some(new);
                return;
            }
        }
    }

    pub(crate) fn import(&self, marks: Vec<LinkMark>, layers: usize) -> Result<()> {
        for mark in marks {
            if mark.layer == 0 || usize::from(mark.layer) > layers {
                return Err(Errno::EINVAL);
            }
            let set = self.get_or_insert((mark.layer, mark.ino), || LinkSet {
                layer: mark.layer,
                lower_ino: mark.ino,
                lower_links: mark.lower_links,
                links: AtomicU32::new(mark.links),
                upper: OnceLock::new(),
                parked: Mutex::new(mark.parked.clone().map(Vec::into_boxed_slice)),
                node: Mutex::default(),
            });
            if let Some(upper) = mark.upper {
                self.copied_up(&set, upper.stat()?.ino, &upper);
            }
        }
        Ok(())
    }

    pub(crate) fn export(&self) -> Result<Vec<LinkMark>> {
        let mut marks: Vec<LinkMark> = lock(&self.sets)
            .by_inode
            .iter()
            .filter(|((layer, _), set)| *layer > 0 && set.matters())
            .map(|(_, set)| LinkMark {
                layer: set.layer,
                ino: set.lower_ino,
                upper: set.upper.get().cloned(),
                lower_links: set.lower_links,
                links: set.links.load(Ordering::Relaxed),
                parked: lock(&set.parked).as_ref().map(|name| name.to_vec()),
            })
            .collect();
        marks.sort_by_key(|mark| (mark.layer, mark.ino));
        Ok(marks)
    }
}
