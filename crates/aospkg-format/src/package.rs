//! An open package.

use std::fs::File;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

use rustc_hash::FxHashMap;

use crate::build::{self, Hashes, Tables};
use crate::cache::{Cache, CacheError};
use crate::children::Children;
use crate::chunks::{self, Chunks};
use crate::entry::{Command, Digest, Entry, EntryId, IndexSource};
use crate::error::{Error, Result};
use crate::header::{HEADER_LEN, Header, Schema};
use crate::layout::{FOOTER_LEN, Footer};
use crate::limits::PAGE;
use crate::manifest::Manifest;
use crate::map::Map;
use crate::mount::{EntryKind, IndexEntry};
use crate::view::View;

/// An open package. Cheap to open, safe to share between threads, and independent of what happens
/// to the file afterwards: a file that is replaced stays readable, one that is cut short gives
/// [`Error::Shrunk`].
///
/// Opening reads the header and the footer and maps the file; it decodes nothing and allocates
/// nothing in proportion to the package. It makes the structural checks that cost the same for
/// every package, and every later call checks what it reads. [`crate::verify`] is the pass that
/// proves a package whole.
#[derive(Debug)]
pub struct Package {
    file: File,
    map: Map,
    header: Header,
    /// Bytes of the published container, without the trailer and the padding before it.
    container_len: u64,
    index: Index,
    source: IndexSource,
    cache_problem: Option<CacheError>,
    manifest: OnceLock<Manifest>,
    identity: OnceLock<Digest>,
    /// Digests that had to be computed because the index has none.
    digests: Mutex<FxHashMap<u32, Digest>>,
}

// Packages are shared between the threads of many guests.
const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Package>();
};

/// The index tables and what holds them.
#[derive(Debug)]
struct Index {
    footer: Footer,
    bytes: IndexBytes,
}

#[derive(Debug)]
enum IndexBytes {
    /// In the package's own mapping, from this offset.
    Package(u64),
    /// In a cache file.
    Cache(Map),
    /// In memory.
    Memory(Vec<u8>),
}

impl Package {
    /// Opens a package file.
    ///
    /// `cache_dir` is a private directory where the index of a package without a trailer is kept,
    /// so that only the first open decodes it. It is made when it is missing, and used only if it
    /// belongs to the caller and nobody else may write to it. A cache that cannot be used never
    /// fails an open; [`Package::cache_problem`] tells why it was not.
    pub fn open(path: impl AsRef<Path>, cache_dir: Option<&Path>) -> Result<Package> {
        let path = path.as_ref();
        let file = File::options()
            .read(true)
            // A named pipe must not make the caller wait for a writer.
            .custom_flags(libc::O_NONBLOCK)
            .open(path)
            .map_err(Error::io(path.display().to_string()))?;
        Package::from_file(file, cache_dir)
    }

    /// Opens a package from an open file.
    pub fn from_file(file: File, cache_dir: Option<&Path>) -> Result<Package> {
        let stat = nix::sys::stat::fstat(file.as_fd())
            .map_err(|e| Error::io("fstat of the package")(e.into()))?;
        let len = stat.st_size.max(0) as u64;
        if stat.st_mode & libc::S_IFMT != libc::S_IFREG {
            return Err(Error::NotAPackage);
        }
        let header = read_header(&file, len)?;
        let map = Map::new(&file, len).map_err(Error::io("mapping the package"))?;
        if let Some((footer, at)) = read_trailer(&file, &header, len)? {
            return Ok(Package {
                container_len: footer.container_len.get(),
                index: Index {
                    footer,
                    bytes: IndexBytes::Package(at),
                },
                source: IndexSource::Trailer,
                cache_problem: None,
                file,
                map,
                header,
                manifest: OnceLock::new(),
                identity: OnceLock::new(),
                digests: Mutex::default(),
            });
        }
        let mut package = Package {
            container_len: len,
            index: Index {
                footer: zerocopy::FromZeros::new_zeroed(),
                bytes: IndexBytes::Memory(Vec::new()),
            },
            source: IndexSource::Decoded,
            cache_problem: None,
            file,
            map,
            header,
            manifest: OnceLock::new(),
            identity: OnceLock::new(),
            digests: Mutex::default(),
        };
        package.index_container(cache_dir, &stat)?;
        Ok(package)
    }

    /// Finds or makes the index of a package without a trailer.
    fn index_container(
        &mut self,
        cache_dir: Option<&Path>,
        stat: &nix::sys::stat::FileStat,
    ) -> Result<()> {
        let cache = cache_dir.map(|dir| Cache::new(dir, stat, &self.header));
        match cache
            .as_ref()
            .map(|cache| cache.find(&self.header, self.container_len))
        {
            Some(Ok(Some(found))) => {
                self.adopt(found, IndexSource::Cache);
                return Ok(());
            }
            Some(Err(problem)) => self.cache_problem = Some(problem),
            Some(Ok(None)) | None => {}
        }
        let chunks = Chunks::read(&self.file, self.header)?;
        let entries = chunks.entries(self.mount_len())?;
        let (commands, manifest_tail) = chunks.commands()?;
        let tables = Tables::new(&entries, &commands, manifest_tail)?;
        if let Some(cache) = cache.filter(|_| self.cache_problem.is_none()) {
            let hashes = self.hash_tar(&entries, &tables.ids)?;
            let stored = cache.store(&self.file, |out| {
                let len = self.container_len;
                tables.write(&chunks, &entries, &commands, &hashes, len, out)
            });
            match stored.and_then(|()| cache.find(&self.header, self.container_len)) {
                Ok(Some(found)) => {
                    self.adopt(found, IndexSource::Stored);
                    return Ok(());
                }
                Ok(None) => {}
                Err(problem) => self.cache_problem = Some(problem),
            }
        }
        let (bytes, footer) = tables.plain(&self.header, self.container_len)?;
        self.index = Index {
            footer,
            bytes: IndexBytes::Memory(bytes),
        };
        Ok(())
    }

    fn adopt(&mut self, (map, footer): (Map, Footer), source: IndexSource) {
        self.index = Index {
            footer,
            bytes: IndexBytes::Cache(map),
        };
        self.source = source;
    }

    /// The container's header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Reads the whole tar and hashes it.
    pub(crate) fn hash_tar(&self, entries: &[IndexEntry<'_>], ids: &[u32]) -> Result<Hashes> {
        let mut files = vec![0; entries.len() * 32];
        let base = self.header.mount_base();
        for (entry, &id) in entries.iter().zip(ids) {
            if entry.kind == EntryKind::File {
                let start = base + entry.offset;
                let hash = self.map.view(start..start + entry.size, blake3::hash)?;
                files[id as usize * 32..][..32].copy_from_slice(hash.as_bytes());
            }
        }
        let tar = base..self.container_len;
        let frame = self.map.view(tar, |tar| build::hash_frame(tar, entries))?;
        self.map.check_whole(&self.file)?;
        Ok(Hashes { files, frame })
    }

    /// Container and schema version.
    pub fn schema(&self) -> Schema {
        self.header.schema
    }

    /// Where the index came from.
    pub fn index_source(&self) -> IndexSource {
        self.source
    }

    /// Why the cache directory that was given to [`Package::open`] could not be used.
    pub fn cache_problem(&self) -> Option<&CacheError> {
        self.cache_problem.as_ref()
    }

    /// Bytes of the published container: the file without the index trailer.
    pub fn container_len(&self) -> u64 {
        self.container_len
    }

    /// Bytes of the tar.
    pub fn mount_len(&self) -> u64 {
        self.container_len - self.header.mount_base()
    }

    /// The manifest, decoded at the first call.
    pub fn manifest(&self) -> Result<&Manifest> {
        if let Some(manifest) = self.manifest.get() {
            return Ok(manifest);
        }
        let manifest = self.read_manifest()?;
        Ok(self.manifest.get_or_init(|| manifest))
    }

    fn read_manifest(&self) -> Result<Manifest> {
        // Most heads are a few hundred bytes; commands, which may be many, come after it.
        const HEAD: u32 = 16 << 10;
        let len = self.header.manifest_len;
        let tail = self.index.footer.manifest_tail.get();
        if tail > len {
            return Err(Error::corrupt("manifest offset"));
        }
        let tail_bytes = chunks::read_range(&self.file, HEADER_LEN + u64::from(tail), len - tail)?;
        let head = chunks::read_range(&self.file, HEADER_LEN, tail.min(HEAD))?;
        match Manifest::decode_ends(self.header.schema, &head, &tail_bytes) {
            Err(_) if tail > HEAD => {
                let head = chunks::read_range(&self.file, HEADER_LEN, tail)?;
                Manifest::decode_ends(self.header.schema, &head, &tail_bytes)
            }
            result => result,
        }
    }

    fn view(&self) -> View<'_> {
        let footer = &self.index.footer;
        let bytes = match &self.index.bytes {
            IndexBytes::Package(at) => self.map.bytes().get(*at as usize..).unwrap_or_default(),
            IndexBytes::Cache(map) => map.bytes(),
            IndexBytes::Memory(bytes) => bytes,
        };
        View::new(bytes, footer, self.mount_len())
    }

    /// Turns what was read from the index into an error when the index was cut short meanwhile.
    ///
    /// A cut raises a signal, except in the last page of the file, which then ends in zeros. Zeros
    /// make a record that is no record or a name that does not match; so the file's length is
    /// asked for only when nothing was found.
    fn settle<T>(&self, result: Result<T>, found: impl FnOnce(&T) -> bool) -> Result<T> {
        let map = match &self.index.bytes {
            IndexBytes::Package(_) => &self.map,
            IndexBytes::Cache(map) => map,
            IndexBytes::Memory(_) => return result,
        };
        if !map.whole() {
            return Err(Error::Shrunk);
        }
        if !result.as_ref().is_ok_and(found) && matches!(self.index.bytes, IndexBytes::Package(_)) {
            map.check_whole(&self.file)?;
        }
        result
    }

    /// The root directory.
    pub fn root(&self) -> EntryId {
        EntryId::ROOT
    }

    /// Number of entries, the root included.
    pub fn entry_count(&self) -> u32 {
        self.view().entry_count()
    }

    /// An entry's description.
    pub fn entry(&self, id: EntryId) -> Result<Entry<'_>> {
        self.settle(self.view().entry(id), |_| true)
    }

    /// The directory an entry is in; the root's is the root.
    pub fn parent(&self, id: EntryId) -> Result<EntryId> {
        Ok(self.entry(id)?.parent)
    }

    /// Finds a name in a directory. `Err(NotADirectory)` when `parent` is none.
    ///
    /// Names are compared byte by byte; `.` and `..` are not names here.
    #[inline]
    pub fn lookup(&self, parent: EntryId, name: &[u8]) -> Result<Option<EntryId>> {
        self.settle(self.view().lookup(parent, name), Option::is_some)
    }

    /// Finds an entry by its path from the package root, with or without a leading slash.
    ///
    /// The path is compared as it is: no link is followed, and `.`, `..`, doubled and trailing
    /// slashes match nothing. The root is the empty path or `/`.
    #[inline]
    pub fn lookup_path(&self, path: &[u8]) -> Result<Option<EntryId>> {
        let path = path.strip_prefix(b"/").unwrap_or(path);
        let view = self.view();
        let found = if view.has_paths() {
            view.find_path(path)
        } else {
            view.walk(path)
        };
        self.settle(found, Option::is_some)
    }

    /// The path of an entry from the package root, without a leading slash.
    pub fn path_of(&self, id: EntryId) -> Result<Vec<u8>> {
        self.settle(self.view().path_of(id), |_| true)
    }

    /// The children of a directory, in order of name.
    pub fn children(&self, dir: EntryId) -> Result<Children<'_>> {
        let (first, count) = self.settle(self.view().children(dir), |_| true)?;
        Ok(Children::new(self, dir, first, count))
    }

    /// A child of a directory, by its number.
    pub(crate) fn child(&self, dir: EntryId, id: EntryId) -> Result<Entry<'_>> {
        self.settle(self.view().child(dir, id), |_| true)
    }

    /// Number of commands.
    pub fn command_count(&self) -> u32 {
        self.view().command_count()
    }

    /// Finds a command by name.
    pub fn command(&self, name: &[u8]) -> Result<Option<Command<'_>>> {
        self.settle(self.view().command(name), Option::is_some)
    }

    /// The `index`th command in order of name; `None` past the last.
    pub fn command_at(&self, index: u32) -> Result<Option<Command<'_>>> {
        self.settle(self.view().command_at(index), Option::is_some)
    }

    /// All commands in order of name. Nothing is decoded in advance.
    pub fn commands(&self) -> impl Iterator<Item = Result<Command<'_>>> {
        (0..self.command_count()).filter_map(|index| self.command_at(index).transpose())
    }

    /// Where a file's content lies in the package file.
    pub fn file_range(&self, id: EntryId) -> Result<Range<u64>> {
        let (at, len) = self.settle(self.view().data(id), |_| true)?;
        let start = self.header.mount_base() + at;
        Ok(start..start + len)
    }

    /// Copies from a file's content, as `pread` does: the number of bytes copied, 0 at the end.
    pub fn read_at(&self, id: EntryId, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let range = self.file_range(id)?;
        let left = (range.end - range.start).saturating_sub(offset);
        let len = left.min(buffer.len() as u64);
        if len == 0 {
            return Ok(0);
        }
        let start = range.start + offset;
        let buffer = &mut buffer[..len as usize];
        self.map.read(&self.file, start..start + len, |bytes| {
            buffer.copy_from_slice(bytes);
        })?;
        Ok(len as usize)
    }

    /// Runs `with` on a file's whole content, in the mapping.
    ///
    /// When the file was cut short under the mapping, the bytes may have been zeros; the result is
    /// then dropped and [`Error::Shrunk`] returned.
    pub fn with_content<T>(&self, id: EntryId, with: impl FnOnce(&[u8]) -> T) -> Result<T> {
        let range = self.file_range(id)?;
        self.map.read(&self.file, range, with)
    }

    /// The digest that the index holds for a file; `None` when the index was made without.
    ///
    /// In a trailer it is the package's own claim until [`crate::verify()`] has proved it. Who keys
    /// something that packages share by it, such as compiled code, must hash the content before
    /// anything is stored under the claim.
    pub fn stored_digest(&self, id: EntryId) -> Result<Option<Digest>> {
        let view = self.view();
        let digest = view.data(id).and_then(|_| view.digest(id));
        self.settle(digest, |_| true)
    }

    /// BLAKE3 of a file's content: from the index, whose claim it then is (see
    /// [`Package::stored_digest`]), or computed once.
    pub fn digest(&self, id: EntryId) -> Result<Digest> {
        if let Some(digest) = self.stored_digest(id)? {
            return Ok(digest);
        }
        let known = || self.digests.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(digest) = known().get(&id.0) {
            return Ok(*digest);
        }
        let digest = self.with_content(id, |bytes| *blake3::hash(bytes).as_bytes())?;
        known().insert(id.0, digest);
        Ok(digest)
    }

    /// The package's identity: the digest over header, manifest, mount index and index tables,
    /// which hold the digests of all files.
    ///
    /// It is the same for a package with and without a trailer. When the index has none it is
    /// computed, once, by reading the whole package; otherwise it is what the trailer says, and
    /// [`crate::verify`] is what proves it.
    pub fn identity(&self) -> Result<Digest> {
        if !matches!(self.index.bytes, IndexBytes::Memory(_)) {
            return Ok(self.index.footer.digest);
        }
        if let Some(identity) = self.identity.get() {
            return Ok(*identity);
        }
        let chunks = Chunks::read(&self.file, self.header)?;
        let entries = chunks.entries(self.mount_len())?;
        let (commands, manifest_tail) = chunks.commands()?;
        let tables = Tables::new(&entries, &commands, manifest_tail)?;
        let hashes = self.hash_tar(&entries, &tables.ids)?;
        let len = self.container_len;
        let mut sink = std::io::sink();
        let identity = tables
            .write(&chunks, &entries, &commands, &hashes, len, &mut sink)
            .map_err(Error::io("package digest"))?;
        Ok(*self.identity.get_or_init(|| identity))
    }
}

/// Reads and checks a header.
fn read_header(file: &File, len: u64) -> Result<Header> {
    let mut bytes = [0; HEADER_LEN as usize];
    if len < HEADER_LEN {
        return Err(Error::NotAPackage);
    }
    file.read_exact_at(&mut bytes, 0)
        .map_err(Error::io("reading the package header"))?;
    Header::parse(&bytes, len)
}

/// Reads the footer of an indexed package: the footer and where the trailer begins.
fn read_trailer(file: &File, header: &Header, len: u64) -> Result<Option<(Footer, u64)>> {
    let Some(before) = len
        .checked_sub(FOOTER_LEN)
        .filter(|&before| before >= header.mount_base())
    else {
        return Ok(None);
    };
    let mut bytes = [0; FOOTER_LEN as usize];
    file.read_exact_at(&mut bytes, before)
        .map_err(Error::io("reading the package footer"))?;
    if !Footer::claims(&bytes) {
        return Ok(None);
    }
    let Some(footer) = Footer::parse(&bytes, before)? else {
        return Ok(None);
    };
    let at = before - footer.trailer_len.get();
    let container_len = footer.container_len.get();
    if footer.header != header.encode()
        || container_len < header.mount_base()
        || container_len > at
        || at - container_len >= PAGE
    {
        return Err(Error::corrupt("trailer of another package"));
    }
    Ok(Some((footer, at)))
}
