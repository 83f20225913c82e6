//! A downloaded npm archive: checked whole, then read for one file.

use super::registry::Scratch;
use super::{NpmError, NpmSpec};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use sha2::{Digest, Sha512};
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::PathBuf;

/// The package file inside an npm package.
const PACKAGE: &str = "package/dist/package.aospkg";
/// The npm package's own description.
const DESCRIPTION: &str = "package/package.json";
/// Most bytes of a description that are read.
const DESCRIPTION_MAX: u64 = 1 << 20;

/// An archive on the disk, removed with its directory when dropped.
pub(super) struct Archive {
    path: PathBuf,
    _dir: Scratch,
}

/// What an archive has for us.
pub(super) enum Found {
    /// A package file.
    Package,
    /// Only the names and versions of other packages.
    Dependencies(Vec<(String, String)>),
}

impl Archive {
    pub(super) fn new(path: PathBuf, dir: Scratch) -> Archive {
        Archive { path, _dir: dir }
    }

    /// Compares the archive's hash with `expected`; gives the first 16 digits of it in hex.
    pub(super) fn check(&self, spec: &NpmSpec, expected: &str) -> Result<String, NpmError> {
        let mut hasher = Sha512::new();
        File::open(&self.path)
            .and_then(|mut file| io::copy(&mut file, &mut hasher))
            .map_err(|source| NpmError::Archive {
                spec: spec.to_string(),
                source,
            })?;
        let digest = hasher.finalize();
        let actual = format!("sha512-{}", STANDARD.encode(digest));
        // An integrity string may list several hashes; the sha512 one counts.
        if !expected.split_whitespace().any(|hash| hash == actual) {
            return Err(NpmError::Integrity {
                spec: spec.to_string(),
                expected: expected.to_owned(),
                actual,
            });
        }
        Ok(digest
            .iter()
            .take(8)
            .map(|byte| format!("{byte:02x}"))
            .collect())
    }

    /// Looks for a package file, and otherwise for dependencies.
    pub(super) fn find(&self, spec: &NpmSpec) -> Result<Found, NpmError> {
        let unreadable = |source| NpmError::Archive {
            spec: spec.to_string(),
            source,
        };
        let mut description = None;
        let mut archive = self.open().map_err(unreadable)?;
        for entry in archive.entries().map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let path = entry.path_bytes().into_owned();
            if path == PACKAGE.as_bytes() {
                return Ok(Found::Package);
            }
            if path == DESCRIPTION.as_bytes() {
                let mut text = Vec::new();
                entry
                    .take(DESCRIPTION_MAX)
                    .read_to_end(&mut text)
                    .map_err(unreadable)?;
                description = Some(text);
            }
        }
        let json: serde_json::Value = description
            .as_deref()
            .and_then(|text| serde_json::from_slice(text).ok())
            .unwrap_or_default();
        let dependencies: Vec<(String, String)> = json["dependencies"]
            .as_object()
            .into_iter()
            .flatten()
            .filter_map(|(name, version)| Some((name.clone(), version.as_str()?.to_owned())))
            .collect();
        if dependencies.is_empty() {
            return Err(NpmError::NoPackage {
                spec: spec.to_string(),
            });
        }
        Ok(Found::Dependencies(dependencies))
    }

    /// Copies the package file to `out`.
    pub(super) fn copy_package(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut archive = self.open()?;
        for entry in archive.entries()? {
            let mut entry = entry?;
            if *entry.path_bytes() == *PACKAGE.as_bytes() {
                io::copy(&mut entry, out)?;
                return Ok(());
            }
        }
        Err(io::ErrorKind::NotFound.into())
    }

    fn open(&self) -> io::Result<tar::Archive<GzDecoder<BufReader<File>>>> {
        Ok(tar::Archive::new(GzDecoder::new(BufReader::new(
            File::open(&self.path)?,
        ))))
    }
}
