//! One search made twice: by the host's libc over a real tree, and by this crate over a copy of
//! the tree in memory.

use nix::unistd::{Uid, chown, mkfifo};
use std::ffi::{CString, OsStr};
use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use vfs_core::memfs::{MemFs, MemFsOptions};
use vfs_core::namei::NoSpecialFiles;
use vfs_core::{At, Caller, Cred, Errno, FileType, Lookup, MountFlags, Namespace, OpenFlags};

/// Environment variable that gives this executable its part: `exec` or `print`.
pub(crate) const PART: &str = "PATHWALK_PART";

/// The path under which the file was found, or the error.
pub(crate) type Outcome = Result<Vec<u8>, Errno>;

/// What the executable does with a part.
pub(crate) fn play(part: &OsStr) {
    let argument = std::env::args_os().nth(1).unwrap_or_default();
    if part == "print" {
        return io::stdout()
            .write_all(argument.as_bytes())
            .expect("the pipe is open");
    }
    let command = CString::new(argument.into_vec()).expect("no NUL");
    let argv = [command.as_ptr(), std::ptr::null()];
    let print = CString::new(format!("{PART}=print")).expect("no NUL");
    let envp = [print.as_ptr(), std::ptr::null()];
    // SAFETY: command, argv and envp are NUL-terminated and outlive the call, which only returns
    // with an error.
    unsafe { libc::execvpe(command.as_ptr(), argv.as_ptr(), envp.as_ptr()) };
    let number = io::Error::last_os_error().raw_os_error().expect("a number");
    write!(io::stderr(), "{number}").expect("the pipe is open");
}

/// A node of a tree.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    /// A directory and its permission bits.
    Dir(u32),
    /// A script that prints its path, its permission bits and its owner.
    Script(u32, u32),
    /// An executable file of this content.
    Text(&'static str),
    /// A symbolic link.
    Link(&'static str),
    /// A named pipe that everybody may do anything with.
    Fifo,
}

/// Paths relative to the working directory, parents first.
pub(crate) type Tree = Vec<(String, Node)>;

/// A directory on the host for trees to stand in, with the executable beside them.
pub(crate) struct Machine {
    dir: tempfile::TempDir,
    /// Held while anything is written or a process started: a child that is forked while a script
    /// is open for writing would make its exec fail with `ETXTBSY`.
    alone: Mutex<()>,
}

impl Machine {
    /// Copies this executable to where any user can run it.
    pub(crate) fn new() -> Machine {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let own = std::env::current_exe().expect("own path");
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("chmod");
        fs::copy(own, dir.path().join("program")).expect("copy");
        Machine {
            dir,
            alone: Mutex::new(()),
        }
    }

    /// Whether trials can run as other users too.
    pub(crate) fn is_root(&self) -> bool {
        Uid::effective().is_root()
    }

    /// Makes the tree twice.
    pub(crate) fn plant(&self, tree: &Tree) -> Planted<'_> {
        let _alone = self.alone.lock().unwrap_or_else(PoisonError::into_inner);
        let base = tempfile::tempdir_in(self.dir.path()).expect("a temporary directory");
        fs::set_permissions(base.path(), fs::Permissions::from_mode(0o755)).expect("chmod");
        let planted = Planted {
            machine: self,
            namespace: namespace(base.path()),
            base,
        };
        for (path, node) in tree {
            planted.make(path, node);
        }
        // Permissions last, since they may close a directory to whoever fills it.
        for (path, node) in tree {
            if let Node::Dir(mode) | Node::Script(mode, _) = node {
                planted.chmod(path, *mode);
            }
        }
        planted
    }
}

/// A namespace in which the path `base` is a directory.
fn namespace(base: &Path) -> Arc<Namespace> {
    let fs = MemFs::new(MemFsOptions::default());
    let namespace = Namespace::new(fs, MountFlags::empty(), Arc::new(NoSpecialFiles));
    let root = namespace.root();
    let at = At {
        ns: &namespace,
        root: &root,
        base: &root,
        caller: &Caller::host(),
    };
    let mut above: Vec<&Path> = base.ancestors().filter(|p| p.parent().is_some()).collect();
    above.reverse();
    for dir in above {
        at.mkdir(dir.as_os_str().as_bytes(), 0o755).expect("mkdir");
    }
    namespace
}

/// A tree on the host and its copy in memory.
pub(crate) struct Planted<'a> {
    machine: &'a Machine,
    base: tempfile::TempDir,
    namespace: Arc<Namespace>,
}

impl Planted<'_> {
    /// Absolute path of the tree, the same on both sides.
    pub(crate) fn base(&self) -> &[u8] {
        self.base.path().as_os_str().as_bytes()
    }

    fn host_path(&self, path: &str) -> PathBuf {
        self.base.path().join(path)
    }

    /// Calls `f` with the working directory at the tree.
    fn at<T>(&self, caller: &Caller, f: impl FnOnce(&At<'_>) -> T) -> T {
        let root = self.namespace.root();
        let host = Caller::host();
        let whole = At {
            ns: &self.namespace,
            root: &root,
            base: &root,
            caller: &host,
        };
        let base = whole
            .resolve(self.base(), Lookup::FOLLOW)
            .expect("the tree");
        f(&At {
            ns: &self.namespace,
            root: &root,
            base: &base,
            caller,
        })
    }

    fn make(&self, path: &str, node: &Node) {
        let host = self.host_path(path);
        let caller = Caller {
            umask: 0,
            ..Caller::host()
        };
        self.at(&caller, |at| match node {
            Node::Dir(_) => {
                fs::create_dir(&host).expect("mkdir");
                at.mkdir(path.as_bytes(), 0o755).expect("mkdir");
            }
            Node::Script(_, owner) => {
                let program = self.machine.dir.path().join("program");
                fs::write(&host, format!("#!{}\n", program.display())).expect("write");
                at.open(path.as_bytes(), OpenFlags::CREAT | OpenFlags::WRONLY, 0o755)
                    .expect("open");
                if self.machine.is_root() {
                    chown(&host, Some((*owner).into()), Some((*owner).into())).expect("chown");
                    at.chown(path.as_bytes(), Some(*owner), Some(*owner), Lookup::FOLLOW)
                        .expect("chown");
                }
            }
            Node::Text(content) => {
                fs::write(&host, content).expect("write");
                fs::set_permissions(&host, fs::Permissions::from_mode(0o755)).expect("chmod");
                at.open(path.as_bytes(), OpenFlags::CREAT | OpenFlags::WRONLY, 0o755)
                    .expect("open");
            }
            Node::Link(target) => {
                symlink(target, &host).expect("symlink");
                at.symlink(target.as_bytes(), path.as_bytes())
                    .expect("symlink");
            }
            Node::Fifo => {
                mkfifo(&host, nix::sys::stat::Mode::S_IRWXU).expect("mkfifo");
                at.mknod(path.as_bytes(), FileType::Fifo, 0o700, 0)
                    .expect("mknod");
            }
        });
    }

    fn chmod(&self, path: &str, mode: u32) {
        fs::set_permissions(self.host_path(path), fs::Permissions::from_mode(mode)).expect("chmod");
        self.at(&Caller::host(), |at| {
            at.chmod(path.as_bytes(), mode, Lookup::FOLLOW)
                .expect("chmod");
        });
    }

    /// What the host finds, as the user `uid`.
    pub(crate) fn host(&self, command: &[u8], path: Option<&[u8]>, uid: u32) -> Outcome {
        let mut process = Command::new(self.machine.dir.path().join("program"));
        process
            .arg(OsStr::from_bytes(command))
            .current_dir(self.base.path());
        process.env_clear().env(PART, "exec");
        if let Some(path) = path {
            process.env("PATH", OsStr::from_bytes(path));
        }
        if self.machine.is_root() {
            process.uid(uid).gid(uid);
        }
        let child = {
            let _alone = self
                .machine
                .alone
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            process
                .stdout(std::process::Stdio::piped())
                .stderr(std::process::Stdio::piped())
                .spawn()
        };
        let output = child
            .expect("the program starts")
            .wait_with_output()
            .expect("wait");
        if output.stderr.is_empty() {
            return Ok(output.stdout);
        }
        let number = String::from_utf8_lossy(&output.stderr)
            .parse()
            .expect("an error number");
        Err(Errno::from_number(number).expect("a known error"))
    }

    /// What we find, as the user `uid`.
    pub(crate) fn ours(&self, command: &[u8], path: Option<&[u8]>, uid: u32) -> Outcome {
        let uid = if self.machine.is_root() {
            uid
        } else {
            Uid::effective().as_raw()
        };
        let caller = Caller {
            cred: Arc::new(Cred::user(uid, uid)),
            pid: 1,
            umask: 0o022,
        };
        self.at(&caller, |at| {
            match pathwalk::find(at, command, path, b"/bin:/usr/bin") {
                Ok(found) => {
                    let there = at
                        .resolve(&found.path, Lookup::FOLLOW)
                        .expect("it was found");
                    assert!(there == found.location, "the path leads elsewhere");
                    Ok(found.path)
                }
                Err(error) => Err(error.errno),
            }
        })
    }

    /// Searches twice and fails unless both agree; returns what both say.
    pub(crate) fn agree(
        &self,
        command: &[u8],
        path: Option<&[u8]>,
        uid: u32,
    ) -> Result<Outcome, String> {
        let (host, ours) = (self.host(command, path, uid), self.ours(command, path, uid));
        if host == ours {
            return Ok(host);
        }
        Err(format!(
            "uid {uid}\nhost: {}\nours: {}",
            show(&host),
            show(&ours)
        ))
    }
}

/// An outcome as text.
pub(crate) fn show(outcome: &Outcome) -> String {
    match outcome {
        Ok(path) => path.escape_ascii().to_string(),
        Err(errno) => format!("{errno:?}"),
    }
}
