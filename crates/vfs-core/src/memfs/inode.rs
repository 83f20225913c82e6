//! Inodes of the memory file system.

use super::data::{Budget, Data, MAX_SIZE, PAGE};
use super::dir::Dir;
use super::file::{MemDir, MemFile};
use super::{MemFsOptions, Shared};
use crate::errno::{Errno, Result};
use crate::file::FileOps;
use crate::inode::{Inode, InodeRef, LinkTarget, NewNode};
use crate::sync::{lock, read, write};
use crate::types::{Caller, DirEntry, FileType, OpenFlags, RenameFlags, SetAttr, Stat, Timespec};
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, RwLock, Weak};

/// Size that a directory shows per entry (`BOGO_DIRENT_SIZE`).
const DIRENT_SIZE: u64 = 20;
/// Longest link text that is not counted as a page (`SHORT_SYMLINK_LEN`).
const SHORT_LINK: usize = 128;
/// Most bytes of names and values of extended attributes of one inode.
const MAX_XATTR_BYTES: u64 = 128 << 10;
/// Seconds after which a read updates the access time in any case (`relatime`).
const DAY: i64 = 24 * 60 * 60;

/// An inode of a [`super::MemFs`].
pub struct MemInode {
    pub(super) me: Weak<MemInode>,
    pub(super) fs: Arc<Shared>,
    pub(super) ino: u64,
    pub(super) kind: FileType,
    rdev: u64,
    pub(super) state: RwLock<State>,
}

/// What of an inode changes.
pub(super) struct State {
    pub(super) perm: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) nlink: u32,
    /// An unnamed file that may still be given a name.
    linkable: bool,
    pub(super) atime: Timespec,
    pub(super) mtime: Timespec,
    pub(super) ctime: Timespec,
    btime: Timespec,
    pub(super) xattrs: Option<Box<Xattrs>>,
    pub(super) body: Body,
}

/// What an inode holds.
pub(super) enum Body {
    File(Data),
    Dir(Box<Dir>),
    Link(Box<[u8]>),
    /// Device, fifo, socket.
    Special,
}

/// Extended attributes and the pages they are counted as.
#[derive(Default)]
pub(super) struct Xattrs {
    map: BTreeMap<Box<[u8]>, Box<[u8]>>,
    pub(super) bytes: u64,
}

impl Xattrs {
    pub(super) fn pages(bytes: u64) -> u64 {
        bytes.div_ceil(PAGE as u64)
    }
}

impl State {
    /// Marks a change of the content of a file or of the entries of a directory.
    pub(super) fn modified(&mut self, now: Timespec) {
        self.mtime = now;
        self.ctime = now;
    }

    /// Whether a read now changes the access time (`relatime_need_update`).
    pub(super) fn wants_atime(&self) -> bool {
        self.atime <= self.mtime
            || self.atime <= self.ctime
            || Timespec::coarse().sec.saturating_sub(self.atime.sec) >= DAY
    }

    pub(super) fn dir(&self) -> Result<&Dir> {
        match &self.body {
            Body::Dir(dir) => Ok(dir),
            _ => Err(Errno::ENOTDIR),
        }
    }

    pub(super) fn dir_mut(&mut self) -> Result<&mut Dir> {
        match &mut self.body {
            Body::Dir(dir) => Ok(dir),
            _ => Err(Errno::ENOTDIR),
        }
    }
}

impl MemInode {
    /// The root directory; it was counted already.
    pub(super) fn root(fs: &Arc<Shared>, options: &MemFsOptions) -> Arc<MemInode> {
        let node = NewNode {
            kind: FileType::Directory,
            perm: options.mode,
            uid: options.uid,
            gid: options.gid,
            rdev: 0,
        };
        MemInode::build(fs, 1, &node, Body::Dir(Box::new(Dir::new(Weak::new()))))
    }

    fn build(fs: &Arc<Shared>, ino: u64, node: &NewNode, body: Body) -> Arc<MemInode> {
        let now = Timespec::now();
        let nlink = if node.kind == FileType::Directory {
            2
        } else {
            1
        };
        Arc::new_cyclic(|me| MemInode {
            me: me.clone(),
            fs: fs.clone(),
            ino,
            kind: node.kind,
            rdev: node.rdev,
            state: RwLock::new(State {
                perm: node.perm & 0o7777,
                uid: node.uid,
                gid: node.gid,
                nlink,
                linkable: false,
                atime: now,
                mtime: now,
                ctime: now,
                btime: now,
                xattrs: None,
                body,
            }),
        })
    }

    /// A new inode, counted; in no directory yet.
    fn new_inode(&self, node: &NewNode, body: Body) -> Result<Arc<MemInode>> {
        self.fs.reserve_inode()?;
        let ino = self.fs.next_ino.fetch_add(1, Ordering::Relaxed);
        Ok(MemInode::build(&self.fs, ino, node, body))
    }

    /// Puts a new inode into this directory.
    fn add(&self, name: &[u8], inode: Arc<MemInode>) -> Result<InodeRef> {
        let is_dir = inode.kind == FileType::Directory;
        let _tree = lock(&self.fs.tree);
        let mut state = write(&self.state);
        let dir = state.dir_mut()?;
        if dir.dead {
            return Err(Errno::ENOENT);
        }
        if dir.get(name).is_some() {
            return Err(Errno::EEXIST);
        }
        dir.put(name, inode.clone());
        state.nlink += u32::from(is_dir);
        state.modified(Timespec::now());
        Ok(inode)
    }

    /// An inode of the same file system.
    fn sibling<'i>(&self, other: &'i InodeRef) -> Result<&'i MemInode> {
        let other = other
            .as_any()
            .downcast_ref::<MemInode>()
            .ok_or(Errno::EXDEV)?;
        if Arc::ptr_eq(&self.fs, &other.fs) {
            Ok(other)
        } else {
            Err(Errno::EXDEV)
        }
    }

    /// Whether `self` is `below` or a directory above it. The tree is locked.
    fn is_above_or_same(&self, below: &MemInode) -> bool {
        if std::ptr::eq(self, below) {
            return true;
        }
        let above = |inode: &MemInode| {
            read(&inode.state)
                .dir()
                .ok()
                .and_then(|dir| dir.parent.upgrade())
        };
        let mut at = above(below);
        while let Some(inode) = at {
            if std::ptr::eq(self, &*inode) {
                return true;
            }
            at = above(&inode);
        }
        false
    }

    /// A name of this inode is gone.
    pub(super) fn unnamed(&self, now: Timespec) {
        let mut state = write(&self.state);
        state.ctime = now;
        if let Body::Dir(dir) = &mut state.body {
            dir.dead = true;
            dir.parent = Weak::new();
            state.nlink = 0;
            return;
        }
        state.nlink = state.nlink.saturating_sub(1);
        if state.nlink > 0 {
            self.fs.inodes.give(1);
        }
    }
}

impl Inode for MemInode {
    fn stat(&self) -> Result<Stat> {
        let state = read(&self.state);
        let (size, pages) = match &state.body {
            Body::File(data) => (data.size(), data.pages()),
            Body::Dir(dir) => ((dir.len() as u64 + 2) * DIRENT_SIZE, 0),
            Body::Link(text) => (text.len() as u64, link_pages(text)),
            Body::Special => (0, 0),
        };
        Ok(Stat {
            dev: self.fs.dev,
            ino: self.ino,
            mode: self.kind.mode_bits() | state.perm,
            nlink: state.nlink,
            uid: state.uid,
            gid: state.gid,
            rdev: self.rdev,
            size,
            blocks: pages * (PAGE as u64 / 512),
            atime: state.atime,
            mtime: state.mtime,
            ctime: state.ctime,
            btime: state.btime,
        })
    }

    fn kind(&self) -> FileType {
        self.kind
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn setattr(&self, changes: &SetAttr) -> Result<()> {
        let mut state = write(&self.state);
        let state = &mut *state;
        let now = Timespec::now();
        let mut resized = false;
        if let Some(size) = changes.size {
            let data = match &mut state.body {
                Body::File(data) => data,
                Body::Dir(_) => return Err(Errno::EISDIR),
                _ => return Err(Errno::EINVAL),
            };
            if size > MAX_SIZE {
                return Err(Errno::EFBIG);
            }
            resized = size != data.size();
            data.resize(size, &*self.fs);
        }
        if resized {
            state.mtime = now;
        }
        // Setting the size a file has already is no change.
        let only_size = SetAttr {
            size: changes.size,
            ..SetAttr::default()
        };
        if resized || changes.size.is_none() || *changes != only_size {
            state.ctime = now;
        }
        state.perm = changes.mode.map_or(state.perm, |mode| mode & 0o7777);
        state.uid = changes.uid.unwrap_or(state.uid);
        state.gid = changes.gid.unwrap_or(state.gid);
        state.atime = changes.atime.unwrap_or(state.atime);
        state.mtime = changes.mtime.unwrap_or(state.mtime);
        Ok(())
    }

    fn lookup(&self, name: &[u8]) -> Result<InodeRef> {
        let state = read(&self.state);
        match state.dir()?.get(name) {
            Some(inode) => Ok(inode.clone()),
            None => Err(Errno::ENOENT),
        }
    }

    fn create(&self, name: &[u8], node: &NewNode) -> Result<InodeRef> {
        let body = match node.kind {
            FileType::Regular => Body::File(Data::default()),
            FileType::Directory => Body::Dir(Box::new(Dir::new(self.me.clone()))),
            FileType::Symlink => return Err(Errno::EINVAL),
            _ => Body::Special,
        };
        self.add(name, self.new_inode(node, body)?)
    }

    fn symlink(&self, name: &[u8], target: &[u8], uid: u32, gid: u32) -> Result<InodeRef> {
        let node = NewNode {
            kind: FileType::Symlink,
            perm: 0o777,
            uid,
            gid,
            rdev: 0,
        };
        let inode = self.new_inode(&node, Body::Link(Box::default()))?;
        if !self.fs.reserve(link_pages(target)) {
            return Err(Errno::ENOSPC);
        }
        // From here on the inode's end gives the pages back.
        write(&inode.state).body = Body::Link(target.into());
        self.add(name, inode)
    }

    fn tmpfile(&self, node: &NewNode, linkable: bool) -> Result<InodeRef> {
        let inode = self.new_inode(node, Body::File(Data::default()))?;
        let mut state = write(&inode.state);
        state.nlink = 0;
        state.linkable = linkable;
        drop(state);
        Ok(inode)
    }

    fn link(&self, name: &[u8], target: &InodeRef) -> Result<()> {
        let target = self.sibling(target)?;
        if target.kind == FileType::Directory {
            return Err(Errno::EPERM);
        }
        let inode = target.me.upgrade().ok_or(Errno::ENOENT)?;
        let _tree = lock(&self.fs.tree);
        let (nlink, linkable) = {
            let state = read(&inode.state);
            (state.nlink, state.linkable)
        };
        if nlink == 0 && !linkable {
            return Err(Errno::ENOENT);
        }
        let more = nlink.checked_add(1).ok_or(Errno::EMLINK)?;
        let now = Timespec::now();
        {
            let mut state = write(&self.state);
            let dir = state.dir_mut()?;
            if dir.dead {
                return Err(Errno::ENOENT);
            }
            if dir.get(name).is_some() {
                return Err(Errno::EEXIST);
            }
            if nlink > 0 {
                self.fs.reserve_inode()?;
            }
            dir.put(name, inode.clone());
            state.modified(now);
        }
        let mut state = write(&inode.state);
        state.nlink = more;
        state.linkable = false;
        state.ctime = now;
        Ok(())
    }

    fn unlink(&self, name: &[u8]) -> Result<()> {
        let now = Timespec::now();
        let _tree = lock(&self.fs.tree);
        let inode = {
            let mut state = write(&self.state);
            let dir = state.dir_mut()?;
            if dir.get(name).ok_or(Errno::ENOENT)?.kind == FileType::Directory {
                return Err(Errno::EISDIR);
            }
            let inode = dir.remove(name).ok_or(Errno::ENOENT)?;
            state.modified(now);
            inode
        };
        inode.unnamed(now);
        Ok(())
    }

    fn rmdir(&self, name: &[u8]) -> Result<()> {
        let now = Timespec::now();
        let _tree = lock(&self.fs.tree);
        let victim = read(&self.state)
            .dir()?
            .get(name)
            .cloned()
            .ok_or(Errno::ENOENT)?;
        victim.check_empty()?;
        let mut state = write(&self.state);
        state.dir_mut()?.remove(name);
        state.nlink = state.nlink.saturating_sub(1);
        state.modified(now);
        drop(state);
        victim.unnamed(now);
        Ok(())
    }

    fn rename(
        &self,
        name: &[u8],
        new_dir: &InodeRef,
        new_name: &[u8],
        flags: RenameFlags,
    ) -> Result<()> {
        let new_dir = self.sibling(new_dir)?;
        // Declared first: a replaced inode may end here, after the locks.
        let replaced;
        let _tree = lock(&self.fs.tree);
        let source = read(&self.state)
            .dir()?
            .get(name)
            .cloned()
            .ok_or(Errno::ENOENT)?;
        let target = {
            let state = read(&new_dir.state);
            let dir = state.dir()?;
            if dir.dead {
                return Err(Errno::ENOENT);
            }
            dir.get(new_name).cloned()
        };
        if flags.contains(RenameFlags::NOREPLACE) && target.is_some() {
            return Err(Errno::EEXIST);
        }
        if source.kind == FileType::Directory && source.is_above_or_same(new_dir) {
            return Err(Errno::EINVAL);
        }
        if flags.contains(RenameFlags::EXCHANGE) {
            let target = target.ok_or(Errno::ENOENT)?;
            if target.kind == FileType::Directory && target.is_above_or_same(self) {
                return Err(Errno::EINVAL);
            }
            self.exchange(name, &source, new_dir, new_name, &target);
            return Ok(());
        }
        if let Some(target) = &target {
            if Arc::ptr_eq(&source, target) {
                return Ok(());
            }
            match (
                source.kind == FileType::Directory,
                target.kind == FileType::Directory,
            ) {
                (true, _) => target.check_empty()?,
                (false, true) => return Err(Errno::EISDIR),
                (false, false) => {}
            }
        }
        replaced = target;
        self.move_entry(name, source, new_dir, new_name, replaced.as_deref());
        Ok(())
    }

    fn readdir(&self, cookie: u64, sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        self.list(cookie, sink)
    }

    fn readlink(&self, _caller: &Caller) -> Result<LinkTarget> {
        match &read(&self.state).body {
            Body::Link(text) => Ok(LinkTarget::Text(text.to_vec())),
            _ => Err(Errno::EINVAL),
        }
    }

    fn open(self: Arc<Self>, flags: OpenFlags, caller: &Caller) -> Result<Arc<dyn FileOps>> {
        match self.kind {
            FileType::Regular => Ok(Arc::new(MemFile::new(self, flags, caller))),
            FileType::Directory => Ok(Arc::new(MemDir::new(self, flags))),
            FileType::Symlink => Err(Errno::ELOOP),
            _ => Err(Errno::ENXIO),
        }
    }

    fn touch_atime(&self, now: Timespec) {
        if read(&self.state).wants_atime() {
            write(&self.state).atime = now;
        }
    }

    fn listxattr(&self) -> Result<Vec<Vec<u8>>> {
        let state = read(&self.state);
        Ok(match &state.xattrs {
            Some(xattrs) => xattrs.map.keys().map(|name| name.to_vec()).collect(),
            None => Vec::new(),
        })
    }

    fn getxattr(&self, name: &[u8]) -> Result<Vec<u8>> {
        let state = read(&self.state);
        let value = state
            .xattrs
            .as_ref()
            .and_then(|xattrs| xattrs.map.get(name));
        value.map(|value| value.to_vec()).ok_or(Errno::ENODATA)
    }

    fn setxattr(&self, name: &[u8], value: &[u8], create: bool, replace: bool) -> Result<()> {
        let mut state = write(&self.state);
        let old = state
            .xattrs
            .as_ref()
            .and_then(|xattrs| xattrs.map.get(name));
        if create && old.is_some() {
            return Err(Errno::EEXIST);
        }
        if replace && old.is_none() {
            return Err(Errno::ENODATA);
        }
        let freed = old.map_or(0, |old| name.len() + old.len()) as u64;
        let xattrs = state.xattrs.get_or_insert_default();
        let bytes = xattrs.bytes - freed + (name.len() + value.len()) as u64;
        if bytes > MAX_XATTR_BYTES {
            return Err(Errno::ENOSPC);
        }
        let (had, needs) = (Xattrs::pages(xattrs.bytes), Xattrs::pages(bytes));
        if needs > had && !self.fs.reserve(needs - had) {
            return Err(Errno::ENOSPC);
        }
        self.fs.release(had.saturating_sub(needs));
        xattrs.bytes = bytes;
        xattrs.map.insert(name.into(), value.into());
        state.ctime = Timespec::now();
        Ok(())
    }

    fn removexattr(&self, name: &[u8]) -> Result<()> {
        let mut state = write(&self.state);
        let xattrs = state.xattrs.as_mut().ok_or(Errno::ENODATA)?;
        let value = xattrs.map.remove(name).ok_or(Errno::ENODATA)?;
        let had = Xattrs::pages(xattrs.bytes);
        xattrs.bytes -= (name.len() + value.len()) as u64;
        self.fs.release(had - Xattrs::pages(xattrs.bytes));
        state.ctime = Timespec::now();
        Ok(())
    }
}

/// Pages that a link's text is counted as.
pub(super) fn link_pages(text: &[u8]) -> u64 {
    u64::from(text.len() >= SHORT_LINK)
}
