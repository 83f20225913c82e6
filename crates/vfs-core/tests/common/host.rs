//! The host kernel as the oracle: a fresh tmpfs directory that a thread is locked into.
//!
//! Needs root, as `chroot` and device nodes do. Everything here changes the calling thread alone:
//! its root, its mask, its credentials.

use std::ffi::CString;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use vfs_core::{Cred, FileType, Stat, Timespec};

/// A directory on a host tmpfs that is `/` for this thread.
pub struct Host {
    outside: OwnedFd,
    dir: Option<tempfile::TempDir>,
}

/// What a call gave, with the host's error number.
pub type HostResult<T> = Result<T, i32>;

/// Whether the oracle can be used here.
pub fn available() -> bool {
    // SAFETY: no arguments.
    unsafe { libc::geteuid() == 0 }
}

fn check(result: impl Into<i64>) -> HostResult<i64> {
    match result.into() {
        n if n < 0 => Err(std::io::Error::last_os_error().raw_os_error().unwrap()),
        n => Ok(n),
    }
}

fn c(path: &[u8]) -> CString {
    CString::new(path).unwrap()
}

impl Host {
    /// Locks the thread into a new directory; left on drop.
    pub fn enter() -> Host {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = c(dir.path().to_str().unwrap().as_bytes());
        // SAFETY: strings are NUL-terminated and live through the calls.
        unsafe {
            check(libc::unshare(libc::CLONE_FS)).unwrap();
            let fd = libc::open(c"/".as_ptr(), libc::O_PATH | libc::O_CLOEXEC);
            check(fd).unwrap();
            let outside = OwnedFd::from_raw_fd(fd);
            check(libc::chmod(path.as_ptr(), 0o755)).unwrap();
            check(libc::chroot(path.as_ptr())).unwrap();
            check(libc::chdir(c"/".as_ptr())).unwrap();
            libc::umask(0);
            Host {
                outside,
                dir: Some(dir),
            }
        }
    }

    /// Becomes somebody for the time of `f`.
    pub fn as_user<T>(&self, cred: &Cred, f: impl FnOnce() -> T) -> T {
        // Raw calls change the thread; the C library's would change the process.
        // SAFETY: the group list is valid for its length.
        unsafe {
            check(libc::syscall(
                libc::SYS_setgroups,
                cred.groups.len(),
                cred.groups.as_ptr(),
            ))
            .unwrap();
            check(libc::syscall(libc::SYS_setresgid, -1, cred.egid, -1)).unwrap();
            check(libc::syscall(libc::SYS_setresuid, -1, cred.euid, -1)).unwrap();
        }
        let result = f();
        // SAFETY: as above; the real ids are still root's.
        unsafe {
            check(libc::syscall(libc::SYS_setresuid, -1, 0, -1)).unwrap();
            check(libc::syscall(libc::SYS_setresgid, -1, 0, -1)).unwrap();
            check(libc::syscall(libc::SYS_setgroups, 0, 0)).unwrap();
        }
        result
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // SAFETY: a descriptor of ours and constant strings.
        unsafe {
            check(libc::fchdir(self.outside.as_raw_fd())).unwrap();
            check(libc::chroot(c".".as_ptr())).unwrap();
        }
        self.dir.take();
    }
}

/// A host call, whose -1 is an error.
macro_rules! sys {
    ($call:expr) => {{
        // SAFETY: below, all strings are NUL-terminated and live through the call, and all
        // buffers are valid for the lengths passed.
        let result = unsafe { $call };
        check(result as i64)
    }};
}

pub fn open(path: &[u8], flags: i32, mode: u32) -> HostResult<OwnedFd> {
    let fd = sys!(libc::open(c(path).as_ptr(), flags | libc::O_CLOEXEC, mode))?;
    // SAFETY: a new descriptor that nobody else has.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

pub fn mkdir(path: &[u8], mode: u32) -> HostResult<()> {
    sys!(libc::mkdir(c(path).as_ptr(), mode)).map(drop)
}

pub fn mknod(path: &[u8], kind: FileType, mode: u32, rdev: u64) -> HostResult<()> {
    sys!(libc::mknod(c(path).as_ptr(), kind.mode_bits() | mode, rdev)).map(drop)
}

pub fn symlink(target: &[u8], path: &[u8]) -> HostResult<()> {
    sys!(libc::symlink(c(target).as_ptr(), c(path).as_ptr())).map(drop)
}

pub fn link(old: &[u8], new: &[u8], follow: bool) -> HostResult<()> {
    let flags = if follow { libc::AT_SYMLINK_FOLLOW } else { 0 };
    let (old, new) = (c(old), c(new));
    let at = libc::AT_FDCWD;
    sys!(libc::linkat(at, old.as_ptr(), at, new.as_ptr(), flags)).map(drop)
}

pub fn link_fd(fd: &OwnedFd, new: &[u8]) -> HostResult<()> {
    let new = c(new);
    let flags = libc::AT_EMPTY_PATH;
    sys!(libc::linkat(
        fd.as_raw_fd(),
        c"".as_ptr(),
        libc::AT_FDCWD,
        new.as_ptr(),
        flags,
    ))
    .map(drop)
}

pub fn unlink(path: &[u8]) -> HostResult<()> {
    sys!(libc::unlink(c(path).as_ptr())).map(drop)
}

pub fn rmdir(path: &[u8]) -> HostResult<()> {
    sys!(libc::rmdir(c(path).as_ptr())).map(drop)
}

pub fn rename(old: &[u8], new: &[u8], flags: u32) -> HostResult<()> {
    let (old, new) = (c(old), c(new));
    let at = libc::AT_FDCWD;
    sys!(libc::renameat2(at, old.as_ptr(), at, new.as_ptr(), flags)).map(drop)
}

pub fn chmod(path: &[u8], mode: u32) -> HostResult<()> {
    sys!(libc::chmod(c(path).as_ptr(), mode)).map(drop)
}

pub fn chown(path: &[u8], uid: Option<u32>, gid: Option<u32>, follow: bool) -> HostResult<()> {
    let flags = if follow { 0 } else { libc::AT_SYMLINK_NOFOLLOW };
    let (uid, gid) = (uid.unwrap_or(u32::MAX), gid.unwrap_or(u32::MAX));
    sys!(libc::fchownat(
        libc::AT_FDCWD,
        c(path).as_ptr(),
        uid,
        gid,
        flags
    ))
    .map(drop)
}

pub fn truncate(path: &[u8], len: i64) -> HostResult<()> {
    sys!(libc::truncate(c(path).as_ptr(), len)).map(drop)
}

pub fn access(path: &[u8], mode: i32) -> HostResult<()> {
    let flags = libc::AT_EACCESS;
    sys!(libc::syscall(
        libc::SYS_faccessat2,
        libc::AT_FDCWD,
        c(path).as_ptr(),
        mode,
        flags,
    ))
    .map(drop)
}

pub fn utimens(path: &[u8], times: [(i64, i64); 2], follow: bool) -> HostResult<()> {
    let times = times.map(|(tv_sec, tv_nsec)| libc::timespec { tv_sec, tv_nsec });
    let flags = if follow { 0 } else { libc::AT_SYMLINK_NOFOLLOW };
    let at = libc::AT_FDCWD;
    sys!(libc::utimensat(at, c(path).as_ptr(), times.as_ptr(), flags)).map(drop)
}

pub fn readlink(path: &[u8]) -> HostResult<Vec<u8>> {
    let mut buf = vec![0u8; 4096];
    let n = sys!(libc::readlink(
        c(path).as_ptr(),
        buf.as_mut_ptr().cast(),
        buf.len()
    ))?;
    buf.truncate(n as usize);
    Ok(buf)
}

pub fn setxattr(path: &[u8], name: &[u8], value: &[u8], flags: i32) -> HostResult<()> {
    let (path, name) = (c(path), c(name));
    sys!(libc::setxattr(
        path.as_ptr(),
        name.as_ptr(),
        value.as_ptr().cast(),
        value.len(),
        flags,
    ))
    .map(drop)
}

pub fn getxattr(path: &[u8], name: &[u8]) -> HostResult<Vec<u8>> {
    let (path, name) = (c(path), c(name));
    let mut buf = vec![0u8; 65536];
    let n = sys!(libc::getxattr(
        path.as_ptr(),
        name.as_ptr(),
        buf.as_mut_ptr().cast(),
        buf.len(),
    ))?;
    buf.truncate(n as usize);
    Ok(buf)
}

pub fn removexattr(path: &[u8], name: &[u8]) -> HostResult<()> {
    sys!(libc::removexattr(c(path).as_ptr(), c(name).as_ptr())).map(drop)
}

pub fn pread(fd: &OwnedFd, len: usize, offset: i64) -> HostResult<Vec<u8>> {
    let mut buf = vec![0u8; len];
    let n = sys!(libc::pread(
        fd.as_raw_fd(),
        buf.as_mut_ptr().cast(),
        len,
        offset
    ))?;
    buf.truncate(n as usize);
    Ok(buf)
}

pub fn read(fd: &OwnedFd, len: usize) -> HostResult<Vec<u8>> {
    let mut buf = vec![0u8; len];
    let n = sys!(libc::read(fd.as_raw_fd(), buf.as_mut_ptr().cast(), len))?;
    buf.truncate(n as usize);
    Ok(buf)
}

pub fn write(fd: &OwnedFd, bytes: &[u8]) -> HostResult<i64> {
    sys!(libc::write(
        fd.as_raw_fd(),
        bytes.as_ptr().cast(),
        bytes.len()
    ))
}

pub fn pwrite(fd: &OwnedFd, bytes: &[u8], offset: i64) -> HostResult<i64> {
    sys!(libc::pwrite(
        fd.as_raw_fd(),
        bytes.as_ptr().cast(),
        bytes.len(),
        offset
    ))
}

pub fn seek(fd: &OwnedFd, offset: i64, whence: i32) -> HostResult<i64> {
    sys!(libc::lseek(fd.as_raw_fd(), offset, whence))
}

pub fn ftruncate(fd: &OwnedFd, len: i64) -> HostResult<()> {
    sys!(libc::ftruncate(fd.as_raw_fd(), len)).map(drop)
}

pub fn fallocate(fd: &OwnedFd, mode: i32, offset: i64, len: i64) -> HostResult<()> {
    sys!(libc::fallocate(fd.as_raw_fd(), mode, offset, len)).map(drop)
}

pub fn fchmod(fd: &OwnedFd, mode: u32) -> HostResult<()> {
    sys!(libc::fchmod(fd.as_raw_fd(), mode)).map(drop)
}

fn convert(st: &libc::stat) -> Stat {
    let time = |sec, nsec| Timespec {
        sec,
        nsec: nsec as u32,
    };
    Stat {
        dev: st.st_dev,
        ino: st.st_ino,
        mode: st.st_mode,
        nlink: st.st_nlink as u32,
        uid: st.st_uid,
        gid: st.st_gid,
        rdev: st.st_rdev,
        size: st.st_size as u64,
        blocks: st.st_blocks as u64,
        atime: time(st.st_atime, st.st_atime_nsec),
        mtime: time(st.st_mtime, st.st_mtime_nsec),
        ctime: time(st.st_ctime, st.st_ctime_nsec),
        btime: Timespec::default(),
    }
}

pub fn stat(path: &[u8], follow: bool) -> HostResult<Stat> {
    // SAFETY: all zeros are a valid value of a plain C structure.
    let mut st = unsafe { std::mem::zeroed::<libc::stat>() };
    let flags = if follow { 0 } else { libc::AT_SYMLINK_NOFOLLOW };
    sys!(libc::fstatat(
        libc::AT_FDCWD,
        c(path).as_ptr(),
        &mut st,
        flags
    ))?;
    Ok(convert(&st))
}

pub fn fstat(fd: &OwnedFd) -> HostResult<Stat> {
    // SAFETY: all zeros are a valid value of a plain C structure.
    let mut st = unsafe { std::mem::zeroed::<libc::stat>() };
    sys!(libc::fstat(fd.as_raw_fd(), &mut st))?;
    Ok(convert(&st))
}

/// Names in a directory, sorted, without `.` and `..`.
pub fn list(path: &[u8]) -> Vec<Vec<u8>> {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let path = std::path::Path::new(std::ffi::OsStr::from_bytes(path));
    let mut names: Vec<Vec<u8>> = std::fs::read_dir(path)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_vec())
        .collect();
    names.sort();
    names
}
