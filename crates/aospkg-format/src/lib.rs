//! The package container read in place: reader, path index, writer, packer, verifier.
//!
//! A package is one file that holds a program with everything it needs and is never unpacked.
//! [`Package`] opens one in a handful of system calls, whatever it holds, and answers by entry:
//! lookup by parent and name or by whole path, listings, commands, content. [`pack()`] makes one of a
//! directory or a tarball, [`PackageBuilder`] of content in memory, [`add_index`] adds the index that
//! makes opening cheap, [`verify()`] proves a package whole, [`unpack()`] writes its tree out.
//!
//! `docs/aospkg.md` describes the file. This crate knows nothing of guests, file systems or
//! processes; `pkg-projection` shows packages to guests.
//!
//! # Trust
//!
//! Package files are not trusted. What they say is checked when it is used, so every fault is an
//! [`Error`]; see [`Package`] for what opening checks and what only [`verify()`] does.

#![deny(clippy::unwrap_used, clippy::expect_used)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]
mod atomic;
mod bare;
mod build;
mod builder;
mod cache;
mod children;
mod chunks;
mod entry;
mod error;
mod fst_get;
mod header;
mod index;
mod layout;
pub mod limits;
mod manifest;
mod map;
mod mount;
mod names;
mod pack;
mod package;
mod unpack;
mod verify;
mod view;
mod write;

pub use builder::PackageBuilder;
pub use cache::CacheError;
pub use children::Children;
pub use entry::{Command, Digest, Entry, EntryId, IndexSource, to_hex};
pub use error::{Error, Result};
pub use header::{HEADER_LEN, Header, MAGIC, Schema};
pub use index::add_index;
pub use manifest::{Agent, CommandTarget, ManPage, Manifest, ProvidedFile, Provides};
pub use mount::EntryKind;
pub use names::{NameError, check_command, check_component};
#[doc(hidden)]
pub use pack::pack_bytes;
pub use pack::{PackError, PackOptions, PackWarning, Packed, pack, pack_to};
pub use package::Package;
pub use unpack::unpack;
pub use verify::{Problem, Verified, verify, verify_file};
pub use write::WriteOptions;
