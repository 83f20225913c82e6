//! Writing a package's tree into a directory.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::entry::{Entry, EntryId};
use crate::error::{Error, Result};
use crate::mount::EntryKind;
use crate::package::Package;

/// Writes the whole tree into `destination`, which must not exist or be an empty directory.
///
/// Nothing is written outside: entry names are single components, checked when they are read, every
/// file and directory is made new, and links are made last, so that nothing is ever written through
/// one. Permissions (without set-id bits) and times of files and directories are those of the
/// package; owners are not set.
///
/// Returns the number of entries written. After a failure, what was written so far is left.
pub fn unpack(package: &Package, destination: &Path) -> Result<u64> {
    prepare(destination)?;
    let mut written = 0;
    // Directories get their modes and times when nothing more is written into them.
    let mut directories = Vec::new();
    let mut links = Vec::new();
    let mut todo = vec![(EntryId::ROOT, destination.to_owned())];
    while let Some((id, path)) = todo.pop() {
        for child in package.children(id)? {
            let child = child?;
            let path = path.join(std::ffi::OsStr::from_bytes(child.name));
            let named = Error::io(path.display().to_string());
            match child.kind {
                EntryKind::Directory => {
                    DirBuilder::new().mode(0o700).create(&path).map_err(named)?;
                    todo.push((child.id, path.clone()));
                    directories.push((child, path));
                }
                EntryKind::File => {
                    let file = write_file(package, &child, &path)?;
                    finish(&file, &child).map_err(named)?;
                }
                EntryKind::Symlink => links.push((child, path)),
            }
            written += 1;
        }
    }
    for (child, path) in &links {
        let target = Path::new(std::ffi::OsStr::from_bytes(
            child.link_target.unwrap_or_default(),
        ));
        std::os::unix::fs::symlink(target, path).map_err(Error::io(path.display().to_string()))?;
    }
    for (child, path) in directories.iter().rev() {
        File::open(path)
            .and_then(|directory| finish(&directory, child))
            .map_err(Error::io(path.display().to_string()))?;
    }
    Ok(written)
}

fn prepare(destination: &Path) -> Result<()> {
    let named = || Error::io(destination.display().to_string());
    match DirBuilder::new().create(destination) {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            let not_empty = || Error::DestinationNotEmpty(PathBuf::from(destination));
            if !fs::metadata(destination).map_err(named())?.is_dir() {
                return Err(not_empty());
            }
            match fs::read_dir(destination).map_err(named())?.next() {
                Some(_) => Err(not_empty()),
                None => Ok(()),
            }
        }
        Err(e) => Err(named()(e)),
    }
}

fn write_file(package: &Package, entry: &Entry<'_>, path: &Path) -> Result<File> {
    let named = || Error::io(path.display().to_string());
    let file = File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)
        .map_err(named())?;
    package
        .with_content(entry.id, |bytes| io::Write::write_all(&mut &file, bytes))?
        .map_err(named())?;
    Ok(file)
}

/// Sets permissions and times.
fn finish(file: &File, entry: &Entry<'_>) -> io::Result<()> {
    file.set_permissions(Permissions::from_mode(entry.mode & 0o1777))?;
    let seconds = Duration::from_secs(entry.mtime.unsigned_abs());
    let time = if entry.mtime < 0 {
        SystemTime::UNIX_EPOCH.checked_sub(seconds)
    } else {
        SystemTime::UNIX_EPOCH.checked_add(seconds)
    };
    match time {
        Some(time) => file.set_modified(time),
        // A time that the host cannot express is left as it is.
        None => Ok(()),
    }
}
