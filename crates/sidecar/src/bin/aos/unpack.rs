//! `aos unpack`: a package as a directory.

use crate::{open, output, pack};
use anyhow::Result;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Write the files of a package into a directory
///
/// For looking at and changing: nothing that runs a package needs it unpacked.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  aos unpack tool.aospkg ./tool && ls -l tool")]
pub(crate) struct Arguments {
    /// Package file, or npm:NAME@VERSION
    package: PathBuf,
    /// Directory to write to: a new or an empty one
    directory: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let package = open::package(&arguments.package)?;
    let shown = output::escaped(arguments.directory.as_os_str().as_encoded_bytes());
    let progress = pack::spinner(&format!("unpacking into {shown}"));
    let written = aospkg_format::unpack(&package, &arguments.directory);
    progress.finish_and_clear();
    let written = written?;
    let mut out = output::stdout();
    writeln!(out, "{} entries written to {shown}", written)?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
