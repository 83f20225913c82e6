//! Talking to the registry, which only the user's own `npm` does.

use super::archive::Archive;
use super::{NpmError, NpmSpec};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Fetches the archive of `spec` below `downloads`.
pub(super) fn download(downloads: &Path, spec: &NpmSpec) -> Result<Archive, NpmError> {
    let dir = Scratch::new(downloads, spec)?;
    let mut npm = Command::new("npm");
    npm.arg("pack")
        .arg(spec.to_string())
        .arg("--pack-destination")
        .arg(&dir.path);
    // npm looks for a project's configuration in the current directory.
    npm.arg("--ignore-scripts").current_dir(&dir.path);
    run(npm, spec)?;
    let mut entries = fs::read_dir(&dir.path)
        .map_err(|e| NpmError::write(dir.path.clone(), e))?
        .flatten();
    let file = entries
        .find(|e| e.path().extension().is_some_and(|x| x == "tgz"))
        .ok_or_else(|| NpmError::Npm {
            spec: spec.to_string(),
            detail: "it reported success and left no archive".to_owned(),
        })?;
    Ok(Archive::new(file.path(), dir))
}

/// The hash the registry names for `spec`.
pub(super) fn integrity(spec: &NpmSpec) -> Result<String, NpmError> {
    let mut npm = Command::new("npm");
    npm.arg("view").arg(spec.to_string()).arg("dist.integrity");
    let output = run(npm, spec)?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn run(mut npm: Command, spec: &NpmSpec) -> Result<Output, NpmError> {
    npm.args(["--loglevel", "error"]).stdin(Stdio::null());
    let output = npm.output().map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => NpmError::NpmMissing {
            spec: spec.to_string(),
        },
        _ => NpmError::Npm {
            spec: spec.to_string(),
            detail: source.to_string(),
        },
    })?;
    if output.status.success() {
        Ok(output)
    } else {
        Err(NpmError::from_npm(
            &spec.to_string(),
            &String::from_utf8_lossy(&output.stderr),
        ))
    }
}

/// A directory that goes when the download is done with.
pub(super) struct Scratch {
    path: PathBuf,
}

impl Scratch {
    fn new(downloads: &Path, spec: &NpmSpec) -> Result<Scratch, NpmError> {
        let path = downloads.join(format!("{}.{}", spec.stem(), std::process::id()));
        match fs::create_dir(&path) {
            // A run with our process id was killed and left it; the lock makes it ours.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                fs::remove_dir_all(&path).and_then(|()| fs::create_dir(&path))
            }
            other => other,
        }
        .map_err(|e| NpmError::write(path.clone(), e))?;
        Ok(Scratch { path })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left over is removed by the next run that gets our process id, or by the user.
        let _ = fs::remove_dir_all(&self.path);
    }
}
