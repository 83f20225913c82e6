//! A virtual machine: its configuration, its life, and what the host can do with it.

mod child;
mod dispose;
mod files;
mod host_io;
mod output;
mod terminal;
mod tree;

pub use child::{Child, SpawnError, SpawnRequest, Stdio};
pub use dispose::DisposeError;
pub use host_io::{HostReader, HostWriter};
pub use output::{Capture, Captured, Output};
pub use terminal::HostTerminal;
pub use tree::ProcInfo;

use crate::cpu::CpuWatch;
use crate::devfs::{self, Devices};
use crate::driver::Driver;
use crate::env;
use crate::events::{Event, Events};
use crate::limits::Limits;
use crate::memory::Memory;
use crate::policy::{Confined, Policy};
use crate::pool::Pool;
use crate::procfs::ProcFs;
use crate::rootfs;
use crate::running::{Running, Threads};
use proctable::limits::{LimitEvents, LimitExceeded};
use proctable::pipe::PipeLimits;
use proctable::rlimit::{Resource, Rlimit};
use proctable::{CloseHook, FsContext, ProcTable, Process};
use pty::{DevPts, PtyTable};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use vfs_core::errno::Errno;
use vfs_core::file::OpenFile;
use vfs_core::inode::FileSystem;
use vfs_core::locks::LockTable;
use vfs_core::memfs::{MemFs, MemFsOptions, SpaceEvents};
use vfs_core::mount::{MountFlags, Namespace};
use vfs_core::namei::{At, Lookup, Path};
use vfs_core::types::{Caller, Cred, Timespec};
use vfs_overlay::{OverlayFs, OverlayOptions};

/// Something mounted in a VM when it is made.
pub struct MountSpec {
    /// Where: an absolute path, made with its parents if it is not there.
    pub at: Vec<u8>,
    /// What.
    pub fs: Arc<dyn FileSystem>,
    /// Options. A guest may tighten them later and not loosen them.
    pub flags: MountFlags,
    /// Source as `/proc/mounts` shows it; never a path of the host.
    pub source: String,
}

/// What a VM is made of.
pub struct VmConfig {
    /// Read-only layers between the base tree and the writable layer, the topmost first: the
    /// projection of the packages.
    pub lowers: Vec<Arc<dyn FileSystem>>,
    /// The writable layer; a memory file system within the limits `fs.bytes` and `fs.inodes` if
    /// none is given.
    pub upper: Option<Arc<dyn FileSystem>>,
    /// The whole root file system, in place of base tree, `lowers` and `upper`.
    pub root: Option<Arc<dyn FileSystem>>,
    /// What else is mounted, in this order, after `/proc` and `/dev`.
    pub mounts: Vec<MountSpec>,
    /// Host name.
    pub hostname: Vec<u8>,
    /// Environment of processes that the host starts, `KEY=VALUE` each, over the defaults (`HOME`,
    /// `USER`, `LOGNAME`, `SHELL`, `PATH`, `TMPDIR`) and under what a request gives.
    pub env: Vec<Vec<u8>>,
    /// Credentials of processes that the host starts.
    pub cred: Cred,
    /// Working directory of processes that the host starts; the user's home if none is given.
    pub cwd: Option<Vec<u8>>,
    /// Limits.
    pub limits: Limits,
    /// Permission policy.
    pub policy: Arc<dyn Policy>,
    /// Runtimes; the first that handles a program runs it.
    pub drivers: Vec<Arc<dyn Driver>>,
    /// Who hears of what happens.
    pub events: Option<Arc<dyn Events>>,
    /// Threads; the pool of the host process if none is given.
    pub pool: Option<Pool>,
}

impl Default for VmConfig {
    fn default() -> VmConfig {
        VmConfig {
            lowers: Vec::new(),
            upper: None,
            root: None,
            mounts: Vec::new(),
            hostname: b"agentos".to_vec(),
            env: Vec::new(),
            cred: rootfs::default_cred(),
            cwd: None,
            limits: Limits::default(),
            policy: Arc::new(Confined),
            drivers: Vec::new(),
            events: None,
            pool: None,
        }
    }
}

/// Why a VM could not be made.
#[derive(Debug, thiserror::Error)]
pub enum VmError {
    /// Something could not be mounted.
    #[error("cannot mount {source_name} on {at}: {errno}")]
    Mount {
        /// Where.
        at: String,
        /// What.
        source_name: String,
        /// Why.
        errno: Errno,
    },
    /// The root file system could not be put together.
    #[error("cannot put the root file system together: {0}")]
    Root(Errno),
}

/// A virtual machine. Clones are handles of the same one; when the last handle is dropped, the VM
/// is disposed of as if by [`Vm::dispose`], without waiting.
#[derive(Clone)]
pub struct Vm {
    pub(crate) inner: Arc<VmInner>,
    /// Ends the VM with its last handle, although running processes hold `inner`.
    _handle: Arc<Handle>,
}

struct Handle(Arc<VmInner>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.table.shut_down();
    }
}

pub(crate) struct VmInner {
    pub(crate) table: Arc<ProcTable>,
    pub(crate) ns: Arc<Namespace>,
    pub(crate) pipes: PipeLimits,
    pub(crate) ptys: Arc<PtyTable>,
    pub(crate) hostname: Vec<u8>,
    pub(crate) env: Vec<Vec<u8>>,
    pub(crate) cred: Arc<Cred>,
    pub(crate) cwd: Option<Vec<u8>>,
    pub(crate) limits: Limits,
    pub(crate) policy: Arc<dyn Policy>,
    pub(crate) drivers: Vec<Arc<dyn Driver>>,
    pub(crate) events: Option<Arc<dyn Events>>,
    pub(crate) pool: Pool,
    pub(crate) memory: Memory,
    pub(crate) running: Running,
    pub(crate) threads: Arc<Threads>,
    pub(crate) locks: Arc<LockTable>,
    /// Mounts that the host made, whose options a guest can't loosen.
    pub(crate) locked_mounts: Vec<u32>,
    /// `/dev/null`, for the streams of processes that are given none.
    pub(crate) null: Path,
    pub(crate) booted: Instant,
    pub(crate) booted_at: Timespec,
    /// Random bits that tell this VM from others (`boot_id`).
    pub(crate) boot_id: u128,
    pub(crate) disposed: AtomicBool,
}

impl Vm {
    /// Makes a VM. Nothing runs in it yet.
    pub fn new(config: VmConfig) -> Result<Vm, VmError> {
        let inner = VmInner::build(config)?;
        Ok(Vm {
            _handle: Arc::new(Handle(inner.clone())),
            inner,
        })
    }

    /// Its limits.
    pub fn limits(&self) -> &Limits {
        &self.inner.limits
    }

    /// Its tree of file systems.
    pub fn namespace(&self) -> &Arc<Namespace> {
        &self.inner.ns
    }

    /// Its process table.
    pub fn table(&self) -> &Arc<ProcTable> {
        &self.inner.table
    }

    /// Its threads.
    pub fn pool(&self) -> &Pool {
        &self.inner.pool
    }

    /// Whether [`Vm::dispose`] was called.
    pub fn is_disposed(&self) -> bool {
        self.inner.disposed.load(Ordering::Acquire)
    }
}

impl std::fmt::Debug for Vm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Vm")
            .field("processes", &self.inner.table.alive())
            .finish_non_exhaustive()
    }
}

impl VmInner {
    fn build(config: VmConfig) -> Result<Arc<VmInner>, VmError> {
        let limits = config.limits;
        let sink: Arc<dyn LimitEvents> = Arc::new(LimitSink(config.events.clone()));
        let table = ProcTable::new(limits.processes.clone(), sink);
        let pipes = PipeLimits::new(table.limits(), table.meters());
        let ptys = PtyTable::new(&table, table.meters().ptys.clone());
        let devices = Arc::new(Devices::new(pipes.clone(), ptys.clone(), &table));
        let root = match config.root {
            Some(root) => root,
            None => overlay(config.lowers, config.upper, &limits, &config.events)
                .map_err(VmError::Root)?,
        };
        let locks = LockTable::new(usize::try_from(limits.file_locks).unwrap_or(usize::MAX));
        table.set_close_hook(Arc::new(Unlock(locks.clone())));
        let ns = Namespace::new(root, MountFlags::empty(), devices);
        let dev = devfs::new(
            limits.dev_bytes,
            limits.dev_inodes,
            space_events(&config.events, "dev.bytes", "dev.inodes"),
        )
        .map_err(VmError::Root)?;
        let nosuid = MountFlags::NOSUID | MountFlags::NOEXEC;
        let procfs = ProcFs::new();
        let own = [
            MountSpec {
                at: b"/proc".to_vec(),
                fs: procfs.clone(),
                flags: nosuid | MountFlags::NODEV,
                source: "proc".into(),
            },
            MountSpec {
                at: b"/dev".to_vec(),
                fs: dev,
                flags: MountFlags::NOSUID,
                source: "devtmpfs".into(),
            },
            MountSpec {
                at: b"/dev/pts".to_vec(),
                fs: DevPts::new(ptys.clone()),
                flags: nosuid,
                source: "devpts".into(),
            },
        ];
        let mut locked_mounts = Vec::new();
        for spec in own.into_iter().chain(config.mounts) {
            locked_mounts.push(mount(&ns, spec)?);
        }
        let init = table.init();
        init.set_fs(Some(FsContext {
            cwd: ns.root(),
            root: ns.root(),
        }));
        start_limits(init, &limits);
        let null = resolve_as_host(&ns, b"/dev/null").map_err(VmError::Root)?;
        let memory = Memory::new(limits.vm_memory_bytes, config.events.clone());
        let inner = Arc::new(VmInner {
            table,
            ns,
            pipes,
            ptys,
            hostname: config.hostname,
            env: config.env,
            cred: Arc::new(config.cred),
            cwd: config.cwd,
            limits,
            policy: config.policy,
            drivers: config.drivers,
            events: config.events,
            pool: config.pool.unwrap_or_else(Pool::shared),
            memory,
            running: Running::default(),
            threads: Arc::default(),
            locks,
            locked_mounts,
            null,
            booted: Instant::now(),
            booted_at: Timespec::now(),
            boot_id: crate::sys::random_u128(),
            disposed: AtomicBool::new(false),
        });
        procfs.attach(&inner);
        Ok(inner)
    }

    /// Sends an event that is only made if somebody listens.
    pub(crate) fn emit(&self, event: impl FnOnce() -> Event) {
        if let Some(events) = &self.events {
            events.event(event());
        }
    }

    pub(crate) fn limit_reached(&self, name: &'static str, limit: u64, pid: u32) {
        self.emit(|| Event::LimitReached { name, limit, pid });
    }

    /// Watches the CPU time of a process if it has a limit.
    pub(crate) fn watch_cpu(self: &Arc<Self>, process: &Arc<Process>) {
        if process.rlimit(Resource::Cpu).soft != u64::MAX {
            CpuWatch::watch(self, process.pid());
        }
    }

    /// Credentials, environment and working directory of a process that the host starts.
    pub(crate) fn login_env(&self, cred: &Cred) -> Vec<Vec<u8>> {
        let mut env = self.env.clone();
        let user = self.user(cred.uid);
        let name = user.as_ref().map_or(&b"user"[..], |user| &user.name);
        env::set_default(&mut env, "HOME", &self.home(cred));
        env::set_default(&mut env, "USER", name);
        env::set_default(&mut env, "LOGNAME", name);
        env::set_default(&mut env, "SHELL", b"/bin/sh");
        env::set_default(&mut env, "PATH", crate::DEFAULT_PATH.as_bytes());
        env::set_default(&mut env, "TMPDIR", b"/tmp");
        env
    }

    pub(crate) fn home(&self, cred: &Cred) -> Vec<u8> {
        self.user(cred.uid)
            .map(|user| user.home)
            .filter(|home| home.starts_with(b"/"))
            .unwrap_or_else(|| b"/".to_vec())
    }

    fn user(&self, uid: u32) -> Option<crate::users::User> {
        let text = self.host_read(b"/etc/passwd", 1 << 20).ok()?;
        crate::users::parse_passwd(&text)
            .into_iter()
            .find(|user| user.uid == uid)
    }

    /// The host's own view of the tree: superuser, from the root.
    pub(crate) fn as_host<R>(
        &self,
        f: impl FnOnce(&At<'_>) -> vfs_core::Result<R>,
    ) -> vfs_core::Result<R> {
        let root = self.ns.root();
        let caller = Caller::host();
        f(&At {
            ns: &self.ns,
            root: &root,
            base: &root,
            caller: &caller,
        })
    }
}

/// Hands what a memory file system says of its limits on as events.
fn space_events(
    events: &Option<Arc<dyn Events>>,
    bytes: &'static str,
    inodes: &'static str,
) -> SpaceEvents {
    let events = events.clone();
    Arc::new(move |space| {
        let Some(events) = &events else { return };
        let name = if space.limit == "max_inodes" {
            inodes
        } else {
            bytes
        };
        events.event(if space.refused {
            Event::LimitReached {
                name,
                limit: space.max,
                pid: 0,
            }
        } else {
            Event::LimitWarning {
                name,
                used: space.used,
                limit: space.max,
            }
        });
    })
}

/// The root file system: base tree, then `lowers`, then the writable layer.
fn overlay(
    mut lowers: Vec<Arc<dyn FileSystem>>,
    upper: Option<Arc<dyn FileSystem>>,
    limits: &Limits,
    events: &Option<Arc<dyn Events>>,
) -> vfs_core::Result<Arc<dyn FileSystem>> {
    lowers.push(rootfs::base());
    let upper = match upper {
        Some(upper) => upper,
        None => {
            let options = MemFsOptions {
                max_bytes: limits.fs_bytes,
                max_inodes: limits.fs_inodes,
                ..MemFsOptions::default()
            };
            MemFs::with_events(options, space_events(events, "fs.bytes", "fs.inodes"))
        }
    };
    Ok(OverlayFs::new(
        Some(upper),
        lowers,
        OverlayOptions::default(),
    )?)
}

fn resolve_as_host(ns: &Arc<Namespace>, path: &[u8]) -> vfs_core::Result<Path> {
    let root = ns.root();
    let caller = Caller::host();
    At {
        ns,
        root: &root,
        base: &root,
        caller: &caller,
    }
    .resolve(path, Lookup::FOLLOW)
}

fn mount(ns: &Arc<Namespace>, spec: MountSpec) -> Result<u32, VmError> {
    let error = |errno| VmError::Mount {
        at: String::from_utf8_lossy(&spec.at).into_owned(),
        source_name: spec.source.clone(),
        errno,
    };
    let at = make_dirs(ns, &spec.at).map_err(error)?;
    let mount = ns
        .mount(&at, spec.fs.clone(), spec.flags, &spec.source)
        .map_err(error)?;
    Ok(mount.id())
}

/// The directory at `path`, made with its parents where it is missing.
fn make_dirs(ns: &Arc<Namespace>, path: &[u8]) -> vfs_core::Result<Path> {
    match resolve_as_host(ns, path) {
        Err(Errno::ENOENT) => {}
        found => return found,
    }
    let root = ns.root();
    let caller = Caller::host();
    let at = At {
        ns,
        root: &root,
        base: &root,
        caller: &caller,
    };
    let ends = (1..=path.len()).filter(|&i| i == path.len() || path[i] == b'/');
    for end in ends {
        match at.mkdir(&path[..end], 0o755) {
            Ok(()) | Err(Errno::EEXIST) => {}
            Err(error) => return Err(error),
        }
    }
    at.resolve(path, Lookup::FOLLOW)
}

/// The resource limits that every process inherits from the first.
fn start_limits(init: &Process, limits: &Limits) {
    let set = |resource, soft, hard| {
        // Pid 1 is privileged, so this can't fail.
        let _ = init.set_rlimit(resource, Rlimit { soft, hard });
    };
    let cpu = limits.cpu_seconds;
    set(
        Resource::Cpu,
        cpu,
        cpu.saturating_add(crate::cpu::GRACE_SECONDS),
    );
    set(Resource::As, limits.memory_bytes, limits.memory_bytes);
    set(Resource::Fsize, limits.file_bytes, limits.file_bytes);
}

/// Ends a process's record locks on a file with the first descriptor of it that it closes.
struct Unlock(Arc<LockTable>);

impl CloseHook for Unlock {
    fn closed(&self, pid: u32, file: &Arc<OpenFile>) {
        if self.0.held() > 0 {
            self.0.closed_by_process(file, pid);
        }
    }
}

/// Hands what the process table says of limits on as events.
struct LimitSink(Option<Arc<dyn Events>>);

impl LimitEvents for LimitSink {
    fn near(&self, name: &'static str, used: u64, limit: u64) {
        if let Some(events) = &self.0 {
            events.event(Event::LimitWarning { name, used, limit });
        }
    }

    fn reached(&self, exceeded: &LimitExceeded) {
        if let Some(events) = &self.0 {
            events.event(Event::LimitReached {
                name: exceeded.name,
                limit: exceeded.limit,
                pid: 0,
            });
        }
    }
}
