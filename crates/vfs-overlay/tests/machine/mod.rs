//! A namespace over an overlay, with calls that take strings: what the tests drive.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::sync::Arc;
use vfs_core::memfs::{MemFs, MemFsOptions};
use vfs_core::namei::NoSpecialFiles;
use vfs_core::{
    At, Caller, Cred, Errno, FileSystem, FileType, Lookup, MountFlags, Namespace, OpenFile,
    OpenFlags, Path, RenameFlags, Result, Stat,
};
use vfs_overlay::{Marks, OverlayFs, OverlayOptions};

pub(crate) fn memory() -> Arc<MemFs> {
    MemFs::new(MemFsOptions::default())
}

pub(crate) fn small_memory(max_bytes: u64) -> Arc<MemFs> {
    MemFs::new(MemFsOptions {
        max_bytes,
        ..MemFsOptions::default()
    })
}

/// A file system mounted alone, and somebody using it.
pub(crate) struct Machine {
    ns: Arc<Namespace>,
    root: Path,
    caller: Caller,
}

impl Machine {
    pub(crate) fn new(fs: Arc<dyn FileSystem>) -> Machine {
        let ns = Namespace::new(fs, MountFlags::empty(), Arc::new(NoSpecialFiles));
        let caller = Caller {
            cred: Arc::new(Cred::root()),
            pid: 0,
            umask: 0,
        };
        Machine {
            root: ns.root(),
            ns,
            caller,
        }
    }

    /// The same tree for another user.
    pub(crate) fn as_user(&self, uid: u32, gid: u32) -> Machine {
        let caller = Caller {
            cred: Arc::new(Cred::user(uid, gid)),
            pid: 0,
            umask: 0,
        };
        Machine {
            ns: self.ns.clone(),
            root: self.root.clone(),
            caller,
        }
    }

    pub(crate) fn at(&self) -> At<'_> {
        At {
            ns: &self.ns,
            root: &self.root,
            base: &self.root,
            caller: &self.caller,
        }
    }

    pub(crate) fn open(&self, path: &str, flags: OpenFlags) -> Result<Arc<OpenFile>> {
        self.at().open(path.as_bytes(), flags, 0o644)
    }

    pub(crate) fn write(&self, path: &str, data: impl AsRef<[u8]>) -> Result<()> {
        let flags = OpenFlags::CREAT | OpenFlags::WRONLY | OpenFlags::TRUNC;
        let file = self.open(path, flags)?;
        write_all(&file, data.as_ref())
    }

    pub(crate) fn append(&self, path: &str, data: impl AsRef<[u8]>) -> Result<()> {
        let file = self.open(path, OpenFlags::WRONLY | OpenFlags::APPEND)?;
        write_all(&file, data.as_ref())
    }

    pub(crate) fn read(&self, path: &str) -> Result<String> {
        read_all(&*self.open(path, OpenFlags::empty())?)
    }

    pub(crate) fn stat(&self, path: &str) -> Result<Stat> {
        self.at().stat(path.as_bytes(), Lookup::empty())
    }

    pub(crate) fn ino(&self, path: &str) -> u64 {
        self.stat(path).unwrap().ino
    }

    pub(crate) fn mkdir(&self, path: &str) -> Result<()> {
        self.at().mkdir(path.as_bytes(), 0o755)
    }

    pub(crate) fn rmdir(&self, path: &str) -> Result<()> {
        self.at().rmdir(path.as_bytes())
    }

    pub(crate) fn unlink(&self, path: &str) -> Result<()> {
        self.at().unlink(path.as_bytes())
    }

    pub(crate) fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.at().rename(
            from.as_bytes(),
            &self.at(),
            to.as_bytes(),
            RenameFlags::empty(),
        )
    }

    pub(crate) fn exchange(&self, from: &str, to: &str) -> Result<()> {
        self.at().rename(
            from.as_bytes(),
            &self.at(),
            to.as_bytes(),
            RenameFlags::EXCHANGE,
        )
    }

    pub(crate) fn link(&self, from: &str, to: &str) -> Result<()> {
        self.at()
            .link(from.as_bytes(), Lookup::empty(), &self.at(), to.as_bytes())
    }

    pub(crate) fn symlink(&self, target: &str, path: &str) -> Result<()> {
        self.at().symlink(target.as_bytes(), path.as_bytes())
    }

    pub(crate) fn chmod(&self, path: &str, perm: u32) -> Result<()> {
        self.at().chmod(path.as_bytes(), perm, Lookup::FOLLOW)
    }

    pub(crate) fn mknod(&self, path: &str, kind: FileType, rdev: u64) -> Result<()> {
        self.at().mknod(path.as_bytes(), kind, 0o600, rdev)
    }

    /// Names in a directory, in the order of the listing, without `.` and `..`.
    pub(crate) fn list(&self, path: &str) -> Result<Vec<String>> {
        let dir = self.open(path, OpenFlags::DIRECTORY)?;
        let mut names = Vec::new();
        dir.readdir(0, &mut |entry| {
            if !matches!(entry.name, b"." | b"..") {
                names.push(String::from_utf8_lossy(entry.name).into_owned());
            }
            true
        })?;
        Ok(names)
    }

    /// [`Machine::list`], sorted.
    pub(crate) fn ls(&self, path: &str) -> Vec<String> {
        let mut names = self.list(path).unwrap();
        names.sort();
        names
    }

    /// `rm -r`.
    pub(crate) fn remove_all(&self, path: &str) -> Result<()> {
        if self.stat(path)?.file_type() != FileType::Directory {
            return self.unlink(path);
        }
        for name in self.list(path)? {
            self.remove_all(&format!("{path}/{name}"))?;
        }
        self.rmdir(path)
    }
}

pub(crate) fn write_all(file: &OpenFile, mut data: &[u8]) -> Result<()> {
    while !data.is_empty() {
        let n = file.write(data)?;
        data = &data[n..];
    }
    Ok(())
}

pub(crate) fn read_all(file: &OpenFile) -> Result<String> {
    let (mut all, mut buf) = (Vec::new(), [0; 4096]);
    loop {
        let n = file.pread(&mut buf, all.len() as u64)?;
        if n == 0 {
            return String::from_utf8(all).map_err(|_| Errno::EILSEQ);
        }
        all.extend_from_slice(&buf[..n]);
    }
}

/// Lower layers, each filled by a function, under a writable memory file system.
pub(crate) struct Layers {
    pub(crate) upper: Arc<MemFs>,
    pub(crate) lowers: Vec<Arc<dyn FileSystem>>,
}

impl Layers {
    pub(crate) fn new(fill: &[fn(&Machine) -> Result<()>]) -> Layers {
        let fill = fill.iter().map(|fill| {
            let fs = memory();
            fill(&Machine::new(fs.clone())).unwrap();
            fs as Arc<dyn FileSystem>
        });
        Layers {
            lowers: fill.collect(),
            upper: memory(),
        }
    }

    pub(crate) fn overlay(&self, marks: Marks) -> Arc<OverlayFs> {
        let options = OverlayOptions { marks };
        OverlayFs::new(Some(self.upper.clone()), self.lowers.clone(), options).unwrap()
    }

    pub(crate) fn machine(&self) -> Machine {
        Machine::new(self.overlay(Marks::default()))
    }
}
