//! What an upper directory means beyond its own entries: whiteouts, opaque directories and
//! renamed ones. Kept here, never in the upper layer's names or attributes.

use crate::links::LinkMark;
use crate::node::Lower;
use crate::{Shared, lock};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use vfs_core::errno::{Errno, Result};
use vfs_core::types::FileType;

/// Everything an overlay knows that its upper layer does not hold; see
/// [`OverlayFs::export_marks`](crate::OverlayFs::export_marks).
#[derive(Default)]
pub struct Marks {
    /// Upper directories with something to say.
    pub dirs: Vec<DirMarks>,
    /// Inode numbers of copied-up files: `(number in the upper layer, number shown)`.
    pub origins: Vec<(u64, u64)>,
    /// Lower files with several names that were copied up or lost a name.
    pub links: Vec<LinkMark>,
}

/// What is known of one upper directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirMarks {
    /// Its inode number in the upper layer.
    pub ino: u64,
    /// What it is merged with.
    pub origin: Origin,
    /// Names of the lower layers that do not exist here.
    pub whiteouts: Vec<Vec<u8>>,
}

/// What an upper directory is merged with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The lower directories of the same name: the usual case.
    SameName,
    /// Nothing: it hides what lies below it.
    Opaque,
    /// The lower directories at this path, relative to the layers' roots and without a leading
    /// slash: it was renamed.
    Moved(Vec<u8>),
}

/// Marks of one directory in use.
pub(crate) struct DirTable {
    pub(crate) origin: Merge,
    pub(crate) whiteouts: FxHashSet<Box<[u8]>>,
}

/// [`Origin`], with the path resolved.
pub(crate) enum Merge {
    SameName,
    Opaque,
    Moved { path: Vec<u8>, stack: Box<[Lower]> },
}

/// A directory's marks, shared by the table and the directory's node.
pub(crate) type DirTableRef = Arc<Mutex<DirTable>>;

/// Marks by the inode number of the upper directory.
#[derive(Default)]
pub(crate) struct MarkTable {
    count: AtomicUsize,
    dirs: Mutex<FxHashMap<u64, DirTableRef>>,
}

impl MarkTable {
    /// The marks of upper directory `ino`, if it has any.
    pub(crate) fn get(&self, ino: u64) -> Option<DirTableRef> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        lock(&self.dirs).get(&ino).cloned()
    }

    /// The marks of upper directory `ino`, made if it has none.
    pub(crate) fn get_or_make(&self, ino: u64) -> DirTableRef {
        let mut dirs = lock(&self.dirs);
        let marks = dirs
            .entry(ino)
            .or_insert_with(|| {
                Arc::new(Mutex::new(DirTable {
                    origin: Merge::SameName,
                    whiteouts: FxHashSet::default(),
                }))
            })
            .clone();
        self.count.store(dirs.len(), Ordering::Release);
        marks
    }

    /// Forgets upper directory `ino`, which is gone.
    pub(crate) fn forget(&self, ino: u64) {
        let mut dirs = lock(&self.dirs);
        dirs.remove(&ino);
        self.count.store(dirs.len(), Ordering::Release);
    }
}

impl Shared {
    /// Directories at `path` of the lower layers, merged by the same rule as a lookup.
    fn lower_dirs(&self, roots: &[Lower], path: &[u8]) -> Result<Box<[Lower]>> {
        let mut stack: Box<[Lower]> = roots.into();
        for name in path.split(|b| *b == b'/') {
            stack = crate::node::find_lower(&stack, name)?;
            if stack
                .first()
                .is_none_or(|l| l.inode.kind() != FileType::Directory)
            {
                return Err(Errno::EINVAL);
            }
        }
        Ok(stack)
    }

    /// Takes over what another overlay exported.
    pub(crate) fn import(&self, marks: Marks, roots: &[Lower]) -> Result<()> {
        for dir in marks.dirs {
            let origin = match dir.origin {
                Origin::SameName => Merge::SameName,
                Origin::Opaque => Merge::Opaque,
                Origin::Moved(path) => Merge::Moved {
                    stack: self.lower_dirs(roots, &path)?,
                    path,
                },
            };
            *lock(&self.marks.get_or_make(dir.ino)) = DirTable {
                origin,
                whiteouts: dir
                    .whiteouts
                    .into_iter()
                    .map(Vec::into_boxed_slice)
                    .collect(),
            };
        }
        for (ino, number) in marks.origins {
            self.set_origin(ino, number);
        }
        for name in marks.links.iter().filter_map(|mark| mark.parked.as_deref()) {
            self.import_parked(name);
        }
        self.links.import(marks.links, self.lowers.len())
    }

    /// The inverse of [`Shared::import`], in a fixed order.
    pub(crate) fn export(&self) -> Result<Marks> {
        let mut dirs: Vec<DirMarks> = lock(&self.marks.dirs)
            .iter()
            .map(|(ino, table)| {
                let table = lock(table);
                let origin = match &table.origin {
                    Merge::SameName => Origin::SameName,
                    Merge::Opaque => Origin::Opaque,
                    Merge::Moved { path, .. } => Origin::Moved(path.clone()),
                };
                let mut whiteouts: Vec<_> = table.whiteouts.iter().map(|n| n.to_vec()).collect();
                whiteouts.sort();
                DirMarks {
                    ino: *ino,
                    origin,
                    whiteouts,
                }
            })
            .filter(|dir| dir.origin != Origin::SameName || !dir.whiteouts.is_empty())
            .collect();
        dirs.sort_by_key(|dir| dir.ino);
        let mut origins: Vec<_> = lock(&self.origins).iter().map(|(k, v)| (*k, *v)).collect();
        origins.sort_unstable();
        Ok(Marks {
            dirs,
            origins,
            links: self.links.export()?,
        })
    }
}
