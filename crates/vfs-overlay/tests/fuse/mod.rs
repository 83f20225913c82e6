//! Mounts a [`Namespace`] on the host through FUSE, so that programs written for Linux can judge
//! it. Test-only: the product never shows its tree to the host.
//!
//! Every request is carried out with the credentials of the process that made it, and the
//! kernel's own permission checks stay off, so the code under test decides. Each inode the kernel
//! knows is kept as a location (`Path`) until the kernel forgets it.

mod calls;
mod convert;

use convert::{fuse_kind, rdev_out, to_system};
use fuser::{
    BackgroundSession, Config, FileAttr, FileHandle, FopenFlags, INodeNo, MountOption, Request,
    SessionACL,
};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use vfs_core::namei::fd;
use vfs_core::{
    At, Caller, Cred, Errno, FileOps, FileSystem, FileType, InodeRef, Lookup, MountFlags,
    Namespace, OpenFile, OpenFlags, Path, Result, SpecialFiles, Stat, TimeSet,
};

/// Opens devices and fifos as if they were there. The kernel opens the real ones itself; ours are
/// opened only to change their attributes.
struct AnySpecial;

struct Placeholder;

impl FileOps for Placeholder {
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }

    fn read_at(&self, _buf: &mut [u8], _offset: u64) -> Result<usize> {
        Err(Errno::EINVAL)
    }

    fn write_at(&self, _buf: &[u8], _offset: u64) -> Result<usize> {
        Err(Errno::EINVAL)
    }
}

impl SpecialFiles for AnySpecial {
    fn open(
        &self,
        _inode: &InodeRef,
        _stat: &Stat,
        _flags: OpenFlags,
        _caller: &Caller,
    ) -> Result<Arc<dyn FileOps>> {
        Ok(Arc::new(Placeholder))
    }
}

struct Known {
    path: Path,
    lookups: u64,
}

/// The bridge: a namespace as the kernel's file system.
pub(crate) struct Bridge {
    ns: Arc<Namespace>,
    root: Path,
    root_ino: u64,
    nodes: Mutex<HashMap<u64, Known>>,
    files: Mutex<(u64, HashMap<u64, Arc<OpenFile>>)>,
    /// How regular files are opened.
    data: FopenFlags,
}

/// Whether the kernel may keep file data, which mappings of files need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code, reason = "each test binary uses its part")]
pub(crate) enum Data {
    /// Every read and write reaches us.
    Direct,
    /// The kernel has a page cache.
    Cached,
}

/// Mounts `fs` at `mountpoint` until the session is dropped.
pub(crate) fn mount(
    fs: Arc<dyn FileSystem>,
    mountpoint: &std::path::Path,
    data: Data,
) -> std::io::Result<BackgroundSession> {
    let ns = Namespace::new(fs, MountFlags::empty(), Arc::new(AnySpecial));
    let root = ns.root();
    let root_ino = root.inode().stat().map_err(std::io::Error::other)?.ino;
    let known = Known {
        path: root.clone(),
        lookups: u64::MAX / 2,
    };
    let bridge = Bridge {
        ns,
        root,
        root_ino,
        nodes: Mutex::new(HashMap::from([(1, known)])),
        files: Mutex::new((1, HashMap::new())),
        data: match data {
            Data::Direct => FopenFlags::FOPEN_DIRECT_IO,
            Data::Cached => FopenFlags::empty(),
        },
    };
    let mut config = Config::default();
    config.acl = SessionACL::All;
    config.mount_options = vec![
        MountOption::FSName("bridge".into()),
        MountOption::Dev,
        MountOption::Suid,
    ];
    fuser::spawn_mount(bridge, mountpoint, &config)
}

/// Supplementary groups, which FUSE does not send.
fn groups_of(pid: u32) -> Vec<u32> {
    let Ok(status) = std::fs::read_to_string(format!("/proc/{pid}/status")) else {
        return Vec::new();
    };
    status
        .lines()
        .find_map(|line| line.strip_prefix("Groups:"))
        .map(|groups| {
            groups
                .split_whitespace()
                .filter_map(|g| g.parse().ok())
                .collect()
        })
        .unwrap_or_default()
}

impl Bridge {
    fn caller(&self, req: &Request) -> Caller {
        let mut cred = Cred::user(req.uid(), req.gid());
        if req.uid() != 0 {
            cred.groups = groups_of(req.pid());
        }
        // The kernel has applied the mask.
        Caller {
            cred: Arc::new(cred),
            pid: req.pid(),
            umask: 0,
        }
    }

    /// The number the kernel knows an inode by: the root must be 1.
    fn node_id(&self, ino: u64) -> u64 {
        match ino {
            _ if ino == self.root_ino => 1,
            1 => self.root_ino,
            _ => ino,
        }
    }

    fn path(&self, ino: INodeNo) -> Result<Path> {
        let nodes = self.nodes.lock().unwrap();
        nodes
            .get(&ino.0)
            .map(|known| known.path.clone())
            .ok_or(Errno::ESTALE)
    }

    fn file(&self, fh: FileHandle) -> Result<Arc<OpenFile>> {
        self.files
            .lock()
            .unwrap()
            .1
            .get(&fh.0)
            .cloned()
            .ok_or(Errno::EBADF)
    }

    fn keep(&self, file: Arc<OpenFile>) -> FileHandle {
        let mut files = self.files.lock().unwrap();
        let fh = files.0;
        files.0 += 1;
        files.1.insert(fh, file);
        FileHandle(fh)
    }

    fn attr(&self, stat: &Stat) -> FileAttr {
        FileAttr {
            ino: INodeNo(self.node_id(stat.ino)),
            size: stat.size,
            blocks: stat.blocks,
            atime: to_system(stat.atime),
            mtime: to_system(stat.mtime),
            ctime: to_system(stat.ctime),
            crtime: to_system(stat.btime),
            kind: fuse_kind(stat.file_type()),
            perm: stat.perm() as u16,
            nlink: stat.nlink,
            uid: stat.uid,
            gid: stat.gid,
            rdev: rdev_out(stat.rdev),
            blksize: 4096,
            flags: 0,
        }
    }

    /// Hands a location to the kernel.
    fn entry(&self, path: Path) -> Result<FileAttr> {
        let attr = self.attr(&path.inode().stat()?);
        let mut nodes = self.nodes.lock().unwrap();
        let known = nodes.entry(attr.ino.0).or_insert_with(|| Known {
            path: path.clone(),
            lookups: 0,
        });
        known.lookups += 1;
        // Another name of the file may be the only one left.
        known.path = path;
        Ok(attr)
    }

    /// Calls `f` with the directory as the start of the walk.
    fn at<T>(
        &self,
        dir: INodeNo,
        caller: &Caller,
        f: impl FnOnce(&At<'_>) -> Result<T>,
    ) -> Result<T> {
        let base = self.path(dir)?;
        f(&At {
            ns: &self.ns,
            root: &self.root,
            base: &base,
            caller,
        })
    }

    /// Finds what was just made.
    fn made(&self, dir: INodeNo, name: &[u8]) -> Result<FileAttr> {
        let base = self.path(dir)?;
        let path = self.at(dir, &Caller::host(), |at| at.child(&base, name))?;
        self.entry(path)
    }

    /// Opens a location as the superuser, to reach its attributes; not for symbolic links.
    fn reach(&self, path: &Path) -> Result<Arc<OpenFile>> {
        let at = At {
            ns: &self.ns,
            root: &self.root,
            base: path,
            caller: &Caller::host(),
        };
        at.open_path(path, OpenFlags::empty())
    }

    fn change(
        &self,
        caller: &Caller,
        ino: INodeNo,
        change: &Change,
        fh: Option<FileHandle>,
    ) -> Result<FileAttr> {
        let path = self.path(ino)?;
        if path.inode().kind() == FileType::Symlink {
            let (dir, name) = (path.parent(), path.dentry().name());
            let at = At {
                ns: &self.ns,
                root: &self.root,
                base: &dir,
                caller,
            };
            if change.uid.is_some() || change.gid.is_some() {
                at.chown(&name, change.uid, change.gid, Lookup::empty())?;
            }
            if change.mode.is_some() {
                return Err(Errno::ENOTSUP);
            }
            at.utimens(&name, change.atime, change.mtime, Lookup::empty())?;
            return Ok(self.attr(&path.inode().stat()?));
        }
        if let Some(size) = change.size {
            match fh.map(|fh| self.file(fh)).transpose()? {
                Some(file) => fd::truncate(&file, size, caller)?,
                None => {
                    let (dir, name) = (path.parent(), path.dentry().name());
                    let at = At {
                        ns: &self.ns,
                        root: &self.root,
                        base: &dir,
                        caller,
                    };
                    at.truncate(&name, size)?;
                }
            }
        }
        let file = self.reach(&path)?;
        if change.uid.is_some() || change.gid.is_some() {
            fd::chown(&file, change.uid, change.gid, caller)?;
        }
        if let Some(mode) = change.mode {
            fd::chmod(&file, mode & 0o7777, caller)?;
        }
        if (change.atime, change.mtime) != (TimeSet::Omit, TimeSet::Omit)
            && (change.size.is_none() || change.atime != TimeSet::Omit)
        {
            fd::utimens(&file, change.atime, change.mtime, caller)?;
        }
        Ok(self.attr(&path.inode().stat()?))
    }
}

/// What a `setattr` request asks.
struct Change {
    mode: Option<u32>,
    uid: Option<u32>,
    gid: Option<u32>,
    size: Option<u64>,
    atime: TimeSet,
    mtime: TimeSet,
}
