//! The package container read in place: reader, path index, writer, packer, verifier.

#![deny(clippy::unwrap_used, clippy::expect_used)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]
#![allow(dead_code, reason = "the writer that uses the encoders is being added")]

mod bare;
mod build;
mod cache;
mod chunks;
mod error;
mod fst_get;
mod header;
mod layout;
pub mod limits;
mod manifest;
mod map;
mod mount;
mod names;
mod package;
mod view;

pub use cache::CacheError;
pub use error::{Error, Result};
pub use header::{HEADER_LEN, Header, MAGIC, Schema};
pub use manifest::{Agent, CommandTarget, ManPage, Manifest, ProvidedFile, Provides};
pub use mount::EntryKind;
pub use names::{NameError, check_command, check_component};
pub use package::{Children, Command, Digest, Entry, EntryId, IndexSource, Package};
