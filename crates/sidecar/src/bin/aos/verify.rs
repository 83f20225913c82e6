//! `aos verify`: whether a package is whole.

use crate::{open, output, pack};
use anyhow::{Context, Result, bail};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Read a whole package and check everything in it
///
/// All content is hashed and compared with the index, and the index with the published one. A
/// package without an index has no digests: its structure is checked, and its identity printed.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  aos verify tool.aospkg && cp tool.aospkg /srv/packages/")]
pub(crate) struct Arguments {
    /// Package file, or npm:NAME@VERSION
    package: PathBuf,
    /// Print one JSON object, whatever the result
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let path = open::file(&arguments.package)?;
    let shown = output::escaped(path.as_os_str().as_encoded_bytes());
    let progress = pack::spinner(&format!("verifying {shown}"));
    let verified = aospkg_format::verify(&path);
    progress.finish_and_clear();
    let verified = verified.with_context(|| format!("{shown} is not whole"))?;
    let mut out = output::stdout();
    if arguments.json {
        serde_json::to_writer_pretty(&mut out, &verified).map_err(std::io::Error::from)?;
        writeln!(out)?;
        out.flush()?;
        return Ok(if verified.is_whole() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        });
    }
    for problem in &verified.problems {
        output::say(&output::escaped(problem.to_string().as_bytes()));
    }
    if !verified.is_whole() {
        bail!("{shown} is not whole: {} problems", verified.problems.len());
    }
    let package = open::package(&arguments.package)?;
    let manifest = package.manifest()?;
    let identity = aospkg_format::to_hex(&verified.identity);
    writeln!(
        out,
        "{} {} is whole: {} entries, {} in files{}\nidentity {identity}",
        output::escaped(manifest.name.as_bytes()),
        output::escaped(manifest.version.as_bytes()),
        verified.entries,
        output::bytes(verified.bytes),
        if verified.indexed {
            ""
        } else {
            " (no index, so no digests to compare with)"
        },
    )?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
