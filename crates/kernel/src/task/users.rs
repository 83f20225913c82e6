//! The user and group data bases: `/etc/passwd` and `/etc/group` as the process sees them.

use super::{Dir, Task};
use crate::users::{Group, User, parse_group, parse_passwd};
use vfs_core::errno::{Errno, Result};
use vfs_core::types::OpenFlags;

/// More of a data base than this is not read.
const MAX_BYTES: u64 = 1 << 20;
/// Longest name that is looked for.
const MAX_NAME: usize = 4096;

impl Task {
    /// Record of the user with this id, one line without its end; `ENOENT`.
    pub fn getpwuid(&self, uid: u32) -> Result<Vec<u8>> {
        self.users()?
            .iter()
            .find(|user| user.uid == uid)
            .map(User::record)
            .ok_or(Errno::ENOENT)
    }

    /// Record of the user of this name; `ENOENT`.
    pub fn getpwnam(&self, name: &[u8]) -> Result<Vec<u8>> {
        if name.len() > MAX_NAME {
            return Err(Errno::ENAMETOOLONG);
        }
        self.users()?
            .iter()
            .find(|user| user.name == name)
            .map(User::record)
            .ok_or(Errno::ENOENT)
    }

    /// The `index`th record of the users by rising id; `ENOENT` after the last.
    pub fn getpwent(&self, index: usize) -> Result<Vec<u8>> {
        let mut users = self.users()?;
        users.sort_by_key(|user| user.uid);
        users.get(index).map(User::record).ok_or(Errno::ENOENT)
    }

    /// Record of the group with this id. A group that has no record but that the process is in
    /// gets one, so that `id` has something to print.
    pub fn getgrgid(&self, gid: u32) -> Result<Vec<u8>> {
        if let Some(group) = self.groups()?.iter().find(|group| group.gid == gid) {
            return Ok(group.record());
        }
        if self.cred().groups.contains(&gid) {
            return Ok(format!("group{gid}:x:{gid}:").into_bytes());
        }
        Err(Errno::ENOENT)
    }

    /// Record of the group of this name; `ENOENT`.
    pub fn getgrnam(&self, name: &[u8]) -> Result<Vec<u8>> {
        if name.len() > MAX_NAME {
            return Err(Errno::ENAMETOOLONG);
        }
        self.groups()?
            .iter()
            .find(|group| group.name == name)
            .map(Group::record)
            .ok_or(Errno::ENOENT)
    }

    /// The `index`th record of the groups by rising id; `ENOENT` after the last.
    pub fn getgrent(&self, index: usize) -> Result<Vec<u8>> {
        let mut groups = self.groups()?;
        groups.sort_by_key(|group| group.gid);
        groups.get(index).map(Group::record).ok_or(Errno::ENOENT)
    }

    fn users(&self) -> Result<Vec<User>> {
        self.small_file(b"/etc/passwd")
            .map(|text| parse_passwd(&text))
    }

    fn groups(&self) -> Result<Vec<Group>> {
        self.small_file(b"/etc/group")
            .map(|text| parse_group(&text))
    }

    /// Content of a file without a descriptor of the guest's; empty if there is none.
    fn small_file(&self, path: &[u8]) -> Result<Vec<u8>> {
        let file = match self.at(Dir::Root, path, |at| at.open(path, OpenFlags::NONBLOCK, 0)) {
            Err(Errno::ENOENT) => return Ok(Vec::new()),
            file => file?,
        };
        crate::program::read_whole(&file, MAX_BYTES)
    }
}
