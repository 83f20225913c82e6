//! Packages made of unpacked directories, in memory.

use aospkg_format::{PackError, PackOptions, Package, pack_to};
use nix::sys::memfd::{MFdFlags, memfd_create};
use std::fs::File;
use std::path::Path;

/// Packs a directory into memory and opens the result. Nothing is written to a disk, and the
/// memory goes when the package does.
pub fn directory(dir: &Path) -> Result<Package, PackError> {
    let file = memfd_create("aospkg", MFdFlags::MFD_CLOEXEC)
        .map(File::from)
        .map_err(|errno| PackError::Io {
            what: "making a file in memory".into(),
            source: errno.into(),
        })?;
    pack_to(dir, &file, &PackOptions::default())?;
    Ok(Package::from_file(file, None)?)
}
