//! What can go wrong between a package name and a package file.

use crate::cache::CacheError;
use std::io;
use std::path::PathBuf;

/// Why a package could not be had.
#[derive(Debug, thiserror::Error)]
pub enum NpmError {
    /// Not `npm:NAME@VERSION`.
    #[error("{spec}: {why}")]
    Spec {
        /// What was given.
        spec: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// There is no `npm` on the host's `$PATH`.
    #[error(
        "{spec} is not in the cache and npm, which would fetch it, is not installed \
         (Debian: apt-get install npm)"
    )]
    NpmMissing {
        /// The package.
        spec: String,
    },
    /// The registry can't be reached.
    #[error("{spec} is not in the cache and the npm registry cannot be reached: {detail}")]
    Offline {
        /// The package.
        spec: String,
        /// What npm said.
        detail: String,
    },
    /// The registry has no such package or version.
    #[error("the npm registry has no {spec}: {detail}")]
    NotFound {
        /// The package.
        spec: String,
        /// What npm said.
        detail: String,
    },
    /// `npm` failed otherwise.
    #[error("npm could not fetch {spec}: {detail}")]
    Npm {
        /// The package.
        spec: String,
        /// What npm said.
        detail: String,
    },
    /// The archive is not the one that was published.
    #[error(
        "{spec} was refused: its archive has the hash {actual}, but {expected} was expected; \
         nothing of it was kept"
    )]
    Integrity {
        /// The package.
        spec: String,
        /// Hash that is pinned, or that the registry names.
        expected: String,
        /// Hash of what arrived.
        actual: String,
    },
    /// The archive can't be read.
    #[error("the archive of {spec} cannot be read: {source}")]
    Archive {
        /// The package.
        spec: String,
        /// What the host says.
        source: io::Error,
    },
    /// The package holds neither a package file nor dependencies.
    #[error(
        "{spec} has no dist/package.aospkg and depends on nothing that has, so it holds no software"
    )]
    NoPackage {
        /// The package.
        spec: String,
    },
    /// Packages that name packages that name packages, in a circle or too deep.
    #[error("{spec} names packages that name packages, in a circle or more than {limit} deep")]
    Depth {
        /// The package.
        spec: String,
        /// The most that is followed.
        limit: usize,
    },
    /// The disk is full.
    #[error("no space left on the disk to write {}; remove something, or set AOS_CACHE_DIR", path.display())]
    DiskFull {
        /// The file.
        path: PathBuf,
    },
    /// A file of the cache can't be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the host says.
        source: io::Error,
    },
    /// There is no cache directory.
    #[error(transparent)]
    Cache(#[from] CacheError),
}

impl NpmError {
    /// An error of writing `path`.
    pub(super) fn write(path: PathBuf, source: io::Error) -> NpmError {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                NpmError::DiskFull { path }
            }
            _ => NpmError::Write { path, source },
        }
    }

    /// An error out of what `npm` printed.
    pub(super) fn from_npm(spec: &str, stderr: &str) -> NpmError {
        let spec = spec.to_owned();
        let detail = detail(stderr);
        let says = |words: &[&str]| words.iter().any(|w| stderr.contains(w));
        if says(&["ENOSPC"]) {
            NpmError::DiskFull {
                path: std::env::temp_dir(),
            }
        } else if says(&["E404", "ETARGET", "404 Not Found"]) {
            NpmError::NotFound { spec, detail }
        } else if says(&[
            "ENOTFOUND",
            "EAI_AGAIN",
            "ECONNREFUSED",
            "ECONNRESET",
            "ETIMEDOUT",
            "ENETUNREACH",
            "EHOSTUNREACH",
            "ENOTCACHED",
            "ERR_SOCKET_TIMEOUT",
            "FETCH_ERROR",
        ]) {
            NpmError::Offline { spec, detail }
        } else {
            NpmError::Npm { spec, detail }
        }
    }
}

/// The telling line of npm's complaint: the first that is not a code or a pointer to a log.
fn detail(stderr: &str) -> String {
    let mut lines = stderr.lines().map(|line| {
        line.trim_start_matches("npm ")
            .trim_start_matches("error ")
            .trim_start_matches("ERR! ")
            .trim()
    });
    let telling = |line: &&str| {
        !line.is_empty()
            && ![
                "code ",
                "errno ",
                "syscall ",
                "A complete log",
                "network This is a problem",
            ]
            .iter()
            .any(|p| line.starts_with(p))
    };
    lines
        .find(telling)
        .unwrap_or("it gave no reason")
        .to_owned()
}
