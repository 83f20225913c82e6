//! The table of one VM: who exists, who descends from whom, and how a process is made.
//!
//! Everything that relates processes to each other (parent, children, groups, sessions, being a
//! zombie) is guarded by one lock, the tree lock, as `tasklist_lock` guards it in Linux. Work
//! under it is short; who must be woken is collected in [`Wakes`] and woken after it.

use crate::FdTable;
use crate::fdtable::{CloseHook, FdShared};
use crate::limits::{LimitEvents, LimitExceeded, Meters, ProcLimits};
use crate::pipe::PipeLimits;
use crate::process::{DEAD, FsContext, Image, NewGroup, NewProcess, Parts, Process};
use crate::rlimit::{RLIM_INFINITY, Resource, Rlimits};
use crate::session::{ControllingTerminal, Group, Session};
use crate::signal::{SigInfo, Signal};
use crate::sigstate::{MaskHow, SignalState};
use crate::socket::SocketLimits;
use crate::sync::lock;
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Instant;
use vfs_core::errno::{Errno, Result};
use vfs_core::types::Cred;
use vfs_core::wait::{PollEvents, WaitQueue, Waiter};

/// Pid of the first process, which the kernel owns.
pub const INIT_PID: u32 = 1;

/// Where pids start again after the highest (`RESERVED_PIDS`).
const RESERVED_PIDS: u32 = 300;

/// The process table of one VM.
pub struct ProcTable {
    limits: ProcLimits,
    events: Arc<dyn LimitEvents>,
    meters: Meters,
    sockets: SocketLimits,
    close_hook: OnceLock<Arc<dyn CloseHook>>,
    init: Arc<Process>,
    /// Processes that have not ended, pid 1 apart; written under `tree`.
    alive: AtomicUsize,
    /// Woken when `alive` falls to zero.
    emptied: WaitQueue,
    tree: Mutex<Tree>,
}

/// Guarded by the tree lock.
#[derive(Default)]
pub(crate) struct Tree {
    pub(crate) entries: FxHashMap<u32, Entry>,
    pub(crate) groups: FxHashMap<u32, Group>,
    pub(crate) sessions: FxHashMap<u32, Session>,
    last_pid: u32,
    /// No process may be made any more.
    closed: bool,
}

pub(crate) struct Entry {
    pub(crate) process: Arc<Process>,
    /// Oldest first; those taken over from others come last.
    pub(crate) children: Vec<u32>,
}

impl Tree {
    pub(crate) fn get(&self, pid: u32) -> Option<&Arc<Process>> {
        self.entries.get(&pid).map(|e| &e.process)
    }

    pub(crate) fn parent(&self, process: &Process) -> Option<&Arc<Process>> {
        self.get(process.ppid())
    }

    /// The next free pid. A number stays taken while a group or session has it.
    fn alloc_pid(&mut self, pid_max: u32) -> Option<u32> {
        let span = pid_max.saturating_sub(1);
        let low = if pid_max > 2 * RESERVED_PIDS {
            RESERVED_PIDS
        } else {
            INIT_PID + 1
        };
        let mut pid = self.last_pid;
        for _ in 0..span {
            pid = if pid >= pid_max { low } else { pid + 1 };
            let taken = self.entries.contains_key(&pid)
                || self.groups.contains_key(&pid)
                || self.sessions.contains_key(&pid);
            if !taken {
                self.last_pid = pid;
                return Some(pid);
            }
        }
        None
    }

    fn insert(&mut self, process: Arc<Process>) {
        let (pid, ppid) = (process.pid(), process.ppid());
        self.join(&process, process.pgid(), process.sid());
        if let Some(parent) = self.entries.get_mut(&ppid) {
            parent.children.push(pid);
        }
        self.entries.insert(
            pid,
            Entry {
                process,
                children: Vec::new(),
            },
        );
    }

    /// Takes a process that has ended out of the table (`release_task`).
    pub(crate) fn release(&mut self, pid: u32) -> Option<Arc<Process>> {
        let entry = self.entries.remove(&pid)?;
        let process = entry.process;
        process.life.store(DEAD, Ordering::Release);
        self.leave(&process);
        if let Some(parent) = self.entries.get_mut(&process.ppid()) {
            parent.children.retain(|c| *c != pid);
        }
        Some(process)
    }
}

/// Processes to wake once the tree lock is given back.
#[derive(Default)]
pub(crate) struct Wakes {
    kicks: Vec<Arc<Process>>,
    parents: Vec<Arc<Process>>,
    hangups: Vec<(u32, Arc<dyn ControllingTerminal>)>,
}

impl Wakes {
    /// Its child changed.
    pub(crate) fn child_event(&mut self, parent: &Arc<Process>) {
        self.parents.push(parent.clone());
    }

    /// It has a signal to look at.
    pub(crate) fn kick(&mut self, process: &Arc<Process>) {
        self.kicks.push(process.clone());
    }

    /// The leader of its session has ended.
    pub(crate) fn hangup(&mut self, sid: u32, tty: Arc<dyn ControllingTerminal>) {
        self.hangups.push((sid, tty));
    }

    pub(crate) fn fire(self) {
        for parent in self.parents {
            parent.child_events().wake_all();
        }
        for process in self.kicks {
            process.kick();
        }
        for (sid, tty) in self.hangups {
            tty.leader_exited(sid);
        }
    }
}

/// Why a process could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CreateError {
    /// A limit of the VM.
    #[error(transparent)]
    Limit(#[from] LimitExceeded),
    /// The user has as many processes as the parent's `RLIMIT_NPROC` allows (`EAGAIN`).
    #[error("the user has reached its process limit (RLIMIT_NPROC)")]
    UserLimit,
    /// Every pid is taken (`EAGAIN`).
    #[error("no process id is free")]
    NoPid,
    /// The VM is being disposed of, or the parent is ending (`EAGAIN`).
    #[error("the parent or the whole VM is ending")]
    Ending,
    /// The group to join is not in the parent's session (`EPERM`).
    #[error("no such process group in this session")]
    NoGroup,
}

impl From<CreateError> for Errno {
    fn from(error: CreateError) -> Errno {
        match error {
            CreateError::Limit(exceeded) => exceeded.errno,
            CreateError::UserLimit | CreateError::NoPid | CreateError::Ending => Errno::EAGAIN,
            CreateError::NoGroup => Errno::EPERM,
        }
    }
}

impl ProcTable {
    /// An empty table: only pid 1, which the kernel owns, which runs nothing, which no signal
    /// reaches and which reaps whatever is left to it.
    pub fn new(limits: ProcLimits, events: Arc<dyn LimitEvents>) -> Arc<ProcTable> {
        let meters = Meters::new(&limits, &events);
        Arc::new_cyclic(|table| {
            let rlimits = Rlimits::initial(&limits);
            let image = Image {
                argv: Arc::from([b"init".to_vec()]),
                env: Arc::from([]),
                comm: b"init".to_vec(),
                exe: None,
                driver: "kernel",
            };
            let queue = rlimits.get(Resource::Sigpending).soft;
            let init = Process::build(Parts {
                pid: INIT_PID,
                table: table.clone(),
                ppid: 0,
                pgid: INIT_PID,
                sid: INIT_PID,
                execed: true,
                image,
                fs: None,
                cred: Arc::new(Cred::root()),
                rlimits,
                umask: 0o022,
                fds: FdTable::new(),
                signals: SignalState::new(meters.signals.clone(), true, queue),
            });
            let mut tree = Tree {
                last_pid: INIT_PID,
                ..Tree::default()
            };
            tree.insert(init.clone());
            ProcTable {
                limits,
                events,
                sockets: SocketLimits::new(&meters),
                meters,
                close_hook: OnceLock::new(),
                init,
                alive: AtomicUsize::new(0),
                emptied: WaitQueue::new(),
                tree: Mutex::new(tree),
            }
        })
    }

    /// Whom to tell of each descriptor a process closes. Set before the first process is made;
    /// returns whether it was the first.
    pub fn set_close_hook(&self, hook: Arc<dyn CloseHook>) -> bool {
        self.close_hook.set(hook).is_ok()
    }

    /// Pid 1.
    pub fn init(&self) -> &Arc<Process> {
        &self.init
    }

    /// The configured limits.
    pub fn limits(&self) -> &ProcLimits {
        &self.limits
    }

    /// The running counts against them; pipes and sockets are made with these.
    pub fn meters(&self) -> &Meters {
        &self.meters
    }

    /// The limits for pipes of this VM.
    pub fn pipe_limits(&self) -> PipeLimits {
        PipeLimits::new(&self.limits, &self.meters)
    }

    /// The limits for sockets of this VM.
    pub fn socket_limits(&self) -> &SocketLimits {
        &self.sockets
    }

    /// Who hears of limits.
    pub fn events(&self) -> &Arc<dyn LimitEvents> {
        &self.events
    }

    pub(crate) fn tree(&self) -> MutexGuard<'_, Tree> {
        lock(&self.tree)
    }

    /// The process with this pid, zombies included.
    pub fn get(&self, pid: u32) -> Option<Arc<Process>> {
        self.tree().get(pid).cloned()
    }

    /// Every process, zombies included, by rising pid.
    pub fn list(&self) -> Vec<Arc<Process>> {
        let mut all: Vec<_> = self
            .tree()
            .entries
            .values()
            .map(|e| e.process.clone())
            .collect();
        all.sort_unstable_by_key(|p| p.pid());
        all
    }

    /// Pids of the children of `pid`, oldest first.
    pub fn children(&self, pid: u32) -> Vec<u32> {
        self.tree()
            .entries
            .get(&pid)
            .map_or_else(Vec::new, |e| e.children.clone())
    }

    /// The pid most recently given out.
    pub fn last_pid(&self) -> u32 {
        self.tree().last_pid
    }

    /// Processes that have not ended, without pid 1.
    pub fn alive(&self) -> usize {
        self.alive.load(Ordering::Acquire)
    }

    pub(crate) fn one_ended(&self) {
        if self.alive.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.emptied.wake_all();
        }
    }

    /// Makes a child of `parent` that is in the table from now on. `new.fds` belongs to it;
    /// nothing runs yet, which is for whoever called.
    pub fn create(
        self: &Arc<Self>,
        parent: &Arc<Process>,
        new: NewProcess,
    ) -> std::result::Result<Arc<Process>, CreateError> {
        // Looked at again under the lock; here so that a full table does not hide it.
        if parent.signals().fatal() {
            return Err(CreateError::Ending);
        }
        let rlimits = parent.rlimits();
        let cred = new.cred.unwrap_or_else(|| parent.cred());
        let queue_limit = rlimits.get(Resource::Sigpending).soft;
        let signals = parent.signals().fork(queue_limit);
        if !new.forked {
            signals.exec_reset();
        }
        signals.set_default(new.sigdefault);
        if let Some(mask) = new.sigmask {
            signals.change_mask(MaskHow::Set, mask);
        }
        let fs: Option<Arc<FsContext>> = new.fs.map(Arc::new).or_else(|| parent.fs());
        let umask = new.umask.unwrap_or_else(|| parent.umask());
        let mut fds = new.fds;

        self.meters.processes.acquire(1)?;
        let mut tree = self.tree();
        let placed = self.place(&mut tree, parent, new.group, &cred, &rlimits);
        let (pid, pgid, sid) = match placed {
            Ok(placed) => placed,
            Err(error) => {
                drop(tree);
                self.meters.processes.release(1);
                return Err(error);
            }
        };
        let shared = FdShared {
            meter: self.meters.descriptors.clone(),
            events: self.events.clone(),
            hook: self.close_hook.get().cloned(),
        };
        if let Err(exceeded) = fds.adopt(pid, shared, rlimits.get(Resource::Nofile).soft) {
            drop(tree);
            self.meters.processes.release(1);
            return Err(exceeded.into());
        }
        let process = Process::build(Parts {
            pid,
            table: Arc::downgrade(self),
            ppid: parent.pid(),
            pgid,
            sid,
            execed: !new.forked,
            image: new.image,
            fs,
            cred,
            rlimits,
            umask,
            fds,
            signals,
        });
        tree.insert(process.clone());
        self.alive.fetch_add(1, Ordering::AcqRel);
        Ok(process)
    }

    /// Pid, group and session of a new child of `parent`.
    fn place(
        &self,
        tree: &mut Tree,
        parent: &Arc<Process>,
        group: NewGroup,
        cred: &Cred,
        rlimits: &Rlimits,
    ) -> std::result::Result<(u32, u32, u32), CreateError> {
        // A parent that was killed makes no more children: a signal to a group is posted under
        // the tree lock, so no member can escape it by spawning.
        if tree.closed || parent.signals().fatal() || !parent.is_alive() {
            return Err(CreateError::Ending);
        }
        let nproc = rlimits.get(Resource::Nproc).soft;
        if nproc < self.limits.processes && nproc != RLIM_INFINITY && !cred.is_root() {
            let same_user = |e: &&Entry| e.process.cred().uid == cred.uid;
            if tree.entries.values().filter(same_user).count() as u64 >= nproc {
                return Err(CreateError::UserLimit);
            }
        }
        let sid = parent.sid();
        if let NewGroup::Join(pgid) = group
            && tree.groups.get(&pgid).is_none_or(|g| g.sid != sid)
        {
            return Err(CreateError::NoGroup);
        }
        let pid_max = u32::try_from(self.limits.pid_max)
            .unwrap_or(u32::MAX)
            .clamp(2, i32::MAX as u32);
        let pid = tree.alloc_pid(pid_max).ok_or(CreateError::NoPid)?;
        Ok(match group {
            NewGroup::Inherit => (pid, parent.pgid(), sid),
            NewGroup::Lead => (pid, pid, sid),
            NewGroup::Join(pgid) => (pid, pgid, sid),
            NewGroup::Session => (pid, pid, pid),
        })
    }

    /// Takes a process back that was made but never ran, as if it had never been.
    pub fn discard(&self, process: &Arc<Process>) {
        process.strip();
        process.signals().retire();
        let mut wakes = Wakes::default();
        {
            let mut tree = self.tree();
            if process.is_alive() && tree.release(process.pid()).is_some() {
                self.meters.processes.release(1);
                self.one_ended();
                if let Some(parent) = tree.parent(process) {
                    wakes.child_event(parent);
                }
            }
        }
        wakes.fire();
        process.exit_events().wake_all();
    }

    /// Posts to `target` under the tree lock, and tells its parent if that continued it.
    pub(crate) fn post_in(
        &self,
        tree: &Tree,
        target: &Process,
        info: SigInfo,
        wakes: &mut Wakes,
    ) -> Result<()> {
        let posted = target.signals().post(info)?;
        if posted.wake
            && let Some(entry) = tree.get(target.pid())
        {
            wakes.kick(entry);
        }
        if posted.continued {
            self.notify_job_control(tree, target, None, wakes);
        }
        Ok(())
    }

    /// Ends every process with `SIGKILL` and lets none be made any more.
    pub fn shut_down(&self) {
        let mut wakes = Wakes::default();
        {
            let mut tree = self.tree();
            tree.closed = true;
            for entry in tree.entries.values() {
                // Cannot fail: details may be dropped.
                let _ = self.post_in(
                    &tree,
                    &entry.process,
                    SigInfo::kernel(Signal::KILL),
                    &mut wakes,
                );
            }
        }
        wakes.fire();
    }

    /// Waits until no process is left that has not ended; returns whether that is so.
    pub fn wait_empty(&self, deadline: Option<Instant>) -> bool {
        let waiter = Waiter::new();
        let _registration = self.emptied.register(&waiter, PollEvents::all());
        while self.alive() > 0 {
            if !waiter.wait(deadline) {
                return self.alive() == 0;
            }
        }
        true
    }
}

impl std::fmt::Debug for ProcTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProcTable")
            .field("alive", &self.alive())
            .finish()
    }
}
