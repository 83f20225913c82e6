//! One process: identity, image, context, and the handles of its parts.
//!
//! A [`Process`] is made by [`ProcTable::create`](crate::ProcTable::create) and stays in the table
//! until it is waited for. Whoever runs it holds an `Arc`; holding one keeps no pid busy.

mod attention;
mod new;
mod usage;

pub use new::{FsContext, Image, NewGroup, NewProcess};

use crate::fdtable::FdTable;
use crate::rlimit::{Resource, Rlimits};
use crate::sigstate::SignalState;
use crate::sync::lock;
use crate::table::ProcTable;
use crate::timer::RealTimer;
use crate::wait::ExitStatus;
use new::COMM_LEN;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Instant;
use usage::cpu_limit_ns;
use vfs_core::namei::Path;
use vfs_core::types::{Caller, Cred, Timespec};
use vfs_core::wait::{WaitQueue, Waiter};

/// What a process is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Running guest code or a call that does not block.
    Running,
    /// In a blocking call.
    Sleeping,
    /// Stopped by a signal.
    Stopped,
    /// Ended, not yet waited for.
    Zombie,
    /// Ended and gone from the table.
    Dead,
}

impl State {
    /// The letter of `/proc/PID/stat`.
    pub fn letter(self) -> char {
        match self {
            State::Running => 'R',
            State::Sleeping => 'S',
            State::Stopped => 'T',
            State::Zombie => 'Z',
            State::Dead => 'X',
        }
    }
}

/// `Process::life`.
pub(crate) const ALIVE: u8 = 0;
pub(crate) const ZOMBIE: u8 = 1;
pub(crate) const DEAD: u8 = 2;

/// Called, from any thread and under locks, when a process should stop computing and look at its
/// signals. It must return at once and not call back into this crate.
pub type Interrupter = Arc<dyn Fn() + Send + Sync>;

/// A process. Field by field, what guards it:
pub struct Process {
    // Constant.
    pid: u32,
    table: Weak<ProcTable>,
    started: Instant,
    started_real: Timespec,
    // Written under the table's tree lock, read without.
    pub(crate) ppid: AtomicU32,
    pub(crate) pgid: AtomicU32,
    pub(crate) sid: AtomicU32,
    pub(crate) life: AtomicU8,
    pub(crate) execed: AtomicBool,
    // Set once, under the tree lock.
    pub(crate) exit_status: OnceLock<ExitStatus>,
    // Each its own lock, a leaf: nothing else is locked under it.
    image: Mutex<Image>,
    fs: Mutex<Option<Arc<FsContext>>>,
    cred: Mutex<Arc<Cred>>,
    rlimits: Mutex<Rlimits>,
    interrupter: Mutex<Option<Interrupter>>,
    // Atomics that stand alone.
    umask: AtomicU32,
    in_wait: AtomicU32,
    sleeping: AtomicBool,
    user_ns: AtomicU64,
    system_ns: AtomicU64,
    child_user_ns: AtomicU64,
    child_system_ns: AtomicU64,
    /// Soft `RLIMIT_CPU` in nanoseconds, for a cheap comparison.
    cpu_limit_ns: AtomicU64,
    // Guarded inside.
    fds: FdTable,
    signals: SignalState,
    timer: RealTimer,
    waiter: Arc<Waiter>,
    child_events: WaitQueue,
    exit_events: WaitQueue,
}

/// The parts of a process that its table puts together.
pub(crate) struct Parts {
    pub(crate) pid: u32,
    pub(crate) table: Weak<ProcTable>,
    pub(crate) ppid: u32,
    pub(crate) pgid: u32,
    pub(crate) sid: u32,
    pub(crate) execed: bool,
    pub(crate) image: Image,
    pub(crate) fs: Option<Arc<FsContext>>,
    pub(crate) cred: Arc<Cred>,
    pub(crate) rlimits: Rlimits,
    pub(crate) umask: u32,
    pub(crate) fds: FdTable,
    pub(crate) signals: SignalState,
}

impl Process {
    pub(crate) fn build(parts: Parts) -> Arc<Process> {
        let cpu = cpu_limit_ns(parts.rlimits.get(Resource::Cpu));
        Arc::new(Process {
            pid: parts.pid,
            table: parts.table,
            started: Instant::now(),
            started_real: Timespec::now(),
            ppid: AtomicU32::new(parts.ppid),
            pgid: AtomicU32::new(parts.pgid),
            sid: AtomicU32::new(parts.sid),
            life: AtomicU8::new(ALIVE),
            execed: AtomicBool::new(parts.execed),
            exit_status: OnceLock::new(),
            image: Mutex::new(parts.image.cut()),
            fs: Mutex::new(parts.fs),
            cred: Mutex::new(parts.cred),
            rlimits: Mutex::new(parts.rlimits),
            interrupter: Mutex::new(None),
            umask: AtomicU32::new(parts.umask & 0o777),
            in_wait: AtomicU32::new(0),
            sleeping: AtomicBool::new(false),
            user_ns: AtomicU64::new(0),
            system_ns: AtomicU64::new(0),
            child_user_ns: AtomicU64::new(0),
            child_system_ns: AtomicU64::new(0),
            cpu_limit_ns: AtomicU64::new(cpu),
            fds: parts.fds,
            signals: parts.signals,
            timer: RealTimer::default(),
            waiter: Waiter::new(),
            child_events: WaitQueue::new(),
            exit_events: WaitQueue::new(),
        })
    }

    /// Process id; also the thread group's, as there is one thread.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Thread group id, the same number.
    pub fn tgid(&self) -> u32 {
        self.pid
    }

    /// Parent; 0 for pid 1.
    pub fn ppid(&self) -> u32 {
        self.ppid.load(Ordering::Relaxed)
    }

    /// Process group.
    pub fn pgid(&self) -> u32 {
        self.pgid.load(Ordering::Relaxed)
    }

    /// Session.
    pub fn sid(&self) -> u32 {
        self.sid.load(Ordering::Relaxed)
    }

    /// Whether it leads its session.
    pub fn is_session_leader(&self) -> bool {
        self.sid() == self.pid
    }

    /// The table it is in, as long as the VM exists.
    pub fn table(&self) -> Option<Arc<ProcTable>> {
        self.table.upgrade()
    }

    /// The program it runs.
    pub fn image(&self) -> Image {
        lock(&self.image).clone()
    }

    /// Arguments.
    pub fn argv(&self) -> Arc<[Vec<u8>]> {
        lock(&self.image).argv.clone()
    }

    /// Environment the program was started with.
    pub fn env(&self) -> Arc<[Vec<u8>]> {
        lock(&self.image).env.clone()
    }

    /// Short name.
    pub fn comm(&self) -> Vec<u8> {
        lock(&self.image).comm.clone()
    }

    /// Sets the short name (`PR_SET_NAME`), cut to 15 bytes.
    pub fn set_comm(&self, comm: &[u8]) {
        lock(&self.image).comm = comm[..comm.len().min(COMM_LEN)].to_vec();
    }

    /// The file it was started from; `None` after exit.
    pub fn exe(&self) -> Option<Path> {
        lock(&self.image).exe.clone()
    }

    /// Name of the driver that runs it.
    pub fn driver(&self) -> &'static str {
        lock(&self.image).driver
    }

    pub(crate) fn replace_image(&self, image: Image) {
        // The old image is dropped after the lock: it may hold the last reference to an inode.
        let old = std::mem::replace(&mut *lock(&self.image), image.cut());
        drop(old);
    }

    /// Its directories; `None` for pid 1 and after exit.
    pub fn fs(&self) -> Option<Arc<FsContext>> {
        lock(&self.fs).clone()
    }

    /// Current directory; `None` for pid 1 and after exit.
    pub fn cwd(&self) -> Option<Path> {
        self.fs().map(|fs| fs.cwd.clone())
    }

    /// Root directory; `None` for pid 1 and after exit.
    pub fn root(&self) -> Option<Path> {
        self.fs().map(|fs| fs.root.clone())
    }

    /// Changes the current directory.
    pub fn set_cwd(&self, cwd: Path) {
        let mut fs = lock(&self.fs);
        let old = fs.take();
        *fs = old.as_ref().map(|old| {
            Arc::new(FsContext {
                cwd,
                root: old.root.clone(),
            })
        });
        drop(fs);
        drop(old);
    }

    /// Gives it directories, or takes them away.
    pub fn set_fs(&self, fs: Option<FsContext>) {
        let old = std::mem::replace(&mut *lock(&self.fs), fs.map(Arc::new));
        drop(old);
    }

    /// File mode creation mask.
    pub fn umask(&self) -> u32 {
        self.umask.load(Ordering::Relaxed)
    }

    /// Sets the mask and returns the old one.
    pub fn set_umask(&self, mask: u32) -> u32 {
        self.umask.swap(mask & 0o777, Ordering::Relaxed)
    }

    /// Credentials.
    pub fn cred(&self) -> Arc<Cred> {
        lock(&self.cred).clone()
    }

    /// Replaces the credentials.
    pub fn set_cred(&self, cred: Arc<Cred>) {
        *lock(&self.cred) = cred;
    }

    /// On whose behalf its file system calls are made.
    pub fn caller(&self) -> Caller {
        Caller {
            cred: self.cred(),
            pid: self.pid,
            umask: self.umask(),
        }
    }

    /// Descriptors.
    pub fn fds(&self) -> &FdTable {
        &self.fds
    }

    /// Signals.
    pub fn signals(&self) -> &SignalState {
        &self.signals
    }

    /// Who sleeps in its blocking calls. There is one thread per process, so one sleeper.
    pub fn waiter(&self) -> &Arc<Waiter> {
        &self.waiter
    }

    /// Woken when a child ends, stops, continues or disappears.
    pub fn child_events(&self) -> &WaitQueue {
        &self.child_events
    }

    /// Woken when it has ended; outlives its place in the table.
    pub fn exit_events(&self) -> &WaitQueue {
        &self.exit_events
    }

    /// The interval timer that raises `SIGALRM`.
    pub fn real_timer(&self) -> &RealTimer {
        &self.timer
    }

    /// How it ended, once it has.
    pub fn exit_status(&self) -> Option<ExitStatus> {
        self.exit_status.get().copied()
    }

    /// Waits, as a thread of the host that is no process, until it has ended or `deadline` has
    /// passed.
    pub fn wait_exit(&self, deadline: Option<Instant>) -> Option<ExitStatus> {
        let waiter = Waiter::new();
        let _registration = self
            .exit_events
            .register(&waiter, vfs_core::wait::PollEvents::all());
        loop {
            if let Some(status) = self.exit_status() {
                return Some(status);
            }
            if !waiter.wait(deadline) {
                return self.exit_status();
            }
        }
    }

    /// What it is doing.
    pub fn state(&self) -> State {
        match self.life.load(Ordering::Acquire) {
            ZOMBIE => State::Zombie,
            DEAD => State::Dead,
            _ if self.signals.stopped().is_some() => State::Stopped,
            _ if self.sleeping.load(Ordering::Relaxed) => State::Sleeping,
            _ => State::Running,
        }
    }

    /// Whether it has not ended.
    pub fn is_alive(&self) -> bool {
        self.life.load(Ordering::Acquire) == ALIVE
    }

    /// When it was made, by the monotonic clock.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// When it was made, by the real-time clock.
    pub fn started_at(&self) -> Timespec {
        self.started_real
    }

    /// Whether it is in a call that waits for children.
    pub fn in_wait(&self) -> bool {
        self.in_wait.load(Ordering::SeqCst) > 0
    }

    /// Marks it as waiting for children until the guard is dropped. A call with `WNOHANG` that
    /// is held back because the guest only asks in a loop counts too.
    pub fn enter_wait(&self) -> InWait<'_> {
        self.in_wait.fetch_add(1, Ordering::SeqCst);
        InWait(self)
    }

    pub(crate) fn set_sleeping(&self, sleeping: bool) {
        self.sleeping.store(sleeping, Ordering::Relaxed);
    }

    /// Lets go of everything that a zombie does not keep.
    pub(crate) fn strip(&self) {
        self.timer.disarm();
        self.fds.close_all();
        self.set_fs(None);
        let exe = lock(&self.image).exe.take();
        drop(exe);
        let interrupter = lock(&self.interrupter).take();
        drop(interrupter);
        self.set_sleeping(false);
    }
}

/// Marks a process as waiting for children; see [`Process::enter_wait`].
#[must_use = "dropping it ends the mark"]
pub struct InWait<'p>(&'p Process);

impl Drop for InWait<'_> {
    fn drop(&mut self) {
        self.0.in_wait.fetch_sub(1, Ordering::SeqCst);
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process")
            .field("pid", &self.pid)
            .field("ppid", &self.ppid())
            .field("state", &self.state())
            .finish()
    }
}
