//! Keeping the index of a package that has none.
//!
//! A cache entry is a trailer (see [`crate::layout`]) in a file of its own, followed by 64 bytes:
//! the key of the package file and a digest over everything before. The key is derived from what
//! tells one state of a file from another: device, inode, length, modification and change time to
//! the nanosecond, and the package header. An entry whose key differs is stale, and one whose digest
//! differs is damaged; both are made anew.
//!
//! The digest of an entry is checked when a process meets the entry for the first time; after that
//! the entry's own identity (device, inode, length, times) stands for it. Reading an entry is
//! bounds-checked like any other index in any case.
//!
//! Only a directory that belongs to the effective user and that nobody else can enter is trusted.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use nix::sys::stat::FileStat;
use rustc_hash::FxHashMap;

use crate::header::Header;
use crate::layout::{FOOTER_LEN, Footer};
use crate::map::Map;

const TAIL: u64 = 64;

/// Entries that a cache directory keeps; the oldest go first.
const MAX_CACHED: usize = 512;

/// Age at which a temporary file has no writer any more.
const ABANDONED: Duration = Duration::from_secs(3600);

/// Why a cache directory was not used. An open never fails for it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// The directory could be written or read by somebody else, or is none.
    #[error("cache directory {} is not private to this user", .0.display())]
    NotPrivate(PathBuf),
    /// A host call failed.
    #[error("cache directory {}: {source}", dir.display())]
    Io {
        /// The directory.
        dir: PathBuf,
        /// What the host said.
        #[source]
        source: io::Error,
    },
    /// The package was changed while its index was made.
    #[error("the package file changed while its index was made")]
    Changed,
}

type Result<T> = std::result::Result<T, CacheError>;

/// Hashes what identifies one state of a package file.
fn key(stat: &FileStat, header: &Header) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"aospkg index cache 1\n");
    hasher.update(&stat.st_dev.to_le_bytes());
    hasher.update(&stat.st_ino.to_le_bytes());
    for number in [
        stat.st_size,
        stat.st_mtime,
        stat.st_mtime_nsec,
        stat.st_ctime,
        stat.st_ctime_nsec,
    ] {
        hasher.update(&number.to_le_bytes());
    }
    hasher.update(&header.encode());
    *hasher.finalize().as_bytes()
}

/// One package's place in a cache directory.
#[derive(Debug)]
pub(crate) struct Cache<'a> {
    dir: &'a Path,
    header: Header,
    key: [u8; 32],
    path: PathBuf,
}

impl<'a> Cache<'a> {
    pub(crate) fn new(dir: &'a Path, stat: &FileStat, header: &Header) -> Cache<'a> {
        let key = key(stat, header);
        let mut name = String::with_capacity(40);
        for byte in &key[..16] {
            name.push_str(&format!("{byte:02x}"));
        }
        name.push_str(".idx");
        Cache {
            dir,
            header: *header,
            path: dir.join(name),
            key,
        }
    }

    fn io(&self, source: io::Error) -> CacheError {
        CacheError::Io {
            dir: self.dir.to_owned(),
            source,
        }
    }

    /// The package's entry, if there is a good one.
    pub(crate) fn find(
        &self,
        header: &Header,
        container_len: u64,
    ) -> Result<Option<(Map, Footer)>> {
        if !self.check_dir()? {
            return Ok(None);
        }
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
            .open(&self.path);
        let file = match file {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) if e.raw_os_error() == Some(libc::ELOOP) => return Ok(None),
            Err(e) => return Err(self.io(e)),
        };
        let found = self.read(&file, header, container_len);
        // A bad entry is as good as none: it is replaced.
        Ok(found.ok().flatten())
    }

    /// Whether the directory is there, and safe to use.
    fn check_dir(&self) -> Result<bool> {
        let meta = match fs::symlink_metadata(self.dir) {
            Ok(meta) => meta,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(e) => return Err(self.io(e)),
        };
        let private = meta.is_dir()
            && meta.uid() == nix::unistd::geteuid().as_raw()
            && meta.mode() & 0o077 == 0;
        if private {
            Ok(true)
        } else {
            Err(CacheError::NotPrivate(self.dir.to_owned()))
        }
    }

    fn read(
        &self,
        file: &File,
        header: &Header,
        container_len: u64,
    ) -> io::Result<Option<(Map, Footer)>> {
        let stat = nix::sys::stat::fstat(file.as_fd())?;
        let len = stat.st_size.max(0) as u64;
        let Some(before) = len.checked_sub(TAIL + FOOTER_LEN) else {
            return Ok(None);
        };
        let mut bytes = [0; (FOOTER_LEN + TAIL) as usize];
        file.read_exact_at(&mut bytes, before)?;
        let (footer_bytes, tail) = bytes.split_at(FOOTER_LEN as usize);
        let mut array = [0; FOOTER_LEN as usize];
        array.copy_from_slice(footer_bytes);
        let Ok(Some(footer)) = Footer::parse(&array, before) else {
            return Ok(None);
        };
        if tail[..32] != self.key
            || footer.header != header.encode()
            || footer.container_len.get() != container_len
            || footer.trailer_len.get() != before
        {
            return Ok(None);
        }
        let map = Map::new(file, len)?;
        if !proven(&stat) {
            let hash = blake3::hash(&map.bytes()[..(len - 32) as usize]);
            if hash.as_bytes()[..] != tail[32..] || map.check_whole(file).is_err() {
                return Ok(None);
            }
            remember(&stat);
        }
        Ok(Some((map, footer)))
    }

    /// Writes the package's entry. `write` writes the trailer.
    pub(crate) fn store(
        &self,
        package: &File,
        write: impl FnOnce(&mut dyn Write) -> io::Result<[u8; 32]>,
    ) -> Result<()> {
        if !self.check_dir()? {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(self.dir)
                .map_err(|e| self.io(e))?;
            self.check_dir()?;
        }
        static UNIQUE: AtomicU64 = AtomicU64::new(0);
        let unique = UNIQUE.fetch_add(1, Ordering::Relaxed);
        let temporary = self
            .path
            .with_extension(format!("{}-{unique}.tmp", std::process::id()));
        let stored = self
            .write_file(&temporary, write)
            .map_err(|e| self.io(e))
            .and_then(|()| {
                // Had the file changed meanwhile, the key would name what it no longer is.
                let now = nix::sys::stat::fstat(package.as_fd()).map_err(|e| self.io(e.into()))?;
                if key(&now, &self.header) != self.key {
                    return Err(CacheError::Changed);
                }
                fs::rename(&temporary, &self.path).map_err(|e| self.io(e))
            });
        match stored {
            Ok(()) => self.prune(),
            // The file may not exist; there is nothing more to do about it.
            Err(_) => drop(fs::remove_file(&temporary)),
        }
        stored
    }

    /// Removes the oldest entries when there are too many, and what a killed process left behind.
    /// Best effort: an entry that is removed while it is in use stays mapped.
    fn prune(&self) {
        let Ok(listing) = fs::read_dir(self.dir) else {
            return;
        };
        let mut entries = Vec::new();
        for item in listing.flatten() {
            let path = item.path();
            let Ok(modified) = item.metadata().and_then(|meta| meta.modified()) else {
                continue;
            };
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("idx") => entries.push((modified, path)),
                Some("tmp") if modified.elapsed().is_ok_and(|age| age > ABANDONED) => {
                    drop(fs::remove_file(path));
                }
                _ => {}
            }
        }
        entries.sort();
        let surplus = entries.len().saturating_sub(MAX_CACHED);
        for (_, path) in entries.drain(..surplus) {
            drop(fs::remove_file(path));
        }
    }

    fn write_file(
        &self,
        path: &Path,
        write: impl FnOnce(&mut dyn Write) -> io::Result<[u8; 32]>,
    ) -> io::Result<()> {
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        let mut out = Hashing {
            out: BufWriter::new(file),
            hasher: blake3::Hasher::new(),
        };
        write(&mut out)?;
        out.write_all(&self.key)?;
        let digest = out.hasher.finalize();
        out.out.write_all(digest.as_bytes())?;
        out.out.into_inner()?.sync_data()
    }
}

/// Hashes what passes through it.
struct Hashing<W> {
    out: W,
    hasher: blake3::Hasher,
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.out.write(bytes)?;
        self.hasher.update(&bytes[..n]);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// A state of a cache file.
type Proof = (i64, i64, i64, i64, i64);

/// The entries whose digest this process has checked, by device and inode.
static PROVEN: LazyLock<Mutex<FxHashMap<(u64, u64), Proof>>> = LazyLock::new(Mutex::default);
/// More entries than this are forgotten together, so that the table stays small.
const PROVEN_MAX: usize = 4096;

fn proof(stat: &FileStat) -> Proof {
    (
        stat.st_size,
        stat.st_mtime,
        stat.st_mtime_nsec,
        stat.st_ctime,
        stat.st_ctime_nsec,
    )
}

fn proven(stat: &FileStat) -> bool {
    let proven = PROVEN.lock().unwrap_or_else(PoisonError::into_inner);
    proven.get(&(stat.st_dev, stat.st_ino)) == Some(&proof(stat))
}

fn remember(stat: &FileStat) {
    let mut proven = PROVEN.lock().unwrap_or_else(PoisonError::into_inner);
    if proven.len() >= PROVEN_MAX {
        proven.clear();
    }
    proven.insert((stat.st_dev, stat.st_ino), proof(stat));
}
