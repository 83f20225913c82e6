//! `aos-bench`, which `cargo xtask bench` builds and runs: how fast the product is, beside the host
//! and beside the published runtime, measured in one run.
//!
//! A *row* ([`rows`]) is one subject and measures one or more *lines* ([`report`]): a number with its
//! spread, the number it is compared with, and the bar it should reach. Whatever is compared is
//! measured in turns ([`measure`]), so that a busy moment of the machine falls on both. Numbers that
//! need a process of their own (memory, system calls) come from this program started again as a
//! [`probe`]. Nothing here asserts: a missed bar is printed as missed and the exit status is 0,
//! unless something could not be run at all.

mod machine;
mod measure;
mod peer;
mod probe;
mod report;
mod rows;
mod setup;

use anyhow::{Context, Result, bail};
use clap::Parser;
use report::Report;
use rows::{Row, Session};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

#[derive(Parser)]
#[command(
    name = "aos-bench",
    about = "Measures the product beside the host and the published runtime"
)]
struct Arguments {
    /// Also run the same commands on the published runtime, fetched from npm
    #[arg(long)]
    peer: bool,
    /// Also write the numbers to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Less time for each row: rougher numbers
    #[arg(long)]
    quick: bool,
    /// Name the rows and end
    #[arg(long)]
    list: bool,
    /// The `aos` command that is started as a whole; otherwise the one beside this program
    #[arg(long, value_name = "FILE")]
    aos: Option<PathBuf>,
    /// Internal: measure one thing in this process alone
    #[arg(long, hide = true, value_name = "NAME", num_args = 1.., allow_hyphen_values = true)]
    probe: Option<Vec<String>>,
    /// Only rows whose name contains one of these
    #[arg(value_name = "ROW")]
    rows: Vec<String>,
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(code) => code,
        Err(error) => {
            say(&format!("bench: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> Result<ExitCode> {
    if let Some(words) = &arguments.probe {
        print(&probe::run(words)?);
        return Ok(ExitCode::SUCCESS);
    }
    let chosen: Vec<&Row> = rows::ALL
        .iter()
        .filter(|row| row.chosen(&arguments.rows))
        .collect();
    if arguments.list {
        for row in chosen {
            print(&format!("{:10} {}", row.name, row.about));
        }
        return Ok(ExitCode::SUCCESS);
    }
    if chosen.is_empty() {
        bail!("no row is named so; --list names them");
    }
    let budget = Duration::from_millis(if arguments.quick { 400 } else { 3000 });
    let aos = match arguments.aos {
        Some(aos) => aos,
        None => std::env::current_exe()
            .context("this program does not know where it lies")?
            .with_file_name("aos"),
    };
    let mut session = Session::new(budget, arguments.quick, aos, arguments.peer)?;
    let mut report = Report::new(arguments.quick);
    for row in chosen {
        progress(&format!("{}: {}", row.name, row.about));
        match (row.run)(&mut session) {
            Ok(lines) => report.add(row, lines),
            Err(error) => {
                progress("");
                say(&format!("{}: {error:#}", row.name));
                report.failed(row, &error);
            }
        }
        if let Some(problem) = session.problem() {
            report.failed(row, &problem);
        }
    }
    progress("");
    report.finish();
    print(&report.table());
    let kept = session.keep(&report.file_name())?;
    write_json(&report, &kept)?;
    say(&format!("numbers kept in {}", kept.display()));
    if let Some(file) = &arguments.json {
        write_json(&report, file)?;
    }
    Ok(match report.anything_failed() {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    })
}

fn write_json(report: &Report, file: &Path) -> Result<()> {
    let mut text = serde_json::to_vec_pretty(report)?;
    text.push(b'\n');
    std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

/// Says what is being measured, to a person who watches; an empty text wipes it away.
fn progress(text: &str) {
    let stderr = std::io::stderr();
    if stderr.is_terminal() {
        let _ = write!(stderr.lock(), "\r\x1b[K{text}");
    }
}

/// A line of the result. A closed stdout is no reason to stop: the numbers are kept in a file.
fn print(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// A line for whoever watches or reads the log.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
