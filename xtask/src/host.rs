//! What the host has, and what of it must be installed first.

use anyhow::{Context, Result, bail};
use std::fmt;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A program that tests or benches start, and the Debian package that holds it.
pub(crate) struct Tool {
    program: &'static str,
    package: &'static str,
    why: &'static str,
}

/// Fetches packages.
pub(crate) const NPM: Tool = Tool {
    program: "npm",
    package: "npm",
    why: "fetches the published packages",
};

/// What the tests start besides our own programs.
pub(crate) const FOR_TESTS: &[Tool] = &[
    NPM,
    Tool {
        program: "bash",
        package: "bash",
        why: "is the oracle of the shell tests",
    },
    Tool {
        program: "dash",
        package: "dash",
        why: "is the oracle of the ENOEXEC tests",
    },
    Tool {
        program: "cc",
        package: "gcc",
        why: "links test programs",
    },
    Tool {
        program: "bsdtar",
        package: "libarchive-tools",
        why: "lists archives beside the packer",
    },
    Tool {
        program: "strace",
        package: "strace",
        why: "counts what an install writes",
    },
    Tool {
        program: "unshare",
        package: "util-linux",
        why: "mounts the oracle file systems",
    },
    Tool {
        program: "fusermount3",
        package: "fuse3",
        why: "mounts the file system suites' bridge",
    },
];

/// Installs the packages of the tools that are missing.
pub(crate) fn install(tools: &[Tool]) -> Result<()> {
    let missing: Vec<&Tool> = tools.iter().filter(|t| find(t.program).is_none()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let mut packages: Vec<&str> = missing.iter().map(|t| t.package).collect();
    packages.dedup();
    let line = format!("apt-get install -y {}", packages.join(" "));
    for tool in &missing {
        say(format_args!("{} is missing; it {}", tool.program, tool.why));
    }
    if find("apt-get").is_none() || !is_root() {
        bail!("install what is missing first, on Debian with: sudo {line}");
    }
    say(format_args!("running: {line}"));
    apt(&["update"])?;
    let mut arguments = vec!["install", "-y", "--no-install-recommends"];
    arguments.extend(&packages);
    apt(&arguments)
}

fn apt(arguments: &[&str]) -> Result<()> {
    let output = Command::new("apt-get")
        .arg("-q")
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .output()
        .context("cannot start apt-get")?;
    if !output.status.success() {
        bail!(
            "apt-get {} failed:\n{}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr).trim_end()
        );
    }
    Ok(())
}

fn is_root() -> bool {
    // The owner of /proc/self is the effective user.
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0)
}

/// Where `program` lies on the host's `$PATH` or in the directories of the superuser's programs.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|dir| dir.join(program))
        .find(|file| file.is_file())
}

/// The root of the source tree.
pub(crate) fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

/// Whether a person watches.
pub(crate) fn watched() -> bool {
    std::io::stderr().is_terminal()
}

/// A line for whoever watches or reads the log.
pub(crate) fn say(line: fmt::Arguments<'_>) {
    // A closed stderr is no reason to stop.
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// A line of the result proper.
pub(crate) fn print(line: fmt::Arguments<'_>) {
    // Nor is a closed stdout: the exit status still tells.
    let _ = writeln!(std::io::stdout(), "{line}");
}
