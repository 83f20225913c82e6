//! Guest memory as host functions see it: a slice, and ranges of it checked before use.
//!
//! A host function reads and writes the linear memory where it lies. Every pointer and length of
//! the guest goes through [`Memory::slice`] or its kin, which answer `EFAULT` for a range that is
//! not wholly inside; nothing here can panic.

use kernel::{Errno, Result};
use std::ops::Range;

/// The linear memory of the calling guest, borrowed for the time of one host call.
///
/// The borrow is exclusive, so it cannot be held across anything that runs guest code.
pub(crate) struct Memory<'a>(&'a mut [u8]);

impl<'a> Memory<'a> {
    /// Wraps the bytes of a linear memory.
    pub(crate) fn new(bytes: &'a mut [u8]) -> Memory<'a> {
        Memory(bytes)
    }

    /// The range `ptr..ptr+len` if it is inside, else `EFAULT`.
    pub(crate) fn check(&self, ptr: u32, len: u32) -> Result<Range<usize>> {
        let start = ptr as usize;
        let end = start.checked_add(len as usize).ok_or(Errno::EFAULT)?;
        if end > self.0.len() {
            return Err(Errno::EFAULT);
        }
        Ok(start..end)
    }

    /// Like [`Memory::check`] for `count` items of `size` bytes.
    pub(crate) fn check_array(&self, ptr: u32, count: u32, size: u32) -> Result<Range<usize>> {
        self.check(ptr, count.checked_mul(size).ok_or(Errno::EFAULT)?)
    }

    /// Bytes of the guest.
    pub(crate) fn slice(&self, ptr: u32, len: u32) -> Result<&[u8]> {
        let range = self.check(ptr, len)?;
        self.0.get(range).ok_or(Errno::EFAULT)
    }

    /// Bytes of the guest, to be written.
    pub(crate) fn slice_mut(&mut self, ptr: u32, len: u32) -> Result<&mut [u8]> {
        let range = self.check(ptr, len)?;
        self.0.get_mut(range).ok_or(Errno::EFAULT)
    }

    /// An array of little-endian numbers.
    pub(crate) fn u32s(&self, ptr: u32, count: u32) -> Result<impl Iterator<Item = u32> + '_> {
        let range = self.check_array(ptr, count, 4)?;
        let bytes = self.0.get(range).ok_or(Errno::EFAULT)?;
        Ok(bytes
            .chunks_exact(4)
            .map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])))
    }

    /// The `N` bytes at `ptr`.
    pub(crate) fn bytes<const N: usize>(&self, ptr: u32) -> Result<[u8; N]> {
        let slice = self.slice(ptr, N as u32)?;
        slice.try_into().map_err(|_| Errno::EFAULT)
    }

    /// Copies bytes into the guest.
    pub(crate) fn write(&mut self, ptr: u32, bytes: &[u8]) -> Result<()> {
        let len = u32::try_from(bytes.len()).map_err(|_| Errno::EFAULT)?;
        self.slice_mut(ptr, len)?.copy_from_slice(bytes);
        Ok(())
    }

    /// A `u32`.
    pub(crate) fn u32(&self, ptr: u32) -> Result<u32> {
        Ok(u32::from_le_bytes(self.bytes(ptr)?))
    }

    /// Writes a `u16`.
    pub(crate) fn put_u16(&mut self, ptr: u32, value: u16) -> Result<()> {
        self.write(ptr, &value.to_le_bytes())
    }

    /// Writes a `u32`.
    pub(crate) fn put_u32(&mut self, ptr: u32, value: u32) -> Result<()> {
        self.write(ptr, &value.to_le_bytes())
    }

    /// Writes a `u64`.
    pub(crate) fn put_u64(&mut self, ptr: u32, value: u64) -> Result<()> {
        self.write(ptr, &value.to_le_bytes())
    }

    /// Proves that `u32` outputs can be written, before anything is done.
    pub(crate) fn check_u32s<const N: usize>(&self, ptrs: [u32; N]) -> Result<()> {
        ptrs.into_iter()
            .try_for_each(|ptr| self.check(ptr, 4).map(drop))
    }

    /// Proves that `u64` outputs can be written, before anything is done.
    pub(crate) fn check_u64s<const N: usize>(&self, ptrs: [u32; N]) -> Result<()> {
        ptrs.into_iter()
            .try_for_each(|ptr| self.check(ptr, 8).map(drop))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_end_where_memory_ends() {
        let mut bytes = [0u8; 64];
        let mut memory = Memory::new(&mut bytes);
        assert!(memory.slice(0, 64).is_ok());
        assert!(memory.slice(64, 0).is_ok());
        assert_eq!(memory.slice(1, 64), Err(Errno::EFAULT));
        assert_eq!(memory.slice(u32::MAX, u32::MAX), Err(Errno::EFAULT));
        assert_eq!(memory.put_u32(61, 1), Err(Errno::EFAULT));
        assert_eq!(memory.put_u64(56, 7), Ok(()));
        assert_eq!(memory.u32(56), Ok(7));
        assert!(memory.u32s(0, u32::MAX).is_err());
        assert_eq!(memory.u32s(56, 2).unwrap().collect::<Vec<_>>(), [7, 0]);
    }
}
