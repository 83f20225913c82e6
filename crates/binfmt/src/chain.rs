//! From a program through its interpreters to the file that is loaded.

use crate::header::{Handler, Header};
use std::fmt;
use vfs_core::errno::{Errno, Result};

/// How often a script may lead to another file in one exec. The interpreter of one more script is
/// still opened, and only then refused with `ELOOP` (`exec_binprm`, `fs/exec.c`).
pub const MAX_REWRITES: u32 = 5;

/// What to execute.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    path: &'a [u8],
    argv: Vec<Vec<u8>>,
    path_inaccessible: bool,
}

impl<'a> Request<'a> {
    /// A program by its path, as a script would see it in its argument list, and the arguments
    /// beginning with the zeroth. An empty list gets an empty zeroth argument, as Linux has it
    /// since 5.18.
    pub fn new(path: &'a [u8], argv: Vec<Vec<u8>>) -> Request<'a> {
        Request {
            path,
            argv,
            path_inaccessible: false,
        }
    }

    /// Says that `path` will not lead to the program any more once it runs: it is a descriptor's
    /// (`/dev/fd/N`) that is closed on exec. A script is `ENOENT` then, because its interpreter
    /// could not open it (`BINPRM_FLAGS_PATH_INACCESSIBLE`).
    pub fn path_inaccessible(mut self, inaccessible: bool) -> Request<'a> {
        self.path_inaccessible = inaccessible;
        self
    }
}

/// A program that [`resolve`] has found: no script, but a file that some driver loads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved<F> {
    /// What the caller's `open` returned for the file.
    pub file: F,
    /// Path by which it was opened: the program's own, or that of its last interpreter.
    pub path: Vec<u8>,
    /// Arguments for it.
    pub argv: Vec<Vec<u8>>,
    /// How many scripts led to it.
    pub rewrites: u32,
    format: Format,
}

/// The handlers that can end a chain, owned.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Format {
    Wasm,
    Runtime(Box<str>),
}

impl<F> Resolved<F> {
    /// Who runs the file; never a script.
    pub fn handler(&self) -> Handler<'_> {
        match &self.format {
            Format::Wasm => Handler::Wasm,
            Format::Runtime(name) => Handler::Runtime(name),
        }
    }
}

/// Why a program can't be executed, and which file of the chain is at fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainError {
    /// What the system call fails with.
    pub errno: Errno,
    /// The file at fault: the program, or an interpreter that a script names.
    pub path: Vec<u8>,
    /// How many scripts led to the file; 0 if it is the program itself.
    pub rewrites: u32,
}

impl fmt::Display for ChainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = if self.rewrites == 0 {
            ""
        } else {
            "interpreter "
        };
        write!(
            f,
            "{role}{}: {}",
            String::from_utf8_lossy(&self.path),
            self.errno
        )
    }
}

impl std::error::Error for ChainError {}

impl From<ChainError> for Errno {
    fn from(error: ChainError) -> Errno {
        error.errno
    }
}

/// Follows a program through the interpreters its `#!` line names.
///
/// `open` is given a path and opens the file for execution (relative paths are relative to the
/// working directory of whoever executes). It fails as `open_exec` does: `ENOENT`, `EACCES` for
/// what is not a regular file or has no execute permission, and so on. It returns whatever
/// identifies the file to the caller, and the header.
///
/// Each script replaces the zeroth argument by the interpreter's path, the argument of its line
/// if there is one, and its own path.
///
/// # Errors
///
/// The error of `open`; `ENOEXEC` for a header no handler takes; `ELOOP` after
/// [`MAX_REWRITES`] scripts; `ENOENT` for a script whose path is inaccessible. A `#!` line whose
/// path is empty is `EACCES`, because the kernel then opens the working directory.
pub fn resolve<F>(
    request: Request<'_>,
    mut open: impl FnMut(&[u8]) -> Result<(F, Header)>,
) -> std::result::Result<Resolved<F>, ChainError> {
    let Request {
        path,
        mut argv,
        path_inaccessible,
    } = request;
    let mut path = path.to_vec();
    let mut rewrites = 0;
    if argv.is_empty() {
        argv.push(Vec::new());
    }
    loop {
        let fail = |errno| ChainError {
            errno,
            path: path.clone(),
            rewrites,
        };
        let (file, header) = open(&path).map_err(fail)?;
        if rewrites > MAX_REWRITES {
            return Err(fail(Errno::ELOOP));
        }
        let (interpreter, argument) = match header.parse().map_err(fail)? {
            Handler::Script {
                interpreter,
                argument,
            } => (interpreter.to_vec(), argument),
            Handler::Wasm => {
                return Ok(Resolved {
                    file,
                    path,
                    argv,
                    rewrites,
                    format: Format::Wasm,
                });
            }
            Handler::Runtime(name) => {
                let format = Format::Runtime(name.into());
                return Ok(Resolved {
                    file,
                    path,
                    argv,
                    rewrites,
                    format,
                });
            }
        };
        if path_inaccessible && rewrites == 0 {
            return Err(fail(Errno::ENOENT));
        }
        if interpreter.is_empty() {
            return Err(ChainError {
                errno: Errno::EACCES,
                path: interpreter,
                rewrites: rewrites + 1,
            });
        }
        let script = std::mem::replace(&mut path, interpreter.clone());
        argv.splice(
            ..1,
            [
                Some(interpreter),
                argument.map(<[u8]>::to_vec),
                Some(script),
            ]
            .into_iter()
            .flatten(),
        );
        rewrites += 1;
    }
}
