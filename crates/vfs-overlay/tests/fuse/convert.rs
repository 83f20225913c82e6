//! Numbers and types of FUSE as ours, and back.

use fuser::TimeOrNow;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use vfs_core::{Errno, FileType, OpenFlags, TimeSet, Timespec};

pub(super) fn errno(error: Errno) -> fuser::Errno {
    fuser::Errno::from_i32(error.number())
}

pub(super) fn fuse_kind(kind: FileType) -> fuser::FileType {
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

pub(super) fn to_system(time: Timespec) -> SystemTime {
    let nanos = Duration::from_nanos(u64::from(time.nsec));
    match u64::try_from(time.sec) {
        Ok(sec) => UNIX_EPOCH + Duration::from_secs(sec) + nanos,
        Err(_) => UNIX_EPOCH - Duration::from_secs(time.sec.unsigned_abs()) + nanos,
    }
}

pub(super) fn from_system(time: SystemTime) -> Timespec {
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

pub(super) fn time_set(time: Option<TimeOrNow>) -> TimeSet {
    match time {
        None => TimeSet::Omit,
        Some(TimeOrNow::Now) => TimeSet::Now,
        Some(TimeOrNow::SpecificTime(at)) => TimeSet::At(from_system(at)),
    }
}

/// Device number as FUSE sends it (`new_encode_dev`) to `makedev(3)`'s and back.
pub(super) fn rdev_in(rdev: u32) -> u64 {
    let (major, minor) = (
        (rdev >> 8) & 0xfff,
        (rdev & 0xff) | ((rdev >> 12) & 0xfff00),
    );
    libc::makedev(major, minor)
}

pub(super) fn rdev_out(rdev: u64) -> u32 {
    let (major, minor) = (libc::major(rdev), libc::minor(rdev));
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

/// Open flags that mean something to us.
pub(super) fn open_flags(flags: i32) -> OpenFlags {
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
