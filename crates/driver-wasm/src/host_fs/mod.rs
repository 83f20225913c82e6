//! `host_fs`: what Linux knows of files and preview 1 has no call for.

mod attributes;
mod extents;
mod names;
mod xattr;

use crate::guest::Guest;
use wasmtime::{Linker, Result};

/// Defines every function of the module.
pub(crate) fn link(linker: &mut Linker<Guest>) -> Result<()> {
    attributes::link(linker)?;
    extents::link(linker)?;
    names::link(linker)?;
    xattr::link(linker)
}

/// Defines, over existing definitions, `path_mode` and `chmod` as the first generation of guests
/// imports them: without a directory.
pub(crate) fn link_first_generation(linker: &mut Linker<Guest>, name: &str) -> Result<()> {
    attributes::link_first_generation(linker, name)
}
