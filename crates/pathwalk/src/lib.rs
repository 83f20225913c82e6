//! A command name and `$PATH` to an executable file, as `execvp(3)` of glibc finds it.
//!
//! The file system is the only source of truth: there is no registry of commands and no cache,
//! so a command that is removed is gone and one that is replaced is the new one.
//!
//! [`find`] searches; [`executable`] is the check it makes for each candidate, and what a program
//! named by its path has to pass.
//!
//! # Rules
//!
//! - A command with a slash in it is a path. It is not searched for.
//! - Otherwise the elements of `$PATH` are tried from left to right. An empty element, also one
//!   before the first colon, after the last, or all of an empty `$PATH`, is the working directory.
//! - A candidate must be a regular file that the caller may execute, on a mount that allows it.
//!   Directories and devices never match.
//! - `ENOENT`, `ENOTDIR`, `EACCES`, `ESTALE`, `ENODEV` and `ETIMEDOUT` lead on to the next element.
//!   Any other error ends the search: with a link that leads in circles, say, it can't be known
//!   what would have been found.
//! - If nothing is found, the error is `EACCES` if that was met anywhere, else the last one.
//!
//! Three differences from glibc, all of them wanted: the first executable file is the answer even
//! if its interpreter is missing (glibc takes that `ENOENT` for its own and searches on); a file
//! no format knows is not handed to `/bin/sh`; and an element of `$PATH` that is longer than any
//! path may be is passed over without trying the working directory in its place.
//!
//! # Example
//!
//! ```
//! use std::sync::Arc;
//! use vfs_core::{At, Caller, Lookup, OpenFlags};
//! # use vfs_core::{memfs::{MemFs, MemFsOptions}, Errno, MountFlags, Namespace, namei::NoSpecialFiles};
//! # let fs = MemFs::new(MemFsOptions::default());
//! # let ns = Namespace::new(fs, MountFlags::empty(), Arc::new(NoSpecialFiles));
//! # let (root, caller) = (ns.root(), Caller::host());
//! let at = At { ns: &ns, root: &root, base: &root, caller: &caller };
//! at.mkdir(b"/bin", 0o755)?;
//! at.open(b"/bin/ls", OpenFlags::CREAT | OpenFlags::WRONLY, 0o755)?;
//!
//! let found = pathwalk::find(&at, b"ls", Some(b"/sbin:/bin"), b"/bin")?;
//! assert_eq!(found.path, b"/bin/ls");
//! assert!(found.location == at.resolve(b"/bin/ls", Lookup::FOLLOW)?);
//!
//! let error = pathwalk::find(&at, b"sl", Some(b"/sbin:/bin"), b"/bin").err().unwrap();
//! assert_eq!(error.to_string(), "No such file or directory (looked in /sbin, /bin)");
//! # Ok::<(), Errno>(())
//! ```

mod error;

pub use error::{NotFound, Tried};

use std::ops::Range;
use vfs_core::types::PATH_MAX;
use vfs_core::{Access, At, Errno, FileType, Lookup, MountFlags, Path, permission};

/// An executable file that [`find`] has found.
#[derive(Clone)]
pub struct Found {
    /// The path that led to it, as a script sees it in its arguments: the command itself, or the
    /// element of `$PATH`, a slash and the command (the command alone if the element is empty).
    pub path: Vec<u8>,
    /// Where it is.
    pub location: Path,
}

/// Searches for a command.
///
/// `path` is the value of `$PATH`; `default` stands in for it if it is not set at all.
///
/// # Errors
///
/// [`NotFound`] says what `execvp` would fail with, and what was met where.
pub fn find(
    at: &At<'_>,
    command: &[u8],
    path: Option<&[u8]>,
    default: &[u8],
) -> Result<Found, NotFound> {
    if command.is_empty() {
        return Err(NotFound {
            errno: Errno::ENOENT,
            tried: Vec::new(),
        });
    }
    if command.contains(&b'/') {
        return match executable(at, command) {
            Ok(location) => Ok(Found {
                path: command.to_vec(),
                location,
            }),
            Err(errno) => Err(NotFound {
                errno,
                tried: Vec::new(),
            }),
        };
    }
    let path = path.unwrap_or(default);
    let mut search = Search {
        path,
        tried: Vec::new(),
        denied: false,
    };
    let mut candidate = Vec::new();
    for element in elements(path) {
        let dir = &path[element.clone()];
        if dir.len() >= PATH_MAX {
            search.note(element, Errno::ENAMETOOLONG);
            continue;
        }
        candidate.clear();
        candidate.extend_from_slice(dir);
        if !dir.is_empty() {
            candidate.push(b'/');
        }
        candidate.extend_from_slice(command);
        match executable(at, &candidate) {
            Ok(location) => {
                return Ok(Found {
                    path: candidate,
                    location,
                });
            }
            Err(errno) => {
                search.note(element, errno);
                if !leads_on(errno) {
                    return Err(search.failed(errno));
                }
            }
        }
    }
    let last = search
        .tried
        .last()
        .map_or(Errno::ENOENT, |(_, errno)| *errno);
    let errno = if search.denied { Errno::EACCES } else { last };
    Err(search.failed(errno))
}

/// The file at `path`, if the caller may execute it.
///
/// # Errors
///
/// What `execve(2)` says before it looks into the file: the errors of the path walk, and `EACCES`
/// for anything but a regular file with permission to execute it on a mount that allows it.
pub fn executable(at: &At<'_>, path: &[u8]) -> vfs_core::Result<Path> {
    let location = at.resolve(path, Lookup::FOLLOW)?;
    if location.inode().kind() != FileType::Regular {
        return Err(Errno::EACCES);
    }
    if location.mount().flags().contains(MountFlags::NOEXEC) {
        return Err(Errno::EACCES);
    }
    permission(&location.inode().stat()?, &at.caller.cred, Access::EXEC)?;
    Ok(location)
}

/// Whether the search goes on after an error, as in glibc's `posix/execvpe.c`.
fn leads_on(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::EACCES
            | Errno::ENOENT
            | Errno::ESTALE
            | Errno::ENOTDIR
            | Errno::ENODEV
            | Errno::ETIMEDOUT
    )
}

/// The places of the elements in `path`, at least one.
fn elements(path: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut start = 0;
    path.split(|&b| b == b':').map(move |element| {
        let range = start..start + element.len();
        start = range.end + 1;
        range
    })
}

/// What was met so far. Elements are kept by their place in `$PATH`: most searches succeed and
/// need no copy of them.
struct Search<'a> {
    path: &'a [u8],
    tried: Vec<(Range<usize>, Errno)>,
    denied: bool,
}

impl Search<'_> {
    fn note(&mut self, element: Range<usize>, errno: Errno) {
        self.denied |= errno == Errno::EACCES;
        self.tried.push((element, errno));
    }

    fn failed(self, errno: Errno) -> NotFound {
        let tried = |(element, errno): (Range<usize>, _)| Tried {
            dir: self.path[element].to_vec(),
            errno,
        };
        NotFound {
            errno,
            tried: self.tried.into_iter().map(tried).collect(),
        }
    }
}
