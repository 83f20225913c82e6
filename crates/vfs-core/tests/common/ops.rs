//! Random operations: what they are and how they are chosen.

use proptest::prelude::*;
use vfs_core::{FileType, OpenFlags, TimeSet, Timespec, Whence};

/// Open files kept by a case.
pub const SLOTS: usize = 3;

/// A path, shown readably.
#[derive(Clone)]
pub struct Name(pub Vec<u8>);

impl std::ops::Deref for Name {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl std::fmt::Debug for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown: String = self.0.iter().take(40).map(|&b| b as char).collect();
        match self.0.len() {
            0..=40 => write!(f, "{shown:?}"),
            len => write!(f, "{shown:?}…{len}"),
        }
    }
}

#[derive(Clone, Debug)]
pub enum Op {
    Mkdir(Name, u32),
    Mknod(Name, FileType, u32),
    Symlink(Name, Name),
    Link(Name, Name, bool),
    Unlink(Name),
    Rmdir(Name),
    Rename(Name, Name, u32),
    Chmod(Name, u32),
    Chown(Name, Option<u32>, Option<u32>, bool),
    Truncate(Name, u64),
    Access(Name, u32),
    Stat(Name, bool),
    Readlink(Name),
    Utimens(Name, usize, bool),
    SetXattr(Name, usize, i32),
    GetXattr(Name, usize),
    RemoveXattr(Name, usize),
    Open(usize, Name, u32, u32),
    Tmpfile(usize, Name, bool),
    LinkFile(usize, Name),
    Close(usize),
    Read(usize, usize),
    Pread(usize, u64),
    Write(usize, usize),
    Pwrite(usize, u64, usize),
    Seek(usize, i64, usize),
    Ftruncate(usize, u64),
    Fchmod(usize, u32),
    Allocate(usize, u64, u64, bool),
    Punch(usize, u64, u64),
    Fstat(usize),
}

pub const XATTRS: [&[u8]; 4] = [b"user.x", b"trusted.x", b"bad.x", b"user."];
pub const WHENCE: [(i32, Whence); 5] = [
    (libc::SEEK_SET, Whence::Set),
    (libc::SEEK_CUR, Whence::Current),
    (libc::SEEK_END, Whence::End),
    (libc::SEEK_DATA, Whence::Data),
    (libc::SEEK_HOLE, Whence::Hole),
];

pub fn times(n: usize) -> ([(i64, i64); 2], TimeSet, TimeSet) {
    const NOW: (i64, i64) = (0, libc::UTIME_NOW);
    const OMIT: (i64, i64) = (0, libc::UTIME_OMIT);
    let at = |sec, nsec| TimeSet::At(Timespec { sec, nsec });
    match n {
        0 => ([NOW, NOW], TimeSet::Now, TimeSet::Now),
        1 => ([OMIT, OMIT], TimeSet::Omit, TimeSet::Omit),
        2 => ([NOW, OMIT], TimeSet::Now, TimeSet::Omit),
        3 => ([(5, 6), (-7, 999_999_999)], at(5, 6), at(-7, 999_999_999)),
        _ => (
            [OMIT, (8, 1_000_000_000)],
            TimeSet::Omit,
            at(8, 1_000_000_000),
        ),
    }
}

pub fn path() -> impl Strategy<Value = Name> {
    let name = prop_oneof![
        12 => prop::sample::select(vec!["a", "b", "c", "d"]),
        1 => Just("."),
        2 => Just(".."),
    ];
    let plain = (
        prop_oneof![2 => Just(""), 1 => Just("/"), 1 => Just("//")],
        prop::collection::vec(name, 1..4),
        prop_oneof![3 => Just("/"), 1 => Just("//")],
        prop_oneof![8 => Just(""), 2 => Just("/"), 1 => Just("/."), 1 => Just("/..")],
    )
        .prop_map(|(start, names, between, end)| {
            format!("{start}{}{end}", names.join(between)).into_bytes()
        });
    prop_oneof![
        60 => plain,
        1 => Just(Vec::new()),
        1 => Just(b"/".to_vec()),
        1 => Just(vec![b'n'; 255]),
        1 => Just(vec![b'n'; 256]),
        1 => Just([&b"a/"[..], &[b'n'; 256]].concat()),
        1 => Just(b"a/".repeat(2048)),
        1 => Just(b"./".repeat(2047)),
    ]
    .prop_map(Name)
}

pub fn perm() -> impl Strategy<Value = u32> {
    prop_oneof![
        4 => prop::sample::select(vec![0o755, 0o644, 0o777, 0o700, 0o600]),
        2 => prop::sample::select(vec![0o1777, 0o2755, 0o4755, 0o6777, 0o2775, 0o2644]),
        1 => 0u32..0o10000,
    ]
}

pub fn offset() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => 0u64..20_000,
        2 => prop::sample::select(vec![0, 4096, 8192, 12_288, 65_536]),
        1 => prop::sample::select(vec![1 << 40, (1 << 40) + 1]),
    ]
}

pub fn open_flags() -> impl Strategy<Value = u32> {
    let mode = prop::sample::select(vec![0u32, 1, 2, 2]);
    let extra = prop::sample::subsequence(
        vec![
            OpenFlags::CREAT,
            OpenFlags::EXCL,
            OpenFlags::TRUNC,
            OpenFlags::APPEND,
            OpenFlags::DIRECTORY,
            OpenFlags::NOFOLLOW,
            OpenFlags::PATH,
            OpenFlags::NOATIME,
        ],
        0..4,
    );
    let nonblock = OpenFlags::NONBLOCK.bits();
    (mode, extra, any::<bool>()).prop_map(move |(mode, extra, create)| {
        let create = if create { OpenFlags::CREAT.bits() } else { 0 };
        extra
            .iter()
            .fold(mode | nonblock | create, |all, flag| all | flag.bits())
    })
}

pub fn op() -> impl Strategy<Value = Op> {
    let slot = || 0..SLOTS;
    let id = || prop::option::weighted(0.7, prop::sample::select(vec![0u32, 1000, 1001]));
    let long = |n| Just(Name(vec![b't'; n]));
    let target = prop_oneof![5 => path(), 1 => long(4095), 1 => long(4096)];
    let kind = prop::sample::select(vec![
        FileType::Regular,
        FileType::Fifo,
        FileType::Socket,
        FileType::CharDevice,
        FileType::Directory,
        FileType::Symlink,
    ]);
    let rename_flags = prop::sample::select(vec![0u32, 0, 0, 1, 2, 3, 8]);
    prop_oneof![
        6 => (path(), perm()).prop_map(|(p, m)| Op::Mkdir(p, m)),
        1 => (path(), kind, perm()).prop_map(|(p, k, m)| Op::Mknod(p, k, m)),
        4 => (target, path()).prop_map(|(t, p)| Op::Symlink(t, p)),
        3 => (path(), path(), any::<bool>()).prop_map(|(a, b, f)| Op::Link(a, b, f)),
        3 => path().prop_map(Op::Unlink),
        2 => path().prop_map(Op::Rmdir),
        7 => (path(), path(), rename_flags).prop_map(|(a, b, f)| Op::Rename(a, b, f)),
        3 => (path(), perm()).prop_map(|(p, m)| Op::Chmod(p, m)),
        3 => (path(), id(), id(), any::<bool>()).prop_map(|(p, u, g, f)| Op::Chown(p, u, g, f)),
        2 => (path(), offset()).prop_map(|(p, n)| Op::Truncate(p, n)),
        2 => (path(), 0u32..8).prop_map(|(p, m)| Op::Access(p, m)),
        2 => (path(), any::<bool>()).prop_map(|(p, f)| Op::Stat(p, f)),
        1 => path().prop_map(Op::Readlink),
        1 => (path(), 0usize..5, any::<bool>()).prop_map(|(p, n, f)| Op::Utimens(p, n, f)),
        1 => (path(), 0usize..4, 0i32..4).prop_map(|(p, n, f)| Op::SetXattr(p, n, f)),
        1 => (path(), 0usize..4).prop_map(|(p, n)| Op::GetXattr(p, n)),
        1 => (path(), 0usize..4).prop_map(|(p, n)| Op::RemoveXattr(p, n)),
        8 => (slot(), path(), open_flags(), perm()).prop_map(|(s, p, f, m)| Op::Open(s, p, f, m)),
        1 => (slot(), path(), any::<bool>()).prop_map(|(s, p, x)| Op::Tmpfile(s, p, x)),
        1 => (slot(), path()).prop_map(|(s, p)| Op::LinkFile(s, p)),
        4 => slot().prop_map(Op::Close),
        2 => (slot(), 0usize..9000).prop_map(|(s, n)| Op::Read(s, n)),
        1 => (slot(), offset()).prop_map(|(s, o)| Op::Pread(s, o)),
        3 => (slot(), 0usize..9000).prop_map(|(s, n)| Op::Write(s, n)),
        3 => (slot(), offset(), 0usize..9000).prop_map(|(s, o, n)| Op::Pwrite(s, o, n)),
        3 => (slot(), -10i64..30_000, 0usize..5).prop_map(|(s, o, w)| Op::Seek(s, o, w)),
        2 => (slot(), offset()).prop_map(|(s, n)| Op::Ftruncate(s, n)),
        1 => (slot(), perm()).prop_map(|(s, m)| Op::Fchmod(s, m)),
        1 => (slot(), 0u64..70_000, 0u64..20_000, any::<bool>())
            .prop_map(|(s, o, n, k)| Op::Allocate(s, o, n, k)),
        2 => (slot(), 0u64..70_000, 0u64..20_000).prop_map(|(s, o, n)| Op::Punch(s, o, n)),
        2 => slot().prop_map(Op::Fstat),
    ]
}

impl Op {
    /// The operation with no set-ID bits asked for.
    pub fn without_setid(mut self) -> Op {
        match &mut self {
            Op::Mkdir(_, perm)
            | Op::Mknod(_, _, perm)
            | Op::Chmod(_, perm)
            | Op::Open(_, _, _, perm)
            | Op::Fchmod(_, perm) => *perm &= 0o1777,
            _ => {}
        }
        self
    }
}
