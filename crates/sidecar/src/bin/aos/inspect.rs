//! `aos inspect`: what a package says of itself.

use crate::{open, output};
use anyhow::Result;
use aospkg_format::{CommandTarget, EntryId, EntryKind, IndexSource, Manifest, Package, Schema};
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Show what a package contains and provides
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  aos inspect pi.aospkg\n  aos inspect --json npm:@agentos-software/sed@0.3.4"
)]
pub(crate) struct Arguments {
    /// Package file, or npm:NAME@VERSION
    package: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report<'p> {
    #[serde(flatten)]
    manifest: &'p Manifest,
    schema: u16,
    index: &'static str,
    identity: String,
    container_bytes: u64,
    mount_bytes: u64,
    entries: Counts,
    commands: Vec<CommandTarget>,
}

#[derive(Serialize, Default)]
struct Counts {
    total: u32,
    files: u32,
    directories: u32,
    symlinks: u32,
    /// Bytes of all files together.
    bytes: u64,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let package = open::package(&arguments.package)?;
    let report = Report {
        manifest: package.manifest()?,
        schema: match package.schema() {
            Schema::V1 => 1,
            Schema::V2 => 2,
        },
        index: match package.index_source() {
            IndexSource::Trailer => "in the package",
            IndexSource::Cache | IndexSource::Stored => "in the cache",
            IndexSource::Decoded => "decoded",
        },
        identity: package
            .identity()?
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect(),
        container_bytes: package.container_len(),
        mount_bytes: package.mount_len(),
        entries: count(&package)?,
        commands: package
            .commands()
            .map(|command| {
                let command = command?;
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                Ok(CommandTarget {
                    command: text(command.name),
                    entry: text(command.path),
                })
            })
            .collect::<Result<_>>()?,
    };
    let mut out = output::stdout();
    if arguments.json {
        serde_json::to_writer_pretty(&mut out, &report).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        describe(&mut out, &report)?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn count(package: &Package) -> Result<Counts> {
    let mut counts = Counts {
        total: package.entry_count(),
        ..Counts::default()
    };
    for id in 0..counts.total {
        let entry = package.entry(EntryId(id))?;
        match entry.kind {
            EntryKind::File => {
                counts.files += 1;
                counts.bytes = counts.bytes.saturating_add(entry.size);
            }
            EntryKind::Directory => counts.directories += 1,
            EntryKind::Symlink => counts.symlinks += 1,
        }
    }
    Ok(counts)
}

fn describe(out: &mut dyn Write, report: &Report<'_>) -> Result<()> {
    let manifest = report.manifest;
    let escaped = |text: &str| output::escaped(text.as_bytes());
    writeln!(
        out,
        "{} {}",
        escaped(&manifest.name),
        escaped(&manifest.version)
    )?;
    let counts = &report.entries;
    writeln!(
        out,
        "  entries   {} ({} files, {} directories, {} symbolic links), {} in files",
        counts.total,
        counts.files,
        counts.directories,
        counts.symlinks,
        output::bytes(counts.bytes)
    )?;
    writeln!(
        out,
        "  file      {}, schema {}, index {}",
        output::bytes(report.container_bytes),
        report.schema,
        report.index
    )?;
    writeln!(out, "  identity  {}", report.identity)?;
    if let Some(agent) = &manifest.agent {
        writeln!(
            out,
            "  agent     starts with {}",
            escaped(&agent.acp_entrypoint)
        )?;
    }
    if let Some(provides) = &manifest.provides {
        for (name, value) in &provides.env {
            writeln!(out, "  provides  {}={}", escaped(name), escaped(value))?;
        }
        for file in &provides.files {
            writeln!(
                out,
                "  provides  {} at {}",
                escaped(&file.source),
                escaped(&file.target)
            )?;
        }
    }
    writeln!(out, "  commands  {}", report.commands.len())?;
    for CommandTarget { command, entry } in &report.commands {
        writeln!(out, "    {} -> {}", escaped(command), escaped(entry))?;
    }
    Ok(())
}
