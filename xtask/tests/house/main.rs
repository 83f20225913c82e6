//! The house stays a house: rules that no compiler checks, checked with every test run.
//!
//! - [`layers`]: a crate depends only on what `docs/ARCHITECTURE.md` lets it see;
//! - [`dependencies`]: licences, bans and the number of other people's crates;
//! - [`documented`]: no public item without documentation, and no warning at all;
//! - [`tidy`]: what every file of ours must look like.

mod dependencies;
mod documented;
mod layers;
mod tidy;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// The root of the source tree.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies in the workspace")
}

/// Cargo in the source tree, as the one that runs this test.
fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// What `cargo metadata` says of the workspace on this platform.
fn metadata() -> &'static Value {
    static METADATA: LazyLock<Value> = LazyLock::new(|| {
        let version = Command::new("rustc")
            .arg("-vV")
            .output()
            .expect("rustc runs");
        let version = String::from_utf8(version.stdout).expect("rustc speaks UTF-8");
        let host = version
            .lines()
            .find_map(|l| l.strip_prefix("host: "))
            .expect("rustc names its host");
        let output = cargo()
            .args([
                "metadata",
                "--format-version",
                "1",
                "--locked",
                "--filter-platform",
                host,
            ])
            .output()
            .expect("cargo runs");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON")
    });
    &METADATA
}

/// The packages of `cargo metadata`.
fn packages() -> &'static [Value] {
    metadata()["packages"]
        .as_array()
        .expect("metadata has packages")
}

/// Files that git knows of, relative to the root.
fn files() -> Vec<PathBuf> {
    let output = Command::new("git")
        .args(["ls-files", "-z"])
        .current_dir(root())
        .output()
        .expect("git runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout)
        .expect("our file names are UTF-8")
        .split('\0')
        .filter(|name| !name.is_empty())
        .map(PathBuf::from)
        // A file may have been removed and not committed yet.
        .filter(|name| root().join(name).is_file())
        .collect()
}

/// Fails with all complaints at once.
fn none(complaints: Vec<String>) {
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}
