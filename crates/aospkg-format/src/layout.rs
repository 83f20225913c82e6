//! The appended index: fixed-width little-endian records that are read where they lie.
//!
//! `docs/aospkg.md` is the authority for every offset here.

use zerocopy::little_endian::{I64, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::{Error, Result};
use crate::header::HEADER_LEN;
use crate::limits::{MAX_COMMANDS, MAX_ENTRIES};

/// First and last eight bytes of the footer.
pub(crate) const FOOTER_MAGIC: [u8; 8] = *b"\x89AOSIDX\n";

/// Version of the trailer. A reader that meets another one ignores the trailer and decodes the
/// published index instead, so a later layout never makes a package unreadable.
pub(crate) const TRAILER_VERSION: u32 = 1;

/// Length of the footer.
pub(crate) const FOOTER_LEN: u64 = 256;

/// Set in [`Footer::flags`] when the digest section is there.
pub(crate) const FLAG_DIGESTS: u32 = 1;

/// Bytes of a name that a record holds itself.
pub(crate) const INLINE_NAME: usize = 16;

/// Stands for "no entry" in a command record.
pub(crate) const NO_ENTRY: u32 = u32::MAX;

/// One entry, 64 bytes: a cache line.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct Record {
    pub(crate) parent: U32,
    pub(crate) name_at: U32,
    pub(crate) name_len: U16,
    pub(crate) kind: u8,
    pub(crate) reserved: u8,
    pub(crate) mode: U32,
    pub(crate) uid: U32,
    pub(crate) gid: U32,
    pub(crate) mtime: I64,
    /// File: bytes. Link: bytes of the target. Directory: number of children.
    pub(crate) size: U64,
    /// File: offset in the tar. Link: offset of the target in the string pool. Directory: number
    /// of the first child.
    pub(crate) data: U64,
    /// The name's first bytes, filled up with zeros.
    pub(crate) name: [u8; INLINE_NAME],
}

pub(crate) const RECORD_LEN: usize = 64;
const _: () = assert!(size_of::<Record>() == RECORD_LEN);

/// One command, 24 bytes, sorted by name.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct CommandRecord {
    pub(crate) name_at: U32,
    pub(crate) name_len: U32,
    pub(crate) path_at: U32,
    pub(crate) path_len: U32,
    pub(crate) entry: U32,
    pub(crate) reserved: U32,
}

pub(crate) const COMMAND_LEN: usize = 24;
const _: () = assert!(size_of::<CommandRecord>() == COMMAND_LEN);

/// Where a section lies, from the start of the trailer.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct Section {
    pub(crate) at: U64,
    pub(crate) len: U64,
}

/// The sections, in file order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SectionId {
    Entries = 0,
    Strings = 1,
    Digests = 2,
    Paths = 3,
    Commands = 4,
    CommandNames = 5,
}

pub(crate) const SECTIONS: usize = 6;

/// Sections begin on multiples of this.
pub(crate) const SECTION_ALIGN: u64 = 64;

/// The last 256 bytes of an indexed package.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct Footer {
    pub(crate) magic: [u8; 8],
    pub(crate) version: U32,
    pub(crate) footer_len: U32,
    /// Copy of the container header.
    pub(crate) header: [u8; HEADER_LEN as usize],
    /// Bytes of the published container: everything before the padding that precedes the trailer.
    pub(crate) container_len: U64,
    /// Bytes from the first section to the footer.
    pub(crate) trailer_len: U64,
    pub(crate) entries: U32,
    pub(crate) commands: U32,
    pub(crate) flags: U32,
    /// Offset in chunk 1 of the field after the commands.
    pub(crate) manifest_tail: U32,
    pub(crate) sections: [Section; SECTIONS],
    /// BLAKE3 over all bytes of the tar that are not content of a file of the index.
    pub(crate) frame: [u8; 32],
    /// BLAKE3 over header, manifest, index, all sections and the footer up to here.
    pub(crate) digest: [u8; 32],
    /// First 16 bytes of BLAKE3 over the footer up to here.
    pub(crate) check: [u8; 16],
    pub(crate) reserved2: [u8; 8],
    pub(crate) end_magic: [u8; 8],
}

const _: () = assert!(size_of::<Footer>() == FOOTER_LEN as usize);

/// Bytes of the footer that the package digest covers.
pub(crate) const FOOTER_DIGESTED: usize = 192;
/// Bytes of the footer that its own check covers.
pub(crate) const FOOTER_CHECKED: usize = 224;
/// Where the bytes after the check begin.
pub(crate) const FOOTER_END: usize = 240;

impl Footer {
    /// Whether these bytes claim to be a footer. Either magic is claim enough, so that damage to
    /// one of them is an error and not a package without an index.
    pub(crate) fn claims(bytes: &[u8; FOOTER_LEN as usize]) -> bool {
        bytes.starts_with(&FOOTER_MAGIC) || bytes.ends_with(&FOOTER_MAGIC)
    }

    /// Reads a footer and makes the structural checks that cost the same for every package.
    ///
    /// `Ok(None)` is a trailer of a version that this reader does not know. `before` is the number
    /// of bytes in front of the footer in the file that holds it.
    pub(crate) fn parse(bytes: &[u8; FOOTER_LEN as usize], before: u64) -> Result<Option<Footer>> {
        let footer = Footer::read_from_bytes(bytes.as_slice())
            .map_err(|_| Error::corrupt("footer length"))?;
        if footer.magic != FOOTER_MAGIC || footer.end_magic != FOOTER_MAGIC {
            return Err(Error::corrupt("footer magic"));
        }
        if footer.check != footer_check(bytes) {
            return Err(Error::corrupt("footer check"));
        }
        if footer.version.get() != TRAILER_VERSION {
            return Ok(None);
        }
        if u64::from(footer.footer_len.get()) != FOOTER_LEN {
            return Err(Error::corrupt("footer length"));
        }
        if footer.trailer_len.get() > before {
            return Err(Error::corrupt("trailer longer than the file"));
        }
        let entries = footer.entries.get();
        let commands = footer.commands.get();
        if entries == 0 || entries > MAX_ENTRIES || commands > MAX_COMMANDS {
            return Err(Error::corrupt("counts"));
        }
        let mut end = 0;
        for section in &footer.sections {
            let (at, len) = (section.at.get(), section.len.get());
            if at < end || at % SECTION_ALIGN != 0 {
                return Err(Error::corrupt("section order"));
            }
            end = at
                .checked_add(len)
                .filter(|&end| end <= footer.trailer_len.get())
                .ok_or(Error::corrupt("section past the trailer"))?;
        }
        let len = |id: SectionId| footer.sections[id as usize].len.get();
        let digests = if footer.flags.get() & FLAG_DIGESTS != 0 {
            u64::from(entries) * 32
        } else {
            0
        };
        if len(SectionId::Entries) != u64::from(entries) * RECORD_LEN as u64
            || len(SectionId::Commands) != u64::from(commands) * COMMAND_LEN as u64
            || len(SectionId::Digests) != digests
        {
            return Err(Error::corrupt("section length"));
        }
        Ok(Some(footer))
    }

    /// The section's range from the start of the trailer.
    pub(crate) fn range(&self, id: SectionId) -> (u64, u64) {
        let section = &self.sections[id as usize];
        (section.at.get(), section.at.get() + section.len.get())
    }
}

/// The footer's own check.
pub(crate) fn footer_check(bytes: &[u8; FOOTER_LEN as usize]) -> [u8; 16] {
    let hash = blake3::hash(&bytes[..FOOTER_CHECKED]);
    let mut check = [0; 16];
    check.copy_from_slice(&hash.as_bytes()[..16]);
    check
}
