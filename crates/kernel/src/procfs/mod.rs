//! `/proc`: processes and the system as files.
//!
//! Nothing is stored: a name is looked up in two tables ([`tree`] for what belongs to the system,
//! [`process`] for what belongs to a process) and in the process table, and a file's content is
//! made when it is opened. Everything shown comes from the VM; the host does not appear.
//!
//! What a user may see follows Linux: `environ`, `fd` and `fdinfo` are for the owner and the
//! superuser by their modes, and `cwd`, `exe` and `root` can be followed by them alone.

mod process;
mod system;
mod tree;

use crate::vm::VmInner;
use process::Entry;
use proctable::Process;
use std::any::Any;
use std::sync::{Arc, OnceLock, Weak};
use tree::Kind;
use vfs_core::errno::{Errno, Result};
use vfs_core::file::FileOps;
use vfs_core::inode::{FileSystem, Inode, InodeRef, LinkTarget};
use vfs_core::types::{Caller, DirEntry, FileType, OpenFlags, Stat, StatFs, Timespec};

/// `f_type` of `statfs` (`PROC_SUPER_MAGIC`).
const PROC_MAGIC: u64 = 0x9fa0;
/// Device number of every `/proc`.
const DEV: u64 = 0x15;
/// Cookies of process directories in the root come after those of its fixed entries.
const PID_COOKIES: u64 = 1 << 16;
/// Cookies up to this one belong to `.` and `..`.
const DOT_COOKIES: u64 = 2;

/// The file system.
pub(crate) struct ProcFs {
    me: Weak<ProcFs>,
    /// The VM, which holds this file system; set once it is there.
    vm: OnceLock<Weak<VmInner>>,
}

impl ProcFs {
    pub(crate) fn new() -> Arc<ProcFs> {
        Arc::new_cyclic(|me| ProcFs {
            me: me.clone(),
            vm: OnceLock::new(),
        })
    }

    /// Says which VM it shows. A second call changes nothing.
    pub(crate) fn attach(&self, vm: &Arc<VmInner>) {
        let _ = self.vm.set(Arc::downgrade(vm));
    }

    fn vm(&self) -> Result<Arc<VmInner>> {
        self.vm.get().and_then(Weak::upgrade).ok_or(Errno::ENOENT)
    }

    fn inode(&self, node: Node) -> Result<InodeRef> {
        let fs = self.me.upgrade().ok_or(Errno::ENOENT)?;
        Ok(Arc::new(ProcInode { fs, node }))
    }
}

impl FileSystem for ProcFs {
    fn root(&self) -> InodeRef {
        let fs = self.me.upgrade();
        // The caller holds the file system, so it is there.
        Arc::new(ProcInode {
            fs: fs.unwrap_or_else(ProcFs::new),
            node: Node::System(tree::ROOT),
        })
    }

    fn fs_type(&self) -> &'static str {
        "proc"
    }

    fn statfs(&self) -> Result<StatFs> {
        Ok(StatFs {
            magic: PROC_MAGIC,
            bsize: 4096,
            namelen: 255,
            ..StatFs::default()
        })
    }

    fn read_only(&self) -> bool {
        true
    }

    fn volatile(&self) -> bool {
        true
    }
}

/// What an inode stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    /// An entry of the fixed tree, by its place there.
    System(usize),
    /// The directory of a process.
    Process(u32),
    /// An entry of that directory.
    Entry(u32, Entry),
    /// `task/TID`, the same as the process's own directory.
    Task(u32),
    /// A link in `fd`.
    Fd(u32, i32),
    /// A file in `fdinfo`.
    FdInfo(u32, i32),
}

struct ProcInode {
    fs: Arc<ProcFs>,
    node: Node,
}

impl ProcInode {
    fn ino(&self) -> u64 {
        let number = |kind: u64, pid: u32, low: u64| kind << 56 | u64::from(pid) << 32 | low;
        match self.node {
            Node::System(at) => at as u64 + 1,
            Node::Process(pid) => number(1, pid, 0),
            Node::Entry(pid, entry) => number(1, pid, 1 + entry as u64),
            Node::Task(pid) => number(2, pid, 0),
            Node::Fd(pid, fd) => number(3, pid, fd as u64),
            Node::FdInfo(pid, fd) => number(4, pid, fd as u64),
        }
    }

    /// The process an inode belongs to; `ENOENT` once it is gone.
    fn process(&self) -> Result<Option<Arc<Process>>> {
        let pid = match self.node {
            Node::System(_) => return Ok(None),
            Node::Process(pid)
            | Node::Entry(pid, _)
            | Node::Task(pid)
            | Node::Fd(pid, _)
            | Node::FdInfo(pid, _) => pid,
        };
        self.fs.vm()?.table.get(pid).map(Some).ok_or(Errno::ENOENT)
    }

    fn owner(&self) -> Result<Arc<Process>> {
        self.process()?.ok_or(Errno::ENOENT)
    }

    fn mode(&self) -> u32 {
        match self.node {
            Node::System(at) => match tree::entry(at).kind {
                Kind::Dir => 0o555,
                Kind::File(_) => 0o444,
                Kind::SelfLink | Kind::Link(_) => 0o777,
            },
            Node::Process(_) | Node::Task(_) => 0o555,
            Node::Entry(_, entry) => entry.mode(),
            Node::Fd(pid, fd) => {
                let flags = self
                    .fs
                    .vm()
                    .ok()
                    .and_then(|vm| vm.table.get(pid))
                    .and_then(|p| p.fds().get(fd).ok());
                let flags = flags.map_or(OpenFlags::empty(), |file| file.flags());
                0o100
                    | if flags.readable() { 0o400 } else { 0 }
                    | if flags.writable() { 0o200 } else { 0 }
            }
            Node::FdInfo(..) => 0o400,
        }
    }

    fn child(&self, node: Node) -> Result<InodeRef> {
        self.fs.inode(node)
    }

    fn content(&self, caller: &Caller) -> Result<Vec<u8>> {
        let vm = self.fs.vm()?;
        match self.node {
            Node::System(at) => match tree::entry(at).kind {
                Kind::File(make) => Ok(make(&vm)),
                _ => Err(Errno::EINVAL),
            },
            Node::Entry(_, entry) => process::content(&vm, &self.owner()?, entry),
            Node::FdInfo(_, fd) => process::fdinfo(&*self.owner()?, fd),
            _ => {
                let _ = caller;
                Err(Errno::EINVAL)
            }
        }
    }
}

/// Whether `caller` may look into `process` (`ptrace_may_access`): itself, the superuser, or one
/// whose ids are all those of the process.
fn may_look(caller: &Caller, process: &Process) -> bool {
    if caller.pid == process.pid() || caller.cred.is_root() {
        return true;
    }
    let theirs = process.cred();
    let ours = &caller.cred;
    [theirs.uid, theirs.euid, theirs.suid]
        .iter()
        .all(|id| *id == ours.uid)
        && [theirs.gid, theirs.egid, theirs.sgid]
            .iter()
            .all(|id| *id == ours.gid)
}

/// A number as a name in a directory: digits without a leading zero.
fn number(name: &[u8]) -> Option<u32> {
    let plain = !name.is_empty()
        && name.iter().all(u8::is_ascii_digit)
        && (name[0] != b'0' || name.len() == 1);
    if !plain {
        return None;
    }
    std::str::from_utf8(name).ok()?.parse().ok()
}

impl Inode for ProcInode {
    fn stat(&self) -> Result<Stat> {
        let kind = self.kind();
        let process = self.process()?;
        let (uid, gid) = process.as_ref().map_or((0, 0), |process| {
            let cred = process.cred();
            (cred.euid, cred.egid)
        });
        let time = match &process {
            Some(process) => process.started_at(),
            None => self.fs.vm().map_or(Timespec::default(), |vm| vm.booted_at),
        };
        Ok(Stat {
            dev: DEV,
            ino: self.ino(),
            mode: kind.mode_bits() | self.mode(),
            nlink: if kind == FileType::Directory { 2 } else { 1 },
            uid,
            gid,
            rdev: 0,
            size: match self.node {
                Node::Fd(..) => 64,
                _ => 0,
            },
            blocks: 0,
            atime: time,
            mtime: time,
            ctime: time,
            btime: time,
        })
    }

    fn kind(&self) -> FileType {
        match self.node {
            Node::System(at) => tree::entry(at).kind.file_type(),
            Node::Process(_) | Node::Task(_) => FileType::Directory,
            Node::Entry(_, entry) => entry.file_type(),
            Node::Fd(..) => FileType::Symlink,
            Node::FdInfo(..) => FileType::Regular,
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn lookup(&self, name: &[u8]) -> Result<InodeRef> {
        match self.node {
            Node::System(at) => {
                if let Some(child) = tree::lookup(at, name) {
                    return self.child(Node::System(child));
                }
                let pid = number(name)
                    .filter(|_| at == tree::ROOT)
                    .ok_or(Errno::ENOENT)?;
                self.fs.vm()?.table.get(pid).ok_or(Errno::ENOENT)?;
                self.child(Node::Process(pid))
            }
            Node::Process(pid) | Node::Task(pid) => {
                self.owner()?;
                let task = matches!(self.node, Node::Task(_));
                let entry = Entry::named(name).filter(|entry| !(task && *entry == Entry::Task));
                self.child(Node::Entry(pid, entry.ok_or(Errno::ENOENT)?))
            }
            Node::Entry(pid, entry) => {
                let process = self.owner()?;
                let n = number(name).ok_or(Errno::ENOENT)?;
                match entry {
                    Entry::Fd | Entry::FdInfo => {
                        let fd = i32::try_from(n).map_err(|_| Errno::ENOENT)?;
                        process.fds().get(fd).map_err(|_| Errno::ENOENT)?;
                        self.child(if entry == Entry::Fd {
                            Node::Fd(pid, fd)
                        } else {
                            Node::FdInfo(pid, fd)
                        })
                    }
                    Entry::Task if n == pid => self.child(Node::Task(pid)),
                    Entry::Task => Err(Errno::ENOENT),
                    _ => Err(Errno::ENOTDIR),
                }
            }
            Node::Fd(..) | Node::FdInfo(..) => Err(Errno::ENOTDIR),
        }
    }

    fn readdir(&self, cookie: u64, sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        let mut give = |next: u64, name: &[u8], node: Node| {
            if next <= cookie {
                return true;
            }
            let inode = ProcInode {
                fs: self.fs.clone(),
                node,
            };
            sink(DirEntry {
                name,
                ino: inode.ino(),
                kind: inode.kind(),
                next,
            })
        };
        match self.node {
            Node::System(at) => {
                for (next, child) in (DOT_COOKIES + 1..).zip(tree::children(at)) {
                    if !give(next, tree::entry(child).name, Node::System(child)) {
                        return Ok(());
                    }
                }
                if at == tree::ROOT {
                    for process in self.fs.vm()?.table.list() {
                        let pid = process.pid();
                        if !give(
                            PID_COOKIES + u64::from(pid),
                            pid.to_string().as_bytes(),
                            Node::Process(pid),
                        ) {
                            return Ok(());
                        }
                    }
                }
            }
            Node::Process(pid) | Node::Task(pid) => {
                self.owner()?;
                let task = matches!(self.node, Node::Task(_));
                for (next, entry) in (DOT_COOKIES + 1..).zip(Entry::ALL) {
                    if task && *entry == Entry::Task {
                        continue;
                    }
                    if !give(next, entry.name(), Node::Entry(pid, *entry)) {
                        return Ok(());
                    }
                }
            }
            Node::Entry(pid, Entry::Task) => {
                give(DOT_COOKIES + 1, pid.to_string().as_bytes(), Node::Task(pid));
            }
            Node::Entry(pid, entry @ (Entry::Fd | Entry::FdInfo)) => {
                for open in self.owner()?.fds().list() {
                    let fd = open.fd;
                    let node = if entry == Entry::Fd {
                        Node::Fd(pid, fd)
                    } else {
                        Node::FdInfo(pid, fd)
                    };
                    let next = DOT_COOKIES + 1 + u64::from(fd.unsigned_abs());
                    if !give(next, fd.to_string().as_bytes(), node) {
                        return Ok(());
                    }
                }
            }
            _ => return Err(Errno::ENOTDIR),
        }
        Ok(())
    }

    fn readlink(&self, caller: &Caller) -> Result<LinkTarget> {
        match self.node {
            Node::System(at) => match tree::entry(at).kind {
                Kind::Link(text) => Ok(LinkTarget::Text(text.as_bytes().to_vec())),
                // The host is no process, so for it there is no self.
                Kind::SelfLink if caller.pid == 0 => Err(Errno::ENOENT),
                Kind::SelfLink => {
                    let pid = caller.pid;
                    let text = match tree::entry(at).name {
                        b"thread-self" => format!("{pid}/task/{pid}"),
                        _ => pid.to_string(),
                    };
                    Ok(LinkTarget::Text(text.into_bytes()))
                }
                Kind::Dir | Kind::File(_) => Err(Errno::EINVAL),
            },
            Node::Entry(_, entry) => {
                let process = self.owner()?;
                if !matches!(entry, Entry::Cwd | Entry::Exe | Entry::Root) {
                    return Err(Errno::EINVAL);
                }
                if !may_look(caller, &process) {
                    return Err(Errno::EACCES);
                }
                let place = match entry {
                    Entry::Cwd => process.cwd(),
                    Entry::Root => process.root(),
                    _ => process.exe(),
                };
                place.map(LinkTarget::Path).ok_or(Errno::ENOENT)
            }
            Node::Fd(_, fd) => {
                let process = self.owner()?;
                if !may_look(caller, &process) {
                    return Err(Errno::EACCES);
                }
                process
                    .fds()
                    .get(fd)
                    .map(LinkTarget::File)
                    .map_err(|_| Errno::ENOENT)
            }
            Node::Process(_) | Node::Task(_) | Node::FdInfo(..) => Err(Errno::EINVAL),
        }
    }

    fn open(self: Arc<Self>, _flags: OpenFlags, caller: &Caller) -> Result<Arc<dyn FileOps>> {
        match self.kind() {
            FileType::Directory => Ok(Arc::new(OpenDir(self))),
            _ => {
                if let Node::Entry(_, entry) = self.node
                    && entry.is_private()
                    && !may_look(caller, &*self.owner()?)
                {
                    return Err(Errno::EACCES);
                }
                Ok(Arc::new(Snapshot(self.content(caller)?)))
            }
        }
    }
}

/// An open directory.
struct OpenDir(Arc<ProcInode>);

impl FileOps for OpenDir {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn read_at(&self, _buf: &mut [u8], _offset: u64) -> Result<usize> {
        Err(Errno::EISDIR)
    }

    fn write_at(&self, _buf: &[u8], _offset: u64) -> Result<usize> {
        Err(Errno::EBADF)
    }

    fn readdir(&self, cookie: u64, sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        self.0.readdir(cookie, sink)
    }
}

/// Content as it was when the file was opened.
struct Snapshot(Vec<u8>);

impl FileOps for Snapshot {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let rest = usize::try_from(offset)
            .ok()
            .and_then(|at| self.0.get(at..))
            .unwrap_or_default();
        let n = rest.len().min(buf.len());
        buf[..n].copy_from_slice(&rest[..n]);
        Ok(n)
    }

    fn write_at(&self, _buf: &[u8], _offset: u64) -> Result<usize> {
        Err(Errno::EIO)
    }
}
