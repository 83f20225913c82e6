//! The first 16 bytes of a package.

use crate::error::{Error, Result};
use crate::limits::{MAX_INDEX, MAX_MANIFEST};

/// The magic bytes that every package begins with.
pub const MAGIC: [u8; 4] = [0x89, b'A', b'O', b'S'];

/// Length of the header.
pub const HEADER_LEN: u64 = 16;

/// The container and schema version of a package.
///
/// Both chunks carry the same number as the container. A reader of this crate takes both; a writer
/// writes [`Schema::V1`] unless told otherwise, because that is what published runtimes read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Schema {
    /// Manifest with `agent` and `snapshotBundlePath`.
    #[default]
    V1,
    /// Manifest without them.
    V2,
}

impl Schema {
    /// The number in the file.
    pub const fn number(self) -> u16 {
        match self {
            Schema::V1 => 1,
            Schema::V2 => 2,
        }
    }

    /// The schema of a number in a file.
    pub const fn from_number(number: u16) -> Option<Schema> {
        match number {
            1 => Some(Schema::V1),
            2 => Some(Schema::V2),
            _ => None,
        }
    }
}

/// A decoded header: where the chunks lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Container version.
    pub schema: Schema,
    /// Bytes of chunk 1, the manifest.
    pub manifest_len: u32,
    /// Bytes of chunk 2, the mount index.
    pub index_len: u32,
}

impl Header {
    /// Reads a header and checks it against the length of the file it came from.
    pub fn parse(bytes: &[u8; HEADER_LEN as usize], file_len: u64) -> Result<Header> {
        let [
            m0,
            m1,
            m2,
            m3,
            v0,
            v1,
            f0,
            f1,
            a0,
            a1,
            a2,
            a3,
            b0,
            b1,
            b2,
            b3,
        ] = *bytes;
        if [m0, m1, m2, m3] != MAGIC {
            return Err(Error::NotAPackage);
        }
        let version = u16::from_le_bytes([v0, v1]);
        let schema = Schema::from_number(version).ok_or(Error::UnsupportedVersion(version))?;
        let flags = u16::from_le_bytes([f0, f1]);
        if flags != 0 {
            return Err(Error::UnsupportedFlags(flags));
        }
        let header = Header {
            schema,
            manifest_len: u32::from_le_bytes([a0, a1, a2, a3]),
            index_len: u32::from_le_bytes([b0, b1, b2, b3]),
        };
        for (what, limit_name, limit, got) in [
            (
                "manifest length",
                "MAX_MANIFEST",
                MAX_MANIFEST,
                header.manifest_len,
            ),
            (
                "mount index length",
                "MAX_INDEX",
                MAX_INDEX,
                header.index_len,
            ),
        ] {
            if got > limit {
                return Err(Error::Limit {
                    what,
                    limit_name,
                    limit: limit.into(),
                    got: got.into(),
                });
            }
        }
        if header.mount_base() > file_len {
            return Err(Error::Truncated {
                what: "header, manifest and index",
                needed: header.mount_base(),
                have: file_len,
            });
        }
        Ok(header)
    }

    /// The header's bytes.
    pub fn encode(&self) -> [u8; HEADER_LEN as usize] {
        let mut out = [0; HEADER_LEN as usize];
        out[0..4].copy_from_slice(&MAGIC);
        out[4..6].copy_from_slice(&self.schema.number().to_le_bytes());
        out[8..12].copy_from_slice(&self.manifest_len.to_le_bytes());
        out[12..16].copy_from_slice(&self.index_len.to_le_bytes());
        out
    }

    /// Offset of chunk 2 in the file.
    pub fn index_base(&self) -> u64 {
        HEADER_LEN + u64::from(self.manifest_len)
    }

    /// Offset of chunk 3, the tar, in the file.
    pub fn mount_base(&self) -> u64 {
        self.index_base() + u64::from(self.index_len)
    }
}
