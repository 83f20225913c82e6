//! Making, removing and moving names (`do_mkdirat`, `do_unlinkat`, `do_renameat2`…).

use crate::dentry::{Children, Dentry, same_node};
use crate::errno::{Errno, Result};
use crate::inode::InodeRef;
use crate::namei::open::new_node;
use crate::namei::perm::{inode_permission, may_create, may_delete, may_link, want_write};
use crate::namei::walk::{Last, Walk};
use crate::namei::{At, Lookup, Path};
use crate::sync;
use crate::types::{Access, FileType, NAME_MAX, PATH_MAX, RenameFlags, S_ISVTX};
use std::sync::{Arc, MutexGuard};

impl At<'_> {
    /// Walks to where a new name shall be and calls `make` with its directory, locked and
    /// checked, and the name (`filename_create`).
    fn make(
        &self,
        path: &[u8],
        directory: bool,
        check: impl FnOnce(&Path) -> Result<()>,
        make: impl FnOnce(&InodeRef, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let walk = Walk::parent(self, path)?;
        if walk.last != Last::Name {
            return Err(Errno::EEXIST);
        }
        let name = walk.name();
        check_len(name)?;
        let dir = &walk.path.dentry;
        let mut children = dir.lock_children();
        match dir.lookup_locked(&mut children, name) {
            Ok(_) => return Err(Errno::EEXIST),
            Err(Errno::ENOENT) => {}
            Err(error) => return Err(error),
        }
        if walk.slash && !directory {
            return Err(Errno::ENOENT);
        }
        want_write(&walk.path.mount)?;
        check(&walk.path)?;
        may_create(&walk.path.mount, dir, &self.caller.cred)?;
        make(dir.inode(), name)
    }

    fn node(
        &self,
        dir: &InodeRef,
        kind: FileType,
        perm: u32,
        rdev: u64,
    ) -> Result<crate::inode::NewNode> {
        Ok(new_node(
            &dir.stat()?,
            &self.caller.cred,
            self.caller.umask,
            kind,
            perm,
            rdev,
        ))
    }

    /// Makes a directory. Of the mode only permissions and the sticky bit count; set-group-ID
    /// comes from the parent.
    pub fn mkdir(&self, path: &[u8], perm: u32) -> Result<()> {
        self.make(
            path,
            true,
            |_| Ok(()),
            |dir, name| {
                let node = self.node(dir, FileType::Directory, perm & (0o777 | S_ISVTX), 0)?;
                dir.create(name, &node).map(drop)
            },
        )
    }

    /// Makes a file, fifo, socket or, for root, a device node. `EPERM` for a directory, `EINVAL`
    /// for a symbolic link.
    pub fn mknod(&self, path: &[u8], kind: FileType, perm: u32, rdev: u64) -> Result<()> {
        let device = matches!(kind, FileType::CharDevice | FileType::BlockDevice);
        match kind {
            FileType::Directory => return Err(Errno::EPERM),
            FileType::Symlink => return Err(Errno::EINVAL),
            _ => {}
        }
        self.make(
            path,
            false,
            |_| Ok(()),
            |dir, name| {
                if device && !self.caller.cred.is_root() {
                    return Err(Errno::EPERM);
                }
                let node = self.node(dir, kind, perm, if device { rdev } else { 0 })?;
                dir.create(name, &node).map(drop)
            },
        )
    }

    /// Makes a symbolic link with the text `target`.
    pub fn symlink(&self, target: &[u8], path: &[u8]) -> Result<()> {
        if target.is_empty() {
            return Err(Errno::ENOENT);
        }
        if target.len() >= PATH_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        if target.contains(&0) {
            return Err(Errno::EINVAL);
        }
        self.make(
            path,
            false,
            |_| Ok(()),
            |dir, name| {
                let node = self.node(dir, FileType::Symlink, 0o777, 0)?;
                dir.symlink(name, target, node.uid, node.gid).map(drop)
            },
        )
    }

    /// Gives the file `old` the further name `new`, seen from `new_at`. `EPERM` for a directory,
    /// `EXDEV` across mounts. `old_lookup` with `FOLLOW` links what a symbolic link leads to.
    pub fn link(&self, old: &[u8], old_lookup: Lookup, new_at: &At<'_>, new: &[u8]) -> Result<()> {
        let old = self.resolve(old, old_lookup)?;
        new_at.link_path(&old, new)
    }

    /// Gives the file at `old` the further name `new`.
    pub(super) fn link_path(&self, old: &Path, new: &[u8]) -> Result<()> {
        let check = |dir: &Path| {
            if !Arc::ptr_eq(&dir.mount, &old.mount) {
                return Err(Errno::EXDEV);
            }
            may_link(old, &self.caller.cred)
        };
        self.make(new, false, check, |dir, name| {
            if old.is_dir() {
                return Err(Errno::EPERM);
            }
            dir.link(name, old.inode())
        })
    }

    /// Removes a name that is not a directory.
    pub fn unlink(&self, path: &[u8]) -> Result<()> {
        let walk = Walk::parent(self, path)?;
        if walk.last != Last::Name {
            return Err(Errno::EISDIR);
        }
        self.remove(&walk, false)
    }

    /// Removes an empty directory. `EINVAL` for `.`, `ENOTEMPTY` for `..`, `EBUSY` for the root or
    /// a mountpoint.
    pub fn rmdir(&self, path: &[u8]) -> Result<()> {
        let walk = Walk::parent(self, path)?;
        match walk.last {
            Last::Name => self.remove(&walk, true),
            Last::DotDot => Err(Errno::ENOTEMPTY),
            Last::Dot => Err(Errno::EINVAL),
            Last::Root => Err(Errno::EBUSY),
        }
    }

    fn remove(&self, walk: &Walk<'_, '_>, directory: bool) -> Result<()> {
        let name = walk.name();
        let mount = &walk.path.mount;
        want_write(mount)?;
        check_len(name)?;
        let dir = &walk.path.dentry;
        let victim;
        let mut children = dir.lock_children();
        victim = dir.lookup_locked(&mut children, name)?;
        if walk.slash && !directory {
            let is_dir = victim.kind() == FileType::Directory;
            return Err(if is_dir {
                Errno::EISDIR
            } else {
                Errno::ENOTDIR
            });
        }
        may_delete(mount, dir, &victim, &self.caller.cred, directory)?;
        if victim.is_mountpoint() {
            return Err(Errno::EBUSY);
        }
        if directory {
            dir.inode().rmdir(name)?;
        } else {
            dir.inode().unlink(name)?;
        }
        dir.forget_locked(&mut children, name, &victim);
        Ok(())
    }

    /// Moves `old` to `new`, seen from `new_at`, replacing what is there unless `flags` say
    /// otherwise.
    pub fn rename(
        &self,
        old: &[u8],
        new_at: &At<'_>,
        new: &[u8],
        flags: RenameFlags,
    ) -> Result<()> {
        let exchange = flags.contains(RenameFlags::EXCHANGE);
        let keep = flags.contains(RenameFlags::NOREPLACE);
        if !RenameFlags::all().contains(flags) || (exchange && keep) {
            return Err(Errno::EINVAL);
        }
        let from = Walk::parent(self, old)?;
        let to = Walk::parent(new_at, new)?;
        if !Arc::ptr_eq(&from.path.mount, &to.path.mount) {
            return Err(Errno::EXDEV);
        }
        if from.last != Last::Name {
            return Err(Errno::EBUSY);
        }
        if to.last != Last::Name {
            return Err(if keep { Errno::EEXIST } else { Errno::EBUSY });
        }
        let mount = &from.path.mount;
        want_write(mount)?;
        let (old_dir, new_dir) = (&from.path.dentry, &to.path.dentry);
        let _rename = sync::write(&self.ns.rename);
        // Declared before the locks so that they are dropped after them.
        let source;
        let target;
        let mut dirs = TwoDirs::lock(old_dir, new_dir);
        check_len(from.name())?;
        source = old_dir.lookup_locked(dirs.source(), from.name())?;
        check_len(to.name())?;
        target = match new_dir.lookup_locked(dirs.target(), to.name()) {
            Ok(_) if keep => return Err(Errno::EEXIST),
            Ok(dentry) => Some(dentry),
            Err(Errno::ENOENT) if exchange => return Err(Errno::ENOENT),
            Err(Errno::ENOENT) => None,
            Err(error) => return Err(error),
        };
        let is_dir = source.kind() == FileType::Directory;
        let target_is_dir = target
            .as_ref()
            .is_some_and(|t| t.kind() == FileType::Directory);
        if exchange && !target_is_dir && to.slash {
            return Err(Errno::ENOTDIR);
        }
        if !is_dir && (from.slash || (!exchange && to.slash)) {
            return Err(Errno::ENOTDIR);
        }
        if !dirs.same() {
            if is_dir && source.is_above_or_same(new_dir) {
                return Err(Errno::EINVAL);
            }
            if target_is_dir && target.as_ref().is_some_and(|t| t.is_above_or_same(old_dir)) {
                return Err(if exchange {
                    Errno::EINVAL
                } else {
                    Errno::ENOTEMPTY
                });
            }
        }
        if target
            .as_ref()
            .is_some_and(|target| same_node(source.inode(), target.inode()))
        {
            return Ok(());
        }
        let cred = &self.caller.cred;
        may_delete(mount, old_dir, &source, cred, is_dir)?;
        match &target {
            None => may_create(mount, new_dir, cred)?,
            Some(target) => {
                let as_dir = if exchange { target_is_dir } else { is_dir };
                may_delete(mount, new_dir, target, cred, as_dir)?;
            }
        }
        if !dirs.same() {
            // Its `..` will change.
            if is_dir {
                inode_permission(mount, source.inode(), cred, Access::WRITE)?;
            }
            if exchange
                && target_is_dir
                && let Some(target) = &target
            {
                inode_permission(mount, target.inode(), cred, Access::WRITE)?;
            }
        }
        if source.is_mountpoint() || target.as_ref().is_some_and(|t| t.is_mountpoint()) {
            return Err(Errno::EBUSY);
        }
        old_dir
            .inode()
            .rename(from.name(), new_dir.inode(), to.name(), flags)?;
        match target {
            Some(ref target) if exchange => {
                let (old, new) = dirs.both();
                Dentry::exchange_locked(&source, target, old, new);
            }
            target => {
                if let Some(target) = &target {
                    new_dir.forget_locked(dirs.target(), to.name(), target);
                }
                let (old, new) = dirs.both();
                Dentry::move_locked(&source, old, new, new_dir, to.name());
            }
        }
        Ok(())
    }
}

fn check_len(name: &[u8]) -> Result<()> {
    if name.len() > NAME_MAX {
        Err(Errno::ENAMETOOLONG)
    } else {
        Ok(())
    }
}

/// The two locked directories of a rename, which may be one.
struct TwoDirs<'d> {
    old: MutexGuard<'d, Children>,
    new: Option<MutexGuard<'d, Children>>,
}

impl<'d> TwoDirs<'d> {
    /// Locks both, in an order that all renames agree on.
    fn lock(old: &'d Arc<Dentry>, new: &'d Arc<Dentry>) -> TwoDirs<'d> {
        if Arc::ptr_eq(old, new) {
            return TwoDirs {
                old: old.lock_children(),
                new: None,
            };
        }
        if Arc::as_ptr(old) < Arc::as_ptr(new) {
            let old = old.lock_children();
            TwoDirs {
                old,
                new: Some(new.lock_children()),
            }
        } else {
            let new = new.lock_children();
            TwoDirs {
                old: old.lock_children(),
                new: Some(new),
            }
        }
    }

    fn same(&self) -> bool {
        self.new.is_none()
    }

    fn source(&mut self) -> &mut Children {
        &mut self.old
    }

    fn target(&mut self) -> &mut Children {
        self.new.as_deref_mut().unwrap_or(&mut self.old)
    }

    fn both(&mut self) -> (&mut Children, Option<&mut Children>) {
        (&mut self.old, self.new.as_deref_mut())
    }
}
