//! `aos cat`: the content of files of a package.

use crate::{open, output};
use anyhow::{Context, Result};
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::ExitCode;

/// Bytes copied at a time: what is read stays in the processor's cache.
const CHUNK: usize = 128 << 10;

/// Print files of a package
#[derive(clap::Args)]
#[command(after_help = "Example:\n  aos cat pi.aospkg package.json | head")]
pub(crate) struct Arguments {
    /// Package file, or npm:NAME@VERSION
    package: PathBuf,
    /// Paths inside the package
    #[arg(required = true)]
    paths: Vec<OsString>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let package = open::package(&arguments.package)?;
    let mut out = output::stdout();
    let mut buffer = vec![0; CHUNK];
    for path in &arguments.paths {
        let id = open::find(&package, path.as_bytes(), true)?;
        let mut offset = 0;
        loop {
            let n = package
                .read_at(id, &mut buffer, offset)
                .with_context(|| format!("cannot read {}", output::escaped(path.as_bytes())))?;
            if n == 0 {
                break;
            }
            out.write_all(&buffer[..n])?;
            offset += n as u64;
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
