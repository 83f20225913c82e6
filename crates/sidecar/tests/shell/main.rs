//! Shell one-liners, given to the guest's `sh` and to the host's `bash`: output and status must be
//! the same.
//!
//! `cases.txt` holds the scripts; each runs in an empty directory. `differences.txt` names the cases
//! in which the published commands are known to differ, with the reason. A case that is listed and
//! does not differ fails, so the list can only shrink.

#[path = "../support/mod.rs"]
mod support;

use libtest_mimic::{Arguments, Failed, Trial};
use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::Duration;

/// What a script did.
#[derive(PartialEq, Eq)]
struct Outcome {
    stdout: Vec<u8>,
    status: u8,
    stderr: Vec<u8>,
}

impl Outcome {
    fn same(&self, other: &Outcome) -> bool {
        self.stdout == other.stdout && self.status == other.status
    }

    fn show(&self) -> String {
        let text = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes);
            let cut: String = text.chars().take(600).collect();
            cut.replace('\n', "\n      ")
        };
        format!(
            "status {}\n      {}\n      stderr: {}",
            self.status,
            text(&self.stdout),
            text(&self.stderr)
        )
    }
}

/// Names and scripts: a line `=== NAME`, then the script.
fn cases() -> Vec<(String, String)> {
    let text = include_str!("cases.txt");
    text.split("=== ")
        .skip(1)
        .map(|case| {
            let (name, script) = case.split_once('\n').expect("a script follows the name");
            (name.to_owned(), script.trim_end().to_owned())
        })
        .collect()
}

/// Names of cases, and why they differ: `NAME: REASON`.
fn differences() -> BTreeMap<String, String> {
    include_str!("differences.txt")
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| {
            let (name, reason) = line.split_once(": ").expect("a reason follows the name");
            (name.to_owned(), reason.to_owned())
        })
        .collect()
}

fn in_the_guest(script: &str, limit: Duration) -> Outcome {
    let vm = support::builder()
        .env("LC_ALL=C.UTF-8")
        .build()
        .expect("a VM can be made");
    let output = support::within(&vm, &["sh", "-c", script], limit);
    let outcome = Outcome {
        stdout: output.stdout.bytes,
        status: output.status.shell_code(),
        stderr: output.stderr.bytes,
    };
    vm.dispose().expect("nothing outlives its VM");
    outcome
}

fn on_the_host(script: &str) -> Outcome {
    let dir = tempfile::tempdir().expect("a directory can be made");
    // The file mode mask is an inherited one, and the guest's is 022.
    let output = Command::new("bash")
        .args([
            "-c",
            "umask 022; exec timeout 60 bash -c \"$1\"",
            "bash",
            script,
        ])
        .current_dir(dir.path())
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", dir.path())
        .env("LC_ALL", "C.UTF-8")
        .env("PWD", dir.path())
        .stdin(Stdio::null())
        .output()
        .expect("bash runs");
    use std::os::unix::process::ExitStatusExt;
    let status = output
        .status
        .code()
        .unwrap_or_else(|| 128 + output.status.signal().unwrap_or(0));
    Outcome {
        stdout: output.stdout,
        status: status as u8,
        stderr: output.stderr,
    }
}

fn judge(script: &str, reason: Option<&str>) -> Result<(), Failed> {
    // What is known to hang need not be waited for so long.
    let hangs = reason.is_some_and(|reason| reason.starts_with("hangs"));
    let limit = Duration::from_secs(if hangs { 5 } else { 60 });
    let (guest, host) = (in_the_guest(script, limit), on_the_host(script));
    match (guest.same(&host), reason) {
        (true, None) | (false, Some(_)) => Ok(()),
        (true, Some(reason)) => Err(format!(
            "it does not differ any more; take it out of differences.txt, where it says: {reason}"
        )
        .into()),
        (false, None) => Err(format!(
            "{script}\n  guest {}\n  host  {}",
            guest.show(),
            host.show()
        )
        .into()),
    }
}

fn main() {
    let arguments = Arguments::from_args();
    let mut differences = differences();
    let mut trials = Vec::new();
    for (name, script) in cases() {
        let reason = differences.remove(&name);
        trials.push(Trial::test(name, move || judge(&script, reason.as_deref())));
    }
    let count = trials.len();
    trials.push(Trial::test(
        "the table is as large as promised and the list names only cases",
        move || {
            if count < 150 {
                return Err(format!("{count} cases").into());
            }
            if let Some(name) = differences.keys().next() {
                return Err(format!("differences.txt names {name:?}, which is no case").into());
            }
            Ok(())
        },
    ));
    libtest_mimic::run(&arguments, trials).exit();
}
