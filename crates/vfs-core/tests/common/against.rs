//! Running operations on the host and on a file system of ours, and comparing after every step.

use super::ops::{Name, Op, SLOTS, WHENCE, XATTRS, op, times};
use super::{Vm, host};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use std::os::fd::OwnedFd;
use std::sync::{Arc, mpsc};
use vfs_core::namei::fd;
use vfs_core::{
    Access, Caller, Cred, Errno, FileSystem, FileType, Lookup, MountFlags, OpenFile, OpenFlags,
    RangeChange, RenameFlags, Stat, Timespec,
};

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

/// The open files of the host's side.
#[derive(Default)]
struct Theirs {
    files: [Option<OwnedFd>; SLOTS],
}

impl Theirs {
    fn run(&mut self, op: &Op) -> Result<Seen, i32> {
        let slot = |s: usize| self.files[s].as_ref().ok_or(libc::EBADF);
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
                self.files[*s] = Some(fd);
                Ok(Seen::Nothing)
            }
            Op::Tmpfile(s, p, excl) => {
                let excl = if *excl { libc::O_EXCL } else { 0 };
                self.files[*s] = Some(host::open(p, libc::O_TMPFILE | libc::O_RDWR | excl, 0o640)?);
                Ok(Seen::Nothing)
            }
            Op::LinkFile(s, p) => host::link_fd(slot(*s)?, p).map(done),
            Op::Close(s) => {
                self.files[*s] = None;
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
}

/// Our side.
struct Ours {
    vm: Vm,
    files: [Option<Arc<OpenFile>>; SLOTS],
    /// Who opened: set-ID bits go by the opener here, by the writer on Linux.
    openers: [usize; SLOTS],
    /// A directory of the host, which gets no set-ID bits, devices or attributes but `user.`.
    on_host: bool,
    _dir: Option<tempfile::TempDir>,
}

impl Ours {
    fn new(subject: Subject) -> Ours {
        Ours {
            vm: Vm::over(subject.fs, MountFlags::empty()),
            files: Default::default(),
            openers: Default::default(),
            on_host: subject.dir.is_some(),
            _dir: subject.dir,
        }
    }

    fn run(&mut self, op: &Op, cred: &Cred) -> Result<Seen, Errno> {
        let caller = Caller {
            cred: Arc::new(cred.clone()),
            pid: 1,
            umask: 0,
        };
        let at = vfs_core::At {
            caller: &caller,
            ..self.vm.at()
        };
        let slot = |s: usize| self.files[s].clone().ok_or(Errno::EBADF);
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
                self.files[*s] = Some(file);
                Ok(Seen::Nothing)
            }
            Op::Tmpfile(s, p, excl) => {
                let excl = if *excl {
                    OpenFlags::EXCL
                } else {
                    OpenFlags::empty()
                };
                let file = at.tmpfile(p, OpenFlags::RDWR | excl, 0o640)?;
                self.files[*s] = Some(file);
                Ok(Seen::Nothing)
            }
            Op::LinkFile(s, p) => fd::link(&*slot(*s)?, &at, p).map(done),
            Op::Close(s) => {
                self.files[*s] = None;
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
            self.files[s].as_ref().is_none_or(|f| {
                f.stat()
                    .is_ok_and(|stat| stat.file_type() == FileType::Regular)
                    && !f.flags().contains(OpenFlags::PATH)
            })
        };
        match op {
            Op::Mknod(_, FileType::CharDevice | FileType::BlockDevice, _) if self.on_host => false,
            Op::SetXattr(_, 1, _) | Op::RemoveXattr(_, 1) if self.on_host => false,
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
    into: &mut Tree,
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

fn host_tree() -> Tree {
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

fn our_tree(vm: &Vm) -> Tree {
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

/// Every entry of a tree: its path, its attributes, its content or link text.
type Tree = Vec<(Vec<u8>, Seen, Vec<u8>)>;

enum Ask {
    Run(Op, Cred),
    Tree,
}

enum Answer {
    Ran(Result<Seen, i32>),
    Tree(Tree),
}

/// The host, on a thread that is locked into a directory.
struct Oracle {
    ask: Option<mpsc::Sender<Ask>>,
    answer: mpsc::Receiver<Answer>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Oracle {
    fn start() -> Oracle {
        let (ask, asked) = mpsc::channel();
        let (answers, answer) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let host = host::Host::enter();
            let mut theirs = Theirs::default();
            for ask in asked {
                let answer = match ask {
                    Ask::Run(op, cred) => Answer::Ran(host.as_user(&cred, || theirs.run(&op))),
                    Ask::Tree => Answer::Tree(host_tree()),
                };
                if answers.send(answer).is_err() {
                    break;
                }
            }
        });
        Oracle {
            ask: Some(ask),
            answer,
            thread: Some(thread),
        }
    }

    fn ask(&self, ask: Ask) -> Answer {
        self.ask.as_ref().unwrap().send(ask).unwrap();
        self.answer.recv().unwrap()
    }

    fn run(&self, op: &Op, cred: &Cred) -> Result<Seen, i32> {
        match self.ask(Ask::Run(op.clone(), cred.clone())) {
            Answer::Ran(result) => result,
            Answer::Tree(_) => unreachable!(),
        }
    }

    fn tree(&self) -> Tree {
        match self.ask(Ask::Tree) {
            Answer::Tree(tree) => tree,
            Answer::Ran(_) => unreachable!(),
        }
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        self.ask.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What a case of [`compare`] runs on.
pub struct Subject {
    pub fs: Arc<dyn FileSystem>,
    /// Kept until the case ends.
    pub dir: Option<tempfile::TempDir>,
}

fn run(users: &[Cred], steps: Vec<(usize, Op)>, subject: Subject) -> Result<(), TestCaseError> {
    let oracle = Oracle::start();
    let mut ours = Ours::new(subject);
    let mut log = Vec::new();
    for (user, op) in steps {
        let op = if ours.on_host { op.without_setid() } else { op };
        let user = match &op {
            Op::Open(slot, ..) | Op::Tmpfile(slot, ..) => {
                if ours.files[*slot].is_some() {
                    continue;
                }
                ours.openers[*slot] = user;
                user
            }
            Op::Write(slot, ..)
            | Op::Pwrite(slot, ..)
            | Op::Allocate(slot, ..)
            | Op::Punch(slot, ..) => ours.openers[*slot],
            _ => user,
        };
        let cred = &users[user % users.len()];
        if !ours.comparable(&op, cred) {
            continue;
        }
        let theirs = oracle
            .run(&op, cred)
            .map_err(|n| Errno::from_number(n).unwrap_or(Errno::EIO));
        let got = ours.run(&op, cred);
        log.push(format!("{}: {op:?} -> {:?}", cred.euid, got.as_ref().err()));
        let fail = |what: String| {
            Err(TestCaseError::fail(format!(
                "{what} after\n{}",
                log.join("\n")
            )))
        };
        if theirs != got {
            return fail(format!("host {theirs:?}, ours {got:?}"));
        }
        let (got, theirs) = (our_tree(&ours.vm), oracle.tree());
        if let Some((got, theirs)) = got.iter().zip(&theirs).find(|(a, b)| a != b) {
            let (path, at) = (Name(got.0.clone()), Name(theirs.0.clone()));
            return fail(format!(
                "host {at:?} {:?}\nours {path:?} {:?}",
                theirs.1, got.1
            ));
        }
        if got.len() != theirs.len() {
            return fail(format!(
                "host has {} entries, ours {}",
                theirs.len(),
                got.len()
            ));
        }
    }
    Ok(())
}

/// Runs `cases` random sequences (or as many as `PROPTEST_CASES` says), by random ones of `users`.
pub fn compare(cases: u32, users: &[Cred], subject: impl Fn() -> Subject) {
    if !host::available() {
        return;
    }
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
    let result = TestRunner::new(config).run(&steps, |steps| run(users, steps, subject()));
    if let Err(error) = result {
        panic!("{error}");
    }
}

/// Runs each of `ops` on the tree that `fixture` made as root, by `cred`.
pub fn table(cred: &Cred, fixture: &[Op], ops: &[Op], subject: impl Fn() -> Subject) {
    if !host::available() {
        return;
    }
    let named = |n: i32| Errno::from_number(n).unwrap_or(Errno::EIO);
    let mut wrong = Vec::new();
    let mut ops = ops.iter().peekable();
    while ops.peek().is_some() {
        let oracle = Oracle::start();
        let mut ours = Ours::new(subject());
        for op in fixture {
            let root = Cred::root();
            assert!(
                oracle.run(op, &root).is_ok() && ours.run(op, &root).is_ok(),
                "{op:?}"
            );
        }
        // A failed operation changes nothing, so the next can be tried on the same tree.
        for op in ops.by_ref() {
            let theirs = oracle.run(op, cred).map_err(named);
            let got = ours.run(op, cred);
            if theirs != got {
                wrong.push(format!("{op:?}: host {theirs:?}, ours {got:?}"));
            }
            if theirs.is_ok() || got.is_ok() {
                break;
            }
        }
        if our_tree(&ours.vm) != oracle.tree() {
            wrong.push("the trees differ".to_owned());
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
