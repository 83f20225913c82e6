//! Putting a VM together.
//!
//! ```no_run
//! use sidecar::cache::Cache;
//! use sidecar::npm::pinned;
//! use sidecar::software::{Software, Source};
//! use sidecar::vm::{Runtime, VmBuilder};
//!
//! let runtime = Runtime::new(Cache::from_env()?)?;
//! let common = Source::parse(pinned::COMMON.as_ref())?;
//! let software = Software::open(&[common], &Default::default(), runtime.cache(), &mut |_| {})?;
//! let vm = VmBuilder::new(&runtime).software(&software).build()?;
//! let request = kernel::SpawnRequest::new("sh", ["-c", "seq 3 | tac"]);
//! let output = vm.output(&request, &kernel::Capture::default())?;
//! assert_eq!(output.stdout.bytes, b"3\n2\n1\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::cache::Cache;
use crate::software::Software;
use driver_wasm::{CacheDirError, DriverError, WasmDriver};
use kernel::{Driver, Events, Limits, MountSpec, Vm, VmConfig, VmError};
use std::path::PathBuf;
use std::sync::Arc;
use vfs_core::hostfs::{HostFs, HostFsError, HostFsOptions};
use vfs_core::mount::MountFlags;
use vfs_core::types::Cred;

/// What the VMs of a host process share: the engines, compiled code, and the cache directory.
#[derive(Clone)]
pub struct Runtime {
    wasm: WasmDriver,
    drivers: Vec<Arc<dyn Driver>>,
    cache: Cache,
    problem: Option<Arc<CacheDirError>>,
}

impl Runtime {
    /// Sets the engines up; the first call in a process decides where compiled code is kept.
    pub fn new(cache: Cache) -> Result<Runtime, DriverError> {
        let wasm = WasmDriver::new()?;
        // Compiled code is only trusted in a directory of our own. Without one everything works,
        // and each process compiles for itself.
        let problem = wasm.use_cache_directory(&cache.code()).err().map(Arc::new);
        Ok(Runtime {
            drivers: vec![Arc::new(wasm.clone())],
            wasm,
            cache,
            problem,
        })
    }

    /// The cache directory.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// The WebAssembly runtime.
    pub fn wasm(&self) -> &WasmDriver {
        &self.wasm
    }

    /// Why compiled code is not kept, if it is not.
    pub fn problem(&self) -> Option<&CacheDirError> {
        self.problem.as_deref()
    }
}

/// A directory of the host shown in a VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostMount {
    /// Directory of the host.
    pub host: PathBuf,
    /// Absolute path in the VM; made if it is not there.
    pub guest: Vec<u8>,
    /// Whether the guest may only read.
    pub read_only: bool,
    /// Most bytes the guest may add to it.
    pub quota_bytes: Option<u64>,
}

/// Why a VM could not be put together.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A directory of the host can't be mounted.
    #[error("cannot mount {}: {source}", path.display())]
    Host {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: HostFsError,
    },
    /// The kernel refused.
    #[error(transparent)]
    Vm(#[from] VmError),
}

/// What a VM is to be.
pub struct VmBuilder {
    config: VmConfig,
    mounts: Vec<HostMount>,
}

impl VmBuilder {
    /// A VM with nothing in it but the base tree.
    pub fn new(runtime: &Runtime) -> VmBuilder {
        let config = VmConfig {
            drivers: runtime.drivers.clone(),
            ..VmConfig::default()
        };
        VmBuilder {
            config,
            mounts: Vec::new(),
        }
    }

    /// Mounts packages. Their variables yield to those of [`VmBuilder::env`], whichever comes first.
    pub fn software(mut self, software: &Software) -> VmBuilder {
        let provided = software.projection().env().iter();
        let provided = provided.map(|(name, value)| format!("{name}={value}").into_bytes());
        let own = std::mem::take(&mut self.config.env);
        self.config.env = provided.collect();
        self.config.lowers.push(software.projection().clone());
        own.into_iter().fold(self, VmBuilder::env)
    }

    /// Mounts a directory of the host.
    pub fn mount(mut self, mount: HostMount) -> VmBuilder {
        self.mounts.push(mount);
        self
    }

    /// Sets a variable, `KEY=VALUE`, for every process that the host starts.
    pub fn env(mut self, entry: impl Into<Vec<u8>>) -> VmBuilder {
        let entry = entry.into();
        if let Some(at) = entry.iter().position(|&b| b == b'=') {
            self.config
                .env
                .retain(|old| !old.starts_with(&entry[..=at]));
        }
        self.config.env.push(entry);
        self
    }

    /// Sets the working directory of processes that the host starts.
    pub fn cwd(mut self, dir: impl Into<Vec<u8>>) -> VmBuilder {
        self.config.cwd = Some(dir.into());
        self
    }

    /// Sets the credentials of processes that the host starts.
    pub fn cred(mut self, cred: Cred) -> VmBuilder {
        self.config.cred = cred;
        self
    }

    /// Sets the limits.
    pub fn limits(mut self, limits: Limits) -> VmBuilder {
        self.config.limits = limits;
        self
    }

    /// Sends events to `events`.
    pub fn events(mut self, events: Arc<dyn Events>) -> VmBuilder {
        self.config.events = Some(events);
        self
    }

    /// Makes the VM.
    pub fn build(mut self) -> Result<Vm, BuildError> {
        // A mounted directory belongs to whoever runs in the VM, whoever runs the VM.
        let owner = Some((self.config.cred.euid, self.config.cred.egid));
        for mount in self.mounts {
            let options = HostFsOptions {
                read_only: mount.read_only,
                quota_bytes: mount.quota_bytes,
                owner,
                ..HostFsOptions::default()
            };
            let fs = HostFs::open(&mount.host, options).map_err(|source| BuildError::Host {
                path: mount.host.clone(),
                source,
            })?;
            let mut flags = MountFlags::NOSUID | MountFlags::NODEV;
            flags.set(MountFlags::RDONLY, mount.read_only);
            let source = "hostdir".to_owned();
            self.config.mounts.push(MountSpec {
                at: mount.guest,
                fs,
                flags,
                source,
            });
        }
        Ok(Vm::new(self.config)?)
    }
}
