//! Our side: the path walk of vfs-core over a file system.

use super::{Op, Outcome, SLOTS, Seen, Tree, held_stat, set_time};
use std::collections::BTreeMap;
use std::sync::Arc;
use vfs_core::namei::{NoSpecialFiles, fd};
use vfs_core::{
    At, Caller, Cred, FileSystem, FileType, Lookup, MountFlags, Namespace, OpenFile, OpenFlags,
    Path, RenameFlags, Result, TimeSet, Timespec,
};

pub(crate) struct Ours {
    ns: Arc<Namespace>,
    root: Path,
    caller: Caller,
    held: [Option<Arc<OpenFile>>; SLOTS],
}

impl Ours {
    pub(crate) fn new(fs: Arc<dyn FileSystem>) -> Ours {
        let ns = Namespace::new(fs, MountFlags::NOATIME, Arc::new(NoSpecialFiles));
        let caller = Caller {
            cred: Arc::new(Cred::root()),
            pid: 0,
            umask: 0,
        };
        Ours {
            root: ns.root(),
            ns,
            caller,
            held: Default::default(),
        }
    }

    fn at(&self) -> At<'_> {
        At {
            ns: &self.ns,
            root: &self.root,
            base: &self.root,
            caller: &self.caller,
        }
    }

    fn held(&self, slot: usize) -> Result<&Arc<OpenFile>> {
        self.held[slot].as_ref().ok_or(vfs_core::Errno::EBADF)
    }

    pub(crate) fn run(&mut self, op: &Op) -> Outcome {
        self.call(op).map_err(|error| error.number())
    }

    fn call(&mut self, op: &Op) -> Result<Vec<u8>> {
        let follow = |follow: &bool| {
            if *follow {
                Lookup::FOLLOW
            } else {
                Lookup::empty()
            }
        };
        if let Op::Hold { slot, path } = op {
            let file = self.at().open(path.as_bytes(), OpenFlags::RDWR, 0)?;
            self.held[*slot] = Some(file);
            return Ok(Vec::new());
        }
        if let Op::Release { slot } = op {
            return self.held[*slot]
                .take()
                .map(|_| Vec::new())
                .ok_or(vfs_core::Errno::EBADF);
        }
        let at = self.at();
        match op {
            Op::Create { path, perm, excl } => {
                let mut flags = OpenFlags::CREAT | OpenFlags::WRONLY;
                flags.set(OpenFlags::EXCL, *excl);
                at.open(path.as_bytes(), flags, *perm)?;
            }
            Op::Write {
                path,
                at: offset,
                len,
                byte,
            } => {
                let file = at.open(path.as_bytes(), OpenFlags::WRONLY, 0)?;
                file.pwrite(&vec![*byte; usize::from(*len)], u64::from(*offset))?;
            }
            Op::Append { path, len, byte } => {
                let file = at.open(path.as_bytes(), OpenFlags::WRONLY | OpenFlags::APPEND, 0)?;
                file.write(&vec![*byte; usize::from(*len)])?;
            }
            Op::Overwrite { path } => {
                at.open(path.as_bytes(), OpenFlags::WRONLY | OpenFlags::TRUNC, 0)?;
            }
            Op::Truncate { path, len } => at.truncate(path.as_bytes(), u64::from(*len))?,
            Op::Read { path } => {
                return read_all(&*at.open(path.as_bytes(), OpenFlags::empty(), 0)?);
            }
            Op::Readlink { path } => return at.readlink(path.as_bytes()),
            Op::Readdir { path } => {
                let names = list(&*at.open(path.as_bytes(), OpenFlags::DIRECTORY, 0)?)?;
                let mut names: Vec<Vec<u8>> = names.into_iter().map(|(name, ..)| name).collect();
                names.sort();
                return Ok(names.join(&b'/'));
            }
            Op::Mkdir { path, perm } => at.mkdir(path.as_bytes(), *perm)?,
            Op::Rmdir { path } => at.rmdir(path.as_bytes())?,
            Op::Unlink { path } => at.unlink(path.as_bytes())?,
            Op::Rename { from, to, flags } => {
                let flags = RenameFlags::from_bits_retain(*flags);
                at.rename(from.as_bytes(), &at, to.as_bytes(), flags)?;
            }
            Op::Link { from, to } => {
                at.link(from.as_bytes(), Lookup::empty(), &at, to.as_bytes())?;
            }
            Op::Symlink { target, path } => at.symlink(target.as_bytes(), path.as_bytes())?,
            Op::Mkfifo { path } => at.mknod(path.as_bytes(), FileType::Fifo, 0o640, 0)?,
            Op::Mkdev { path } => {
                let dev = libc::makedev(511, 7);
                at.mknod(path.as_bytes(), FileType::CharDevice, 0o600, dev)?;
            }
            Op::Chmod { path, perm } => at.chmod(path.as_bytes(), *perm, Lookup::FOLLOW)?,
            Op::Chown {
                path,
                uid,
                gid,
                follow: f,
            } => {
                at.chown(path.as_bytes(), *uid, *gid, follow(f))?;
            }
            Op::Utimens {
                path,
                sec,
                nsec,
                follow: f,
            } => {
                let time = TimeSet::At(Timespec {
                    sec: i64::from(*sec),
                    nsec: *nsec,
                });
                at.utimens(path.as_bytes(), time, time, follow(f))?;
            }
            Op::Setxattr {
                path,
                name,
                len,
                flags,
            } => {
                let value = vec![*len; usize::from(*len)];
                at.setxattr(
                    path.as_bytes(),
                    name.as_bytes(),
                    &value,
                    *flags == libc::XATTR_CREATE,
                    *flags == libc::XATTR_REPLACE,
                    Lookup::empty(),
                )?;
            }
            Op::Removexattr { path, name } => {
                at.removexattr(path.as_bytes(), name.as_bytes(), Lookup::empty())?;
            }
            Op::HeldWrite {
                slot,
                at: offset,
                len,
                byte,
            } => {
                self.held(*slot)?
                    .pwrite(&vec![*byte; usize::from(*len)], u64::from(*offset))?;
            }
            Op::HeldRead { slot } => return read_all(self.held(*slot)?),
            Op::HeldChmod { slot, perm } => fd::chmod(self.held(*slot)?, *perm, &self.caller)?,
            Op::HeldStat { slot } => {
                let stat = self.held(*slot)?.stat()?;
                return Ok(held_stat(stat.mode, u64::from(stat.nlink), stat.size));
            }
            Op::Hold { .. } | Op::Release { .. } => unreachable!("handled above"),
        }
        Ok(Vec::new())
    }

    /// The tree, and the inode number of each of its paths.
    pub(crate) fn tree(&self) -> (Tree, BTreeMap<String, u64>) {
        let (mut tree, mut inos) = (Tree::new(), BTreeMap::new());
        self.walk("", &mut tree, &mut inos);
        let mut first = BTreeMap::new();
        for (path, seen) in &mut tree {
            seen.same_as = first
                .entry(inos[path])
                .or_insert_with(|| path.clone())
                .clone();
        }
        (tree, inos)
    }

    fn walk(&self, dir: &str, tree: &mut Tree, inos: &mut BTreeMap<String, u64>) {
        let at = self.at();
        let quiet = OpenFlags::NOATIME;
        let open = if dir.is_empty() { "." } else { dir };
        let open = at
            .open(open.as_bytes(), OpenFlags::DIRECTORY | quiet, 0)
            .unwrap();
        for (name, ino, kind) in list(&open).unwrap() {
            let name = String::from_utf8(name).unwrap();
            let path = if dir.is_empty() {
                name
            } else {
                format!("{dir}/{name}")
            };
            let stat = at.stat(path.as_bytes(), Lookup::empty()).unwrap();
            assert_eq!(
                (stat.ino, stat.file_type()),
                (ino, kind),
                "listing and stat of {path}"
            );
            let content = match kind {
                FileType::Regular => {
                    read_all(&at.open(path.as_bytes(), quiet, 0).unwrap()).unwrap()
                }
                FileType::Symlink => at.readlink(path.as_bytes()).unwrap(),
                _ => Vec::new(),
            };
            let xattrs = at.listxattr(path.as_bytes(), Lookup::empty()).unwrap();
            let xattrs = xattrs.into_iter().map(|name| {
                let value = at
                    .getxattr(path.as_bytes(), &name, Lookup::empty())
                    .unwrap();
                (String::from_utf8(name).unwrap(), value)
            });
            let directory = kind == FileType::Directory;
            let seen = Seen {
                mode: stat.mode,
                uid: stat.uid,
                gid: stat.gid,
                nlink: u64::from(stat.nlink),
                rdev: stat.rdev,
                size: (!directory).then_some(stat.size),
                mtime: set_time(stat.mtime.sec, i64::from(stat.mtime.nsec)),
                atime: set_time(stat.atime.sec, i64::from(stat.atime.nsec)),
                content,
                xattrs: xattrs.collect(),
                same_as: String::new(),
            };
            assert!(
                tree.insert(path.clone(), seen).is_none(),
                "{path} is listed twice"
            );
            inos.insert(path.clone(), ino);
            if directory {
                self.walk(&path, tree, inos);
            }
        }
    }
}

fn read_all(file: &OpenFile) -> Result<Vec<u8>> {
    let mut data = vec![0; 1 << 17];
    let n = file.pread(&mut data, 0)?;
    data.truncate(n);
    Ok(data)
}

/// Name, inode number and kind of each entry but `.` and `..`, a few at a time.
fn list(dir: &OpenFile) -> Result<Vec<(Vec<u8>, u64, FileType)>> {
    let (mut all, mut cookie) = (Vec::new(), 0);
    loop {
        let mut room = 3;
        dir.readdir(cookie, &mut |entry| {
            if room == 0 {
                return false;
            }
            room -= 1;
            cookie = entry.next;
            if !matches!(entry.name, b"." | b"..") {
                all.push((entry.name.to_vec(), entry.ino, entry.kind));
            }
            true
        })?;
        if room > 0 {
            return Ok(all);
        }
    }
}
