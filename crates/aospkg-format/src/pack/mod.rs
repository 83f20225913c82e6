//! The packer: a directory, an npm tarball or any tar becomes a package.
//!
//! The result depends on the input alone; packing the same thing twice gives the same bytes. Files
//! are never held in memory, and nothing is unpacked on the way: a tarball is read twice, once for
//! its names and once for its content, which goes straight to its place in the package.

mod directory;
mod error;
pub(crate) mod metadata;
pub(crate) mod tar_reader;
mod tarball;
pub(crate) mod tree;

use std::fs::File;
use std::io::Read;
use std::path::Path;

pub use error::{PackError, PackWarning};

use crate::atomic::AtomicFile;
use crate::entry::Digest;
use crate::mount::EntryKind;
use crate::write::{Layout, WriteOptions};
use metadata::Texts;
use tree::{Found, Tree};

/// How a package is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackOptions {
    /// How the package is written.
    pub write: WriteOptions,
    /// Leave native modules (`*.node`) out instead of refusing the package; [`Packed::dropped`]
    /// lists them.
    pub drop_native: bool,
    /// Owner and group of every entry; `None` keeps what the source has. The default is the first
    /// ordinary user, 1000, to whom published packages belong.
    pub owner: Option<(u32, u32)>,
    /// Modification time of every entry, in seconds; `None` keeps what the source has.
    pub mtime: Option<i64>,
}

impl Default for PackOptions {
    fn default() -> Self {
        PackOptions {
            write: WriteOptions::default(),
            drop_native: false,
            owner: Some((1000, 1000)),
            mtime: None,
        }
    }
}

/// What was packed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packed {
    /// Package name.
    pub name: String,
    /// Package version.
    pub version: String,
    /// Command names, in order.
    pub commands: Vec<String>,
    /// Entries, the root included.
    pub entries: usize,
    /// Bytes of the package file.
    pub len: u64,
    /// The package's identity.
    pub digest: Digest,
    /// What is not wrong enough to refuse.
    pub warnings: Vec<PackWarning>,
    /// Native modules that were left out.
    pub dropped: Vec<String>,
}

/// The first bytes of a file, as far as the packer looks at them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Head {
    /// `#!`, or the magic of a WebAssembly module or of a runtime file.
    Known,
    /// `#!`, but the line ends in CR LF.
    CrLf,
    /// Anything else.
    Unknown,
}

/// Bytes that are looked at: what the dispatcher reads of a file.
pub(crate) const HEAD_LEN: usize = 256;

impl Head {
    pub(crate) fn of(bytes: &[u8]) -> Head {
        if bytes.starts_with(b"#!") {
            let line = bytes.split(|&b| b == b'\n').next().unwrap_or_default();
            let whole = line.len() < bytes.len();
            return if whole && line.ends_with(b"\r") {
                Head::CrLf
            } else {
                Head::Known
            };
        }
        if bytes.starts_with(b"\0asm") || bytes.starts_with(b"\0aos") {
            return Head::Known;
        }
        Head::Unknown
    }
}

/// What a source was found to hold.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    pub(crate) found: Vec<Found>,
    pub(crate) texts: Texts,
    pub(crate) warnings: Vec<PackWarning>,
}

/// Something that can be packed.
pub(crate) trait Source {
    /// Finds all entries.
    fn scan(&mut self) -> Result<Scan, PackError>;

    /// The first bytes of a file; `source` is [`Found::source`].
    fn head(&mut self, source: usize, path: &str) -> Result<Head, PackError>;

    /// Calls `each` with the content of every file, in any order. Files that `each` does not read
    /// are passed over.
    fn contents(
        &mut self,
        each: &mut dyn FnMut(usize, &mut dyn Read) -> Result<(), PackError>,
    ) -> Result<(), PackError>;
}

/// Packs a directory, an npm tarball or a tar (told by its content, not by its name) and writes
/// `output`, replacing what is there once the package is whole.
pub fn pack(input: &Path, output: &Path, options: &PackOptions) -> Result<Packed, PackError> {
    let mut source = open_source(input, Some(output))?;
    let prepared = prepare(source.as_mut(), options)?;
    let named = |e| PackError::io(output.display().to_string(), e);
    let out = AtomicFile::create(output).map_err(named)?;
    let packed = prepared.write(source.as_mut(), options, out.file())?;
    out.commit().map_err(named)?;
    Ok(packed)
}

/// Packs like [`pack`] into an open file, for instance a `memfd`, from its beginning.
pub fn pack_to(input: &Path, output: &File, options: &PackOptions) -> Result<Packed, PackError> {
    let mut source = open_source(input, None)?;
    prepare(source.as_mut(), options)?.write(source.as_mut(), options, output)
}

fn open_source(input: &Path, output: Option<&Path>) -> Result<Box<dyn Source>, PackError> {
    let named = |e| PackError::io(input.display().to_string(), e);
    let meta = std::fs::metadata(input).map_err(named)?;
    if meta.is_dir() {
        return Ok(Box::new(directory::Directory::new(input, output)));
    }
    if !meta.is_file() {
        return Err(PackError::UnknownInput(input.to_owned()));
    }
    let file = File::open(input).map_err(named)?;
    Ok(Box::new(tarball::Tarball::new(input, file)?))
}

/// Packs a tar or a compressed tar that is in memory. For tests and fuzzing.
#[doc(hidden)]
pub fn pack_bytes(input: &[u8], output: &File, options: &PackOptions) -> Result<Packed, PackError> {
    let mut source = tarball::Tarball::from_bytes(input.to_vec())?;
    prepare(&mut source, options)?.write(&mut source, options, output)
}

/// A package that is checked and not yet written.
struct Prepared {
    tree: Tree,
    sources: Vec<usize>,
    manifest: crate::Manifest,
    commands: Vec<crate::CommandTarget>,
    warnings: Vec<PackWarning>,
    dropped: Vec<String>,
}

fn prepare(source: &mut dyn Source, options: &PackOptions) -> Result<Prepared, PackError> {
    let Scan {
        mut found,
        texts,
        mut warnings,
    } = source.scan()?;
    let mut dropped = Vec::new();
    drop_native(&mut found, options.drop_native, &mut dropped)?;
    for entry in &mut found {
        if let Some((uid, gid)) = options.owner {
            (entry.uid, entry.gid) = (uid, gid);
        }
        if let Some(mtime) = options.mtime {
            entry.mtime = mtime;
        }
        if entry.kind == EntryKind::Directory {
            entry.mode = searchable(entry.mode);
        }
    }
    let (mut tree, sources) = tree::assemble(found, options.owner.unwrap_or_default())?;
    let schema = options.write.schema;
    let (manifest, mut commands) = metadata::read(&texts, &tree, schema, &mut warnings)?;
    let places = metadata::check_commands(&mut commands, &tree)?;
    for (command, &place) in commands.iter().zip(&places) {
        tree.set_mode(place, 0o755);
        match source.head(sources[place], &command.entry)? {
            Head::Known => {}
            Head::CrLf => warnings.push(PackWarning::CrLfShebang {
                command: command.command.clone(),
                entry: command.entry.clone(),
            }),
            Head::Unknown => warnings.push(PackWarning::NoHeader {
                command: command.command.clone(),
                entry: command.entry.clone(),
            }),
        }
    }
    Ok(Prepared {
        tree,
        sources,
        manifest,
        commands,
        warnings,
        dropped,
    })
}

impl Prepared {
    fn write(
        self,
        source: &mut dyn Source,
        options: &PackOptions,
        out: &File,
    ) -> Result<Packed, PackError> {
        let entries = self.tree.into_entries();
        let mut layout = Layout::new(options.write, &self.manifest, &self.commands, &entries)?;
        let writing = |e| PackError::io("writing the package".into(), e);
        layout.write_frame(out).map_err(writing)?;
        // The places of the files, by the source's numbers.
        let mut places: rustc_hash::FxHashMap<usize, usize> = self
            .sources
            .iter()
            .enumerate()
            .filter(|&(place, _)| entries[place].kind == EntryKind::File)
            .map(|(place, &number)| (number, place))
            .collect();
        source.contents(&mut |number, content| {
            let Some(place) = places.remove(&number) else {
                return Ok(());
            };
            layout.write_content(out, place, content).map_err(|e| {
                use std::io::ErrorKind::{InvalidData, UnexpectedEof};
                match e.kind() {
                    UnexpectedEof | InvalidData => PackError::Changed {
                        entry: entries[place].path.clone(),
                    },
                    _ => writing(e),
                }
            })
        })?;
        if let Some(&place) = places.values().next() {
            return Err(PackError::Changed {
                entry: entries[place].path.clone(),
            });
        }
        let digest = layout.finish(out)?;
        Ok(Packed {
            name: self.manifest.name,
            version: self.manifest.version,
            commands: self.commands.into_iter().map(|c| c.command).collect(),
            entries: entries.len(),
            len: out.metadata().map_err(writing)?.len(),
            digest,
            warnings: self.warnings,
            dropped: self.dropped,
        })
    }
}

/// Native modules cannot run: refuses or drops them.
fn drop_native(
    found: &mut Vec<Found>,
    drop: bool,
    dropped: &mut Vec<String>,
) -> Result<(), PackError> {
    let native = |entry: &Found| entry.kind == EntryKind::File && entry.path.ends_with(".node");
    if !drop {
        return match found.iter().find(|entry| native(entry)) {
            Some(entry) => Err(PackError::NativeModule {
                entry: entry.path.clone(),
            }),
            None => Ok(()),
        };
    }
    found.retain(|entry| {
        let native = native(entry);
        if native {
            dropped.push(entry.path.clone());
        }
        !native
    });
    dropped.sort();
    Ok(())
}

/// A directory's mode, made searchable: for its owner always, as npm does, and for whoever else
/// may list it.
fn searchable(mode: u32) -> u32 {
    mode | 0o100 | (mode & 0o444) >> 2
}
