//! `cargo xtask test`: every test of the workspace, one closing line.
//!
//! The whole output goes to a log below the target directory. What is printed is one line for each
//! suite and, of a suite that failed, what its harness said about the failures. The last line on
//! stdout is `N passed, N failed`.

use crate::cargo::{self, cargo};
use crate::host;
use crate::peer;
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// Which tests to run.
pub(crate) struct Selection {
    /// Leave out what takes minutes.
    pub(crate) quick: bool,
    /// Only these crates.
    pub(crate) packages: Vec<String>,
    /// Only tests whose name contains one of these.
    pub(crate) filters: Vec<String>,
}

/// Installs, fetches, builds and runs.
pub(crate) fn run(selection: &Selection) -> Result<ExitCode> {
    host::install(host::FOR_TESTS)?;
    let aos = cargo::build_aos()?;
    // Once, before tests that run beside each other all want them.
    let fetched = Command::new(&aos)
        .args(["fetch", "--default"])
        .status()
        .with_context(|| format!("cannot start {}", aos.display()))?;
    if !fetched.success() {
        bail!("the packages that the tests need could not be fetched");
    }
    let peer = match selection.quick {
        true => None,
        false => Some(peer::install()?),
    };
    let totals = suites(selection, peer.as_deref())?;
    host::print(format_args!(
        "{} passed, {} failed",
        totals.passed, totals.failed
    ));
    Ok(if totals.failed == 0 && totals.passed > 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Tests counted.
#[derive(Default)]
struct Totals {
    passed: u64,
    failed: u64,
}

fn suites(selection: &Selection, peer: Option<&Path>) -> Result<Totals> {
    let mut command = cargo("test");
    command.args(["--release", "--no-fail-fast"]);
    if selection.packages.is_empty() {
        command.arg("--workspace");
    }
    for package in &selection.packages {
        command.args(["--package", package]);
    }
    if selection.quick {
        command.env("AOS_TEST_QUICK", "1");
        if std::env::var_os("PROPTEST_CASES").is_none() {
            command.env("PROPTEST_CASES", "32");
        }
    }
    if let Some(dir) = peer {
        command.env("AOS_PEER_DIR", dir);
    }
    command.arg("--").args(&selection.filters);
    let log_path = cargo::target_dir().join("xtask/test.log");
    if let Some(dir) = log_path.parent() {
        fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    }
    let mut log =
        File::create(&log_path).with_context(|| format!("cannot write {}", log_path.display()))?;

    // One pipe for both streams: cargo names a suite on stderr, the suite reports on stdout.
    let (reader, writer) = std::io::pipe().context("cannot make a pipe")?;
    let started = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(writer.try_clone().context("cannot copy a pipe")?)
        .stderr(writer)
        .spawn()
        .context("cannot start cargo")?;
    // The command holds the write ends too, and the reader must see an end.
    drop(command);
    let mut report = Report::default();
    for line in BufReader::new(reader).split(b'\n') {
        let line = line.context("cannot read what the tests print")?;
        log.write_all(&line)?;
        log.write_all(b"\n")?;
        report.line(&String::from_utf8_lossy(&line));
    }
    let status = child.wait().context("cannot wait for cargo")?;
    report.finish();
    let Report {
        mut totals,
        mut broken,
        ..
    } = report;
    if !status.success() && totals.failed == 0 {
        // Something did not even compile, or a suite died without a word.
        totals.failed += 1;
        broken = true;
    }
    if broken {
        host::say(format_args!("the end of {}:", log_path.display()));
        let text = fs::read(&log_path).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        for line in &lines[lines.len().saturating_sub(60)..] {
            host::say(format_args!("  {line}"));
        }
    }
    host::say(format_args!(
        "{:.0} s, the whole output is in {}",
        started.elapsed().as_secs_f64(),
        log_path.display()
    ));
    Ok(totals)
}

/// Reads what cargo and the harnesses print.
#[derive(Default)]
struct Report {
    totals: Totals,
    /// A suite ended without a result line.
    broken: bool,
    suite: Option<Suite>,
}

struct Suite {
    name: String,
    started: Instant,
    lines: Vec<String>,
    finished: bool,
}

impl Report {
    fn line(&mut self, line: &str) {
        let plain = line.trim_start();
        let begins = plain.strip_prefix("Running ").map(suite_name).or_else(|| {
            plain
                .strip_prefix("Doc-tests ")
                .map(|name| format!("{name} doc-tests"))
        });
        if let Some(name) = begins {
            self.finish();
            if host::watched() {
                host::say(format_args!("… {name}"));
            }
            let started = Instant::now();
            self.suite = Some(Suite {
                name,
                started,
                lines: Vec::new(),
                finished: false,
            });
        } else if let Some(result) = plain.strip_prefix("test result: ") {
            self.result(result);
        } else if plain.starts_with("warning: ") || plain.starts_with("error") {
            host::say(format_args!("{line}"));
        } else if let Some(suite) = &mut self.suite {
            suite.lines.push(line.to_owned());
        }
    }

    fn result(&mut self, result: &str) {
        let count = |word| {
            result
                .split([';', '.'])
                .find_map(|part| part.trim().strip_suffix(word)?.trim().parse::<u64>().ok())
                .unwrap_or(0)
        };
        let (passed, failed) = (count("passed"), count("failed"));
        self.totals.passed += passed;
        self.totals.failed += failed;
        let Some(suite) = &mut self.suite else { return };
        suite.finished = true;
        if passed + failed > 0 {
            let took = suite.started.elapsed();
            host::print(format_args!(
                "{}",
                summary(&suite.name, passed, failed, took)
            ));
        }
        if failed > 0 {
            // What the harness repeats at the end begins with this line.
            let from = suite
                .lines
                .iter()
                .position(|l| l == "failures:")
                .unwrap_or(0);
            for line in &suite.lines[from..] {
                host::print(format_args!("  {line}"));
            }
        }
        suite.lines.clear();
    }

    /// The suite is over; one that never gave a result died.
    fn finish(&mut self) {
        let Some(suite) = self.suite.take() else {
            return;
        };
        if !suite.finished {
            self.totals.failed += 1;
            self.broken = true;
            host::print(format_args!("{}  died without a result", suite.name));
            for line in &suite.lines[suite.lines.len().saturating_sub(40)..] {
                host::print(format_args!("  {line}"));
            }
        }
    }
}

/// `unittests src/lib.rs (…/deps/binfmt-0123)` is called `binfmt src/lib.rs`.
fn suite_name(text: &str) -> String {
    let (what, binary) = text.split_once(" (").unwrap_or((text, ""));
    let what = what.trim_start_matches("unittests ");
    let stem = binary
        .trim_end_matches(')')
        .rsplit('/')
        .next()
        .unwrap_or("");
    let name = stem.rsplit_once('-').map_or(stem, |(name, _)| name);
    if what.contains(name) {
        what.to_owned()
    } else {
        format!("{name} {what}")
    }
}

fn summary(name: &str, passed: u64, failed: u64, took: Duration) -> String {
    let seconds = took.as_secs_f64();
    if failed == 0 {
        format!("{name}  {passed} passed  {seconds:.1} s")
    } else {
        format!("{name}  {passed} passed, {failed} FAILED  {seconds:.1} s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_added_up_and_a_silent_death_is_a_failure() {
        let mut report = Report::default();
        for line in [
            "     Running unittests src/lib.rs (/x/release/deps/binfmt-0123abc)",
            "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s",
            "     Running tests/oracle.rs (/x/release/deps/oracle-0123abc)",
            "thread 'main' has overflowed its stack",
            "   Doc-tests vfs_core",
            "test result: FAILED. 3 passed; 2 failed; 0 ignored",
        ] {
            report.line(line);
        }
        report.finish();
        assert_eq!((report.totals.passed, report.totals.failed), (15, 3));
        assert!(report.broken);
    }

    #[test]
    fn suites_are_named_by_crate_and_file() {
        assert_eq!(
            suite_name("unittests src/lib.rs (/x/deps/binfmt-01)"),
            "binfmt src/lib.rs"
        );
        assert_eq!(
            suite_name("tests/oracle.rs (/x/deps/oracle-01)"),
            "tests/oracle.rs"
        );
    }
}
