//! Copy-up: giving a lower node an inode in the upper layer.

use crate::lock;
use crate::node::{Node, Place};
use crate::parked::quietly;
use std::sync::Arc;
use vfs_core::errno::{Errno, Result};
use vfs_core::file::FileOps;
use vfs_core::inode::{Inode, InodeRef, LinkTarget, NewNode};
use vfs_core::types::{Caller, FileType, OpenFlags, SetAttr, Stat};

/// Bytes copied at a time when the lower layer cannot lend a file's content.
const CHUNK: usize = 256 * 1024;

impl Node {
    /// The upper inode of this node, made if it has none; of a file's data the first `keep` bytes
    /// at most are copied.
    ///
    /// A copy keeps mode, owner, times (but `ctime`) and extended attributes. Directories above
    /// it are copied up first, each without its entries. Called with no directory locked.
    pub(crate) fn copy_up(&self, keep: u64) -> Result<&InodeRef> {
        loop {
            if let Some(upper) = self.upper.get() {
                return Ok(upper);
            }
            self.shared.writable()?;
            // A list and no recursion: the depth of a lower tree is not ours to bound.
            let mut above = Vec::new();
            let mut at = self.place();
            while let Some(Place { parent, .. }) = at {
                if parent.upper.get().is_some() {
                    break;
                }
                at = parent.place();
                above.push(parent);
            }
            for dir in above.iter().rev() {
                dir.copy_up_below(u64::MAX)?;
            }
            // Without effect if the node was moved meanwhile: then look again.
            self.copy_up_below(keep)?;
        }
    }

    /// Copies this node up if the directory it is in has an upper inode.
    fn copy_up_below(&self, keep: u64) -> Result<()> {
        let _copying = lock(&self.copying);
        if self.upper.get().is_some() {
            return Ok(());
        }
        let lower = self.real()?;
        let stat = lower.stat()?;
        let Some(place) = self.place() else {
            return self.copy_up_nameless(lower, &stat, keep);
        };
        let Some(parent) = place.parent.upper.get() else {
            return Ok(());
        };
        let state = lock(place.parent.dir()?);
        if !self.is_at(&place.parent, &place.name) {
            return Ok(());
        }
        // The directory did not change for anyone who looks at the overlay.
        let upper = quietly(parent, || duplicate(parent, &place.name, lower, &stat))?;
        let ino = upper.stat()?.ino;
        if self.kind() != FileType::Directory {
            self.shared.set_origin(ino, self.ino);
        }
        // Data takes long, so nobody is kept waiting for it. Anything else counts as copied up
        // before its directory is unlocked.
        let mut state = Some(state);
        if self.kind() == FileType::Regular {
            state = None;
        }
        match complete(lower, &upper, &stat, keep) {
            Ok(()) => {
                self.publish(upper, ino);
                Ok(())
            }
            Err(error) => {
                let _state = match state {
                    None => lock(place.parent.dir()?),
                    Some(state) => state,
                };
                self.discard(parent, &place, ino);
                Err(error)
            }
        }
    }

    /// Copies up a file that is open but has no name left.
    fn copy_up_nameless(&self, lower: &InodeRef, stat: &Stat, keep: u64) -> Result<()> {
        if self.kind() == FileType::Directory {
            return Err(Errno::ENOENT);
        }
        let top = self.shared.writable()?.root();
        let root = self.shared.root.get().and_then(std::sync::Weak::upgrade);
        let upper = {
            // Made and unlinked while the root is locked, so that no guest ever sees the name.
            let _state = match &root {
                Some(root) => Some(lock(root.dir()?)),
                None => None,
            };
            quietly(&top, || {
                for n in 0u64.. {
                    let name = format!(".nameless-{n}").into_bytes();
                    match duplicate(&top, &name, lower, stat) {
                        Err(Errno::EEXIST) => {}
                        Err(error) => return Err(error),
                        Ok(upper) => {
                            top.unlink(&name)?;
                            return Ok(upper);
                        }
                    }
                }
                Err(Errno::EEXIST)
            })?
        };
        complete(lower, &upper, stat, keep)?;
        let ino = upper.stat()?.ino;
        self.publish(upper, ino);
        Ok(())
    }

    /// From here on the node is its upper inode.
    fn publish(&self, upper: InodeRef, ino: u64) {
        if let Some(set) = self.link_set() {
            self.shared.links.copied_up(set, ino, &upper);
        }
        // Set once, under `copying`.
        let _ = self.upper.set(upper);
        if self.kind() != FileType::Directory {
            self.set_place(None);
            // Kept any longer it would keep its data after its last name.
            self.shared.recent.release(self);
        }
    }

    /// Takes a failed copy away again; its directory is locked.
    fn discard(&self, parent: &InodeRef, place: &Place, ino: u64) {
        let ours = parent
            .lookup(&place.name)
            .and_then(|i| i.stat())
            .is_ok_and(|s| s.ino == ino);
        if ours {
            // If this fails too, a stale partial copy stays; nothing better can be done.
            let _ = match self.kind() {
                FileType::Directory => parent.rmdir(&place.name),
                _ => parent.unlink(&place.name),
            };
        }
        self.shared.forget_origin(ino);
    }
}

/// Makes an inode like `lower` in `parent`, without data.
fn duplicate(parent: &InodeRef, name: &[u8], lower: &InodeRef, stat: &Stat) -> Result<InodeRef> {
    if lower.kind() == FileType::Symlink {
        let LinkTarget::Text(target) = lower.readlink(&Caller::host())? else {
            return Err(Errno::EPERM);
        };
        return parent.symlink(name, &target, stat.uid, stat.gid);
    }
    let node = NewNode {
        kind: lower.kind(),
        perm: stat.perm(),
        uid: stat.uid,
        gid: stat.gid,
        rdev: stat.rdev,
    };
    parent.create(name, &node)
}

/// Copies data, extended attributes, mode and times.
fn complete(lower: &InodeRef, upper: &InodeRef, stat: &Stat, keep: u64) -> Result<()> {
    let len = stat.size.min(keep);
    if lower.kind() == FileType::Regular && len > 0 {
        copy_data(lower, upper, len)?;
    }
    copy_xattrs(lower, upper)?;
    let changes = SetAttr {
        // Writing may have cleared set-ID bits.
        mode: (lower.kind() != FileType::Symlink).then_some(stat.perm()),
        atime: Some(stat.atime),
        mtime: Some(stat.mtime),
        ..SetAttr::default()
    };
    upper.setattr(&changes)
}

fn copy_xattrs(lower: &InodeRef, upper: &InodeRef) -> Result<()> {
    let names = match lower.listxattr() {
        Ok(names) => names,
        Err(Errno::ENOTSUP) => return Ok(()),
        Err(error) => return Err(error),
    };
    for name in names {
        match lower.getxattr(&name) {
            Ok(value) => upper.setxattr(&name, &value, false, false)?,
            Err(Errno::ENODATA) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// An open file of a layer, released when done.
struct Opened(Arc<dyn FileOps>, OpenFlags);

impl Opened {
    fn new(inode: &InodeRef, flags: OpenFlags) -> Result<Opened> {
        Ok(Opened(inode.clone().open(flags, &Caller::host())?, flags))
    }

    fn write_all(&self, mut buf: &[u8], mut offset: u64) -> Result<()> {
        while !buf.is_empty() {
            let n = self.0.write_at(buf, offset)?;
            if n == 0 {
                return Err(Errno::EIO);
            }
            buf = buf.get(n..).ok_or(Errno::EIO)?;
            offset += n as u64;
        }
        Ok(())
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.0.release(self.1);
    }
}

/// Copies the first `len` bytes; what the lower layer knows as a hole stays one.
fn copy_data(lower: &InodeRef, upper: &InodeRef, len: u64) -> Result<()> {
    let to = Opened::new(upper, OpenFlags::WRONLY)?;
    if let Some(content) = lower.content() {
        let mut result = Ok(());
        content.with(&mut |bytes| {
            let bytes = usize::try_from(len).ok().and_then(|len| bytes.get(..len));
            result = bytes
                .ok_or(Errno::EIO)
                .and_then(|bytes| to.write_all(bytes, 0));
        })?;
        return result;
    }
    let from = Opened::new(lower, OpenFlags::empty())?;
    let mut buf = vec![0; CHUNK.min(usize::try_from(len).unwrap_or(CHUNK))];
    let mut at = 0;
    while at < len {
        let data = match from.0.seek_data_hole(at, false) {
            Ok(data) => data.max(at),
            Err(Errno::ENXIO) => break,
            Err(error) => return Err(error),
        };
        let end = from.0.seek_data_hole(data, true)?;
        if end <= data {
            return Err(Errno::EIO);
        }
        at = data;
        while at < end.min(len) {
            let left = usize::try_from(end.min(len) - at).unwrap_or(CHUNK);
            let want = buf.len().min(left);
            let n = from.0.read_at(buf.get_mut(..want).ok_or(Errno::EIO)?, at)?;
            if n == 0 {
                return Err(Errno::EIO);
            }
            to.write_all(buf.get(..n).ok_or(Errno::EIO)?, at)?;
            at += n as u64;
        }
    }
    // A hole at the end.
    upper.setattr(&SetAttr {
        size: Some(len),
        ..SetAttr::default()
    })
}
