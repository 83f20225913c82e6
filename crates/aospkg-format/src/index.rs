//! Adding the index trailer to a package that has none.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;

use crate::atomic::AtomicFile;
use crate::build::Tables;
use crate::chunks::Chunks;
use crate::entry::Digest;
use crate::error::{Error, Result};
use crate::package::Package;
use crate::write::append_trailer;

/// Writes a copy of a package with the index trailer appended and returns its identity.
///
/// The container is copied byte for byte, so the copy opens wherever the original does. An index
/// that is already there is made anew. `output` may be `input`: the copy takes its place when it is
/// whole, and nothing is left behind when it cannot be made.
pub fn add_index(input: &Path, output: &Path) -> Result<Digest> {
    let package = Package::open(input, None)?;
    let named = |path: &Path| Error::io(path.display().to_string());
    let mut source = File::open(input).map_err(named(input))?;
    let out = AtomicFile::create(output).map_err(named(output))?;

    let header = *package.header();
    let chunks = Chunks::read(&source, header)?;
    let entries = chunks.entries(package.mount_len())?;
    let (commands, manifest_tail) = chunks.commands()?;
    let tables = Tables::new(&entries, &commands, manifest_tail)?;
    let hashes = package.hash_tar(&entries, &tables.ids)?;

    let len = package.container_len();
    source.rewind().map_err(named(input))?;
    let mut file = out.file();
    let copied = io::copy(&mut source.take(len), &mut file).map_err(named(output))?;
    if copied != len {
        return Err(Error::Shrunk);
    }
    let digest = append_trailer(out.file(), len, |to| {
        tables.write(&chunks, &entries, &commands, &hashes, len, to)
    })
    .map_err(named(output))?;
    out.commit().map_err(named(output))?;
    Ok(digest)
}
