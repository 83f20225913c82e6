//! `cargo xtask run`: the product as a person meets it.

use crate::cargo;
use crate::host;
use anyhow::{Context, Result};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

/// Builds `aos` and becomes `aos run ARGUMENTS`. `aos` fetches what it needs itself; only the
/// program that fetches may have to be installed.
pub(crate) fn run(arguments: &[OsString]) -> Result<ExitCode> {
    if host::find("npm").is_none() {
        // With the packages already in the cache npm is not needed, so a failure here is not final.
        if let Err(error) = host::install(&[host::NPM]) {
            host::say(format_args!("xtask: {error:#}"));
        }
    }
    let aos = cargo::build_aos()?;
    Err(Command::new(&aos).arg("run").args(arguments).exec())
        .with_context(|| format!("cannot start {}", aos.display()))
}
