//! Plain data of the file system interface: kinds, attributes, credentials, flags.
//!
//! Numbers are Linux's on x86-64 (`include/uapi/linux/stat.h`, `include/uapi/asm-generic/fcntl.h`)
//! and are our own constants, never the host's.

use bitflags::bitflags;
use std::sync::Arc;

/// Type bits of a mode (`S_IFMT`).
pub const S_IFMT: u32 = 0o170000;
/// Set-user-ID bit.
pub const S_ISUID: u32 = 0o4000;
/// Set-group-ID bit.
pub const S_ISGID: u32 = 0o2000;
/// Restricted-deletion ("sticky") bit.
pub const S_ISVTX: u32 = 0o1000;

/// Longest name of one path component, in bytes (`NAME_MAX`).
pub const NAME_MAX: usize = 255;
/// Longest path a system call takes, in bytes with the terminating NUL (`PATH_MAX`).
pub const PATH_MAX: usize = 4096;
/// Most symbolic links followed in one path walk (`MAXSYMLINKS`, `include/linux/namei.h`).
pub const MAXSYMLINKS: u32 = 40;

/// The kind of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileType {
    /// Regular file.
    Regular,
    /// Directory.
    Directory,
    /// Symbolic link.
    Symlink,
    /// Character device.
    CharDevice,
    /// Block device.
    BlockDevice,
    /// Named pipe.
    Fifo,
    /// Unix socket.
    Socket,
}

impl FileType {
    /// The type bits of `st_mode`.
    pub fn mode_bits(self) -> u32 {
        match self {
            FileType::Socket => 0o140000,
            FileType::Symlink => 0o120000,
            FileType::Regular => 0o100000,
            FileType::BlockDevice => 0o060000,
            FileType::Directory => 0o040000,
            FileType::CharDevice => 0o020000,
            FileType::Fifo => 0o010000,
        }
    }

    /// The kind that the type bits of `mode` name; `None` for bits Linux does not define.
    pub fn from_mode(mode: u32) -> Option<FileType> {
        Some(match mode & S_IFMT {
            0o140000 => FileType::Socket,
            0o120000 => FileType::Symlink,
            0o100000 => FileType::Regular,
            0o060000 => FileType::BlockDevice,
            0o040000 => FileType::Directory,
            0o020000 => FileType::CharDevice,
            0o010000 => FileType::Fifo,
            _ => return None,
        })
    }
}

/// A point in time: seconds since the epoch (may be negative) and nanoseconds below 10⁹.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timespec {
    /// Seconds since 1970-01-01T00:00:00Z.
    pub sec: i64,
    /// Nanoseconds, `0..1_000_000_000`.
    pub nsec: u32,
}

impl Timespec {
    /// The present, by the host's real-time clock.
    pub fn now() -> Timespec {
        match std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH) {
            Ok(d) => Timespec {
                sec: d.as_secs() as i64,
                nsec: d.subsec_nanos(),
            },
            // A clock before 1970 reads as the epoch.
            Err(_) => Timespec::default(),
        }
    }

    /// The present to a few milliseconds, which costs less to ask for.
    pub fn coarse() -> Timespec {
        use nix::time::{ClockId, clock_gettime};
        match clock_gettime(ClockId::CLOCK_REALTIME_COARSE) {
            Ok(t) => Timespec {
                sec: t.tv_sec(),
                nsec: t.tv_nsec() as u32,
            },
            Err(_) => Timespec::now(),
        }
    }

    /// Nanoseconds since the epoch, saturating.
    pub fn as_nanos(self) -> i64 {
        self.sec
            .saturating_mul(1_000_000_000)
            .saturating_add(i64::from(self.nsec))
    }

    /// From nanoseconds since the epoch.
    pub fn from_nanos(ns: i64) -> Timespec {
        Timespec {
            sec: ns.div_euclid(1_000_000_000),
            nsec: ns.rem_euclid(1_000_000_000) as u32,
        }
    }
}

/// Attributes of an inode, as `stat(2)` reports them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Device number of the file system.
    pub dev: u64,
    /// Inode number, never zero.
    pub ino: u64,
    /// Type and permission bits.
    pub mode: u32,
    /// Hard links.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number of a device node, else zero.
    pub rdev: u64,
    /// Size in bytes; of a symbolic link the length of its text.
    pub size: u64,
    /// Allocated 512-byte blocks.
    pub blocks: u64,
    /// Last access.
    pub atime: Timespec,
    /// Last modification.
    pub mtime: Timespec,
    /// Last status change.
    pub ctime: Timespec,
    /// Birth.
    pub btime: Timespec,
}

impl Stat {
    /// The kind, from the mode.
    pub fn file_type(&self) -> FileType {
        FileType::from_mode(self.mode).unwrap_or(FileType::Regular)
    }

    /// The permission bits with setuid, setgid and sticky (`mode & 07777`).
    pub fn perm(&self) -> u32 {
        self.mode & 0o7777
    }
}

/// What to change of an inode; `None` leaves it. Permission was checked by the caller
/// (`notify_change`, `fs/attr.c`); an implementation applies it and sets `ctime`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttr {
    /// New permission bits (07777).
    pub mode: Option<u32>,
    /// New owner.
    pub uid: Option<u32>,
    /// New group.
    pub gid: Option<u32>,
    /// New size in bytes; a longer file reads as zeros.
    pub size: Option<u64>,
    /// New access time.
    pub atime: Option<Timespec>,
    /// New modification time.
    pub mtime: Option<Timespec>,
}

/// Totals of a file system, as `statfs(2)` reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatFs {
    /// Magic number of the file system type (`f_type`).
    pub magic: u64,
    /// Block size in bytes.
    pub bsize: u64,
    /// Blocks in all.
    pub blocks: u64,
    /// Free blocks.
    pub bfree: u64,
    /// Free blocks for the unprivileged.
    pub bavail: u64,
    /// Inodes in all.
    pub files: u64,
    /// Free inodes.
    pub ffree: u64,
    /// Longest name in bytes.
    pub namelen: u64,
}

/// One entry of a directory, without `.` and `..`, which the open directory adds itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirEntry<'a> {
    /// Name in bytes: no `/`, no NUL.
    pub name: &'a [u8],
    /// Inode number as `stat` would give it.
    pub ino: u64,
    /// Kind.
    pub kind: FileType,
    /// Cookie to continue *after* this entry; never 0, 1 or 2.
    pub next: u64,
}

/// Credentials of a process (`struct cred`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cred {
    /// Real user.
    pub uid: u32,
    /// Effective user; also decides file access.
    pub euid: u32,
    /// Saved user.
    pub suid: u32,
    /// Real group.
    pub gid: u32,
    /// Effective group; also decides file access.
    pub egid: u32,
    /// Saved group.
    pub sgid: u32,
    /// Supplementary groups, at most 64.
    pub groups: Vec<u32>,
}

impl Cred {
    /// The superuser.
    pub fn root() -> Cred {
        Cred::user(0, 0)
    }

    /// A user and group with no supplementary groups.
    pub fn user(uid: u32, gid: u32) -> Cred {
        Cred {
            uid,
            euid: uid,
            suid: uid,
            gid,
            egid: gid,
            sgid: gid,
            groups: Vec::new(),
        }
    }

    /// Whether the effective group or a supplementary group is `gid` (`in_group_p`).
    pub fn in_group(&self, gid: u32) -> bool {
        self.egid == gid || self.groups.contains(&gid)
    }

    /// Whether the effective user is the superuser, who here holds every file capability.
    pub fn is_root(&self) -> bool {
        self.euid == 0
    }
}

/// On whose behalf a file system call is made: what Linux takes from `current`.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Credentials.
    pub cred: Arc<Cred>,
    /// Process id in the VM, 0 for the host; `/proc/self` and `/dev/fd` look at it.
    pub pid: u32,
    /// File mode creation mask.
    pub umask: u32,
}

impl Caller {
    /// The host itself: superuser, no process, mask 022.
    pub fn host() -> Caller {
        Caller {
            cred: Arc::new(Cred::root()),
            pid: 0,
            umask: 0o022,
        }
    }
}

bitflags! {
    /// Flags of `open(2)`, with the access mode as two bits of their own.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct OpenFlags: u32 {
        /// Open for writing only (access mode 1).
        const WRONLY = 0o1;
        /// Open for reading and writing (access mode 2).
        const RDWR = 0o2;
        /// Create if missing.
        const CREAT = 0o100;
        /// With `CREAT`: fail if it exists.
        const EXCL = 0o200;
        /// Do not make a terminal the controlling terminal.
        const NOCTTY = 0o400;
        /// Cut to length zero.
        const TRUNC = 0o1000;
        /// Write at the end.
        const APPEND = 0o2000;
        /// Do not block.
        const NONBLOCK = 0o4000;
        /// Direct I/O; accepted, recorded, no effect on caching.
        const DIRECT = 0o40000;
        /// Fail unless a directory.
        const DIRECTORY = 0o200000;
        /// Fail if the last component is a symbolic link.
        const NOFOLLOW = 0o400000;
        /// Close on exec; a descriptor flag, not one of the description.
        const CLOEXEC = 0o2000000;
        /// Reading does not change the access time.
        const NOATIME = 0o1000000;
        /// Only a location; no read or write.
        const PATH = 0o10000000;
        /// Unnamed temporary file (without the `DIRECTORY` bit it carries on Linux).
        const TMPFILE = 0o20000000;
    }

    /// Flags of `renameat2(2)`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub struct RenameFlags: u32 {
        /// Fail with `EEXIST` if the new name exists.
        const NOREPLACE = 1;
        /// Exchange the two names.
        const EXCHANGE = 2;
    }

    /// A permission asked for (`MAY_*` in `include/linux/fs.h`, `R_OK`… in `access(2)`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Access: u32 {
        /// Execute, or search a directory.
        const EXEC = 1;
        /// Write.
        const WRITE = 2;
        /// Read.
        const READ = 4;
    }
}

impl OpenFlags {
    /// Whether reading is allowed.
    pub fn readable(self) -> bool {
        !self.contains(OpenFlags::WRONLY) && !self.contains(OpenFlags::PATH)
    }

    /// Whether writing is allowed.
    pub fn writable(self) -> bool {
        self.intersects(OpenFlags::WRONLY | OpenFlags::RDWR) && !self.contains(OpenFlags::PATH)
    }
}
