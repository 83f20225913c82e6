//! The requests of the kernel, one by one.

use super::convert::{errno, fuse_kind, open_flags, rdev_in, time_set};
use super::{Bridge, Change};
use fuser::{
    AccessFlags, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, KernelConfig, LockOwner,
    OpenFlags as FuseOpenFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow,
    WriteFlags,
};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, SystemTime};
use vfs_core::namei::fd;
use vfs_core::{
    Access, At, Caller, Errno, FileType, LinkTarget, OpenFlags, RenameFlags, Result, Whence,
};

/// Nothing is cached: every call must reach us.
const TTL: Duration = Duration::ZERO;

macro_rules! answer {
    ($reply:ident, $result:expr, $value:pat => $ok:expr) => {
        match $result {
            Ok($value) => $ok,
            Err(error) => $reply.error(errno(error)),
        }
    };
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
                LinkTarget::Text(text) => Ok(text),
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
