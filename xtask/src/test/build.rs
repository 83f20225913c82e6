//! Building the tests, and learning from cargo which programs they are.

use super::Selection;
use crate::cargo::cargo;
use crate::host;
use anyhow::{Context, Result};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What was built.
pub(crate) struct Built {
    /// Test programs, in the order of the crates' names.
    pub(crate) suites: Vec<Suite>,
    /// The `aos` command, if it is part of the selection.
    pub(crate) aos: Option<PathBuf>,
}

/// One test program.
pub(crate) struct Suite {
    /// Crate and file.
    pub(crate) name: String,
    /// The program.
    pub(crate) program: PathBuf,
    /// The crate's directory, where tests expect to run.
    pub(crate) dir: PathBuf,
}

/// Adds the selected crates to a cargo command.
pub(crate) fn select(command: &mut Command, selection: &Selection) {
    if selection.packages.is_empty() {
        command.arg("--workspace");
    }
    for package in &selection.packages {
        command.args(["--package", package]);
    }
}

/// Builds the tests; `None` when something does not compile, which cargo has then explained.
pub(crate) fn tests(selection: &Selection) -> Result<Option<Built>> {
    let mut command = cargo("test");
    command.args([
        "--release",
        "--no-run",
        "--message-format",
        "json-render-diagnostics",
    ]);
    if !host::watched() {
        command.arg("--quiet");
    }
    select(&mut command, selection);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start cargo")?;
    let messages = child.stdout.take().context("cargo has no output")?;
    let mut built = Built {
        suites: Vec::new(),
        aos: None,
    };
    for line in BufReader::new(messages).lines() {
        let line = line.context("cannot read what cargo says")?;
        if let Ok(message) = serde_json::from_str::<Value>(&line) {
            note(&message, &mut built);
        }
    }
    let status = child.wait().context("cannot wait for cargo")?;
    built.suites.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(status.success().then_some(built))
}

/// Takes up a program that cargo reports.
fn note(message: &Value, built: &mut Built) {
    if message["reason"] != "compiler-artifact" {
        return;
    }
    let (Some(program), Some(manifest)) = (
        message["executable"].as_str(),
        message["manifest_path"].as_str(),
    ) else {
        return;
    };
    let target = &message["target"];
    if message["profile"]["test"] != true {
        if target["name"] == "aos" {
            built.aos = Some(PathBuf::from(program));
        }
        return;
    }
    let dir = Path::new(manifest).parent().unwrap_or(Path::new("/"));
    let source = Path::new(target["src_path"].as_str().unwrap_or_default());
    let file = source.strip_prefix(dir).unwrap_or(source);
    let crate_name = dir.file_name().unwrap_or_default().to_string_lossy();
    built.suites.push(Suite {
        name: format!("{crate_name} {}", file.display()),
        program: PathBuf::from(program),
        dir: dir.to_owned(),
    });
}
