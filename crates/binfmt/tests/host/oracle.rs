//! Runs one exec twice, by the host kernel and by this crate, over the same directory.

use binfmt::{Header, Request, resolve};
use std::ffi::{CString, OsStr};
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use vfs_core::errno::Errno;

/// Environment variable that turns this executable into a printer of its arguments.
pub(crate) const PRINT: &str = "BINFMT_PRINT_ARGUMENTS";

/// The arguments that arrive, or the error.
pub(crate) type Outcome = Result<Vec<Vec<u8>>, Errno>;

/// What the executable does as an interpreter: prints each argument and a NUL.
pub(crate) fn print_arguments() {
    let mut out = Vec::new();
    for argument in std::env::args_os() {
        out.extend_from_slice(&argument.into_vec());
        out.push(0);
    }
    io::stdout()
        .write_all(&out)
        .expect("the reader of the pipe is there");
}

/// Keeps the trials' threads from forking while one of them writes a script: the child would hold
/// the descriptor until its own exec, and the script's exec would fail with `ETXTBSY`.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A directory in which execs happen; relative paths are relative to it.
pub(crate) struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    /// An empty directory.
    pub(crate) fn new() -> Place {
        Place {
            dir: tempfile::tempdir().expect("a temporary directory"),
        }
    }

    fn host_path(&self, path: &[u8]) -> PathBuf {
        self.dir.path().join(OsStr::from_bytes(path))
    }

    /// Writes a file with a mode, making the directories above it.
    pub(crate) fn file(&self, path: &[u8], content: &[u8], mode: u32) -> &Place {
        let path = self.host_path(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("mkdir");
        let _alone = alone();
        fs::write(&path, content).expect("write");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("chmod");
        self
    }

    /// Makes `path` an interpreter: a link to this executable.
    pub(crate) fn interpreter(&self, path: &[u8]) -> &Place {
        let path = self.host_path(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("mkdir");
        symlink(std::env::current_exe().expect("own path"), &path).expect("symlink");
        self
    }

    /// Makes a directory.
    pub(crate) fn directory(&self, path: &[u8]) -> &Place {
        fs::create_dir_all(self.host_path(path)).expect("mkdir");
        self
    }

    /// What the host does.
    pub(crate) fn host(&self, path: &[u8], argv: &[&[u8]]) -> Outcome {
        let path = CString::new(path).expect("no NUL");
        let argv: Vec<CString> = argv
            .iter()
            .map(|a| CString::new(*a).expect("no NUL"))
            .collect();
        let environ = CString::new(format!("{PRINT}=1")).expect("no NUL");
        let mut command = Command::new("/nonexistent");
        command
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let exec = move || {
            let mut argv: [*const libc::c_char; 8] = {
                let mut pointers = [std::ptr::null(); 8];
                for (slot, argument) in pointers.iter_mut().zip(&argv) {
                    *slot = argument.as_ptr();
                }
                pointers
            };
            argv[7] = std::ptr::null();
            let envp = [environ.as_ptr(), std::ptr::null()];
            // SAFETY: path, argv and envp are NUL-terminated and live until the call ends; it
            // returns only with an error.
            unsafe { libc::execve(path.as_ptr(), argv.as_ptr(), envp.as_ptr()) };
            Err(io::Error::last_os_error())
        };
        // SAFETY: between fork and exec the closure fills an array on its stack and makes one
        // system call; it allocates nothing and takes no lock.
        unsafe { command.pre_exec(exec) };
        let spawned = {
            let _alone = alone();
            command.spawn()
        };
        let mut child = spawned.map_err(|error| Errno::from_host(&error))?;
        let mut out = Vec::new();
        child
            .stdout
            .take()
            .expect("a pipe")
            .read_to_end(&mut out)
            .expect("read");
        assert!(child.wait().expect("wait").success());
        let mut arguments: Vec<Vec<u8>> = out.split(|&b| b == 0).map(<[u8]>::to_vec).collect();
        assert_eq!(arguments.pop(), Some(Vec::new()), "the last NUL is missing");
        Ok(arguments)
    }

    /// What this crate does. The interpreter, an ELF file to the host, counts as WebAssembly.
    pub(crate) fn ours(&self, path: &[u8], argv: &[&[u8]]) -> Outcome {
        let own = fs::canonicalize(std::env::current_exe().expect("own path")).expect("own path");
        let open = |path: &[u8]| {
            let path = self.host_path(path);
            let error = |e: io::Error| Errno::from_host(&e);
            if fs::canonicalize(&path).map_err(error)? == own {
                return Ok(((), Header::new(b"\0asm")));
            }
            let metadata = fs::metadata(&path).map_err(error)?;
            if !metadata.is_file() || metadata.permissions().mode() & 0o111 == 0 {
                return Err(Errno::EACCES);
            }
            let mut header = Vec::new();
            fs::File::open(&path)
                .and_then(|f| f.take(256).read_to_end(&mut header))
                .map_err(error)?;
            Ok(((), Header::new(&header)))
        };
        let request = Request::new(path, argv.iter().map(|a| a.to_vec()).collect());
        Ok(resolve(request, open)?.argv)
    }

    /// Runs both and fails unless they agree; returns what both say.
    pub(crate) fn agree(&self, path: &[u8], argv: &[&[u8]]) -> Result<Outcome, String> {
        let (host, ours) = (self.host(path, argv), self.ours(path, argv));
        if host == ours {
            return Ok(host);
        }
        Err(format!("host: {}\nours: {}", show(&host), show(&ours)))
    }
}

/// An outcome as text.
pub(crate) fn show(outcome: &Outcome) -> String {
    match outcome {
        Ok(argv) => argv
            .iter()
            .map(|a| format!("[{}]", a.escape_ascii()))
            .collect(),
        Err(errno) => format!("{errno:?}"),
    }
}
