//! Changes of the tree that inodes have decided on, listing, and the end of an inode.

use super::data::Budget;
use super::inode::{Body, MemInode, Xattrs, link_pages};
use crate::errno::{Errno, Result};
use crate::sync::{read, write};
use crate::types::{DirEntry, FileType, Timespec};
use std::sync::{Arc, PoisonError};

/// Entries taken from a directory at once.
const PORTION: usize = 128;

impl MemInode {
    /// `ENOTEMPTY` for a directory with entries, `ENOTDIR` for anything else than a directory.
    pub(super) fn check_empty(&self) -> Result<()> {
        if read(&self.state).dir()?.len() > 0 {
            Err(Errno::ENOTEMPTY)
        } else {
            Ok(())
        }
    }

    /// Does what [`Inode::rename`] has decided on: a plain move. The tree is locked.
    pub(super) fn move_entry(
        &self,
        name: &[u8],
        source: Arc<MemInode>,
        new_dir: &MemInode,
        new_name: &[u8],
        target: Option<&MemInode>,
    ) {
        let now = Timespec::now();
        let is_dir = u32::from(source.kind == FileType::Directory);
        let was_dir = u32::from(target.is_some_and(|t| t.kind == FileType::Directory));
        // The new name first: whoever looks meanwhile finds the inode, if twice.
        {
            let mut state = write(&new_dir.state);
            if let Ok(dir) = state.dir_mut() {
                dir.put(new_name, source.clone());
                if std::ptr::eq(self, new_dir) {
                    dir.remove(name);
                }
            }
            state.nlink = (state.nlink + is_dir).saturating_sub(was_dir);
            state.modified(now);
        }
        if !std::ptr::eq(self, new_dir) {
            let mut state = write(&self.state);
            if let Ok(dir) = state.dir_mut() {
                dir.remove(name);
            }
            state.modified(now);
        }
        let mut state = write(&self.state);
        state.nlink = state.nlink.saturating_sub(is_dir);
        drop(state);
        source.moved_to(new_dir, now);
        if let Some(target) = target {
            target.unnamed(now);
        }
    }

    /// Does what [`Inode::rename`] has decided on: an exchange. The tree is locked.
    pub(super) fn exchange(
        &self,
        name: &[u8],
        source: &Arc<MemInode>,
        new_dir: &MemInode,
        new_name: &[u8],
        target: &Arc<MemInode>,
    ) {
        let now = Timespec::now();
        let is_dir = u32::from(source.kind == FileType::Directory);
        let was_dir = u32::from(target.kind == FileType::Directory);
        for (dir, name, inode, more, less) in [
            (new_dir, new_name, source, is_dir, was_dir),
            (self, name, target, was_dir, is_dir),
        ] {
            let mut state = write(&dir.state);
            if let Ok(dir) = state.dir_mut() {
                dir.put(name, inode.clone());
            }
            state.nlink = (state.nlink + more).saturating_sub(less);
            state.modified(now);
        }
        source.moved_to(new_dir, now);
        target.moved_to(self, now);
    }

    /// This inode has its name in `dir` now.
    fn moved_to(&self, dir: &MemInode, now: Timespec) {
        let mut state = write(&self.state);
        state.ctime = now;
        if let Body::Dir(this) = &mut state.body {
            this.parent = dir.me.clone();
        }
    }

    /// Lists entries in portions, so that no lock is held while `sink` runs.
    pub(super) fn list(
        &self,
        cookie: u64,
        sink: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<()> {
        let mut from = cookie;
        let mut portion = Vec::new();
        loop {
            portion.clear();
            read(&self.state).dir()?.after(from, PORTION, &mut portion);
            for (next, entry) in &portion {
                let (ino, kind) = (entry.ino, entry.kind);
                if !sink(DirEntry {
                    name: &entry.name,
                    ino,
                    kind,
                    next: *next,
                }) {
                    return Ok(());
                }
                from = *next;
            }
            if portion.len() < PORTION {
                return Ok(());
            }
        }
    }
}

impl Drop for MemInode {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.fs.inodes.give(1);
        if let Some(xattrs) = &state.xattrs {
            self.fs.release(Xattrs::pages(xattrs.bytes));
        }
        match &mut state.body {
            Body::File(data) => self.fs.release(data.pages()),
            Body::Link(text) => self.fs.release(link_pages(text)),
            Body::Special => {}
            Body::Dir(dir) => {
                // A guest can nest directories without end, so a tree is taken apart level by
                // level; recursion would end the host's stack.
                let mut orphans = Vec::new();
                dir.drain_into(&mut orphans);
                while let Some(orphan) = orphans.pop() {
                    if let Some(mut inode) = Arc::into_inner(orphan)
                        && let Body::Dir(dir) = &mut inode
                            .state
                            .get_mut()
                            .unwrap_or_else(PoisonError::into_inner)
                            .body
                    {
                        dir.drain_into(&mut orphans);
                    }
                }
            }
        }
    }
}
