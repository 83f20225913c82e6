//! Why nothing was found.

use std::fmt;
use vfs_core::Errno;

/// An element of `$PATH` that was tried in vain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried {
    /// The element as it stands in `$PATH`; empty for the working directory.
    pub dir: Vec<u8>,
    /// What was met there.
    pub errno: Errno,
}

/// No executable file was found.
///
/// Shown as the error and where the command was looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotFound {
    /// What the exec fails with.
    pub errno: Errno,
    /// What was tried, in order; empty if the command is a path, which is not searched for.
    pub tried: Vec<Tried>,
}

impl fmt::Display for NotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.errno)?;
        for (n, Tried { dir, errno }) in self.tried.iter().enumerate() {
            f.write_str(if n == 0 { " (looked in " } else { ", " })?;
            if dir.is_empty() {
                f.write_str("the working directory")?;
            } else {
                f.write_str(&String::from_utf8_lossy(dir))?;
            }
            if *errno != Errno::ENOENT {
                write!(f, ": {errno}")?;
            }
        }
        if !self.tried.is_empty() {
            f.write_str(")")?;
        }
        Ok(())
    }
}

impl std::error::Error for NotFound {}

impl From<NotFound> for Errno {
    fn from(error: NotFound) -> Errno {
        error.errno
    }
}
