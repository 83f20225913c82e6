//! `cargo xtask ci`: what a change must pass, cheapest first.

use crate::cargo::{cargo, succeed};
use crate::host;
use crate::test;
use anyhow::Result;
use std::process::ExitCode;

/// Format, lints, documentation and tests. Every step runs even if one before it failed, so that
/// one run tells everything; the tests' closing line comes last.
pub(crate) fn run() -> Result<ExitCode> {
    host::install(host::FOR_TESTS)?;
    let mut clean = true;
    let mut step = |name: &str, result: Result<()>| {
        if let Err(error) = result {
            host::say(format_args!("{name}: {error:#}"));
            clean = false;
        }
    };
    step("format", succeed(cargo("fmt").args(["--all", "--check"])));
    step(
        "lints",
        succeed(cargo("clippy").args([
            "--quiet",
            "--release",
            "--workspace",
            "--all-targets",
            "--",
            "--deny",
            "warnings",
        ])),
    );
    step(
        "documentation",
        succeed(
            cargo("doc")
                .args(["--quiet", "--release", "--workspace", "--no-deps"])
                .env("RUSTDOCFLAGS", "--deny warnings --deny missing_docs"),
        ),
    );
    let everything = test::Selection {
        quick: false,
        packages: Vec::new(),
        filters: Vec::new(),
    };
    let tests = test::run(&everything)?;
    Ok(if clean { tests } else { ExitCode::FAILURE })
}
