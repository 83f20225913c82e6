//! Cargo, always with the release profile and the root of the workspace as its directory.

use crate::host;
use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use std::process::Command;

/// `cargo SUBCOMMAND` in the workspace.
pub(crate) fn cargo(subcommand: &str) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.arg(subcommand).current_dir(host::root());
    // What cargo told this program about this program is not meant for another cargo.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command
}

/// Where cargo builds to.
pub(crate) fn target_dir() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => host::root().join(dir),
        None => host::root().join("target"),
    }
}

/// Builds `aos` and gives its path.
pub(crate) fn build_aos() -> Result<PathBuf> {
    let mut build = cargo("build");
    build.args(["--release", "--package", "sidecar", "--bin", "aos"]);
    if !host::watched() {
        build.arg("--quiet");
    }
    succeed(&mut build)?;
    Ok(target_dir().join("release/aos"))
}

/// Runs a command whose output is for the caller's eyes, and insists on success.
pub(crate) fn succeed(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("cannot start {:?}", command.get_program()))?;
    if !status.success() {
        let words: Vec<_> = command
            .get_args()
            .map(|a| a.to_string_lossy().into_owned())
            .collect();
        bail!("cargo {} failed", words.join(" "));
    }
    Ok(())
}
