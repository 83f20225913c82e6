//! Magic links, special files and mounts that change under the walk.

mod common;

use common::Vm;
use std::any::Any;
use std::sync::{Arc, Mutex};
use vfs_core::inode::anonymous_dev;
use vfs_core::{
    Caller, Errno, FileOps, FileSystem, FileType, Inode, InodeRef, LinkTarget, Lookup, MemFs,
    MemFsOptions, MountFlags, Namespace, OpenFile, OpenFlags, Path, Result, SpecialFiles, Stat,
    StatFs,
};

/// A file system with magic links, as `/proc` has them: `fd` to an open file, `cwd` to a location.
struct Magic {
    dev: u64,
    file: Arc<OpenFile>,
    path: Path,
}

struct MagicRoot(Arc<Magic>);

struct MagicLink(Arc<Magic>, &'static str);

struct MagicFs(Arc<Magic>);

fn stat(dev: u64, ino: u64, mode: u32) -> Stat {
    let zero = Default::default();
    Stat {
        dev,
        ino,
        mode,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        size: 0,
        blocks: 0,
        atime: zero,
        mtime: zero,
        ctime: zero,
        btime: zero,
    }
}

impl FileSystem for MagicFs {
    fn root(&self) -> InodeRef {
        Arc::new(MagicRoot(self.0.clone()))
    }

    fn fs_type(&self) -> &'static str {
        "proc"
    }

    fn statfs(&self) -> Result<StatFs> {
        Ok(StatFs::default())
    }

    fn volatile(&self) -> bool {
        true
    }
}

impl Inode for MagicRoot {
    fn stat(&self) -> Result<Stat> {
        Ok(stat(self.0.dev, 1, 0o040555))
    }

    fn kind(&self) -> FileType {
        FileType::Directory
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn lookup(&self, name: &[u8]) -> Result<InodeRef> {
        match name {
            b"fd" => Ok(Arc::new(MagicLink(self.0.clone(), "fd"))),
            b"cwd" => Ok(Arc::new(MagicLink(self.0.clone(), "cwd"))),
            _ => Err(Errno::ENOENT),
        }
    }

    fn open(self: Arc<Self>, _flags: OpenFlags, _caller: &Caller) -> Result<Arc<dyn FileOps>> {
        Err(Errno::EACCES)
    }
}

impl Inode for MagicLink {
    fn stat(&self) -> Result<Stat> {
        Ok(stat(
            self.0.dev,
            if self.1 == "fd" { 2 } else { 3 },
            0o120777,
        ))
    }

    fn kind(&self) -> FileType {
        FileType::Symlink
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn readlink(&self, _caller: &Caller) -> Result<LinkTarget> {
        Ok(match self.1 {
            "fd" => LinkTarget::File(self.0.file.clone()),
            _ => LinkTarget::Path(self.0.path.clone()),
        })
    }

    fn open(self: Arc<Self>, _flags: OpenFlags, _caller: &Caller) -> Result<Arc<dyn FileOps>> {
        Err(Errno::ELOOP)
    }
}

/// A stream that counts how often it was let go.
struct Stream(Arc<Mutex<u32>>);

impl FileOps for Stream {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn read_at(&self, _buf: &mut [u8], _offset: u64) -> Result<usize> {
        Err(Errno::EAGAIN)
    }

    fn write_at(&self, buf: &[u8], _offset: u64) -> Result<usize> {
        Ok(buf.len())
    }

    fn seekable(&self) -> bool {
        false
    }

    fn stat(&self) -> Result<Stat> {
        Ok(stat(9, 77, 0o010600))
    }

    fn release(&self, _flags: OpenFlags) {
        *self.0.lock().unwrap() += 1;
    }
}

fn with_magic(vm: &Vm, file: Arc<OpenFile>, path: Path) {
    vm.at().mkdir(b"/proc", 0o755).unwrap();
    let place = vm.at().resolve(b"/proc", Lookup::empty()).unwrap();
    let fs = Arc::new(MagicFs(Arc::new(Magic {
        dev: anonymous_dev(),
        file,
        path,
    })));
    vm.ns
        .mount(&place, fs, MountFlags::empty(), "proc")
        .unwrap();
}

#[test]
fn a_link_to_a_stream_gives_the_stream_itself() {
    let vm = Vm::new();
    let released = Arc::new(Mutex::new(0));
    let stream = OpenFile::anonymous(Arc::new(Stream(released.clone())), OpenFlags::RDWR);
    with_magic(&vm, stream.clone(), vm.root.clone());
    let at = vm.at();
    let opened = at.open(b"/proc/fd", OpenFlags::WRONLY, 0).unwrap();
    assert_eq!(opened.id(), stream.id());
    let found = at.stat(b"/proc/fd", Lookup::FOLLOW).unwrap();
    assert_eq!((found.file_type(), found.ino), (FileType::Fifo, 77));
    assert_eq!(at.readlink(b"/proc/fd").unwrap(), b"pipe:[77]");
    assert_eq!(
        at.stat(b"/proc/fd", Lookup::empty()).unwrap().file_type(),
        FileType::Symlink
    );
    let place = at.resolve(b"/proc/fd", Lookup::FOLLOW).unwrap();
    assert_eq!(
        at.open_path(&place, OpenFlags::empty()).unwrap().id(),
        stream.id()
    );
    assert_eq!(
        at.open(b"/proc/fd/x", OpenFlags::empty(), 0).unwrap_err(),
        Errno::ENOTDIR
    );
    let shut = at.open(b"/proc/fd", OpenFlags::NOFOLLOW, 0).unwrap_err();
    assert_eq!(shut, Errno::ELOOP);
    assert_eq!(*released.lock().unwrap(), 0);
}

#[test]
fn a_link_to_a_file_opens_it_anew_even_when_its_name_is_gone() {
    let vm = Vm::new();
    vm.put("/f", b"0123456789");
    let file = vm.at().open(b"/f", OpenFlags::RDWR, 0).unwrap();
    file.read(&mut [0; 4]).unwrap();
    with_magic(&vm, file.clone(), vm.root.clone());
    vm.at().unlink(b"/f").unwrap();
    let again = vm.at().open(b"/proc/fd", OpenFlags::empty(), 0).unwrap();
    assert_ne!(again.id(), file.id());
    assert_eq!(common::contents(&again), b"0123456789");
    assert_eq!(vm.at().readlink(b"/proc/fd").unwrap(), b"/f (deleted)");
}

#[test]
fn a_link_to_a_place_is_walked_through() {
    let vm = Vm::new();
    vm.at().mkdir(b"/d", 0o755).unwrap();
    vm.put("/d/f", b"x");
    let place = vm.at().resolve(b"/d", Lookup::empty()).unwrap();
    with_magic(
        &vm,
        OpenFile::anonymous(Arc::new(Stream(Arc::default())), OpenFlags::RDWR),
        place,
    );
    assert_eq!(vm.get("/proc/cwd/f"), b"x");
    assert_eq!(vm.get("/proc/cwd/../d/f"), b"x");
    assert_eq!(vm.at().readlink(b"/proc/cwd").unwrap(), b"/d");
    assert_eq!(vm.list("/proc/cwd/"), [".", "..", "f"]);
}

/// Opens the null device.
struct Devices;

impl SpecialFiles for Devices {
    fn open(
        &self,
        _inode: &InodeRef,
        stat: &Stat,
        _flags: OpenFlags,
        _caller: &Caller,
    ) -> Result<Arc<dyn FileOps>> {
        match (stat.file_type(), stat.rdev) {
            (FileType::CharDevice, 0x103) => Ok(Arc::new(Stream(Arc::default()))),
            _ => Err(Errno::ENXIO),
        }
    }
}

#[test]
fn device_nodes_are_opened_by_the_namespace() {
    let ns = Namespace::new(
        MemFs::new(MemFsOptions::default()),
        MountFlags::empty(),
        Arc::new(Devices),
    );
    let vm = Vm {
        root: ns.root(),
        ns,
        ..Vm::new()
    };
    let at = vm.at();
    at.mknod(b"/null", FileType::CharDevice, 0o666, 0x103)
        .unwrap();
    at.mknod(b"/what", FileType::BlockDevice, 0o666, 0x103)
        .unwrap();
    let null = at
        .open(b"/null", OpenFlags::RDWR | OpenFlags::TRUNC, 0)
        .unwrap();
    assert_eq!(null.write(b"gone").unwrap(), 4);
    assert_eq!(
        at.open(b"/what", OpenFlags::RDWR, 0).unwrap_err(),
        Errno::ENXIO
    );
    vm.ns.remount(&vm.root, MountFlags::NODEV).unwrap();
    assert_eq!(
        at.open(b"/null", OpenFlags::RDWR, 0).unwrap_err(),
        Errno::EACCES
    );
    // A device can be written although the mount can't.
    vm.ns.remount(&vm.root, MountFlags::RDONLY).unwrap();
    assert!(at.open(b"/null", OpenFlags::RDWR, 0).is_ok());
}

#[test]
fn one_file_system_mounted_twice_has_one_tree_of_names() {
    let vm = Vm::new();
    let at = vm.at();
    let fs = MemFs::new(MemFsOptions::default());
    for dir in ["/one", "/two"] {
        at.mkdir(dir.as_bytes(), 0o755).unwrap();
        let place = at.resolve(dir.as_bytes(), Lookup::empty()).unwrap();
        vm.ns
            .mount(&place, fs.clone(), MountFlags::empty(), "shared")
            .unwrap();
    }
    vm.put("/one/f", b"x");
    let file = at.open(b"/one/f", OpenFlags::empty(), 0).unwrap();
    at.rename(b"/two/f", &at, b"/two/g", vfs_core::RenameFlags::empty())
        .unwrap();
    assert_eq!(
        vm.ns.absolute(file.path().unwrap(), &vm.root).bytes,
        b"/one/g"
    );
    assert_eq!(
        at.link(b"/one/g", Lookup::empty(), &at, b"/two/h"),
        Err(Errno::EXDEV)
    );

    at.mkdir(b"/two/sub", 0o755).unwrap();
    at.mkdir(b"/bound", 0o755).unwrap();
    let from = at.resolve(b"/two/sub", Lookup::empty()).unwrap();
    let place = at.resolve(b"/bound", Lookup::empty()).unwrap();
    vm.ns.bind(&place, &from, MountFlags::RDONLY).unwrap();
    assert_eq!(at.mkdir(b"/bound/x", 0o755), Err(Errno::EROFS));
    at.mkdir(b"/one/sub/x", 0o755).unwrap();
    let inside = at.resolve(b"/bound/x", Lookup::empty()).unwrap();
    assert_eq!(vm.ns.absolute(&inside, &vm.root).bytes, b"/bound/x");
    assert_eq!(
        at.resolve(b"/bound/x/../..", Lookup::empty()).unwrap(),
        vm.root
    );
    let shown: Vec<_> = vm
        .ns
        .mounts()
        .into_iter()
        .map(|m| (m.mountpoint, m.root))
        .collect();
    assert_eq!(shown[3], (b"/bound".to_vec(), b"/sub".to_vec()));
}

#[test]
fn a_mount_in_use_can_be_detached() {
    let vm = Vm::new();
    let at = vm.at();
    at.mkdir(b"/m", 0o755).unwrap();
    let place = at.resolve(b"/m", Lookup::empty()).unwrap();
    let fs = MemFs::new(MemFsOptions::default());
    vm.ns
        .mount(&place, fs.clone(), MountFlags::empty(), "t")
        .unwrap();
    vm.put("/m/f", b"x");
    let file = at.open(b"/m/f", OpenFlags::RDWR, 0).unwrap();
    let top = at.resolve(b"/m", Lookup::empty()).unwrap();
    assert_eq!(vm.ns.umount(&top), Err(Errno::EBUSY));
    assert_eq!(vm.ns.umount(&place), Err(Errno::EINVAL));
    vm.ns.detach(&top).unwrap();
    assert_eq!(vm.ns.detach(&top), Err(Errno::EINVAL));
    assert_eq!(file.pread(&mut [0], 0), Ok(1));
    assert!(vm.ns.absolute(file.path().unwrap(), &vm.root).unreachable);
    assert_eq!(at.stat(b"/m/f", Lookup::FOLLOW), Err(Errno::ENOENT));
    drop((file, top));
    assert_eq!(Arc::strong_count(&fs), 1);
    assert_eq!(
        vm.ns
            .mount(&vm.root, fs, MountFlags::empty(), "t")
            .unwrap_err(),
        Errno::EBUSY
    );
}
