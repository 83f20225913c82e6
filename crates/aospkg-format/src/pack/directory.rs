//! Packing a directory.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::limits::MAX_JSON;
use crate::mount::EntryKind;
use crate::pack::metadata::{AGENTOS_JSON, PACKAGE_JSON};
use crate::pack::tree::{Found, normalize};
use crate::pack::{HEAD_LEN, Head, PackError, Scan, Source};

/// A directory tree on the host. Links in it are taken as links, the directory itself may be one.
#[derive(Debug)]
pub(crate) struct Directory {
    root: PathBuf,
    /// The package that is being replaced, when it lies in the tree itself.
    output: Option<(u64, u64)>,
    /// The files found, by their number.
    files: Vec<PackedFile>,
}

#[derive(Debug)]
struct PackedFile {
    path: String,
    dev: u64,
    ino: u64,
}

impl Directory {
    pub(crate) fn new(root: &Path, output: Option<&Path>) -> Directory {
        Directory {
            root: root.to_owned(),
            output: output
                .and_then(|path| fs::metadata(path).ok())
                .map(|meta| (meta.dev(), meta.ino())),
            files: Vec::new(),
        }
    }

    fn io(&self, path: &str, e: io::Error) -> PackError {
        PackError::io(self.root.join(path).display().to_string(), e)
    }

    /// Opens a file that was found, if it is still the same.
    fn open(&self, number: usize) -> Result<File, PackError> {
        let file = &self.files[number];
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open(self.root.join(&file.path))
            .map_err(|e| self.io(&file.path, e))?;
        let meta = opened.metadata().map_err(|e| self.io(&file.path, e))?;
        if !meta.is_file() || (meta.dev(), meta.ino()) != (file.dev, file.ino) {
            return Err(PackError::Changed {
                entry: file.path.clone(),
            });
        }
        Ok(opened)
    }

    /// The content of one of the manifests.
    fn text(&self, number: usize) -> Result<Vec<u8>, PackError> {
        let path = &self.files[number].path;
        let mut text = Vec::new();
        self.open(number)?
            .take(MAX_JSON + 1)
            .read_to_end(&mut text)
            .map_err(|e| self.io(path, e))?;
        if text.len() as u64 > MAX_JSON {
            return Err(PackError::JsonTooLarge {
                entry: path.clone(),
                len: text.len() as u64,
            });
        }
        Ok(text)
    }
}

impl Source for Directory {
    fn scan(&mut self) -> Result<Scan, PackError> {
        let mut scan = Scan::default();
        let mut todo = vec![String::new()];
        while let Some(directory) = todo.pop() {
            let listing =
                fs::read_dir(self.root.join(&directory)).map_err(|e| self.io(&directory, e))?;
            for item in listing {
                let item = item.map_err(|e| self.io(&directory, e))?;
                let mut raw = directory.clone().into_bytes();
                if !raw.is_empty() {
                    raw.push(b'/');
                }
                raw.extend_from_slice(item.file_name().as_bytes());
                let Some(path) = normalize(&raw)? else {
                    continue;
                };
                let meta = item.metadata().map_err(|e| self.io(&path, e))?;
                if self.output == Some((meta.dev(), meta.ino())) {
                    continue;
                }
                let file_type = meta.file_type();
                let mut link_target = None;
                let kind = if file_type.is_file() {
                    EntryKind::File
                } else if file_type.is_dir() {
                    todo.push(path.clone());
                    EntryKind::Directory
                } else if file_type.is_symlink() {
                    let target = fs::read_link(item.path()).map_err(|e| self.io(&path, e))?;
                    let target = target.into_os_string().into_string();
                    link_target = Some(target.map_err(|_| PackError::NotUtf8 {
                        entry: path.clone(),
                    })?);
                    EntryKind::Symlink
                } else {
                    return Err(PackError::Unsupported {
                        entry: path,
                        kind: "a device, socket or named pipe".into(),
                    });
                };
                let number = self.files.len();
                if kind == EntryKind::File {
                    self.files.push(PackedFile {
                        path: path.clone(),
                        dev: meta.dev(),
                        ino: meta.ino(),
                    });
                    match path.as_str() {
                        PACKAGE_JSON => scan.texts.package = Some(self.text(number)?),
                        AGENTOS_JSON => scan.texts.agentos = Some(self.text(number)?),
                        _ => {}
                    }
                }
                scan.found.push(Found {
                    path,
                    kind,
                    mode: meta.mode() & 0o7777,
                    uid: meta.uid(),
                    gid: meta.gid(),
                    mtime: meta.mtime(),
                    size: if kind == EntryKind::File {
                        meta.size()
                    } else {
                        0
                    },
                    link_target,
                    source: number,
                });
            }
        }
        Ok(scan)
    }

    fn head(&mut self, source: usize, path: &str) -> Result<Head, PackError> {
        let mut bytes = Vec::new();
        self.open(source)?
            .take(HEAD_LEN as u64)
            .read_to_end(&mut bytes)
            .map_err(|e| self.io(path, e))?;
        Ok(Head::of(&bytes))
    }

    fn contents(
        &mut self,
        each: &mut dyn FnMut(usize, &mut dyn Read) -> Result<(), PackError>,
    ) -> Result<(), PackError> {
        for number in 0..self.files.len() {
            each(number, &mut self.open(number)?)?;
        }
        Ok(())
    }
}
