//! One process: identity, image, context, and the handles of its parts.
//!
//! A [`Process`] is made by [`ProcTable::create`](crate::ProcTable::create) and stays in the table
//! until it is waited for. Whoever runs it holds an `Arc`; holding one keeps no pid busy.

use crate::fdtable::FdTable;
use crate::rlimit::{RLIM_INFINITY, Resource, Rlimit, Rlimits};
use crate::signal::{SigInfo, Signal};
use crate::sigstate::{Delivery, SignalState, Taken};
use crate::sync::lock;
use crate::table::{ProcTable, Wakes};
use crate::timer::RealTimer;
use crate::wait::{ExitStatus, Rusage};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::{Duration, Instant};
use vfs_core::errno::Result;
use vfs_core::namei::Path;
use vfs_core::types::{Caller, Cred, Timespec};
use vfs_core::wait::{WaitQueue, Waiter};

/// The program a process runs, replaced as a whole by `exec`.
#[derive(Clone, Default)]
pub struct Image {
    /// Arguments, the program's name first; may be empty.
    pub argv: Arc<[Vec<u8>]>,
    /// Environment, `NAME=VALUE` each.
    pub env: Arc<[Vec<u8>]>,
    /// Short name as `ps` shows it, at most 15 bytes (longer ones are cut).
    pub comm: Vec<u8>,
    /// The file it was started from.
    pub exe: Option<Path>,
    /// Which driver runs it.
    pub driver: &'static str,
}

/// Longest `comm` (`TASK_COMM_LEN` without its NUL).
const COMM_LEN: usize = 15;

impl Image {
    fn cut(mut self) -> Image {
        self.comm.truncate(COMM_LEN);
        self
    }
}

/// Where a process is in the file system (`struct fs_struct`).
#[derive(Clone)]
pub struct FsContext {
    /// Current directory.
    pub cwd: Path,
    /// Root directory.
    pub root: Path,
}

/// What to make with [`ProcTable::create`](crate::ProcTable::create). Everything not given here is
/// inherited from the parent.
pub struct NewProcess {
    /// The program.
    pub image: Image,
    /// Directories; `None` inherits the parent's.
    pub fs: Option<FsContext>,
    /// Descriptors; usually [`FdTable::fork`] of the parent's, with the child's actions applied.
    pub fds: FdTable,
    /// Credentials; `None` inherits.
    pub cred: Option<Arc<Cred>>,
    /// File mode creation mask; `None` inherits.
    pub umask: Option<u32>,
    /// Group and session.
    pub group: NewGroup,
    /// Signal mask; `None` inherits.
    pub sigmask: Option<crate::SigSet>,
    /// Signals set to their default action.
    pub sigdefault: crate::SigSet,
    /// Whether the child goes on in its parent's image (`fork`) instead of a new one: it then
    /// keeps signal handlers, and its parent may still move it between groups.
    pub forked: bool,
}

impl NewProcess {
    /// A child that starts `image` with `fds` and inherits the rest.
    pub fn new(image: Image, fds: FdTable) -> NewProcess {
        NewProcess {
            image,
            fs: None,
            fds,
            cred: None,
            umask: None,
            group: NewGroup::Inherit,
            sigmask: None,
            sigdefault: crate::SigSet::EMPTY,
            forked: false,
        }
    }
}

/// The process group a child starts in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum NewGroup {
    /// Its parent's.
    #[default]
    Inherit,
    /// A new one that it leads.
    Lead,
    /// This one, of the parent's session; `EPERM` if there is none.
    Join(u32),
    /// A new session and a new group that it leads.
    Session,
}

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

    /// The file it was started from.
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

    /// Adds CPU time it has used, and raises `SIGXCPU` or `SIGKILL` where that passes
    /// `RLIMIT_CPU`: the first at the soft limit and each second after, the second at the hard.
    pub fn add_cpu(&self, user: Duration, system: Duration) {
        let (user, system) = (nanos(user), nanos(system));
        let before = self.user_ns.fetch_add(user, Ordering::Relaxed)
            + self.system_ns.fetch_add(system, Ordering::Relaxed);
        let after = before + user + system;
        if after >= self.cpu_limit_ns.load(Ordering::Relaxed) {
            self.over_cpu(after);
        }
    }

    #[cold]
    fn over_cpu(&self, used: u64) {
        let limit = self.rlimit(Resource::Cpu);
        let seconds = used / 1_000_000_000;
        let signal = if seconds >= limit.hard {
            Signal::KILL
        } else {
            Signal::XCPU
        };
        self.cpu_limit_ns.store(
            (seconds + 1).saturating_mul(1_000_000_000),
            Ordering::Relaxed,
        );
        self.raise(signal);
    }

    /// CPU time of its own and of the children it has waited for.
    pub fn rusage(&self) -> (Rusage, Rusage) {
        let load = |a: &AtomicU64| Duration::from_nanos(a.load(Ordering::Relaxed));
        (
            Rusage {
                user: load(&self.user_ns),
                system: load(&self.system_ns),
            },
            Rusage {
                user: load(&self.child_user_ns),
                system: load(&self.child_system_ns),
            },
        )
    }

    /// CPU time of its own.
    pub fn cpu_time(&self) -> Duration {
        let (own, _) = self.rusage();
        own.user + own.system
    }

    pub(crate) fn add_child_usage(&self, usage: Rusage) {
        self.child_user_ns
            .fetch_add(nanos(usage.user), Ordering::Relaxed);
        self.child_system_ns
            .fetch_add(nanos(usage.system), Ordering::Relaxed);
    }

    /// The limits of `resource`.
    pub fn rlimit(&self, resource: Resource) -> Rlimit {
        lock(&self.rlimits).get(resource)
    }

    pub(crate) fn rlimits(&self) -> Rlimits {
        lock(&self.rlimits).clone()
    }

    /// Sets the limits of `resource` with the privilege of its own credentials: `EINVAL`, `EPERM`.
    pub fn set_rlimit(&self, resource: Resource, limit: Rlimit) -> Result<()> {
        let privileged = self.cred().is_root();
        let nr_open = self
            .table()
            .map_or(RLIM_INFINITY, |t| t.limits().descriptors);
        lock(&self.rlimits).set(resource, limit, privileged, nr_open)?;
        match resource {
            Resource::Nofile => self.fds.set_limit(limit.soft),
            Resource::Sigpending => self.signals.set_queue_limit(limit.soft),
            Resource::Cpu => self
                .cpu_limit_ns
                .store(cpu_limit_ns(limit), Ordering::Relaxed),
            _ => {}
        }
        Ok(())
    }

    /// Sets whom to call when it should stop computing and look at its signals. If there is
    /// something to look at already, it is called at once.
    pub fn set_interrupter(&self, interrupter: Option<Interrupter>) {
        let call = interrupter.clone();
        let old = std::mem::replace(&mut *lock(&self.interrupter), interrupter);
        drop(old);
        if let Some(call) = call
            && self.signals.interrupted()
        {
            call();
        }
    }

    /// Wakes it from a blocking call and from computing.
    pub(crate) fn kick(&self) {
        self.waiter.notify();
        let call = lock(&self.interrupter).clone();
        if let Some(call) = call {
            call();
        }
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

    /// Posts a signal from the system itself.
    pub fn raise(&self, signal: Signal) {
        // Cannot fail: details of a signal from the system may be dropped.
        let _ = self.post(SigInfo::kernel(signal));
    }

    /// Posts a signal without asking for permission; `EAGAIN` if it carries a value and the queue
    /// is full.
    pub fn post(&self, info: SigInfo) -> Result<()> {
        match self.table.upgrade() {
            // Continuing tells the parent, for which the tree must hold still.
            Some(table) if info.signal == Signal::CONT => {
                let mut wakes = Wakes::default();
                let sent = table.post_in(&table.tree(), self, info, &mut wakes);
                wakes.fire();
                sent
            }
            _ => {
                if self.signals.post(info)?.wake {
                    self.kick();
                }
                Ok(())
            }
        }
    }

    /// Takes the next thing to do about signals; `None` when there is nothing. With
    /// [`Delivery::Stop`] the process is stopped already and its parent knows.
    pub fn take_signal(&self) -> Option<Delivery> {
        // The usual answer costs one load. A temporary mask is put back by `take`, which a call
        // that set one makes sure to reach.
        if !self.signals.interrupted() && !self.signals.has_temporary_mask() {
            return None;
        }
        loop {
            match self.signals.take() {
                Taken::Nothing => return None,
                Taken::Deliver(Delivery::Terminate { signal, core }) => {
                    // Without room for a core image there is none (`do_coredump`).
                    let core = core && self.rlimit(Resource::Core).soft > 0;
                    return Some(Delivery::Terminate { signal, core });
                }
                Taken::Deliver(delivery) => return Some(delivery),
                Taken::Stop(info) => {
                    let stopped = match self.table.upgrade() {
                        Some(table) => table.stop(self, info.signal),
                        None => false,
                    };
                    if stopped {
                        return Some(Delivery::Stop(info.signal));
                    }
                }
            }
        }
    }

    /// Sleeps while it is stopped. Returns at once if it is not; ends when it is continued or
    /// killed.
    pub fn wait_while_stopped(&self) {
        while self.signals.stopped().is_some() {
            self.waiter.wait(None);
        }
    }

    /// Lets go of everything that a zombie does not keep.
    pub(crate) fn strip(&self) {
        self.timer.disarm();
        self.fds.close_all();
        self.set_fs(None);
        let interrupter = lock(&self.interrupter).take();
        drop(interrupter);
        self.set_sleeping(false);
    }
}

fn nanos(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX / 4)
}

fn cpu_limit_ns(limit: Rlimit) -> u64 {
    limit.soft.saturating_mul(1_000_000_000)
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
