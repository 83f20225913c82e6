//! The `#!` line, as `load_script` of `fs/binfmt_script.c` reads it.
//!
//! The rules that are easy to get wrong, all of which tests compare with the kernel underneath:
//!
//! - The buffer is padded with zeros, and a NUL ends whatever it stands in. So a newline behind a
//!   NUL does not exist, and a file without a newline is not the same as one with it: there the
//!   line runs to the last byte of the *buffer*, so blanks at its end are not trimmed away and
//!   make an empty argument.
//! - A path that the end of the buffer may have cut is refused (`ENOEXEC`); an argument that it
//!   cut is passed on as it is. Without a newline the last byte of the buffer is dropped, because
//!   the kernel puts the terminating NUL there.
//! - Blanks are space and tab and nothing else: a carriage return belongs to the path.

use crate::header::{HEADER_SIZE, Handler};
use vfs_core::errno::{Errno, Result};

/// Parses a header that begins with `#!` and has at most [`HEADER_SIZE`] bytes.
pub(crate) fn parse(header: &[u8]) -> Result<Handler<'_>> {
    let line = Line(header);
    let end = match line.newline() {
        Some(newline) => newline,
        None => {
            // Whether the path is whole shows only by what ends it.
            let path = line.skip_blanks(2, LAST).ok_or(Errno::ENOEXEC)?;
            line.terminator(path, LAST).ok_or(Errno::ENOEXEC)?;
            LAST
        }
    };
    let end = line.trim(end);
    let path = line
        .skip_blanks(2, end)
        .filter(|&at| at != end)
        .ok_or(Errno::ENOEXEC)?;
    let path_end = line.terminator(path, end);
    let argument = match path_end {
        Some(at) if line.at(at) != 0 => line.skip_blanks(at, end),
        _ => None,
    };
    Ok(Handler::Script {
        interpreter: line.text(path, path_end.unwrap_or(end)),
        argument: argument.map(|at| line.text(at, end)),
    })
}

/// Position of the last byte of the buffer.
const LAST: usize = HEADER_SIZE - 1;

/// The header as the kernel's buffer: zeros follow what the file has. Ranges include both ends.
struct Line<'a>(&'a [u8]);

impl<'a> Line<'a> {
    fn at(&self, position: usize) -> u8 {
        self.0.get(position).copied().unwrap_or(0)
    }

    /// The first newline that no NUL precedes (`strnchr`).
    fn newline(&self) -> Option<usize> {
        let stop = self.0.iter().position(|&b| b == b'\n' || b == 0)?;
        (self.0[stop] == b'\n').then_some(stop)
    }

    fn skip_blanks(&self, first: usize, last: usize) -> Option<usize> {
        (first..=last).find(|&at| !is_blank(self.at(at)))
    }

    fn terminator(&self, first: usize, last: usize) -> Option<usize> {
        (first..=last).find(|&at| is_blank(self.at(at)) || self.at(at) == 0)
    }

    /// Moves `end` back over the blanks before it; the `!` stops it.
    fn trim(&self, mut end: usize) -> usize {
        while is_blank(self.at(end - 1)) {
            end -= 1;
        }
        end
    }

    /// The string from `from` to `end` (which is not part of it) or to a NUL before.
    fn text(&self, from: usize, end: usize) -> &'a [u8] {
        let end = end.min(self.0.len());
        let bytes = self.0.get(from..end).unwrap_or_default();
        let len = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
        &bytes[..len]
    }
}

fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}
