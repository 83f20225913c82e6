//! Content of a regular file: pages that exist only where something was written.

use std::collections::BTreeMap;

/// Granularity of allocation, of holes and of the space limit.
pub(super) const PAGE: usize = 4096;
/// Largest size of a file (`MAX_LFS_FILESIZE`).
pub(super) const MAX_SIZE: u64 = i64::MAX as u64;

/// Gives and takes back the pages of a file system.
pub(super) trait Budget {
    /// Takes `pages`, or none and returns false.
    fn reserve(&self, pages: u64) -> bool;
    /// Gives `pages` back.
    fn release(&self, pages: u64);
}

/// A page: its leading bytes, the rest being zeros. A short file costs its length, not 4 KiB; a
/// page that was only reserved costs nothing, and counts as a hole until it is written.
#[derive(Default)]
struct Page {
    bytes: Vec<u8>,
    written: bool,
}

impl Page {
    /// Writes `from` at `at`; false if the host has no memory.
    fn write(&mut self, at: usize, from: &[u8]) -> bool {
        self.written = true;
        let bytes = &mut self.bytes;
        let end = at + from.len();
        if end > bytes.capacity() {
            let room = end.next_power_of_two().clamp(16, PAGE);
            if bytes.try_reserve_exact(room - bytes.len()).is_err() {
                return false;
            }
        }
        if at > bytes.len() {
            bytes.resize(at, 0);
        }
        let over = (bytes.len() - at).min(from.len());
        bytes[at..at + over].copy_from_slice(&from[..over]);
        bytes.extend_from_slice(&from[over..]);
        true
    }

    /// Fills `into` with the bytes at `at`.
    fn read(&self, at: usize, into: &mut [u8]) {
        let have = self.bytes.get(at..).unwrap_or_default();
        let n = have.len().min(into.len());
        into[..n].copy_from_slice(&have[..n]);
        into[n..].fill(0);
    }

    /// Zeroes `from..to`.
    fn zero(&mut self, from: usize, to: usize) {
        let len = self.bytes.len();
        if to >= len {
            self.bytes.truncate(from);
            self.bytes.shrink_to_fit();
        } else if from < len {
            self.bytes[from..to].fill(0);
        }
    }
}

/// The bytes of a file. Bytes beyond its size are zeros wherever a page has them.
#[derive(Default)]
pub(super) struct Data {
    size: u64,
    /// Page 0 apart, so that a small file needs no tree.
    first: Option<Page>,
    rest: BTreeMap<u64, Page>,
}

impl Data {
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Pages held.
    pub(super) fn pages(&self) -> u64 {
        self.rest.len() as u64 + u64::from(self.first.is_some())
    }

    fn page(&self, index: u64) -> Option<&Page> {
        if index == 0 {
            self.first.as_ref()
        } else {
            self.rest.get(&index)
        }
    }

    fn page_mut(&mut self, index: u64) -> Option<&mut Page> {
        if index == 0 {
            self.first.as_mut()
        } else {
            self.rest.get_mut(&index)
        }
    }

    /// The page, taken from the budget if new; `None` if there is no room.
    fn page_or_new(&mut self, index: u64, budget: &impl Budget) -> Option<&mut Page> {
        if self.page(index).is_none() && !budget.reserve(1) {
            return None;
        }
        Some(if index == 0 {
            self.first.get_or_insert_default()
        } else {
            self.rest.entry(index).or_default()
        })
    }

    fn remove_page(&mut self, index: u64, budget: &impl Budget) {
        let page = if index == 0 {
            self.first.take()
        } else {
            self.rest.remove(&index)
        };
        if page.is_some() {
            budget.release(1);
        }
    }

    /// Reads at `offset`; 0 at or past the end.
    pub(super) fn read(&self, buf: &mut [u8], offset: u64) -> usize {
        if offset >= self.size {
            return 0;
        }
        let n = usize::try_from(self.size - offset)
            .unwrap_or(usize::MAX)
            .min(buf.len());
        let mut left = &mut buf[..n];
        let mut index = offset / PAGE as u64;
        let mut at = (offset % PAGE as u64) as usize;
        let mut pages = self.rest.range(index.max(1)..).peekable();
        while !left.is_empty() {
            let (part, more) = left.split_at_mut(left.len().min(PAGE - at));
            let page = match index {
                0 => self.first.as_ref(),
                _ => pages.next_if(|(i, _)| **i == index).map(|(_, page)| page),
            };
            match page {
                Some(page) => page.read(at, part),
                None => part.fill(0),
            }
            left = more;
            index += 1;
            at = 0;
        }
        n
    }

    /// Writes at `offset` as much as there is room for; `None` if that is nothing. The offset is
    /// below the largest size.
    pub(super) fn write(&mut self, buf: &[u8], offset: u64, budget: &impl Budget) -> Option<usize> {
        let most = usize::try_from(MAX_SIZE - offset).unwrap_or(usize::MAX);
        let buf = &buf[..buf.len().min(most)];
        let mut done = 0;
        while done < buf.len() {
            let pos = offset + done as u64;
            let at = (pos % PAGE as u64) as usize;
            let n = (buf.len() - done).min(PAGE - at);
            let Some(page) = self.page_or_new(pos / PAGE as u64, budget) else {
                break;
            };
            if !page.write(at, &buf[done..done + n]) {
                break;
            }
            done += n;
        }
        if done == 0 {
            return None;
        }
        self.size = self.size.max(offset + done as u64);
        Some(done)
    }

    /// Cuts or extends.
    pub(super) fn resize(&mut self, size: u64, budget: &impl Budget) {
        if size < self.size {
            self.punch(size, u64::MAX, budget);
        }
        self.size = size;
    }

    /// Zeroes `from..to`, giving back the pages that lie in it whole.
    pub(super) fn punch(&mut self, from: u64, to: u64, budget: &impl Budget) {
        const P: u64 = PAGE as u64;
        if from >= to {
            return;
        }
        let first_whole = from.div_ceil(P);
        let end_whole = to / P;
        if first_whole > end_whole {
            // Within one page.
            if let Some(page) = self.page_mut(from / P) {
                page.zero((from % P) as usize, (to % P) as usize);
            }
            return;
        }
        if !from.is_multiple_of(P)
            && let Some(page) = self.page_mut(from / P)
        {
            page.zero((from % P) as usize, PAGE);
        }
        if !to.is_multiple_of(P)
            && let Some(page) = self.page_mut(end_whole)
        {
            page.zero(0, (to % P) as usize);
        }
        if first_whole == 0 && end_whole > 0 {
            self.remove_page(0, budget);
        }
        let first_whole = first_whole.max(1);
        if self
            .rest
            .last_key_value()
            .is_none_or(|(&last, _)| last < end_whole)
        {
            budget.release(self.rest.split_off(&first_whole).len() as u64);
            return;
        }
        let doomed: Vec<u64> = self
            .rest
            .range(first_whole..end_whole.max(first_whole))
            .map(|(&index, _)| index)
            .collect();
        for index in doomed {
            self.remove_page(index, budget);
        }
    }

    /// Makes sure that `from..to`, not empty, has pages; false, and nothing changed, if there is no
    /// room for them.
    pub(super) fn reserve(&mut self, from: u64, to: u64, budget: &impl Budget) -> bool {
        let (first, end) = (from / PAGE as u64, to.div_ceil(PAGE as u64));
        let have = self.rest.range(first.max(1)..end.max(1)).count() as u64
            + u64::from(first == 0 && self.first.is_some());
        // All at once, so that an absurd range is refused before it takes memory.
        if !budget.reserve(end - first - have) {
            return false;
        }
        for index in first..end {
            if index == 0 {
                self.first.get_or_insert_default();
            } else {
                self.rest.entry(index).or_default();
            }
        }
        true
    }

    /// Zeroes `from..to` without giving pages back.
    pub(super) fn zero(&mut self, from: u64, to: u64) {
        for index in from / PAGE as u64..to.div_ceil(PAGE as u64) {
            let start = index * PAGE as u64;
            if let Some(page) = self.page_mut(index) {
                let to = (to - start).min(PAGE as u64);
                page.zero(from.saturating_sub(start) as usize, to as usize);
            }
        }
    }

    /// Extends the size to `size` at least.
    pub(super) fn extend(&mut self, size: u64) {
        self.size = self.size.max(size);
    }

    /// Takes `from..to`, whole pages, out and moves what follows down.
    pub(super) fn collapse(&mut self, from: u64, to: u64, budget: &impl Budget) {
        self.punch(from, to, budget);
        self.shift(to / PAGE as u64, |index| index - (to - from) / PAGE as u64);
        self.size -= to - from;
    }

    /// Moves what is at `from` and after up by `len`, whole pages, leaving a hole.
    pub(super) fn insert(&mut self, from: u64, len: u64) {
        self.shift(from / PAGE as u64, |index| index + len / PAGE as u64);
        self.size += len;
    }

    fn shift(&mut self, from: u64, to: impl Fn(u64) -> u64) {
        if from == 0
            && let Some(page) = self.first.take()
        {
            self.rest.insert(0, page);
        }
        let moved = self.rest.split_off(&from);
        self.rest
            .extend(moved.into_iter().map(|(index, page)| (to(index), page)));
        self.first = self.rest.remove(&0).or(self.first.take());
    }

    /// The next byte at or after `offset` that is (or is not) in a written page; `None` past the
    /// end.
    pub(super) fn seek(&self, offset: u64, hole: bool) -> Option<u64> {
        const P: u64 = PAGE as u64;
        if offset >= self.size {
            return None;
        }
        let start = offset / P;
        let first = self
            .first
            .as_ref()
            .filter(|page| start == 0 && page.written);
        let mut rest = self
            .rest
            .range(start.max(1)..)
            .filter(|(_, page)| page.written)
            .map(|(&i, _)| i);
        if hole {
            let mut index = start + u64::from(first.is_some());
            if index > 0 {
                for have in rest {
                    if have != index {
                        break;
                    }
                    index += 1;
                }
            }
            return Some(index.saturating_mul(P).clamp(offset, self.size));
        }
        let index = if first.is_some() { 0 } else { rest.next()? };
        let at = (index * P).max(offset);
        (at < self.size).then_some(at)
    }
}
