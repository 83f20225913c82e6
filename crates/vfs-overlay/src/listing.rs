//! Listing merged directories.
//!
//! The lower layers' entries come first, layer by layer, each name where the topmost lower layer
//! has it, and then the names only the upper layer has. So the place of a name does not depend on
//! whether it is copied up, removed or made again, and a listing that goes on across such changes
//! neither repeats nor misses an entry. A cookie is a pass (one layer) and that layer's cookie.

use crate::lock;
use crate::marks::Merge;
use crate::node::{DirState, Lower, Node};
use crate::numbers::{COOKIE_SHIFT, pack, pack_wide, unpack};
use vfs_core::errno::{Errno, Result};
use vfs_core::inode::InodeRef;
use vfs_core::types::{DirEntry, FileType};

/// Entries collected at a time, so that no lock is held while the caller takes them.
const BATCH: usize = 128;

/// Entries with their names in one buffer.
#[derive(Default)]
struct Batch {
    names: Vec<u8>,
    entries: Vec<Collected>,
}

struct Collected {
    /// End of the name in the buffer; it starts where the one before ends.
    end: usize,
    ino: u64,
    kind: FileType,
    next: u64,
}

impl Batch {
    fn push(&mut self, name: &[u8], ino: u64, kind: FileType, next: u64) {
        self.names.extend_from_slice(name);
        self.entries.push(Collected {
            end: self.names.len(),
            ino,
            kind,
            next,
        });
    }

    /// Hands the entries on; `false` when the taker has enough.
    fn deliver(&self, sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> bool {
        let mut start = 0;
        self.entries.iter().all(|e| {
            let name = &self.names[start..e.end];
            start = e.end;
            sink(DirEntry {
                name,
                ino: e.ino,
                kind: e.kind,
                next: e.next,
            })
        })
    }
}

impl Node {
    pub(crate) fn list(
        &self,
        cookie: u64,
        sink: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<()> {
        let dir = self.dir()?;
        let mut batch = Batch::default();
        let (mut pass, mut at) = {
            let state = lock(dir);
            match cookie {
                0 => (1, 0),
                _ => unpack(COOKIE_SHIFT, &state.cookies, cookie).ok_or(Errno::EINVAL)?,
            }
        };
        loop {
            if self.lowers.len() + usize::from(self.upper.get().is_some()) == 1 {
                if lock(dir).dead {
                    return Err(Errno::ENOENT);
                }
                if pass > 1 || !self.list_alone(at, sink)? {
                    return Ok(());
                }
                // Unless it got its upper directory meanwhile, this was all.
                (pass, at) = (2, 0);
                continue;
            }
            batch.names.clear();
            batch.entries.clear();
            {
                let mut state = lock(dir);
                if state.dead {
                    return Err(Errno::ENOENT);
                }
                while batch.entries.len() < BATCH {
                    match self.collect(&mut state, pass, at, &mut batch)? {
                        None => break,
                        Some(last) if batch.entries.len() >= BATCH => at = last,
                        Some(_) => {
                            pass = pass.saturating_add(1);
                            at = 0;
                        }
                    }
                }
            }
            if batch.entries.is_empty() || !batch.deliver(sink) {
                return Ok(());
            }
        }
    }

    /// Hands on what the only layer of this directory has after its cookie `at`; `false` when the
    /// taker has enough. With nothing to merge, nothing need be collected.
    fn list_alone(&self, at: u64, sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<bool> {
        let dir = self.dir()?;
        let layer = self.lowers.first();
        // Not `real`: the directory may get an upper inode at any moment.
        let inode = layer.map(|lower| &lower.inode).or_else(|| self.upper.get());
        let mut result = Ok(true);
        inode.ok_or(Errno::EIO)?.readdir(at, &mut |entry| {
            let shown = match layer {
                Some(lower) => Ok((self.shared.number(lower.layer, entry.ino), entry.kind)),
                None => self.show(entry.ino, entry.kind, None),
            };
            let (ino, kind) = match shown {
                Ok(shown) => shown,
                Err(error) => {
                    result = Err(error);
                    return false;
                }
            };
            let next = pack(COOKIE_SHIFT, 1, entry.next)
                .unwrap_or_else(|| pack_wide(COOKIE_SHIFT, &mut lock(dir).cookies, 1, entry.next));
            let taken = sink(DirEntry {
                name: entry.name,
                ino,
                kind,
                next,
            });
            if !taken {
                result = Ok(false);
            }
            taken
        })?;
        result
    }

    /// Collects what pass `pass` has after cookie `at` until the batch is full, and returns the
    /// layer's cookie it came to; `None` if there is no such pass.
    fn collect(
        &self,
        state: &mut DirState,
        pass: u8,
        at: u64,
        batch: &mut Batch,
    ) -> Result<Option<u64>> {
        let index = usize::from(pass).checked_sub(1).ok_or(Errno::EINVAL)?;
        let layer = match (self.lowers.get(index), self.upper.get()) {
            (Some(lower), _) => &lower.inode,
            (None, Some(upper)) if index == self.lowers.len() => upper,
            _ => return Ok(None),
        };
        let mut last = at;
        let mut result = Ok(());
        layer.readdir(at, &mut |entry| {
            if batch.entries.len() >= BATCH {
                return false;
            }
            let shown = match self.lowers.get(index) {
                Some(lower) => self.show_lower(state, index, lower, &entry),
                None => self.show_upper(&entry),
            };
            match shown {
                Ok(Some((ino, kind))) => {
                    let next = pack(COOKIE_SHIFT, pass, entry.next).unwrap_or_else(|| {
                        pack_wide(COOKIE_SHIFT, &mut state.cookies, pass, entry.next)
                    });
                    batch.push(entry.name, ino, kind, next);
                }
                Ok(None) => {}
                Err(error) => {
                    result = Err(error);
                    return false;
                }
            }
            last = entry.next;
            true
        })?;
        result.map(|()| Some(last))
    }

    /// Number and kind to show for an entry of the lower layer `index`, if it is to be shown.
    fn show_lower(
        &self,
        state: &DirState,
        index: usize,
        lower: &Lower,
        entry: &DirEntry<'_>,
    ) -> Result<Option<(u64, FileType)>> {
        for above in &self.lowers[..index] {
            match above.inode.lookup(entry.name) {
                Ok(_) => return Ok(None),
                Err(Errno::ENOENT) => {}
                Err(error) => return Err(error),
            }
        }
        let below = (self.shared.number(lower.layer, entry.ino), entry.kind);
        let Some(upper) = self.upper.get() else {
            return Ok(Some(below));
        };
        match upper.lookup(entry.name) {
            Ok(inode) => {
                let directory = entry.kind == FileType::Directory;
                self.show_real(&inode, directory.then_some(below.0))
                    .map(Some)
            }
            Err(Errno::ENOENT) => Ok((!state.whiteout(entry.name)).then_some(below)),
            Err(error) => Err(error),
        }
    }

    /// Number and kind to show for an entry of the upper layer, if no lower layer has its name.
    fn show_upper(&self, entry: &DirEntry<'_>) -> Result<Option<(u64, FileType)>> {
        if self.covered(entry.name)?.is_some() || self.shared.is_parked(self, entry.name) {
            return Ok(None);
        }
        self.show(entry.ino, entry.kind, None).map(Some)
    }

    fn show_real(&self, upper: &InodeRef, below: Option<u64>) -> Result<(u64, FileType)> {
        self.show(upper.stat()?.ino, upper.kind(), below)
    }

    /// Number and kind of the upper inode `ino`; `below` is the number of the lower directory of
    /// the same name.
    fn show(&self, ino: u64, kind: FileType, below: Option<u64>) -> Result<(u64, FileType)> {
        if kind != FileType::Directory {
            return Ok((self.shared.upper_number(ino), kind));
        }
        if let Some(marks) = self.shared.marks.get(ino) {
            match &lock(&marks).origin {
                Merge::SameName => {}
                Merge::Opaque => return Ok((self.shared.number(0, ino), kind)),
                Merge::Moved { stack, .. } => {
                    let lower = stack.first().ok_or(Errno::EIO)?;
                    return Ok((
                        self.shared.number(lower.layer, lower.inode.stat()?.ino),
                        kind,
                    ));
                }
            }
        }
        Ok((below.unwrap_or_else(|| self.shared.number(0, ino)), kind))
    }
}
