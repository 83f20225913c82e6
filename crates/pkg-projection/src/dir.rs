//! Directories: one or several layers of entries seen as one.
//!
//! Most directories have a single layer, a directory of one package. The others are laid one over
//! the other, the first that has a name deciding what it is; if that is a directory, the
//! directories of this name in the layers below are part of it.

use crate::leaf::{File, Link};
use crate::members::{Id, errno};
use crate::table::{
    Layer, Node, Place, StaticDir, Table, command_ino, current_ino, entry_ino, static_ino,
};
use aospkg_format::{EntryId, EntryKind};
use std::any::Any;
use std::sync::Arc;
use vfs_core::{
    Caller, DirEntry, Errno, FileOps, FileType, Inode, InodeRef, OpenFlags, Result, Stat, Timespec,
};

/// A directory.
pub(crate) struct Dir {
    table: Arc<Table>,
    layers: Layers,
}

/// At least one layer.
enum Layers {
    One(Layer),
    Many(Box<[Layer]>),
}

/// What a layer has under a name.
enum Hit {
    Static(u32),
    Current(Id),
    Entry(Id, EntryId, EntryKind),
    Command(Id, u32, Place),
}

impl Hit {
    fn ino(&self) -> u64 {
        match *self {
            Hit::Static(dir) => static_ino(dir),
            Hit::Current(member) => current_ino(member),
            Hit::Entry(member, id, _) => entry_ino(member, id),
            Hit::Command(member, index, place) => command_ino(member, index, place),
        }
    }

    fn kind(&self) -> FileType {
        match self {
            Hit::Static(_) => FileType::Directory,
            Hit::Current(_) | Hit::Command(..) => FileType::Symlink,
            Hit::Entry(_, _, kind) => file_type(*kind),
        }
    }
}

fn file_type(kind: EntryKind) -> FileType {
    match kind {
        EntryKind::File => FileType::Regular,
        EntryKind::Directory => FileType::Directory,
        EntryKind::Symlink => FileType::Symlink,
    }
}

impl Table {
    fn node(&self, node: &Node) -> Result<Hit> {
        Ok(match *node {
            Node::Dir(dir) => Hit::Static(dir),
            Node::Current(member) => Hit::Current(member),
            Node::Entry(member, id) => self.entry(member, id)?,
        })
    }

    fn entry(&self, member: Id, id: EntryId) -> Result<Hit> {
        let kind = self.members[member as usize]
            .package
            .entry(id)
            .map_err(errno)?
            .kind;
        Ok(Hit::Entry(member, id, kind))
    }

    /// What a layer has under a name, if anything.
    fn find(&self, layer: Layer, name: &[u8]) -> Result<Option<Hit>> {
        match layer {
            Layer::Static(dir) => {
                let entries = &self.dirs[dir as usize].entries;
                match entries.binary_search_by(|(n, _)| (**n).cmp(name)) {
                    Ok(at) => self.node(&entries[at].1).map(Some),
                    Err(_) => Ok(None),
                }
            }
            Layer::Dir(member, id, _) => {
                let package = &self.members[member as usize].package;
                match package.lookup(id, name).map_err(errno)? {
                    Some(id) => self.entry(member, id).map(Some),
                    None => Ok(None),
                }
            }
            Layer::Commands(member, place) => {
                let command = self.members[member as usize].command(name)?;
                Ok(command.map(|command| Hit::Command(member, command.index, place)))
            }
        }
    }

    /// The entry of a layer at a position, if it is to be shown; the outer `None` is the end.
    #[allow(clippy::type_complexity, reason = "an end, a gap or an entry")]
    fn get(&self, layer: Layer, position: u32) -> Result<Option<Option<(&[u8], Hit)>>> {
        match layer {
            Layer::Static(dir) => match self.dirs[dir as usize].entries.get(position as usize) {
                Some((name, node)) => Ok(Some(Some((name, self.node(node)?)))),
                None => Ok(None),
            },
            Layer::Dir(member, id, _) => {
                let package = &self.members[member as usize].package;
                match package
                    .children(id)
                    .map_err(errno)?
                    .get(position)
                    .transpose()
                {
                    Ok(Some(entry)) => Ok(Some(Some((
                        entry.name,
                        Hit::Entry(member, entry.id, entry.kind),
                    )))),
                    Ok(None) => Ok(None),
                    Err(error) => Err(errno(error)),
                }
            }
            Layer::Commands(member, place) => {
                let package = &self.members[member as usize].package;
                match package.command_at(position).map_err(errno)? {
                    Some(command) => {
                        Ok(Some(command.entry.map(|_| {
                            (command.name, Hit::Command(member, position, place))
                        })))
                    }
                    None => Ok(None),
                }
            }
        }
    }
}

impl Dir {
    /// The static directory at a place in the table.
    pub(crate) fn fixed(table: Arc<Table>, dir: u32) -> Dir {
        let layers = table.static_layers(dir, &[]);
        Dir { table, layers }
    }

    fn layers(&self) -> &[Layer] {
        match &self.layers {
            Layers::One(layer) => std::slice::from_ref(layer),
            Layers::Many(layers) => layers,
        }
    }

    /// The inode for what the layer at `place` has under a name.
    fn inode(&self, name: &[u8], hit: Hit, place: usize) -> Result<InodeRef> {
        let table = self.table.clone();
        let below = &self.layers()[place + 1..];
        Ok(match hit {
            Hit::Static(dir) => {
                let below = match table.dirs[dir as usize].sealed {
                    true => Vec::new(),
                    false => self.dirs_named(name, below)?,
                };
                let layers = table.static_layers(dir, &below);
                Arc::new(Dir { table, layers })
            }
            Hit::Entry(member, id, EntryKind::Directory) => {
                let layer = Layer::Dir(member, id, self.layers()[place].rank());
                let below = self.dirs_named(name, below)?;
                let layers = match below.is_empty() {
                    true => Layers::One(layer),
                    false => Layers::Many([&[layer][..], &below].concat().into()),
                };
                Arc::new(Dir { table, layers })
            }
            Hit::Entry(member, id, EntryKind::File) => Arc::new(File::new(table, member, id)),
            Hit::Entry(member, id, EntryKind::Symlink) => {
                Arc::new(Link::of_entry(table, member, id))
            }
            Hit::Current(member) => Arc::new(Link::current(table, member)),
            Hit::Command(member, index, place) => {
                Arc::new(Link::of_command(table, member, index, place))
            }
        })
    }

    /// The directories that layers have under a name.
    fn dirs_named(&self, name: &[u8], layers: &[Layer]) -> Result<Vec<Layer>> {
        let mut dirs = Vec::new();
        for &layer in layers {
            if let Some(Hit::Entry(member, id, EntryKind::Directory)) =
                self.table.find(layer, name)?
            {
                dirs.push(Layer::Dir(member, id, layer.rank()));
            }
        }
        Ok(dirs)
    }

    fn list(&self, cookie: u64, sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        let (mut place, mut position) = from_cookie(cookie)?;
        let layers = self.layers();
        while let Some(&layer) = layers.get(place) {
            let Some(entry) = self.table.get(layer, position)? else {
                place += 1;
                position = 0;
                continue;
            };
            position += 1;
            let Some((name, hit)) = entry else { continue };
            if self.is_hidden(name, &layers[..place])? {
                continue;
            }
            let next = to_cookie(place, position);
            if !sink(DirEntry {
                name,
                ino: hit.ino(),
                kind: hit.kind(),
                next,
            }) {
                return Ok(());
            }
        }
        Ok(())
    }

    fn is_hidden(&self, name: &[u8], above: &[Layer]) -> Result<bool> {
        for &layer in above {
            if self.table.find(layer, name)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Table {
    /// The layers of a static directory: its own, and `below` from the directory it is in.
    fn static_layers(&self, dir: u32, below: &[Layer]) -> Layers {
        let StaticDir {
            below: own, sealed, ..
        } = &self.dirs[dir as usize];
        if own.is_empty() && below.is_empty() {
            return Layers::One(Layer::Static(dir));
        }
        let mut layers = [&[Layer::Static(dir)][..], own, below].concat();
        if !sealed {
            layers[1..].sort_by_key(|layer| layer.rank());
        }
        Layers::Many(layers.into())
    }
}

/// The cookie that continues in a layer at a position. It depends on nothing but the place of what
/// came before, and nothing moves.
fn to_cookie(place: usize, position: u32) -> u64 {
    ((place as u64) << 32 | u64::from(position)) + FIRST_COOKIE
}

fn from_cookie(cookie: u64) -> Result<(usize, u32)> {
    let at = cookie.saturating_sub(FIRST_COOKIE);
    let place = usize::try_from(at >> 32).map_err(|_| Errno::EINVAL)?;
    Ok((place, at as u32))
}

/// Cookies below stand for the start, `.` and `..`.
const FIRST_COOKIE: u64 = 2;

impl Inode for Dir {
    fn stat(&self) -> Result<Stat> {
        let layer = self.layers()[0];
        let (ino, like) = match layer {
            Layer::Static(dir) => (static_ino(dir), self.table.dirs[dir as usize].like),
            Layer::Dir(member, id, _) => (entry_ino(member, id), Some((member, id))),
            // Commands only ever stand below a static directory.
            Layer::Commands(..) => return Err(Errno::EIO),
        };
        let (perm, mtime) = match like {
            Some((member, id)) => {
                let entry = self.table.members[member as usize]
                    .package
                    .entry(id)
                    .map_err(errno)?;
                (shown_perm(entry.mode), entry.mtime)
            }
            None => (0o755, 0),
        };
        let mode = FileType::Directory.mode_bits() | perm;
        Ok(attributes(&self.table, ino, mode, 0, mtime))
    }

    fn kind(&self) -> FileType {
        FileType::Directory
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn lookup(&self, name: &[u8]) -> Result<InodeRef> {
        for (place, &layer) in self.layers().iter().enumerate() {
            if let Some(hit) = self.table.find(layer, name)? {
                return self.inode(name, hit, place);
            }
        }
        Err(Errno::ENOENT)
    }

    fn readdir(&self, cookie: u64, sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        self.list(cookie, sink)
    }

    fn open(self: Arc<Self>, _flags: OpenFlags, _caller: &Caller) -> Result<Arc<dyn FileOps>> {
        Ok(Arc::new(OpenDir(self)))
    }
}

/// The permission bits a package's entry is shown with: set-ID bits would give privileges.
pub(crate) fn shown_perm(mode: u32) -> u32 {
    mode & 0o1777
}

/// Attributes of anything in the projection: it belongs to root and has one link, since links of
/// directories are not counted, as on btrfs.
pub(crate) fn attributes(table: &Table, ino: u64, mode: u32, size: u64, mtime: i64) -> Stat {
    let time = Timespec {
        sec: mtime,
        nsec: 0,
    };
    Stat {
        dev: table.dev,
        ino,
        mode,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        size,
        blocks: size.div_ceil(512),
        atime: time,
        mtime: time,
        ctime: time,
        btime: time,
    }
}

/// An open directory.
struct OpenDir(Arc<Dir>);

impl FileOps for OpenDir {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn read_at(&self, _buf: &mut [u8], _offset: u64) -> Result<usize> {
        Err(Errno::EISDIR)
    }

    fn write_at(&self, _buf: &[u8], _offset: u64) -> Result<usize> {
        Err(Errno::EISDIR)
    }

    fn readdir(&self, cookie: u64, sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        self.0.list(cookie, sink)
    }
}
