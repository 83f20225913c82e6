//! The published runtime, which tests and benches compare with: installed once into the cache.

use crate::host;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const NAME: &str = "@rivet-dev/agentos-core";
const VERSION: &str = "0.2.21";
/// Hash of the published archive.
const INTEGRITY: &str = "sha512-bWi97F2unAAWyhBIihpu+QKq2zdc1NTWhxkB6ZFUrT2GzFUYXnMwjGnG/6Zt9Tv+vpE60CNDvx2QQNZvNClLxg==";

/// Installs the runtime into `peer` of the cache directory if it is not there, and gives the
/// directory. No install script runs: what they would build is not used.
pub(crate) fn install() -> Result<PathBuf> {
    let dir = cache_dir()?.join("peer");
    if integrity(&dir).as_deref() == Some(INTEGRITY) {
        return Ok(dir);
    }
    host::say(format_args!("fetching {NAME}@{VERSION} with npm, once"));
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    std::fs::write(dir.join("package.json"), "{\"private\": true}\n")
        .with_context(|| format!("cannot write to {}", dir.display()))?;
    let output = Command::new("npm")
        .args([
            "install",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            "--loglevel",
            "error",
        ])
        .args(["--save-exact", &format!("{NAME}@{VERSION}")])
        .current_dir(&dir)
        .stdin(Stdio::null())
        .output()
        .context("cannot start npm")?;
    if !output.status.success() {
        bail!(
            "npm install failed:\n{}",
            String::from_utf8_lossy(&output.stderr).trim_end()
        );
    }
    match integrity(&dir) {
        Some(found) if found == INTEGRITY => Ok(dir),
        found => bail!("{NAME}@{VERSION} has the hash {found:?}, and {INTEGRITY} was expected"),
    }
}

/// The hash npm checked the installed archive against.
fn integrity(dir: &Path) -> Option<String> {
    let text = std::fs::read(dir.join("node_modules/.package-lock.json")).ok()?;
    let lock: Value = serde_json::from_slice(&text).ok()?;
    Some(
        lock["packages"][format!("node_modules/{NAME}")]["integrity"]
            .as_str()?
            .to_owned(),
    )
}

/// The cache directory, by the same rules as the product's.
fn cache_dir() -> Result<PathBuf> {
    let set = |name| {
        std::env::var_os(name)
            .filter(|v| !v.is_empty())
            .map(PathBuf::from)
    };
    if let Some(dir) = set("AOS_CACHE_DIR") {
        return Ok(dir);
    }
    if let Some(dir) = set("XDG_CACHE_HOME").filter(|dir| dir.is_absolute()) {
        return Ok(dir.join("aos"));
    }
    let home =
        set("HOME").context("no place for a cache: set AOS_CACHE_DIR, XDG_CACHE_HOME or HOME")?;
    Ok(home.join(".cache/aos"))
}
