//! Why a thing cannot be packed, and what is worth a warning.

use std::io;
use std::path::PathBuf;

use crate::error::Error;
use crate::names::NameError;

/// Why a thing cannot be packed. Whenever an entry is at fault, it is named.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PackError {
    /// A host call failed.
    #[error("{what}: {source}")]
    Io {
        /// What was being done.
        what: String,
        /// What the host said.
        #[source]
        source: io::Error,
    },
    /// The package would be beyond a limit of the format.
    #[error(transparent)]
    Package(#[from] Error),
    /// The input is neither a directory nor a tar, plain or gzip-compressed.
    #[error("{}: neither a directory nor a tar or compressed tar", .0.display())]
    UnknownInput(PathBuf),
    /// The archive is damaged.
    #[error("archive damaged at byte {at}: {what}")]
    BadArchive {
        /// Offset in the uncompressed archive.
        at: u64,
        /// What is wrong.
        what: String,
    },
    /// A name that cannot be a path of a package.
    #[error("entry {entry:?}: {source}")]
    Name {
        /// The entry's name.
        entry: String,
        /// What is wrong with it.
        #[source]
        source: NameError,
    },
    /// A name that begins with a slash.
    #[error("entry {entry:?}: absolute name")]
    Absolute {
        /// The entry's name.
        entry: String,
    },
    /// A name with a `..` component.
    #[error("entry {entry:?}: name with `..`")]
    DotDot {
        /// The entry's name.
        entry: String,
    },
    /// A name or link target that is not UTF-8; the container's strings are.
    #[error("entry {entry:?}: name or link target is not UTF-8")]
    NotUtf8 {
        /// The entry's name.
        entry: String,
    },
    /// A path beyond the limits `MAX_PATH` or `MAX_DEPTH`.
    #[error("entry {entry:?}: path too long or too deep (limits MAX_PATH, MAX_DEPTH)")]
    PathTooLong {
        /// The entry's name.
        entry: String,
    },
    /// The same path twice.
    #[error("entry {entry:?} appears twice")]
    Duplicate {
        /// The entry's name.
        entry: String,
    },
    /// An entry inside something that is not a directory.
    #[error("entry {entry:?} lies in {parent:?}, which is not a directory")]
    ParentNotDirectory {
        /// The entry's name.
        entry: String,
        /// What it lies in.
        parent: String,
    },
    /// A symbolic link that leads out of the package.
    #[error("link {entry:?} leads out of the package, to {target:?}")]
    LinkEscapes {
        /// The link's name.
        entry: String,
        /// Its target.
        target: String,
    },
    /// A symbolic link whose target is empty, too long or holds a NUL byte.
    #[error("link {entry:?}: not a link target")]
    BadLinkTarget {
        /// The link's name.
        entry: String,
    },
    /// A hard link. A package has none; the archive has to carry a copy.
    #[error("entry {entry:?} is a hard link to {target:?}")]
    HardLink {
        /// The entry's name.
        entry: String,
        /// What it is linked to.
        target: String,
    },
    /// An entry of a kind that a package cannot hold.
    #[error("entry {entry:?}: {kind} cannot be packed")]
    Unsupported {
        /// The entry's name.
        entry: String,
        /// What it is.
        kind: String,
    },
    /// A native Node.js module, which cannot run.
    #[error("entry {entry:?} is a native module; it can be dropped on request")]
    NativeModule {
        /// The entry's name.
        entry: String,
    },
    /// There is no `package.json`.
    #[error("there is no package.json")]
    NoPackageJson,
    /// A file that must be JSON of a certain shape is not.
    #[error("{file}: {what}")]
    BadJson {
        /// Which file.
        file: &'static str,
        /// What is wrong.
        what: String,
    },
    /// A file that is read whole is larger than `MAX_JSON`.
    #[error(
        "{entry}: {len} bytes, the limit MAX_JSON is {}",
        crate::limits::MAX_JSON
    )]
    JsonTooLarge {
        /// Which file.
        entry: String,
        /// Its length.
        len: u64,
    },
    /// Neither `package.json` nor `agentos-package.json` gives the name or the version.
    #[error("package.json has no {0:?}")]
    Missing(&'static str),
    /// A command name that breaks the rule of [`crate::check_command`].
    #[error("command {command:?}: {source}")]
    CommandName {
        /// The command.
        command: String,
        /// What is wrong.
        #[source]
        source: NameError,
    },
    /// A command whose file is missing, is not a regular file or lies outside.
    #[error("command {command:?}: {entry:?} is not a file of the package")]
    BinMissing {
        /// The command.
        command: String,
        /// What `bin` says.
        entry: String,
    },
    /// A `provides.files` source that is not in the package.
    #[error("provides: {source_path:?} is not in the package")]
    ProvidesMissing {
        /// The source.
        source_path: String,
    },
    /// A `provides.files` target that is not an absolute path without `..`.
    #[error("provides: {target:?} is not an absolute path without `..`")]
    ProvidesTarget {
        /// The target.
        target: String,
    },
    /// The source changed between the two readings of it.
    #[error("entry {entry:?} changed while it was packed")]
    Changed {
        /// The entry's name.
        entry: String,
    },
}

impl PackError {
    pub(crate) fn io(what: String, source: io::Error) -> PackError {
        PackError::Io { what, source }
    }

    pub(crate) fn name(entry: String, source: NameError) -> PackError {
        PackError::Name { entry, source }
    }
}

/// Something that will not work as its author expects, but does not make the package unusable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PackWarning {
    /// The first line of a command's file ends in CR LF, so the interpreter's name does too.
    #[error("command {command:?}: the first line of {entry:?} ends in CR LF")]
    CrLfShebang {
        /// The command.
        command: String,
        /// Its file.
        entry: String,
    },
    /// A command's file begins with nothing that can be executed; `exec` gives `ENOEXEC`.
    #[error("command {command:?}: {entry:?} begins neither with `#!` nor as a WebAssembly module")]
    NoHeader {
        /// The command.
        command: String,
        /// Its file.
        entry: String,
    },
    /// Schema 2 has no agent block.
    #[error("the agent block was dropped: schema 2 has none")]
    AgentDropped,
    /// The agent's entry point is not one of the package's commands.
    #[error("the agent's entry point {command:?} is not a command of the package")]
    AgentWithoutCommand {
        /// The entry point.
        command: String,
    },
    /// Extended attributes, which a package does not hold.
    #[error("entry {entry:?}: extended attributes were left out")]
    ExtendedAttributes {
        /// The entry.
        entry: String,
    },
}
