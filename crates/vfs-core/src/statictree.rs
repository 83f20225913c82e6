//! Read-only trees in memory: the lowest layer of a VM's root.
//!
//! A tree is built once, with [`StaticFs::builder`], and shared by any number of VMs: it has no
//! locks and nothing in it ever changes.
//!
//! ```
//! use vfs_core::statictree::StaticFs;
//!
//! let fs = StaticFs::builder()
//!     .dir("/tmp", 0o1777)
//!     .file("/etc/hostname", 0o644, "agentos\n")
//!     .symlink("/bin/sh", "/opt/agentos/bin/sh")
//!     .dir("/home/agentos", 0o755)
//!     .owner("/home/agentos", 1000, 1000)
//!     .build()?;
//! # Ok::<(), vfs_core::statictree::BuildError>(())
//! ```

use crate::errno::{Errno, Result};
use crate::file::FileOps;
use crate::inode::{Content, FileSystem, Inode, InodeRef, LinkTarget, anonymous_dev};
use crate::types::{
    Caller, DirEntry, FileType, NAME_MAX, OpenFlags, PATH_MAX, Stat, StatFs, Timespec,
};
use std::any::Any;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// `RAMFS_MAGIC`.
const MAGIC: u64 = 0x8584_58f6;
/// Cookies of entries begin after those of the start, `.` and `..`.
const FIRST_COOKIE: u64 = 3;

/// What is wrong with a tree that can't be built. The path is the one given to the builder.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// A component is `.` or `..`, longer than 255 bytes or holds a NUL, or there is none.
    #[error("{0:?} is not the path of an entry")]
    BadPath(String),
    /// The text of a symbolic link is empty, too long or holds a NUL.
    #[error("{0:?} is a symbolic link to nothing that is a path")]
    BadTarget(String),
    /// The path is there already as something else, or leads through what is no directory.
    #[error("{0:?} is there already, or leads through a file")]
    Conflict(String),
    /// An owner was given to a path that nothing was made at.
    #[error("{0:?} does not exist")]
    Missing(String),
}

/// Gathers the entries of a [`StaticFs`]. Directories on the way are made with mode 0755; the
/// first mistake is kept for [`Builder::build`].
pub struct Builder {
    root: Plan,
    time: Timespec,
    error: Option<BuildError>,
}

/// A node while it is gathered.
struct Plan {
    perm: u32,
    uid: u32,
    gid: u32,
    body: PlanBody,
}

enum PlanBody {
    Dir(BTreeMap<Vec<u8>, Plan>),
    File(Cow<'static, [u8]>),
    Link(Vec<u8>),
}

impl Plan {
    fn new(perm: u32, body: PlanBody) -> Plan {
        Plan {
            perm: perm & 0o7777,
            uid: 0,
            gid: 0,
            body,
        }
    }

    fn dir(perm: u32) -> Plan {
        Plan::new(perm, PlanBody::Dir(BTreeMap::new()))
    }
}

/// The components of a path, checked.
fn components(path: &str) -> std::result::Result<Vec<&[u8]>, BuildError> {
    let parts: Vec<&[u8]> = path
        .split('/')
        .filter(|part| !part.is_empty())
        .map(str::as_bytes)
        .collect();
    let bad =
        |part: &&[u8]| part.len() > NAME_MAX || matches!(*part, b"." | b"..") || part.contains(&0);
    if parts.iter().any(bad) {
        return Err(BuildError::BadPath(path.to_owned()));
    }
    Ok(parts)
}

impl Builder {
    fn new() -> Builder {
        Builder {
            root: Plan::dir(0o755),
            time: Timespec::default(),
            error: None,
        }
    }

    /// Times of all entries; the epoch if not given.
    pub fn time(mut self, time: Timespec) -> Builder {
        self.time = time;
        self
    }

    /// A directory. One that is there gets this mode; `/` is the root.
    pub fn dir(self, path: &str, perm: u32) -> Builder {
        self.add(path, |slot| match slot {
            None => Ok(Plan::dir(perm)),
            Some(mut old) if matches!(old.body, PlanBody::Dir(_)) => {
                old.perm = perm & 0o7777;
                Ok(old)
            }
            Some(_) => Err(BuildError::Conflict(path.to_owned())),
        })
    }

    /// A regular file.
    pub fn file(self, path: &str, perm: u32, content: impl Into<Bytes>) -> Builder {
        let content = content.into().0;
        self.add(path, |slot| match slot {
            None => Ok(Plan::new(perm, PlanBody::File(content))),
            Some(_) => Err(BuildError::Conflict(path.to_owned())),
        })
    }

    /// A symbolic link.
    pub fn symlink(self, path: &str, target: &str) -> Builder {
        self.add(path, |slot| match slot {
            Some(_) => Err(BuildError::Conflict(path.to_owned())),
            None if target.is_empty() || target.len() >= PATH_MAX || target.contains('\0') => {
                Err(BuildError::BadTarget(path.to_owned()))
            }
            None => Ok(Plan::new(0o777, PlanBody::Link(target.into()))),
        })
    }

    /// Gives an entry made before to a user and a group; all are root's otherwise.
    pub fn owner(self, path: &str, uid: u32, gid: u32) -> Builder {
        self.add(path, |slot| match slot {
            Some(mut old) => {
                (old.uid, old.gid) = (uid, gid);
                Ok(old)
            }
            None => Err(BuildError::Missing(path.to_owned())),
        })
    }

    /// Puts what `make` makes of the entry at `path`, if there is one, in its place.
    fn add(
        mut self,
        path: &str,
        make: impl FnOnce(Option<Plan>) -> std::result::Result<Plan, BuildError>,
    ) -> Builder {
        if self.error.is_none() {
            self.error = self.try_add(path, make).err();
        }
        self
    }

    fn try_add(
        &mut self,
        path: &str,
        make: impl FnOnce(Option<Plan>) -> std::result::Result<Plan, BuildError>,
    ) -> std::result::Result<(), BuildError> {
        let parts = components(path)?;
        let Some((name, above)) = parts.split_last() else {
            let old = std::mem::replace(&mut self.root, Plan::dir(0o755));
            let new = make(Some(old))?;
            self.root = new;
            return Ok(());
        };
        let mut dir = &mut self.root;
        for part in above {
            let PlanBody::Dir(entries) = &mut dir.body else {
                return Err(BuildError::Conflict(path.to_owned()));
            };
            dir = entries
                .entry(part.to_vec())
                .or_insert_with(|| Plan::dir(0o755));
        }
        let PlanBody::Dir(entries) = &mut dir.body else {
            return Err(BuildError::Conflict(path.to_owned()));
        };
        let new = make(entries.remove(*name))?;
        entries.insert(name.to_vec(), new);
        Ok(())
    }

    /// The tree, or the first mistake made.
    pub fn build(self) -> std::result::Result<Arc<StaticFs>, BuildError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        if !matches!(self.root.body, PlanBody::Dir(_)) {
            return Err(BuildError::Conflict("/".to_owned()));
        }
        let mut maker = Maker {
            dev: anonymous_dev(),
            time: self.time,
            next_ino: 1,
        };
        let root = maker.make(self.root);
        Ok(Arc::new(StaticFs {
            root,
            nodes: maker.next_ino - 1,
        }))
    }
}

/// Content of a file, owned or lent for ever.
pub struct Bytes(Cow<'static, [u8]>);

impl From<&'static str> for Bytes {
    fn from(text: &'static str) -> Bytes {
        Bytes(Cow::Borrowed(text.as_bytes()))
    }
}

impl From<&'static [u8]> for Bytes {
    fn from(bytes: &'static [u8]) -> Bytes {
        Bytes(Cow::Borrowed(bytes))
    }
}

impl<const N: usize> From<&'static [u8; N]> for Bytes {
    fn from(bytes: &'static [u8; N]) -> Bytes {
        Bytes(Cow::Borrowed(bytes))
    }
}

impl From<String> for Bytes {
    fn from(text: String) -> Bytes {
        Bytes(Cow::Owned(text.into_bytes()))
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Bytes {
        Bytes(Cow::Owned(bytes))
    }
}

/// Turns plans into nodes.
struct Maker {
    dev: u64,
    time: Timespec,
    next_ino: u64,
}

impl Maker {
    fn make(&mut self, plan: Plan) -> Arc<Node> {
        let ino = self.next_ino;
        self.next_ino += 1;
        let mut nlink = 1;
        let (kind, size, body) = match plan.body {
            PlanBody::File(bytes) => (FileType::Regular, bytes.len(), Body::File(bytes)),
            PlanBody::Link(text) => (FileType::Symlink, text.len(), Body::Link(text.into())),
            PlanBody::Dir(entries) => {
                let entries: Box<[Entry]> = entries
                    .into_iter()
                    .map(|(name, plan)| (name.into_boxed_slice(), self.make(plan)))
                    .collect();
                let dirs = entries
                    .iter()
                    .filter(|(_, node)| node.kind == FileType::Directory);
                nlink = 2 + dirs.count() as u32;
                (FileType::Directory, 0, Body::Dir(entries))
            }
        };
        let stat = Stat {
            dev: self.dev,
            ino,
            mode: kind.mode_bits() | plan.perm,
            nlink,
            uid: plan.uid,
            gid: plan.gid,
            rdev: 0,
            size: size as u64,
            blocks: (size as u64).div_ceil(512),
            atime: self.time,
            mtime: self.time,
            ctime: self.time,
            btime: self.time,
        };
        Arc::new(Node { kind, stat, body })
    }
}

/// A read-only file system in memory.
pub struct StaticFs {
    root: Arc<Node>,
    nodes: u64,
}

impl StaticFs {
    /// Begins a tree.
    pub fn builder() -> Builder {
        Builder::new()
    }
}

impl FileSystem for StaticFs {
    fn root(&self) -> InodeRef {
        self.root.clone()
    }

    fn fs_type(&self) -> &'static str {
        "ramfs"
    }

    fn statfs(&self) -> Result<StatFs> {
        Ok(StatFs {
            magic: MAGIC,
            bsize: 4096,
            files: self.nodes,
            namelen: NAME_MAX as u64,
            ..StatFs::default()
        })
    }

    fn read_only(&self) -> bool {
        true
    }
}

/// A node of the tree; immutable.
struct Node {
    kind: FileType,
    stat: Stat,
    body: Body,
}

/// A name and what it is.
type Entry = (Box<[u8]>, Arc<Node>);

enum Body {
    /// Sorted by name.
    Dir(Box<[Entry]>),
    File(Cow<'static, [u8]>),
    Link(Box<[u8]>),
}

impl Node {
    fn bytes(&self) -> Result<&[u8]> {
        match &self.body {
            Body::File(bytes) => Ok(bytes),
            Body::Dir(_) => Err(Errno::EISDIR),
            Body::Link(_) => Err(Errno::EINVAL),
        }
    }
}

impl Inode for Node {
    fn stat(&self) -> Result<Stat> {
        Ok(self.stat)
    }

    fn kind(&self) -> FileType {
        self.kind
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn lookup(&self, name: &[u8]) -> Result<InodeRef> {
        let Body::Dir(entries) = &self.body else {
            return Err(Errno::ENOTDIR);
        };
        match entries.binary_search_by(|(have, _)| (**have).cmp(name)) {
            Ok(at) => Ok(entries[at].1.clone()),
            Err(_) => Err(Errno::ENOENT),
        }
    }

    fn readdir(&self, cookie: u64, sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        let Body::Dir(entries) = &self.body else {
            return Err(Errno::ENOTDIR);
        };
        // The cookie after an entry is its place plus one, above the reserved ones.
        let start = usize::try_from(cookie.saturating_sub(FIRST_COOKIE - 1)).unwrap_or(usize::MAX);
        for (at, (name, node)) in entries.iter().enumerate().skip(start) {
            let next = at as u64 + FIRST_COOKIE;
            if !sink(DirEntry {
                name,
                ino: node.stat.ino,
                kind: node.kind,
                next,
            }) {
                break;
            }
        }
        Ok(())
    }

    fn readlink(&self, _caller: &Caller) -> Result<LinkTarget> {
        match &self.body {
            Body::Link(text) => Ok(LinkTarget::Text(text.to_vec())),
            _ => Err(Errno::EINVAL),
        }
    }

    fn open(self: Arc<Self>, flags: OpenFlags, _caller: &Caller) -> Result<Arc<dyn FileOps>> {
        if flags.writable() {
            return Err(Errno::EROFS);
        }
        Ok(Arc::new(Open(self)))
    }

    fn content(&self) -> Option<Arc<dyn Content>> {
        match &self.body {
            Body::File(bytes) => Some(Arc::new(Lent(bytes.clone()))),
            _ => None,
        }
    }

    fn listxattr(&self) -> Result<Vec<Vec<u8>>> {
        Ok(Vec::new())
    }
}

/// A file's bytes, lent.
struct Lent(Cow<'static, [u8]>);

impl Content for Lent {
    fn with(&self, f: &mut dyn FnMut(&[u8])) -> Result<()> {
        f(&self.0);
        Ok(())
    }
}

/// An open file or directory.
struct Open(Arc<Node>);

impl FileOps for Open {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let bytes = self.0.bytes()?;
        let start = usize::try_from(offset)
            .unwrap_or(usize::MAX)
            .min(bytes.len());
        let rest = &bytes[start..];
        let n = rest.len().min(buf.len());
        buf[..n].copy_from_slice(&rest[..n]);
        Ok(n)
    }

    fn write_at(&self, _buf: &[u8], _offset: u64) -> Result<usize> {
        Err(Errno::EROFS)
    }

    fn size(&self) -> Result<u64> {
        Ok(self.0.stat.size)
    }

    fn readdir(&self, cookie: u64, sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        self.0.readdir(cookie, sink)
    }
}
