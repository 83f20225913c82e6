//! Making the trailer: from the published index and the manifest's commands to tables that are read
//! in place.

use std::io::{self, Write};

use rustc_hash::FxHashMap;
use zerocopy::{FromZeros, IntoBytes};

use crate::chunks::Chunks;
use crate::error::{Error, Result};
use crate::header::Header;
use crate::layout::{
    COMMAND_LEN, CommandRecord, FLAG_DIGESTS, FOOTER_DIGESTED, FOOTER_LEN, FOOTER_MAGIC, Footer,
    NO_ENTRY, RECORD_LEN, Record, SECTION_ALIGN, SECTIONS, TRAILER_VERSION, footer_check,
};
use crate::manifest::CommandTarget;
use crate::mount::{EntryKind, IndexEntry};
use crate::view::inline_name;

/// The tables of an index, before they are laid out.
#[derive(Debug)]
pub(crate) struct Tables {
    records: Vec<u8>,
    strings: Vec<u8>,
    commands: Vec<u8>,
    entry_count: u32,
    command_count: u32,
    /// Number of the entry that the mount index lists at each place.
    pub(crate) ids: Vec<u32>,
    manifest_tail: u32,
}

/// The digests of what is in the tar.
#[derive(Debug)]
pub(crate) struct Hashes {
    /// Of the files' content, 32 bytes for each entry, by entry number; zeros for other entries.
    pub(crate) files: Vec<u8>,
    /// Of everything else.
    pub(crate) frame: [u8; 32],
}

/// The digest of all bytes of a tar that belong to no file.
pub(crate) fn hash_frame(tar: &[u8], entries: &[IndexEntry<'_>]) -> [u8; 32] {
    let mut ranges: Vec<(u64, u64)> = entries
        .iter()
        .filter(|entry| entry.kind == EntryKind::File && entry.size != 0)
        .map(|entry| (entry.offset, entry.offset.saturating_add(entry.size)))
        .collect();
    ranges.sort_unstable();
    let mut hasher = blake3::Hasher::new();
    let mut at = 0u64;
    for (start, end) in ranges.into_iter().chain([(tar.len() as u64, u64::MAX)]) {
        if start > at {
            hasher.update(tar.get(at as usize..start as usize).unwrap_or_default());
        }
        at = at.max(end);
    }
    *hasher.finalize().as_bytes()
}

/// Puts every string into the pool once.
#[derive(Default)]
struct Pool<'a> {
    bytes: Vec<u8>,
    seen: FxHashMap<&'a [u8], u32>,
}

impl<'a> Pool<'a> {
    fn add(&mut self, string: &'a [u8]) -> Result<u32> {
        if let Some(&at) = self.seen.get(string) {
            return Ok(at);
        }
        let at = u32::try_from(self.bytes.len())
            .ok()
            .filter(|at| u32::MAX - at > string.len() as u32)
            .ok_or(Error::Limit {
                what: "string pool length",
                limit_name: "u32",
                limit: u32::MAX.into(),
                got: self.bytes.len() as u64,
            })?;
        self.bytes.extend_from_slice(string);
        self.seen.insert(string, at);
        Ok(at)
    }
}

impl Tables {
    /// Arranges a checked index (see [`crate::mount::decode`]) directory by directory.
    pub(crate) fn new(
        entries: &[IndexEntry<'_>],
        commands: &[CommandTarget],
        manifest_tail: usize,
    ) -> Result<Tables> {
        let parents = find_parents(entries)?;
        let (order, ids, children) = arrange(entries, &parents);
        let mut pool = Pool::default();
        let mut records = Vec::with_capacity(entries.len() * RECORD_LEN);
        for &place in &order {
            let entry = &entries[place as usize];
            let name = file_name(entry.path).as_bytes();
            let (size, data) = match (entry.kind, entry.link_target) {
                (EntryKind::Directory, _) => {
                    let (first, count) = children[place as usize];
                    (count.into(), first.into())
                }
                (EntryKind::Symlink, target) => {
                    let target = target.unwrap_or_default().as_bytes();
                    (target.len() as u64, pool.add(target)?.into())
                }
                (EntryKind::File, _) => (entry.size, entry.offset),
            };
            let record = Record {
                parent: ids[parents[place as usize] as usize].into(),
                name_at: pool.add(name)?.into(),
                name_len: (name.len() as u16).into(),
                kind: entry.kind.number(),
                reserved: 0,
                mode: (entry.mode & 0o7777 | entry.kind.mode_bits()).into(),
                uid: entry.uid.into(),
                gid: entry.gid.into(),
                mtime: entry.mtime.into(),
                size: size.into(),
                data: data.into(),
                name: inline_name(name),
            };
            records.extend_from_slice(record.as_bytes());
        }
        let mut command_records = Vec::with_capacity(commands.len() * COMMAND_LEN);
        for command in commands {
            let path = command.entry.strip_prefix("./").unwrap_or(&command.entry);
            let path = path.strip_prefix('/').unwrap_or(path);
            let entry = entries
                .binary_search_by(|entry| entry.path.cmp(path))
                .ok()
                .filter(|&place| entries[place].kind != EntryKind::Directory)
                .map_or(NO_ENTRY, |place| ids[place]);
            let record = CommandRecord {
                name_at: pool.add(command.command.as_bytes())?.into(),
                name_len: (command.command.len() as u32).into(),
                path_at: pool.add(path.as_bytes())?.into(),
                path_len: (path.len() as u32).into(),
                entry: entry.into(),
                reserved: 0.into(),
            };
            command_records.extend_from_slice(record.as_bytes());
        }
        Ok(Tables {
            records,
            strings: pool.bytes,
            commands: command_records,
            entry_count: entries.len() as u32,
            command_count: commands.len() as u32,
            ids,
            manifest_tail: manifest_tail as u32,
        })
    }

    /// The tables alone, for a package that is opened without a trailer and without a cache: no
    /// automatons, no digests.
    pub(crate) fn plain(&self, header: &Header, container_len: u64) -> Result<(Vec<u8>, Footer)> {
        let mut out = Vec::new();
        let mut footer = self.new_footer(header, container_len);
        let sections = [
            &self.records,
            &self.strings,
            &[][..],
            &[],
            &self.commands,
            &[],
        ];
        lay_out(sections, &mut footer, |bytes| out.write_all(bytes))
            .map_err(Error::io("index tables"))?;
        Ok((out, footer))
    }

    /// Writes the whole trailer, footer included, and returns the package's digest.
    ///
    pub(crate) fn write(
        &self,
        chunks: &Chunks,
        entries: &[IndexEntry<'_>],
        commands: &[CommandTarget],
        hashes: &Hashes,
        container_len: u64,
        out: &mut dyn Write,
    ) -> io::Result<[u8; 32]> {
        let paths = automaton(
            entries
                .iter()
                .zip(&self.ids)
                .map(|(entry, &id)| (entry.path.as_bytes(), id.into())),
        )?;
        let names = automaton(
            commands
                .iter()
                .zip(0u64..)
                .map(|(command, index)| (command.command.as_bytes(), index)),
        )?;
        let sections: [&[u8]; SECTIONS] = [
            &self.records,
            &self.strings,
            &hashes.files,
            &paths,
            &self.commands,
            &names,
        ];
        let mut footer = self.new_footer(&chunks.header, container_len);
        footer.flags = FLAG_DIGESTS.into();
        footer.frame = hashes.frame;
        let mut hasher = chunks.hasher();
        lay_out(sections, &mut footer, |bytes| {
            hasher.update(bytes);
            out.write_all(bytes)
        })?;
        hasher.update(&footer.as_bytes()[..FOOTER_DIGESTED]);
        let digest = *hasher.finalize().as_bytes();
        footer.digest = digest;
        let mut bytes = [0; FOOTER_LEN as usize];
        bytes.copy_from_slice(footer.as_bytes());
        footer.check = footer_check(&bytes);
        out.write_all(footer.as_bytes())?;
        Ok(digest)
    }

    fn new_footer(&self, header: &Header, container_len: u64) -> Footer {
        let mut footer = Footer::new_zeroed();
        footer.magic = FOOTER_MAGIC;
        footer.end_magic = FOOTER_MAGIC;
        footer.version = TRAILER_VERSION.into();
        footer.footer_len = (FOOTER_LEN as u32).into();
        footer.header = header.encode();
        footer.container_len = container_len.into();
        footer.entries = self.entry_count.into();
        footer.commands = self.command_count.into();
        footer.manifest_tail = self.manifest_tail.into();
        footer
    }
}

/// Writes the sections one after another and notes where they lie.
fn lay_out(
    sections: [&[u8]; SECTIONS],
    footer: &mut Footer,
    mut put: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    const ZEROS: [u8; SECTION_ALIGN as usize] = [0; SECTION_ALIGN as usize];
    let mut at = 0u64;
    for (section, place) in sections.iter().zip(&mut footer.sections) {
        place.at = at.into();
        place.len = (section.len() as u64).into();
        put(section)?;
        let end = at + section.len() as u64;
        at = end.next_multiple_of(SECTION_ALIGN);
        put(&ZEROS[..(at - end) as usize])?;
    }
    footer.trailer_len = at.into();
    Ok(())
}

/// An automaton over sorted keys.
fn automaton<'k>(pairs: impl Iterator<Item = (&'k [u8], u64)>) -> io::Result<Vec<u8>> {
    let mut builder = fst::MapBuilder::memory();
    for (key, value) in pairs {
        builder.insert(key, value).map_err(io::Error::other)?;
    }
    builder.into_inner().map_err(io::Error::other)
}

fn file_name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

/// The place of every entry's directory in the index.
fn find_parents(entries: &[IndexEntry<'_>]) -> Result<Vec<u32>> {
    let mut directories: FxHashMap<&str, u32> = FxHashMap::default();
    let mut parents = Vec::with_capacity(entries.len());
    // Neighbours mostly share their directory.
    let mut last = ("", 0u32);
    for (entry, place) in entries.iter().zip(0u32..) {
        if place == 0 {
            parents.push(0);
        } else {
            let directory = entry.path.rsplit_once('/').map_or("", |(dir, _)| dir);
            if directory != last.0 {
                let Some(&found) = directories.get(directory) else {
                    return Err(Error::Malformed {
                        chunk: "mount index",
                        at: 0,
                        what: format!("/{}: its directory is not in the index", entry.path),
                    });
                };
                last = (directory, found);
            }
            parents.push(last.1);
        }
        if entry.kind == EntryKind::Directory {
            directories.insert(entry.path, place);
        }
    }
    Ok(parents)
}

/// Numbers the entries so that the children of every directory follow one another in order of
/// name, directories in the order in which they were numbered themselves.
///
/// Returns the places by number, the numbers by place, and each place's children (first number and
/// count).
fn arrange(entries: &[IndexEntry<'_>], parents: &[u32]) -> (Vec<u32>, Vec<u32>, Vec<(u32, u32)>) {
    let mut sorted: Vec<u32> = (1..entries.len() as u32).collect();
    sorted.sort_unstable_by(|&a, &b| {
        parents[a as usize].cmp(&parents[b as usize]).then_with(|| {
            file_name(entries[a as usize].path).cmp(file_name(entries[b as usize].path))
        })
    });
    // Where each place's children lie in `sorted`.
    let mut slices = vec![(0u32, 0u32); entries.len()];
    for (&place, at) in sorted.iter().zip(0u32..) {
        let slice = &mut slices[parents[place as usize] as usize];
        if slice.1 == 0 {
            slice.0 = at;
        }
        slice.1 += 1;
    }
    let mut order: Vec<u32> = Vec::with_capacity(entries.len());
    let mut ids = vec![0u32; entries.len()];
    let mut children = vec![(0u32, 0u32); entries.len()];
    order.push(0);
    let mut done = 0;
    while let Some(&place) = order.get(done) {
        done += 1;
        let (at, count) = slices[place as usize];
        if count != 0 {
            children[place as usize] = (order.len() as u32, count);
        }
        for &child in &sorted[at as usize..(at + count) as usize] {
            ids[child as usize] = order.len() as u32;
            order.push(child);
        }
    }
    (order, ids, children)
}
