//! `cargo xtask bench`: builds and runs the benches, which live beside the product.

use crate::cargo::{self, cargo};
use crate::host;
use anyhow::{Context, Result};
use std::path::Path;
use std::process::ExitCode;

/// Runs `crates/sidecar/benches/speed`.
pub(crate) fn run(peer: bool, json: Option<&Path>, filters: &[String]) -> Result<ExitCode> {
    host::install(host::FOR_TESTS)?;
    let here = std::env::current_dir().context("there is no current directory")?;
    let json = match json {
        Some(file) => here.join(file),
        None => cargo::target_dir().join("xtask/bench.json"),
    };
    let mut command = cargo("bench");
    command.args(["--package", "sidecar", "--bench", "speed"]);
    if !host::watched() {
        command.arg("--quiet");
    }
    command.arg("--").arg("--json").arg(json);
    if peer {
        command.arg("--peer");
    }
    command.args(filters);
    let status = command.status().context("cannot start cargo")?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
