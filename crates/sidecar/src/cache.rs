//! Where things are kept that can be made or fetched again.
//!
//! One directory, `$AOS_CACHE_DIR` or `$XDG_CACHE_HOME/aos` or `~/.cache/aos`, private to the user:
//!
//! | below it | what |
//! |---|---|
//! | `packages/` | package files fetched from npm, never changed once they have their name |
//! | `packages/*.list` | which files an npm name and version stands for, so that a second run asks nobody |
//! | `npm/` | downloads under way, and locks so that two runs do not fetch the same thing |
//! | `index/` | indexes of packages that were published without one |
//! | `code/` | compiled WebAssembly |
//!
//! All of it may be removed at any time.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The cache directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    root: PathBuf,
}

/// Why there is no cache directory.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// Neither `AOS_CACHE_DIR` nor `XDG_CACHE_HOME` nor `HOME` is set.
    #[error("no place for a cache: set AOS_CACHE_DIR, XDG_CACHE_HOME or HOME")]
    NoPlace,
    /// A directory can't be made.
    #[error("cannot make the cache directory {}: {source}", path.display())]
    Create {
        /// The directory.
        path: PathBuf,
        /// What the host says.
        source: io::Error,
    },
}

impl Cache {
    /// The user's cache directory, as the environment names it. Nothing is created yet.
    pub fn from_env() -> Result<Cache, CacheError> {
        let set = |name| {
            std::env::var_os(name)
                .filter(|v| !v.is_empty())
                .map(PathBuf::from)
        };
        let root = if let Some(dir) = set("AOS_CACHE_DIR") {
            dir
        } else if let Some(dir) = set("XDG_CACHE_HOME").filter(|d| d.is_absolute()) {
            dir.join("aos")
        } else {
            set("HOME").ok_or(CacheError::NoPlace)?.join(".cache/aos")
        };
        Ok(Cache { root })
    }

    /// A cache in a directory of the caller's choice.
    pub fn at(root: impl Into<PathBuf>) -> Cache {
        Cache { root: root.into() }
    }

    /// The directory itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Package files.
    pub fn packages(&self) -> PathBuf {
        self.root.join("packages")
    }

    /// Downloads under way and locks.
    pub fn npm(&self) -> PathBuf {
        self.root.join("npm")
    }

    /// Indexes of packages that carry none.
    pub fn index(&self) -> PathBuf {
        self.root.join("index")
    }

    /// Compiled code.
    pub fn code(&self) -> PathBuf {
        self.root.join("code")
    }

    /// Makes `dir`, one of the above, with mode 0700 where it is new.
    pub fn ensure(&self, dir: &Path) -> Result<(), CacheError> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)
            .map_err(|source| CacheError::Create {
                path: dir.to_owned(),
                source,
            })
    }
}
