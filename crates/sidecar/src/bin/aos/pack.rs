//! `aos pack`: a package file of a directory or an archive.

use crate::output;
use anyhow::Result;
use aospkg_format::{PackOptions, Schema, WriteOptions};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Pack a directory, an npm tarball or a tar into a package file
///
/// Commands come from package.json, whose "bin" is a string or a map. The same input packs to the
/// same bytes.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  aos pack ./tool -o tool.aospkg
  npm pack some-tool && aos pack some-tool-1.0.0.tgz -o some-tool.aospkg
  aos pack tree.tar -o tree.aospkg --drop-native")]
pub(crate) struct Arguments {
    /// Directory, .tgz or .tar; told by its content
    #[arg(value_name = "DIR|TGZ|TAR")]
    input: PathBuf,
    /// File to write; it appears when it is whole
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Version of the format
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=2))]
    schema: u16,
    /// Leave native Node.js modules (*.node) out instead of refusing the package
    #[arg(long)]
    drop_native: bool,
    /// Leave out the index that makes opening cheap
    #[arg(long)]
    no_index: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let options = PackOptions {
        write: WriteOptions {
            schema: if arguments.schema == 1 {
                Schema::V1
            } else {
                Schema::V2
            },
            index: !arguments.no_index,
            ..WriteOptions::default()
        },
        drop_native: arguments.drop_native,
        ..PackOptions::default()
    };
    let progress = spinner(&format!("packing {}", arguments.input.display()));
    let packed = aospkg_format::pack(&arguments.input, &arguments.output, &options);
    progress.finish_and_clear();
    let packed = packed?;
    for warning in &packed.warnings {
        output::say(&format!("warning: {warning}"));
    }
    for path in &packed.dropped {
        output::say(&format!("left out: {}", output::escaped(path.as_bytes())));
    }
    let identity = aospkg_format::to_hex(&packed.digest);
    let mut out = output::stdout();
    if arguments.json {
        let warnings: Vec<String> = packed.warnings.iter().map(ToString::to_string).collect();
        let report = serde_json::json!({
            "name": packed.name, "version": packed.version, "commands": packed.commands,
            "entries": packed.entries, "bytes": packed.len, "identity": identity,
            "warnings": warnings, "dropped": packed.dropped,
        });
        writeln!(out, "{report}")?;
    } else {
        writeln!(
            out,
            "{} {}: {} entries, {} commands, {}",
            output::escaped(packed.name.as_bytes()),
            output::escaped(packed.version.as_bytes()),
            packed.entries,
            packed.commands.len(),
            output::bytes(packed.len)
        )?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Something that turns while there is work, if a person watches.
pub(crate) fn spinner(what: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new_spinner().with_message(output::escaped(what.as_bytes()));
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}
