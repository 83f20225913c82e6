//! What the tests need of the host: a private mount namespace, and tools from the registry.
#![allow(dead_code, reason = "each test binary uses its part")]

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Writes a line past libtest's capture.
pub(crate) fn say(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Runs `f` in a thread with a mount namespace of its own and an empty tmpfs to work in, which is
/// gone afterwards. `None`, with a line that says so, where the host does not let us mount.
pub(crate) fn in_private_mounts<T: Send + 'static>(
    what: &str,
    f: impl FnOnce(&Path) -> T + Send + 'static,
) -> Option<T> {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().to_owned();
    let thread = std::thread::spawn(move || {
        // CLONE_FS also makes the mask and the working directory the thread's own.
        unshare(CloneFlags::CLONE_FS | CloneFlags::CLONE_NEWNS)?;
        let none = None::<&str>;
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
        mount(Some("tmpfs"), &at, Some("tmpfs"), MsFlags::MS_NOATIME, none)?;
        nix::sys::stat::umask(nix::sys::stat::Mode::empty());
        std::fs::set_permissions(&at, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        Ok::<T, nix::Error>(f(&at))
    });
    match thread.join() {
        Ok(Ok(value)) => Some(value),
        Ok(Err(error)) => {
            say(&format!(
                "SKIPPED {what}: mounting is not permitted here ({error})"
            ));
            None
        }
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Mounts an empty tmpfs.
pub(crate) fn mount_tmpfs(at: &Path) {
    let none = None::<&str>;
    mount(Some("tmpfs"), at, Some("tmpfs"), MsFlags::empty(), none).unwrap();
}

/// Shows `from` in the place of `to`.
pub(crate) fn bind(from: &Path, to: &Path) {
    let none = None::<&str>;
    mount(Some(from), to, none, MsFlags::MS_BIND, none).unwrap();
}

/// The program `name` of the crate of the same name, built once with cargo and kept in the user's
/// cache directory.
pub(crate) fn tool(name: &str, version: &str) -> PathBuf {
    static BUILDING: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _one_at_a_time = BUILDING
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::home_dir().map(|home| home.join(".cache")))
        .expect("a cache directory");
    let root = cache.join("aos/tools").join(format!("{name}-{version}"));
    let program = root.join("bin").join(name);
    if !program.exists() {
        say(&format!(
            "building {name} {version} from the registry into {}",
            root.display()
        ));
        let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .args([
                "install",
                "--locked",
                "--quiet",
                "--version",
                version,
                "--root",
            ])
            .arg(&root)
            .arg(name)
            .env_remove("CARGO_TARGET_DIR")
            .env_remove("RUSTFLAGS")
            .status()
            .expect("cargo");
        assert!(status.success(), "cargo install {name} failed");
    }
    program
}
