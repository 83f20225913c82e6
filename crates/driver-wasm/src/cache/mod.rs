//! Compiled programs by content: in memory for all virtual machines of the process, and on disk.
//!
//! A program is filed under the BLAKE3 of its bytes. Many may ask for the same one at once; one
//! compiles, the others wait for it. A caller that knows the digest already (a file system that
//! keeps it) spares the pass over the bytes, but its word is checked whenever bytes are compiled:
//! a file system that lies about a digest finds only itself slow, and cannot have its code run
//! in place of somebody else's.

mod disk;

pub use disk::{CacheDirError, DiskCache, EntryError};

use crate::engine::Engine;
use crate::link::{LinkError, Linked, Linkers};
use kernel::Errno;
use rustc_hash::FxHashMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use wasmtime::Module;

/// First bytes of a core WebAssembly module: magic and version 1. A component has another version.
const HEADER: [u8; 8] = *b"\0asm\x01\0\0\0";

/// Largest module that is compiled, in bytes. Compiling takes some forty times as much memory.
pub const MAX_MODULE_BYTES: u64 = 64 << 20;

/// Most programs held in memory, used or not.
const MAX_PROGRAMS: usize = 1024;

/// Most bytes of compiled code held in memory.
const MAX_CODE_BYTES: usize = 1 << 30;

/// Why a file is not a program of ours.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LoadError {
    /// It is larger than [`MAX_MODULE_BYTES`].
    #[error("module of {0} bytes; at most {MAX_MODULE_BYTES} are allowed")]
    TooLarge(u64),
    /// Not a WebAssembly module of version 1.
    #[error("not a WebAssembly core module")]
    NotAModule,
    /// The module is malformed or uses features that are off.
    #[error("invalid module: {0}")]
    Invalid(String),
    /// It wants something the ABI does not have.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// Its bytes could not be read.
    #[error("cannot read the module: {0}")]
    Read(Errno),
}

impl LoadError {
    /// What `exec` answers.
    pub fn errno(&self) -> Errno {
        match self {
            LoadError::TooLarge(_) => Errno::EFBIG,
            LoadError::Read(errno) => *errno,
            LoadError::NotAModule | LoadError::Invalid(_) | LoadError::Link(_) => Errno::ENOEXEC,
        }
    }
}

/// Where a program was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// In memory.
    Memory,
    /// On disk.
    Disk,
    /// Nowhere: it was compiled.
    Compiled,
}

/// Compiled programs of one process.
pub struct ModuleCache {
    engine: &'static Engine,
    linkers: Linkers,
    disk: OnceLock<DiskCache>,
    programs: RwLock<FxHashMap<[u8; 32], Arc<Entry>>>,
    clock: AtomicU64,
}

#[derive(Default)]
struct Entry {
    /// Filled once, by whoever came first; the others wait at it.
    cell: OnceLock<Result<(Arc<Linked>, Found), LoadError>>,
    last_use: AtomicU64,
}

impl Entry {
    fn ready(&self) -> Option<&Arc<Linked>> {
        self.cell.get()?.as_ref().ok().map(|(linked, _)| linked)
    }
}

impl ModuleCache {
    /// An empty cache without a directory.
    pub fn new(engine: &'static Engine) -> Result<ModuleCache, LinkError> {
        Ok(ModuleCache {
            engine,
            linkers: Linkers::new(engine)?,
            disk: OnceLock::new(),
            programs: RwLock::default(),
            clock: AtomicU64::new(0),
        })
    }

    /// The engine.
    pub fn engine(&self) -> &'static Engine {
        self.engine
    }

    /// Keeps compiled code in `dir` from now on. The first directory given stays; returns whether
    /// this was the first. Without a directory everything works, and compiles once per process.
    pub fn use_directory(&self, dir: &Path) -> Result<bool, CacheDirError> {
        if self.disk.get().is_some() {
            return Ok(false);
        }
        let disk = DiskCache::open(dir, self.engine)?;
        Ok(self.disk.set(disk).is_ok())
    }

    /// The directory, if there is one.
    pub fn disk(&self) -> Option<&DiskCache> {
        self.disk.get()
    }

    /// Programs held in memory.
    pub fn len(&self) -> usize {
        self.programs
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .len()
    }

    /// Whether none is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The program whose bytes have the BLAKE3 `digest`, if it is in memory.
    pub fn get(&self, digest: &[u8; 32]) -> Option<Arc<Linked>> {
        let programs = self.programs.read().unwrap_or_else(PoisonError::into_inner);
        let entry = programs.get(digest)?;
        let linked = entry.ready()?.clone();
        entry.last_use.store(
            self.clock.fetch_add(1, Ordering::Relaxed),
            Ordering::Relaxed,
        );
        Some(linked)
    }

    /// The program whose bytes have the BLAKE3 `digest`, without the bytes: from memory or disk.
    pub fn find(&self, digest: &[u8; 32]) -> Option<Arc<Linked>> {
        if let Some(linked) = self.get(digest) {
            return Some(linked);
        }
        let disk = self.disk.get()?;
        let module = disk.load(self.engine, digest).ok()?;
        let entry = self.entry(digest);
        let filled = entry.cell.get_or_init(|| self.link(module, Found::Disk));
        filled.as_ref().ok().map(|(linked, _)| linked.clone())
    }

    /// The program of these bytes.
    pub fn load(&self, bytes: &[u8]) -> Result<(Arc<Linked>, Found), LoadError> {
        let digest = *blake3::hash(bytes).as_bytes();
        if let Some(linked) = self.get(&digest) {
            return Ok((linked, Found::Memory));
        }
        if bytes.len() as u64 > MAX_MODULE_BYTES {
            return Err(LoadError::TooLarge(bytes.len() as u64));
        }
        if !bytes.starts_with(&HEADER) {
            return Err(LoadError::NotAModule);
        }
        let entry = self.entry(&digest);
        let mut first = false;
        let filled = entry.cell.get_or_init(|| {
            first = true;
            let (module, found) = self.module(&digest, bytes)?;
            self.link(module, found)
        });
        if first {
            self.make_room();
        }
        match filled {
            Ok((linked, found)) => Ok((linked.clone(), if first { *found } else { Found::Memory })),
            Err(error) => Err(error.clone()),
        }
    }

    fn entry(&self, digest: &[u8; 32]) -> Arc<Entry> {
        let mut programs = self
            .programs
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let entry = programs.entry(*digest).or_default();
        entry.last_use.store(
            self.clock.fetch_add(1, Ordering::Relaxed),
            Ordering::Relaxed,
        );
        entry.clone()
    }

    fn link(&self, module: Module, found: Found) -> Result<(Arc<Linked>, Found), LoadError> {
        Ok((Arc::new(self.linkers.link(&module)?), found))
    }

    fn module(&self, digest: &[u8; 32], bytes: &[u8]) -> Result<(Module, Found), LoadError> {
        if let Some(disk) = self.disk.get() {
            match disk.load(self.engine, digest) {
                Ok(module) => return Ok((module, Found::Disk)),
                Err(EntryError::Missing) => {}
                Err(error) => tracing::warn!(
                    path = %disk.path().display(), %error, "compiled code is built again"
                ),
            }
        }
        let invalid = |error: wasmtime::Error| LoadError::Invalid(format!("{error:#}"));
        let Some(disk) = self.disk.get() else {
            let module = Module::from_binary(self.engine.inner(), bytes).map_err(invalid)?;
            return Ok((module, Found::Compiled));
        };
        let code = self
            .engine
            .inner()
            .precompile_module(bytes)
            .map_err(invalid)?;
        if disk.store(digest, &code) {
            match disk.load(self.engine, digest) {
                Ok(module) => return Ok((module, Found::Compiled)),
                Err(error) => tracing::warn!(
                    path = %disk.path().display(), %error, "what was just written does not load"
                ),
            }
        }
        // SAFETY: these bytes were made by `precompile_module` of this engine a moment ago and
        // nobody else has had them.
        let module = unsafe { Module::deserialize(self.engine.inner(), &code) }.map_err(invalid)?;
        Ok((module, Found::Compiled))
    }

    /// Forgets the programs that were not used for the longest time, when there are too many. A
    /// program that runs keeps its code alive by itself.
    fn make_room(&self) {
        let mut programs = self
            .programs
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        // Failures are remembered only while others may be waiting for the same answer.
        programs.retain(|_, entry| !matches!(entry.cell.get(), Some(Err(_))));
        let code = |entry: &Entry| entry.ready().map_or(0, |linked| linked.code_bytes());
        let mut total: usize = programs.values().map(|entry| code(entry)).sum();
        if programs.len() <= MAX_PROGRAMS && total <= MAX_CODE_BYTES {
            return;
        }
        let mut by_age: Vec<_> = programs
            .iter()
            .filter(|(_, entry)| entry.ready().is_some())
            .map(|(digest, entry)| (entry.last_use.load(Ordering::Relaxed), *digest))
            .collect();
        by_age.sort_unstable();
        for (_, digest) in by_age {
            if programs.len() <= MAX_PROGRAMS / 4 * 3 && total <= MAX_CODE_BYTES / 4 * 3 {
                break;
            }
            if let Some(entry) = programs.remove(&digest) {
                total -= code(&entry);
            }
        }
    }
}
