//! Random operations on a host tmpfs and on ours: the same results, error numbers and trees.

mod common;

use common::{Vm, host};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use vfs_core::namei::fd;
use vfs_core::{
    Access, Caller, Cred, Errno, FileType, Lookup, OpenFile, OpenFlags, RangeChange, RenameFlags,
    Stat, TimeSet, Timespec, Whence,
};

/// Open files kept by a case.
const SLOTS: usize = 3;

/// A path, shown readably.
#[derive(Clone)]
struct Name(Vec<u8>);

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
enum Op {
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

const XATTRS: [&[u8]; 4] = [b"user.x", b"trusted.x", b"bad.x", b"user."];
const WHENCE: [(i32, Whence); 5] = [
    (libc::SEEK_SET, Whence::Set),
    (libc::SEEK_CUR, Whence::Current),
    (libc::SEEK_END, Whence::End),
    (libc::SEEK_DATA, Whence::Data),
    (libc::SEEK_HOLE, Whence::Hole),
];

fn times(n: usize) -> ([(i64, i64); 2], TimeSet, TimeSet) {
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

fn path() -> impl Strategy<Value = Name> {
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

fn perm() -> impl Strategy<Value = u32> {
    prop_oneof![
        4 => prop::sample::select(vec![0o755, 0o644, 0o777, 0o700, 0o600]),
        2 => prop::sample::select(vec![0o1777, 0o2755, 0o4755, 0o6777, 0o2775, 0o2644]),
        1 => 0u32..0o10000,
    ]
}

fn offset() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => 0u64..20_000,
        2 => prop::sample::select(vec![0, 4096, 8192, 12_288, 65_536]),
        1 => prop::sample::select(vec![1 << 40, (1 << 40) + 1]),
    ]
}

fn open_flags() -> impl Strategy<Value = u32> {
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

fn op() -> impl Strategy<Value = Op> {
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

/// What an operation gave, comparable between the two.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Nothing,
    Bytes(Vec<u8>),
    Number(i64),
    Attributes(Box<Stat>),
}

fn attributes(mut stat: Stat) -> Seen {
    // What the two can't agree on: where the file is and when it was touched.
    stat.dev = 0;
    stat.ino = 0;
    let set_by_us = |t: Timespec| if t.sec < 100 { t } else { Timespec::default() };
    stat.atime = Timespec::default();
    stat.mtime = set_by_us(stat.mtime);
    stat.ctime = Timespec::default();
    stat.btime = Timespec::default();
    if stat.file_type() != FileType::Regular {
        stat.blocks = 0;
    }
    Seen::Attributes(Box::new(stat))
}

fn bytes_of(n: usize) -> Vec<u8> {
    (0..n).map(|i| (i % 251) as u8 + 1).collect()
}

struct Case {
    vm: Vm,
    ours: [Option<Arc<OpenFile>>; SLOTS],
    theirs: [Option<OwnedFd>; SLOTS],
    /// Who opened: set-ID bits go by the opener here, by the writer on Linux.
    openers: [usize; SLOTS],
}

impl Case {
    fn host(&mut self, op: &Op) -> Result<Seen, i32> {
        let slot = |s: usize| self.theirs[s].as_ref().ok_or(libc::EBADF);
        let done = |()| Seen::Nothing;
        match op {
            Op::Mkdir(p, m) => host::mkdir(p, *m).map(done),
            Op::Mknod(p, k, m) => host::mknod(p, *k, *m, 0x103).map(done),
            Op::Symlink(t, p) => host::symlink(t, p).map(done),
            Op::Link(a, b, f) => host::link(a, b, *f).map(done),
            Op::Unlink(p) => host::unlink(p).map(done),
            Op::Rmdir(p) => host::rmdir(p).map(done),
            Op::Rename(a, b, f) => host::rename(a, b, *f).map(done),
            Op::Chmod(p, m) => host::chmod(p, *m).map(done),
            Op::Chown(p, u, g, f) => host::chown(p, *u, *g, *f).map(done),
            Op::Truncate(p, n) => host::truncate(p, *n as i64).map(done),
            Op::Access(p, m) => host::access(p, *m as i32).map(done),
            Op::Stat(p, f) => host::stat(p, *f).map(attributes),
            Op::Readlink(p) => host::readlink(p).map(Seen::Bytes),
            Op::Utimens(p, n, f) => host::utimens(p, times(*n).0, *f).map(done),
            Op::SetXattr(p, n, f) => host::setxattr(p, XATTRS[*n], b"value", *f).map(done),
            Op::GetXattr(p, n) => host::getxattr(p, XATTRS[*n]).map(Seen::Bytes),
            Op::RemoveXattr(p, n) => host::removexattr(p, XATTRS[*n]).map(done),
            Op::Open(s, p, f, m) => {
                let fd = host::open(p, *f as i32, *m)?;
                self.theirs[*s] = Some(fd);
                Ok(Seen::Nothing)
            }
            Op::Tmpfile(s, p, excl) => {
                let excl = if *excl { libc::O_EXCL } else { 0 };
                self.theirs[*s] =
                    Some(host::open(p, libc::O_TMPFILE | libc::O_RDWR | excl, 0o640)?);
                Ok(Seen::Nothing)
            }
            Op::LinkFile(s, p) => host::link_fd(slot(*s)?, p).map(done),
            Op::Close(s) => {
                self.theirs[*s] = None;
                Ok(Seen::Nothing)
            }
            Op::Read(s, n) => host::read(slot(*s)?, *n).map(Seen::Bytes),
            Op::Pread(s, o) => host::pread(slot(*s)?, 5000, *o as i64).map(Seen::Bytes),
            Op::Write(s, n) => host::write(slot(*s)?, &bytes_of(*n)).map(Seen::Number),
            Op::Pwrite(s, o, n) => {
                host::pwrite(slot(*s)?, &bytes_of(*n), *o as i64).map(Seen::Number)
            }
            Op::Seek(s, o, w) => host::seek(slot(*s)?, *o, WHENCE[*w].0).map(Seen::Number),
            Op::Ftruncate(s, n) => host::ftruncate(slot(*s)?, *n as i64).map(done),
            Op::Fchmod(s, m) => host::fchmod(slot(*s)?, *m).map(done),
            Op::Allocate(s, o, n, keep) => {
                let mode = if *keep { libc::FALLOC_FL_KEEP_SIZE } else { 0 };
                host::fallocate(slot(*s)?, mode, *o as i64, *n as i64).map(done)
            }
            Op::Punch(s, o, n) => {
                let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
                host::fallocate(slot(*s)?, mode, *o as i64, *n as i64).map(done)
            }
            Op::Fstat(s) => host::fstat(slot(*s)?).map(attributes),
        }
    }

    fn ours(&mut self, op: &Op, cred: &Cred) -> Result<Seen, Errno> {
        let caller = Caller {
            cred: Arc::new(cred.clone()),
            pid: 1,
            umask: 0,
        };
        let at = vfs_core::At {
            caller: &caller,
            ..self.vm.at()
        };
        let slot = |s: usize| self.ours[s].clone().ok_or(Errno::EBADF);
        // As the kernel's descriptor calls check before they ask the file.
        let writable = |s: usize| {
            let file = slot(s)?;
            if file.flags().writable() {
                Ok(file)
            } else {
                Err(Errno::EBADF)
            }
        };
        let follow = |f: bool| if f { Lookup::FOLLOW } else { Lookup::empty() };
        let done = |()| Seen::Nothing;
        match op {
            Op::Mkdir(p, m) => at.mkdir(p, *m).map(done),
            Op::Mknod(p, k, m) => at.mknod(p, *k, *m, 0x103).map(done),
            Op::Symlink(t, p) => at.symlink(t, p).map(done),
            Op::Link(a, b, f) => at.link(a, follow(*f), &at, b).map(done),
            Op::Unlink(p) => at.unlink(p).map(done),
            Op::Rmdir(p) => at.rmdir(p).map(done),
            Op::Rename(a, b, f) => at
                .rename(a, &at, b, RenameFlags::from_bits_retain(*f))
                .map(done),
            Op::Chmod(p, m) => at.chmod(p, *m, Lookup::FOLLOW).map(done),
            Op::Chown(p, u, g, f) => at.chown(p, *u, *g, follow(*f)).map(done),
            Op::Truncate(p, n) => at.truncate(p, *n).map(done),
            Op::Access(p, m) => at
                .access(p, Access::from_bits_retain(*m), Lookup::FOLLOW)
                .map(done),
            Op::Stat(p, f) => at.stat(p, follow(*f)).map(attributes),
            Op::Readlink(p) => at.readlink(p).map(Seen::Bytes),
            Op::Utimens(p, n, f) => {
                let (_, atime, mtime) = times(*n);
                at.utimens(p, atime, mtime, follow(*f)).map(done)
            }
            Op::SetXattr(p, n, f) => at
                .setxattr(
                    p,
                    XATTRS[*n],
                    b"value",
                    f & 1 != 0,
                    f & 2 != 0,
                    Lookup::FOLLOW,
                )
                .map(done),
            Op::GetXattr(p, n) => at.getxattr(p, XATTRS[*n], Lookup::FOLLOW).map(Seen::Bytes),
            Op::RemoveXattr(p, n) => at.removexattr(p, XATTRS[*n], Lookup::FOLLOW).map(done),
            Op::Open(s, p, f, m) => {
                let file = at.open(p, OpenFlags::from_bits_retain(*f), *m)?;
                self.ours[*s] = Some(file);
                Ok(Seen::Nothing)
            }
            Op::Tmpfile(s, p, excl) => {
                let excl = if *excl {
                    OpenFlags::EXCL
                } else {
                    OpenFlags::empty()
                };
                let file = at.tmpfile(p, OpenFlags::RDWR | excl, 0o640)?;
                self.ours[*s] = Some(file);
                Ok(Seen::Nothing)
            }
            Op::LinkFile(s, p) => fd::link(&*slot(*s)?, &at, p).map(done),
            Op::Close(s) => {
                self.ours[*s] = None;
                Ok(Seen::Nothing)
            }
            Op::Read(s, n) => {
                let mut buf = vec![0; *n];
                let n = slot(*s)?.read(&mut buf)?;
                buf.truncate(n);
                Ok(Seen::Bytes(buf))
            }
            Op::Pread(s, o) => {
                let mut buf = vec![0; 5000];
                let n = slot(*s)?.pread(&mut buf, *o)?;
                buf.truncate(n);
                Ok(Seen::Bytes(buf))
            }
            Op::Write(s, n) => Ok(Seen::Number(slot(*s)?.write(&bytes_of(*n))? as i64)),
            Op::Pwrite(s, o, n) => Ok(Seen::Number(slot(*s)?.pwrite(&bytes_of(*n), *o)? as i64)),
            Op::Seek(s, o, w) => Ok(Seen::Number(slot(*s)?.seek(*o, WHENCE[*w].1)? as i64)),
            Op::Ftruncate(s, n) => fd::truncate(&*slot(*s)?, *n, &caller).map(done),
            Op::Fchmod(s, m) => fd::chmod(&*slot(*s)?, *m, &caller).map(done),
            Op::Allocate(s, o, n, keep) => writable(*s)?.ops().allocate(*o, *n, *keep).map(done),
            Op::Punch(s, o, n) => writable(*s)?
                .ops()
                .change_range(RangeChange::PunchHole, *o, *n)
                .map(done),
            Op::Fstat(s) => slot(*s)?.stat().map(attributes),
        }
    }

    /// Whether asking the two makes sense: what the test's own plumbing does not model.
    fn comparable(&self, op: &Op, cred: &Cred) -> bool {
        let regular = |s: usize| {
            self.ours[s].as_ref().is_none_or(|f| {
                f.stat()
                    .is_ok_and(|stat| stat.file_type() == FileType::Regular)
                    && !f.flags().contains(OpenFlags::PATH)
            })
        };
        match op {
            // Directory offsets and streams differ by design; devices are not ours.
            Op::Seek(s, ..) | Op::Allocate(s, ..) | Op::Punch(s, ..) => regular(*s),
            // Linking a descriptor is a privilege on the host; our kernel crate decides for itself.
            Op::LinkFile(..) => cred.is_root(),
            // Opening the null device or a fifo asks whoever owns those.
            Op::Open(_, p, ..) => {
                self.vm
                    .at()
                    .stat(p, Lookup::FOLLOW)
                    .is_ok_and(|s| matches!(s.file_type(), FileType::Regular | FileType::Directory))
                    || self.vm.at().stat(p, Lookup::FOLLOW).is_err()
            }
            _ => true,
        }
    }
}

/// Every entry below `dir` with what can be seen of it.
fn tree(
    dir: &[u8],
    list: &impl Fn(&[u8]) -> Vec<Vec<u8>>,
    look: &impl Fn(&[u8]) -> (Seen, Vec<u8>),
    into: &mut Vec<(Vec<u8>, Seen, Vec<u8>)>,
) {
    for name in list(dir) {
        let path = [dir, b"/", &name].concat();
        let (seen, content) = look(&path);
        let is_dir = matches!(&seen, Seen::Attributes(s) if s.file_type() == FileType::Directory);
        into.push((path.clone(), seen, content));
        if is_dir {
            tree(&path, list, look, into);
        }
    }
}

fn host_tree() -> Vec<(Vec<u8>, Seen, Vec<u8>)> {
    let mut all = Vec::new();
    let look = |path: &[u8]| {
        let stat = host::stat(path, false).unwrap();
        let content = match stat.file_type() {
            FileType::Regular if stat.size < 1 << 20 => {
                let fd = host::open(path, libc::O_RDONLY | libc::O_NOATIME, 0).unwrap();
                host::pread(&fd, stat.size as usize, 0).unwrap()
            }
            FileType::Symlink => host::readlink(path).unwrap(),
            _ => Vec::new(),
        };
        (attributes(stat), content)
    };
    all.push((
        b"/".to_vec(),
        attributes(host::stat(b"/", true).unwrap()),
        Vec::new(),
    ));
    tree(
        b"",
        &|dir| host::list(if dir.is_empty() { b"/" } else { dir }),
        &look,
        &mut all,
    );
    all
}

fn our_tree(vm: &Vm) -> Vec<(Vec<u8>, Seen, Vec<u8>)> {
    let at = vm.at();
    let list = |dir: &[u8]| {
        let dir = if dir.is_empty() { b"/" } else { dir };
        let file = at.open(dir, OpenFlags::DIRECTORY, 0).unwrap();
        let mut names = Vec::new();
        file.ops()
            .readdir(0, &mut |entry| {
                names.push(entry.name.to_vec());
                true
            })
            .unwrap();
        names.sort();
        names
    };
    let look = |path: &[u8]| {
        let stat = at.stat(path, Lookup::empty()).unwrap();
        let content = match stat.file_type() {
            FileType::Regular if stat.size < 1 << 20 => {
                let mut buf = vec![0; stat.size as usize];
                let n = at
                    .open(path, OpenFlags::NOATIME, 0)
                    .unwrap()
                    .pread(&mut buf, 0)
                    .unwrap();
                buf.truncate(n);
                buf
            }
            FileType::Symlink => at.readlink(path).unwrap(),
            _ => Vec::new(),
        };
        (attributes(stat), content)
    };
    let mut all = vec![(
        b"/".to_vec(),
        attributes(at.stat(b"/", Lookup::FOLLOW).unwrap()),
        vec![],
    )];
    tree(b"", &list, &look, &mut all);
    all
}

fn run(users: Vec<Cred>, steps: Vec<(usize, Op)>) -> Result<(), TestCaseError> {
    let oracle = host::Host::enter();
    let mut case = Case {
        vm: Vm::new(),
        ours: Default::default(),
        theirs: Default::default(),
        openers: Default::default(),
    };
    let mut log = Vec::new();
    for (user, op) in steps {
        let user = match &op {
            Op::Open(slot, ..) | Op::Tmpfile(slot, ..) => {
                if case.ours[*slot].is_some() {
                    continue;
                }
                case.openers[*slot] = user;
                user
            }
            Op::Write(slot, ..)
            | Op::Pwrite(slot, ..)
            | Op::Allocate(slot, ..)
            | Op::Punch(slot, ..) => case.openers[*slot],
            _ => user,
        };
        let cred = &users[user % users.len()];
        if !case.comparable(&op, cred) {
            continue;
        }
        let theirs = oracle.as_user(cred, || case.host(&op));
        let ours = case.ours(&op, cred);
        let named = |number: i32| Errno::from_number(number).unwrap_or(Errno::EIO);
        log.push(format!(
            "{}: {op:?} -> {:?}",
            cred.euid,
            ours.as_ref().err()
        ));
        if theirs.is_ok() != ours.is_ok()
            || theirs.as_ref().err().map(|&n| named(n)) != ours.as_ref().err().copied()
        {
            let theirs = theirs.map_err(named);
            let log = log.join("\n");
            return Err(TestCaseError::fail(format!(
                "host {theirs:?}, ours {ours:?} after\n{log}"
            )));
        }
        if let (Ok(theirs), Ok(ours)) = (&theirs, &ours) {
            prop_assert_eq!(ours, theirs, "after\n{}", log.join("\n"));
        }
        let (ours, theirs) = (our_tree(&case.vm), host_tree());
        if let Some((ours, theirs)) = ours.iter().zip(&theirs).find(|(a, b)| a != b) {
            let (path, ours, path2, theirs) = (&ours.0, &ours.1, &theirs.0, &theirs.1);
            let log = log.join("\n");
            return Err(TestCaseError::fail(format!(
                "host {:?} {theirs:?}\nours {:?} {ours:?} after\n{log}",
                Name(path2.clone()),
                Name(path.clone()),
            )));
        }
        prop_assert_eq!(ours.len(), theirs.len(), "after\n{}", log.join("\n"));
    }
    drop(case);
    drop(oracle);
    Ok(())
}

fn compare(cases: u32, users: Vec<Cred>) {
    if !host::available() {
        return;
    }
    // On a thread of its own: the oracle changes the thread's root and credentials.
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // `PROPTEST_CASES` asks for more.
            let asked = std::env::var_os("PROPTEST_CASES").is_some();
            let cases = if asked {
                Config::default().cases
            } else {
                cases
            };
            let config = Config {
                cases,
                failure_persistence: None,
                ..Config::default()
            };
            let steps = prop::collection::vec((0usize..10, op()), 1..60);
            TestRunner::new(config)
                .run(&steps, |steps| run(users.clone(), steps))
                .unwrap();
        });
    });
}

#[test]
fn root_sees_the_same_tree() {
    compare(200, vec![Cred::root()]);
}

#[test]
fn users_see_the_same_tree() {
    let mut member = Cred::user(1001, 1001);
    member.groups = vec![1000];
    compare(250, vec![Cred::root(), Cred::user(1000, 1000), member]);
}
