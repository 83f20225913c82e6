//! Chunk 2: the published mount index, one record per path, sorted by path.

use serde::Serialize;

use crate::bare::{Decoder, Encoder};
use crate::error::{Error, Result};
use crate::header::Schema;
use crate::limits::{MAX_DEPTH, MAX_ENTRIES, MAX_PATH, TAR_BLOCK};
use crate::names;

const CHUNK: &str = "mount index";

/// The least an index entry takes: a one-byte path, no link target.
const MIN_ENTRY: usize = 2 + 1 + 8 + 8 + 4 + 4 + 4 + 8 + 1;

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
}

impl EntryKind {
    /// The number that stands for the kind in both indexes.
    pub(crate) const fn number(self) -> u8 {
        match self {
            EntryKind::File => 0,
            EntryKind::Directory => 1,
            EntryKind::Symlink => 2,
        }
    }

    pub(crate) const fn from_number(number: u64) -> Option<EntryKind> {
        match number {
            0 => Some(EntryKind::File),
            1 => Some(EntryKind::Directory),
            2 => Some(EntryKind::Symlink),
            _ => None,
        }
    }

    /// The type bits of `st_mode`.
    pub const fn mode_bits(self) -> u32 {
        match self {
            EntryKind::File => 0o100000,
            EntryKind::Directory => 0o040000,
            EntryKind::Symlink => 0o120000,
        }
    }
}

/// One record of the mount index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IndexEntry<'a> {
    /// Path without the leading slash; the root is empty.
    pub(crate) path: &'a str,
    pub(crate) kind: EntryKind,
    /// Offset of the data in the tar.
    pub(crate) offset: u64,
    pub(crate) size: u64,
    /// With type bits.
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) mtime: i64,
    pub(crate) link_target: Option<&'a str>,
}

/// Decodes and checks a whole index: sorted, no duplicates, the root first, every data range
/// inside the `mount_len` bytes of the tar, every name a name.
///
/// That every entry's parent is a directory of the index is checked by [`crate::build`].
pub(crate) fn decode<'a>(
    schema: Schema,
    chunk: &'a [u8],
    mount_len: u64,
) -> Result<Vec<IndexEntry<'a>>> {
    let mut d = Decoder::new(CHUNK, chunk);
    let version = d.u16()?;
    if version != schema.number() {
        return Err(d.malformed(format!(
            "schema version {version} in a container of version {}",
            schema.number()
        )));
    }
    let count = d.count(MIN_ENTRY)?;
    if count > MAX_ENTRIES as usize {
        return Err(Error::Limit {
            what: "number of entries",
            limit_name: "MAX_ENTRIES",
            limit: MAX_ENTRIES.into(),
            got: count as u64,
        });
    }
    let mut entries: Vec<IndexEntry<'a>> = Vec::with_capacity(count);
    for _ in 0..count {
        let entry = decode_entry(&mut d, mount_len)?;
        match entries.last() {
            None if !entry.path.is_empty() || entry.kind != EntryKind::Directory => {
                return Err(d.malformed("the first entry is not the root directory"));
            }
            Some(last) if last.path >= entry.path => {
                return Err(d.malformed(format!("/{} is out of order or doubled", entry.path)));
            }
            _ => entries.push(entry),
        }
    }
    if entries.is_empty() {
        return Err(d.malformed("there is no root directory"));
    }
    // Our writer fills the chunk with zeros so that the tar begins on a multiple of 512.
    if d.remaining() >= TAR_BLOCK as usize || d.rest().iter().any(|&byte| byte != 0) {
        return Err(d.malformed("bytes after the index"));
    }
    Ok(entries)
}

fn decode_entry<'a>(d: &mut Decoder<'a>, mount_len: u64) -> Result<IndexEntry<'a>> {
    let absolute = d.str()?;
    let Some(path) = absolute.strip_prefix('/') else {
        return Err(d.malformed(format!("{absolute:?} is not absolute")));
    };
    check_path(path).map_err(|what| d.malformed(format!("{absolute:?}: {what}")))?;
    let number = d.uint()?;
    let Some(kind) = EntryKind::from_number(number) else {
        return Err(d.malformed(format!("{number} is not a kind of entry")));
    };
    let entry = IndexEntry {
        path,
        kind,
        offset: d.u64()?,
        size: d.u64()?,
        mode: d.u32()?,
        uid: d.u32()?,
        gid: d.u32()?,
        mtime: d.i64()?,
        link_target: d.present()?.then(|| d.str()).transpose()?,
    };
    match (kind, entry.link_target) {
        (EntryKind::File, _) => match entry.offset.checked_add(entry.size) {
            Some(end) if end <= mount_len => {}
            end => {
                return Err(Error::Truncated {
                    what: "a file's data",
                    needed: end.unwrap_or(u64::MAX),
                    have: mount_len,
                });
            }
        },
        (EntryKind::Symlink, None) => {
            return Err(d.malformed(format!("{absolute:?}: a link without a target")));
        }
        (EntryKind::Symlink, Some(target)) if !names::valid_link_target(target.as_bytes()) => {
            return Err(d.malformed(format!("{absolute:?}: not a link target")));
        }
        _ => {}
    }
    Ok(entry)
}

/// Checks a path of the index: the empty one, or components parted by single slashes.
pub(crate) fn check_path(path: &str) -> std::result::Result<(), String> {
    if path.is_empty() {
        return Ok(());
    }
    if path.len() > MAX_PATH {
        return Err(format!("longer than {MAX_PATH} bytes"));
    }
    let mut depth = 0;
    for component in path.split('/') {
        names::check_component(component.as_bytes()).map_err(|e| e.to_string())?;
        depth += 1;
    }
    if depth > MAX_DEPTH {
        return Err(format!("more than {MAX_DEPTH} components"));
    }
    Ok(())
}

/// The chunk's bytes, without padding. The entries must be sorted.
pub(crate) fn encode<'a>(
    schema: Schema,
    count: usize,
    entries: impl Iterator<Item = IndexEntry<'a>>,
) -> Vec<u8> {
    let mut e = Encoder::default();
    e.u16(schema.number());
    e.uint(count as u64);
    for entry in entries {
        e.uint(entry.path.len() as u64 + 1);
        e.u8(b'/');
        e.bytes.extend_from_slice(entry.path.as_bytes());
        e.uint(entry.kind.number().into());
        e.u64(entry.offset);
        e.u64(entry.size);
        e.u32(entry.mode);
        e.u32(entry.uid);
        e.u32(entry.gid);
        e.i64(entry.mtime);
        e.boolean(entry.link_target.is_some());
        if let Some(target) = entry.link_target {
            e.str(target);
        }
    }
    e.bytes
}
