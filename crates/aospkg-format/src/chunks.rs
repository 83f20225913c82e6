//! The parts of a package before the tar, read whole and decoded.
//!
//! Only packages without an index trailer need this, and the tools that make one. The chunks are
//! copied out of the file first: strings are borrowed from them, and a mapping may change.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::error::{Error, Result};
use crate::header::{HEADER_LEN, Header};
use crate::manifest::{self, CommandTarget};
use crate::mount::{self, IndexEntry};

/// Chunk 1 and chunk 2 with the header that describes them.
#[derive(Debug)]
pub(crate) struct Chunks {
    pub(crate) header: Header,
    pub(crate) manifest: Vec<u8>,
    pub(crate) index: Vec<u8>,
}

impl Chunks {
    pub(crate) fn read(file: &File, header: Header) -> Result<Chunks> {
        Ok(Chunks {
            manifest: read_range(file, HEADER_LEN, header.manifest_len)?,
            index: read_range(file, header.index_base(), header.index_len)?,
            header,
        })
    }

    /// The mount index, checked against the length of the tar.
    pub(crate) fn entries(&self, mount_len: u64) -> Result<Vec<IndexEntry<'_>>> {
        mount::decode(self.header.schema, &self.index, mount_len)
    }

    /// The commands, and where in the manifest chunk the field after them begins.
    pub(crate) fn commands(&self) -> Result<(Vec<CommandTarget>, usize)> {
        manifest::decode_commands(self.header.schema, &self.manifest)
    }

    /// The package digest, as far as these parts go into it.
    pub(crate) fn hasher(&self) -> blake3::Hasher {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.header.encode());
        hasher.update(&self.manifest);
        hasher.update(&self.index);
        hasher
    }
}

/// Reads a part of the file into memory.
pub(crate) fn read_range(file: &File, at: u64, len: u32) -> Result<Vec<u8>> {
    let mut bytes = vec![0; len as usize];
    match file.read_exact_at(&mut bytes, at) {
        Ok(()) => Ok(bytes),
        Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => Err(Error::Shrunk),
        Err(e) => Err(Error::io("reading the package")(e)),
    }
}
