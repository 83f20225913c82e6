//! Inodes of the merged tree.

use crate::file::{DirFile, FollowingFile};
use crate::links::LinkSet;
use crate::marks::{DirTableRef, Merge};
use crate::numbers::Wide;
use crate::{Shared, lock};
use rustc_hash::FxHashMap;
use std::any::Any;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use vfs_core::errno::{Errno, Result};
use vfs_core::file::FileOps;
use vfs_core::inode::{Content, Inode, InodeRef, LinkTarget, NewNode};
use vfs_core::types::{
    Caller, DirEntry, FileType, OpenFlags, RenameFlags, SetAttr, Stat, Timespec,
};

/// An inode of a lower layer.
#[derive(Clone)]
pub(crate) struct Lower {
    /// 1 for the topmost.
    pub(crate) layer: u8,
    pub(crate) inode: InodeRef,
}

/// Where a node that may have to be copied up is found.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) parent: Arc<Node>,
    pub(crate) name: Box<[u8]>,
}

/// An inode of the merged tree.
pub(crate) struct Node {
    pub(crate) me: Weak<Node>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) ino: u64,
    kind: FileType,
    /// The real inode in the upper layer, once there is one.
    pub(crate) upper: OnceLock<InodeRef>,
    /// A directory's lower part, topmost first; of anything else the lower inode it started as.
    pub(crate) lowers: Box<[Lower]>,
    /// Names left, of a file with a lower inode; 0 for a removed directory, else 1.
    nlink: AtomicU32,
    /// If the file has, or had, several names.
    links: OnceLock<Arc<LinkSet>>,
    /// Kept for directories and for what is not copied up; gone with the last name.
    place: Mutex<Option<Place>>,
    /// Held while this node is copied up.
    pub(crate) copying: Mutex<()>,
    dir: Option<Box<Mutex<DirState>>>,
}

/// What a directory's lock guards: its names.
#[derive(Default)]
pub(crate) struct DirState {
    children: FxHashMap<Box<[u8]>, Weak<Node>>,
    sweep_at: usize,
    pub(crate) marks: Option<DirTableRef>,
    /// Removed: nothing is found or made here any more.
    pub(crate) dead: bool,
    pub(crate) cookies: Wide,
}

impl DirState {
    /// The node of `name`, if somebody holds it.
    pub(crate) fn child(&self, name: &[u8]) -> Option<Arc<Node>> {
        self.children.get(name)?.upgrade()
    }

    pub(crate) fn remember(&mut self, name: &[u8], node: &Arc<Node>) {
        if self.children.len() >= self.sweep_at {
            self.children.retain(|_, child| child.strong_count() > 0);
            self.sweep_at = self.children.len() * 2 + 16;
        }
        self.children.insert(name.into(), Arc::downgrade(node));
    }

    pub(crate) fn forget(&mut self, name: &[u8]) {
        self.children.remove(name);
    }

    pub(crate) fn whiteout(&self, name: &[u8]) -> bool {
        self.marks
            .as_ref()
            .is_some_and(|marks| lock(marks).whiteouts.contains(name))
    }

    pub(crate) fn remove_whiteout(&self, name: &[u8]) {
        if let Some(marks) = &self.marks {
            lock(marks).whiteouts.remove(name);
        }
    }
}

/// What the directories `dirs`, topmost first, hold under `name`: one inode that is no directory,
/// or all directories down to the first thing that is none.
pub(crate) fn find_lower(dirs: &[Lower], name: &[u8]) -> Result<Box<[Lower]>> {
    let mut found = Vec::new();
    for dir in dirs {
        match dir.inode.lookup(name) {
            Ok(inode) => {
                let directory = inode.kind() == FileType::Directory;
                if directory || found.is_empty() {
                    found.push(Lower {
                        layer: dir.layer,
                        inode,
                    });
                }
                if !directory {
                    break;
                }
            }
            Err(Errno::ENOENT) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found.into_boxed_slice())
}

impl Node {
    fn new(
        shared: &Arc<Shared>,
        ino: u64,
        kind: FileType,
        upper: Option<InodeRef>,
        lowers: Box<[Lower]>,
        nlink: u32,
    ) -> Arc<Node> {
        let dir = (kind == FileType::Directory).then(Box::default);
        Arc::new_cyclic(|me| Node {
            me: me.clone(),
            shared: shared.clone(),
            ino,
            kind,
            upper: upper.map_or_else(OnceLock::new, OnceLock::from),
            lowers,
            nlink: AtomicU32::new(nlink),
            links: OnceLock::new(),
            place: Mutex::new(None),
            copying: Mutex::new(()),
            dir,
        })
    }

    /// The root of the merged tree.
    pub(crate) fn root(
        shared: &Arc<Shared>,
        upper: Option<InodeRef>,
        lowers: Box<[Lower]>,
    ) -> Result<Arc<Node>> {
        Node::directory(shared, upper, lowers)
    }

    /// A node for an upper directory and the lower directories of the same name, either of which
    /// may be missing. What the upper directory's marks say goes before `lowers`.
    fn directory(
        shared: &Arc<Shared>,
        upper: Option<InodeRef>,
        lowers: Box<[Lower]>,
    ) -> Result<Arc<Node>> {
        let mut lowers = lowers;
        let mut marks = None;
        let mut ino = None;
        if let Some(upper) = &upper {
            let upper_ino = upper.stat()?.ino;
            marks = shared.marks.get(upper_ino);
            if let Some(marks) = &marks {
                match &lock(marks).origin {
                    Merge::SameName => {}
                    Merge::Opaque => lowers = Box::default(),
                    Merge::Moved { stack, .. } => lowers = stack.clone(),
                }
            }
            ino = Some(shared.number(0, upper_ino));
        }
        if let Some(lower) = lowers.first() {
            ino = Some(shared.number(lower.layer, lower.inode.stat()?.ino));
        }
        let ino = ino.ok_or(Errno::ENOENT)?;
        let node = Node::new(shared, ino, FileType::Directory, upper, lowers, 1);
        if marks.is_some() {
            lock(node.dir()?).marks = marks;
        }
        Ok(node)
    }

    /// A node for the upper inode `upper`, found as `name` in this directory.
    fn of_upper(&self, upper: InodeRef, name: &[u8]) -> Result<Arc<Node>> {
        let shared = &self.shared;
        let kind = upper.kind();
        if kind == FileType::Directory {
            let mut below = find_lower(&self.lowers, name)?;
            if below
                .first()
                .is_some_and(|l| l.inode.kind() != FileType::Directory)
            {
                below = Box::default();
            }
            return Node::directory(shared, Some(upper), below);
        }
        let stat = upper.stat()?;
        let set = match shared.links.get(0, stat.ino) {
            None if stat.nlink > 1 => Some(shared.links.of_upper(stat.ino)),
            set => set,
        };
        let ino = shared.upper_number(stat.ino);
        let make = |upper| Node::new(shared, ino, kind, Some(upper), Box::default(), 1);
        Ok(match set {
            None => make(upper),
            Some(set) => set.node(|| {
                let node = make(upper);
                // The cell was made empty by the line before.
                let _ = node.links.set(set.clone());
                node
            }),
        })
    }

    /// A node for what the lower layers hold under a name of this directory.
    fn of_lower(&self, found: Box<[Lower]>) -> Result<Option<Arc<Node>>> {
        let shared = &self.shared;
        let Some(lower) = found.first() else {
            return Ok(None);
        };
        let kind = lower.inode.kind();
        if kind == FileType::Directory {
            return Node::directory(shared, None, found).map(Some);
        }
        let stat = lower.inode.stat()?;
        let ino = shared.number(lower.layer, stat.ino);
        if stat.nlink <= 1 {
            return Ok(Some(Node::new(shared, ino, kind, None, found, stat.nlink)));
        }
        let set = shared.links.of_lower(lower, stat.ino, stat.nlink);
        Ok(Some(set.node(|| {
            let links = set.links.load(Ordering::Relaxed);
            let node = Node::new(shared, ino, kind, set.upper.get().cloned(), found, links);
            // The cell was made empty by the line before.
            let _ = node.links.set(set.clone());
            node
        })))
    }

    /// The node called `name`, whose directory is locked as `state`.
    pub(crate) fn find_locked(
        &self,
        state: &mut DirState,
        name: &[u8],
    ) -> Result<Option<Arc<Node>>> {
        if state.dead {
            return Ok(None);
        }
        if let Some(node) = state.child(name) {
            if node.links.get().is_some() {
                node.found_at(self, name)?;
            }
            return Ok(Some(node));
        }
        let upper = match self.upper.get().map(|upper| upper.lookup(name)) {
            Some(Err(Errno::ENOENT)) | None => None,
            Some(_) if self.shared.is_parked(self, name) => None,
            Some(found) => Some(found?),
        };
        let node = match upper {
            Some(upper) => self.of_upper(upper, name)?,
            None if self.lowers.is_empty() || state.whiteout(name) => return Ok(None),
            None => match self.of_lower(find_lower(&self.lowers, name)?)? {
                Some(node) => node,
                None => return Ok(None),
            },
        };
        node.found_at(self, name)?;
        state.remember(name, &node);
        if node.is_dir() || node.upper.get().is_none() {
            self.shared.recent.keep(&node);
        }
        Ok(Some(node))
    }

    /// The node called `name`.
    pub(crate) fn find(&self, name: &[u8]) -> Result<Option<Arc<Node>>> {
        self.find_locked(&mut lock(self.dir()?), name)
    }

    /// Notes a name of this node where the node has to know one. Of several it is the one used
    /// last: as far as we can know, the one through which the file is going to be copied up.
    pub(crate) fn found_at(&self, parent: &Node, name: &[u8]) -> Result<()> {
        if self.dir.is_none() && self.upper.get().is_some() {
            return Ok(());
        }
        let mut place = lock(&self.place);
        match &*place {
            Some(_) if self.links.get().is_none() => {}
            Some(at) if std::ptr::eq(&*at.parent, parent) && &*at.name == name => {}
            _ => {
                let new = Place {
                    parent: parent.this()?,
                    name: name.into(),
                };
                let old = place.replace(new);
                drop(place);
                drop(old);
            }
        }
        Ok(())
    }

    /// The directory's lock, or `ENOTDIR`.
    pub(crate) fn dir(&self) -> Result<&Mutex<DirState>> {
        self.dir.as_deref().ok_or(Errno::ENOTDIR)
    }

    /// This node's own handle. It exists while a method runs on a node somebody holds.
    pub(crate) fn this(&self) -> Result<Arc<Node>> {
        self.me.upgrade().ok_or(Errno::ENOENT)
    }

    /// The overlay node behind an inode handle, if it is one of the same overlay.
    pub(crate) fn same_overlay<'a>(&self, inode: &'a InodeRef) -> Result<&'a Node> {
        let node = inode.as_any().downcast_ref::<Node>().ok_or(Errno::EXDEV)?;
        if !Arc::ptr_eq(&node.shared, &self.shared) {
            return Err(Errno::EXDEV);
        }
        Ok(node)
    }

    /// Where attributes and data come from now.
    pub(crate) fn real(&self) -> Result<&InodeRef> {
        self.upper
            .get()
            .or_else(|| Some(&self.lowers.first()?.inode))
            .ok_or(Errno::EIO)
    }

    pub(crate) fn place(&self) -> Option<Place> {
        lock(&self.place).clone()
    }

    pub(crate) fn set_place(&self, place: Option<Place>) {
        // The old place may hold the last handle of a directory: drop it after the lock.
        let _old = std::mem::replace(&mut *lock(&self.place), place);
    }

    /// Whether the node's known name is `name` in `parent`.
    pub(crate) fn is_at(&self, parent: &Node, name: &[u8]) -> bool {
        lock(&self.place)
            .as_ref()
            .is_some_and(|place| std::ptr::eq(&*place.parent, parent) && &*place.name == name)
    }

    /// The name `name` in `parent` is gone from this node.
    pub(crate) fn lost_name(&self, parent: &Node, name: &[u8]) -> Result<()> {
        if self.is_at(parent, name) {
            self.set_place(None);
        }
        let one_less = |n: u32| n.checked_sub(1);
        let _ = self
            .nlink
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
        if let Some(set) = self.links.get() {
            let _ = set
                .links
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
            if set.links_of_lower() == Some(0) {
                self.shared.unpark(set)?;
            }
        }
        Ok(())
    }

    /// The node got one more name.
    pub(crate) fn gained_name(&self) {
        self.nlink.fetch_add(1, Ordering::Relaxed);
        if let Some(set) = self.links.get() {
            set.links.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The set of names of a file, if it has one.
    pub(crate) fn link_set(&self) -> Option<&Arc<LinkSet>> {
        self.links.get()
    }

    /// Makes the node findable by its upper inode, before it gets a second name there.
    pub(crate) fn make_link_set(&self, upper_ino: u64) -> Result<()> {
        if self.links.get().is_none() {
            let this = self.this()?;
            let set = self.shared.links.of_upper(upper_ino);
            set.node(|| this);
            // Another link of the same node may have been quicker, with the same set.
            let _ = self.links.set(set);
        }
        Ok(())
    }

    fn is_dir(&self) -> bool {
        self.dir.is_some()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // Parents are held by their children. A chain of directories as deep as a guest likes
        // must not be dropped by as deep a recursion.
        let mut place = self.place.get_mut().ok().and_then(Option::take);
        while let Some(Place { parent, .. }) = place {
            place = Arc::into_inner(parent)
                .and_then(|mut node| node.place.get_mut().ok().and_then(Option::take));
        }
        if self.dir.is_some() {
            return;
        }
        let links = self.links.get();
        if links.is_some_and(|set| set.matters()) {
            return;
        }
        // Forget what was noted of a file that is gone for good.
        let upper = match self.upper.get() {
            Some(upper) if links.is_some() || self.shared.has_origins() => upper.stat().ok(),
            _ => None,
        };
        let gone = upper.filter(|stat| stat.nlink == 0).map(|stat| stat.ino);
        if let Some(ino) = gone {
            self.shared.forget_origin(ino);
        }
        if let Some(set) = links
            && (gone.is_some() || set.links.load(Ordering::Relaxed) == 0 && upper.is_none())
        {
            self.shared.links.forget(set, gone);
        }
    }
}

impl Inode for Node {
    fn stat(&self) -> Result<Stat> {
        let mut stat = self.real()?.stat()?;
        stat.dev = self.shared.dev;
        stat.ino = self.ino;
        if let Some(links) = self.links.get().and_then(|set| set.links_of_lower()) {
            stat.nlink = links;
        } else if !self.lowers.is_empty() {
            let nlink = self.nlink.load(Ordering::Relaxed);
            let merged = self.lowers.len() > 1 || self.upper.get().is_some();
            // Of a merged directory nobody counts the subdirectories: 1 says so (find(1) knows).
            if !self.is_dir() || merged || nlink == 0 {
                stat.nlink = nlink;
            }
        }
        Ok(stat)
    }

    fn kind(&self) -> FileType {
        self.kind
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn setattr(&self, changes: &SetAttr) -> Result<()> {
        let mut changes = *changes;
        if let (None, Some(size)) = (self.upper.get(), changes.size) {
            // Data that is to be cut off is not even copied, so the upper inode sees no change.
            let cut = size < self.real()?.stat()?.size;
            if cut && changes.mtime.is_none() {
                changes.mtime = Some(Timespec::now());
            }
        }
        self.copy_up(changes.size.unwrap_or(u64::MAX))?
            .setattr(&changes)
    }

    fn lookup(&self, name: &[u8]) -> Result<InodeRef> {
        match self.find(name)? {
            Some(node) => Ok(node),
            None => Err(Errno::ENOENT),
        }
    }

    fn create(&self, name: &[u8], node: &NewNode) -> Result<InodeRef> {
        self.make(name, node.kind, |upper| upper.create(name, node))
    }

    fn symlink(&self, name: &[u8], target: &[u8], uid: u32, gid: u32) -> Result<InodeRef> {
        self.make(name, FileType::Symlink, |upper| {
            upper.symlink(name, target, uid, gid)
        })
    }

    fn tmpfile(&self, node: &NewNode, linkable: bool) -> Result<InodeRef> {
        self.dir()?;
        let upper = self.copy_up(u64::MAX)?.tmpfile(node, linkable)?;
        let ino = self.shared.number(0, upper.stat()?.ino);
        Ok(Node::new(
            &self.shared,
            ino,
            upper.kind(),
            Some(upper),
            Box::default(),
            1,
        ))
    }

    fn link(&self, name: &[u8], target: &InodeRef) -> Result<()> {
        self.add_link(name, self.same_overlay(target)?)
    }

    fn unlink(&self, name: &[u8]) -> Result<()> {
        self.remove_name(name)
    }

    fn rmdir(&self, name: &[u8]) -> Result<()> {
        self.remove_dir(name)
    }

    fn rename(
        &self,
        name: &[u8],
        new_dir: &InodeRef,
        new_name: &[u8],
        flags: RenameFlags,
    ) -> Result<()> {
        self.rename_to(name, self.same_overlay(new_dir)?, new_name, flags)
    }

    fn readdir(&self, cookie: u64, sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        self.list(cookie, sink)
    }

    fn readlink(&self, caller: &Caller) -> Result<LinkTarget> {
        self.real()?.readlink(caller)
    }

    fn open(self: Arc<Self>, flags: OpenFlags, caller: &Caller) -> Result<Arc<dyn FileOps>> {
        if self.is_dir() {
            return Ok(Arc::new(DirFile::new(self)));
        }
        if self.kind != FileType::Regular {
            return self.real()?.clone().open(flags, caller);
        }
        if flags.writable() {
            return self.copy_up(u64::MAX)?.clone().open(flags, caller);
        }
        if let Some(upper) = self.upper.get() {
            return upper.clone().open(flags, caller);
        }
        let lower = self.real()?.clone().open(flags, caller)?;
        if self.shared.upper.is_none() {
            return Ok(lower);
        }
        Ok(Arc::new(FollowingFile::new(self, lower, flags, caller)))
    }

    fn opens_itself(&self) -> bool {
        self.real().is_ok_and(|real| real.opens_itself())
    }

    fn touch_atime(&self, now: Timespec) {
        if let Some(upper) = self.upper.get() {
            upper.touch_atime(now);
        }
    }

    fn content_id(&self) -> Option<[u8; 32]> {
        self.real().ok()?.content_id()
    }

    fn content(&self) -> Option<Arc<dyn Content>> {
        self.real().ok()?.content()
    }

    fn listxattr(&self) -> Result<Vec<Vec<u8>>> {
        self.real()?.listxattr()
    }

    fn getxattr(&self, name: &[u8]) -> Result<Vec<u8>> {
        self.real()?.getxattr(name)
    }

    fn setxattr(&self, name: &[u8], value: &[u8], create: bool, replace: bool) -> Result<()> {
        self.copy_up(u64::MAX)?
            .setxattr(name, value, create, replace)
    }

    fn removexattr(&self, name: &[u8]) -> Result<()> {
        if self.upper.get().is_none() {
            self.shared.writable()?;
            // What is not there need not be copied to be missed.
            self.real()?.getxattr(name)?;
        }
        self.copy_up(u64::MAX)?.removexattr(name)
    }
}
