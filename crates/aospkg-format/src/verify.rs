//! Proving a package whole.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use serde::Serialize;

use crate::build::Tables;
use crate::chunks::Chunks;
use crate::entry::{Digest, EntryId, IndexSource};
use crate::error::{Error, Result};
use crate::layout::{FOOTER_DIGESTED, FOOTER_END, FOOTER_LEN, Footer, SectionId};
use crate::manifest::Manifest;
use crate::mount::{EntryKind, IndexEntry};
use crate::pack::PackError;
use crate::pack::tar_reader::TarReader;
use crate::pack::tree::normalize;
use crate::package::Package;

/// What [`verify`] found out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// The package's identity, computed from its bytes.
    #[serde(serialize_with = "hex")]
    pub identity: Digest,
    /// Whether the package has an index trailer. Without one there are no digests to compare with:
    /// the structure was checked, and the identity is what the bytes are now.
    pub indexed: bool,
    /// Entries, the root included.
    pub entries: u32,
    /// Files.
    pub files: u64,
    /// Bytes of all files.
    pub bytes: u64,
    /// What is wrong; empty when the package is whole.
    pub problems: Vec<Problem>,
}

impl Verified {
    /// Whether nothing is wrong.
    pub fn is_whole(&self) -> bool {
        self.problems.is_empty()
    }
}

/// Something that is wrong with a package.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize)]
#[serde(tag = "problem", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Problem {
    /// A file's content is not what the index says.
    #[error("/{path}: content does not match its digest")]
    Content {
        /// The file's path.
        path: String,
    },
    /// A command names a file that the package does not have.
    #[error("command {command:?}: {entry:?} is not a file of the package")]
    Command {
        /// The command.
        command: String,
        /// What it names.
        entry: String,
    },
    /// The tar does not agree with the index. Readers go by the index alone, but a tool that reads
    /// the tar would see something else.
    #[error("the archive: {what}")]
    Archive {
        /// What is wrong.
        what: String,
    },
    /// The index trailer is not the one that belongs to the published index, byte for byte.
    #[error("the index does not match the package: {section} differs")]
    Index {
        /// The first part that differs.
        section: &'static str,
    },
    /// The trailer's digest is not that of its bytes.
    #[error("the package digest does not match")]
    Digest,
}

/// Reads a whole package and checks everything that can be checked.
///
/// The published index is decoded strictly, all content is hashed, and the trailer is made anew and
/// compared with the one that is there. An `Err` is a package that cannot be opened at all, or a
/// host failure; a package that opens but is not whole gives [`Verified::problems`].
pub fn verify(path: &Path) -> Result<Verified> {
    let file = File::open(path).map_err(Error::io(path.display().to_string()))?;
    verify_file(file)
}

/// [`verify`] for an open file.
pub fn verify_file(file: File) -> Result<Verified> {
    let second = file.try_clone().map_err(Error::io("the package file"))?;
    let package = Package::from_file(second, None)?;
    let chunks = Chunks::read(&file, *package.header())?;
    let manifest = Manifest::decode(package.schema(), &chunks.manifest)?;
    let entries = chunks.entries(package.mount_len())?;
    let (commands, manifest_tail) = chunks.commands()?;
    let tables = Tables::new(&entries, &commands, manifest_tail)?;
    let hashes = package.hash_tar(&entries, &tables.ids)?;
    let len = package.container_len();
    let mut expected = Vec::new();
    let identity = tables
        .write(&chunks, &entries, &commands, &hashes, len, &mut expected)
        .map_err(Error::io("package digest"))?;

    let mut problems = Vec::new();
    let indexed = package.index_source() == IndexSource::Trailer;
    if indexed {
        if package.manifest()? != &manifest {
            problems.push(Problem::Index {
                section: "manifest offset",
            });
        }
        compare_content(
            &package,
            &entries,
            &tables.ids,
            &hashes.files,
            &mut problems,
        )?;
        compare_trailer(&file, package.container_len(), &expected, &mut problems)?;
        if package.identity()? != identity {
            problems.push(Problem::Digest);
        }
    }
    if let Err(what) = compare_archive(&file, &package, &entries)? {
        problems.push(Problem::Archive { what });
    }
    for command in &commands {
        let known = entries
            .binary_search_by(|entry| entry.path.cmp(command.entry.trim_start_matches("./")))
            .is_ok_and(|place| entries[place].kind != EntryKind::Directory);
        if !known {
            problems.push(Problem::Command {
                command: command.command.clone(),
                entry: command.entry.clone(),
            });
        }
    }
    let files = entries.iter().filter(|e| e.kind == EntryKind::File);
    Ok(Verified {
        identity,
        indexed,
        entries: entries.len() as u32,
        files: files.clone().count() as u64,
        bytes: files.map(|e| e.size).fold(0, u64::saturating_add),
        problems,
    })
}

/// Reads the tar and compares its members with the index.
fn compare_archive(
    file: &File,
    package: &Package,
    entries: &[IndexEntry<'_>],
) -> Result<std::result::Result<(), String>> {
    let tar = Part {
        file,
        at: package.header().mount_base(),
        end: package.container_len(),
    };
    let mut reader = TarReader::new(io::BufReader::with_capacity(64 << 10, tar));
    let mut seen = vec![false; entries.len()];
    loop {
        let member = match reader.next() {
            Ok(Some(member)) => member,
            Ok(None) => break,
            Err(PackError::Io { what, source }) => return Err(Error::Io { what, source }),
            Err(e) => return Ok(Err(e.to_string())),
        };
        let name = String::from_utf8_lossy(&member.name).into_owned();
        let path = match normalize(&member.name) {
            Ok(path) => path.unwrap_or_default(),
            Err(e) => return Ok(Err(e.to_string())),
        };
        // Members that the index does not list are invisible, and allowed.
        let Ok(place) = entries.binary_search_by(|entry| entry.path.cmp(&path)) else {
            continue;
        };
        let entry = &entries[place];
        let same = entry.kind == member.kind
            && entry.link_target.unwrap_or_default().as_bytes() == member.link
            && (entry.kind != EntryKind::File
                || (entry.size, entry.offset) == (member.size, reader.position()));
        if !same {
            return Ok(Err(format!("{name:?} is not what the index says")));
        }
        seen[place] = true;
    }
    if reader.trailing() {
        return Ok(Err("something follows its end".into()));
    }
    let mut unseen = entries.iter().zip(&seen).filter(|(_, seen)| !**seen);
    Ok(
        match unseen.find(|(entry, _)| entry.kind != EntryKind::Directory) {
            Some((entry, _)) => Err(format!("{:?} is missing", entry.path)),
            None => Ok(()),
        },
    )
}

/// A part of a file, as a stream.
struct Part<'f> {
    file: &'f File,
    at: u64,
    end: u64,
}

impl Read for Part<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let want = (self.end - self.at).min(buffer.len() as u64) as usize;
        let n = self.file.read_at(&mut buffer[..want], self.at)?;
        self.at += n as u64;
        Ok(n)
    }
}

/// Names the files whose content is not what the trailer says of it.
fn compare_content(
    package: &Package,
    entries: &[IndexEntry<'_>],
    ids: &[u32],
    digests: &[u8],
    problems: &mut Vec<Problem>,
) -> Result<()> {
    for (entry, &id) in entries.iter().zip(ids) {
        if entry.kind != EntryKind::File {
            continue;
        }
        let actual = &digests[id as usize * 32..][..32];
        // A table so damaged that it does not know the file shows in the comparison of the trailer.
        let stored = match package.stored_digest(EntryId(id)) {
            Err(Error::Shrunk) => return Err(Error::Shrunk),
            stored => stored.ok().flatten(),
        };
        if stored.is_some_and(|stored| stored != actual) {
            problems.push(Problem::Content {
                path: entry.path.to_owned(),
            });
        }
    }
    Ok(())
}

/// Compares the trailer with what it should be, and the padding before it with zeros.
fn compare_trailer(
    file: &File,
    container_len: u64,
    expected: &[u8],
    problems: &mut Vec<Problem>,
) -> Result<()> {
    let read = Error::io("reading the index");
    let len = file.metadata().map_err(read)?.len();
    let start = len.checked_sub(expected.len() as u64);
    let Some(start) = start.filter(|&start| start >= container_len) else {
        problems.push(Problem::Index { section: "length" });
        return Ok(());
    };
    let mut padding = vec![0; (start - container_len) as usize];
    let mut actual = vec![0; expected.len()];
    for (buffer, at) in [(&mut padding, container_len), (&mut actual, start)] {
        file.read_exact_at(buffer, at)
            .map_err(Error::io("reading the index"))?;
    }
    if padding.iter().any(|&byte| byte != 0) {
        problems.push(Problem::Index { section: "padding" });
    }
    // Content that changed changes digests, and those are reported file by file.
    let footer_at = expected.len() - FOOTER_LEN as usize;
    let digests = match Footer::parse(last(expected), footer_at as u64)? {
        Some(footer) => footer.range(SectionId::Digests),
        None => return Err(Error::corrupt("footer")),
    };
    let (digests, after) = (digests.0 as usize, digests.1 as usize);
    let (digest, end) = (footer_at + FOOTER_DIGESTED, footer_at + FOOTER_END);
    let same = |range: Range<usize>| expected[range.clone()] == actual[range];
    if !same(0..digests) || !same(after..digest) || !same(end..expected.len()) {
        problems.push(Problem::Index { section: "tables" });
    }
    let content = problems
        .iter()
        .any(|p| matches!(p, Problem::Content { .. }));
    if !content && !same(digests..after) {
        problems.push(Problem::Index { section: "digests" });
    }
    Ok(())
}

/// The last bytes of a trailer, its footer.
fn last(trailer: &[u8]) -> &[u8; FOOTER_LEN as usize] {
    trailer.last_chunk().unwrap_or(&[0; FOOTER_LEN as usize])
}

fn hex<S: serde::Serializer>(
    digest: &Digest,
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    serializer.serialize_str(&crate::entry::to_hex(digest))
}
