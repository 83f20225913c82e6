//! Laying a package out and writing it.
//!
//! Everything that decides where a byte goes is known before the first one is written: the index
//! holds its offsets in fixed-width fields, so its length does not depend on them. That lets the
//! content arrive in any order (a tarball's, say) and be written to its place, while the result
//! depends only on the entries.

use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;

use crate::build::{Hashes, Tables};
use crate::chunks::Chunks;
use crate::entry::Digest;
use crate::error::{Error, Result};
use crate::header::{HEADER_LEN, Header, Schema};
use crate::limits::{
    ALIGN_FROM, MAX_COMMANDS, MAX_ENTRIES, MAX_INDEX, MAX_MANIFEST, PAGE, TAR_BLOCK,
};
use crate::manifest::{CommandTarget, Manifest};
use crate::mount::{self, EntryKind, IndexEntry};

/// How a package is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteOptions {
    /// Version of container and chunks.
    pub schema: Schema,
    /// Append the index trailer.
    pub index: bool,
    /// Begin the data of files of 4 KiB and more on a page.
    pub align: bool,
}

impl Default for WriteOptions {
    fn default() -> Self {
        WriteOptions {
            schema: Schema::V1,
            index: true,
            align: true,
        }
    }
}

/// An entry to be written. Lists of them are sorted by path and begin with the root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewEntry {
    /// Without a leading slash; the root is empty.
    pub(crate) path: String,
    pub(crate) kind: EntryKind,
    /// Permission bits.
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) mtime: i64,
    pub(crate) size: u64,
    pub(crate) link_target: Option<String>,
}

impl NewEntry {
    /// The root, as published packages have it.
    pub(crate) fn root() -> NewEntry {
        NewEntry {
            path: String::new(),
            kind: EntryKind::Directory,
            mode: 0o755,
            uid: 0,
            gid: 0,
            mtime: 0,
            size: 0,
            link_target: None,
        }
    }
}

/// A package that is laid out and whose content is still to be written.
#[derive(Debug)]
pub(crate) struct Layout<'e> {
    options: WriteOptions,
    entries: &'e [NewEntry],
    commands: &'e [CommandTarget],
    chunks: Chunks,
    /// Offsets of the entries' data in the tar, and the bytes of each entry's members before it.
    offsets: Vec<u64>,
    members: Vec<Member>,
    tar_len: u64,
    digests: Vec<Digest>,
    /// Everything in the tar that is not content, in order.
    frame: blake3::Hasher,
}

/// Where an entry's tar headers lie, from the start of the tar.
#[derive(Debug, Clone, Copy)]
struct Member {
    at: u64,
    /// Bytes of the pad member, its header included; 0 when there is none.
    pad: u64,
}

impl<'e> Layout<'e> {
    /// Lays out a package. The entries must be sorted, checked and start with the root.
    pub(crate) fn new(
        options: WriteOptions,
        manifest: &Manifest,
        commands: &'e [CommandTarget],
        entries: &'e [NewEntry],
    ) -> Result<Layout<'e>> {
        within(
            "number of entries",
            "MAX_ENTRIES",
            MAX_ENTRIES,
            entries.len(),
        )?;
        within(
            "number of commands",
            "MAX_COMMANDS",
            MAX_COMMANDS,
            commands.len(),
        )?;
        let manifest = manifest.encode(options.schema, commands);
        within(
            "manifest length",
            "MAX_MANIFEST",
            MAX_MANIFEST,
            manifest.len(),
        )?;
        // Encoded once for its length, with every offset 0.
        let mut offsets = vec![0; entries.len()];
        let bare_len = encode_index(options.schema, entries, &offsets).len();
        let unpadded = HEADER_LEN + (manifest.len() + bare_len) as u64;
        let padding = if options.align {
            unpadded.next_multiple_of(TAR_BLOCK) - unpadded
        } else {
            0
        };
        let index_len = bare_len + padding as usize;
        within("mount index length", "MAX_INDEX", MAX_INDEX, index_len)?;
        let header = Header {
            schema: options.schema,
            manifest_len: manifest.len() as u32,
            index_len: index_len as u32,
        };

        let mut members = Vec::with_capacity(entries.len());
        let mut at = 0u64;
        for (entry, offset) in entries.iter().zip(&mut offsets) {
            if entry.path.is_empty() {
                members.push(Member { at, pad: 0 });
                continue;
            }
            let headers = headers_len(entry);
            let pad = if options.align && entry.kind == EntryKind::File && entry.size >= ALIGN_FROM
            {
                pad_len(header.mount_base() + at + headers)
            } else {
                0
            };
            members.push(Member { at, pad });
            let data = at + pad + headers;
            if entry.kind == EntryKind::File {
                *offset = data;
            }
            let size = if entry.kind == EntryKind::File {
                entry.size
            } else {
                0
            };
            at = size
                .checked_next_multiple_of(TAR_BLOCK)
                .and_then(|len| data.checked_add(len))
                .filter(|&end| end < i64::MAX as u64 / 2)
                .ok_or(Error::Limit {
                    what: "package length",
                    limit_name: "i64::MAX / 2",
                    limit: i64::MAX as u64 / 2,
                    got: entry.size,
                })?;
        }
        let mut index = encode_index(options.schema, entries, &offsets);
        index.resize(index_len, 0);
        Ok(Layout {
            options,
            entries,
            commands,
            chunks: Chunks {
                header,
                manifest,
                index,
            },
            offsets,
            members,
            tar_len: at + 2 * TAR_BLOCK,
            digests: vec![[0; 32]; entries.len()],
            frame: blake3::Hasher::new(),
        })
    }

    /// Writes everything but the content of files and the trailer.
    pub(crate) fn write_frame(&mut self, out: &File) -> io::Result<()> {
        let base = self.chunks.header.mount_base();
        // Padding and the end of the archive are zeros, and so are holes.
        out.set_len(base + self.tar_len)?;
        let mut start = self.chunks.header.encode().to_vec();
        start.extend_from_slice(&self.chunks.manifest);
        start.extend_from_slice(&self.chunks.index);
        out.write_all_at(&start, 0)?;
        let mut buffer = Vec::new();
        for (entry, member) in self.entries.iter().zip(&self.members) {
            if entry.path.is_empty() {
                continue;
            }
            buffer.clear();
            put_headers(&mut buffer, entry, member.pad)?;
            out.write_all_at(&buffer, base + member.at)?;
            if entry.kind == EntryKind::File {
                let padding = entry.size.next_multiple_of(TAR_BLOCK) - entry.size;
                buffer.resize(buffer.len() + padding as usize, 0);
            }
            self.frame.update(&buffer);
        }
        self.frame.update(&[0; 2 * TAR_BLOCK as usize]);
        Ok(())
    }

    /// Writes one file's content and notes its digest. Fails with `UnexpectedEof` when there is
    /// less content than was laid out, with `InvalidData` when there is more.
    pub(crate) fn write_content(
        &mut self,
        out: &File,
        place: usize,
        content: &mut dyn Read,
    ) -> io::Result<()> {
        let mut at = self.chunks.header.mount_base() + self.offsets[place];
        let mut left = self.entries[place].size;
        let mut hasher = blake3::Hasher::new();
        let mut buffer = vec![0; (left.min(128 << 10) as usize).max(1)];
        while left != 0 {
            let want = left.min(buffer.len() as u64) as usize;
            let n = match content.read(&mut buffer[..want]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            };
            hasher.update(&buffer[..n]);
            out.write_all_at(&buffer[..n], at)?;
            at += n as u64;
            left -= n as u64;
        }
        if content.read(&mut buffer[..1])? != 0 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.digests[place] = *hasher.finalize().as_bytes();
        Ok(())
    }

    /// Appends the trailer, if the options ask for one, and returns the package's digest.
    pub(crate) fn finish(self, out: &File) -> Result<Digest> {
        let entries: Vec<IndexEntry<'_>> = index_entries(self.entries, &self.offsets).collect();
        // The offset of the field after the commands is easiest read from what was written.
        let (_, manifest_tail) = self.chunks.commands()?;
        let tables = Tables::new(&entries, self.commands, manifest_tail)?;
        let mut digests = vec![0; self.entries.len() * 32];
        for ((entry, digest), &id) in self.entries.iter().zip(&self.digests).zip(&tables.ids) {
            if entry.kind == EntryKind::File {
                digests[id as usize * 32..][..32].copy_from_slice(digest);
            }
        }
        let base = self.chunks.header.mount_base();
        let len = base + self.tar_len;
        let hashes = Hashes {
            files: digests,
            frame: *self.frame.finalize().as_bytes(),
        };
        let write = |to: &mut dyn Write| {
            tables.write(&self.chunks, &entries, self.commands, &hashes, len, to)
        };
        if self.options.index {
            append_trailer(out, len, write).map_err(Error::io("writing the index"))
        } else {
            write(&mut io::sink()).map_err(Error::io("package digest"))
        }
    }
}

/// Appends a trailer to a container of `len` bytes.
pub(crate) fn append_trailer(
    out: &File,
    len: u64,
    write: impl FnOnce(&mut dyn Write) -> io::Result<Digest>,
) -> io::Result<Digest> {
    let at = len.next_multiple_of(PAGE);
    out.set_len(at)?;
    let mut out = BufWriter::with_capacity(1 << 20, out);
    out.seek(SeekFrom::Start(at))?;
    let digest = write(&mut out)?;
    out.flush()?;
    Ok(digest)
}

fn within(what: &'static str, limit_name: &'static str, limit: u32, got: usize) -> Result<()> {
    if got as u64 > u64::from(limit) {
        return Err(Error::Limit {
            what,
            limit_name,
            limit: limit.into(),
            got: got as u64,
        });
    }
    Ok(())
}

fn index_entries<'e>(
    entries: &'e [NewEntry],
    offsets: &'e [u64],
) -> impl Iterator<Item = IndexEntry<'e>> {
    entries
        .iter()
        .zip(offsets)
        .map(|(entry, &offset)| IndexEntry {
            path: &entry.path,
            kind: entry.kind,
            offset,
            size: if entry.kind == EntryKind::File {
                entry.size
            } else {
                0
            },
            mode: entry.mode & 0o7777 | entry.kind.mode_bits(),
            uid: entry.uid,
            gid: entry.gid,
            mtime: entry.mtime,
            link_target: entry.link_target.as_deref(),
        })
}

fn encode_index(schema: Schema, entries: &[NewEntry], offsets: &[u64]) -> Vec<u8> {
    mount::encode(schema, entries.len(), index_entries(entries, offsets))
}

/// The name of an entry's tar member.
fn member_name(entry: &NewEntry) -> String {
    match entry.kind {
        EntryKind::Directory => format!("{}/", entry.path),
        _ => entry.path.clone(),
    }
}

/// What the name fields of a tar header hold; longer names need a member of their own.
const NAME_FIELD: usize = 100;

/// Bytes of a long name's own member: header and content with its terminating NUL.
fn long_name_len(len: usize) -> u64 {
    if len > NAME_FIELD {
        TAR_BLOCK + (len as u64 + 1).next_multiple_of(TAR_BLOCK)
    } else {
        0
    }
}

/// Bytes of an entry's headers.
fn headers_len(entry: &NewEntry) -> u64 {
    let name = entry.path.len() + usize::from(entry.kind == EntryKind::Directory);
    let link = entry.link_target.as_ref().map_or(0, String::len);
    long_name_len(name) + long_name_len(link) + TAR_BLOCK
}

/// Bytes of the pad member that moves data from `at` to the next page: its header and a comment
/// of at least one block.
fn pad_len(at: u64) -> u64 {
    match at.next_multiple_of(PAGE) - at {
        0 => 0,
        TAR_BLOCK => TAR_BLOCK + PAGE,
        gap => gap,
    }
}

/// Writes an entry's headers, the pad member first.
fn put_headers(out: &mut Vec<u8>, entry: &NewEntry, pad: u64) -> io::Result<()> {
    if pad != 0 {
        put_pad(out, pad)?;
    }
    let name = member_name(entry);
    let link = entry.link_target.as_deref().unwrap_or_default();
    for (text, kind) in [
        (link, tar::EntryType::GNULongLink),
        (&name, tar::EntryType::GNULongName),
    ] {
        if text.len() > NAME_FIELD {
            put_long_name(out, text, kind)?;
        }
    }
    let mut header = tar::Header::new_gnu();
    set_field(&mut header.as_old_mut().name, name.as_bytes());
    set_field(&mut header.as_old_mut().linkname, link.as_bytes());
    header.set_mode(entry.mode & 0o7777);
    header.set_uid(entry.uid.into());
    header.set_gid(entry.gid.into());
    header.set_entry_type(match entry.kind {
        EntryKind::File => tar::EntryType::Regular,
        EntryKind::Directory => tar::EntryType::Directory,
        EntryKind::Symlink => tar::EntryType::Symlink,
    });
    header.set_size(if entry.kind == EntryKind::File {
        entry.size
    } else {
        0
    });
    match u64::try_from(entry.mtime) {
        Ok(mtime) => header.set_mtime(mtime),
        Err(_) => {
            // Before 1970: the base-256 form, a sign-extended big-endian number.
            let field = &mut header.as_old_mut().mtime;
            *field = [0xff; 12];
            field[4..].copy_from_slice(&entry.mtime.to_be_bytes());
        }
    }
    header.set_cksum();
    out.extend_from_slice(header.as_bytes());
    Ok(())
}

fn set_field(field: &mut [u8; NAME_FIELD], text: &[u8]) {
    let len = text.len().min(NAME_FIELD);
    field[..len].copy_from_slice(&text[..len]);
}

/// A member that holds the long name of the member after it.
fn put_long_name(out: &mut Vec<u8>, text: &str, kind: tar::EntryType) -> io::Result<()> {
    let mut header = extension_header("././@LongLink", kind, text.len() as u64 + 1);
    header.set_cksum();
    out.extend_from_slice(header.as_bytes());
    out.extend_from_slice(text.as_bytes());
    out.resize(out.len() + 1, 0);
    let end = out.len().next_multiple_of(TAR_BLOCK as usize);
    out.resize(end, 0);
    Ok(())
}

/// A member that only takes room: a global PAX header with nothing but a comment, which every tar
/// reads over and none unpacks.
fn put_pad(out: &mut Vec<u8>, len: u64) -> io::Result<()> {
    let data = len - TAR_BLOCK;
    let mut header = extension_header("aospkg-pad", tar::EntryType::XGlobalHeader, data);
    header.set_cksum();
    out.extend_from_slice(header.as_bytes());
    // "LEN comment=...\n", where LEN counts itself.
    let record = format!("{data} comment=");
    out.extend_from_slice(record.as_bytes());
    let dots = (data as usize)
        .checked_sub(record.len() + 1)
        .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    out.resize(out.len() + dots, b'.');
    out.push(b'\n');
    Ok(())
}

fn extension_header(name: &str, kind: tar::EntryType, size: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    set_field(&mut header.as_old_mut().name, name.as_bytes());
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_entry_type(kind);
    header.set_size(size);
    header
}
