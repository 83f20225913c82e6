//! `aos index`: an index appended to a package that has none.

use crate::{open, output, pack};
use anyhow::Result;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Append the index that makes opening cheap
///
/// The published container stays as it is, byte for byte, so the result opens wherever the package
/// did. An index that is there already is made anew.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  aos index tool.aospkg\n  aos index published.aospkg -o indexed.aospkg"
)]
pub(crate) struct Arguments {
    /// Package file, or npm:NAME@VERSION, for which --output must be given
    package: PathBuf,
    /// Write the result there instead of in the package's place
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let input = open::file(&arguments.package)?;
    let to = match &arguments.output {
        Some(output) => output.clone(),
        // The cache's files are never changed once they have their name.
        None if input != arguments.package => {
            anyhow::bail!(
                "a package from npm stays as it was published; say where to with --output"
            )
        }
        None => input.clone(),
    };
    let progress = pack::spinner(&format!("indexing {}", input.display()));
    let digest = aospkg_format::add_index(&input, &to);
    progress.finish_and_clear();
    let identity = aospkg_format::to_hex(&digest?);
    let mut out = output::stdout();
    writeln!(
        out,
        "{}: identity {identity}",
        output::escaped(to.as_os_str().as_encoded_bytes())
    )?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
