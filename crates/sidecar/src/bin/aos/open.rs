//! Packages named on the command line.

use crate::output;
use anyhow::{Context, Result, bail};
use aospkg_format::{EntryId, EntryKind, Error, Package};
use sidecar::cache::Cache;
use sidecar::npm::{self, NpmSpec};
use std::path::{Path, PathBuf};

/// Most symbolic links followed inside a package, as in a path walk.
const MAX_LINKS: usize = 40;

/// The file that `name` stands for: a path, or `npm:NAME@VERSION` fetched into the cache.
pub(crate) fn file(name: &Path) -> Result<PathBuf> {
    let Some(spec) = name.to_str().and_then(|n| n.strip_prefix("npm:")) else {
        return Ok(name.to_owned());
    };
    let mut files = fetched(&spec.parse()?)?;
    if files.len() > 1 {
        let names: Vec<String> = files.iter().map(|f| f.display().to_string()).collect();
        bail!(
            "npm:{spec} stands for several packages; name one of them: {}",
            names.join(", ")
        );
    }
    files.pop().context("npm found no package")
}

/// The files of an npm package; says so when they have to be fetched.
pub(crate) fn fetched(spec: &NpmSpec) -> Result<Vec<PathBuf>> {
    let cache = Cache::from_env()?;
    let mut note = |spec: &NpmSpec| output::say(&format!("fetching {spec} with npm"));
    Ok(npm::resolve(&cache, spec, &mut note)?)
}

/// Opens the package that `name` stands for.
pub(crate) fn package(name: &Path) -> Result<Package> {
    let path = file(name)?;
    // Without a cache the index is decoded each time: slower, and never wrong.
    let cache = Cache::from_env().ok().map(|cache| cache.index());
    Package::open(&path, cache.as_deref()).map_err(|error| match error {
        // It names the file itself.
        Error::Io { .. } => error.into(),
        _ => anyhow::Error::new(error).context(format!(
            "cannot open {}",
            output::escaped(path.as_os_str().as_encoded_bytes())
        )),
    })
}

/// Finds `path` in a package, following symbolic links, which stay inside it. With `last` a link
/// in the last place is followed too.
pub(crate) fn find(package: &Package, path: &[u8], last: bool) -> Result<EntryId> {
    let missing = || format!("{}: no such file in the package", output::escaped(path));
    let mut links = 0;
    let mut at = package.root();
    let mut rest: Vec<Vec<u8>> = components(path);
    while let Some(name) = rest.pop() {
        match &name[..] {
            b"." => continue,
            b".." => {
                at = package.parent(at)?;
                continue;
            }
            _ => {}
        }
        if package.entry(at)?.kind != EntryKind::Directory {
            bail!("{}: not a directory", output::escaped(path));
        }
        let found = package.lookup(at, &name)?.with_context(missing)?;
        let entry = package.entry(found)?;
        match entry.link_target {
            Some(target) if last || !rest.is_empty() => {
                links += 1;
                if links > MAX_LINKS {
                    bail!(
                        "{}: more than {MAX_LINKS} symbolic links",
                        output::escaped(path)
                    );
                }
                if target.starts_with(b"/") {
                    at = package.root();
                }
                rest.extend(components(target));
            }
            _ => at = found,
        }
    }
    Ok(at)
}

/// The components of a path, the first one last.
fn components(path: &[u8]) -> Vec<Vec<u8>> {
    let parts = path.split(|&b| b == b'/').filter(|part| !part.is_empty());
    parts.rev().map(<[u8]>::to_vec).collect()
}
