//! What the tests share: a namespace over a memory file system, and callers.
#![allow(dead_code, unreachable_pub)]

pub mod against;
pub mod host;
pub mod ops;

use std::sync::Arc;
use vfs_core::{
    At, Caller, Cred, FileSystem, MemFs, MemFsOptions, MountFlags, Namespace, OpenFile, OpenFlags,
    Path, namei::NoSpecialFiles,
};

/// A tree and who looks at it.
pub struct Vm {
    pub ns: Arc<Namespace>,
    pub root: Path,
    pub caller: Caller,
}

impl Vm {
    /// An empty memory file system, seen by root with no mask.
    pub fn new() -> Vm {
        Vm::over(MemFs::new(MemFsOptions::default()), MountFlags::empty())
    }

    pub fn over(fs: Arc<dyn FileSystem>, flags: MountFlags) -> Vm {
        let ns = Namespace::new(fs, flags, Arc::new(NoSpecialFiles));
        let root = ns.root();
        Vm {
            ns,
            root,
            caller: Caller {
                cred: Arc::new(Cred::root()),
                pid: 1,
                umask: 0,
            },
        }
    }

    pub fn at(&self) -> At<'_> {
        At {
            ns: &self.ns,
            root: &self.root,
            base: &self.root,
            caller: &self.caller,
        }
    }

    /// The same tree for somebody else.
    pub fn as_user(&self, uid: u32, gid: u32) -> Vm {
        let caller = Caller {
            cred: Arc::new(Cred::user(uid, gid)),
            pid: 1,
            umask: 0,
        };
        Vm {
            ns: self.ns.clone(),
            root: self.root.clone(),
            caller,
        }
    }

    /// Makes a file with content, or replaces its content.
    pub fn put(&self, path: &str, content: &[u8]) {
        let flags = OpenFlags::WRONLY | OpenFlags::CREAT | OpenFlags::TRUNC;
        let file = self.at().open(path.as_bytes(), flags, 0o644).unwrap();
        let mut done = 0;
        while done < content.len() {
            done += file.write(&content[done..]).unwrap();
        }
    }

    /// The whole content of a file.
    pub fn get(&self, path: &str) -> Vec<u8> {
        contents(
            &self
                .at()
                .open(path.as_bytes(), OpenFlags::empty(), 0)
                .unwrap(),
        )
    }

    /// Names in a directory, in the order listed.
    pub fn list(&self, path: &str) -> Vec<String> {
        let dir = self
            .at()
            .open(path.as_bytes(), OpenFlags::DIRECTORY, 0)
            .unwrap();
        let mut names = Vec::new();
        dir.readdir(0, &mut |entry| {
            names.push(String::from_utf8_lossy(entry.name).into_owned());
            true
        })
        .unwrap();
        names
    }
}

/// All that is left to read.
pub fn contents(file: &OpenFile) -> Vec<u8> {
    let mut all = Vec::new();
    let mut buf = [0; 8192];
    loop {
        match file.read(&mut buf).unwrap() {
            0 => return all,
            n => all.extend_from_slice(&buf[..n]),
        }
    }
}
