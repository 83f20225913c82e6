//! Files and symbolic links.

use crate::content::{EntryContent, OpenEntry};
use crate::dir::{attributes, shown_perm};
use crate::members::{Id, Member, errno};
use crate::table::{Place, Table, command_ino, current_ino, entry_ino};
use aospkg_format::EntryId;
use std::any::Any;
use std::sync::Arc;
use vfs_core::{
    Caller, Content, Errno, FileOps, FileType, Inode, LinkTarget, OpenFlags, Result, Stat,
};

/// A regular file of a package.
pub(crate) struct File {
    table: Arc<Table>,
    member: Id,
    id: EntryId,
}

impl File {
    pub(crate) fn new(table: Arc<Table>, member: Id, id: EntryId) -> File {
        File { table, member, id }
    }

    fn member(&self) -> &Member {
        &self.table.members[self.member as usize]
    }
}

impl Inode for File {
    fn stat(&self) -> Result<Stat> {
        let entry = self.member().package.entry(self.id).map_err(errno)?;
        let mut perm = shown_perm(entry.mode);
        if perm & 0o111 != 0o111 && self.member().is_executable(self.id) {
            perm |= 0o111;
        }
        let mode = FileType::Regular.mode_bits() | perm;
        let ino = entry_ino(self.member, self.id);
        Ok(attributes(&self.table, ino, mode, entry.size, entry.mtime))
    }

    fn kind(&self) -> FileType {
        FileType::Regular
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn open(self: Arc<Self>, _flags: OpenFlags, _caller: &Caller) -> Result<Arc<dyn FileOps>> {
        Ok(Arc::new(OpenEntry::new(
            self.member().package.clone(),
            self.id,
        )?))
    }

    fn content_id(&self) -> Option<[u8; 32]> {
        self.member().package.digest(self.id).ok()
    }

    fn content(&self) -> Option<Arc<dyn Content>> {
        Some(Arc::new(EntryContent::new(
            self.member().package.clone(),
            self.id,
        )))
    }
}

/// A symbolic link.
pub(crate) struct Link {
    table: Arc<Table>,
    member: Id,
    what: Leads,
}

/// Where a link leads.
enum Leads {
    /// Where the package says.
    Entry(EntryId),
    /// From a package's directory to that of its current version.
    Current,
    /// From a directory of commands to the file of one.
    Command(u32, Place),
}

impl Link {
    pub(crate) fn of_entry(table: Arc<Table>, member: Id, id: EntryId) -> Link {
        Link {
            table,
            member,
            what: Leads::Entry(id),
        }
    }

    pub(crate) fn current(table: Arc<Table>, member: Id) -> Link {
        Link {
            table,
            member,
            what: Leads::Current,
        }
    }

    pub(crate) fn of_command(table: Arc<Table>, member: Id, index: u32, place: Place) -> Link {
        Link {
            table,
            member,
            what: Leads::Command(index, place),
        }
    }

    fn member(&self) -> &Member {
        &self.table.members[self.member as usize]
    }

    /// The text is put together from these parts.
    fn parts(&self) -> Result<[&[u8]; 4]> {
        let member = self.member();
        Ok(match self.what {
            Leads::Entry(id) => {
                let entry = member.package.entry(id).map_err(errno)?;
                [entry.link_target.ok_or(Errno::EIO)?, b"", b"", b""]
            }
            Leads::Current => [member.version.as_bytes(), b"", b"", b""],
            Leads::Command(index, place) => {
                let command = member
                    .package
                    .command_at(index)
                    .map_err(errno)?
                    .ok_or(Errno::EIO)?;
                match place {
                    Place::Farm => [
                        b"../pkgs/",
                        member.name.as_bytes(),
                        b"/current/",
                        command.path,
                    ],
                    Place::Bin => [b"../", command.path, b"", b""],
                }
            }
        })
    }
}

impl Inode for Link {
    fn stat(&self) -> Result<Stat> {
        let (ino, mtime) = match self.what {
            Leads::Entry(id) => {
                let entry = self.member().package.entry(id).map_err(errno)?;
                (entry_ino(self.member, id), entry.mtime)
            }
            Leads::Current => (current_ino(self.member), 0),
            Leads::Command(index, place) => (command_ino(self.member, index, place), 0),
        };
        let size: usize = self.parts()?.iter().map(|p| p.len()).sum();
        let mode = FileType::Symlink.mode_bits() | 0o777;
        Ok(attributes(&self.table, ino, mode, size as u64, mtime))
    }

    fn kind(&self) -> FileType {
        FileType::Symlink
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn readlink(&self, _caller: &Caller) -> Result<LinkTarget> {
        Ok(LinkTarget::Text(self.parts()?.concat()))
    }

    fn open(self: Arc<Self>, _flags: OpenFlags, _caller: &Caller) -> Result<Arc<dyn FileOps>> {
        Err(Errno::ELOOP)
    }
}
