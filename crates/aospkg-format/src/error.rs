//! Why a package could not be read.

use std::io;
use std::path::PathBuf;

/// A failure to open or to read a package.
///
/// Nothing in a package file, however damaged or hostile, leads to anything but one of these: no
/// panic, no endless loop, no read outside the mapping.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A host call failed.
    #[error("{what}: {source}")]
    Io {
        /// What was being done, with the file's name when there is one.
        what: String,
        /// What the host said.
        #[source]
        source: io::Error,
    },
    /// The file does not begin with the container's magic bytes.
    #[error("not a package: the file does not begin with 89 41 4f 53")]
    NotAPackage,
    /// The container's version is neither 1 nor 2.
    #[error("package format version {0} is not known (1 and 2 are)")]
    UnsupportedVersion(u16),
    /// A header flag is set, and no flag is defined.
    #[error("package flags {0:#06x} are not known (none is)")]
    UnsupportedFlags(u16),
    /// The file ends before something its header or index promises.
    #[error("package is cut short: {what} needs {needed} bytes, the file has {have}")]
    Truncated {
        /// What would have been read.
        what: &'static str,
        /// The file length that would hold it.
        needed: u64,
        /// The file length there is.
        have: u64,
    },
    /// The manifest or the mount index is not what its schema says.
    #[error("malformed {chunk} at byte {at}: {what}")]
    Malformed {
        /// Which chunk.
        chunk: &'static str,
        /// Offset of the fault inside the chunk.
        at: usize,
        /// What is wrong.
        what: String,
    },
    /// The appended (or cached) index contradicts itself or the file.
    #[error("damaged index: {what}")]
    Corrupt {
        /// What is wrong.
        what: &'static str,
    },
    /// A count or a length is above what a reader accepts.
    #[error("{what} is {got}, the limit {limit_name} is {limit}")]
    Limit {
        /// What was counted.
        what: &'static str,
        /// The limit's name, as listed in `docs/aospkg.md`.
        limit_name: &'static str,
        /// The limit.
        limit: u64,
        /// What the package asked for.
        got: u64,
    },
    /// The file became shorter while it was mapped; the bytes that were asked for are gone.
    #[error("the package file was cut short while in use")]
    Shrunk,
    /// An entry number that the package does not have.
    #[error("entry {0} does not exist")]
    NoSuchEntry(u32),
    /// The operation needs a regular file.
    #[error("entry {0} is not a regular file")]
    NotAFile(u32),
    /// The operation needs a directory.
    #[error("entry {0} is not a directory")]
    NotADirectory(u32),
    /// The destination of `unpack` exists and is not an empty directory.
    #[error("{}: not an empty directory", .0.display())]
    DestinationNotEmpty(PathBuf),
}

/// The result of reading a package.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        let what = what.into();
        move |source| Error::Io { what, source }
    }

    pub(crate) const fn corrupt(what: &'static str) -> Error {
        Error::Corrupt { what }
    }
}
