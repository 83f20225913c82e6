//! Opening: from a path or a location to an open file (`path_openat`, `do_open`).

use crate::dentry::Dentry;
use crate::errno::{Errno, Result};
use crate::file::{FileOps, OpenFile};
use crate::inode::{InodeRef, NewNode};
use crate::mount::MountFlags;
use crate::namei::magic::OpenInode;
use crate::namei::perm::{
    inode_permission, is_owner, is_special, may_create, stat_permission, want_write, without_setid,
};
use crate::namei::walk::{Last, Walk, lookup};
use crate::namei::{At, Lookup, Path};
use crate::types::{Access, Cred, FileType, NAME_MAX, OpenFlags, S_ISGID, SetAttr, Stat, Timespec};
use std::any::Any;
use std::sync::Arc;

/// Flags that mean something with `O_PATH`; the others are ignored.
const PATH_FLAGS: OpenFlags = OpenFlags::PATH
    .union(OpenFlags::DIRECTORY)
    .union(OpenFlags::NOFOLLOW)
    .union(OpenFlags::CLOEXEC);

/// Flags of the call alone, not of the open file.
const CALL_FLAGS: OpenFlags = OpenFlags::CREAT
    .union(OpenFlags::EXCL)
    .union(OpenFlags::NOCTTY)
    .union(OpenFlags::TRUNC)
    .union(OpenFlags::CLOEXEC);

/// What `open` with `O_PATH` gives: a location that can't be read or written.
struct PathOnly;

impl FileOps for PathOnly {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn read_at(&self, _buf: &mut [u8], _offset: u64) -> Result<usize> {
        Err(Errno::EBADF)
    }

    fn write_at(&self, _buf: &[u8], _offset: u64) -> Result<usize> {
        Err(Errno::EBADF)
    }

    fn readdir(
        &self,
        _cookie: u64,
        _sink: &mut dyn FnMut(crate::types::DirEntry<'_>) -> bool,
    ) -> Result<()> {
        Err(Errno::EBADF)
    }

    fn sync(&self) -> Result<()> {
        Err(Errno::EBADF)
    }

    fn allocate(&self, _offset: u64, _len: u64, _keep_size: bool) -> Result<()> {
        Err(Errno::EBADF)
    }

    fn readable_bytes(&self) -> Result<usize> {
        Err(Errno::EBADF)
    }
}

/// The flags made consistent, or `EINVAL` (`build_open_flags`).
fn check_flags(mut flags: OpenFlags) -> Result<OpenFlags> {
    if flags.contains(OpenFlags::PATH) {
        return Ok(flags & PATH_FLAGS);
    }
    if flags.contains(OpenFlags::DIRECTORY | OpenFlags::CREAT) {
        return Err(Errno::EINVAL);
    }
    if flags.contains(OpenFlags::TMPFILE) {
        if !flags.writable() || flags.contains(OpenFlags::CREAT) {
            return Err(Errno::EINVAL);
        }
        flags |= OpenFlags::DIRECTORY;
    }
    Ok(flags)
}

/// The permissions that these flags ask for.
fn wanted(flags: OpenFlags) -> Access {
    if flags.contains(OpenFlags::PATH) {
        return Access::empty();
    }
    // Access mode 3 asks for both, and gives neither reading nor writing.
    let both = flags.contains(OpenFlags::WRONLY | OpenFlags::RDWR);
    let mut want = Access::empty();
    if both || !flags.contains(OpenFlags::WRONLY) {
        want |= Access::READ;
    }
    if both || flags.intersects(OpenFlags::WRONLY | OpenFlags::RDWR | OpenFlags::TRUNC) {
        want |= Access::WRITE;
    }
    want
}

/// Owner, group and mode of a node made in `dir` (`inode_init_owner`): a set-group-ID directory
/// gives its group on, and to directories the bit as well.
pub(super) fn new_node(
    dir: &Stat,
    cred: &Cred,
    umask: u32,
    kind: FileType,
    perm: u32,
    rdev: u64,
) -> NewNode {
    let mut perm = perm & 0o7777 & !(umask & 0o777);
    let mut gid = cred.egid;
    if dir.mode & S_ISGID != 0 {
        gid = dir.gid;
        if kind == FileType::Directory {
            perm |= S_ISGID;
        } else if perm & (S_ISGID | 0o010) == S_ISGID | 0o010
            && !cred.is_root()
            && !cred.in_group(gid)
        {
            perm &= !S_ISGID;
        }
    }
    NewNode {
        kind,
        perm,
        uid: cred.euid,
        gid,
        rdev,
    }
}

impl At<'_> {
    /// Opens `path`, making it with `perm` without the caller's mask if `flags` say so.
    pub fn open(&self, path: &[u8], flags: OpenFlags, perm: u32) -> Result<Arc<OpenFile>> {
        let flags = check_flags(flags)?;
        if flags.contains(OpenFlags::TMPFILE) {
            return self.tmpfile(path, flags, perm);
        }
        let create = flags.contains(OpenFlags::CREAT);
        let exclusive = create && flags.contains(OpenFlags::EXCL);
        let mut how = Lookup::empty();
        if !flags.contains(OpenFlags::NOFOLLOW) && !exclusive {
            how |= Lookup::FOLLOW;
        }
        let mut walk = Walk::parent(self, path)?;
        let mut created = false;
        loop {
            if walk.last != Last::Name {
                walk.dots();
                break;
            }
            let mut child = walk.path.clone();
            if !create {
                if walk.slash {
                    how |= Lookup::FOLLOW | Lookup::DIRECTORY;
                }
                child.dentry = walk.child()?;
            } else {
                if walk.slash {
                    return Err(Errno::EISDIR);
                }
                (child.dentry, created) = self.find_or_create(&walk.path, walk.name(), perm)?;
                if created {
                    walk.path = child;
                    break;
                }
            }
            if !walk.step(child, how.contains(Lookup::FOLLOW))? {
                break;
            }
        }
        if exclusive && !created {
            return Err(Errno::EEXIST);
        }
        if create && walk.path.is_dir() {
            return Err(Errno::EISDIR);
        }
        if how.contains(Lookup::DIRECTORY) && !walk.path.is_dir() {
            return Err(Errno::ENOTDIR);
        }
        if let Some(file) = walk.file.take()
            && !flags.contains(OpenFlags::PATH)
            && !matches!(
                walk.path.dentry.kind(),
                FileType::Regular | FileType::Directory
            )
        {
            if flags.contains(OpenFlags::DIRECTORY) {
                return Err(Errno::ENOTDIR);
            }
            return Ok(file);
        }
        self.open_at(&walk.path, flags, created)
    }

    /// Opens what is at a location, with the permission checks of [`At::open`] and no walk.
    pub fn open_path(&self, path: &Path, flags: OpenFlags) -> Result<Arc<OpenFile>> {
        let flags = check_flags(flags & !(OpenFlags::CREAT | OpenFlags::EXCL))?;
        if flags.contains(OpenFlags::TMPFILE) {
            return self.tmpfile_in(path, flags, 0);
        }
        if !flags.contains(OpenFlags::PATH)
            && let Some(file) = OpenInode::file_at(path)
        {
            return Ok(file);
        }
        self.open_at(path, flags, false)
    }

    /// The entry `name` of `dir`, made as a regular file if missing (`lookup_open`).
    fn find_or_create(&self, dir: &Path, name: &[u8], perm: u32) -> Result<(Arc<Dentry>, bool)> {
        if name.len() > NAME_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        let parent = &dir.dentry;
        let mut children = parent.lock_children();
        match parent.lookup_locked(&mut children, name) {
            Err(Errno::ENOENT) => {}
            found => return Ok((found?, false)),
        }
        want_write(&dir.mount)?;
        let cred = &self.caller.cred;
        may_create(&dir.mount, parent, cred)?;
        let stat = parent.inode().stat()?;
        let node = new_node(&stat, cred, self.caller.umask, FileType::Regular, perm, 0);
        match parent.inode().create(name, &node) {
            Ok(inode) => Ok((parent.instantiate_locked(&mut children, name, inode), true)),
            // Somebody made it through another namespace, or on the host.
            Err(Errno::EEXIST) => Ok((parent.lookup_locked(&mut children, name)?, false)),
            Err(error) => Err(error),
        }
    }

    /// Checks and opens (`do_open`, `may_open`).
    fn open_at(&self, path: &Path, flags: OpenFlags, created: bool) -> Result<Arc<OpenFile>> {
        let kind = path.dentry.kind();
        let inode = path.inode();
        let kept = flags & !CALL_FLAGS;
        if flags.contains(OpenFlags::DIRECTORY) && kind != FileType::Directory {
            return Err(Errno::ENOTDIR);
        }
        if flags.contains(OpenFlags::PATH) {
            return Ok(OpenFile::new(
                path.clone(),
                inode.clone(),
                Arc::new(PathOnly),
                kept,
            ));
        }
        let want = if created {
            Access::empty()
        } else {
            wanted(flags)
        };
        let truncate = flags.contains(OpenFlags::TRUNC) && kind == FileType::Regular && !created;
        if truncate {
            want_write(&path.mount)?;
        }
        let cred = &self.caller.cred;
        match kind {
            FileType::Symlink => return Err(Errno::ELOOP),
            FileType::Directory if want.contains(Access::WRITE) => return Err(Errno::EISDIR),
            FileType::CharDevice | FileType::BlockDevice
                if path.mount.flags().contains(MountFlags::NODEV) =>
            {
                return Err(Errno::EACCES);
            }
            _ => {}
        }
        let stat = inode.stat()?;
        stat_permission(&path.mount, &stat, cred, want)?;
        if flags.contains(OpenFlags::NOATIME) && !is_owner(&stat, cred) {
            return Err(Errno::EPERM);
        }
        if flags.writable() && !created && !is_special(kind) {
            want_write(&path.mount)?;
        }
        let writes = flags.writable() && kind == FileType::Regular;
        let writes = if writes || truncate {
            Some(path.dentry.get_write_access()?)
        } else {
            None
        };
        if truncate {
            let now = Timespec::now();
            let mode = if cred.is_root() {
                None
            } else {
                without_setid(&stat, cred)
            };
            inode.setattr(&SetAttr {
                size: Some(0),
                mtime: Some(now),
                mode,
                ..SetAttr::default()
            })?;
        }
        // Whoever opens a terminal has to know whether it may become the caller's own.
        let ops = self.operations(path, &stat, kept | (flags & OpenFlags::NOCTTY))?;
        // One that only truncated writes no more.
        let writes = writes.filter(|_| kept.writable());
        Ok(OpenFile::opened(path.clone(), ops, kept, writes))
    }

    fn operations(&self, path: &Path, stat: &Stat, flags: OpenFlags) -> Result<Arc<dyn FileOps>> {
        let inode: &InodeRef = path.inode();
        let mut flags = flags;
        if !path.mount.keeps_atime() {
            flags |= OpenFlags::NOATIME;
        }
        if inode.opens_itself() {
            inode.clone().open(flags, self.caller)
        } else {
            self.ns.special().open(inode, stat, flags, self.caller)
        }
    }

    /// Opens an unnamed regular file in the file system of the directory `dir` (`O_TMPFILE`). It
    /// can be given a name with [`fd::link`](crate::namei::fd::link) unless `flags` has `O_EXCL`.
    pub fn tmpfile(&self, dir: &[u8], flags: OpenFlags, perm: u32) -> Result<Arc<OpenFile>> {
        let flags = check_flags(flags | OpenFlags::TMPFILE)?;
        let mut how = Lookup::DIRECTORY;
        if !flags.contains(OpenFlags::NOFOLLOW) {
            how |= Lookup::FOLLOW;
        }
        let dir = self.resolve(dir, how)?;
        self.tmpfile_in(&dir, flags, perm)
    }

    fn tmpfile_in(&self, dir: &Path, flags: OpenFlags, perm: u32) -> Result<Arc<OpenFile>> {
        if !dir.is_dir() {
            return Err(Errno::ENOTDIR);
        }
        want_write(&dir.mount)?;
        let cred = &self.caller.cred;
        inode_permission(&dir.mount, dir.inode(), cred, Access::WRITE | Access::EXEC)?;
        let stat = dir.inode().stat()?;
        let node = new_node(&stat, cred, self.caller.umask, FileType::Regular, perm, 0);
        let inode = dir
            .inode()
            .tmpfile(&node, !flags.contains(OpenFlags::EXCL))?;
        let stat = inode.stat()?;
        let name = format!("#{}", stat.ino);
        let dentry = Dentry::unnamed(&dir.dentry, inode.clone(), name.as_bytes());
        let path = Path {
            mount: dir.mount.clone(),
            dentry,
        };
        let kept = flags & !(CALL_FLAGS | OpenFlags::DIRECTORY);
        let ops = self.operations(&path, &stat, kept)?;
        Ok(OpenFile::new(path, inode, ops, kept))
    }

    /// The location of the entry `name` of the directory `dir`, as a walk of one name would find
    /// it, without following it: for callers that list a directory and look at its entries.
    pub fn child(&self, dir: &Path, name: &[u8]) -> Result<Path> {
        if !dir.is_dir() {
            return Err(Errno::ENOTDIR);
        }
        if name.is_empty() || name.contains(&b'/') || matches!(name, b"." | b"..") {
            return Err(Errno::EINVAL);
        }
        inode_permission(&dir.mount, dir.inode(), &self.caller.cred, Access::EXEC)?;
        let dentry = lookup(&dir.dentry, name)?;
        let mut path = Path {
            mount: dir.mount.clone(),
            dentry,
        };
        self.ns.cross_down(&mut path);
        Ok(path)
    }
}
