//! Compiled modules on disk.
//!
//! An entry is what Wasmtime's `Engine::precompile_module` gives, an ELF file, with a trailer of
//! ours behind it. The ELF headers say where everything is, so bytes after it disturb nobody, and
//! the file can be mapped by Wasmtime just as it lies on disk: its code is shared by every process
//! that maps it, and its data is the copy-on-write image of the guest's memory.
//!
//! # Trust
//!
//! Loading compiled code means to run it, so an entry is trusted only for *where* it is: in a
//! directory that belongs to this user alone (own uid, mode 0700, no symbolic link), held open by
//! descriptor, so that renaming what leads to it changes nothing. Who can write there can run code
//! as this user anyway. The digests in the trailer guard against accidents: a disk that lost a
//! write, an entry cut short, another version of the program. Such an entry is removed and built
//! again. Checking costs one BLAKE3 pass over the file, a few milliseconds for 10 MB, once per
//! process and module.

use crate::engine::Engine;
use nix::dir::Dir;
use nix::errno::Errno as HostErrno;
use nix::fcntl::{AtFlags, OFlag, openat, renameat};
use nix::sys::stat::{Mode, SFlag, fstat, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use wasmtime::Module;

/// First bytes of a trailer.
const MAGIC: [u8; 8] = *b"\x89AOSCWM\n";
/// Layout of entry and trailer; a change makes all older entries foreign.
const VERSION: u32 = 1;
/// Bytes of a trailer: magic, version, zero, length of the body, key, engine tag, digest of the
/// body, digest of all before it.
const TRAILER: usize = 8 + 4 + 4 + 8 + 32 * 4;

/// Most bytes of entries kept per engine; beyond it the oldest go.
const MAX_BYTES: u64 = 2 << 30;

/// Why a directory is not used as a cache.
#[derive(Debug, thiserror::Error)]
pub enum CacheDirError {
    /// It cannot be made, opened or looked at.
    #[error("{path}: {error}")]
    Io {
        /// The directory.
        path: PathBuf,
        /// What the host said.
        #[source]
        error: io::Error,
    },
    /// It is a symbolic link or no directory.
    #[error("{0}: not a directory of its own (symbolic links are not followed)")]
    NotADirectory(PathBuf),
    /// Somebody else owns it.
    #[error("{path}: owned by user {owner}, not by us; compiled code in it cannot be trusted")]
    ForeignOwner {
        /// The directory.
        path: PathBuf,
        /// Its owner.
        owner: u32,
    },
    /// Others may enter or write.
    #[error("{path}: mode {mode:04o} lets others in; it must be 0700")]
    OpenToOthers {
        /// The directory.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
}

/// Why an entry was not loaded. Each leads to the module being compiled again.
#[derive(Debug, thiserror::Error)]
pub enum EntryError {
    /// There is none.
    #[error("no such entry")]
    Missing,
    /// It could not be read.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// It is not a plain file of ours that only we can write.
    #[error("not a private file of ours")]
    NotPrivate,
    /// It is not an entry, or one of another version of the layout.
    #[error("made by another version")]
    Foreign,
    /// It belongs to another module or engine.
    #[error("made for another module or another engine")]
    WrongKey,
    /// Its bytes are not what was written.
    #[error("damaged")]
    Damaged,
    /// Wasmtime refused it.
    #[error("refused by the engine: {0}")]
    Refused(String),
}

/// A private directory with compiled modules for one engine.
pub struct DiskCache {
    dir: OwnedFd,
    path: PathBuf,
    tag: [u8; 32],
    bytes: AtomicU64,
    /// Set when writing failed; reading goes on.
    full: AtomicBool,
    next_temporary: AtomicU64,
}

impl DiskCache {
    /// Opens `path`, which is made with mode 0700 if it is missing.
    pub fn open(path: &Path, engine: &Engine) -> Result<DiskCache, CacheDirError> {
        let io = |error: io::Error| CacheDirError::Io {
            path: path.into(),
            error,
        };
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(io)?;
        }
        match fs::DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(io(error)),
            _ => {}
        }
        let top = open_private(nix::fcntl::AT_FDCWD, path, path)?;
        let name = hex(&engine.tag()[..16]);
        let path = path.join(&name);
        match mkdirat(&top, name.as_str(), Mode::S_IRWXU) {
            Ok(()) | Err(HostErrno::EEXIST) => {}
            Err(error) => {
                return Err(CacheDirError::Io {
                    path,
                    error: error.into(),
                });
            }
        }
        let dir = open_private(&top, Path::new(&name), &path)?;
        let cache = DiskCache {
            dir,
            path,
            tag: *engine.tag(),
            bytes: AtomicU64::new(0),
            full: AtomicBool::new(false),
            next_temporary: AtomicU64::new(0),
        };
        let total = cache.list().iter().map(|entry| entry.1).sum();
        cache.bytes.store(total, Ordering::Relaxed);
        Ok(cache)
    }

    /// Where the entries are.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Loads the module of this key. An entry that is damaged or foreign is removed.
    pub fn load(&self, engine: &Engine, key: &[u8; 32]) -> Result<Module, EntryError> {
        let name = entry_name(key);
        let loaded = self.load_entry(engine, key, &name);
        match &loaded {
            Ok(_) | Err(EntryError::Missing | EntryError::Io(_)) => {}
            Err(_) => {
                let _ = unlinkat(&self.dir, name.as_str(), UnlinkatFlags::NoRemoveDir);
            }
        }
        loaded
    }

    fn load_entry(
        &self,
        engine: &Engine,
        key: &[u8; 32],
        name: &str,
    ) -> Result<Module, EntryError> {
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
        let mut file = match openat(&self.dir, name, flags, Mode::empty()) {
            Ok(fd) => File::from(fd),
            Err(HostErrno::ENOENT) => return Err(EntryError::Missing),
            Err(HostErrno::ELOOP) => return Err(EntryError::NotPrivate),
            Err(error) => return Err(EntryError::Io(error.into())),
        };
        let stat = fstat(&file).map_err(io::Error::from)?;
        let kind = SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits());
        if kind != SFlag::S_IFREG || stat.st_uid != geteuid().as_raw() || stat.st_mode & 0o022 != 0
        {
            return Err(EntryError::NotPrivate);
        }
        self.verify(&mut file, stat.st_size as u64, key)?;
        // SAFETY: the file lies in a directory that only this user can enter (checked when it was
        // opened), belongs to this user and has the digest it was written with, so it is what
        // `precompile_module` of an engine with the same tag made. It is never written again:
        // entries are replaced by rename.
        unsafe { Module::deserialize_open_file(engine.inner(), file) }
            .map_err(|error| EntryError::Refused(format!("{error:#}")))
    }

    /// Proves that the open entry is whole and ours.
    fn verify(&self, file: &mut File, size: u64, key: &[u8; 32]) -> Result<(), EntryError> {
        let body = size
            .checked_sub(TRAILER as u64)
            .ok_or(EntryError::Foreign)?;
        let mut trailer = [0u8; TRAILER];
        file.seek(SeekFrom::Start(body))?;
        file.read_exact(&mut trailer)?;
        if trailer[..8] != MAGIC || trailer[8..16] != header_version() {
            return Err(EntryError::Foreign);
        }
        if trailer[TRAILER - 32..] != *blake3::hash(&trailer[..TRAILER - 32]).as_bytes()
            || trailer[16..24] != body.to_le_bytes()
        {
            return Err(EntryError::Damaged);
        }
        if trailer[24..56] != *key || trailer[56..88] != self.tag {
            return Err(EntryError::WrongKey);
        }
        file.seek(SeekFrom::Start(0))?;
        let mut hasher = blake3::Hasher::new();
        let mut left = body;
        let mut buffer = vec![0u8; 128 << 10];
        while left > 0 {
            let want = buffer
                .len()
                .min(usize::try_from(left).unwrap_or(usize::MAX));
            file.read_exact(&mut buffer[..want])?;
            hasher.update(&buffer[..want]);
            left -= want as u64;
        }
        if trailer[88..120] != *hasher.finalize().as_bytes() {
            return Err(EntryError::Damaged);
        }
        Ok(())
    }

    /// Writes an entry, visible to others only when it is whole. Returns whether it was written;
    /// a full or read-only disk is warned about once and then left alone.
    pub fn store(&self, key: &[u8; 32], body: &[u8]) -> bool {
        if self.full.load(Ordering::Relaxed) {
            return false;
        }
        match self.write_entry(key, body) {
            Ok(()) => {
                let total = self.bytes.fetch_add(body.len() as u64, Ordering::Relaxed);
                if total + body.len() as u64 > MAX_BYTES {
                    self.prune();
                }
                true
            }
            Err(error) => {
                self.full.store(true, Ordering::Relaxed);
                tracing::warn!(
                    path = %self.path.display(), %error,
                    "compiled code is not kept on disk any more; programs compile anew in the next run"
                );
                false
            }
        }
    }

    fn write_entry(&self, key: &[u8; 32], body: &[u8]) -> io::Result<()> {
        let serial = self.next_temporary.fetch_add(1, Ordering::Relaxed);
        let temporary = format!("tmp-{}-{serial}", std::process::id());
        // What a process of the same number left behind when it died.
        let _ = unlinkat(&self.dir, temporary.as_str(), UnlinkatFlags::NoRemoveDir);
        let flags =
            OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let written = (|| {
            let mode = Mode::S_IRUSR | Mode::S_IWUSR;
            let mut file = File::from(openat(&self.dir, temporary.as_str(), flags, mode)?);
            file.write_all(body)?;
            file.write_all(&self.trailer(key, body))?;
            renameat(
                &self.dir,
                temporary.as_str(),
                &self.dir,
                entry_name(key).as_str(),
            )?;
            Ok(())
        })();
        if written.is_err() {
            let _ = unlinkat(&self.dir, temporary.as_str(), UnlinkatFlags::NoRemoveDir);
        }
        written
    }

    fn trailer(&self, key: &[u8; 32], body: &[u8]) -> Vec<u8> {
        let mut trailer = Vec::with_capacity(TRAILER);
        trailer.extend_from_slice(&MAGIC);
        trailer.extend_from_slice(&header_version());
        trailer.extend_from_slice(&(body.len() as u64).to_le_bytes());
        trailer.extend_from_slice(key);
        trailer.extend_from_slice(&self.tag);
        trailer.extend_from_slice(blake3::hash(body).as_bytes());
        let digest = blake3::hash(&trailer);
        trailer.extend_from_slice(digest.as_bytes());
        trailer
    }

    /// Name, size and age of what is there.
    fn list(&self) -> Vec<(String, u64, i64)> {
        let Ok(copy) = self.dir.try_clone() else {
            return Vec::new();
        };
        let Ok(mut dir) = Dir::from_fd(copy) else {
            return Vec::new();
        };
        dir.iter()
            .filter_map(|entry| {
                let name = entry.ok()?.file_name().to_str().ok()?.to_owned();
                let stat = fstatat(&self.dir, name.as_str(), AtFlags::AT_SYMLINK_NOFOLLOW).ok()?;
                let regular = stat.st_mode & SFlag::S_IFMT.bits() == SFlag::S_IFREG.bits();
                regular.then_some((name, stat.st_size as u64, stat.st_mtime))
            })
            .collect()
    }

    /// Removes the oldest entries until a quarter of the room is free again. A mapped entry stays
    /// usable by who mapped it.
    fn prune(&self) {
        let mut entries = self.list();
        entries.sort_by_key(|entry| entry.2);
        let mut total: u64 = entries.iter().map(|entry| entry.1).sum();
        for (name, size, _) in entries {
            if total <= MAX_BYTES / 4 * 3 {
                break;
            }
            if unlinkat(&self.dir, name.as_str(), UnlinkatFlags::NoRemoveDir).is_ok() {
                total -= size;
            }
        }
        self.bytes.store(total, Ordering::Relaxed);
    }
}

/// Opens a directory and proves that it is ours alone.
fn open_private(at: impl AsFd, name: &Path, shown: &Path) -> Result<OwnedFd, CacheDirError> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let dir = openat(at, name, flags, Mode::empty()).map_err(|error| match error {
        HostErrno::ELOOP | HostErrno::ENOTDIR => CacheDirError::NotADirectory(shown.into()),
        error => CacheDirError::Io {
            path: shown.into(),
            error: error.into(),
        },
    })?;
    let stat = fstat(&dir).map_err(|error| CacheDirError::Io {
        path: shown.into(),
        error: error.into(),
    })?;
    if stat.st_uid != geteuid().as_raw() {
        return Err(CacheDirError::ForeignOwner {
            path: shown.into(),
            owner: stat.st_uid,
        });
    }
    let mode = stat.st_mode & 0o7777;
    if mode & 0o077 != 0 {
        return Err(CacheDirError::OpenToOthers {
            path: shown.into(),
            mode,
        });
    }
    Ok(dir)
}

fn header_version() -> [u8; 8] {
    u64::from(VERSION).to_le_bytes()
}

fn entry_name(key: &[u8; 32]) -> String {
    let mut name = hex(key);
    name.push_str(".cwasm");
    name
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}
