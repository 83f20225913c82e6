//! Running one suite and reading what its harness prints.

use anyhow::{Context, Result};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// A suite that runs longer hangs; it is killed, so that the others still get their turn.
const LIMIT: Duration = Duration::from_secs(30 * 60);

/// Lines shown of a suite that died without a result.
const TAIL: usize = 40;

/// Tests counted.
#[derive(Default, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
}

/// How a suite went.
pub(crate) struct Outcome {
    pub(crate) counts: Counts,
    pub(crate) took: Duration,
    /// What to show of a failure.
    pub(crate) excerpt: Vec<String>,
}

/// Runs `command`; everything it prints goes to `log` too.
pub(crate) fn run(name: &str, command: &mut Command, log: &mut File) -> Result<Outcome> {
    writeln!(log, "\n==== {name}")?;
    let started = Instant::now();
    // One pipe for both streams, so that the log has them in their order.
    let (reader, writer) = std::io::pipe().context("cannot make a pipe")?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(writer.try_clone().context("cannot copy a pipe")?)
        .stderr(writer)
        .spawn()
        .with_context(|| format!("cannot start {name}"))?;
    // The command holds the writing ends too, and the reader must see an end.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let (finished, watch) = mpsc::channel::<()>();
    let id = child.id().to_string();
    let watchdog = std::thread::spawn(move || {
        let hangs = watch.recv_timeout(LIMIT) == Err(mpsc::RecvTimeoutError::Timeout);
        // If it has ended meanwhile there is nothing to kill, and that is fine too.
        hangs && Command::new("kill").args(["-KILL", &id]).status().is_ok()
    });
    let mut reading = Reading::default();
    for line in BufReader::new(reader).split(b'\n') {
        let line = line.context("cannot read what the tests print")?;
        log.write_all(&line)?;
        log.write_all(b"\n")?;
        reading.line(&String::from_utf8_lossy(&line));
    }
    let status = child.wait().context("cannot wait for the tests")?;
    drop(finished);
    let killed = watchdog.join().unwrap_or(false);
    let mut outcome = reading.finish(status.success(), started.elapsed());
    if killed {
        outcome
            .excerpt
            .push(format!("killed after {} minutes", LIMIT.as_secs() / 60));
    }
    Ok(outcome)
}

/// What has been read of a suite's output.
#[derive(Default)]
struct Reading {
    counts: Counts,
    /// Lines since the last result.
    lines: Vec<String>,
    excerpt: Vec<String>,
}

impl Reading {
    fn line(&mut self, line: &str) {
        let Some(result) = line.strip_prefix("test result: ") else {
            self.lines.push(line.to_owned());
            return;
        };
        let count = |word| {
            result
                .split([';', '.'])
                .find_map(|part| part.trim().strip_suffix(word)?.trim().parse::<u64>().ok())
                .unwrap_or(0)
        };
        let (passed, failed) = (count("passed"), count("failed"));
        self.counts.passed += passed;
        self.counts.failed += failed;
        if failed > 0 {
            // What the harness says at the end begins with this line.
            let from = self
                .lines
                .iter()
                .position(|l| l == "failures:")
                .unwrap_or(0);
            self.excerpt.extend(self.lines.drain(from..));
        }
        self.lines.clear();
    }

    fn finish(mut self, success: bool, took: Duration) -> Outcome {
        if !success && self.counts.failed == 0 {
            // It died, or said nothing that is understood here.
            self.counts.failed += 1;
            let from = self.lines.len().saturating_sub(TAIL);
            self.excerpt.push("it died without a result:".to_owned());
            self.excerpt.extend(self.lines.drain(from..));
        }
        Outcome {
            counts: self.counts,
            took,
            excerpt: self.excerpt,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str], success: bool) -> Outcome {
        let mut reading = Reading::default();
        lines.iter().for_each(|line| reading.line(line));
        reading.finish(success, Duration::ZERO)
    }

    #[test]
    fn results_are_added_up() {
        let ok = "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.01s";
        let bad = "test result: FAILED. 3 passed; 2 failed; 0 ignored";
        let outcome = read(
            &["running", ok, "noise", "failures:", "that one", bad],
            false,
        );
        assert_eq!(
            outcome.counts,
            Counts {
                passed: 15,
                failed: 2
            }
        );
        assert_eq!(outcome.excerpt, ["failures:", "that one"]);
        assert_eq!(
            read(&[ok], true).counts,
            Counts {
                passed: 12,
                failed: 0
            }
        );
    }

    #[test]
    fn a_silent_death_is_a_failure() {
        let outcome = read(&["thread 'main' has overflowed its stack"], false);
        assert_eq!(
            outcome.counts,
            Counts {
                passed: 0,
                failed: 1
            }
        );
        assert!(outcome.excerpt[1].contains("overflowed"));
    }

    #[test]
    fn a_suite_is_run_and_logged() {
        let path = std::env::temp_dir().join(format!("xtask-suite-{}", std::process::id()));
        let mut log = File::create(&path).unwrap();
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "echo out; echo err >&2; echo 'test result: ok. 1 passed; 0 failed'",
        ]);
        let outcome = run("name", &mut command, &mut log).unwrap();
        assert_eq!(
            outcome.counts,
            Counts {
                passed: 1,
                failed: 0
            }
        );
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains("==== name\nout\nerr\n"), "{text}");
        std::fs::remove_file(&path).unwrap();
    }
}
