//! The published command packages, read from the npm cache.
//!
//! The cache is `$AOS_NPM_CACHE`, or `aos/npm` in the user's cache directory. What is not there
//! yet is fetched with `npm pack`; the version is fixed.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The packages that make a system, with their versions.
pub const PACKAGES: &[(&str, &str)] = &[
    ("coreutils", "0.3.4"),
    ("sed", "0.3.4"),
    ("grep", "0.3.4"),
    ("gawk", "0.3.4"),
    ("findutils", "0.3.4"),
    ("diffutils", "0.3.4"),
    ("tar", "0.3.5"),
    ("gzip", "0.3.4"),
];

fn cache() -> PathBuf {
    if let Some(dir) = std::env::var_os("AOS_NPM_CACHE") {
        return dir.into();
    }
    let base = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .unwrap_or_else(|| {
            PathBuf::from(std::env::var_os("HOME").expect("HOME is set")).join(".cache")
        });
    base.join("aos/npm")
}

fn fetch(dir: &Path, name: &str, version: &str) -> PathBuf {
    let file = dir.join(format!("agentos-software-{name}-{version}.tgz"));
    if !file.exists() {
        std::fs::create_dir_all(dir).unwrap();
        let status = Command::new("npm")
            .args([
                "pack",
                "--silent",
                &format!("@agentos-software/{name}@{version}"),
            ])
            .current_dir(dir)
            .stdout(std::process::Stdio::null())
            .status()
            .expect("npm runs");
        assert!(status.success(), "npm pack of {name} {version}");
    }
    file
}

/// Every command of the packages with its module.
pub fn commands() -> &'static BTreeMap<String, Vec<u8>> {
    static COMMANDS: OnceLock<BTreeMap<String, Vec<u8>>> = OnceLock::new();
    COMMANDS.get_or_init(|| {
        let dir = cache();
        let mut commands = BTreeMap::new();
        for (name, version) in PACKAGES {
            let tgz = std::fs::File::open(fetch(&dir, name, version)).unwrap();
            let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(tgz));
            let mut package = Vec::new();
            for entry in archive.entries().unwrap() {
                let mut entry = entry.unwrap();
                if entry.path().unwrap().ends_with("dist/package.aospkg") {
                    entry.read_to_end(&mut package).unwrap();
                }
            }
            commands.extend(bin(&package));
        }
        commands
    })
}

/// The files in `/bin` of a package: the tar behind the two index chunks.
fn bin(package: &[u8]) -> Vec<(String, Vec<u8>)> {
    let word = |at: usize| u32::from_le_bytes(package[at..at + 4].try_into().unwrap()) as usize;
    let start = 16 + word(8) + word(12);
    let mut archive = tar::Archive::new(&package[start..]);
    let mut found = Vec::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().into_owned();
        let in_bin = path.parent().is_some_and(|parent| parent.ends_with("bin"));
        if in_bin && entry.header().entry_type().is_file() {
            let mut module = Vec::new();
            entry.read_to_end(&mut module).unwrap();
            found.push((
                path.file_name().unwrap().to_str().unwrap().to_owned(),
                module,
            ));
        }
    }
    found
}
