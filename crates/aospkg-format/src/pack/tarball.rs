//! Packing a tar, as it is or compressed, npm tarballs among them.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

use flate2::read::MultiGzDecoder;

use crate::error::Error;
use crate::limits::{MAX_ENTRIES, MAX_INDEX, MAX_JSON};
use crate::mount::EntryKind;
use crate::pack::metadata::{AGENTOS_JSON, PACKAGE_JSON, Texts};
use crate::pack::tar_reader::{Member, TarReader};
use crate::pack::tree::{Found, normalize};
use crate::pack::{HEAD_LEN, Head, PackError, PackWarning, Scan, Source};

/// A tar in a file or in memory. It is read from the start for each pass.
#[derive(Debug)]
pub(crate) struct Tarball {
    input: Input,
    compressed: bool,
    /// The first bytes of the files, by their number.
    heads: Vec<Head>,
}

#[derive(Debug)]
enum Input {
    File(File),
    Bytes(Vec<u8>),
}

impl Input {
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        match self {
            Input::File(file) => file.read_at(buffer, at),
            Input::Bytes(bytes) => {
                let from = usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
                (&bytes[from..]).read(buffer)
            }
        }
    }
}

/// Reads an input from its start, whatever else reads it.
struct FromStart<'i> {
    input: &'i Input,
    at: u64,
}

impl Read for FromStart<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.input.read_at(buffer, self.at)?;
        self.at += n as u64;
        Ok(n)
    }
}

impl Tarball {
    pub(crate) fn new(path: &Path, file: File) -> Result<Tarball, PackError> {
        let tarball = Tarball::from_input(Input::File(file))?;
        // What is no archive at all is told from what is a damaged one.
        let first = TarReader::new(tarball.open()).next();
        match first {
            Err(PackError::BadArchive { at, .. }) if at <= 512 && !tarball.compressed => {
                Err(PackError::UnknownInput(path.to_owned()))
            }
            _ => Ok(tarball),
        }
    }

    pub(crate) fn from_bytes(bytes: Vec<u8>) -> Result<Tarball, PackError> {
        Tarball::from_input(Input::Bytes(bytes))
    }

    fn from_input(input: Input) -> Result<Tarball, PackError> {
        let mut magic = [0; 2];
        let n = input
            .read_at(&mut magic, 0)
            .map_err(|e| PackError::io("reading the archive".into(), e))?;
        Ok(Tarball {
            input,
            compressed: magic[..n] == [0x1f, 0x8b],
            heads: Vec::new(),
        })
    }

    fn open(&self) -> Box<dyn Read + '_> {
        let start = FromStart {
            input: &self.input,
            at: 0,
        };
        let buffered = io::BufReader::with_capacity(64 << 10, start);
        if self.compressed {
            Box::new(io::BufReader::with_capacity(
                64 << 10,
                MultiGzDecoder::new(buffered),
            ))
        } else {
            Box::new(buffered)
        }
    }
}

/// The manifests in the archive, at its root or in its first directory.
#[derive(Default)]
struct Manifests {
    at_root: Texts,
    in_first: Texts,
    /// First component of the first member's name.
    first: Option<String>,
    /// Whether every member lies under it.
    all_in_first: bool,
}

impl Manifests {
    /// Where the content of a member goes, if it is one of the manifests.
    fn place(&mut self, path: &str) -> Option<&mut Option<Vec<u8>>> {
        let component = path.split('/').next().unwrap_or_default();
        match &self.first {
            None => {
                self.first = Some(component.to_owned());
                self.all_in_first = true;
            }
            Some(first) => self.all_in_first &= first == component,
        }
        let (texts, name) = match path.split_once('/') {
            None => (&mut self.at_root, path),
            Some((directory, name)) if self.first.as_deref() == Some(directory) => {
                (&mut self.in_first, name)
            }
            Some(_) => return None,
        };
        match name {
            PACKAGE_JSON => Some(&mut texts.package),
            AGENTOS_JSON => Some(&mut texts.agentos),
            _ => None,
        }
    }

    /// Whether the first component of every name is to be dropped, as for npm's `package/`: when
    /// everything lies in one directory and that holds the `package.json`.
    fn strip(&self) -> bool {
        self.at_root.package.is_none() && self.all_in_first && self.in_first.package.is_some()
    }
}

impl Source for Tarball {
    fn scan(&mut self) -> Result<Scan, PackError> {
        let mut scan = Scan::default();
        let mut heads = Vec::new();
        let mut manifests = Manifests::default();
        let mut path_bytes = 0;
        let mut reader = TarReader::new(self.open());
        while let Some(member) = reader.next()? {
            let Some(path) = normalize(&member.name)? else {
                if member.kind != EntryKind::Directory {
                    return Err(PackError::Unsupported {
                        entry: String::from_utf8_lossy(&member.name).into_owned(),
                        kind: "a root that is not a directory".into(),
                    });
                }
                continue;
            };
            path_bytes += path.len() + member.link.len();
            check_room(scan.found.len(), path_bytes)?;
            let number = heads.len();
            let text = manifests.place(&path);
            if member.kind == EntryKind::File {
                let mut content = Vec::new();
                let whole = text.is_some();
                if whole && member.size > MAX_JSON {
                    return Err(PackError::JsonTooLarge {
                        entry: path,
                        len: member.size,
                    });
                }
                let want = if whole { MAX_JSON } else { HEAD_LEN as u64 };
                (&mut reader)
                    .take(want)
                    .read_to_end(&mut content)
                    .map_err(|e| PackError::io(format!("reading {path}"), e))?;
                heads.push(Head::of(&content[..content.len().min(HEAD_LEN)]));
                if let Some(text) = text {
                    *text = Some(content);
                }
            }
            if member.attributes {
                scan.warnings.push(PackWarning::ExtendedAttributes {
                    entry: path.clone(),
                });
            }
            scan.found.push(found(path, member, number)?);
        }
        drop(reader);
        self.heads = heads;
        if manifests.strip() {
            scan.found
                .retain_mut(|entry| match entry.path.split_once('/') {
                    Some((_, rest)) => {
                        entry.path = rest.to_owned();
                        true
                    }
                    None => entry.kind != EntryKind::Directory,
                });
            scan.texts = manifests.in_first;
        } else {
            scan.texts = manifests.at_root;
        }
        Ok(scan)
    }

    fn head(&mut self, source: usize, path: &str) -> Result<Head, PackError> {
        self.heads
            .get(source)
            .copied()
            .ok_or_else(|| PackError::Changed {
                entry: path.to_owned(),
            })
    }

    fn contents(
        &mut self,
        each: &mut dyn FnMut(usize, &mut dyn Read) -> Result<(), PackError>,
    ) -> Result<(), PackError> {
        let mut reader = TarReader::new(self.open());
        let mut number = 0;
        while let Some(member) = reader.next()? {
            if member.kind == EntryKind::File {
                each(number, &mut reader)?;
                number += 1;
            }
        }
        Ok(())
    }
}

/// Stops an archive whose index could not be written, before it fills the memory.
fn check_room(entries: usize, path_bytes: usize) -> Result<(), PackError> {
    for (what, limit_name, limit, got) in [
        ("number of entries", "MAX_ENTRIES", MAX_ENTRIES, entries),
        ("mount index length", "MAX_INDEX", MAX_INDEX, path_bytes),
    ] {
        if got > limit as usize {
            return Err(PackError::Package(Error::Limit {
                what,
                limit_name,
                limit: limit.into(),
                got: got as u64,
            }));
        }
    }
    Ok(())
}

fn found(path: String, member: Member, number: usize) -> Result<Found, PackError> {
    let link_target = match member.kind {
        EntryKind::Symlink => {
            Some(
                String::from_utf8(member.link).map_err(|_| PackError::NotUtf8 {
                    entry: path.clone(),
                })?,
            )
        }
        _ => None,
    };
    Ok(Found {
        path,
        kind: member.kind,
        mode: member.mode,
        uid: member.uid,
        gid: member.gid,
        mtime: member.mtime,
        size: member.size,
        link_target,
        source: number,
    })
}
