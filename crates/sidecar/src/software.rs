//! Where packages come from, and packages put together as a file system.

use crate::cache::Cache;
use crate::npm::{self, NpmError, NpmSpec};
use aospkg_format::Package;
use pkg_projection::{Options, Projection, ProjectionError, Warning};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A package as the command line names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A package file, or a directory in the unpacked form, which is packed into memory each time
    /// it is opened: it may have changed, and nothing is left behind.
    Path(PathBuf),
    /// Packages of an npm package, fetched into the cache once.
    Npm(NpmSpec),
}

/// Why there is no software.
#[derive(Debug, thiserror::Error)]
pub enum SoftwareError {
    /// A package file can't be opened.
    #[error("cannot open {}: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Why.
        source: aospkg_format::Error,
    },
    /// A directory can't be packed.
    #[error("cannot pack {}: {source}", path.display())]
    Pack {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: aospkg_format::PackError,
    },
    /// A package can't be fetched.
    #[error(transparent)]
    Npm(#[from] NpmError),
    /// The packages can't be shown together.
    #[error(transparent)]
    Projection(#[from] ProjectionError),
}

impl Source {
    /// Reads `FILE`, `DIR` or `npm:NAME@VERSION`.
    pub fn parse(text: &OsStr) -> Result<Source, NpmError> {
        match text.to_str().filter(|t| t.starts_with("npm:")) {
            Some(spec) => Ok(Source::Npm(spec.parse()?)),
            None => Ok(Source::Path(PathBuf::from(text))),
        }
    }

    /// Opens the packages. `note` is told of each that has to be fetched first.
    pub fn open(
        &self,
        cache: &Cache,
        note: &mut dyn FnMut(&NpmSpec),
    ) -> Result<Vec<Arc<Package>>, SoftwareError> {
        match self {
            Source::Path(path) => Ok(vec![Arc::new(open(path, cache)?)]),
            Source::Npm(spec) => npm::resolve(cache, spec, note)?
                .iter()
                .map(|path| Ok(Arc::new(open_file(path, cache)?)))
                .collect(),
        }
    }
}

fn open(path: &Path, cache: &Cache) -> Result<Package, SoftwareError> {
    if path.is_dir() {
        return crate::pack::directory(path).map_err(|source| SoftwareError::Pack {
            path: path.to_owned(),
            source,
        });
    }
    open_file(path, cache)
}

fn open_file(path: &Path, cache: &Cache) -> Result<Package, SoftwareError> {
    Package::open(path, Some(&cache.index())).map_err(|source| SoftwareError::Open {
        path: path.to_owned(),
        source,
    })
}

/// Packages put together. Any number of VMs may share one.
#[derive(Clone)]
pub struct Software {
    projection: Arc<Projection>,
    warnings: Arc<[Warning]>,
}

impl Software {
    /// Puts packages together, in the order that decides between them.
    pub fn new(packages: Vec<Arc<Package>>, options: &Options) -> Result<Software, SoftwareError> {
        let (projection, warnings) = Projection::new(packages, options)?;
        Ok(Software {
            projection,
            warnings: warnings.into(),
        })
    }

    /// Opens `sources` and puts them together.
    pub fn open(
        sources: &[Source],
        options: &Options,
        cache: &Cache,
        note: &mut dyn FnMut(&NpmSpec),
    ) -> Result<Software, SoftwareError> {
        let mut packages = Vec::new();
        for source in sources {
            packages.extend(source.open(cache, note)?);
        }
        Software::new(packages, options)
    }

    /// The file system.
    pub fn projection(&self) -> &Arc<Projection> {
        &self.projection
    }

    /// What was decided between the packages.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }
}
