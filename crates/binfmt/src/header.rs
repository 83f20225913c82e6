//! The header buffer and the table of formats.

use crate::script;
use std::fmt;
use vfs_core::errno::{Errno, Result};

/// Bytes of a file that decide how it runs (`BINPRM_BUF_SIZE`, `include/uapi/linux/binfmts.h`).
pub const HEADER_SIZE: usize = 256;

/// First bytes of a WebAssembly module or component.
pub const WASM_MAGIC: [u8; 4] = *b"\0asm";

/// First bytes of a runtime file; see the [crate documentation](crate#the-runtime-header).
pub const RUNTIME_MAGIC: [u8; 4] = *b"\0aos";

/// Longest name in a runtime file, in bytes.
pub const RUNTIME_NAME_MAX: usize = 64;

/// Who runs a file, decided by its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Handler<'a> {
    /// `#!`: the interpreter is loaded instead and given the script's path.
    Script {
        /// Path of the interpreter, taken literally: it is not searched for, and a relative one is
        /// relative to the working directory. Empty if the line is `#!` with blanks alone and the
        /// file ends there without a newline, as in Linux.
        interpreter: &'a [u8],
        /// What follows the path, blanks inside included, as the one argument it is. `Some` of
        /// nothing if blanks follow the path and the file ends there without a newline, as in
        /// Linux.
        argument: Option<&'a [u8]>,
    },
    /// `\0asm`: a WebAssembly module.
    Wasm,
    /// `\0aos`: the kernel's own runtime of this name, such as `node`.
    Runtime(&'a str),
}

/// The handler for a file that begins with `header`.
///
/// Only the first [`HEADER_SIZE`] bytes count, and a shorter file is as good as one padded with
/// zeros, because that is how Linux fills its buffer.
///
/// # Errors
///
/// `ENOEXEC` if no format knows the header or the one that does refuses it.
pub fn parse(header: &[u8]) -> Result<Handler<'_>> {
    let header = &header[..header.len().min(HEADER_SIZE)];
    if header.starts_with(b"#!") {
        return script::parse(header);
    }
    if header.starts_with(&WASM_MAGIC) {
        return Ok(Handler::Wasm);
    }
    match header.strip_prefix(&RUNTIME_MAGIC) {
        Some(rest) => runtime_name(rest)
            .map(Handler::Runtime)
            .ok_or(Errno::ENOEXEC),
        None => Err(Errno::ENOEXEC),
    }
}

/// The bytes of a file that is the runtime `name`; `None` if the name breaks the rule of the
/// [crate documentation](crate#the-runtime-header).
pub fn runtime_file(name: &str) -> Option<Vec<u8>> {
    let bytes = [&RUNTIME_MAGIC[..], name.as_bytes(), b"\n"].concat();
    (parse(&bytes) == Ok(Handler::Runtime(name))).then_some(bytes)
}

fn runtime_name(rest: &[u8]) -> Option<&str> {
    let end = rest
        .iter()
        .take(RUNTIME_NAME_MAX + 1)
        .position(|&b| b == b'\n')?;
    let name = &rest[..end];
    let allowed = |b: &u8| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.');
    if name.is_empty() || !name.iter().all(allowed) {
        return None;
    }
    std::str::from_utf8(name).ok()
}

/// The header of a file, copied out of it so that it outlives whatever the file was read from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Header {
    bytes: [u8; HEADER_SIZE],
    len: u16,
}

impl Header {
    /// The header of a file that begins with `content`; bytes past [`HEADER_SIZE`] are dropped.
    pub fn new(content: &[u8]) -> Header {
        let len = content.len().min(HEADER_SIZE);
        let mut bytes = [0; HEADER_SIZE];
        bytes[..len].copy_from_slice(&content[..len]);
        Header {
            bytes,
            len: len as u16,
        }
    }

    /// The bytes, fewer than [`HEADER_SIZE`] if the file is shorter.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// The handler; see [`parse`].
    ///
    /// # Errors
    ///
    /// `ENOEXEC` as [`parse`].
    pub fn parse(&self) -> Result<Handler<'_>> {
        parse(self.bytes())
    }
}

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Header(\"{}\")", self.bytes().escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn magic_numbers() {
        assert_eq!(parse(b"\0asm"), Ok(Handler::Wasm));
        assert_eq!(parse(b"\0asm\x01\0\0\0"), Ok(Handler::Wasm));
        let foreign: [&[u8]; 12] = [
            b"",
            b"\0",
            b"\0as",
            b"\0Asm",
            b"#",
            b"# !/bin/sh\n",
            b"\x7fELF\x02\x01\x01",
            b"MZ\x90\0",
            b"\xcf\xfa\xed\xfe",
            b"\xca\xfe\xba\xbe",
            b"echo hello\n",
            b"\xef\xbb\xbf#!/bin/sh\n",
        ];
        for bytes in foreign {
            assert_eq!(
                parse(bytes),
                Err(Errno::ENOEXEC),
                "{}",
                bytes.escape_ascii()
            );
        }
    }

    #[test]
    fn runtime_files() {
        assert_eq!(runtime_file("node").as_deref(), Some(&b"\0aosnode\n"[..]));
        assert_eq!(
            parse(b"\0aospython3.12\nrest is ignored"),
            Ok(Handler::Runtime("python3.12"))
        );
        let longest = "x".repeat(RUNTIME_NAME_MAX);
        let bytes = runtime_file(&longest).expect("a name of the greatest length");
        assert_eq!(parse(&bytes), Ok(Handler::Runtime(&longest)));
        assert_eq!(runtime_file(&"x".repeat(RUNTIME_NAME_MAX + 1)), None);
        for name in ["", "Node", "a b", "a/b", "a\0", "a\n", "é"] {
            assert_eq!(runtime_file(name), None, "{name:?}");
        }
        for bytes in [
            &b"\0aos"[..],
            b"\0aosnode",
            b"\0aos\n",
            b"\0aosnode\r\n",
            b"\0aosn\xff\n",
        ] {
            assert_eq!(
                parse(bytes),
                Err(Errno::ENOEXEC),
                "{}",
                bytes.escape_ascii()
            );
        }
    }

    #[test]
    fn a_header_keeps_256_bytes() {
        let content = [b'#'; 300];
        assert_eq!(Header::new(&content).bytes().len(), HEADER_SIZE);
        assert_eq!(Header::new(b"ab").bytes(), b"ab");
        assert_eq!(
            format!("{:?}", Header::new(b"#!a\n")),
            r##"Header("#!a\n")"##
        );
    }
}
