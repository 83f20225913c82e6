//! Mounts and the mount namespace: many file systems, one tree.
//!
//! A [`Namespace`] belongs to one VM. It holds a dentry tree per file system instance, shared by
//! all mounts of that instance in the namespace, so a name has one dentry however it is reached.
//! Two namespaces that mount the same instance have trees of their own; if both write to it, the
//! file system should call itself [volatile](crate::FileSystem::volatile).

use crate::dentry::Dentry;
use crate::errno::{Errno, Result};
use crate::inode::{FileSystem, InodeRef};
use crate::namei::{Path, SpecialFiles};
use crate::sync::{lock, read, write};
use crate::types::{FileType, Timespec};
use bitflags::bitflags;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, RwLock, Weak};

bitflags! {
    /// Options of a mount, with the numbers of `mount(2)`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub struct MountFlags: u32 {
        /// Nothing can be written.
        const RDONLY = 1;
        /// Set-user-ID and set-group-ID bits have no effect on programs.
        const NOSUID = 2;
        /// Device nodes can't be opened.
        const NODEV = 4;
        /// Programs can't be started.
        const NOEXEC = 8;
        /// Reading does not change access times.
        const NOATIME = 1024;
    }
}

/// A file system at a place in the tree (`struct mount`).
pub struct Mount {
    id: u32,
    fs: Arc<dyn FileSystem>,
    root: Arc<Dentry>,
    source: String,
    flags: AtomicU32,
    /// Where it is mounted; `None` for the root of the namespace and after an unmount.
    at: Mutex<Option<Path>>,
}

impl Mount {
    /// A number that no other mount of the namespace has had.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The file system.
    pub fn fs(&self) -> &Arc<dyn FileSystem> {
        &self.fs
    }

    /// The dentry that is the top of this mount.
    pub fn root(&self) -> &Arc<Dentry> {
        &self.root
    }

    /// The options now.
    pub fn flags(&self) -> MountFlags {
        MountFlags::from_bits_retain(self.flags.load(Ordering::Relaxed))
    }

    /// Where it is mounted; `None` for the root of the namespace and when it is not any more.
    pub fn mountpoint(&self) -> Option<Path> {
        lock(&self.at).clone()
    }

    /// Whether nothing can be written here (`EROFS`).
    pub fn is_read_only(&self) -> bool {
        self.flags().contains(MountFlags::RDONLY) || self.fs.read_only()
    }

    /// Marks a read of `inode` through this mount, if the mount keeps access times.
    pub(crate) fn touch_atime(&self, inode: &InodeRef) {
        if self.keeps_atime() {
            inode.touch_atime(Timespec::now());
        }
    }

    /// Whether reads through this mount may change access times.
    pub(crate) fn keeps_atime(&self) -> bool {
        !self
            .flags()
            .intersects(MountFlags::NOATIME | MountFlags::RDONLY)
            && !self.fs.read_only()
    }
}

impl std::fmt::Debug for Mount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mount")
            .field("id", &self.id)
            .field("fs_type", &self.fs.fs_type())
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

/// What a mount looks like from outside, as a line of `/proc/self/mountinfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountInfo {
    /// Number of the mount.
    pub id: u32,
    /// Number of the mount it is on; its own for the root.
    pub parent: u32,
    /// Absolute path of the mountpoint.
    pub mountpoint: Vec<u8>,
    /// Path, within its file system, of what is mounted.
    pub root: Vec<u8>,
    /// Type name.
    pub fs_type: &'static str,
    /// Source as given when it was mounted.
    pub source: String,
    /// Options.
    pub flags: MountFlags,
}

/// The path of a location (`d_path`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AbsolutePath {
    /// The path, beginning with `/`.
    pub bytes: Vec<u8>,
    /// The name was removed; Linux shows ` (deleted)` after it.
    pub deleted: bool,
    /// It is not below the given root; Linux shows `(unreachable)` before it.
    pub unreachable: bool,
}

/// The tree of one VM (`struct mnt_namespace`).
pub struct Namespace {
    table: RwLock<Table>,
    /// Held while a rename moves names, so that two of them can't build a loop of directories and
    /// nobody reads half a path (`s_vfs_rename_mutex`, `rename_lock`).
    pub(crate) rename: RwLock<()>,
    root: Path,
    special: Arc<dyn SpecialFiles>,
}

struct Table {
    /// What is mounted on a dentry of a mount, topmost last.
    on: HashMap<(u32, usize), Vec<Arc<Mount>>>,
    /// In order of mounting.
    all: Vec<Arc<Mount>>,
    next_id: u32,
    /// Dentry trees by address of the file system instance.
    trees: HashMap<usize, (Weak<dyn FileSystem>, Weak<Dentry>)>,
}

fn address<T: ?Sized>(of: &Arc<T>) -> usize {
    Arc::as_ptr(of).cast::<()>() as usize
}

impl Table {
    /// The dentry tree of a file system in this namespace.
    fn tree(&mut self, fs: &Arc<dyn FileSystem>) -> Arc<Dentry> {
        let key = address(fs);
        if let Some((known, root)) = self.trees.get(&key)
            && known.strong_count() > 0
            && let Some(root) = root.upgrade()
        {
            return root;
        }
        let root = Dentry::root(fs.root(), fs.volatile());
        self.trees.retain(|_, (_, root)| root.strong_count() > 0);
        self.trees
            .insert(key, (Arc::downgrade(fs), Arc::downgrade(&root)));
        root
    }
}

impl Namespace {
    /// A namespace with one mount, its root. `special` opens device nodes and fifos.
    pub fn new(
        root_fs: Arc<dyn FileSystem>,
        flags: MountFlags,
        special: Arc<dyn SpecialFiles>,
    ) -> Arc<Namespace> {
        let mut table = Table {
            on: HashMap::new(),
            all: Vec::new(),
            next_id: 2,
            trees: HashMap::new(),
        };
        let dentry = table.tree(&root_fs);
        let mount = Arc::new(Mount {
            id: 1,
            source: root_fs.fs_type().to_owned(),
            fs: root_fs,
            root: dentry.clone(),
            flags: AtomicU32::new(flags.bits()),
            at: Mutex::new(None),
        });
        table.all.push(mount.clone());
        Arc::new(Namespace {
            table: RwLock::new(table),
            rename: RwLock::new(()),
            root: Path { mount, dentry },
            special,
        })
    }

    /// The root of the tree.
    pub fn root(&self) -> Path {
        self.root.clone()
    }

    /// Who opens device nodes and fifos.
    pub fn special(&self) -> &Arc<dyn SpecialFiles> {
        &self.special
    }

    /// Mounts `fs` on `at`: `ENOTDIR` unless both are directories or both are not, `ENOENT` if
    /// `at` was removed. The root itself can't be mounted over (`EBUSY`).
    pub fn mount(
        &self,
        at: &Path,
        fs: Arc<dyn FileSystem>,
        flags: MountFlags,
        source: &str,
    ) -> Result<Arc<Mount>> {
        let mut table = write(&self.table);
        let root = table.tree(&fs);
        self.attach(&mut table, at, fs, root, flags, source)
    }

    /// Mounts what is at `from` on `at` as well (`MS_BIND`).
    pub fn bind(&self, at: &Path, from: &Path, flags: MountFlags) -> Result<Arc<Mount>> {
        let mut table = write(&self.table);
        let mount = &from.mount;
        self.attach(
            &mut table,
            at,
            mount.fs.clone(),
            from.dentry.clone(),
            flags,
            &mount.source,
        )
    }

    fn attach(
        &self,
        table: &mut Table,
        at: &Path,
        fs: Arc<dyn FileSystem>,
        root: Arc<Dentry>,
        flags: MountFlags,
        source: &str,
    ) -> Result<Arc<Mount>> {
        if (root.kind() == FileType::Directory) != at.is_dir() {
            return Err(Errno::ENOTDIR);
        }
        if *at == self.root {
            return Err(Errno::EBUSY);
        }
        at.dentry.add_mount();
        if at.dentry.is_deleted() {
            at.dentry.remove_mount();
            return Err(Errno::ENOENT);
        }
        let mount = Arc::new(Mount {
            id: table.next_id,
            fs,
            root,
            source: source.to_owned(),
            flags: AtomicU32::new(flags.bits()),
            at: Mutex::new(Some(at.clone())),
        });
        table.next_id = table.next_id.checked_add(1).ok_or(Errno::ENOSPC)?;
        table
            .on
            .entry((at.mount.id, address(&at.dentry)))
            .or_default()
            .push(mount.clone());
        table.all.push(mount.clone());
        Ok(mount)
    }

    /// Unmounts the mount whose root `at` is. `EINVAL` if it is no mount's root, `EBUSY` if
    /// anything else holds a location in it or another mount is on it, or if it is the root.
    pub fn umount(&self, at: &Path) -> Result<()> {
        self.unmount(at, true)
    }

    /// Takes a mount out of the tree although it is in use (`MNT_DETACH`), with all mounts below;
    /// it ends when its last user does.
    pub fn detach(&self, at: &Path) -> Result<()> {
        self.unmount(at, false)
    }

    fn unmount(&self, at: &Path, refuse_busy: bool) -> Result<()> {
        // Dropped last, after the table's lock: a file system may end with it.
        let mut ended = Vec::new();
        let mut table = write(&self.table);
        let mount = &at.mount;
        if !Arc::ptr_eq(&mount.root, &at.dentry) || !table.all.iter().any(|m| Arc::ptr_eq(m, mount))
        {
            return Err(Errno::EINVAL);
        }
        if Arc::ptr_eq(mount, &self.root.mount) {
            return Err(Errno::EBUSY);
        }
        // The list, the mountpoint's stack and `at` hold it.
        if refuse_busy && Arc::strong_count(mount) > 3 {
            return Err(Errno::EBUSY);
        }
        let mut doomed = vec![mount.clone()];
        while let Some(mount) = doomed.pop() {
            for child in &table.all {
                if lock(&child.at)
                    .as_ref()
                    .is_some_and(|p| Arc::ptr_eq(&p.mount, &mount))
                {
                    doomed.push(child.clone());
                }
            }
            table.all.retain(|m| !Arc::ptr_eq(m, &mount));
            let place = lock(&mount.at).take();
            if let Some(place) = place {
                let key = (place.mount.id, address(&place.dentry));
                if let Some(stack) = table.on.get_mut(&key) {
                    stack.retain(|m| !Arc::ptr_eq(m, &mount));
                    if stack.is_empty() {
                        table.on.remove(&key);
                    }
                }
                place.dentry.remove_mount();
                ended.push((place, mount));
            }
        }
        drop(table);
        Ok(())
    }

    /// Changes the options of the mount whose root `at` is; `EINVAL` if it is no mount's root.
    pub fn remount(&self, at: &Path, flags: MountFlags) -> Result<()> {
        if !Arc::ptr_eq(&at.mount.root, &at.dentry) {
            return Err(Errno::EINVAL);
        }
        at.mount.flags.store(flags.bits(), Ordering::Relaxed);
        Ok(())
    }

    /// Every mount, in order of mounting.
    pub fn mounts(&self) -> Vec<MountInfo> {
        let all: Vec<Arc<Mount>> = read(&self.table).all.clone();
        all.iter()
            .map(|mount| {
                let at = mount.mountpoint();
                let top = Path {
                    mount: mount.clone(),
                    dentry: mount.root.clone(),
                };
                MountInfo {
                    id: mount.id,
                    parent: at.as_ref().map_or(mount.id, |at| at.mount.id),
                    mountpoint: self.absolute(&top, &self.root).bytes,
                    root: path_in_fs(&mount.root),
                    fs_type: mount.fs.fs_type(),
                    source: mount.source.clone(),
                    flags: mount.flags(),
                }
            })
            .collect()
    }

    /// The path of `p` as seen from `root` (`d_path`).
    pub fn absolute(&self, p: &Path, root: &Path) -> AbsolutePath {
        let _still = read(&self.rename);
        let deleted = p.dentry.is_deleted();
        let mut names: Vec<Arc<[u8]>> = Vec::new();
        let mut at = p.clone();
        let unreachable = loop {
            if at == *root {
                break false;
            }
            if Arc::ptr_eq(&at.dentry, &at.mount.root) {
                match at.mount.mountpoint() {
                    Some(up) => at = up,
                    None => break true,
                }
                continue;
            }
            let (parent, name) = at.dentry.place();
            names.push(name);
            match parent {
                Some(parent) => at.dentry = parent,
                None => break true,
            }
        };
        let mut bytes = Vec::with_capacity(names.iter().map(|n| n.len() + 1).sum::<usize>().max(1));
        for name in names.iter().rev() {
            bytes.push(b'/');
            bytes.extend_from_slice(name);
        }
        if bytes.is_empty() {
            bytes.push(b'/');
        }
        AbsolutePath {
            bytes,
            deleted,
            unreachable,
        }
    }

    /// Steps from a mountpoint to the root of what is mounted on it, as often as there is one.
    pub(crate) fn cross_down(&self, path: &mut Path) {
        while path.dentry.is_mountpoint() {
            let table = read(&self.table);
            let key = (path.mount.id, address(&path.dentry));
            let Some(top) = table.on.get(&key).and_then(|stack| stack.last()) else {
                return;
            };
            let top = top.clone();
            drop(table);
            path.dentry = top.root.clone();
            path.mount = top;
        }
    }
}

/// The path of a dentry within its file system.
fn path_in_fs(dentry: &Arc<Dentry>) -> Vec<u8> {
    let mut names = Vec::new();
    let mut at = dentry.clone();
    while let (Some(parent), name) = at.place() {
        names.push(name);
        at = parent;
    }
    let mut bytes = Vec::new();
    for name in names.iter().rev() {
        bytes.push(b'/');
        bytes.extend_from_slice(name);
    }
    if bytes.is_empty() {
        bytes.push(b'/');
    }
    bytes
}

impl std::fmt::Debug for Namespace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Namespace")
            .field("mounts", &self.mounts())
            .finish_non_exhaustive()
    }
}
