//! `renameat2(2)`.
//!
//! A renamed directory keeps its lower part: its marks say at which path of the lower layers that
//! is, so nothing below the directory itself is copied. (Linux does so with `redirect_dir=on` and
//! answers `EXDEV` without.)

use crate::lock;
use crate::marks::Merge;
use crate::node::{DirState, Node, Place};
use std::sync::{Arc, MutexGuard};
use vfs_core::errno::{Errno, Result};
use vfs_core::inode::Inode;
use vfs_core::types::{FileType, RenameFlags};

/// Two directories, or twice the same, locked.
struct Pair<'a> {
    old: MutexGuard<'a, DirState>,
    new: Option<MutexGuard<'a, DirState>>,
}

impl<'a> Pair<'a> {
    /// Locks both. The order does not matter: whoever locks two holds `Shared::renames`.
    fn lock(old: &'a Node, new: &'a Node) -> Result<Pair<'a>> {
        let distinct = !std::ptr::eq(old, new);
        let (old, new) = (old.dir()?, new.dir()?);
        Ok(Pair {
            old: lock(old),
            new: if distinct { Some(lock(new)) } else { None },
        })
    }

    fn old_state(&mut self) -> &mut DirState {
        &mut self.old
    }

    fn new_state(&mut self) -> &mut DirState {
        self.new.as_mut().unwrap_or(&mut self.old)
    }
}

/// What is called by the old name, and by the new one if anything is.
type Ends = (Arc<Node>, Option<Arc<Node>>);

/// One end of a rename.
struct End<'a> {
    dir: &'a Node,
    name: &'a [u8],
    node: Option<Arc<Node>>,
}

impl Node {
    pub(crate) fn rename_to(
        &self,
        name: &[u8],
        new_dir: &Node,
        new_name: &[u8],
        flags: RenameFlags,
    ) -> Result<()> {
        self.dir()?;
        new_dir.dir()?;
        self.shared.writable()?;
        // Data is copied before anybody has to wait for this rename.
        self.prepare(name, new_dir, new_name, flags)?;
        let _serial = lock(&self.shared.renames);
        loop {
            let Some((source, target)) = self.prepare(name, new_dir, new_name, flags)? else {
                // Two names of one file: nothing is done, says POSIX.
                return Ok(());
            };
            let mut pair = Pair::lock(self, new_dir)?;
            let found = self.find_locked(pair.old_state(), name)?;
            if found.is_none_or(|found| !Arc::ptr_eq(&found, &source)) {
                continue;
            }
            let found = new_dir.find_locked(pair.new_state(), new_name)?;
            if found.as_ref().map(Arc::as_ptr) != target.as_ref().map(Arc::as_ptr) {
                continue;
            }
            let old = End {
                dir: self,
                name,
                node: Some(source),
            };
            let new = End {
                dir: new_dir,
                name: new_name,
                node: target,
            };
            return rename_locked(&mut pair, &old, &new, flags);
        }
    }

    /// Finds both ends, refuses what is refused, and copies up what is going to change. `None` if
    /// both are the same file.
    fn prepare(
        &self,
        name: &[u8],
        new_dir: &Node,
        new_name: &[u8],
        flags: RenameFlags,
    ) -> Result<Option<Ends>> {
        let source = self.find(name)?.ok_or(Errno::ENOENT)?;
        let target = new_dir.find(new_name)?;
        check(&source, target.as_deref(), flags)?;
        if target
            .as_ref()
            .is_some_and(|target| Arc::ptr_eq(target, &source))
        {
            return Ok(None);
        }
        self.copy_up(u64::MAX)?;
        new_dir.copy_up(u64::MAX)?;
        source.copy_up(u64::MAX)?;
        if flags.contains(RenameFlags::EXCHANGE)
            && let Some(target) = &target
        {
            target.copy_up(u64::MAX)?;
        }
        Ok(Some((source, target)))
    }

    /// Where the lower part of this directory lies in the lower layers.
    fn lower_path(&self) -> Result<Vec<u8>> {
        let mut names: Vec<Box<[u8]>> = Vec::new();
        let mut start = Vec::new();
        let mut at = self.this()?;
        loop {
            if let Some(upper) = at.upper.get()
                && let Some(marks) = self.shared.marks.get(upper.stat()?.ino)
                && let Merge::Moved { path, .. } = &lock(&marks).origin
            {
                start.clone_from(path);
                break;
            }
            let Some(Place { parent, name }) = at.place() else {
                break;
            };
            names.push(name);
            at = parent;
        }
        for name in names.iter().rev() {
            if !start.is_empty() {
                start.push(b'/');
            }
            start.extend_from_slice(name);
        }
        Ok(start)
    }

    /// Notes that this directory now lies where the lower layers have `covered`.
    fn settle(&self, path: Vec<u8>, covered: Option<FileType>) -> Result<()> {
        let merge = if !self.lowers.is_empty() {
            Merge::Moved {
                path,
                stack: self.lowers.clone(),
            }
        } else if covered == Some(FileType::Directory) {
            Merge::Opaque
        } else {
            return Ok(());
        };
        self.set_merge(&mut lock(self.dir()?), merge)
    }
}

/// What `rename` refuses before it changes anything.
fn check(source: &Node, target: Option<&Node>, flags: RenameFlags) -> Result<()> {
    let Some(target) = target else {
        let exchange = flags.contains(RenameFlags::EXCHANGE);
        return if exchange { Err(Errno::ENOENT) } else { Ok(()) };
    };
    if flags.contains(RenameFlags::NOREPLACE) {
        return Err(Errno::EEXIST);
    }
    if flags.contains(RenameFlags::EXCHANGE) || std::ptr::eq(source, target) {
        return Ok(());
    }
    match (
        source.kind() == FileType::Directory,
        target.kind() == FileType::Directory,
    ) {
        (true, false) => Err(Errno::ENOTDIR),
        (false, true) => Err(Errno::EISDIR),
        (true, true) if !target.is_empty_locked(&lock(target.dir()?))? => Err(Errno::ENOTEMPTY),
        _ => Ok(()),
    }
}

fn rename_locked(
    pair: &mut Pair<'_>,
    old: &End<'_>,
    new: &End<'_>,
    flags: RenameFlags,
) -> Result<()> {
    let exchange = flags.contains(RenameFlags::EXCHANGE);
    let source = old.node.as_deref().ok_or(Errno::ENOENT)?;
    let (old_upper, new_upper) = match (old.dir.upper.get(), new.dir.upper.get()) {
        (Some(old), Some(new)) => (old, new),
        _ => return Err(Errno::EIO),
    };
    if pair.new_state().dead {
        return Err(Errno::ENOENT);
    }
    let old_covered = old.dir.covered(old.name)?;
    let new_covered = new.dir.covered(new.name)?;
    // The lock of a directory that is replaced: nothing may appear in it any more.
    let mut replaced = match &new.node {
        Some(target) if !exchange && target.kind() == FileType::Directory => {
            let state = lock(target.dir()?);
            if !target.is_empty_locked(&state)? {
                return Err(Errno::ENOTEMPTY);
            }
            Some(state)
        }
        _ => None,
    };
    let path_of = |node: &Node| match node.kind() {
        FileType::Directory if !node.lowers.is_empty() => node.lower_path(),
        _ => Ok(Vec::new()),
    };
    let source_path = path_of(source)?;
    old.dir.bring_name(old.name, source)?;
    let mut target_path = Vec::new();
    if exchange && let Some(target) = &new.node {
        target_path = path_of(target)?;
        new.dir.bring_name(new.name, target)?;
    }

    new.dir.shared.make_way(new.dir, new.name)?;
    let mut parked = false;
    if !exchange && let Some(target) = &new.node {
        parked = new.dir.shared.park(new.dir, new.name, target)?;
    }
    let moved = old_upper.rename(old.name, new_upper, new.name, flags & RenameFlags::EXCHANGE);
    if let (Err(_), true, Some(target)) = (&moved, parked, &new.node) {
        new.dir.bring_name(new.name, target)?;
    }
    moved?;

    pair.new_state().remove_whiteout(new.name);
    if let Some(target) = &new.node
        && !exchange
    {
        match &mut replaced {
            Some(state) => target.bury(state, new.dir, new.name)?,
            None => target.lost_name(new.dir, new.name)?,
        }
    }
    drop(replaced);
    if source.kind() == FileType::Directory {
        source.settle(source_path, new_covered)?;
        source.set_place(Some(Place {
            parent: new.dir.this()?,
            name: new.name.into(),
        }));
    }
    if let Some(source) = &old.node {
        pair.new_state().remember(new.name, source);
    }
    match &new.node {
        Some(target) if exchange => {
            if target.kind() == FileType::Directory {
                target.settle(target_path, old_covered)?;
                target.set_place(Some(Place {
                    parent: old.dir.this()?,
                    name: old.name.into(),
                }));
            }
            pair.old_state().remember(old.name, target);
        }
        _ => {
            pair.old_state().forget(old.name);
            if old_covered.is_some() {
                old.dir.set_whiteout(pair.old_state(), old.name)?;
            }
        }
    }
    Ok(())
}
