//! Header bytes to a handler, as the Linux kernel's binary-format handlers do it.
//!
//! What a file *is* follows from its leading bytes alone; its name and its place play no part.
//! Two steps, each usable on its own:
//!
//! - [`parse`] (or [`Header::parse`]) looks at the first [`HEADER_SIZE`] bytes of a file and says
//!   which [`Handler`] runs it;
//! - [`resolve`] follows a program through its interpreters (`#!` lines may name scripts in their
//!   turn) to the file that is really loaded, and rewrites the argument list on the way.
//!
//! This crate opens no file. Its caller hands in a function that does, so that the path walk,
//! permissions and mount flags stay where they belong and a test can answer from memory.
//!
//! # Headers
//!
//! | header | handler |
//! |---|---|
//! | `#!` | [`Handler::Script`], parsed as `load_script` in `fs/binfmt_script.c` does (Linux 6.18) |
//! | `\0asm` (`00 61 73 6d`) | [`Handler::Wasm`] |
//! | `\0aos` (`00 61 6f 73`), a name, `\n` | [`Handler::Runtime`] |
//! | anything else: ELF, Mach-O, PE, text, nothing | `ENOEXEC` |
//!
//! There is no fall-back to a shell here: a headerless script is `ENOEXEC`, and running it anyway
//! is a shell's business.
//!
//! ## The runtime header
//!
//! Language runtimes that are part of the kernel are files too, so that `#!/usr/bin/env node`
//! needs no special case. Such a file is exactly: the four bytes `00 61 6f 73`, a name of 1 to
//! [`RUNTIME_NAME_MAX`] bytes out of `a-z`, `0-9`, `-`, `_` and `.`, and one newline (`0a`). What
//! follows the newline means nothing. A header that begins with the magic but breaks the rest of
//! the rule is `ENOEXEC`. [`runtime_file`] makes the bytes.
//!
//! # Example
//!
//! ```
//! use binfmt::{Handler, Header, resolve, Request};
//! use vfs_core::errno::Errno;
//!
//! let files: &[(&[u8], &[u8])] = &[
//!     (b"/bin/greet", b"#!/bin/sh -e\necho hello\n"),
//!     (b"/bin/sh", b"\0asm\x01\0\0\0"),
//! ];
//! let resolved = resolve(
//!     Request::new(b"/bin/greet", vec![b"greet".to_vec(), b"you".to_vec()]),
//!     |path| {
//!         let file = files.iter().find(|(name, _)| *name == path).ok_or(Errno::ENOENT)?;
//!         Ok((file.0, Header::new(file.1)))
//!     },
//! )
//! .unwrap();
//! assert_eq!(resolved.file, b"/bin/sh");
//! assert_eq!(resolved.handler(), Handler::Wasm);
//! assert_eq!(resolved.argv, [&b"/bin/sh"[..], b"-e", b"/bin/greet", b"you"]);
//! ```

mod chain;
mod header;
mod script;

pub use chain::{ChainError, MAX_REWRITES, Request, Resolved, resolve};
pub use header::{
    HEADER_SIZE, Handler, Header, RUNTIME_MAGIC, RUNTIME_NAME_MAX, WASM_MAGIC, parse, runtime_file,
};
