//! What the tests share: published packages from npm, kept in a cache directory.
#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]

use std::env;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

/// The directory of `npm pack` tarballs: `$AOS_NPM_CACHE`, or the user's cache directory.
pub fn npm_cache() -> PathBuf {
    if let Some(dir) = env::var_os("AOS_NPM_CACHE") {
        return dir.into();
    }
    let base = env::var_os("XDG_CACHE_HOME").map_or_else(
        || PathBuf::from(env::var_os("HOME").expect("HOME is set")).join(".cache"),
        PathBuf::from,
    );
    base.join("aos/npm")
}

/// The tarball of an npm package, fetched when it is not there yet.
pub fn npm_tarball(name: &str, version: &str) -> PathBuf {
    // Two tests must not fetch one file at the same time.
    static FETCH: Mutex<()> = Mutex::new(());
    let _guard = FETCH.lock().unwrap_or_else(|e| e.into_inner());
    let dir = npm_cache();
    let file = format!(
        "{}-{version}.tgz",
        name.trim_start_matches('@').replace('/', "-")
    );
    let path = dir.join(&file);
    if !path.exists() {
        fs::create_dir_all(&dir).unwrap();
        let scratch = tempfile::tempdir_in(&dir).unwrap();
        let status = Command::new("npm")
            .args(["pack", "--silent", &format!("{name}@{version}")])
            .current_dir(scratch.path())
            .stdout(std::process::Stdio::null())
            .status()
            .expect("npm is installed");
        assert!(status.success(), "npm pack {name}@{version}");
        fs::rename(scratch.path().join(&file), &path).unwrap();
    }
    path
}

/// The `dist/package.aospkg` of a published npm package.
pub fn published(name: &str, version: &str) -> PathBuf {
    let tarball = npm_tarball(&format!("@agentos-software/{name}"), version);
    static EXTRACT: Mutex<()> = Mutex::new(());
    let _guard = EXTRACT.lock().unwrap_or_else(|e| e.into_inner());
    let path = tarball.with_extension("aospkg");
    if !path.exists() {
        let file = File::open(&tarball).unwrap();
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
        let mut temporary = tempfile::NamedTempFile::new_in(tarball.parent().unwrap()).unwrap();
        let mut found = false;
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            if entry.path().unwrap() == Path::new("package/dist/package.aospkg") {
                io::copy(&mut entry, &mut temporary).unwrap();
                found = true;
                break;
            }
        }
        assert!(found, "{} holds a package", tarball.display());
        temporary.persist(&path).unwrap();
    }
    path
}

/// The published packages that carry a container, with what the reference says of them: entries
/// and commands.
pub const PUBLISHED: &[(&str, &str, u32, u32)] = &[
    ("coreutils", "0.3.4", 120, 118),
    ("sed", "0.3.4", 3, 1),
    ("grep", "0.3.4", 4, 2),
    ("gawk", "0.3.4", 3, 1),
    ("findutils", "0.3.4", 4, 2),
    ("diffutils", "0.3.4", 3, 1),
    ("tar", "0.3.5", 3, 1),
    ("gzip", "0.3.4", 5, 3),
    ("pi", "0.2.7", 16_279, 2),
];
