//! Names: making, removing, renaming and looking at what a path leads to.

use super::{Dir, Task};
use vfs_core::errno::{Errno, Result};
use vfs_core::mount::MountFlags;
use vfs_core::namei::{self, At, Lookup};
use vfs_core::types::{Access, FileType, RenameFlags, Stat, StatFs};

impl Task {
    /// Attributes of what a path leads to (`fstatat(2)`).
    pub fn fstatat(&self, dir: Dir, path: &[u8], lookup: Lookup) -> Result<Stat> {
        self.at(dir, path, |at| at.stat(path, lookup))
    }

    /// Whether the process may do `access` (`faccessat2(2)`), by its effective ids if
    /// `effective`, else by its real ones. No access at all asks for existence.
    pub fn faccessat(
        &self,
        dir: Dir,
        path: &[u8],
        access: Access,
        effective: bool,
        lookup: Lookup,
    ) -> Result<()> {
        if effective {
            return self.at(dir, path, |at| at.access(path, access, lookup));
        }
        let caller = self.real_caller();
        self.at(dir, path, |at| {
            At {
                caller: &caller,
                ..*at
            }
            .access(path, access, lookup)
        })
    }

    /// Text of a symbolic link; `EINVAL` for anything else (`readlinkat(2)`).
    pub fn readlinkat(&self, dir: Dir, path: &[u8]) -> Result<Vec<u8>> {
        self.at(dir, path, |at| at.readlink(path))
    }

    /// Makes a directory (`mkdirat(2)`); the umask is applied.
    pub fn mkdirat(&self, dir: Dir, path: &[u8], perm: u32) -> Result<()> {
        self.at(dir, path, |at| at.mkdir(path, perm))
    }

    /// Makes a file, fifo, socket or device node (`mknodat(2)`): `mode` with its type bits, none
    /// meaning a regular file. Device nodes need the superuser.
    pub fn mknodat(&self, dir: Dir, path: &[u8], mode: u32, rdev: u64) -> Result<()> {
        let kind = match mode & vfs_core::types::S_IFMT {
            0 => FileType::Regular,
            bits => FileType::from_mode(bits).ok_or(Errno::EINVAL)?,
        };
        self.at(dir, path, |at| at.mknod(path, kind, mode & 0o7777, rdev))
    }

    /// Makes a symbolic link with the text `target` (`symlinkat(2)`).
    pub fn symlinkat(&self, target: &[u8], dir: Dir, path: &[u8]) -> Result<()> {
        self.at(dir, path, |at| at.symlink(target, path))
    }

    /// Gives an open file, perhaps one without a name, a name (`linkat(2)` with `AT_EMPTY_PATH`).
    pub fn link_fd(&self, fd: i32, dir: Dir, path: &[u8]) -> Result<()> {
        let file = self.file(fd)?;
        self.at(dir, path, |at| namei::fd::link(&file, at, path))
    }

    /// Gives a file a further name (`linkat(2)`).
    pub fn linkat(
        &self,
        old_dir: Dir,
        old: &[u8],
        lookup: Lookup,
        new_dir: Dir,
        new: &[u8],
    ) -> Result<()> {
        self.at_two((old_dir, old), (new_dir, new), |old_at, new_at| {
            old_at.link(old, lookup, new_at, new)
        })
    }

    /// Removes a name that is no directory (`unlinkat(2)`).
    pub fn unlinkat(&self, dir: Dir, path: &[u8]) -> Result<()> {
        self.at(dir, path, |at| at.unlink(path))
    }

    /// Removes an empty directory (`unlinkat(2)` with `AT_REMOVEDIR`).
    pub fn rmdirat(&self, dir: Dir, path: &[u8]) -> Result<()> {
        self.at(dir, path, |at| at.rmdir(path))
    }

    /// Renames (`renameat2(2)`).
    pub fn renameat2(
        &self,
        old_dir: Dir,
        old: &[u8],
        new_dir: Dir,
        new: &[u8],
        flags: RenameFlags,
    ) -> Result<()> {
        self.at_two((old_dir, old), (new_dir, new), |old_at, new_at| {
            old_at.rename(old, new_at, new, flags)
        })
    }

    /// Totals of the file system a path is on (`statfs(2)`).
    pub fn statfsat(&self, dir: Dir, path: &[u8]) -> Result<StatFs> {
        self.at(dir, path, |at| at.statfs(path))
    }

    /// Totals of the file system a descriptor is on (`fstatfs(2)`).
    pub fn fstatfs(&self, fd: i32) -> Result<StatFs> {
        /// `f_type` of what has no place in the tree (`PIPEFS_MAGIC`).
        const PIPEFS_MAGIC: u64 = 0x5049_5045;
        match self.file(fd)?.path() {
            Some(path) => path.mount().fs().statfs(),
            None => Ok(StatFs {
                magic: PIPEFS_MAGIC,
                bsize: 4096,
                namelen: 255,
                ..StatFs::default()
            }),
        }
    }

    /// Changes the options of a mount as `mount -o remount,…` does: a comma-separated list.
    /// `EPERM` unless superuser; `EINVAL` for a path that is no mount's root or an option that is
    /// none.
    pub fn remount(&self, path: &[u8], options: &[u8]) -> Result<()> {
        if !self.cred().is_root() {
            return Err(Errno::EPERM);
        }
        let at = self.at(Dir::Cwd, path, |at| {
            at.resolve(path, Lookup::FOLLOW | Lookup::DIRECTORY)
        })?;
        let mut flags = at.mount().flags();
        for option in options.split(|&b| b == b',').filter(|o| !o.is_empty()) {
            match option {
                b"remount" | b"defaults" | b"relatime" => {}
                b"ro" => flags |= MountFlags::RDONLY,
                b"rw" => flags -= MountFlags::RDONLY,
                b"nosuid" => flags |= MountFlags::NOSUID,
                b"suid" => flags -= MountFlags::NOSUID,
                b"nodev" => flags |= MountFlags::NODEV,
                b"dev" => flags -= MountFlags::NODEV,
                b"noexec" => flags |= MountFlags::NOEXEC,
                b"exec" => flags -= MountFlags::NOEXEC,
                b"noatime" => flags |= MountFlags::NOATIME,
                b"atime" => flags -= MountFlags::NOATIME,
                _ => return Err(Errno::EINVAL),
            }
        }
        if self.vm.locked_mounts.contains(&at.mount().id()) && !flags.contains(at.mount().flags()) {
            // The host mounted it so (read-only, no programs); a guest may only restrict more.
            return Err(Errno::EPERM);
        }
        self.vm.ns.remount(&at, flags)
    }

    /// Changes the working directory (`chdir(2)`).
    pub fn chdir(&self, path: &[u8]) -> Result<()> {
        let place = self.at(Dir::Cwd, path, |at| {
            let place = at.resolve(path, Lookup::FOLLOW | Lookup::DIRECTORY)?;
            vfs_core::permission(&place.inode().stat()?, &at.caller.cred, Access::EXEC)?;
            Ok(place)
        })?;
        self.process.set_cwd(place);
        Ok(())
    }

    /// Changes the working directory to an open one (`fchdir(2)`).
    pub fn fchdir(&self, fd: i32) -> Result<()> {
        let file = self.file(fd)?;
        if !file.is_dir() {
            return Err(Errno::ENOTDIR);
        }
        let place = file.path().ok_or(Errno::ENOTDIR)?.clone();
        vfs_core::permission(&file.stat()?, &self.cred(), Access::EXEC)?;
        self.process.set_cwd(place);
        Ok(())
    }

    /// Absolute path of the working directory as the process sees it, what `$PWD` should be. A
    /// removed directory gives its last path.
    pub fn cwd(&self) -> Vec<u8> {
        match self.process.fs() {
            Some(fs) => self.vm.ns.absolute(&fs.cwd, &fs.root).bytes,
            None => b"/".to_vec(),
        }
    }
}
