//! Listing a directory.

use crate::entry::{Entry, EntryId};
use crate::error::Result;
use crate::package::Package;

/// The children of a directory, in order of name.
///
/// A child's index is a stable cookie for `readdir`: it does not depend on what was read before.
#[derive(Debug, Clone)]
pub struct Children<'p> {
    package: &'p Package,
    dir: EntryId,
    first: u32,
    at: u32,
    count: u32,
}

impl<'p> Children<'p> {
    pub(crate) fn new(package: &'p Package, dir: EntryId, first: u32, count: u32) -> Self {
        Children {
            package,
            dir,
            first,
            at: 0,
            count,
        }
    }

    /// The child at an index; `None` past the last.
    pub fn get(&self, index: u32) -> Option<Result<Entry<'p>>> {
        if index >= self.count {
            return None;
        }
        let id = EntryId(self.first + index);
        Some(self.package.child(self.dir, id))
    }

    /// Number of children, whatever was iterated over.
    pub fn count_all(&self) -> u32 {
        self.count
    }

    /// Starts over at an index.
    pub fn seek(&mut self, index: u32) {
        self.at = index.min(self.count);
    }
}

impl<'p> Iterator for Children<'p> {
    type Item = Result<Entry<'p>>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.get(self.at)?;
        self.at += 1;
        Some(entry)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = (self.count - self.at) as usize;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Children<'_> {}
