//! BARE, as far as the container uses it: a bounded decoder and its encoder.
//!
//! A decoder never allocates more than the bytes in front of it justify: counts are checked
//! against the bytes that are left, and strings are borrowed.

use crate::error::{Error, Result};
use crate::limits::MAX_STRING;

/// Reads BARE values from a chunk.
#[derive(Debug, Clone)]
pub(crate) struct Decoder<'a> {
    chunk: &'static str,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Decoder<'a> {
    pub(crate) fn new(chunk: &'static str, bytes: &'a [u8]) -> Self {
        Decoder {
            chunk,
            bytes,
            at: 0,
        }
    }

    pub(crate) fn position(&self) -> usize {
        self.at
    }

    pub(crate) fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    pub(crate) fn malformed(&self, what: impl Into<String>) -> Error {
        Error::Malformed {
            chunk: self.chunk,
            at: self.at,
            what: what.into(),
        }
    }

    pub(crate) fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        let end = self.at.checked_add(n);
        match end.and_then(|end| self.bytes.get(self.at..end)) {
            Some(slice) => {
                self.at += n;
                Ok(slice)
            }
            None => Err(self.malformed(format!("{n} bytes wanted, {} left", self.remaining()))),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }

    pub(crate) fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(crate) fn i64(&mut self) -> Result<i64> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    /// LEB128, at most ten bytes.
    pub(crate) fn uint(&mut self) -> Result<u64> {
        let mut value = 0u64;
        for i in 0..10 {
            let byte = self.u8()?;
            if i == 9 && byte > 1 {
                return Err(self.malformed("uint above 64 bits"));
            }
            value |= u64::from(byte & 0x7f) << (7 * i);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(self.malformed("uint longer than ten bytes"))
    }

    /// The presence byte of an optional.
    pub(crate) fn present(&mut self) -> Result<bool> {
        self.boolean()
    }

    pub(crate) fn boolean(&mut self) -> Result<bool> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(self.malformed(format!("{other} is not a boolean"))),
        }
    }

    /// A list's or map's count. `min` is the least an item takes, so a count that the rest of the
    /// chunk cannot hold is refused before anything is allocated for it.
    pub(crate) fn count(&mut self, min: usize) -> Result<usize> {
        let count = self.uint()?;
        let most = self.remaining() / min.max(1);
        match usize::try_from(count) {
            Ok(count) if count <= most => Ok(count),
            _ => Err(self.malformed(format!("{count} items cannot fit"))),
        }
    }

    pub(crate) fn str(&mut self) -> Result<&'a str> {
        let len = self.uint()?;
        if len > MAX_STRING as u64 {
            return Err(Error::Limit {
                what: "string length",
                limit_name: "MAX_STRING",
                limit: MAX_STRING as u64,
                got: len,
            });
        }
        let bytes = self.take(len as usize)?;
        std::str::from_utf8(bytes).map_err(|_| self.malformed("string is not UTF-8"))
    }

    pub(crate) fn string(&mut self) -> Result<String> {
        Ok(self.str()?.to_owned())
    }
}

/// Writes BARE values.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    pub(crate) bytes: Vec<u8>,
}

impl Encoder {
    pub(crate) fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn i64(&mut self, value: i64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn uint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    pub(crate) fn boolean(&mut self, value: bool) {
        self.bytes.push(u8::from(value));
    }

    pub(crate) fn str(&mut self, value: &str) {
        self.uint(value.len() as u64);
        self.bytes.extend_from_slice(value.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uint_follows_the_draft() {
        for (value, bytes) in [
            (0u64, &[0u8][..]),
            (1, &[1]),
            (126, &[0x7e]),
            (127, &[0x7f]),
            (128, &[0x80, 1]),
            (300, &[0xac, 2]),
            (u64::MAX, &[255, 255, 255, 255, 255, 255, 255, 255, 255, 1]),
        ] {
            let mut encoder = Encoder::default();
            encoder.uint(value);
            assert_eq!(encoder.bytes, bytes);
            assert_eq!(Decoder::new("test", bytes).uint().ok(), Some(value));
        }
    }

    #[test]
    fn an_overlong_uint_is_refused() {
        assert!(Decoder::new("test", &[0x80; 11]).uint().is_err());
        assert!(
            Decoder::new("test", &[255, 255, 255, 255, 255, 255, 255, 255, 255, 2])
                .uint()
                .is_err()
        );
        assert!(Decoder::new("test", &[0x80]).uint().is_err());
    }

    #[test]
    fn a_count_is_bounded_by_what_is_left() {
        assert!(Decoder::new("test", &[5, 0, 0]).count(1).is_err());
        assert_eq!(Decoder::new("test", &[2, 0, 0]).count(1).ok(), Some(2));
        assert!(Decoder::new("test", &[2, 0, 0]).count(2).is_err());
    }
}
