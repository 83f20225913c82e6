//! Package files from the npm registry, by name and exact version.
//!
//! A download happens once. [`resolve`] looks for the list of files that a name and version stand
//! for and, when it is there, does nothing else: no process is started and nothing is read but
//! that one small file. Otherwise it runs the user's own `npm`, so proxies, mirrors and credentials
//! are whatever the user configured; checks the archive against the pinned hash, or for a package
//! that is not pinned against the registry's; and takes the one file `dist/package.aospkg` out of
//! it. A package without one that names dependencies (`@agentos-software/common` is such) stands
//! for the packages it depends on.
//!
//! Files get their name by a rename from the same directory, so a reader sees a whole file or
//! none, and a lock per package keeps concurrent runs from fetching the same thing twice.

mod archive;
mod error;
pub mod pinned;
mod registry;

pub use error::NpmError;

use crate::cache::Cache;
use nix::fcntl::{Flock, FlockArg};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Deepest chain of packages that only name other packages.
const MAX_DEPTH: usize = 4;

/// A package name and an exact version.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NpmSpec {
    name: String,
    version: String,
}

impl NpmSpec {
    /// Checks a name and a version.
    pub fn new(name: &str, version: &str) -> Result<NpmSpec, NpmError> {
        let bad = |why| NpmError::Spec {
            spec: format!("{name}@{version}"),
            why,
        };
        let part = |s: &str| {
            !s.is_empty()
                && !s.starts_with(['.', '-', '_'])
                && s.bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"-._~".contains(&b))
        };
        let named = match name.strip_prefix('@') {
            Some(scoped) => scoped
                .split_once('/')
                .is_some_and(|(scope, rest)| part(scope) && part(rest)),
            None => part(name),
        };
        if !named || name.len() > 214 {
            return Err(bad("that is not a package name"));
        }
        let exact = version.len() <= 128
            && version.starts_with(|c: char| c.is_ascii_digit())
            && version
                .split(['-', '+'])
                .next()
                .is_some_and(|core| core.split('.').count() == 3)
            && version
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-.+".contains(&b));
        if !exact {
            return Err(bad("the version must be exact, like 1.2.3"));
        }
        Ok(NpmSpec {
            name: name.to_owned(),
            version: version.to_owned(),
        })
    }

    /// Name on the registry.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Exact version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Name and version as a file name's beginning.
    fn stem(&self) -> String {
        let name = self.name.trim_start_matches('@').replace('/', "-");
        format!("{name}-{}", self.version)
    }
}

impl fmt::Display for NpmSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.name, self.version)
    }
}

impl FromStr for NpmSpec {
    type Err = NpmError;

    /// Reads `npm:NAME@VERSION`; the prefix may be missing.
    fn from_str(s: &str) -> Result<NpmSpec, NpmError> {
        let text = s.strip_prefix("npm:").unwrap_or(s);
        match text.rfind('@') {
            Some(at) if at > 0 => NpmSpec::new(&text[..at], &text[at + 1..]),
            _ => Err(NpmError::Spec {
                spec: s.to_owned(),
                why: "a version is missing, as in npm:@agentos-software/sed@0.3.4",
            }),
        }
    }
}

/// The package files `spec` stands for, fetched if they are not in the cache. `note` is told
/// about each package that has to be fetched, before it is.
pub fn resolve(
    cache: &Cache,
    spec: &NpmSpec,
    note: &mut dyn FnMut(&NpmSpec),
) -> Result<Vec<PathBuf>, NpmError> {
    let mut files = Vec::new();
    resolve_into(cache, spec, note, &mut Vec::new(), &mut files)?;
    Ok(files)
}

/// The files `spec` stands for if all of them are in the cache.
pub fn cached(cache: &Cache, spec: &NpmSpec) -> Option<Vec<PathBuf>> {
    let packages = cache.packages();
    let text = fs::read_to_string(packages.join(format!("{}.list", spec.stem()))).ok()?;
    let files: Vec<PathBuf> = text.lines().map(|line| packages.join(line)).collect();
    (!files.is_empty() && files.iter().all(|f| f.is_file())).then_some(files)
}

fn resolve_into(
    cache: &Cache,
    spec: &NpmSpec,
    note: &mut dyn FnMut(&NpmSpec),
    outer: &mut Vec<NpmSpec>,
    files: &mut Vec<PathBuf>,
) -> Result<(), NpmError> {
    let add = |files: &mut Vec<PathBuf>, more: Vec<PathBuf>| {
        for file in more {
            if !files.contains(&file) {
                files.push(file);
            }
        }
    };
    if let Some(found) = cached(cache, spec) {
        add(files, found);
        return Ok(());
    }
    let packages = cache.packages();
    let downloads = cache.npm();
    cache.ensure(&packages)?;
    cache.ensure(&downloads)?;
    let lock = lock(&downloads.join(format!("{}.lock", spec.stem())))?;
    // Whoever held the lock before may have fetched it.
    if let Some(found) = cached(cache, spec) {
        add(files, found);
        return Ok(());
    }
    note(spec);
    let mut found = Vec::new();
    match fetch(&downloads, &packages, spec)? {
        Fetched::Package(file) => found.push(file),
        Fetched::Dependencies(names) => {
            // The lock of a package that only names others is held while they are fetched, so a
            // circle would wait for itself.
            outer.push(spec.clone());
            for name in names {
                if outer.len() > MAX_DEPTH || outer.contains(&name) {
                    return Err(NpmError::Depth {
                        spec: spec.to_string(),
                        limit: MAX_DEPTH,
                    });
                }
                resolve_into(cache, &name, note, outer, &mut found)?;
            }
            outer.pop();
        }
    }
    let mut list = String::new();
    for file in &found {
        if let Some(name) = file.file_name().and_then(|n| n.to_str()) {
            list.push_str(name);
            list.push('\n');
        }
    }
    publish(&packages, &format!("{}.list", spec.stem()), &mut |out| {
        out.write_all(list.as_bytes())
    })?;
    drop(lock);
    add(files, found);
    Ok(())
}

enum Fetched {
    /// The package file, under its name in the cache.
    Package(PathBuf),
    /// No package file, but these packages.
    Dependencies(Vec<NpmSpec>),
}

fn fetch(downloads: &Path, packages: &Path, spec: &NpmSpec) -> Result<Fetched, NpmError> {
    let archive = registry::download(downloads, spec)?;
    let expected = match pinned::find(&spec.name, &spec.version) {
        Some(pinned) => pinned.integrity.to_owned(),
        None => registry::integrity(spec)?,
    };
    let digest = archive.check(spec, &expected)?;
    let name = format!("{}-{digest}.aospkg", spec.stem());
    match archive.find(spec)? {
        archive::Found::Package => {
            publish(packages, &name, &mut |out| archive.copy_package(out))?;
            Ok(Fetched::Package(packages.join(name)))
        }
        archive::Found::Dependencies(dependencies) => Ok(Fetched::Dependencies(
            dependencies
                .iter()
                .map(|(name, version)| NpmSpec::new(name, version))
                .collect::<Result<_, _>>()?,
        )),
    }
}

/// Writes a file under a temporary name and gives it its own once it is whole and on the disk.
fn publish(
    dir: &Path,
    name: &str,
    write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
) -> Result<(), NpmError> {
    let temporary = dir.join(format!(".{name}.{}", std::process::id()));
    let result = (|| {
        let mut file = File::create(&temporary)?;
        write(&mut file)?;
        file.sync_all()?;
        fs::rename(&temporary, dir.join(name))
    })();
    result.map_err(|source| {
        // Nothing more can be done about a temporary file that will not go.
        let _ = fs::remove_file(&temporary);
        NpmError::write(dir.join(name), source)
    })
}

fn lock(path: &Path) -> Result<Flock<File>, NpmError> {
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .map_err(|source| NpmError::write(path.to_owned(), source))?;
    Flock::lock(file, FlockArg::LockExclusive)
        .map_err(|(_, errno)| NpmError::write(path.to_owned(), errno.into()))
}
