//! Inodes of a host directory: a descriptor each.

use super::file::{HostDir, HostFile};
use super::{Shared, sys};
use crate::errno::{Errno, Result};
use crate::file::FileOps;
use crate::inode::{Inode, InodeRef, LinkTarget, NewNode};
use crate::types::{
    Caller, DirEntry, FileType, OpenFlags, RenameFlags, S_ISGID, S_ISUID, SetAttr, Stat,
};
use nix::fcntl::OFlag;
use std::any::Any;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// A node of the host, held by an `O_PATH` descriptor.
pub(super) struct HostInode {
    pub(super) fs: Arc<Shared>,
    pub(super) fd: OwnedFd,
    kind: FileType,
}

impl HostInode {
    pub(super) fn new(fs: &Arc<Shared>, fd: OwnedFd) -> Result<Arc<HostInode>> {
        let kind = sys::stat(fd.as_fd())?.kind()?;
        Ok(Arc::new(HostInode {
            fs: fs.clone(),
            fd,
            kind,
        }))
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    fn child(&self, name: &[u8]) -> Result<Arc<HostInode>> {
        let fd = sys::open_child(self.fd(), name, self.fs.options.cross_mounts)?;
        HostInode::new(&self.fs, fd)
    }

    fn sibling<'i>(&self, other: &'i InodeRef) -> Result<&'i HostInode> {
        let other = other
            .as_any()
            .downcast_ref::<HostInode>()
            .ok_or(Errno::EXDEV)?;
        if Arc::ptr_eq(&self.fs, &other.fs) {
            Ok(other)
        } else {
            Err(Errno::EXDEV)
        }
    }

    /// Gives a new node the owner and the exact mode it was made for; the host's mask had a say
    /// in the latter.
    fn settle(&self, inode: &HostInode, node: &NewNode) -> Result<()> {
        let stat = sys::stat(inode.fd())?;
        if stat.kind()? != node.kind {
            // Somebody on the host put something else in its place meanwhile.
            return Err(Errno::ENOENT);
        }
        if self.fs.gives && (stat.uid, stat.gid) != (node.uid, node.gid) {
            sys::chown(inode.fd(), Some(node.uid), Some(node.gid))?;
        }
        let perm = host_perm(node.kind, node.perm);
        if node.kind != FileType::Symlink && stat.mode & 0o7777 != perm {
            sys::chmod(inode.fd(), perm)?;
        }
        Ok(())
    }

    /// Removes a name; what that frees counts back to the quota.
    fn remove(&self, name: &[u8], directory: bool) -> Result<()> {
        self.fs.check_writable()?;
        let mut quota = self.fs.quota();
        let freed = if quota.is_some() { self.frees(name) } else { 0 };
        sys::unlink(self.fd(), name, directory)?;
        if let Some(left) = &mut quota {
            **left = left.saturating_add(freed);
        }
        Ok(())
    }

    /// Bytes that removing a name frees.
    fn frees(&self, name: &[u8]) -> u64 {
        match sys::stat_child(self.fd(), name) {
            Ok(stat) if stat.kind() == Ok(FileType::Regular) && stat.nlink == 1 => stat.size,
            _ => 0,
        }
    }

    /// Sets the size, within the quota.
    fn resize(&self, size: u64) -> Result<()> {
        match self.kind {
            FileType::Regular => {}
            FileType::Directory => return Err(Errno::EISDIR),
            _ => return Err(Errno::EINVAL),
        }
        let mut quota = self.fs.quota();
        if let Some(left) = &mut quota {
            let old = sys::stat(self.fd())?.size;
            let after = (**left)
                .saturating_add(old)
                .checked_sub(size)
                .ok_or(Errno::EDQUOT)?;
            sys::truncate(self.fd(), size)?;
            **left = after;
            return Ok(());
        }
        sys::truncate(self.fd(), size)
    }
}

/// The permission bits that the host gets to see.
fn host_perm(kind: FileType, perm: u32) -> u32 {
    // On a directory set-group-ID passes the group on and is harmless.
    let hidden = if kind == FileType::Directory {
        S_ISUID
    } else {
        S_ISUID | S_ISGID
    };
    perm & 0o7777 & !hidden
}

/// Only `user.` attributes are the guest's business.
fn check_xattr(name: &[u8], denied: Errno) -> Result<()> {
    if name.starts_with(b"user.") {
        Ok(())
    } else {
        Err(denied)
    }
}

impl Inode for HostInode {
    fn stat(&self) -> Result<Stat> {
        let stat = sys::stat(self.fd())?;
        let (uid, gid) = self.fs.options.owner.unwrap_or((stat.uid, stat.gid));
        let [atime, mtime, ctime, btime] = stat.times;
        Ok(Stat {
            dev: self.fs.dev(stat.dev),
            ino: stat.ino,
            mode: stat.mode,
            nlink: stat.nlink,
            uid,
            gid,
            rdev: stat.rdev,
            size: stat.size,
            blocks: stat.blocks,
            atime,
            mtime,
            ctime,
            btime,
        })
    }

    fn kind(&self) -> FileType {
        self.kind
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn setattr(&self, changes: &SetAttr) -> Result<()> {
        self.fs.check_writable()?;
        if changes.uid.is_some() || changes.gid.is_some() {
            match self.fs.options.owner {
                Some((uid, gid)) => {
                    let same = |new: Option<u32>, old| new.is_none_or(|new| new == old);
                    if !same(changes.uid, uid) || !same(changes.gid, gid) {
                        return Err(Errno::EPERM);
                    }
                }
                None => sys::chown(self.fd(), changes.uid, changes.gid)?,
            }
        }
        if let Some(size) = changes.size {
            self.resize(size)?;
        }
        if let Some(mode) = changes.mode {
            sys::chmod(self.fd(), host_perm(self.kind, mode))?;
        }
        if changes.atime.is_some() || changes.mtime.is_some() {
            sys::utimens(self.fd(), changes.atime, changes.mtime)?;
        }
        Ok(())
    }

    fn lookup(&self, name: &[u8]) -> Result<InodeRef> {
        Ok(self.child(name)?)
    }

    fn create(&self, name: &[u8], node: &NewNode) -> Result<InodeRef> {
        self.fs.check_writable()?;
        let perm = host_perm(node.kind, node.perm) & 0o777;
        let inode = match node.kind {
            FileType::Regular => {
                let file = sys::create(self.fd(), name, perm)?;
                let fd = sys::reopen(file.as_fd(), OFlag::O_PATH)?;
                HostInode::new(&self.fs, fd)?
            }
            FileType::Directory => {
                sys::mkdir(self.fd(), name, perm)?;
                self.child(name)?
            }
            FileType::Fifo | FileType::Socket => {
                sys::mknod(self.fd(), name, node.kind, perm)?;
                self.child(name)?
            }
            FileType::CharDevice | FileType::BlockDevice => return Err(Errno::EPERM),
            FileType::Symlink => return Err(Errno::EINVAL),
        };
        self.settle(&inode, node)?;
        Ok(inode)
    }

    fn symlink(&self, name: &[u8], target: &[u8], uid: u32, gid: u32) -> Result<InodeRef> {
        self.fs.check_writable()?;
        sys::symlink(target, self.fd(), name)?;
        let inode = self.child(name)?;
        let node = NewNode {
            kind: FileType::Symlink,
            perm: 0o777,
            uid,
            gid,
            rdev: 0,
        };
        self.settle(&inode, &node)?;
        Ok(inode)
    }

    fn tmpfile(&self, node: &NewNode, linkable: bool) -> Result<InodeRef> {
        self.fs.check_writable()?;
        let file = sys::tmpfile(self.fd(), host_perm(node.kind, node.perm) & 0o777, linkable)?;
        let inode = HostInode::new(&self.fs, sys::reopen(file.as_fd(), OFlag::O_PATH)?)?;
        self.settle(&inode, node)?;
        Ok(inode)
    }

    fn link(&self, name: &[u8], target: &InodeRef) -> Result<()> {
        self.fs.check_writable()?;
        sys::link(self.sibling(target)?.fd(), self.fd(), name)
    }

    fn unlink(&self, name: &[u8]) -> Result<()> {
        self.remove(name, false)
    }

    fn rmdir(&self, name: &[u8]) -> Result<()> {
        self.remove(name, true)
    }

    fn rename(
        &self,
        name: &[u8],
        new_dir: &InodeRef,
        new_name: &[u8],
        flags: RenameFlags,
    ) -> Result<()> {
        self.fs.check_writable()?;
        let new_dir = self.sibling(new_dir)?;
        let mut quota = self.fs.quota();
        let replaces = quota.is_some() && !flags.contains(RenameFlags::EXCHANGE);
        let freed = if replaces { new_dir.frees(new_name) } else { 0 };
        sys::rename(self.fd(), name, new_dir.fd(), new_name, flags.bits())?;
        if let Some(left) = &mut quota {
            **left = left.saturating_add(freed);
        }
        Ok(())
    }

    fn readdir(&self, cookie: u64, sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        HostDir::open(self.fd())?.readdir(cookie, sink)
    }

    fn readlink(&self, _caller: &Caller) -> Result<LinkTarget> {
        if self.kind != FileType::Symlink {
            return Err(Errno::EINVAL);
        }
        sys::readlink(self.fd()).map(LinkTarget::Text)
    }

    fn open(self: Arc<Self>, flags: OpenFlags, _caller: &Caller) -> Result<Arc<dyn FileOps>> {
        match self.kind {
            FileType::Directory => Ok(Arc::new(HostDir::open(self.fd())?)),
            FileType::Regular => {
                if flags.writable() {
                    self.fs.check_writable()?;
                }
                Ok(Arc::new(HostFile::open(self, flags)?))
            }
            FileType::Symlink => Err(Errno::ELOOP),
            FileType::CharDevice | FileType::BlockDevice => Err(Errno::EACCES),
            FileType::Fifo | FileType::Socket => Err(Errno::ENXIO),
        }
    }

    fn opens_itself(&self) -> bool {
        // A fifo is only a name to meet at; who meets there are guests, not the host.
        self.kind != FileType::Fifo
    }

    fn listxattr(&self) -> Result<Vec<Vec<u8>>> {
        let mut names = sys::listxattr(self.fd())?;
        names.retain(|name| name.starts_with(b"user."));
        Ok(names)
    }

    fn getxattr(&self, name: &[u8]) -> Result<Vec<u8>> {
        check_xattr(name, Errno::ENODATA)?;
        sys::getxattr(self.fd(), name)
    }

    fn setxattr(&self, name: &[u8], value: &[u8], create: bool, replace: bool) -> Result<()> {
        self.fs.check_writable()?;
        check_xattr(name, Errno::EPERM)?;
        let flag = |on: bool, flag: i32| if on { flag } else { 0 };
        let flags = flag(create, libc::XATTR_CREATE) | flag(replace, libc::XATTR_REPLACE);
        sys::setxattr(self.fd(), name, value, flags)
    }

    fn removexattr(&self, name: &[u8]) -> Result<()> {
        self.fs.check_writable()?;
        check_xattr(name, Errno::EPERM)?;
        sys::removexattr(self.fd(), name)
    }
}
