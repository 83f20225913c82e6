//! The kernel's side: system calls below a directory.

use super::{Op, Outcome, SLOTS, Seen, Tree, held_stat, set_time};
use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, RenameFlags, readlink, renameat2};
use nix::sys::stat::{
    FchmodatFlags, FileStat, Mode, SFlag, UtimensatFlags, fchmod, fchmodat, fstat, lstat, mkdirat,
    mknod, utimensat,
};
use nix::sys::time::TimeSpec;
use nix::sys::uio::{pread, pwrite};
use nix::unistd::{
    Gid, Uid, UnlinkatFlags, fchownat, linkat, symlinkat, truncate, unlinkat, write,
};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

pub(crate) struct Linux {
    dir: PathBuf,
    held: [Option<OwnedFd>; SLOTS],
}

impl Linux {
    pub(crate) fn new(dir: &Path) -> Linux {
        Linux {
            dir: dir.to_owned(),
            held: Default::default(),
        }
    }

    pub(crate) fn run(&mut self, op: &Op) -> Outcome {
        self.call(op).map_err(|error| error as i32)
    }

    fn held(&self, slot: usize) -> nix::Result<&OwnedFd> {
        self.held[slot].as_ref().ok_or(Errno::EBADF)
    }

    fn call(&mut self, op: &Op) -> nix::Result<Vec<u8>> {
        let full = |path: &String| self.dir.join(path);
        let no_mode = Mode::empty();
        match op {
            Op::Create { path, perm, excl } => {
                let mut flags = OFlag::O_CREAT | OFlag::O_WRONLY;
                flags.set(OFlag::O_EXCL, *excl);
                open(&full(path), flags, Mode::from_bits_truncate(*perm))?;
            }
            Op::Write {
                path,
                at,
                len,
                byte,
            } => {
                let file = open(&full(path), OFlag::O_WRONLY, no_mode)?;
                pwrite(&file, &vec![*byte; usize::from(*len)], i64::from(*at))?;
            }
            Op::Append { path, len, byte } => {
                let flags = OFlag::O_WRONLY | OFlag::O_APPEND;
                let file = open(&full(path), flags, no_mode)?;
                write(&file, &vec![*byte; usize::from(*len)])?;
            }
            Op::Overwrite { path } => {
                let flags = OFlag::O_WRONLY | OFlag::O_TRUNC;
                open(&full(path), flags, no_mode)?;
            }
            Op::Truncate { path, len } => truncate(&full(path), i64::from(*len))?,
            Op::Read { path } => {
                return read_all(&open(&full(path), OFlag::empty(), no_mode)?);
            }
            Op::Readlink { path } => return Ok(readlink(&full(path))?.into_vec()),
            Op::Readdir { path } => {
                let mut names = list(&full(path), OFlag::empty())?;
                names.sort();
                return Ok(names.join(&b'/'));
            }
            Op::Mkdir { path, perm } => {
                mkdirat(AT_FDCWD, &full(path), Mode::from_bits_truncate(*perm))?;
            }
            Op::Rmdir { path } => unlinkat(AT_FDCWD, &full(path), UnlinkatFlags::RemoveDir)?,
            Op::Unlink { path } => unlinkat(AT_FDCWD, &full(path), UnlinkatFlags::NoRemoveDir)?,
            Op::Rename { from, to, flags } => {
                let flags = RenameFlags::from_bits_retain(*flags);
                renameat2(AT_FDCWD, &full(from), AT_FDCWD, &full(to), flags)?;
            }
            Op::Link { from, to } => {
                linkat(AT_FDCWD, &full(from), AT_FDCWD, &full(to), AtFlags::empty())?;
            }
            Op::Symlink { target, path } => symlinkat(target.as_str(), AT_FDCWD, &full(path))?,
            Op::Mkfifo { path } => {
                mknod(
                    &full(path),
                    SFlag::S_IFIFO,
                    Mode::from_bits_truncate(0o640),
                    0,
                )?;
            }
            Op::Mkdev { path } => {
                let dev = libc::makedev(511, 7);
                mknod(
                    &full(path),
                    SFlag::S_IFCHR,
                    Mode::from_bits_truncate(0o600),
                    dev,
                )?;
            }
            Op::Chmod { path, perm } => {
                let perm = Mode::from_bits_truncate(*perm);
                fchmodat(AT_FDCWD, &full(path), perm, FchmodatFlags::FollowSymlink)?;
            }
            Op::Chown {
                path,
                uid,
                gid,
                follow,
            } => {
                let flags = if *follow {
                    AtFlags::empty()
                } else {
                    AtFlags::AT_SYMLINK_NOFOLLOW
                };
                let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
                fchownat(AT_FDCWD, &full(path), uid, gid, flags)?;
            }
            Op::Utimens {
                path,
                sec,
                nsec,
                follow,
            } => {
                let time = TimeSpec::new(i64::from(*sec), i64::from(*nsec));
                let flags = match follow {
                    true => UtimensatFlags::FollowSymlink,
                    false => UtimensatFlags::NoFollowSymlink,
                };
                utimensat(AT_FDCWD, &full(path), &time, &time, flags)?;
            }
            Op::Setxattr {
                path,
                name,
                len,
                flags,
            } => {
                xattr::set(&full(path), name, &vec![*len; usize::from(*len)], *flags)?;
            }
            Op::Removexattr { path, name } => xattr::remove(&full(path), name)?,
            Op::Hold { slot, path } => {
                let file = open(&full(path), OFlag::O_RDWR, no_mode)?;
                self.held[*slot] = Some(file);
            }
            Op::Release { slot } => {
                self.held[*slot].take().ok_or(Errno::EBADF)?;
            }
            Op::HeldWrite {
                slot,
                at,
                len,
                byte,
            } => {
                pwrite(
                    self.held(*slot)?,
                    &vec![*byte; usize::from(*len)],
                    i64::from(*at),
                )?;
            }
            Op::HeldRead { slot } => return read_all(self.held(*slot)?),
            Op::HeldChmod { slot, perm } => {
                fchmod(self.held(*slot)?, Mode::from_bits_truncate(*perm))?;
            }
            Op::HeldStat { slot } => {
                let stat = fstat(self.held(*slot)?)?;
                return Ok(held_stat(stat.st_mode, stat.st_nlink, stat.st_size as u64));
            }
        }
        Ok(Vec::new())
    }

    pub(crate) fn tree(&self) -> Tree {
        let mut tree = Tree::new();
        let mut inos = BTreeMap::new();
        self.walk("", &mut tree, &mut inos);
        let mut first = BTreeMap::new();
        for (path, seen) in &mut tree {
            seen.same_as = first
                .entry(inos[path])
                .or_insert_with(|| path.clone())
                .clone();
        }
        tree
    }

    fn walk(&self, dir: &str, tree: &mut Tree, inos: &mut BTreeMap<String, u64>) {
        for name in list(&self.dir.join(dir), OFlag::O_NOATIME).unwrap() {
            let name = String::from_utf8(name).unwrap();
            let path = if dir.is_empty() {
                name
            } else {
                format!("{dir}/{name}")
            };
            let full = self.dir.join(&path);
            let stat: FileStat = lstat(&full).unwrap();
            let kind = SFlag::from_bits_truncate(stat.st_mode & libc::S_IFMT);
            let content = match kind {
                SFlag::S_IFREG => {
                    read_all(&open(&full, OFlag::O_NOATIME, Mode::empty()).unwrap()).unwrap()
                }
                SFlag::S_IFLNK => readlink(&full).unwrap().into_vec(),
                _ => Vec::new(),
            };
            let directory = kind == SFlag::S_IFDIR;
            let seen = Seen {
                mode: stat.st_mode,
                uid: stat.st_uid,
                gid: stat.st_gid,
                nlink: stat.st_nlink,
                rdev: stat.st_rdev,
                size: (!directory).then_some(stat.st_size as u64),
                mtime: set_time(stat.st_mtime, stat.st_mtime_nsec),
                atime: set_time(stat.st_atime, stat.st_atime_nsec),
                content,
                xattrs: super::XATTRS
                    .into_iter()
                    .filter_map(|name| Some((name.to_owned(), xattr::get(&full, name)?)))
                    .collect(),
                same_as: String::new(),
            };
            tree.insert(path.clone(), seen);
            inos.insert(path.clone(), stat.st_ino);
            if directory {
                self.walk(&path, tree, inos);
            }
        }
    }
}

/// Paths of the 0:0 devices below `dir`: the kernel's whiteouts, seen in its upper directory.
pub(crate) fn whiteouts(dir: &Path) -> Vec<String> {
    fn walk(top: &Path, dir: &Path, found: &mut Vec<String>) {
        for name in list(dir, OFlag::empty()).unwrap() {
            let path = dir.join(std::ffi::OsStr::from_bytes(&name));
            let stat = lstat(&path).unwrap();
            match SFlag::from_bits_truncate(stat.st_mode & libc::S_IFMT) {
                SFlag::S_IFDIR => walk(top, &path, found),
                SFlag::S_IFCHR if stat.st_rdev == 0 => {
                    found.push(path.strip_prefix(top).unwrap().to_str().unwrap().to_owned());
                }
                _ => {}
            }
        }
    }
    let mut found = Vec::new();
    walk(dir, dir, &mut found);
    found.sort();
    found
}

/// `open(2)`, which never blocks. Fifos and devices are nobody's on our side (`NoSpecialFiles`),
/// and the devices made here are nobody's on either.
fn open(path: &Path, flags: OFlag, mode: Mode) -> nix::Result<OwnedFd> {
    let file = nix::fcntl::open(path, flags | OFlag::O_NONBLOCK, mode)?;
    match SFlag::from_bits_truncate(fstat(&file)?.st_mode & libc::S_IFMT) {
        SFlag::S_IFIFO => Err(Errno::ENXIO),
        _ => Ok(file),
    }
}

fn read_all(file: &OwnedFd) -> nix::Result<Vec<u8>> {
    let mut data = vec![0; 1 << 17];
    let n = pread(file, &mut data, 0)?;
    data.truncate(n);
    Ok(data)
}

fn list(path: &Path, flags: OFlag) -> nix::Result<Vec<Vec<u8>>> {
    let mut dir = Dir::open(path, OFlag::O_DIRECTORY | flags, Mode::empty())?;
    let mut names = Vec::new();
    for entry in dir.iter() {
        let name = entry?.file_name().to_bytes().to_vec();
        if !matches!(&*name, b"." | b"..") {
            names.push(name);
        }
    }
    Ok(names)
}

/// Extended attributes, which nix does not wrap; links are not followed.
mod xattr {
    use super::{CString, Errno, OsStrExt, Path};

    fn c(bytes: &[u8]) -> CString {
        CString::new(bytes).unwrap()
    }

    pub(super) fn set(path: &Path, name: &str, value: &[u8], flags: i32) -> nix::Result<()> {
        let (path, name) = (c(path.as_os_str().as_bytes()), c(name.as_bytes()));
        let (value, len) = (value.as_ptr().cast(), value.len());
        // SAFETY: both strings end in NUL and `value` is readable for `len` bytes.
        Errno::result(unsafe { libc::lsetxattr(path.as_ptr(), name.as_ptr(), value, len, flags) })
            .map(drop)
    }

    pub(super) fn remove(path: &Path, name: &str) -> nix::Result<()> {
        let (path, name) = (c(path.as_os_str().as_bytes()), c(name.as_bytes()));
        // SAFETY: both strings end in NUL.
        Errno::result(unsafe { libc::lremovexattr(path.as_ptr(), name.as_ptr()) }).map(drop)
    }

    pub(super) fn get(path: &Path, name: &str) -> Option<Vec<u8>> {
        let (path, name) = (c(path.as_os_str().as_bytes()), c(name.as_bytes()));
        let mut value = vec![0u8; 1024];
        let (to, len) = (value.as_mut_ptr().cast(), value.len());
        // SAFETY: both strings end in NUL and `to` is writable for `len` bytes.
        let n = unsafe { libc::lgetxattr(path.as_ptr(), name.as_ptr(), to, len) };
        value.truncate(usize::try_from(n).ok()?);
        Some(value)
    }
}
