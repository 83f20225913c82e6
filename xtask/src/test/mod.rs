//! `cargo xtask test`: every test of the workspace, one closing line.
//!
//! Everything is built once, with the release profile; the programs that cargo built are then run one
//! after the other. The whole output goes to a log below the target directory. What is printed is
//! one line for each suite and, of a suite that failed, what its harness said about the failures.
//! The last line on stdout is `N passed, N failed`.

mod build;
mod suite;

use crate::cargo::{self, cargo};
use crate::host;
use crate::peer;
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;
use suite::{Counts, Outcome};

/// Which tests to run.
pub(crate) struct Selection {
    /// Leave out what takes minutes.
    pub(crate) quick: bool,
    /// Only these crates.
    pub(crate) packages: Vec<String>,
    /// Only tests whose name contains one of these.
    pub(crate) filters: Vec<String>,
}

/// Installs, builds, fetches and runs.
pub(crate) fn run(selection: &Selection) -> Result<ExitCode> {
    let started = Instant::now();
    host::install(host::FOR_TESTS)?;
    let Some(built) = build::tests(selection)? else {
        host::print(format_args!(
            "nothing was run, because not everything compiles"
        ));
        host::print(format_args!("0 passed, 1 failed"));
        return Ok(ExitCode::FAILURE);
    };
    host::say(format_args!(
        "built in {:.0} s",
        started.elapsed().as_secs_f64()
    ));
    fetch(&built)?;
    let peer = if selection.quick {
        None
    } else {
        Some(peer::install()?)
    };
    let log_path = cargo::target_dir().join("xtask/test.log");
    if let Some(dir) = log_path.parent() {
        fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    }
    let mut log =
        File::create(&log_path).with_context(|| format!("cannot write {}", log_path.display()))?;

    let mut all = Counts::default();
    let mut run = |name: &str, command: &mut Command| -> Result<()> {
        if selection.quick {
            command.env("AOS_TEST_QUICK", "1");
            if std::env::var_os("PROPTEST_CASES").is_none() {
                command.env("PROPTEST_CASES", "32");
            }
        }
        if let Some(dir) = &peer {
            command.env("AOS_PEER_DIR", dir);
        }
        let outcome = suite::run(name, command, &mut log)?;
        report(name, &outcome);
        all.passed += outcome.counts.passed;
        all.failed += outcome.counts.failed;
        Ok(())
    };
    for suite in &built.suites {
        let mut command = Command::new(&suite.program);
        command.args(&selection.filters).current_dir(&suite.dir);
        command.env("CARGO_MANIFEST_DIR", &suite.dir);
        run(&suite.name, &mut command)?;
    }
    let mut documents = cargo("test");
    documents.args(["--release", "--doc", "--no-fail-fast"]);
    build::select(&mut documents, selection);
    documents.arg("--").args(&selection.filters);
    run("doc-tests", &mut documents)?;

    host::say(format_args!(
        "{:.0} s, the whole output is in {}",
        started.elapsed().as_secs_f64(),
        log_path.display()
    ));
    host::print(format_args!("{} passed, {} failed", all.passed, all.failed));
    Ok(if all.failed == 0 && all.passed > 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Fetches what tests that run beside each other all want.
fn fetch(built: &build::Built) -> Result<()> {
    let Some(aos) = &built.aos else { return Ok(()) };
    let fetched = Command::new(aos)
        .args(["fetch", "--default"])
        .stdout(Stdio::null())
        .status()
        .with_context(|| format!("cannot start {}", aos.display()))?;
    if !fetched.success() {
        bail!("the packages that the tests need could not be fetched");
    }
    Ok(())
}

fn report(name: &str, outcome: &Outcome) {
    let Counts { passed, failed } = outcome.counts;
    let seconds = outcome.took.as_secs_f64();
    if failed > 0 {
        host::print(format_args!(
            "{name}  {passed} passed, {failed} FAILED  {seconds:.1} s"
        ));
        for line in &outcome.excerpt {
            host::print(format_args!("  {line}"));
        }
    } else if passed > 0 {
        host::print(format_args!("{name}  {passed} passed  {seconds:.1} s"));
    }
}
