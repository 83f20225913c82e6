//! Making a package from content in memory.

use std::fs::File;
use std::path::Path;

use crate::atomic::AtomicFile;
use crate::entry::Digest;
use crate::manifest::{CommandTarget, Manifest};
use crate::mount::EntryKind;
use crate::pack::tree::{self, Found};
use crate::pack::{PackError, metadata};
use crate::package::Package;
use crate::write::{Layout, WriteOptions};

/// Collects entries and writes a package of them. What it accepts is what the packer accepts.
///
/// ```
/// use aospkg_format::{Package, PackageBuilder};
///
/// let dir = tempfile::tempdir()?;
/// let path = dir.path().join("hi.aospkg");
/// PackageBuilder::new("hi", "1.0.0")
///     .file("bin/hi", 0o755, "#!/bin/sh\necho hi\n")
///     .command("hi", "bin/hi")
///     .write(&path)?;
/// let package = Package::open(&path, None)?;
/// let command = package.command(b"hi")?.expect("just added");
/// let id = command.entry.expect("its file is there");
/// package.with_content(id, |bytes| assert!(bytes.starts_with(b"#!/bin/sh")))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct PackageBuilder {
    options: WriteOptions,
    manifest: Manifest,
    commands: Vec<CommandTarget>,
    found: Vec<Found>,
    contents: Vec<Vec<u8>>,
    mtime: i64,
    owner: (u32, u32),
}

impl PackageBuilder {
    /// A package without entries.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> PackageBuilder {
        PackageBuilder {
            options: WriteOptions::default(),
            manifest: Manifest {
                name: name.into(),
                version: version.into(),
                ..Manifest::default()
            },
            commands: Vec::new(),
            found: Vec::new(),
            contents: Vec::new(),
            mtime: 0,
            owner: (0, 0),
        }
    }

    /// How the package is written.
    #[must_use]
    pub fn options(mut self, options: WriteOptions) -> Self {
        self.options = options;
        self
    }

    /// Changes the manifest. Commands are added with [`PackageBuilder::command`].
    #[must_use]
    pub fn manifest(mut self, change: impl FnOnce(&mut Manifest)) -> Self {
        change(&mut self.manifest);
        self
    }

    /// Modification time of the entries added from here on.
    #[must_use]
    pub fn mtime(mut self, seconds: i64) -> Self {
        self.mtime = seconds;
        self
    }

    /// Owner and group of the entries added from here on.
    #[must_use]
    pub fn owner(mut self, uid: u32, gid: u32) -> Self {
        self.owner = (uid, gid);
        self
    }

    /// Adds a command; `entry` is the path of its file.
    #[must_use]
    pub fn command(mut self, name: impl Into<String>, entry: impl Into<String>) -> Self {
        self.commands.push(CommandTarget {
            command: name.into(),
            entry: entry.into(),
        });
        self
    }

    /// Adds a file. Directories on the way are added with mode 0755 when they are not there.
    #[must_use]
    pub fn file(mut self, path: impl Into<String>, mode: u32, content: impl Into<Vec<u8>>) -> Self {
        let content = content.into();
        self.add(
            path.into(),
            EntryKind::File,
            mode,
            content.len() as u64,
            None,
        );
        self.contents.push(content);
        self
    }

    /// Adds a directory.
    #[must_use]
    pub fn directory(mut self, path: impl Into<String>, mode: u32) -> Self {
        self.add(path.into(), EntryKind::Directory, mode, 0, None);
        self
    }

    /// Adds a symbolic link.
    #[must_use]
    pub fn symlink(mut self, path: impl Into<String>, target: impl Into<String>) -> Self {
        self.add(
            path.into(),
            EntryKind::Symlink,
            0o777,
            0,
            Some(target.into()),
        );
        self
    }

    fn add(
        &mut self,
        path: String,
        kind: EntryKind,
        mode: u32,
        size: u64,
        link_target: Option<String>,
    ) {
        self.found.push(Found {
            path,
            kind,
            mode,
            uid: self.owner.0,
            gid: self.owner.1,
            mtime: self.mtime,
            size,
            link_target,
            source: self.contents.len(),
        });
    }

    /// Writes the package, replacing what is at `path` when it is whole.
    pub fn write(self, path: &Path) -> Result<Digest, PackError> {
        let out =
            AtomicFile::create(path).map_err(|e| PackError::io(path.display().to_string(), e))?;
        let digest = self.write_to(out.file())?;
        out.commit()
            .map_err(|e| PackError::io(path.display().to_string(), e))?;
        Ok(digest)
    }

    /// Makes the package in memory (a `memfd`) and opens it.
    pub fn open(self) -> Result<Package, PackError> {
        let fd = nix::sys::memfd::memfd_create(c"aospkg", nix::sys::memfd::MFdFlags::MFD_CLOEXEC)
            .map_err(|e| PackError::io("memfd_create".into(), e.into()))?;
        let file = File::from(fd);
        self.write_to(&file)?;
        Ok(Package::from_file(file, None)?)
    }

    fn write_to(self, out: &File) -> Result<Digest, PackError> {
        let PackageBuilder {
            options,
            manifest,
            mut commands,
            found,
            contents,
            ..
        } = self;
        let (tree, sources) = tree::assemble(found, self.owner)?;
        metadata::check_names(&manifest)?;
        metadata::check_commands(&mut commands, &tree)?;
        let entries = tree.into_entries();
        let mut layout = Layout::new(options, &manifest, &commands, &entries)?;
        let io = |e| PackError::io("writing the package".into(), e);
        layout.write_frame(out).map_err(io)?;
        for (place, entry) in entries.iter().enumerate() {
            if entry.kind == EntryKind::File {
                let content = &mut contents[sources[place]].as_slice();
                layout.write_content(out, place, content).map_err(io)?;
            }
        }
        Ok(layout.finish(out)?)
    }
}
