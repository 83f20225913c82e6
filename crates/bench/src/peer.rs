//! The published runtime, installed on demand and driven over a pipe.
//!
//! Its library wants Node.js, so a small script (`peer.mjs`) makes the calls and takes the times itself:
//! what travels between it and this program is no part of any number.

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use sidecar::cache::Cache;
use sidecar::npm::pinned;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Marks the script's answers among what the runtime may print.
const ANSWER: &str = "ANSWER ";

const SCRIPT: &str = include_str!("peer.mjs");

/// The runtime, with one VM that is kept for the warm numbers.
pub(crate) struct Peer {
    dir: PathBuf,
    node: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Peer {
    /// Installs the runtime below the cache directory if it is not there, and starts it.
    pub(crate) fn start(cache: &Cache) -> Result<Peer> {
        let dir = install(cache)?;
        let mut node = node(&dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start node")?;
        let (Some(requests), Some(answers)) = (node.stdin.take(), node.stdout.take()) else {
            bail!("node has no streams");
        };
        let answers = BufReader::new(answers);
        Ok(Peer {
            dir,
            node,
            requests,
            answers,
        })
    }

    /// Seconds to make a VM with the common packages.
    pub(crate) fn create(&mut self) -> Result<f64> {
        seconds(&self.ask(json!({ "op": "create" }))?)
    }

    /// Seconds from a command's start to its exit status, in a warm VM.
    pub(crate) fn run(&mut self, words: &[&str]) -> Result<f64> {
        let (command, arguments) = words.split_first().context("a command has a name")?;
        let request = json!({ "op": "run", "command": command, "arguments": arguments });
        seconds(&self.ask(request)?)
    }

    /// Resident bytes that each of `count` further VMs adds to all processes of the runtime, each
    /// VM holding one sleeping shell.
    pub(crate) fn sleepers(&mut self, count: usize, command: &[&str]) -> Result<f64> {
        let (command, arguments) = command.split_first().context("a command has a name")?;
        let answer = self.ask(json!({
            "op": "sleepers", "count": count, "command": command, "arguments": arguments,
        }))?;
        answer["bytes"].as_f64().context("no number of bytes")
    }

    /// A host process that makes one VM, runs one command in it and ends.
    pub(crate) fn whole_process(&self, words: &[&str]) -> Result<()> {
        let status = node(&self.dir)
            .arg("--once")
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()
            .context("cannot start node")?;
        if !status.success() {
            bail!("the published runtime ended with {status}");
        }
        Ok(())
    }

    fn ask(&mut self, request: Value) -> Result<Value> {
        writeln!(self.requests, "{request}").context("the published runtime is gone")?;
        let mut line = String::new();
        loop {
            line.clear();
            if self.answers.read_line(&mut line)? == 0 {
                bail!("the published runtime ended before it answered {request}");
            }
            let Some(answer) = line.strip_prefix(ANSWER) else {
                continue;
            };
            let answer: Value = serde_json::from_str(answer)?;
            if let Some(error) = answer["error"].as_str() {
                bail!("the published runtime, asked for {request}: {error}");
            }
            return Ok(answer);
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Nothing of value is lost with it.
        let _ = self.node.kill();
        let _ = self.node.wait();
    }
}

fn seconds(answer: &Value) -> Result<f64> {
    answer["seconds"].as_f64().context("no number of seconds")
}

/// Node with the script; what the runtime logs is nobody's here.
fn node(dir: &Path) -> Command {
    let mut node = Command::new("node");
    node.arg("bench.mjs").current_dir(dir).stderr(Stdio::null());
    node
}

fn install(cache: &Cache) -> Result<PathBuf> {
    let (name, version) = pinned::PEER;
    let dir = cache.root().join("peer");
    cache.ensure(&dir)?;
    let manifest = dir.join("node_modules").join(name).join("package.json");
    if installed_version(&manifest).as_deref() != Some(version) {
        crate::say(&format!("fetching {name}@{version} with npm, once"));
        fs::write(dir.join("package.json"), "{\"private\": true}\n")?;
        let output = Command::new("npm")
            .args(["install", "--no-audit", "--no-fund", "--save-exact"])
            .arg(format!("{name}@{version}"))
            .current_dir(&dir)
            .stdin(Stdio::null())
            .output()
            .context("cannot start npm")?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            bail!("npm install {name}@{version} failed:\n{}", text.trim_end());
        }
    }
    fs::write(dir.join("bench.mjs"), SCRIPT)?;
    Ok(dir)
}

fn installed_version(manifest: &Path) -> Option<String> {
    let text = fs::read(manifest).ok()?;
    let manifest: Value = serde_json::from_slice(&text).ok()?;
    Some(manifest["version"].as_str()?.to_owned())
}
