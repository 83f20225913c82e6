//! Mounts a [`Namespace`] on the host through FUSE, so that programs written for Linux can judge
//! it. Test-only: the product never shows its tree to the host.
//!
//! Every request is carried out with the credentials of the process that made it, and the
//! kernel's own permission checks stay off, so the code under test decides. Each inode the kernel
//! knows is kept as a location (`Path`) until the kernel forgets it.

use fuser::{
    AccessFlags, BackgroundSession, Config, FileAttr, FileHandle, Filesystem, FopenFlags,
    Generation, INodeNo, KernelConfig, LockOwner, MountOption, OpenFlags as FuseOpenFlags,
    ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyLseek,
    ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, SessionACL, TimeOrNow, WriteFlags,
};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use vfs_core::namei::fd;
use vfs_core::{
    Access, At, Caller, Cred, Errno, FileOps, FileSystem, FileType, InodeRef, Lookup, MountFlags,
    Namespace, OpenFile, OpenFlags, Path, RenameFlags, Result, SpecialFiles, Stat, TimeSet,
    Timespec, Whence,
};

/// Nothing is cached: every call must reach us.
const TTL: Duration = Duration::ZERO;

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

fn errno(error: Errno) -> fuser::Errno {
    fuser::Errno::from_i32(error.number())
}

fn fuse_kind(kind: FileType) -> fuser::FileType {
    match kind {
        FileType::Regular => fuser::FileType::RegularFile,
        FileType::Directory => fuser::FileType::Directory,
        FileType::Symlink => fuser::FileType::Symlink,
        FileType::CharDevice => fuser::FileType::CharDevice,
        FileType::BlockDevice => fuser::FileType::BlockDevice,
        FileType::Fifo => fuser::FileType::NamedPipe,
        FileType::Socket => fuser::FileType::Socket,
    }
}

fn to_system(time: Timespec) -> SystemTime {
    let nanos = Duration::from_nanos(u64::from(time.nsec));
    match u64::try_from(time.sec) {
        Ok(sec) => UNIX_EPOCH + Duration::from_secs(sec) + nanos,
        Err(_) => UNIX_EPOCH - Duration::from_secs(time.sec.unsigned_abs()) + nanos,
    }
}

fn from_system(time: SystemTime) -> Timespec {
    match time.duration_since(UNIX_EPOCH) {
        Ok(d) => Timespec {
            sec: d.as_secs() as i64,
            nsec: d.subsec_nanos(),
        },
        Err(before) => {
            let ns = before.duration().as_nanos() as i64;
            Timespec::from_nanos(-ns)
        }
    }
}

fn time_set(time: Option<TimeOrNow>) -> TimeSet {
    match time {
        None => TimeSet::Omit,
        Some(TimeOrNow::Now) => TimeSet::Now,
        Some(TimeOrNow::SpecificTime(at)) => TimeSet::At(from_system(at)),
    }
}

/// Device number as FUSE sends it (`new_encode_dev`) to `makedev(3)`'s and back.
fn rdev_in(rdev: u32) -> u64 {
    let (major, minor) = (
        (rdev >> 8) & 0xfff,
        (rdev & 0xff) | ((rdev >> 12) & 0xfff00),
    );
    libc::makedev(major, minor)
}

fn rdev_out(rdev: u64) -> u32 {
    let (major, minor) = (libc::major(rdev), libc::minor(rdev));
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
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

macro_rules! answer {
    ($reply:ident, $result:expr, $value:pat => $ok:expr) => {
        match $result {
            Ok($value) => $ok,
            Err(error) => $reply.error(errno(error)),
        }
    };
}

/// Open flags that mean something to us.
fn open_flags(flags: i32) -> OpenFlags {
    let known = OpenFlags::WRONLY
        | OpenFlags::RDWR
        | OpenFlags::CREAT
        | OpenFlags::EXCL
        | OpenFlags::TRUNC
        | OpenFlags::APPEND
        | OpenFlags::NONBLOCK
        | OpenFlags::DIRECTORY
        | OpenFlags::NOFOLLOW;
    OpenFlags::from_bits_truncate(flags as u32) & known
}

impl Filesystem for Bridge {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        // O_TRUNC is then part of our open. Without the capability it comes as a setattr.
        let _ = config.add_capabilities(fuser::InitFlags::FUSE_ATOMIC_O_TRUNC);
        Ok(())
    }

    fn lookup(&self, req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let caller = self.caller(req);
        let found = self
            .path(parent)
            .and_then(|base| self.at(parent, &caller, |at| at.child(&base, name.as_bytes())));
        answer!(reply, found.and_then(|p| self.entry(p)), attr => reply.entry(&TTL, &attr, Generation(0)))
    }

    fn forget(&self, _req: &Request, ino: INodeNo, nlookup: u64) {
        let mut nodes = self.nodes.lock().unwrap();
        if let Some(known) = nodes.get_mut(&ino.0) {
            known.lookups = known.lookups.saturating_sub(nlookup);
            if known.lookups == 0 {
                nodes.remove(&ino.0);
            }
        }
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        let stat = self.path(ino).and_then(|path| path.inode().stat());
        answer!(reply, stat, stat => reply.attr(&TTL, &self.attr(&stat)))
    }

    fn setattr(
        &self,
        req: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let change = Change {
            mode,
            uid,
            gid,
            size,
            atime: time_set(atime),
            mtime: time_set(mtime),
        };
        let changed = self.change(&self.caller(req), ino, &change, fh);
        answer!(reply, changed, attr => reply.attr(&TTL, &attr))
    }

    fn readlink(&self, _req: &Request, ino: INodeNo, reply: ReplyData) {
        let text = self
            .path(ino)
            .and_then(|path| match path.inode().readlink(&Caller::host())? {
                vfs_core::LinkTarget::Text(text) => Ok(text),
                _ => Err(Errno::EINVAL),
            });
        answer!(reply, text, text => reply.data(&text))
    }

    fn mknod(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let caller = self.caller(req);
        let name = name.as_bytes();
        let made = self
            .at(parent, &caller, |at| {
                let kind = FileType::from_mode(mode).ok_or(Errno::EINVAL)?;
                at.mknod(name, kind, mode & 0o7777, rdev_in(rdev))
            })
            .and_then(|()| self.made(parent, name));
        answer!(reply, made, attr => reply.entry(&TTL, &attr, Generation(0)))
    }

    fn mkdir(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        let caller = self.caller(req);
        let name = name.as_bytes();
        let made = self
            .at(parent, &caller, |at| at.mkdir(name, mode & 0o7777))
            .and_then(|()| self.made(parent, name));
        answer!(reply, made, attr => reply.entry(&TTL, &attr, Generation(0)))
    }

    fn unlink(&self, req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let caller = self.caller(req);
        let done = self.at(parent, &caller, |at| at.unlink(name.as_bytes()));
        answer!(reply, done, () => reply.ok())
    }

    fn rmdir(&self, req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let caller = self.caller(req);
        let done = self.at(parent, &caller, |at| at.rmdir(name.as_bytes()));
        answer!(reply, done, () => reply.ok())
    }

    fn symlink(
        &self,
        req: &Request,
        parent: INodeNo,
        link_name: &OsStr,
        target: &std::path::Path,
        reply: ReplyEntry,
    ) {
        let caller = self.caller(req);
        let name = link_name.as_bytes();
        let made = self
            .at(parent, &caller, |at| {
                at.symlink(target.as_os_str().as_bytes(), name)
            })
            .and_then(|()| self.made(parent, name));
        answer!(reply, made, attr => reply.entry(&TTL, &attr, Generation(0)))
    }

    fn rename(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: fuser::RenameFlags,
        reply: ReplyEmpty,
    ) {
        let caller = self.caller(req);
        let done = self.path(newparent).and_then(|new_base| {
            let new_at = At {
                ns: &self.ns,
                root: &self.root,
                base: &new_base,
                caller: &caller,
            };
            let flags = RenameFlags::from_bits(flags.bits()).ok_or(Errno::EINVAL)?;
            self.at(parent, &caller, |at| {
                at.rename(name.as_bytes(), &new_at, newname.as_bytes(), flags)
            })
        });
        answer!(reply, done, () => reply.ok())
    }

    fn link(
        &self,
        req: &Request,
        ino: INodeNo,
        newparent: INodeNo,
        newname: &OsStr,
        reply: ReplyEntry,
    ) {
        let caller = self.caller(req);
        let name = newname.as_bytes();
        let made = self
            .path(ino)
            .and_then(|path| {
                self.at(newparent, &caller, |at| {
                    let file = at.open_path(&path, OpenFlags::PATH)?;
                    fd::link(&file, at, name)
                })
            })
            .and_then(|()| self.made(newparent, name));
        answer!(reply, made, attr => reply.entry(&TTL, &attr, Generation(0)))
    }

    fn open(&self, req: &Request, ino: INodeNo, flags: FuseOpenFlags, reply: ReplyOpen) {
        let caller = self.caller(req);
        let flags = open_flags(flags.0) & !(OpenFlags::CREAT | OpenFlags::EXCL);
        let file = self
            .path(ino)
            .and_then(|path| self.at(ino, &caller, |at| at.open_path(&path, flags)));
        answer!(reply, file, file => reply.opened(self.keep(file), self.data))
    }

    fn read(
        &self,
        _req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: FuseOpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let data = self.file(fh).and_then(|file| {
            let mut buf = vec![0; size as usize];
            let n = file.ops().read_at(&mut buf, offset)?;
            buf.truncate(n);
            Ok(buf)
        });
        answer!(reply, data, data => reply.data(&data))
    }

    fn write(
        &self,
        _req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: FuseOpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        // The kernel has turned O_APPEND into an offset.
        let written = self
            .file(fh)
            .and_then(|file| file.ops().write_at(data, offset));
        answer!(reply, written, n => reply.written(n as u32))
    }

    fn flush(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        reply.ok();
    }

    fn release(
        &self,
        _req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        _flags: FuseOpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        let file = self.files.lock().unwrap().1.remove(&fh.0);
        drop(file);
        reply.ok();
    }

    fn fsync(
        &self,
        _req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        answer!(reply, self.file(fh).and_then(|file| file.ops().sync()), () => reply.ok())
    }

    fn opendir(&self, req: &Request, ino: INodeNo, _flags: FuseOpenFlags, reply: ReplyOpen) {
        let caller = self.caller(req);
        let file = self
            .path(ino)
            .and_then(|path| self.at(ino, &caller, |at| at.open_path(&path, OpenFlags::DIRECTORY)));
        answer!(reply, file, file => reply.opened(self.keep(file), FopenFlags::empty()))
    }

    fn readdir(
        &self,
        _req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let listed = self.file(fh).and_then(|file| {
            file.readdir(offset, &mut |entry| {
                !reply.add(
                    INodeNo(self.node_id(entry.ino)),
                    entry.next,
                    fuse_kind(entry.kind),
                    OsStr::from_bytes(entry.name),
                )
            })
        });
        answer!(reply, listed, () => reply.ok())
    }

    fn releasedir(
        &self,
        _req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        _flags: FuseOpenFlags,
        reply: ReplyEmpty,
    ) {
        let file = self.files.lock().unwrap().1.remove(&fh.0);
        drop(file);
        reply.ok();
    }

    fn statfs(&self, _req: &Request, ino: INodeNo, reply: ReplyStatfs) {
        let totals = self.path(ino).and_then(|path| path.mount().fs().statfs());
        answer!(reply, totals, t => reply.statfs(
            t.blocks, t.bfree, t.bavail, t.files, t.ffree, t.bsize as u32, t.namelen as u32,
            t.bsize as u32,
        ))
    }

    fn setxattr(
        &self,
        req: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let caller = self.caller(req);
        let (create, replace) = (
            flags & libc::XATTR_CREATE != 0,
            flags & libc::XATTR_REPLACE != 0,
        );
        let done = self
            .path(ino)
            .and_then(|path| self.reach(&path))
            .and_then(|file| fd::setxattr(&file, name.as_bytes(), value, create, replace, &caller));
        answer!(reply, done, () => reply.ok())
    }

    fn getxattr(&self, req: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let caller = self.caller(req);
        let value = self
            .path(ino)
            .and_then(|path| self.reach(&path))
            .and_then(|file| fd::getxattr(&file, name.as_bytes(), &caller));
        give_xattr(value, size, reply);
    }

    fn listxattr(&self, req: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        let caller = self.caller(req);
        let names = self
            .path(ino)
            .and_then(|path| self.reach(&path))
            .and_then(|file| fd::listxattr(&file, &caller))
            .map(|names| {
                names
                    .into_iter()
                    .flat_map(|name| [name, vec![0]].concat())
                    .collect()
            });
        give_xattr(names, size, reply);
    }

    fn removexattr(&self, req: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let caller = self.caller(req);
        let done = self
            .path(ino)
            .and_then(|path| self.reach(&path))
            .and_then(|file| fd::removexattr(&file, name.as_bytes(), &caller));
        answer!(reply, done, () => reply.ok())
    }

    fn access(&self, req: &Request, ino: INodeNo, mask: AccessFlags, reply: ReplyEmpty) {
        let caller = self.caller(req);
        let done = self.path(ino).and_then(|path| {
            let want = Access::from_bits_truncate(mask.bits() as u32);
            vfs_core::permission(&path.inode().stat()?, &caller.cred, want)
        });
        answer!(reply, done, () => reply.ok())
    }

    fn create(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let caller = self.caller(req);
        let name = name.as_bytes();
        let made = self
            .at(parent, &caller, |at| {
                at.open(name, open_flags(flags) | OpenFlags::CREAT, mode & 0o7777)
            })
            .and_then(|file| Ok((self.entry(file.path().ok_or(Errno::EIO)?.clone())?, file)));
        answer!(reply, made, (attr, file) => reply.created(
            &TTL,
            &attr,
            Generation(0),
            self.keep(file),
            self.data,
        ))
    }

    fn fallocate(
        &self,
        _req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let done = self.file(fh).and_then(|file| match mode {
            0 | libc::FALLOC_FL_KEEP_SIZE => file.ops().allocate(offset, length, mode != 0),
            _ => Err(Errno::ENOTSUP),
        });
        answer!(reply, done, () => reply.ok())
    }

    fn lseek(
        &self,
        _req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let found = self.file(fh).and_then(|file| match whence {
            libc::SEEK_DATA => file.seek(offset, Whence::Data),
            libc::SEEK_HOLE => file.seek(offset, Whence::Hole),
            _ => Err(Errno::EINVAL),
        });
        answer!(reply, found, at => reply.offset(at as i64))
    }
}

fn give_xattr(value: Result<Vec<u8>>, size: u32, reply: ReplyXattr) {
    match value {
        Ok(value) if size == 0 => reply.size(value.len() as u32),
        Ok(value) if value.len() > size as usize => reply.error(errno(Errno::ERANGE)),
        Ok(value) => reply.data(&value),
        Err(error) => reply.error(errno(error)),
    }
}
