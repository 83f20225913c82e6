//! A directory of the host, mounted into a VM.
//!
//! The guest sees what is there now, names looked up anew at every walk and directories read as
//! they are listed, so nothing is loaded ahead and what the host changes shows. What a guest has
//! open stays what it was, although the host puts another file in its place.
//!
//! Confinement: every node is held by a descriptor, and the host is only ever asked for *one*
//! name in such a directory, with `openat2` and `RESOLVE_BENEATH`, no links of any kind followed (or its equal for one name
//! where the host lacks the call).
//! `..` and symbolic links are walked by [`crate::namei`] in the VM's own tree: a link to
//! `/etc/passwd` leads to the guest's. Errors are numbers, and links show their literal text, so
//! no host path is ever seen. Other host file systems mounted below the directory are refused
//! (`EACCES`) unless asked for. Device nodes can't be opened, and a fifo is the guest's own.
//!
//! Set-user-ID and set-group-ID bits never reach the files of the host: a guest's root must not
//! be able to leave a program there that runs as the host's.

mod file;
mod inode;
mod sys;

use crate::errno::{Errno, Result};
use crate::inode::{FileSystem, InodeRef, anonymous_dev};
use crate::sync::lock;
use crate::types::{NAME_MAX, StatFs};
use inode::HostInode;
use nix::fcntl::OFlag;
use std::collections::HashMap;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard};

/// `HOSTFS_SUPER_MAGIC`.
const MAGIC: u64 = 0x00c0_ffee;

/// How a host directory is mounted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostFsOptions {
    /// Nothing can be written.
    pub read_only: bool,
    /// Most bytes that files may grow by in all, by their sizes; what the guest cuts or removes
    /// counts back. Beyond it writes are `EDQUOT`.
    pub quota_bytes: Option<u64>,
    /// User and group that everything belongs to in the guest's eyes, and that it can't change.
    /// Without it the host's numbers show; new files then get the guest's if we run as root.
    pub owner: Option<(u32, u32)>,
    /// Also show what other host file systems are mounted below the directory.
    pub cross_mounts: bool,
}

/// A host directory that can't be mounted.
#[derive(Debug, thiserror::Error)]
pub enum HostFsError {
    /// It can't be opened as a directory.
    #[error("cannot open the directory to be mounted: {0}")]
    Open(std::io::Error),
    /// It can't be examined.
    #[error("cannot examine the directory to be mounted: {0}")]
    Stat(Errno),
    /// The host has no `/proc`, through which descriptors are opened again.
    #[error("the host's /proc is needed to mount a directory: {0}")]
    NoProc(Errno),
}

/// A host directory as a file system.
pub struct HostFs {
    shared: Arc<Shared>,
    root: Arc<HostInode>,
}

/// What the inodes of one mount have in common.
struct Shared {
    options: HostFsOptions,
    /// Device numbers of the guest by those of the host.
    devs: Mutex<HashMap<u64, u64>>,
    /// Bytes left of the quota. Held while a file changes size, so that sizes and count agree.
    quota: Option<Mutex<u64>>,
    /// Whether new files can be given to the guest's user.
    gives: bool,
}

impl HostFs {
    /// The directory `dir` of the host. Symbolic links in `dir` itself are followed, once, here.
    pub fn open(
        dir: &std::path::Path,
        options: HostFsOptions,
    ) -> std::result::Result<Arc<HostFs>, HostFsError> {
        let fd = sys::open_root(dir).map_err(HostFsError::Open)?;
        sys::reopen(fd.as_fd(), OFlag::O_PATH).map_err(HostFsError::NoProc)?;
        let shared = Arc::new(Shared {
            devs: Mutex::new(HashMap::new()),
            quota: options.quota_bytes.map(Mutex::new),
            gives: options.owner.is_none() && sys::is_root(),
            options,
        });
        let root = HostInode::new(&shared, fd).map_err(HostFsError::Stat)?;
        Ok(Arc::new(HostFs { shared, root }))
    }

    /// Bytes left of the quota, if there is one.
    pub fn quota_left(&self) -> Option<u64> {
        self.shared.quota.as_ref().map(|left| *lock(left))
    }
}

impl Shared {
    fn check_writable(&self) -> Result<()> {
        if self.options.read_only {
            Err(Errno::EROFS)
        } else {
            Ok(())
        }
    }

    /// The guest's number for a host device.
    fn dev(&self, host: u64) -> u64 {
        *lock(&self.devs).entry(host).or_insert_with(anonymous_dev)
    }

    /// Locks the quota, if there is one, for a change of sizes.
    fn quota(&self) -> Option<MutexGuard<'_, u64>> {
        self.quota.as_ref().map(lock)
    }
}

impl FileSystem for HostFs {
    fn root(&self) -> InodeRef {
        self.root.clone()
    }

    fn fs_type(&self) -> &'static str {
        "hostfs"
    }

    fn statfs(&self) -> Result<StatFs> {
        let [bsize, blocks, bfree, bavail, files, ffree] = sys::statfs(self.root.fd.as_fd())?;
        let limit = |free: u64| match self.quota_left() {
            Some(left) => free.min(left / bsize.max(1)),
            None => free,
        };
        Ok(StatFs {
            magic: MAGIC,
            bsize,
            blocks,
            bfree: limit(bfree),
            bavail: limit(bavail),
            files,
            ffree,
            namelen: NAME_MAX as u64,
        })
    }

    fn read_only(&self) -> bool {
        self.shared.options.read_only
    }

    fn volatile(&self) -> bool {
        true
    }
}
