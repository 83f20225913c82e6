//! `cargo xtask bench`: builds the benches and the product, and hands over to `aos-bench`.

use crate::cargo::{self, cargo};
use crate::host;
use crate::peer;
use anyhow::{Context, Result};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

/// Installs what the benches start and becomes `aos-bench ARGUMENTS`, in the caller's directory.
pub(crate) fn run(arguments: &[OsString]) -> Result<ExitCode> {
    host::install(host::FOR_TESTS)?;
    if arguments.iter().any(|argument| argument == "--peer") {
        peer::install()?;
    }
    // `aos` is measured as a whole process too, and is looked for beside the benches.
    cargo::build_aos()?;
    let mut build = cargo("build");
    build.args(["--release", "--package", "bench"]);
    if !host::watched() {
        build.arg("--quiet");
    }
    cargo::succeed(&mut build)?;
    let bench = cargo::target_dir().join("release/aos-bench");
    Err(Command::new(&bench).args(arguments).exec())
        .with_context(|| format!("cannot start {}", bench.display()))
}
