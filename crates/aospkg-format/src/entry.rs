//! What a package is asked for: entries, commands, digests.

use crate::mount::EntryKind;

/// BLAKE3 of a file's content, or of a whole package.
pub type Digest = [u8; 32];

/// A digest as it is written.
pub fn to_hex(digest: &Digest) -> String {
    use std::fmt::Write;
    digest.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Number of an entry in its package. The root is 0, and a directory's children follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntryId(pub u32);

impl EntryId {
    /// The root directory of a package.
    pub const ROOT: EntryId = EntryId(0);
}

/// One file, directory or symbolic link of a package.
///
/// The borrowed names lie in the mapping of the package (or of its cached index).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'p> {
    /// The entry's number.
    pub id: EntryId,
    /// The number of the directory it is in; the root is its own parent.
    pub parent: EntryId,
    /// What it is.
    pub kind: EntryKind,
    /// `st_mode`, with the type bits of `kind`.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Modification time in seconds.
    pub mtime: i64,
    /// Bytes of a file, bytes of a link's target, 0 for a directory.
    pub size: u64,
    /// Name in the parent; empty for the root.
    pub name: &'p [u8],
    /// Target of a symbolic link.
    pub link_target: Option<&'p [u8]>,
}

/// A command of a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Command<'p> {
    /// Its place in order of name, as [`Package::command_at`](crate::Package::command_at) takes it.
    pub index: u32,
    /// Its name.
    pub name: &'p [u8],
    /// Path of the file, relative to the package root, as the manifest has it (without a leading
    /// `./` or `/`).
    pub path: &'p [u8],
    /// The entry at that path; `None` when the package has no file there.
    pub entry: Option<EntryId>,
}

/// Where the index of an open package came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexSource {
    /// The trailer of the package itself.
    Trailer,
    /// A cache entry made by an earlier open.
    Cache,
    /// It was decoded and put into the cache.
    Stored,
    /// It was decoded for this open alone.
    Decoded,
}
