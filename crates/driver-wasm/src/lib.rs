//! Runs WebAssembly programs against the kernel's system calls, on Wasmtime.
//!
//! A [`WasmDriver`] is given to a virtual machine and from then on runs every file that begins
//! with `\0asm`. It implements `wasi_snapshot_preview1` and the agentOS host modules beside it
//! (`host_process`, `host_fs`, `host_user`, `host_tty`, `host_system`, `host_net`) on one
//! [`kernel::Task`], so that the published command packages run unchanged, and `aos_process` of our
//! own, with which a shell can fork; `docs/abi.md` describes that, and lists what is answered with
//! an error because there is nothing behind it.
//!
//! # How it fits together
//!
//! - [`Engine`]: one per host process, shared by all virtual machines.
//! - [`ModuleCache`]: compiled programs by content, in memory and in a private directory.
//! - Linking resolves a module's imports once; a spawn then costs an instance from the pool and
//!   the guest's own work.
//! - Every host call crosses one boundary, where signals are looked at, and then is a few lines
//!   that check the guest's pointers and ask the task.
//!
//! # Example
//!
//! ```
//! use driver_wasm::{Found, WasmDriver};
//! let driver = WasmDriver::new()?;
//! let module = wat::parse_str("(module (func (export \"_start\")))").unwrap();
//! assert_eq!(driver.warm(&module)?, Found::Compiled);
//! assert_eq!(driver.warm(&module)?, Found::Memory);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod abi;
mod aos_process;
mod cache;
mod call;
mod engine;
mod errno;
mod guest;
mod host_fs;
mod host_net;
mod host_process;
mod host_system;
mod host_tty;
mod host_user;
mod limits;
mod link;
mod memory;
mod preview1;
mod run;

pub use cache::{
    CacheDirError, DiskCache, EntryError, Found, LoadError, MAX_MODULE_BYTES, ModuleCache,
};
pub use engine::{Engine, EngineError, HOST_STACK, MAX_INSTANCES, MAX_WASM_STACK};
pub use link::{LinkError, Linked};

use kernel::binfmt::Handler;
use kernel::{Driver, Errno, Image, Program};
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// Why there is no driver.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DriverError {
    /// Wasmtime does not work here.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The host functions could not be defined.
    #[error(transparent)]
    Link(#[from] LinkError),
}

/// Runs WebAssembly modules. Clones share everything, and so do all virtual machines.
#[derive(Clone)]
pub struct WasmDriver {
    cache: &'static ModuleCache,
}

impl WasmDriver {
    /// The driver of this process; the first call sets up the engine.
    pub fn new() -> Result<WasmDriver, DriverError> {
        static CACHE: OnceLock<Result<ModuleCache, DriverError>> = OnceLock::new();
        let cache = CACHE.get_or_init(|| Ok(ModuleCache::new(Engine::shared()?)?));
        Ok(WasmDriver {
            cache: cache.as_ref().map_err(Clone::clone)?,
        })
    }

    /// Keeps compiled code in `dir`, a directory that must belong to this user alone; it is made
    /// if it is missing. Only the first call of a process has an effect; returns whether this was
    /// it.
    pub fn use_cache_directory(&self, dir: &Path) -> Result<bool, CacheDirError> {
        self.cache.use_directory(dir)
    }

    /// The compiled programs.
    pub fn cache(&self) -> &'static ModuleCache {
        self.cache
    }

    /// Makes sure that the program of these bytes starts without a compiler later, and tells
    /// where it was found.
    pub fn warm(&self, module: &[u8]) -> Result<Found, LoadError> {
        self.cache.load(module).map(|(_, found)| found)
    }

    /// Like [`WasmDriver::warm`] for a module known by the BLAKE3 of its bytes; `false` if it has
    /// never been compiled, and then its bytes are needed.
    pub fn warm_digest(&self, digest: &[u8; 32]) -> bool {
        self.cache.find(digest).is_some()
    }

    /// The program of an image.
    fn find(&self, image: &Image) -> Result<Arc<Linked>, LoadError> {
        if let Some(linked) = image.content_id.and_then(|digest| self.cache.find(&digest)) {
            return Ok(linked);
        }
        if image.size > MAX_MODULE_BYTES {
            return Err(LoadError::TooLarge(image.size));
        }
        let mut loaded = Err(LoadError::Read(Errno::EIO));
        image
            .content
            .with(&mut |bytes| loaded = self.cache.load(bytes))
            .map_err(LoadError::Read)?;
        loaded.map(|(linked, _)| linked)
    }
}

impl Driver for WasmDriver {
    fn name(&self) -> &'static str {
        "wasm"
    }

    fn handles(&self, handler: &Handler<'_>) -> bool {
        matches!(handler, Handler::Wasm)
    }

    fn load(&self, image: &Image) -> kernel::Result<Box<dyn Program>> {
        match self.find(image) {
            Ok(linked) => Ok(Box::new(run::WasmProgram {
                engine: self.cache.engine(),
                linked,
            })),
            Err(error) => {
                tracing::warn!(
                    path = %String::from_utf8_lossy(&image.path), %error, "program refused"
                );
                Err(error.errno())
            }
        }
    }
}
