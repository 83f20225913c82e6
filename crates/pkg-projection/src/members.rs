//! The packages of a projection.

use aospkg_format::{Command, EntryId, EntryKind, Package};
use rustc_hash::FxHashSet;
use std::sync::{Arc, OnceLock};
use vfs_core::Errno;

/// Number of a package in its projection.
pub(crate) type Id = u32;

/// One package.
pub(crate) struct Member {
    pub(crate) package: Arc<Package>,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) current: bool,
    /// The files of commands, collected when the first file without an execute bit is looked at.
    executables: OnceLock<FxHashSet<EntryId>>,
}

impl Member {
    pub(crate) fn new(package: Arc<Package>, name: String, version: String) -> Member {
        Member {
            package,
            name,
            version,
            current: false,
            executables: OnceLock::new(),
        }
    }

    /// Finds a command that has a file.
    pub(crate) fn command(&self, name: &[u8]) -> vfs_core::Result<Option<Command<'_>>> {
        let command = self.package.command(name).map_err(errno)?;
        Ok(command.filter(|command| command.entry.is_some()))
    }

    /// Whether a file is that of a command.
    pub(crate) fn is_executable(&self, id: EntryId) -> bool {
        let collect = || {
            self.package
                .commands()
                .filter_map(|c| c.ok()?.entry)
                .collect()
        };
        self.executables.get_or_init(collect).contains(&id)
    }

    /// The directory `bin` of the package itself. The outer `None` is anything but a directory
    /// of that name.
    pub(crate) fn own_bin(&self) -> Result<Option<Option<EntryId>>, aospkg_format::Error> {
        Ok(match self.package.lookup(EntryId::ROOT, b"bin")? {
            None => Some(None),
            Some(id) => {
                let is_dir = self.package.entry(id)?.kind == EntryKind::Directory;
                is_dir.then_some(Some(id))
            }
        })
    }
}

/// What a guest sees of a package that can't be read.
pub(crate) fn errno(error: aospkg_format::Error) -> Errno {
    match error {
        aospkg_format::Error::NotADirectory(_) => Errno::ENOTDIR,
        _ => Errno::EIO,
    }
}
