//! Debian source packages, fetched with the system's own apt into a cache directory.
#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn cache() -> PathBuf {
    let base = env::var_os("XDG_CACHE_HOME").map_or_else(
        || PathBuf::from(env::var_os("HOME").expect("HOME is set")).join(".cache"),
        PathBuf::from,
    );
    base.join("aos/debian")
}

/// The upstream tarball (`*.orig.tar.*`) of a source package.
pub fn upstream_tarball(package: &str) -> PathBuf {
    let dir = cache();
    let find = || {
        let prefix = format!("{package}_");
        fs::read_dir(&dir)
            .ok()?
            .flatten()
            .map(|e| e.path())
            .find(|path| {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                name.starts_with(&prefix) && name.contains(".orig.tar") && !name.ends_with(".asc")
            })
    };
    if let Some(path) = find() {
        return path;
    }
    let parts = dir.join("apt/sources");
    fs::create_dir_all(&parts).expect("cache directory");
    fs::create_dir_all(dir.join("apt/lists/partial")).expect("cache directory");
    source_lists(&parts);
    let apt = |args: &[&str]| {
        let option = |name: &str, path: &Path| format!("{name}={}", path.display());
        let status = Command::new("apt-get")
            .args(["-qq", "-o", &option("Dir::Etc::sourceparts", &parts)])
            .args(["-o", "Dir::Etc::sourcelist=/dev/null"])
            .args(["-o", &option("Dir::State::lists", &dir.join("apt/lists"))])
            .args(args)
            .current_dir(&dir)
            .status()
            .expect("apt-get is there");
        assert!(status.success(), "apt-get {args:?}");
    };
    apt(&["update"]);
    apt(&["source", "--download-only", package]);
    find().expect("apt-get source brought the upstream tarball")
}

/// The system's package sources, turned into lists of source packages.
fn source_lists(parts: &Path) {
    let etc = Path::new("/etc/apt");
    let listed = fs::read_dir(etc.join("sources.list.d"))
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    for path in listed.chain([etc.join("sources.list")]) {
        let Ok(text) = fs::read_to_string(&path) else {
            continue;
        };
        let name = path.file_name().unwrap_or_default();
        let sources = match path.extension().and_then(|e| e.to_str()) {
            Some("sources") => text.replace("Types: deb\n", "Types: deb-src\n"),
            Some("list") => text
                .lines()
                .filter(|line| line.starts_with("deb "))
                .map(|line| line.replacen("deb ", "deb-src ", 1) + "\n")
                .collect(),
            _ => continue,
        };
        fs::write(parts.join(name), sources).expect("cache directory");
    }
}
