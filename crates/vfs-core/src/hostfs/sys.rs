//! The host's system calls, on descriptors only.
//!
//! Nothing here takes a path of more than one component but `/proc/self/fd/N`, which names a
//! descriptor of ours; so nothing a guest says is ever resolved by the host. Errors are bare
//! numbers and so hold no host path.

use crate::errno::{Errno, Result};
use crate::types::{FileType, Timespec};
use nix::fcntl::{OFlag, OpenHow, ResolveFlag};
use nix::sys::stat::Mode;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// What `statx` says of a descriptor.
pub(super) struct Statx {
    pub(super) dev: u64,
    pub(super) ino: u64,
    pub(super) mode: u32,
    pub(super) nlink: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) rdev: u64,
    pub(super) size: u64,
    pub(super) blocks: u64,
    pub(super) times: [Timespec; 4],
}

impl Statx {
    pub(super) fn kind(&self) -> Result<FileType> {
        FileType::from_mode(self.mode).ok_or(Errno::EIO)
    }
}

fn last_error() -> Errno {
    Errno::from_host(&std::io::Error::last_os_error())
}

/// The result of a call that gives -1 for an error.
fn checked(result: i64) -> Result<u64> {
    u64::try_from(result).map_err(|_| last_error())
}

/// Repeats a call that a signal interrupted.
fn retry(mut call: impl FnMut() -> i64) -> Result<u64> {
    loop {
        match checked(call()) {
            Err(Errno::EINTR) => {}
            result => return result,
        }
    }
}

fn c_string(bytes: &[u8]) -> Result<CString> {
    CString::new(bytes).map_err(|_| Errno::EINVAL)
}

/// The path of a descriptor of ours.
fn self_fd(fd: RawFd) -> String {
    format!("/proc/self/fd/{fd}")
}

fn self_fd_c(fd: BorrowedFd<'_>) -> Result<CString> {
    c_string(self_fd(fd.as_raw_fd()).as_bytes())
}

/// Opens the directory that is to be mounted; the one place where the embedder's path is used.
pub(super) fn open_root(path: &std::path::Path) -> std::io::Result<OwnedFd> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    Ok(nix::fcntl::open(path, flags, Mode::empty())?)
}

/// The entry `name` of a directory, a link as itself. What another host file system is mounted on
/// is `EACCES` unless `cross_mounts`: it was not given to the guest.
pub(super) fn open_child(dir: BorrowedFd<'_>, name: &[u8], cross_mounts: bool) -> Result<OwnedFd> {
    if name.contains(&b'/') || matches!(name, b"" | b"." | b"..") {
        return Err(Errno::EINVAL);
    }
    let name = c_string(name)?;
    let mut resolve = ResolveFlag::RESOLVE_BENEATH
        | ResolveFlag::RESOLVE_NO_MAGICLINKS
        | ResolveFlag::RESOLVE_NO_SYMLINKS;
    if !cross_mounts {
        resolve |= ResolveFlag::RESOLVE_NO_XDEV;
    }
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let how = OpenHow::new().flags(flags).resolve(resolve);
    use nix::errno::Errno as Host;
    loop {
        match nix::fcntl::openat2(dir, name.as_c_str(), how) {
            Ok(fd) => return Ok(fd),
            // A rename on the host raced with the lookup.
            Err(Host::EAGAIN | Host::EINTR) => {}
            Err(Host::EXDEV) => return Err(Errno::EACCES),
            // Kernels before 5.6 lack the call, and some sandboxes refuse it.
            Err(Host::ENOSYS | Host::EPERM) => return open_child_plain(dir, &name, cross_mounts),
            Err(error) => return Err(error.into()),
        }
    }
}

/// [`open_child`] without `openat2`, its equal for a single name: there is nothing to follow but
/// the name itself, which `O_NOFOLLOW` leaves alone.
fn open_child_plain(dir: BorrowedFd<'_>, name: &CStr, cross_mounts: bool) -> Result<OwnedFd> {
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let fd = nix::fcntl::openat(dir, name, flags, Mode::empty())?;
    if !cross_mounts && stat(dir)?.dev != stat(fd.as_fd())?.dev {
        return Err(Errno::EACCES);
    }
    Ok(fd)
}

/// Opens again, for other uses, what a descriptor refers to.
pub(super) fn reopen(fd: BorrowedFd<'_>, flags: OFlag) -> Result<OwnedFd> {
    let path = self_fd(fd.as_raw_fd());
    Ok(nix::fcntl::open(
        path.as_str(),
        flags | OFlag::O_CLOEXEC | OFlag::O_NOCTTY,
        Mode::empty(),
    )?)
}

pub(super) fn create(dir: BorrowedFd<'_>, name: &[u8], perm: u32) -> Result<OwnedFd> {
    let flags =
        OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_WRONLY | OFlag::O_CLOEXEC;
    let name = c_string(name)?;
    Ok(nix::fcntl::openat(
        dir,
        name.as_c_str(),
        flags,
        Mode::from_bits_truncate(perm),
    )?)
}

pub(super) fn tmpfile(dir: BorrowedFd<'_>, perm: u32, linkable: bool) -> Result<OwnedFd> {
    let mut flags = OFlag::O_TMPFILE | OFlag::O_RDWR | OFlag::O_CLOEXEC;
    if !linkable {
        flags |= OFlag::O_EXCL;
    }
    Ok(nix::fcntl::openat(
        dir,
        c".",
        flags,
        Mode::from_bits_truncate(perm),
    )?)
}

pub(super) fn mkdir(dir: BorrowedFd<'_>, name: &[u8], perm: u32) -> Result<()> {
    let name = c_string(name)?;
    Ok(nix::sys::stat::mkdirat(
        dir,
        name.as_c_str(),
        Mode::from_bits_truncate(perm),
    )?)
}

/// Makes a fifo or a socket.
pub(super) fn mknod(dir: BorrowedFd<'_>, name: &[u8], kind: FileType, perm: u32) -> Result<()> {
    let name = c_string(name)?;
    let mode = kind.mode_bits() | perm;
    // SAFETY: the name is NUL-terminated and lives through the call.
    let result = unsafe { libc::mknodat(dir.as_raw_fd(), name.as_ptr(), mode, 0) };
    checked(result.into()).map(drop)
}

pub(super) fn symlink(target: &[u8], dir: BorrowedFd<'_>, name: &[u8]) -> Result<()> {
    let (target, name) = (c_string(target)?, c_string(name)?);
    Ok(nix::unistd::symlinkat(
        target.as_c_str(),
        dir,
        name.as_c_str(),
    )?)
}

pub(super) fn link(file: BorrowedFd<'_>, dir: BorrowedFd<'_>, name: &[u8]) -> Result<()> {
    let (file, name) = (self_fd_c(file)?, c_string(name)?);
    // SAFETY: both strings are NUL-terminated and live through the call.
    let result = unsafe {
        libc::linkat(
            libc::AT_FDCWD,
            file.as_ptr(),
            dir.as_raw_fd(),
            name.as_ptr(),
            libc::AT_SYMLINK_FOLLOW,
        )
    };
    checked(result.into()).map(drop)
}

pub(super) fn unlink(dir: BorrowedFd<'_>, name: &[u8], directory: bool) -> Result<()> {
    use nix::unistd::UnlinkatFlags::{NoRemoveDir, RemoveDir};
    let name = c_string(name)?;
    let how = if directory { RemoveDir } else { NoRemoveDir };
    Ok(nix::unistd::unlinkat(dir, name.as_c_str(), how)?)
}

pub(super) fn rename(
    dir: BorrowedFd<'_>,
    name: &[u8],
    new_dir: BorrowedFd<'_>,
    new_name: &[u8],
    flags: u32,
) -> Result<()> {
    let (name, new_name) = (c_string(name)?, c_string(new_name)?);
    // SAFETY: both strings are NUL-terminated and live through the call.
    let result = unsafe {
        libc::renameat2(
            dir.as_raw_fd(),
            name.as_ptr(),
            new_dir.as_raw_fd(),
            new_name.as_ptr(),
            flags,
        )
    };
    checked(result.into()).map(drop)
}

pub(super) fn readlink(fd: BorrowedFd<'_>) -> Result<Vec<u8>> {
    use std::os::unix::ffi::OsStringExt;
    Ok(nix::fcntl::readlinkat(fd, c"")?.into_vec())
}

fn statx_at(fd: BorrowedFd<'_>, name: &CStr) -> Result<Statx> {
    // SAFETY: an all-zero `statx` is a valid value of a plain C structure.
    let mut x: libc::statx = unsafe { std::mem::zeroed() };
    let flags = libc::AT_EMPTY_PATH | libc::AT_SYMLINK_NOFOLLOW | libc::AT_NO_AUTOMOUNT;
    let mask = libc::STATX_BASIC_STATS | libc::STATX_BTIME;
    // SAFETY: the name is NUL-terminated, `x` is a valid place for the result.
    let result = unsafe { libc::statx(fd.as_raw_fd(), name.as_ptr(), flags, mask, &mut x) };
    checked(result.into())?;
    let time = |t: libc::statx_timestamp| Timespec {
        sec: t.tv_sec,
        nsec: t.tv_nsec,
    };
    Ok(Statx {
        dev: libc::makedev(x.stx_dev_major, x.stx_dev_minor),
        ino: x.stx_ino,
        mode: u32::from(x.stx_mode),
        nlink: x.stx_nlink,
        uid: x.stx_uid,
        gid: x.stx_gid,
        rdev: libc::makedev(x.stx_rdev_major, x.stx_rdev_minor),
        size: x.stx_size,
        blocks: x.stx_blocks,
        times: [
            time(x.stx_atime),
            time(x.stx_mtime),
            time(x.stx_ctime),
            time(x.stx_btime),
        ],
    })
}

/// Attributes of what a descriptor refers to.
pub(super) fn stat(fd: BorrowedFd<'_>) -> Result<Statx> {
    statx_at(fd, c"")
}

/// Attributes of an entry of a directory, a link as itself.
pub(super) fn stat_child(dir: BorrowedFd<'_>, name: &[u8]) -> Result<Statx> {
    statx_at(dir, &c_string(name)?)
}

pub(super) fn chmod(fd: BorrowedFd<'_>, perm: u32) -> Result<()> {
    let path = self_fd_c(fd)?;
    // SAFETY: the path is NUL-terminated and lives through the call.
    checked(unsafe { libc::chmod(path.as_ptr(), perm) }.into()).map(drop)
}

pub(super) fn chown(fd: BorrowedFd<'_>, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
    // -1 leaves an id as it is.
    let (uid, gid) = (uid.unwrap_or(u32::MAX), gid.unwrap_or(u32::MAX));
    // SAFETY: a constant string.
    let result =
        unsafe { libc::fchownat(fd.as_raw_fd(), c"".as_ptr(), uid, gid, libc::AT_EMPTY_PATH) };
    checked(result.into()).map(drop)
}

pub(super) fn utimens(
    fd: BorrowedFd<'_>,
    atime: Option<Timespec>,
    mtime: Option<Timespec>,
) -> Result<()> {
    let time = |t: Option<Timespec>| match t {
        Some(t) => libc::timespec {
            tv_sec: t.sec,
            tv_nsec: t.nsec.into(),
        },
        None => libc::timespec {
            tv_sec: 0,
            tv_nsec: libc::UTIME_OMIT,
        },
    };
    let times = [time(atime), time(mtime)];
    // SAFETY: a constant string and two valid times.
    let result = unsafe {
        libc::utimensat(
            fd.as_raw_fd(),
            c"".as_ptr(),
            times.as_ptr(),
            libc::AT_EMPTY_PATH,
        )
    };
    checked(result.into()).map(drop)
}

pub(super) fn truncate(fd: BorrowedFd<'_>, size: u64) -> Result<()> {
    let size = i64::try_from(size).map_err(|_| Errno::EFBIG)?;
    let path = self_fd_c(fd)?;
    // SAFETY: the path is NUL-terminated and lives through the call.
    retry(|| unsafe { libc::truncate(path.as_ptr(), size) }.into()).map(drop)
}

fn offset_of(offset: u64) -> Result<i64> {
    i64::try_from(offset).map_err(|_| Errno::EINVAL)
}

pub(super) fn pread(fd: BorrowedFd<'_>, buf: &mut [u8], offset: u64) -> Result<usize> {
    let offset = offset_of(offset)?;
    // SAFETY: the buffer is valid for its length.
    let n = retry(|| unsafe {
        libc::pread(fd.as_raw_fd(), buf.as_mut_ptr().cast(), buf.len(), offset) as i64
    })?;
    Ok(n as usize)
}

pub(super) fn pwrite(fd: BorrowedFd<'_>, buf: &[u8], offset: u64) -> Result<usize> {
    let offset = offset_of(offset)?;
    // SAFETY: the buffer is valid for its length.
    let n = retry(|| unsafe {
        libc::pwrite(fd.as_raw_fd(), buf.as_ptr().cast(), buf.len(), offset) as i64
    })?;
    Ok(n as usize)
}

/// Writes at the end and returns the count and the new end. Uses the descriptor's own offset,
/// which is why one caller at a time may.
pub(super) fn append(fd: BorrowedFd<'_>, buf: &[u8]) -> Result<(usize, u64)> {
    let part = libc::iovec {
        iov_base: buf.as_ptr().cast_mut().cast(),
        iov_len: buf.len(),
    };
    // SAFETY: the one part is valid for its length and is only read.
    let n =
        retry(|| unsafe { libc::pwritev2(fd.as_raw_fd(), &part, 1, -1, libc::RWF_APPEND) as i64 })?;
    Ok((n as usize, seek(fd, 0, libc::SEEK_CUR)?))
}

fn seek(fd: BorrowedFd<'_>, offset: i64, whence: i32) -> Result<u64> {
    // SAFETY: no memory is passed.
    checked(unsafe { libc::lseek(fd.as_raw_fd(), offset, whence) })
}

pub(super) fn seek_data_hole(fd: BorrowedFd<'_>, offset: u64, hole: bool) -> Result<u64> {
    let whence = if hole {
        libc::SEEK_HOLE
    } else {
        libc::SEEK_DATA
    };
    seek(fd, i64::try_from(offset).map_err(|_| Errno::ENXIO)?, whence)
}

pub(super) fn fallocate(fd: BorrowedFd<'_>, mode: i32, offset: u64, len: u64) -> Result<()> {
    let (offset, len) = (offset_of(offset)?, offset_of(len)?);
    // SAFETY: no memory is passed.
    retry(|| unsafe { libc::fallocate(fd.as_raw_fd(), mode, offset, len) }.into()).map(drop)
}

pub(super) fn sync(fd: BorrowedFd<'_>) -> Result<()> {
    Ok(nix::unistd::fsync(fd)?)
}

/// Reads directory entries from the position `from` on into a new buffer; empty at the end.
pub(super) fn getdents(fd: BorrowedFd<'_>, from: Option<i64>) -> Result<Vec<u8>> {
    if let Some(from) = from {
        seek(fd, from, libc::SEEK_SET)?;
    }
    let mut buf = vec![0u8; 32 << 10];
    // SAFETY: the buffer is valid for its length.
    let n = checked(unsafe {
        libc::syscall(
            libc::SYS_getdents64,
            fd.as_raw_fd(),
            buf.as_mut_ptr(),
            buf.len(),
        )
    })?;
    buf.truncate(n as usize);
    Ok(buf)
}

/// Block size, blocks, free, available, files, free files.
pub(super) fn statfs(fd: BorrowedFd<'_>) -> Result<[u64; 6]> {
    let s = nix::sys::statvfs::fstatvfs(fd)?;
    Ok([
        s.block_size(),
        s.blocks(),
        s.blocks_free(),
        s.blocks_available(),
        s.files(),
        s.files_free(),
    ])
}

pub(super) fn getxattr(fd: BorrowedFd<'_>, name: &[u8]) -> Result<Vec<u8>> {
    let (path, name) = (self_fd_c(fd)?, c_string(name)?);
    // The largest value there is.
    let mut buf = vec![0u8; 64 << 10];
    // SAFETY: both strings are NUL-terminated, the buffer is valid for its length.
    let n = checked(unsafe {
        libc::getxattr(
            path.as_ptr(),
            name.as_ptr(),
            buf.as_mut_ptr().cast(),
            buf.len(),
        ) as i64
    })?;
    buf.truncate(n as usize);
    Ok(buf)
}

pub(super) fn listxattr(fd: BorrowedFd<'_>) -> Result<Vec<Vec<u8>>> {
    let path = self_fd_c(fd)?;
    let mut buf = vec![0u8; 64 << 10];
    // SAFETY: the path is NUL-terminated, the buffer is valid for its length.
    let n = checked(unsafe {
        libc::listxattr(path.as_ptr(), buf.as_mut_ptr().cast(), buf.len()) as i64
    })?;
    let names = buf[..n as usize]
        .split(|&b| b == 0)
        .filter(|name| !name.is_empty());
    Ok(names.map(<[u8]>::to_vec).collect())
}

pub(super) fn setxattr(fd: BorrowedFd<'_>, name: &[u8], value: &[u8], flags: i32) -> Result<()> {
    let (path, name) = (self_fd_c(fd)?, c_string(name)?);
    // SAFETY: both strings are NUL-terminated, the value is valid for its length.
    let result = unsafe {
        libc::setxattr(
            path.as_ptr(),
            name.as_ptr(),
            value.as_ptr().cast(),
            value.len(),
            flags,
        )
    };
    checked(result.into()).map(drop)
}

pub(super) fn removexattr(fd: BorrowedFd<'_>, name: &[u8]) -> Result<()> {
    let (path, name) = (self_fd_c(fd)?, c_string(name)?);
    // SAFETY: both strings are NUL-terminated.
    checked(unsafe { libc::removexattr(path.as_ptr(), name.as_ptr()) }.into()).map(drop)
}

/// Whether the process may give files away.
pub(super) fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn both_ways_to_a_child_find_the_same() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("f"), "x").unwrap();
        symlink("/etc", dir.path().join("l")).unwrap();
        let root = open_root(dir.path()).unwrap();
        for name in ["f", "l"] {
            let one = open_child(root.as_fd(), name.as_bytes(), false).unwrap();
            let name = CString::new(name).unwrap();
            let other = open_child_plain(root.as_fd(), &name, false).unwrap();
            let (one, other) = (stat(one.as_fd()).unwrap(), stat(other.as_fd()).unwrap());
            assert_eq!((one.ino, one.mode), (other.ino, other.mode));
        }
        for bad in ["..", ".", "", "f/..", "/etc"] {
            let error = open_child(root.as_fd(), bad.as_bytes(), true).unwrap_err();
            assert_eq!(error, Errno::EINVAL);
        }
        let slash = open_root(std::path::Path::new("/")).unwrap();
        assert_eq!(
            open_child(slash.as_fd(), b"proc", false).unwrap_err(),
            Errno::EACCES
        );
        let plain = open_child_plain(slash.as_fd(), c"proc", false);
        assert_eq!(plain.unwrap_err(), Errno::EACCES);
        open_child(slash.as_fd(), b"proc", true).unwrap();
    }
}
