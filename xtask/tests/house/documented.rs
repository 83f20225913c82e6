//! Every public item is documented: the compiler knows, and tells it to whoever builds.

use crate::{cargo, none};
use serde_json::Value;

/// `missing_docs` is a warning in the workspace's lints, which every crate inherits, and a
/// finished build repeats its warnings. So this asks for the build that has just been made for the
/// tests, and compiles nothing when run by `cargo xtask test`.
#[test]
fn no_public_item_is_undocumented_and_nothing_else_is_warned_of() {
    let mut command = cargo();
    command.args([
        "test",
        "--workspace",
        "--no-run",
        "--quiet",
        "--message-format",
        "json",
    ]);
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    let output = command.output().expect("cargo runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let mut complaints: Vec<String> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["reason"] == "compiler-message")
        .filter(|message| message["message"]["level"] == "warning")
        .filter_map(|message| message["message"]["rendered"].as_str().map(str::to_owned))
        .filter(|text| !text.contains("warnings emitted") && !text.contains("warning emitted"))
        .collect();
    complaints.sort();
    complaints.dedup();
    none(complaints);
}
