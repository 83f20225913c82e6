//! What a file system implements: inodes.
//!
//! An inode is a node of a tree, reached by its parent and a name; it knows neither its name nor
//! its place. Names, mounts, permissions, symbolic-link following and `..` belong to the path
//! walk above it ([`crate::namei`]), as in Linux. An implementation may assume that names are
//! valid (1 to 255 bytes, no `/`, no NUL, not `.` or `..`) and that the caller was allowed to do
//! what it asks; it must keep every single operation atomic and must never panic or block for
//! long.
//!
//! Who holds what: a dentry, an open file and a mount each hold an `Arc` of their inode, so an
//! unlinked inode lives, with its data, until the last of them is gone.

use crate::errno::{Errno, Result};
use crate::file::FileOps;
use crate::types::{
    Caller, DirEntry, FileType, OpenFlags, RenameFlags, SetAttr, Stat, StatFs, Timespec,
};
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A device number for a file system that has no device (`get_anon_bdev`): major 0, and a minor
/// that no other file system of this host process has had.
pub fn anonymous_dev() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let minor = NEXT.fetch_add(1, Ordering::Relaxed);
    // The layout of `dev_t` in `stat`: the minor's low byte, then 12 bits for the major, the rest.
    (minor & 0xff) | ((minor & !0xff) << 12)
}

/// A shared handle of an inode.
pub type InodeRef = Arc<dyn Inode>;

/// A mounted or mountable file system (`struct super_block`).
pub trait FileSystem: Send + Sync {
    /// The root directory.
    fn root(&self) -> InodeRef;

    /// Type name as `/proc/mounts` shows it: `"tmpfs"`, `"overlay"`.
    fn fs_type(&self) -> &'static str;

    /// Totals.
    fn statfs(&self) -> Result<StatFs>;

    /// Whether the file system can't be written at all; the path walk then answers `EROFS` before
    /// it asks an inode.
    fn read_only(&self) -> bool {
        false
    }

    /// Whether a name may change behind the path walk's back (a host directory): cached dentries
    /// are then looked up anew each time (`d_revalidate`).
    fn volatile(&self) -> bool {
        false
    }
}

/// Where a symbolic link leads.
pub enum LinkTarget {
    /// Text, walked from the link's directory.
    Text(Vec<u8>),
    /// A "magic" link of `/proc` (`nd_jump_link`): an open file to take as it is. Opening it gives
    /// the same open file description, as `dup(2)` does, except that a regular file or a directory
    /// is opened anew, as on Linux; walking through it uses its path.
    File(Arc<crate::file::OpenFile>),
    /// A magic link to a location, as `/proc/PID/cwd` is.
    Path(crate::namei::Path),
}

/// Whole content of an immutable file, lent from where it lies.
pub trait Content: Send + Sync {
    /// Calls `f` with all bytes. `EIO` when the backing store failed before or while `f` ran;
    /// whatever `f` made of the bytes must then be thrown away.
    fn with(&self, f: &mut dyn FnMut(&[u8])) -> Result<()>;
}

/// What to make with [`Inode::create`]: everything but symbolic links.
#[derive(Clone, Copy, Debug)]
pub struct NewNode {
    /// Kind; not a symbolic link.
    pub kind: FileType,
    /// Permission bits (07777), the mask already applied.
    pub perm: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number for device nodes, else zero.
    pub rdev: u64,
}

/// A node of a file system (`struct inode` with its operations).
pub trait Inode: Send + Sync + Any {
    /// Attributes.
    fn stat(&self) -> Result<Stat>;

    /// Kind; never changes in an inode's life.
    fn kind(&self) -> FileType;

    /// For downcasts by the file system that made the inode.
    fn as_any(&self) -> &dyn Any;

    /// Changes attributes; `ctime` becomes the present.
    fn setattr(&self, changes: &SetAttr) -> Result<()> {
        let _ = changes;
        Err(Errno::EROFS)
    }

    /// The entry called `name`; `ENOENT` if there is none. Like all calls that take a name, it runs
    /// with the directory's dentry locked and so must not walk paths of the namespace itself.
    fn lookup(&self, name: &[u8]) -> Result<InodeRef> {
        let _ = name;
        Err(Errno::ENOTDIR)
    }

    /// Makes an entry; `EEXIST` if the name is taken.
    fn create(&self, name: &[u8], node: &NewNode) -> Result<InodeRef> {
        let _ = (name, node);
        Err(Errno::EROFS)
    }

    /// Makes a symbolic link.
    fn symlink(&self, name: &[u8], target: &[u8], uid: u32, gid: u32) -> Result<InodeRef> {
        let _ = (name, target, uid, gid);
        Err(Errno::EROFS)
    }

    /// Makes a regular file without a name (`O_TMPFILE`) in the file system of this directory.
    /// [`Inode::link`] can name it later if `linkable`; otherwise that is `ENOENT`.
    fn tmpfile(&self, node: &NewNode, linkable: bool) -> Result<InodeRef> {
        let _ = (node, linkable);
        Err(Errno::ENOTSUP)
    }

    /// Gives `target`, an inode of the same file system and no directory, the further name `name`.
    fn link(&self, name: &[u8], target: &InodeRef) -> Result<()> {
        let _ = (name, target);
        Err(Errno::EROFS)
    }

    /// Removes a name that is not a directory; `EISDIR` if it is one.
    fn unlink(&self, name: &[u8]) -> Result<()> {
        let _ = name;
        Err(Errno::EROFS)
    }

    /// Removes an empty directory; `ENOTDIR`, `ENOTEMPTY`.
    fn rmdir(&self, name: &[u8]) -> Result<()> {
        let _ = name;
        Err(Errno::EROFS)
    }

    /// Moves `name` to `new_name` in `new_dir`, a directory of the same file system. The caller
    /// has ruled out that a directory moves below itself.
    fn rename(
        &self,
        name: &[u8],
        new_dir: &InodeRef,
        new_name: &[u8],
        flags: RenameFlags,
    ) -> Result<()> {
        let _ = (name, new_dir, new_name, flags);
        Err(Errno::EROFS)
    }

    /// Lists entries after `cookie` (0 starts) until `sink` returns `false`, which means that the
    /// entry it was given was not taken. Cookies are stable: an entry that stays is given exactly
    /// once in a full listing, whatever else is added or removed meanwhile.
    fn readdir(&self, cookie: u64, sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        let _ = (cookie, sink);
        Err(Errno::ENOTDIR)
    }

    /// Where a symbolic link leads; `caller` matters to `/proc/self`.
    fn readlink(&self, caller: &Caller) -> Result<LinkTarget> {
        let _ = caller;
        Err(Errno::EINVAL)
    }

    /// Makes the operations of an open file description for a regular file or a directory, or
    /// for a device the file system serves itself. Device nodes and fifos of ordinary file
    /// systems are opened by the [`crate::namei::SpecialFiles`] of the namespace instead.
    /// `O_TRUNC` was already done by `setattr`. `O_NOATIME` is set if the mount keeps no access
    /// times.
    fn open(self: Arc<Self>, flags: OpenFlags, caller: &Caller) -> Result<Arc<dyn FileOps>>;

    /// Whether `open` of a device node or fifo is served by the inode itself.
    fn opens_itself(&self) -> bool {
        matches!(self.kind(), FileType::Regular | FileType::Directory)
    }

    /// Marks a read: sets `atime` if the file system keeps it.
    fn touch_atime(&self, now: Timespec) {
        let _ = now;
    }

    /// An identity of the content that changes whenever the bytes may have; `None` if the file
    /// can be written or the file system keeps none. Lets a compiled program be found without
    /// reading the file.
    fn content_id(&self) -> Option<[u8; 32]> {
        None
    }

    /// The whole content where it lies, if it can be lent.
    fn content(&self) -> Option<Arc<dyn Content>> {
        None
    }

    /// Names of extended attributes.
    fn listxattr(&self) -> Result<Vec<Vec<u8>>> {
        Err(Errno::ENOTSUP)
    }

    /// Value of an extended attribute; `ENODATA` if missing.
    fn getxattr(&self, name: &[u8]) -> Result<Vec<u8>> {
        let _ = name;
        Err(Errno::ENOTSUP)
    }

    /// Sets an extended attribute. `create` fails with `EEXIST` if it exists, `replace` with
    /// `ENODATA` if it does not.
    fn setxattr(&self, name: &[u8], value: &[u8], create: bool, replace: bool) -> Result<()> {
        let _ = (name, value, create, replace);
        Err(Errno::ENOTSUP)
    }

    /// Removes an extended attribute; `ENODATA` if missing.
    fn removexattr(&self, name: &[u8]) -> Result<()> {
        let _ = name;
        Err(Errno::ENOTSUP)
    }
}
