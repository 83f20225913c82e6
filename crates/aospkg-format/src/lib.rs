//! The package container read in place: reader, path index, writer, packer, verifier.

#![deny(clippy::unwrap_used, clippy::expect_used)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]
mod atomic;
mod bare;
mod build;
mod builder;
mod cache;
mod chunks;
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
pub use error::{Error, Result};
pub use header::{HEADER_LEN, Header, MAGIC, Schema};
pub use index::add_index;
pub use manifest::{Agent, CommandTarget, ManPage, Manifest, ProvidedFile, Provides};
pub use mount::EntryKind;
pub use names::{NameError, check_command, check_component};
#[doc(hidden)]
pub use pack::pack_bytes;
pub use pack::{PackError, PackOptions, PackWarning, Packed, pack, pack_to};
pub use package::{Children, Command, Digest, Entry, EntryId, IndexSource, Package, to_hex};
pub use unpack::unpack;
pub use verify::{Problem, Verified, verify, verify_file};
pub use write::WriteOptions;
