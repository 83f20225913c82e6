//! Numbers and layouts of the guest ABI: WASI preview 1 and the host modules beside it.
//!
//! All are little-endian. Nothing here comes from the machine we run on.

use kernel::{FdKind, FileType, OpenFlags, Stat, Timespec};

/// Most iovecs, poll descriptors or subscriptions of one call; more is `EINVAL`.
pub(crate) const MAX_VECTOR: u32 = 1024;

/// `fdflags`: append.
pub(crate) const FDFLAG_APPEND: u32 = 1;
/// `fdflags`: do not block.
pub(crate) const FDFLAG_NONBLOCK: u32 = 4;
/// `fdflags`: direct I/O, an addition of this ABI.
pub(crate) const FDFLAG_DIRECT: u32 = 0x20;

/// `oflags`: create.
pub(crate) const OFLAG_CREAT: u32 = 1;
/// `oflags`: must be a directory.
pub(crate) const OFLAG_DIRECTORY: u32 = 2;
/// `oflags`: must not exist.
pub(crate) const OFLAG_EXCL: u32 = 4;
/// `oflags`: cut to length zero.
pub(crate) const OFLAG_TRUNC: u32 = 8;

/// `lookupflags`: follow a symbolic link at the end.
pub(crate) const LOOKUP_FOLLOW: u32 = 1;

/// Right to read.
pub(crate) const RIGHT_READ: u64 = 1 << 1;
/// Right to seek.
const RIGHT_SEEK: u64 = 1 << 2;
/// Right to ask for the offset.
const RIGHT_TELL: u64 = 1 << 5;
/// Right to write.
pub(crate) const RIGHT_WRITE: u64 = 1 << 6;
/// Every right that is not about sockets: what directories have and hand on.
pub(crate) const RIGHTS_ALL: u64 = 0x0fff_ffff;
/// What writing and nothing else needs (`fd_datasync`, write, allocate, set size).
const RIGHTS_OF_WRITING: u64 = 1 | RIGHT_WRITE | 1 << 8 | 1 << 22;
/// What reading and nothing else needs (read, readdir).
const RIGHTS_OF_READING: u64 = RIGHT_READ | 1 << 14;

/// `filetype` of a kind of file. Pipes must be unknown: guests take 5 and 6 for sockets and
/// anything else for a file.
pub(crate) fn filetype(kind: FileType) -> u8 {
    match kind {
        FileType::BlockDevice => 1,
        FileType::CharDevice => 2,
        FileType::Directory => 3,
        FileType::Regular => 4,
        FileType::Socket => 6,
        FileType::Symlink => 7,
        FileType::Fifo => 0,
    }
}

/// `filetype` of an open descriptor.
pub(crate) fn descriptor_type(kind: FdKind) -> u8 {
    match kind {
        FdKind::File(kind) => filetype(kind),
        FdKind::Terminal => 2,
        FdKind::Socket { stream: true } => 6,
        FdKind::Socket { stream: false } => 5,
        FdKind::Pipe | FdKind::Other => 0,
    }
}

/// Status flags as `fdflags`.
pub(crate) fn fdflags(flags: OpenFlags) -> u16 {
    let bit = |linux: OpenFlags, wasi: u32| if flags.contains(linux) { wasi } else { 0 };
    (bit(OpenFlags::APPEND, FDFLAG_APPEND)
        | bit(OpenFlags::NONBLOCK, FDFLAG_NONBLOCK)
        | bit(OpenFlags::DIRECT, FDFLAG_DIRECT)) as u16
}

/// `fdflags` as status flags; synchronous writing is the default of every file system here, and
/// unknown bits are ignored.
pub(crate) fn status_flags(fdflags: u32) -> OpenFlags {
    let mut flags = OpenFlags::empty();
    flags.set(OpenFlags::APPEND, fdflags & FDFLAG_APPEND != 0);
    flags.set(OpenFlags::NONBLOCK, fdflags & FDFLAG_NONBLOCK != 0);
    flags.set(OpenFlags::DIRECT, fdflags & FDFLAG_DIRECT != 0);
    flags
}

/// The rights that tell the guest's libc how a descriptor was opened.
pub(crate) fn rights(kind: FdKind, flags: OpenFlags) -> u64 {
    if kind == FdKind::File(FileType::Directory) {
        return RIGHTS_ALL;
    }
    let mut rights = RIGHTS_ALL;
    if !flags.readable() {
        rights &= !RIGHTS_OF_READING;
    }
    if !flags.writable() {
        rights &= !RIGHTS_OF_WRITING;
    }
    // wasi-libc takes a character device that cannot seek for a terminal.
    match kind {
        FdKind::File(FileType::Regular | FileType::BlockDevice | FileType::CharDevice) => {}
        _ => rights &= !(RIGHT_SEEK | RIGHT_TELL),
    }
    rights
}

/// `fdstat`, 24 bytes.
pub(crate) fn fdstat(filetype: u8, flags: u16, base: u64, inheriting: u64) -> [u8; 24] {
    let mut out = [0; 24];
    out[0] = filetype;
    out[2..4].copy_from_slice(&flags.to_le_bytes());
    out[8..16].copy_from_slice(&base.to_le_bytes());
    out[16..24].copy_from_slice(&inheriting.to_le_bytes());
    out
}

/// `filestat`, 64 bytes.
pub(crate) fn filestat(stat: &Stat) -> [u8; 64] {
    let mut out = [0; 64];
    out[0..8].copy_from_slice(&stat.dev.to_le_bytes());
    out[8..16].copy_from_slice(&stat.ino.to_le_bytes());
    out[16] = filetype(stat.file_type());
    out[24..32].copy_from_slice(&u64::from(stat.nlink).to_le_bytes());
    out[32..40].copy_from_slice(&stat.size.to_le_bytes());
    for (at, time) in [(40, stat.atime), (48, stat.mtime), (56, stat.ctime)] {
        out[at..at + 8].copy_from_slice(&nanoseconds(time).to_le_bytes());
    }
    out
}

/// Nanoseconds since 1970; earlier is 1970, for the type has no sign.
fn nanoseconds(time: Timespec) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(0)
}

/// Flags of wasi-libc's `open`, as spawn actions and `open_tmpfile` carry them.
///
/// The access mode is in two high bits. Rust's standard library also passes the bare Linux
/// numbers 0 and 1, so without a high bit the low two are read as `O_ACCMODE`.
pub(crate) fn libc_open_flags(oflag: u32) -> OpenFlags {
    const NOFOLLOW: u32 = 0x0100_0000;
    const RDONLY: u32 = 0x0400_0000;
    const WRONLY: u32 = 0x1000_0000;
    const DIRECT: u32 = 0x2000_0000;
    const CREAT: u32 = 0x1000;
    const DIRECTORY: u32 = 0x2000;
    const EXCL: u32 = 0x4000;
    const TRUNC: u32 = 0x8000;
    let access = oflag & (RDONLY | WRONLY);
    let mut flags = match access {
        0 => match oflag & 3 {
            0 => OpenFlags::empty(),
            1 => OpenFlags::WRONLY,
            _ => OpenFlags::RDWR,
        },
        RDONLY => OpenFlags::empty(),
        WRONLY => OpenFlags::WRONLY,
        _ => OpenFlags::RDWR,
    };
    flags.set(OpenFlags::APPEND, access != 0 && oflag & FDFLAG_APPEND != 0);
    flags.set(OpenFlags::NONBLOCK, oflag & FDFLAG_NONBLOCK != 0);
    flags.set(OpenFlags::NOFOLLOW, oflag & NOFOLLOW != 0);
    flags.set(OpenFlags::CREAT, oflag & CREAT != 0);
    flags.set(OpenFlags::DIRECTORY, oflag & DIRECTORY != 0);
    flags.set(OpenFlags::EXCL, oflag & EXCL != 0);
    flags.set(OpenFlags::TRUNC, oflag & TRUNC != 0);
    flags.set(OpenFlags::DIRECT, oflag & DIRECT != 0);
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_what_the_published_libc_asks_for() {
        let file = FdKind::File(FileType::Regular);
        assert_eq!(rights(file, OpenFlags::empty()), 0x0fbf_febe);
        assert_eq!(rights(file, OpenFlags::WRONLY), 0x0fff_bffd);
        assert_eq!(rights(file, OpenFlags::RDWR), 0x0fff_ffff);
        assert_eq!(rights(FdKind::Terminal, OpenFlags::RDWR), 0x0fff_ffdb);
    }

    #[test]
    fn open_flags_of_both_libraries() {
        assert_eq!(libc_open_flags(0), OpenFlags::empty());
        assert_eq!(libc_open_flags(1), OpenFlags::WRONLY);
        assert_eq!(
            libc_open_flags(0x1400_0001),
            OpenFlags::RDWR | OpenFlags::APPEND
        );
        assert_eq!(
            libc_open_flags(0x1000_9000),
            OpenFlags::WRONLY | OpenFlags::CREAT | OpenFlags::TRUNC
        );
    }
}
