//! What the host can't be asked: mount flags, where a failed search says it looked, and that
//! nothing is remembered from one search to the next.

use pathwalk::{NotFound, Tried, executable, find};
use std::sync::Arc;
use vfs_core::namei::NoSpecialFiles;
use vfs_core::{
    At, Caller, Errno, FileType, Lookup, MemFs, MemFsOptions, MountFlags, Namespace, OpenFlags,
    Path, RenameFlags,
};

struct Vm {
    namespace: Arc<Namespace>,
    root: Path,
    caller: Caller,
}

impl Vm {
    fn new() -> Vm {
        let fs = MemFs::new(MemFsOptions::default());
        let namespace = Namespace::new(fs, MountFlags::empty(), Arc::new(NoSpecialFiles));
        let root = namespace.root();
        Vm {
            namespace,
            root,
            caller: Caller::host(),
        }
    }

    fn at(&self) -> At<'_> {
        At {
            ns: &self.namespace,
            root: &self.root,
            base: &self.root,
            caller: &self.caller,
        }
    }

    fn program(&self, path: &str) {
        let flags = OpenFlags::CREAT | OpenFlags::WRONLY;
        self.at()
            .open(path.as_bytes(), flags, 0o755)
            .expect("a new file");
    }

    fn dir(&self, path: &str) {
        self.at()
            .mkdir(path.as_bytes(), 0o755)
            .expect("a new directory");
    }

    fn find(&self, command: &str, path: &str) -> Result<Vec<u8>, NotFound> {
        find(
            &self.at(),
            command.as_bytes(),
            Some(path.as_bytes()),
            b"/default",
        )
        .map(|f| f.path)
    }
}

#[test]
fn a_noexec_mount_is_passed_over() {
    let vm = Vm::new();
    for dir in ["/a", "/b"] {
        vm.dir(dir);
    }
    let a = vm.at().resolve(b"/a", Lookup::FOLLOW).expect("a directory");
    let fs = MemFs::new(MemFsOptions::default());
    vm.namespace
        .mount(&a, fs, MountFlags::NOEXEC, "tmpfs")
        .expect("a mount");
    vm.program("/a/x");
    assert_eq!(vm.find("x", "/a").map_err(|e| e.errno), Err(Errno::EACCES));
    assert_eq!(executable(&vm.at(), b"/a/x").err(), Some(Errno::EACCES));
    vm.program("/b/x");
    assert_eq!(vm.find("x", "/a:/b"), Ok(b"/b/x".to_vec()));
}

#[test]
fn nothing_is_remembered() {
    let vm = Vm::new();
    for dir in ["/a", "/b"] {
        vm.dir(dir);
    }
    let search = || vm.find("x", "/a:/b").map_err(|e| e.errno);
    assert_eq!(search(), Err(Errno::ENOENT));
    vm.program("/b/x");
    assert_eq!(search(), Ok(b"/b/x".to_vec()));
    vm.program("/a/x");
    assert_eq!(search(), Ok(b"/a/x".to_vec()));
    vm.at()
        .rename(b"/a", &vm.at(), b"/c", RenameFlags::empty())
        .expect("a rename");
    assert_eq!(search(), Ok(b"/b/x".to_vec()));
    vm.at().unlink(b"/b/x").expect("an unlink");
    assert_eq!(search(), Err(Errno::ENOENT));
}

#[test]
fn a_failed_search_tells_where_it_looked() {
    let vm = Vm::new();
    vm.dir("/a");
    vm.program("/a/plain");
    vm.at()
        .chmod(b"/a/plain", 0o644, Lookup::FOLLOW)
        .expect("a chmod");
    vm.program("/file");
    let error = vm
        .find("plain", "/none:/a:/file:")
        .expect_err("it can't be executed");
    let tried = |dir: &str, errno| Tried {
        dir: dir.into(),
        errno,
    };
    assert_eq!(
        error.tried,
        [
            tried("/none", Errno::ENOENT),
            tried("/a", Errno::EACCES),
            tried("/file", Errno::ENOTDIR),
            tried("", Errno::ENOENT),
        ]
    );
    assert_eq!(Errno::from(error.clone()), Errno::EACCES);
    assert_eq!(
        error.to_string(),
        "Permission denied (looked in /none, /a: Permission denied, /file: Not a directory, \
         the working directory)"
    );
    let path = vm.find("/a/none", "/a").expect_err("there is no such file");
    assert_eq!(
        (path.to_string().as_str(), path.tried),
        ("No such file or directory", vec![])
    );
}

#[test]
fn a_search_that_is_cut_off_names_the_culprit_last() {
    let vm = Vm::new();
    vm.dir("/a");
    vm.at().symlink(b"x", b"/a/x").expect("a link");
    let error = vm
        .find("x", "/none:/a:/b")
        .expect_err("the link leads in circles");
    assert_eq!(error.errno, Errno::ELOOP);
    assert_eq!(
        error.tried.last(),
        Some(&Tried {
            dir: b"/a".to_vec(),
            errno: Errno::ELOOP
        })
    );
}

#[test]
fn the_default_stands_in_for_no_path_only() {
    let vm = Vm::new();
    vm.dir("/default");
    vm.program("/default/x");
    let search = |path: Option<&[u8]>| find(&vm.at(), b"x", path, b"/default").map(|f| f.path);
    assert_eq!(search(None), Ok(b"/default/x".to_vec()));
    assert!(search(Some(b"")).is_err());
}

#[test]
fn only_regular_files_can_be_executed() {
    let vm = Vm::new();
    for kind in [
        FileType::Fifo,
        FileType::CharDevice,
        FileType::BlockDevice,
        FileType::Socket,
    ] {
        vm.at().mknod(b"/x", kind, 0o777, 0).expect("a node");
        assert_eq!(
            vm.find("x", "/").map_err(|e| e.errno),
            Err(Errno::EACCES),
            "{kind:?}"
        );
        vm.at().unlink(b"/x").expect("an unlink");
    }
}
