//! What needs a process of its own: this program, started again to measure one thing.

use crate::machine::Resident;
use crate::measure::time;
use crate::setup;
use anyhow::{Context, Result, bail};
use aospkg_format::Package;
use kernel::{ExitStatus, Stdio, Vm};
use serde_json::{Value, json};
use sidecar::cache::Cache;
use sidecar::software::Software;
use sidecar::vm::Runtime;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Lives before those that are counted, in which pools fill.
const BEFORE: usize = 100;

/// What a traced process looks for to say where the installation begins and ends.
const BEGIN: &str = "/aos-bench-begin";
const END: &str = "/aos-bench-end";

/// Runs a probe in a fresh process and gives its answer.
pub(crate) fn start(words: &[&str]) -> Result<Value> {
    let mut command = Command::new(std::env::current_exe()?);
    answer(command.arg("--probe").args(words))
}

fn answer(command: &mut Command) -> Result<Value> {
    let output = command
        .output()
        .with_context(|| format!("cannot start {:?}", command.get_program()))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        bail!("{command:?} failed: {}", text.trim_end());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Runs the probe `words` and gives its answer as text. Called in the fresh process.
pub(crate) fn run(words: &[String]) -> Result<String> {
    let cache = Cache::from_env()?;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let answer = match words.as_slice() {
        ["install", package @ ..] => install(cache, package)?,
        ["sleepers", count, command @ ..] => sleepers(cache, count.parse()?, command)?,
        ["life", count] => life(cache, count.parse()?)?,
        _ => bail!("there is no probe {words:?}"),
    };
    Ok(answer.to_string())
}

/// Opens packages and makes a VM of them, between two marks for whoever traces.
fn install(cache: Cache, package: &[&str]) -> Result<Value> {
    let runtime = Runtime::new(cache.clone())?;
    let _ = Path::new(BEGIN).exists();
    let software = match package {
        [] => setup::common(&cache)?,
        files => {
            let open = |file: &&str| Ok(Arc::new(Package::open(file, None)?));
            let packages = files.iter().map(open).collect::<Result<_>>()?;
            Software::new(packages, &Default::default())?
        }
    };
    let vm = setup::vm(&runtime, &software)?;
    let _ = Path::new(END).exists();
    Ok(json!({ "commands": vm.read_dir(b"/opt/agentos/bin")?.len() }))
}

/// Bytes that installing writes and files that it creates, as strace(1) sees it.
pub(crate) fn trace_install(words: &[&str]) -> Result<(u64, u64)> {
    let log = tempfile::NamedTempFile::new()?;
    let mut command = Command::new("strace");
    command
        .args(["-f", "-qq", "-o"])
        .arg(log.path())
        .arg(std::env::current_exe()?)
        .arg("--probe")
        .args(words);
    answer(&mut command)?;
    count(&std::fs::read_to_string(log.path())?)
}

/// Counts in a log of strace what lies between the marks.
fn count(log: &str) -> Result<(u64, u64)> {
    const WRITES: &[&str] = &[
        "write",
        "pwrite64",
        "writev",
        "pwritev",
        "pwritev2",
        "sendfile",
        "splice",
        "copy_file_range",
        "ftruncate",
        "truncate",
        "fallocate",
    ];
    const CREATES: &[&str] = &[
        "creat",
        "mkdir",
        "mkdirat",
        "mknod",
        "mknodat",
        "link",
        "linkat",
        "symlink",
        "symlinkat",
        "rename",
        "renameat",
        "renameat2",
    ];
    let (mut inside, mut ended) = (false, false);
    let (mut written, mut created) = (0, 0);
    for line in log.lines() {
        inside |= line.contains(BEGIN);
        ended |= line.contains(END);
        if !inside || ended {
            continue;
        }
        // `PID name(arguments) = result`, or `PID <... name resumed>arguments) = result`.
        let call = line
            .split_once(' ')
            .map_or("", |(_, rest)| rest.trim_start());
        let call = call.strip_prefix("<... ").unwrap_or(call);
        let name = call.split(['(', ' ']).next().unwrap_or_default();
        let result = line.rsplit_once(" = ").map_or("", |(_, result)| result);
        let result = result.split(' ').next().unwrap_or_default();
        let result: i64 = result.parse().unwrap_or(-1);
        if WRITES.contains(&name) && result >= 0 {
            // Truncating is a change too, although it moves no byte.
            written += result.max(1) as u64;
        }
        let makes = line.contains("O_CREAT") || line.contains("O_TMPFILE");
        if result >= 0 && (CREATES.contains(&name) || makes) {
            created += 1;
        }
    }
    if !ended {
        bail!("the trace has no marks");
    }
    Ok((written, created))
}

/// A process of `vm` that has said that it is ready and sleeps.
fn sleeper(vm: &Vm, command: &[&str]) -> Result<kernel::Child> {
    let mut request = setup::request(command);
    request.stdio = [Stdio::Pipe, Stdio::Pipe, Stdio::Null];
    let mut child = vm.spawn(&request)?;
    let stdout = child.stdout.as_mut().context("its output is a pipe")?;
    let mut buffer = [0; 16];
    match stdout.read_timeout(&mut buffer, Duration::from_secs(60))? {
        0 => bail!("{command:?} ended with {:?}", child.wait()),
        _ => Ok(child),
    }
}

/// Memory that each of `count` VMs adds to a process that has one already.
fn sleepers(cache: Cache, count: usize, command: &[&str]) -> Result<Value> {
    let runtime = Runtime::new(cache.clone())?;
    let software = setup::common(&cache)?;
    let mut alive = Vec::new();
    let mut add = || -> Result<()> {
        let vm = setup::vm(&runtime, &software)?;
        let child = sleeper(&vm, command)?;
        alive.push((vm, child));
        Ok(())
    };
    add()?;
    // Ready is said a moment before the sleep begins.
    let settle = || thread::sleep(Duration::from_millis(500));
    settle();
    let before = Resident::of("self")?;
    for _ in 0..count {
        add()?;
    }
    settle();
    let after = Resident::of("self")?;
    for (_, child) in &alive {
        if child.try_wait().is_some() {
            bail!("{command:?} did not sleep");
        }
    }
    let each = |before: u64, after: u64| (after as f64 - before as f64) / count as f64;
    Ok(json!({
        "rss": each(before.rss, after.rss),
        "pss": each(before.pss, after.pss),
        "tables": each(before.tables, after.tables),
    }))
}

/// Time of each life and memory that stays after it.
fn life(cache: Cache, count: usize) -> Result<Value> {
    let runtime = Runtime::new(cache.clone())?;
    let software = setup::common(&cache)?;
    let live = || {
        let vm = setup::vm(&runtime, &software)?;
        let status = vm.spawn(&setup::request(&["true"]))?.wait();
        if status != ExitStatus::Code(0) {
            bail!("true ended with {status:?}");
        }
        Ok(vm.dispose()?)
    };
    for _ in 0..BEFORE {
        live()?;
    }
    let before = Resident::of("self")?;
    let seconds = (0..count).map(|_| time(live)).collect::<Result<Vec<_>>>()?;
    let after = Resident::of("self")?;
    let bytes = (after.rss as f64 - before.rss as f64) / count as f64;
    Ok(json!({ "seconds": seconds, "bytes": bytes }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lies_between_the_marks_counts() {
        let log = "\
1 write(1, \"a\", 1) = 1
1 statx(AT_FDCWD, \"/aos-bench-begin\", 0, 0, 0x7ff) = -1 ENOENT (No such file or directory)
1 openat(AT_FDCWD, \"/p\", O_RDONLY|O_CLOEXEC) = 3
2 pwrite64(3, \"abc\", 3, 0 <unfinished ...>
1 openat(AT_FDCWD, \"/q\", O_RDWR|O_CREAT, 0600) = 4
2 <... pwrite64 resumed>) = 3
1 mkdir(\"/d\", 0700) = -1 EEXIST (File exists)
1 renameat2(AT_FDCWD, \"/q\", AT_FDCWD, \"/r\", 0) = 0
1 statx(AT_FDCWD, \"/aos-bench-end\", 0, 0, 0x7ff) = -1 ENOENT (No such file or directory)
1 write(1, \"b\", 1) = 1
";
        assert_eq!(count(log).unwrap(), (3, 2));
        assert!(count("1 write(1, \"a\", 1) = 1\n").is_err());
    }
}
