//! Overlay file system: read-only lower layers under one writable upper.
//!
//! A virtual machine's root is one [`OverlayFs`]: a memory file system of its own on top, and
//! below it trees that thousands of machines share (package contents, the base system). Whatever
//! is read comes straight from the layer that has it; whatever is written is first *copied up*
//! into the upper layer. Names mean what Linux's overlayfs gives them, with the differences listed
//! below.
//!
//! # How it is built
//!
//! - `Node` (`node.rs`) is an inode of the merged tree. It lends attributes, data and links from
//!   the *real* inode below it and keeps one inode number for life, copied up or not.
//! - What the upper layer's own inodes cannot say is kept out of band, in a table of [`Marks`]
//!   (`marks.rs`): which names of a directory are *whiteouts*, whether an upper directory hides
//!   what lies below it, and from where a renamed directory takes its lower part. So a guest may
//!   name a file `.wh.x`, make a 0:0 device or set any extended attribute and see just that.
//! - Construction looks at nothing but the roots of the layers; nodes exist while somebody holds
//!   them and a directory remembers them weakly.
//!
//! # Locks
//!
//! In this order: `Shared::renames` (renames and directory removals only), a node's `copying`, one
//! directory's state (two or three only under `renames`), then leaves (marks, link sets, places).
//! Copy-up never runs while a directory's state is held. The data of a file is copied under
//! `copying` alone, so a long copy stops nobody but users of that file.
//!
//! # Where it differs from Linux's overlayfs
//!
//! - An open read-only file follows its inode when that is copied up; Linux leaves it at the old data.
//! - Renaming a directory with a lower part works always (Linux: only with `redirect_dir=on`), and
//!   hard links of a lower file stay together at copy-up (Linux: only with `index=on`).
//! - Only the superuser's own device numbers matter: 0:0 character devices are ordinary.
//! - Opening for reading never copies up, and `st_dev` is one number for the whole file system.
//!
//! Layers must not change behind an overlay's back while it is in use; if they do, what is seen of
//! the change is undefined but nothing breaks.

mod copyup;
mod entries;
mod file;
mod links;
mod listing;
mod marks;
mod node;
mod numbers;
mod parked;
mod recent;
mod rename;

pub use links::LinkMark;
pub use marks::{DirMarks, Marks, Origin};

use crate::links::LinkTable;
use crate::marks::MarkTable;
use crate::node::{Lower, Node};
use crate::numbers::Wide;
use crate::parked::Parked;
use crate::recent::Recent;
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use vfs_core::errno::{Errno, Result};
use vfs_core::inode::{FileSystem, InodeRef};
use vfs_core::types::StatFs;

/// Most lower layers of one overlay.
pub const MAX_LOWERS: usize = 60;

/// `f_type` of `statfs` (`OVERLAYFS_SUPER_MAGIC`, `include/uapi/linux/magic.h`).
pub const OVERLAYFS_MAGIC: u64 = 0x794c_7630;

/// How to assemble an [`OverlayFs`].
#[derive(Default)]
pub struct OverlayOptions {
    /// What an earlier overlay over the same upper layer left in [`OverlayFs::export_marks`].
    pub marks: Marks,
}

/// What all nodes of one overlay share.
pub(crate) struct Shared {
    pub(crate) dev: u64,
    pub(crate) upper: Option<Arc<dyn FileSystem>>,
    pub(crate) lowers: Box<[Arc<dyn FileSystem>]>,
    /// Serialises whatever locks more than one directory.
    pub(crate) renames: Mutex<()>,
    pub(crate) marks: MarkTable,
    pub(crate) links: LinkTable,
    /// Upper inode number of a copied-up file to the number it had before.
    origins: Mutex<FxHashMap<u64, u64>>,
    /// Entries of `origins`, so that nobody locks an empty table.
    origin_count: AtomicUsize,
    wide_inos: Mutex<Wide>,
    pub(crate) recent: Recent,
    pub(crate) parked: Parked,
    /// The root node, where files without a name are copied up.
    pub(crate) root: OnceLock<Weak<Node>>,
}

impl Shared {
    /// The upper layer, or `EROFS`.
    pub(crate) fn writable(&self) -> Result<&Arc<dyn FileSystem>> {
        match &self.upper {
            Some(upper) if !upper.read_only() => Ok(upper),
            _ => Err(Errno::EROFS),
        }
    }

    /// The overlay's inode number for inode `ino` of `layer` (0 is the upper layer).
    pub(crate) fn number(&self, layer: u8, ino: u64) -> u64 {
        numbers::pack(numbers::INO_SHIFT, layer, ino).unwrap_or_else(|| {
            numbers::pack_wide(numbers::INO_SHIFT, &mut lock(&self.wide_inos), layer, ino)
        })
    }

    /// The number of a file whose upper inode is `ino`: that of its lower origin if it was copied up.
    pub(crate) fn upper_number(&self, ino: u64) -> u64 {
        if self.has_origins()
            && let Some(number) = lock(&self.origins).get(&ino)
        {
            return *number;
        }
        self.number(0, ino)
    }

    /// Whether any file goes by another number than its upper inode's.
    pub(crate) fn has_origins(&self) -> bool {
        self.origin_count.load(Ordering::Acquire) > 0
    }

    /// Remembers that upper inode `ino` goes by `number`.
    pub(crate) fn set_origin(&self, ino: u64, number: u64) {
        let mut origins = lock(&self.origins);
        origins.insert(ino, number);
        self.origin_count.store(origins.len(), Ordering::Release);
    }

    /// Forgets upper inode `ino`, which is gone.
    pub(crate) fn forget_origin(&self, ino: u64) {
        let mut origins = lock(&self.origins);
        origins.remove(&ino);
        self.origin_count.store(origins.len(), Ordering::Release);
    }
}

/// The overlay file system; see the [crate] documentation.
pub struct OverlayFs {
    shared: Arc<Shared>,
    root: Arc<Node>,
}

impl OverlayFs {
    /// Lays `upper` over `lowers`, the first of which is the topmost. Without an upper layer the
    /// overlay is read-only.
    ///
    /// The layers' roots are looked at and nothing else, so this costs the same for any trees. An
    /// upper layer, and any part of it, must belong to one overlay alone.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is no layer at all, more than [`MAX_LOWERS`] lower ones, or marks that do
    /// not fit the layers; `ENOTDIR` if a root is no directory; else what a layer answers.
    pub fn new(
        upper: Option<Arc<dyn FileSystem>>,
        lowers: Vec<Arc<dyn FileSystem>>,
        options: OverlayOptions,
    ) -> Result<Arc<OverlayFs>> {
        if lowers.len() > MAX_LOWERS || (upper.is_none() && lowers.is_empty()) {
            return Err(Errno::EINVAL);
        }
        let stack = lowers
            .iter()
            .zip(1..)
            .map(|(fs, layer)| Lower {
                layer,
                inode: fs.root(),
            })
            .collect::<Box<[Lower]>>();
        let top = upper.as_ref().map(|fs| fs.root());
        for root in stack.iter().map(|l| &l.inode).chain(&top) {
            if root.kind() != vfs_core::types::FileType::Directory {
                return Err(Errno::ENOTDIR);
            }
        }
        let shared = Arc::new(Shared {
            dev: vfs_core::inode::anonymous_dev(),
            upper,
            lowers: lowers.into_boxed_slice(),
            renames: Mutex::new(()),
            marks: MarkTable::default(),
            links: LinkTable::default(),
            origins: Mutex::default(),
            origin_count: AtomicUsize::new(0),
            wide_inos: Mutex::default(),
            recent: Recent::default(),
            parked: Parked::default(),
            root: OnceLock::new(),
        });
        shared.import(options.marks, &stack)?;
        let root = Node::root(&shared, top, stack)?;
        // The cell was made empty six lines above.
        let _ = shared.root.set(Arc::downgrade(&root));
        Ok(Arc::new(OverlayFs { shared, root }))
    }

    /// Everything the overlay knows that its upper layer does not hold, so that the same upper
    /// layer can be laid over the same lower layers again ([`OverlayOptions::marks`]).
    ///
    /// Directories and files are named by their inode numbers in the upper layer. Whoever stores
    /// an upper layer in a form that changes these numbers translates them.
    pub fn export_marks(&self) -> Result<Marks> {
        self.shared.export()
    }
}

impl Drop for OverlayFs {
    fn drop(&mut self) {
        // The nodes kept here hold what keeps them.
        self.shared.recent.close();
    }
}

impl FileSystem for OverlayFs {
    fn root(&self) -> InodeRef {
        self.root.clone()
    }

    fn fs_type(&self) -> &'static str {
        "overlay"
    }

    fn statfs(&self) -> Result<StatFs> {
        let fs = self.shared.upper.as_ref().or(self.shared.lowers.first());
        let totals = fs.ok_or(Errno::EIO)?.statfs()?;
        Ok(StatFs {
            magic: OVERLAYFS_MAGIC,
            ..totals
        })
    }

    fn read_only(&self) -> bool {
        self.shared.writable().is_err()
    }
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// Locks a mutex; none of ours guards a state that a panic could leave half changed in a way that
/// matters more than going on.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
