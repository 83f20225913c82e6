//! Files that appear whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A file under a temporary name beside its destination. Dropped without [`AtomicFile::commit`] it
/// is removed, so a failure leaves nothing behind.
#[derive(Debug)]
pub(crate) struct AtomicFile {
    file: File,
    temporary: Option<PathBuf>,
    destination: PathBuf,
}

impl AtomicFile {
    pub(crate) fn create(destination: &Path) -> io::Result<AtomicFile> {
        static UNIQUE: AtomicU64 = AtomicU64::new(0);
        let name = destination
            .file_name()
            .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        let directory = parent_of(destination);
        loop {
            let unique = UNIQUE.fetch_add(1, Ordering::Relaxed);
            let mut hidden = std::ffi::OsString::from(".");
            // A long name stays within the limit with the suffix added.
            hidden.push(name.to_string_lossy().chars().take(60).collect::<String>());
            hidden.push(format!(".{}-{unique}.tmp", std::process::id()));
            let temporary = directory.join(hidden);
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create_new(true)
                .mode(0o644)
                .open(&temporary);
            match file {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => continue,
                file => {
                    return Ok(AtomicFile {
                        file: file?,
                        temporary: Some(temporary),
                        destination: destination.to_owned(),
                    });
                }
            }
        }
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Puts the file in its place, on disk before it can be seen.
    pub(crate) fn commit(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        if let Some(temporary) = &self.temporary {
            fs::rename(temporary, &self.destination)?;
        }
        self.temporary = None;
        // The rename itself. Some file systems cannot sync a directory, and the file is whole
        // either way.
        let _ = File::open(parent_of(&self.destination)).and_then(|dir| dir.sync_all());
        Ok(())
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // There is no one to tell.
            let _ = fs::remove_file(temporary);
        }
    }
}

fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}
