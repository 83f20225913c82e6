//! The fixed part of a projection: its packages and the directories that no package has itself.

use crate::members::{Id, Member};
use aospkg_format::EntryId;

/// All that the inodes of a projection share. Never changes.
pub(crate) struct Table {
    pub(crate) members: Box<[Member]>,
    /// The first is the root.
    pub(crate) dirs: Box<[StaticDir]>,
    /// Device number of the file system.
    pub(crate) dev: u64,
}

/// A directory of the projection itself.
#[derive(Default)]
pub(crate) struct StaticDir {
    /// Its own entries, in order of name.
    pub(crate) entries: Vec<(Box<[u8]>, Node)>,
    /// What further entries come from, topmost first; its own entries hide theirs.
    pub(crate) below: Vec<Layer>,
    /// Whether [`StaticDir::below`] is all that is below. If not, directories of the same name
    /// in what is below the directory's parent belong to it as well.
    pub(crate) sealed: bool,
    /// The directory whose attributes it has; without one, those of a plain root-owned directory.
    pub(crate) like: Option<(Id, EntryId)>,
}

/// An entry of a [`StaticDir`].
pub(crate) enum Node {
    /// Place of a directory in [`Table::dirs`].
    Dir(u32),
    /// The link `current` of a package, named by the version it leads to.
    Current(Id),
    /// A file of a package.
    Entry(Id, EntryId),
}

/// Something that has entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layer {
    /// The own entries of a [`StaticDir`].
    Static(u32),
    /// A directory of a package, and how many were provided before it: where directories are
    /// merged, what was provided first wins.
    Dir(Id, EntryId, u32),
    /// A link for each command of a package.
    Commands(Id, Place),
}

impl Layer {
    /// What decides between layers that were provided.
    pub(crate) fn rank(self) -> u32 {
        match self {
            Layer::Dir(_, _, rank) => rank,
            Layer::Static(_) | Layer::Commands(..) => 0,
        }
    }
}

/// Where links to commands stand, and so what they lead through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In `/opt/agentos/bin`.
    Farm,
    /// In `bin` of the package itself.
    Bin,
}

/// Most packages that [`Table::members`] can hold; inode numbers have 16 bits for one.
pub(crate) const MAX_MEMBERS: u64 = 1 << 16;

/// Inode numbers: what it is, the package, and the number of the entry or command in it, of which
/// a package has at most 2²⁴. They stay below 2⁴³, so a JavaScript guest can represent them and an
/// overlay can put a layer's number above them.
fn number(tag: u64, member: Id, index: u32) -> u64 {
    tag << 40 | u64::from(member) << 24 | u64::from(index)
}

pub(crate) fn static_ino(dir: u32) -> u64 {
    // Never zero.
    u64::from(dir) + 1
}

pub(crate) fn current_ino(member: Id) -> u64 {
    number(1, member, 0)
}

pub(crate) fn entry_ino(member: Id, id: EntryId) -> u64 {
    number(2, member, id.0)
}

pub(crate) fn command_ino(member: Id, index: u32, place: Place) -> u64 {
    let tag = match place {
        Place::Farm => 3,
        Place::Bin => 4,
    };
    number(tag, member, index)
}
