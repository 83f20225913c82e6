//! `aos fetch`: packages into the cache, ahead of their use.

use crate::{open, output};
use anyhow::Result;
use sidecar::npm::pinned;
use std::io::Write;
use std::process::ExitCode;

/// Fetch packages from npm into the cache and print where they are
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  aos fetch --default\n  aos fetch npm:@agentos-software/pi@0.2.7\n\n\
    The cache is $AOS_CACHE_DIR, or $XDG_CACHE_HOME/aos, or ~/.cache/aos. Packages are fetched by\n\
    the npm that is installed, with its configuration, and checked against their published hashes."
)]
pub(crate) struct Arguments {
    /// Packages, as npm:NAME@VERSION
    #[arg(required_unless_present = "default")]
    packages: Vec<String>,
    /// The packages a VM has when none is named
    #[arg(long)]
    default: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let default = arguments.default.then_some(pinned::COMMON);
    let mut out = output::stdout();
    for spec in default
        .into_iter()
        .chain(arguments.packages.iter().map(String::as_str))
    {
        for file in open::fetched(&spec.parse()?)? {
            writeln!(
                out,
                "{}",
                output::escaped(file.as_os_str().as_encoded_bytes())
            )?;
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
