//! Reading the index tables where they lie.
//!
//! A [`View`] is a set of slices over a trailer, from a package, a cache file or memory. Every
//! number it reads is checked before it is used, because none of it is trusted; see
//! [`crate::layout`] for the records. Two rules make every walk finite whatever the bytes say: a
//! directory's children have larger numbers than it has, and each child names that directory as its
//! parent. So the entries that can be reached are a tree with no more nodes than there are records.

use zerocopy::FromBytes;

use crate::entry::{Command, Entry, EntryId};
use crate::error::{Error, Result};
use crate::fst_get;
use crate::layout::{
    COMMAND_LEN, CommandRecord, Footer, INLINE_NAME, NO_ENTRY, RECORD_LEN, Record, SectionId,
};
use crate::limits::{MAX_DEPTH, MAX_PATH};
use crate::mount::EntryKind;
use crate::names;

/// The index tables of one package.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View<'a> {
    /// All bytes of the trailer.
    trailer: &'a [u8],
    footer: &'a Footer,
    /// Bytes of the tar.
    mount_len: u64,
}

impl<'a> View<'a> {
    pub(crate) fn new(trailer: &'a [u8], footer: &'a Footer, mount_len: u64) -> Self {
        View {
            trailer,
            footer,
            mount_len,
        }
    }

    #[inline]
    fn section(&self, id: SectionId) -> &'a [u8] {
        let (start, end) = self.footer.range(id);
        self.trailer
            .get(start as usize..end as usize)
            .unwrap_or_default()
    }

    pub(crate) fn entry_count(&self) -> u32 {
        self.footer.entries.get()
    }

    pub(crate) fn command_count(&self) -> u32 {
        self.footer.commands.get()
    }

    #[inline]
    pub(crate) fn record(&self, id: EntryId) -> Result<Record> {
        record_in(self.section(SectionId::Entries), id.0)
    }

    fn string(&self, at: u64, len: u64) -> Result<&'a [u8]> {
        string_in(self.section(SectionId::Strings), at, len)
    }

    /// The whole entry, checked.
    pub(crate) fn entry(&self, id: EntryId) -> Result<Entry<'a>> {
        self.describe(id, &self.record(id)?)
    }

    fn describe(&self, id: EntryId, record: &Record) -> Result<Entry<'a>> {
        let kind = kind_of(record)?;
        let parent = record.parent.get();
        let name = if id == EntryId::ROOT {
            &[]
        } else {
            if parent >= id.0 {
                return Err(Error::corrupt("entry before its directory"));
            }
            let name = self.string(record.name_at.get().into(), record.name_len.get().into())?;
            names::check_component(name).map_err(|_| Error::corrupt("entry name"))?;
            name
        };
        let link_target = match kind {
            EntryKind::Symlink => {
                let target = self.string(record.data.get(), record.size.get())?;
                if !names::valid_link_target(target) {
                    return Err(Error::corrupt("link target"));
                }
                Some(target)
            }
            _ => None,
        };
        Ok(Entry {
            id,
            parent: EntryId(parent),
            kind,
            mode: record.mode.get() & 0o7777 | kind.mode_bits(),
            uid: record.uid.get(),
            gid: record.gid.get(),
            mtime: record.mtime.get(),
            size: match kind {
                EntryKind::Directory => 0,
                _ => record.size.get(),
            },
            name,
            link_target,
        })
    }

    /// Offset and length of a file's data in the tar.
    #[inline]
    pub(crate) fn data(&self, id: EntryId) -> Result<(u64, u64)> {
        let record = self.record(id)?;
        if kind_of(&record)? != EntryKind::File {
            return Err(Error::NotAFile(id.0));
        }
        let (at, len) = (record.data.get(), record.size.get());
        match at.checked_add(len) {
            Some(end) if end <= self.mount_len => Ok((at, len)),
            _ => Err(Error::corrupt("file data past the end of the package")),
        }
    }

    /// First child and number of children.
    #[inline]
    pub(crate) fn children(&self, id: EntryId) -> Result<(u32, u32)> {
        let record = self.record(id)?;
        if kind_of(&record)? != EntryKind::Directory {
            return Err(Error::NotADirectory(id.0));
        }
        children_of(id, &record, self.entry_count())
    }

    /// The `index`th child of a directory whose children [`View::children`] gave.
    pub(crate) fn child(&self, dir: EntryId, id: EntryId) -> Result<Entry<'a>> {
        let record = self.record(id)?;
        if record.parent.get() != dir.0 {
            return Err(Error::corrupt("entry in two directories"));
        }
        self.describe(id, &record)
    }

    /// Finds a child by name. The hot path of every path walk.
    #[inline]
    pub(crate) fn lookup(&self, dir: EntryId, name: &[u8]) -> Result<Option<EntryId>> {
        let entries = self.section(SectionId::Entries);
        let record = record_in(entries, dir.0)?;
        if kind_of(&record)? != EntryKind::Directory {
            return Err(Error::NotADirectory(dir.0));
        }
        let (first, count) = children_of(dir, &record, self.entry_count())?;
        let wanted = inline_key(name);
        let (mut low, mut high) = (first, first + count);
        while low < high {
            let middle = low + (high - low) / 2;
            let at = middle as usize * RECORD_LEN;
            let Some(bytes) = entries.get(at..at + RECORD_LEN) else {
                return Err(Error::corrupt("entry table"));
            };
            let mut inline = [0; INLINE_NAME];
            inline.copy_from_slice(&bytes[RECORD_LEN - INLINE_NAME..]);
            let mut order = u128::from_be_bytes(inline).cmp(&wanted);
            if order.is_eq() && name.len() > INLINE_NAME {
                let record = record_in(entries, middle)?;
                let whole =
                    self.string(record.name_at.get().into(), record.name_len.get().into())?;
                order = whole.cmp(name);
            } else if order.is_eq() {
                // A longer name with the same first bytes, or a name with NUL bytes at its end.
                let record = record_in(entries, middle)?;
                order = usize::from(record.name_len.get()).cmp(&name.len());
            }
            match order {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => {
                    if record_in(entries, middle)?.parent.get() != dir.0 {
                        return Err(Error::corrupt("entry in two directories"));
                    }
                    return Ok(Some(EntryId(middle)));
                }
            }
        }
        Ok(None)
    }

    /// Finds an entry by its path from the root, component by component.
    pub(crate) fn walk(&self, path: &[u8]) -> Result<Option<EntryId>> {
        let mut at = EntryId::ROOT;
        if path.is_empty() {
            return Ok(Some(at));
        }
        for component in path.split(|&b| b == b'/') {
            match self.lookup(at, component) {
                Ok(Some(next)) => at = next,
                Ok(None) | Err(Error::NotADirectory(_)) => return Ok(None),
                Err(e) => return Err(e),
            }
        }
        Ok(Some(at))
    }

    /// Whether there is an automaton over whole paths.
    pub(crate) fn has_paths(&self) -> bool {
        let (start, end) = self.footer.range(SectionId::Paths);
        start != end
    }

    /// Finds an entry by its path from the root, in the automaton.
    #[inline]
    pub(crate) fn find_path(&self, path: &[u8]) -> Result<Option<EntryId>> {
        if path.len() > MAX_PATH {
            return Ok(None);
        }
        match fst_get::get(self.section(SectionId::Paths), path)? {
            Some(id) if id < u64::from(self.entry_count()) => Ok(Some(EntryId(id as u32))),
            Some(_) => Err(Error::corrupt("path automaton")),
            None => Ok(None),
        }
    }

    /// The path of an entry, without the leading slash.
    pub(crate) fn path_of(&self, id: EntryId) -> Result<Vec<u8>> {
        let mut names = Vec::new();
        let mut at = id;
        while at != EntryId::ROOT {
            if names.len() == MAX_DEPTH {
                return Err(Error::corrupt("path depth"));
            }
            let entry = self.entry(at)?;
            names.push(entry.name);
            at = entry.parent;
        }
        names.reverse();
        Ok(names.join(&b'/'))
    }

    /// The digest kept for an entry.
    pub(crate) fn digest(&self, id: EntryId) -> Result<Option<[u8; 32]>> {
        let digests = self.section(SectionId::Digests);
        if digests.is_empty() {
            return Ok(None);
        }
        let at = id.0 as usize * 32;
        let bytes = digests.get(at..at + 32).ok_or(Error::NoSuchEntry(id.0))?;
        let mut digest = [0; 32];
        digest.copy_from_slice(bytes);
        Ok(Some(digest))
    }

    /// The `index`th command in order of name.
    pub(crate) fn command_at(&self, index: u32) -> Result<Option<Command<'a>>> {
        let commands = self.section(SectionId::Commands);
        let at = index as usize * COMMAND_LEN;
        let Some(bytes) = commands.get(at..at + COMMAND_LEN) else {
            return Ok(None);
        };
        let record =
            CommandRecord::read_from_bytes(bytes).map_err(|_| Error::corrupt("command table"))?;
        let name = self.string(record.name_at.get().into(), record.name_len.get().into())?;
        names::check_command(name).map_err(|_| Error::corrupt("command name"))?;
        let path = self.string(record.path_at.get().into(), record.path_len.get().into())?;
        let entry = match record.entry.get() {
            NO_ENTRY => None,
            id if id < self.entry_count() => Some(EntryId(id)),
            _ => return Err(Error::corrupt("command entry")),
        };
        Ok(Some(Command {
            index,
            name,
            path,
            entry,
        }))
    }

    /// Finds a command by name.
    pub(crate) fn command(&self, name: &[u8]) -> Result<Option<Command<'a>>> {
        let index = match self.section(SectionId::CommandNames) {
            [] => return self.search_command(name),
            fst => fst_get::get(fst, name)?,
        };
        let Some(index) = index else {
            return Ok(None);
        };
        let command = match u32::try_from(index) {
            Ok(index) => self.command_at(index)?,
            Err(_) => None,
        };
        match command {
            Some(command) if command.name == name => Ok(Some(command)),
            _ => Err(Error::corrupt("command automaton")),
        }
    }

    /// Finds a command in the sorted table, for an index without automatons.
    fn search_command(&self, name: &[u8]) -> Result<Option<Command<'a>>> {
        let (mut low, mut high) = (0, self.command_count());
        while low < high {
            let middle = low + (high - low) / 2;
            let Some(command) = self.command_at(middle)? else {
                return Err(Error::corrupt("command table"));
            };
            match command.name.cmp(name) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Ok(Some(command)),
            }
        }
        Ok(None)
    }
}

#[inline]
fn record_in(entries: &[u8], id: u32) -> Result<Record> {
    let at = id as usize * RECORD_LEN;
    let bytes = entries
        .get(at..at + RECORD_LEN)
        .ok_or(Error::NoSuchEntry(id))?;
    Record::read_from_bytes(bytes).map_err(|_| Error::corrupt("entry table"))
}

#[inline]
fn string_in(strings: &[u8], at: u64, len: u64) -> Result<&[u8]> {
    at.checked_add(len)
        .and_then(|end| strings.get(usize::try_from(at).ok()?..usize::try_from(end).ok()?))
        .ok_or(Error::corrupt("string past the pool"))
}

#[inline]
fn kind_of(record: &Record) -> Result<EntryKind> {
    EntryKind::from_number(record.kind.into()).ok_or(Error::corrupt("entry kind"))
}

#[inline]
fn children_of(id: EntryId, record: &Record, entries: u32) -> Result<(u32, u32)> {
    let (first, count) = (record.data.get(), record.size.get());
    let fits = first
        .checked_add(count)
        .is_some_and(|end| end <= entries.into());
    if !fits || (count != 0 && first <= id.0.into()) {
        return Err(Error::corrupt("children"));
    }
    Ok((first as u32, count as u32))
}

/// A name's first bytes as a number that orders as the bytes do.
#[inline]
pub(crate) fn inline_key(name: &[u8]) -> u128 {
    u128::from_be_bytes(inline_name(name))
}

/// A name's first bytes, filled up with zeros.
#[inline]
pub(crate) fn inline_name(name: &[u8]) -> [u8; INLINE_NAME] {
    let mut inline = [0; INLINE_NAME];
    let len = name.len().min(INLINE_NAME);
    inline[..len].copy_from_slice(&name[..len]);
    inline
}
