//! What the numbers were measured on, and when.

use anyhow::{Context, Result};
use serde::Serialize;
use std::fs;
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

/// The machine and the moment.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    /// When the run began, in UTC.
    pub(crate) date: String,
    /// Version of the product.
    pub(crate) version: &'static str,
    /// Commit of the working tree, if git can tell.
    pub(crate) commit: Option<String>,
    /// Processors this process may use.
    pub(crate) cores: usize,
    /// Model of the first of them.
    pub(crate) processor: String,
    /// Main memory.
    pub(crate) memory_bytes: u64,
    /// Kernel.
    pub(crate) kernel: String,
    /// How busy the machine was when the run began: 1, 5 and 15 minutes.
    pub(crate) load_at_start: String,
    /// And when it ended.
    pub(crate) load_at_end: Option<String>,
}

impl Machine {
    /// Looks around.
    pub(crate) fn new() -> Machine {
        Machine {
            date: date(SystemTime::now()),
            version: env!("CARGO_PKG_VERSION"),
            commit: commit(),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            processor: line_of("/proc/cpuinfo", "model name").unwrap_or_default(),
            memory_bytes: line_of("/proc/meminfo", "MemTotal")
                .and_then(|text| kib(&text).ok())
                .unwrap_or_default(),
            kernel: read("/proc/sys/kernel/osrelease"),
            load_at_start: load(),
            load_at_end: None,
        }
    }
}

/// Load averages of 1, 5 and 15 minutes.
pub(crate) fn load() -> String {
    let text = read("/proc/loadavg");
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

/// Memory of a process as the host accounts it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resident {
    /// Resident pages.
    pub(crate) rss: u64,
    /// The same with shared pages divided among those who share them.
    pub(crate) pss: u64,
    /// Page tables.
    pub(crate) tables: u64,
}

impl Resident {
    /// Of this process (`self`) or another.
    pub(crate) fn of(pid: &str) -> Result<Resident> {
        let field = |file: &str, name: &str| {
            let file = format!("/proc/{pid}/{file}");
            let text = line_of(&file, name).with_context(|| format!("{file} has no {name}"))?;
            kib(&text)
        };
        Ok(Resident {
            rss: field("smaps_rollup", "Rss")?,
            pss: field("smaps_rollup", "Pss")?,
            tables: field("status", "VmPTE")?,
        })
    }
}

fn read(file: &str) -> String {
    fs::read_to_string(file)
        .unwrap_or_default()
        .trim_end()
        .to_owned()
}

/// The value of the first `name: value` line.
fn line_of(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| {
        line.strip_prefix(name)?
            .trim_start()
            .strip_prefix(':')
            .map(str::trim)
    })?;
    Some(line.to_owned())
}

/// `123 kB` in bytes.
fn kib(text: &str) -> Result<u64> {
    let number = text.trim_end_matches("kB").trim();
    let number: u64 = number.parse().with_context(|| format!("a size: {text}"))?;
    Ok(number << 10)
}

fn commit() -> Option<String> {
    let output = Command::new("git")
        .args(["describe", "--always", "--dirty"])
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}

/// `YYYY-MM-DDThh:mm:ssZ`.
fn date(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let (mut days, second) = (seconds / 86_400, seconds % 86_400);
    let mut year = 1970;
    let leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    format!(
        "{year:04}-{month:02}-{:02}T{:02}:{:02}:{:02}Z",
        days + 1,
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let at = |seconds| date(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(at(1_798_761_599), "2026-12-31T23:59:59Z");
    }

    #[test]
    fn this_process_has_memory() {
        let resident = Resident::of("self").unwrap();
        assert!(resident.rss >= resident.pss && resident.pss > 0 && resident.tables > 0);
    }
}
