//! The limits of the format, each with what it stops.
//!
//! A *parse limit* bounds what a reader does for a file it does not trust; a *write limit* is what
//! our writer and packer stay within. `docs/aospkg.md` lists both.

/// Parse and write: entries of one package. Stops an index that would make the reader's tables
/// larger than the machine.
pub const MAX_ENTRIES: u32 = 1 << 24;

/// Parse and write: bytes of one path component, as on Linux (`NAME_MAX`).
pub const MAX_NAME: usize = 255;

/// Parse and write: bytes of a whole path, without the leading slash. Above `PATH_MAX`, because a
/// deep tree may be walked in steps; bounds every walk over a path.
pub const MAX_PATH: usize = 32 * 1024;

/// Parse and write: components of a path. Bounds every walk from an entry up to the root.
pub const MAX_DEPTH: usize = 1024;

/// Parse and write: bytes of a symbolic link's target (`PATH_MAX` less its terminator).
pub const MAX_LINK_TARGET: usize = 4095;

/// Parse and write: commands of one package.
pub const MAX_COMMANDS: u32 = 1 << 20;

/// Parse and write: bytes of a manifest string (name, version, environment value and so on).
pub const MAX_STRING: usize = 1 << 20;

/// Parse and write: bytes of chunk 1. It is read whole when a package has no index trailer.
pub const MAX_MANIFEST: u32 = 128 << 20;

/// Parse and write: bytes of chunk 2. It is read whole when a package has no index trailer.
pub const MAX_INDEX: u32 = 1 << 30;

/// Write: bytes of `package.json` and `agentos-package.json`. They are read whole.
pub const MAX_JSON: u64 = 16 << 20;

/// Write: bytes of a PAX header or a GNU long name. They are read whole.
pub const MAX_TAR_EXTENSION: u64 = 1 << 20;

/// Files of at least this many bytes begin on a page of the package file.
pub const ALIGN_FROM: u64 = 4096;

/// The page that large files, and the index trailer, are aligned to.
pub const PAGE: u64 = 4096;

/// The unit of a tar.
pub const TAR_BLOCK: u64 = 512;
