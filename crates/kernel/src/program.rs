//! From a command to a program that is ready to run: search, permission, header, interpreters,
//! driver.

use crate::driver::{Image, OwnedContent, Program};
use crate::launch::NewImage;
use crate::policy::SpawnCheck;
use crate::vm::VmInner;
use binfmt::{ChainError, Header, Request};
use pathwalk::NotFound;
use std::borrow::Cow;
use std::sync::Arc;
use vfs_core::errno::Errno;
use vfs_core::file::OpenFile;
use vfs_core::inode::{Content, InodeRef};
use vfs_core::mount::MountFlags;
use vfs_core::namei::{At, Path, permission};
use vfs_core::types::{Access, Caller, Cred, FileType, OpenFlags, S_ISGID, S_ISUID};

/// Mostly the errors of a system call, here and there a [`LoadError`].
type Result<T, E = Errno> = std::result::Result<T, E>;

/// How a command without a slash is searched for. One with a slash is always taken literally.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search<'a> {
    /// Not at all: a bare name is a file of the working directory.
    Never,
    /// In the `PATH` of the environment that the new program gets, or in the default path if it
    /// has none.
    Env,
    /// In this `PATH`.
    Path(&'a [u8]),
}

/// A program that is ready, and what it starts with.
pub(crate) struct Loaded {
    pub(crate) program: Box<dyn Program>,
    pub(crate) driver: &'static str,
    pub(crate) argv: Vec<Vec<u8>>,
    pub(crate) env: Vec<Vec<u8>>,
    pub(crate) comm: Vec<u8>,
    pub(crate) exe: Path,
    /// Credentials if they are not the caller's.
    pub(crate) cred: Option<Arc<Cred>>,
}

/// Longest argument or variable with its NUL (`MAX_ARG_STRLEN`).
const MAX_ARG_STRLEN: usize = 131_072;

/// Why a program could not be loaded, in as much detail as there is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// No such command.
    #[error(transparent)]
    NotFound(#[from] NotFound),
    /// The file, or an interpreter that it names, can't be run.
    #[error(transparent)]
    Chain(#[from] ChainError),
    /// Something else.
    #[error(transparent)]
    Other(#[from] Errno),
}

impl LoadError {
    /// The error number.
    pub fn errno(&self) -> Errno {
        match self {
            LoadError::NotFound(error) => error.errno,
            LoadError::Chain(error) => error.errno,
            LoadError::Other(errno) => *errno,
        }
    }
}

impl From<LoadError> for Errno {
    fn from(error: LoadError) -> Errno {
        error.errno()
    }
}

/// Finds and loads what `new` names, as seen from `at`.
pub(crate) fn load(vm: &VmInner, at: &At<'_>, new: NewImage<'_>) -> Result<Loaded, LoadError> {
    let NewImage {
        path,
        search,
        argv,
        env,
    } = new;
    check_size(vm, at, &argv, &env)?;
    let list = match search {
        Search::Never => None,
        Search::Env => Some(crate::env::get(&env, b"PATH")),
        Search::Path(list) => Some(Some(list)),
    };
    let (path, mut first) = match list {
        Some(list) if !path.contains(&b'/') => {
            let found = pathwalk::find(at, path, list, crate::DEFAULT_PATH.as_bytes())?;
            (Cow::Owned(found.path), Some(found.location))
        }
        _ => (Cow::Borrowed(path), None),
    };
    check_policy(vm, at, &path, &argv)?;
    let request = Request::new(&path, argv);
    finish(vm, at, &path, request, env, |path| {
        let place = match first.take() {
            Some(place) => place,
            None => pathwalk::executable(at, path)?,
        };
        let header = header(place.inode())?;
        Ok((place, header))
    })
}

/// Loads the program that is open as `file` at descriptor `fd`, which will be `gone` once it runs.
pub(crate) fn load_open(
    vm: &VmInner,
    at: &At<'_>,
    file: &OpenFile,
    fd: i32,
    gone: bool,
    argv: Vec<Vec<u8>>,
    env: Vec<Vec<u8>>,
) -> Result<Loaded, LoadError> {
    check_size(vm, at, &argv, &env)?;
    let name = format!("/dev/fd/{fd}").into_bytes();
    check_policy(vm, at, &name, &argv)?;
    let mut first = Some(file.path().ok_or(Errno::EACCES)?.clone());
    let request = Request::new(&name, argv).path_inaccessible(gone);
    finish(vm, at, &name, request, env, |path| {
        let place = match first.take() {
            Some(place) => runnable(at, place)?,
            None => pathwalk::executable(at, path)?,
        };
        let header = header(place.inode())?;
        Ok((place, header))
    })
}

fn finish(
    vm: &VmInner,
    at: &At<'_>,
    path: &[u8],
    request: Request<'_>,
    mut env: Vec<Vec<u8>>,
    open: impl FnMut(&[u8]) -> Result<(Path, Header)>,
) -> Result<Loaded, LoadError> {
    let resolved = binfmt::resolve(request, open)?;
    let handler = resolved.handler();
    let driver = vm
        .drivers
        .iter()
        .find(|driver| driver.handles(&handler))
        .ok_or(Errno::ENOEXEC)?;
    let exe = resolved.file.clone();
    let inode = exe.inode();
    let size = inode.stat()?.size;
    let image = Image {
        content: content(vm, inode, size, at.caller.pid)?,
        content_id: inode.content_id(),
        size,
        path: resolved.path.clone(),
    };
    let program = driver.load(&image)?;
    let cred = exec_cred(&exe, &at.caller.cred)?;
    if cred
        .as_ref()
        .is_some_and(|cred| cred.euid != cred.uid || cred.egid != cred.gid)
    {
        env = crate::env::sanitize(env);
    }
    let comm = path
        .rsplit(|&b| b == b'/')
        .next()
        .unwrap_or_default()
        .to_vec();
    Ok(Loaded {
        program,
        driver: driver.name(),
        argv: resolved.argv,
        env,
        comm,
        exe,
        cred,
    })
}

/// Arguments and environment within `exec.arg_bytes` (`bprm_stack_limits`, `copy_strings`).
fn check_size(vm: &VmInner, at: &At<'_>, argv: &[Vec<u8>], env: &[Vec<u8>]) -> Result<()> {
    let mut total = 0u64;
    for text in argv.iter().chain(env) {
        if text.len() >= MAX_ARG_STRLEN {
            return Err(Errno::E2BIG);
        }
        // The string, its NUL and the pointer to it.
        total += text.len() as u64 + 1 + 8;
    }
    if total > vm.limits.arg_bytes {
        vm.limit_reached("exec.arg_bytes", vm.limits.arg_bytes, at.caller.pid);
        return Err(Errno::E2BIG);
    }
    Ok(())
}

fn check_policy(vm: &VmInner, at: &At<'_>, path: &[u8], argv: &[Vec<u8>]) -> Result<()> {
    let check = SpawnCheck {
        pid: at.caller.pid,
        path,
        argv,
        cred: &at.caller.cred,
    };
    vm.policy.spawn(&check).inspect_err(|_| {
        vm.emit(|| crate::Event::PolicyDenied {
            pid: at.caller.pid,
            what: format!("running {}", String::from_utf8_lossy(path)),
        });
    })
}

/// What [`pathwalk::executable`] checks, of a file that is open already.
fn runnable(at: &At<'_>, place: Path) -> Result<Path> {
    let inode = place.inode();
    if inode.kind() != FileType::Regular || place.mount().flags().contains(MountFlags::NOEXEC) {
        return Err(Errno::EACCES);
    }
    permission(&inode.stat()?, &at.caller.cred, Access::EXEC)?;
    Ok(place)
}

/// The first bytes of a file. Whether the caller may read it plays no part.
fn header(inode: &InodeRef) -> Result<Header> {
    if let Some(content) = inode.content() {
        let mut header = Header::new(b"");
        content.with(&mut |bytes| header = Header::new(bytes))?;
        return Ok(header);
    }
    let ops = inode.clone().open(OpenFlags::NOATIME, &Caller::host())?;
    let mut bytes = [0; binfmt::HEADER_SIZE];
    let mut len = 0;
    while len < bytes.len() {
        match ops.read_at(&mut bytes[len..], len as u64)? {
            0 => break,
            n => len += n,
        }
    }
    Ok(Header::new(&bytes[..len]))
}

/// The bytes of a program: lent by the file system, or read within `exec.program_bytes`.
fn content(vm: &VmInner, inode: &InodeRef, size: u64, pid: u32) -> Result<Arc<dyn Content>> {
    if let Some(content) = inode.content() {
        return Ok(content);
    }
    if size > vm.limits.program_bytes {
        vm.limit_reached("exec.program_bytes", vm.limits.program_bytes, pid);
        return Err(Errno::ENOMEM);
    }
    let ops = inode.clone().open(OpenFlags::NOATIME, &Caller::host())?;
    Ok(Arc::new(OwnedContent(read_to_end(
        vm.limits.program_bytes,
        |buf, at| ops.read_at(buf, at),
    )?)))
}

/// Content of an open file of at most `max` bytes; `EFBIG` if there is more.
pub(crate) fn read_whole(file: &OpenFile, max: u64) -> Result<Vec<u8>> {
    read_to_end(max, |buf, at| file.pread(buf, at))
}

fn read_to_end(max: u64, mut read: impl FnMut(&mut [u8], u64) -> Result<usize>) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut chunk = vec![0; 64 << 10];
    loop {
        match read(&mut chunk, bytes.len() as u64)? {
            0 => return Ok(bytes),
            n => bytes.extend_from_slice(&chunk[..n]),
        }
        if bytes.len() as u64 > max {
            return Err(Errno::EFBIG);
        }
    }
}

/// Credentials after running a file: set-ID bits count unless the mount says otherwise, and the
/// saved ids follow the effective ones (`bprm_fill_uid`, `cap_bprm_creds_from_file`). `None` if
/// nothing changes.
fn exec_cred(exe: &Path, cred: &Arc<Cred>) -> Result<Option<Arc<Cred>>> {
    let stat = exe.inode().stat()?;
    let (mut euid, mut egid) = (cred.euid, cred.egid);
    if !exe.mount().flags().contains(MountFlags::NOSUID) {
        if stat.mode & S_ISUID != 0 {
            euid = stat.uid;
        }
        if stat.mode & (S_ISGID | 0o010) == S_ISGID | 0o010 {
            egid = stat.gid;
        }
    }
    if (euid, egid) == (cred.euid, cred.egid) && (cred.suid, cred.sgid) == (euid, egid) {
        return Ok(None);
    }
    Ok(Some(Arc::new(Cred {
        euid,
        egid,
        suid: euid,
        sgid: egid,
        ..(**cred).clone()
    })))
}
