//! The memory of a pipe: bytes at positions modulo a power of two.
//!
//! A pipe lets one writer and one reader copy at the same time, without a lock over either copy.
//! That needs memory both may touch, in ranges that never meet; this module is that memory and
//! holds the only unsafe code of the crate. Which ranges never meet is for [`crate::pipe`] to see
//! to.

use std::cell::UnsafeCell;
use vfs_core::errno::{Errno, Result};

/// A buffer whose size is a power of two, or zero.
pub(crate) struct Ring {
    /// Length zero always; the capacity is the memory.
    bytes: Vec<UnsafeCell<u8>>,
    size: usize,
}

// SAFETY: the bytes are reached only through `write` and `read`, whose callers promise that no two
// threads touch the same byte at the same time.
unsafe impl Sync for Ring {}

impl Ring {
    /// No memory.
    pub(crate) const fn empty() -> Ring {
        Ring {
            bytes: Vec::new(),
            size: 0,
        }
    }

    /// `size` bytes, which the host provides as they are touched; `ENOMEM`. `size` is rounded up
    /// to a power of two.
    pub(crate) fn new(size: usize) -> Result<Ring> {
        let size = size.checked_next_power_of_two().ok_or(Errno::ENOMEM)?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(size).map_err(|_| Errno::ENOMEM)?;
        Ok(Ring { bytes, size })
    }

    /// Bytes it holds.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Where `position` lies and how much follows it before the end, at most `len`.
    fn place(&self, position: u64, len: usize) -> (usize, usize) {
        let at = (position as usize) & (self.size - 1);
        (at, len.min(self.size - at))
    }

    /// Copies `data` to `position`.
    ///
    /// # Safety
    ///
    /// Until this returns, no other call may read or write any of the `data.len()` positions from
    /// `position` on, taken modulo the size.
    ///
    /// # Panics
    ///
    /// If `data` is longer than the ring.
    pub(crate) unsafe fn write(&self, position: u64, data: &[u8]) {
        assert!(data.len() <= self.size);
        if data.is_empty() {
            return;
        }
        let (at, first) = self.place(position, data.len());
        let base = UnsafeCell::raw_get(self.bytes.as_ptr());
        // SAFETY: `at + first <= size` and the rest, which starts over at 0, is shorter than
        // `size` by the assertion, so both lie in the allocation of `size` bytes. `data` is a
        // borrow of other memory. Nobody else touches the range, by this function's contract.
        unsafe {
            base.add(at).copy_from_nonoverlapping(data.as_ptr(), first);
            base.copy_from_nonoverlapping(data[first..].as_ptr(), data.len() - first);
        }
    }

    /// Copies from `position` into `out`.
    ///
    /// # Safety
    ///
    /// Each of the `out.len()` positions from `position` on, taken modulo the size, was written
    /// before, and no other call writes any of them until this returns.
    ///
    /// # Panics
    ///
    /// If `out` is longer than the ring.
    pub(crate) unsafe fn read(&self, position: u64, out: &mut [u8]) {
        assert!(out.len() <= self.size);
        if out.is_empty() {
            return;
        }
        let (at, first) = self.place(position, out.len());
        let (head, rest) = out.split_at_mut(first);
        let base = UnsafeCell::raw_get(self.bytes.as_ptr()).cast_const();
        // SAFETY: both ranges lie in the allocation, as in `write`; the bytes were written and
        // nobody writes them now, by this function's contract. `out` is other memory.
        unsafe {
            base.add(at)
                .copy_to_nonoverlapping(head.as_mut_ptr(), head.len());
            base.copy_to_nonoverlapping(rest.as_mut_ptr(), rest.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wraps_around() {
        let ring = Ring::new(8).unwrap();
        let mut out = [0; 6];
        for start in 0..20u64 {
            let data: Vec<u8> = (0..6).map(|i| start as u8 * 7 + i).collect();
            // SAFETY: one thread; what is read was written just before.
            unsafe {
                ring.write(start, &data);
                ring.read(start, &mut out);
            }
            assert_eq!(out, data[..]);
        }
    }

    #[test]
    fn size_is_a_power_of_two_and_nothing_needs_no_memory() {
        assert_eq!(Ring::new(4097).unwrap().size(), 8192);
        assert_eq!(Ring::empty().size(), 0);
        assert_eq!(Ring::new(usize::MAX).err(), Some(Errno::ENOMEM));
        // SAFETY: nothing is copied.
        unsafe { Ring::empty().read(3, &mut []) };
    }
}
