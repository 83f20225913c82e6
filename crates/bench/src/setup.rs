//! What rows are measured on: packages made for the purpose, and a VM as `aos run` makes it.

use anyhow::{Context, Result, bail};
use aospkg_format::{Package, PackageBuilder};
use kernel::{Capture, ExitStatus, SpawnRequest, Vm};
use pkg_projection::Options;
use sidecar::cache::Cache;
use sidecar::npm::{self, NpmSpec, pinned};
use sidecar::software::{Software, Source};
use sidecar::vm::{Runtime, VmBuilder};
use std::path::{Path, PathBuf};

/// Directories and files in each of the large package: 1,000,000 entries in all.
const LARGE: (u32, u32) = (999, 1000);
/// And of the small one: ten.
const SMALL: (u32, u32) = (2, 3);

/// A package made of `lib/package-NNNN/module-NNNN.js`, empty files all.
pub(crate) struct Synthetic {
    pub(crate) path: PathBuf,
    directories: u32,
    files: u32,
}

impl Synthetic {
    /// Ten entries, with the root and `lib`.
    pub(crate) fn small(dir: &Path) -> Result<Synthetic> {
        Synthetic::new(dir, SMALL)
    }

    /// A million entries, kept in `dir` because making it takes a while.
    pub(crate) fn large(dir: &Path) -> Result<Synthetic> {
        Synthetic::new(dir, LARGE)
    }

    fn new(dir: &Path, (directories, files): (u32, u32)) -> Result<Synthetic> {
        let synthetic = Synthetic {
            path: dir.join(format!("synthetic-{directories}x{files}.aospkg")),
            directories,
            files,
        };
        // Made by another version it may have another form; then it is made again.
        if Package::open(&synthetic.path, None).is_err() {
            let mut builder = PackageBuilder::new("synthetic", "1.0.0");
            for n in 0..directories * files {
                builder = builder.file(synthetic.file(n), 0o644, "");
            }
            builder.write(&synthetic.path)?;
        }
        Ok(synthetic)
    }

    /// Path of a file; every number has one.
    pub(crate) fn file(&self, number: u32) -> String {
        let (directory, file) = (number / self.files % self.directories, number % self.files);
        format!("lib/package-{directory:04}/module-{file:04}.js")
    }

    /// Numbers in an order that no cache foresees.
    pub(crate) fn strewn(&self, count: u32) -> impl Iterator<Item = u32> {
        let all = self.directories * self.files;
        (0..count).map(move |n| n.wrapping_mul(2_654_435_761) % all)
    }
}

/// The common packages, from the cache or npm.
pub(crate) fn common(cache: &Cache) -> Result<Software> {
    let source = Source::parse(pinned::COMMON.as_ref())?;
    Ok(Software::open(
        &[source],
        &Options::default(),
        cache,
        &mut note,
    )?)
}

/// Files of the common packages, to be opened without asking what they are.
pub(crate) fn common_files(cache: &Cache) -> Result<Vec<PathBuf>> {
    files(cache, pinned::COMMON)
}

/// File of the published `pi`.
pub(crate) fn pi(cache: &Cache) -> Result<PathBuf> {
    let files = files(cache, pinned::LARGE)?;
    files.into_iter().next().context("pi is one package")
}

fn files(cache: &Cache, name: &str) -> Result<Vec<PathBuf>> {
    let spec: NpmSpec = name.parse()?;
    Ok(npm::resolve(cache, &spec, &mut note)?)
}

fn note(spec: &NpmSpec) {
    crate::say(&format!("fetching {spec} with npm, once"));
}

/// A VM with `software` in it, as `aos run` makes it.
pub(crate) fn vm(runtime: &Runtime, software: &Software) -> Result<Vm> {
    Ok(VmBuilder::new(runtime).software(software).build()?)
}

/// A request for `words`, without input and output.
pub(crate) fn request(words: &[&str]) -> SpawnRequest {
    let (command, arguments) = words.split_first().unwrap_or((&"true", &[]));
    SpawnRequest::new(*command, arguments.iter().copied())
}

/// Runs `words` to the end and gives what they print; anything but success is an error.
pub(crate) fn output(vm: &Vm, words: &[&str]) -> Result<String> {
    let output = vm.output(&request(words), &Capture::default())?;
    if output.status != ExitStatus::Code(0) {
        let stderr = String::from_utf8_lossy(&output.stderr.bytes);
        let first = stderr.lines().next().unwrap_or_default();
        bail!("{words:?} ended with {:?}: {first}", output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout.bytes).into_owned())
}
