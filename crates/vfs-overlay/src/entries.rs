//! Making and removing names.

use crate::lock;
use crate::marks::{DirTable, Merge};
use crate::node::{DirState, Node};
use vfs_core::errno::{Errno, Result};
use vfs_core::inode::{Inode, InodeRef};
use vfs_core::types::{FileType, SetAttr, Timespec};

impl Node {
    /// The kind of what the lower layers have under `name`, whiteout or not.
    pub(crate) fn covered(&self, name: &[u8]) -> Result<Option<FileType>> {
        for lower in &self.lowers {
            match lower.inode.lookup(name) {
                Ok(inode) => return Ok(Some(inode.kind())),
                Err(Errno::ENOENT) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Changes the marks of this directory, which is locked as `state` and copied up.
    fn change_marks(&self, state: &mut DirState, change: impl FnOnce(&mut DirTable)) -> Result<()> {
        let marks = match &mut state.marks {
            Some(marks) => marks,
            empty => {
                let ino = self.upper.get().ok_or(Errno::EIO)?.stat()?.ino;
                empty.insert(self.shared.marks.get_or_make(ino))
            }
        };
        change(&mut lock(marks));
        Ok(())
    }

    /// Hides the lower entry `name` from now on.
    pub(crate) fn set_whiteout(&self, state: &mut DirState, name: &[u8]) -> Result<()> {
        self.change_marks(state, |marks| {
            marks.whiteouts.insert(name.into());
        })
    }

    /// Says what this directory, which is locked as `state`, is merged with.
    pub(crate) fn set_merge(&self, state: &mut DirState, merge: Merge) -> Result<()> {
        self.change_marks(state, |marks| marks.origin = merge)
    }

    /// Makes `name` with `make`, which is given the upper directory.
    pub(crate) fn make(
        &self,
        name: &[u8],
        kind: FileType,
        make: impl FnOnce(&InodeRef) -> Result<InodeRef>,
    ) -> Result<InodeRef> {
        self.dir()?;
        let upper = self.copy_up(u64::MAX)?;
        let mut state = lock(self.dir()?);
        let covered = self.free_name(&mut state, name)?;
        let made = make(upper)?;
        if kind == FileType::Directory && covered == Some(FileType::Directory) {
            let marks = self.shared.marks.get_or_make(made.stat()?.ino);
            lock(&marks).origin = Merge::Opaque;
        }
        state.remove_whiteout(name);
        match self.find_locked(&mut state, name)? {
            Some(node) => Ok(node),
            None => Err(Errno::EIO),
        }
    }

    /// Makes sure that `name` can be made here, and says what lies hidden below it.
    fn free_name(&self, state: &mut DirState, name: &[u8]) -> Result<Option<FileType>> {
        if state.dead {
            return Err(Errno::ENOENT);
        }
        let covered = self.covered(name)?;
        self.shared.make_way(self, name)?;
        // What the upper layer has it refuses itself.
        if covered.is_some() && !state.whiteout(name) {
            return Err(Errno::EEXIST);
        }
        Ok(covered)
    }

    /// `link(2)`.
    pub(crate) fn add_link(&self, name: &[u8], target: &Node) -> Result<()> {
        self.dir()?;
        if target.kind() == FileType::Directory {
            return Err(Errno::EPERM);
        }
        let upper = self.copy_up(u64::MAX)?;
        let inode = target.copy_up(u64::MAX)?;
        target.make_link_set(inode.stat()?.ino)?;
        let mut state = lock(self.dir()?);
        self.free_name(&mut state, name)?;
        upper.link(name, inode)?;
        if let Some(set) = target.link_set() {
            self.shared.unpark(set)?;
        }
        state.remove_whiteout(name);
        target.gained_name();
        state.remember(name, &target.this()?);
        Ok(())
    }

    /// Gives `node`, which is copied up and called `name` here, that name in the upper layer too.
    /// A file with several lower names is copied up under one of them.
    pub(crate) fn bring_name(&self, name: &[u8], node: &Node) -> Result<()> {
        let upper = self.upper.get().ok_or(Errno::EIO)?;
        match upper.lookup(name) {
            Ok(_) => Ok(()),
            Err(Errno::ENOENT) if node.kind() != FileType::Directory => {
                upper.link(name, node.upper.get().ok_or(Errno::EIO)?)?;
                node.link_set()
                    .map_or(Ok(()), |set| self.shared.unpark(set))
            }
            Err(error) => Err(error),
        }
    }

    /// `unlink(2)`.
    pub(crate) fn remove_name(&self, name: &[u8]) -> Result<()> {
        self.dir()?;
        self.shared.writable()?;
        match self.find(name)? {
            None => return Err(Errno::ENOENT),
            Some(node) if node.kind() == FileType::Directory => return Err(Errno::EISDIR),
            Some(_) => {}
        }
        let upper = self.copy_up(u64::MAX)?;
        let mut state = lock(self.dir()?);
        let node = self.find_locked(&mut state, name)?.ok_or(Errno::ENOENT)?;
        if node.kind() == FileType::Directory {
            return Err(Errno::EISDIR);
        }
        let covered = self.covered(name)?.is_some();
        if !self.shared.park(self, name, &node)? {
            match upper.unlink(name) {
                Ok(()) => {}
                Err(Errno::ENOENT) => self.touch()?,
                Err(error) => return Err(error),
            }
        }
        if covered {
            self.set_whiteout(&mut state, name)?;
        }
        state.forget(name);
        node.lost_name(self, name)
    }

    /// Marks a change of this directory that its upper inode does not see.
    fn touch(&self) -> Result<()> {
        let upper = self.upper.get().ok_or(Errno::EIO)?;
        upper.setattr(&SetAttr {
            mtime: Some(Timespec::now()),
            ..SetAttr::default()
        })
    }

    /// Whether a locked directory shows no entry.
    pub(crate) fn is_empty_locked(&self, state: &DirState) -> Result<bool> {
        let mut empty = true;
        if let Some(upper) = self.upper.get() {
            upper.readdir(0, &mut |_| {
                empty = false;
                false
            })?;
        }
        for lower in &self.lowers {
            if !empty {
                break;
            }
            lower.inode.readdir(0, &mut |entry| {
                empty = state.whiteout(entry.name);
                empty
            })?;
        }
        Ok(empty)
    }

    /// Notes that this directory, locked as `state`, is gone.
    pub(crate) fn bury(&self, state: &mut DirState, parent: &Node, name: &[u8]) -> Result<()> {
        state.dead = true;
        state.marks = None;
        self.shared.recent.release(self);
        if let Some(upper) = self.upper.get() {
            self.shared.marks.forget(upper.stat()?.ino);
        }
        self.lost_name(parent, name)
    }

    /// `rmdir(2)`.
    pub(crate) fn remove_dir(&self, name: &[u8]) -> Result<()> {
        self.dir()?;
        self.shared.writable()?;
        let _serial = lock(&self.shared.renames);
        match self.find(name)? {
            None => return Err(Errno::ENOENT),
            Some(node) => {
                // Refused before anything is copied up for it.
                if !node.is_empty_locked(&lock(node.dir()?))? {
                    return Err(Errno::ENOTEMPTY);
                }
            }
        }
        let upper = self.copy_up(u64::MAX)?;
        let mut state = lock(self.dir()?);
        let node = self.find_locked(&mut state, name)?.ok_or(Errno::ENOENT)?;
        let mut below = lock(node.dir()?);
        if !node.is_empty_locked(&below)? {
            return Err(Errno::ENOTEMPTY);
        }
        let covered = self.covered(name)?.is_some();
        if node.upper.get().is_some() {
            upper.rmdir(name)?;
        } else {
            self.touch()?;
        }
        if covered {
            self.set_whiteout(&mut state, name)?;
        }
        state.forget(name);
        node.bury(&mut below, self, name)
    }
}
