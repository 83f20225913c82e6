//! What the tests share: packages made on the spot, and a VM that sees a projection alone.
#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]

use aospkg_format::Package;
use pkg_projection::{Options, Projection, Warning};
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;
use vfs_core::namei::NoSpecialFiles;
use vfs_core::{
    At, Caller, DirEntry, Errno, FileSystem, FileType, Lookup, MountFlags, Namespace, OpenFlags,
    Path, Result, Stat,
};

/// An entry of a package to be made: kind, mode, content or target.
#[derive(Clone, Debug)]
enum Node {
    File(u32, Vec<u8>),
    Dir(u32),
    Link(String),
}

/// A package to be made.
#[derive(Clone, Debug)]
pub struct Recipe {
    name: String,
    version: String,
    nodes: BTreeMap<String, Node>,
    commands: BTreeMap<String, String>,
    env: BTreeMap<String, String>,
    files: Vec<(String, String)>,
}

impl Recipe {
    /// An empty package.
    pub fn new(name: &str, version: &str) -> Recipe {
        Recipe {
            name: name.to_owned(),
            version: version.to_owned(),
            nodes: BTreeMap::from([(String::new(), Node::Dir(0o755))]),
            commands: BTreeMap::new(),
            env: BTreeMap::new(),
            files: Vec::new(),
        }
    }

    fn node(mut self, path: &str, node: Node) -> Recipe {
        for (at, _) in path.match_indices('/') {
            self.nodes
                .entry(path[..at].to_owned())
                .or_insert(Node::Dir(0o755));
        }
        self.nodes.insert(path.to_owned(), node);
        self
    }

    /// Adds a file, and the directories above it.
    pub fn file(self, path: &str, mode: u32, content: &str) -> Recipe {
        self.node(path, Node::File(mode, content.as_bytes().to_vec()))
    }

    /// Adds a directory.
    pub fn dir(self, path: &str, mode: u32) -> Recipe {
        self.node(path, Node::Dir(mode))
    }

    /// Adds a symbolic link.
    pub fn link(self, path: &str, target: &str) -> Recipe {
        self.node(path, Node::Link(target.to_owned()))
    }

    /// Names a command and its entry.
    pub fn command(mut self, name: &str, entry: &str) -> Recipe {
        self.commands.insert(name.to_owned(), entry.to_owned());
        self
    }

    /// A command with its own file in `bin`, as published packages have them.
    pub fn program(self, name: &str, content: &str) -> Recipe {
        let path = format!("bin/{name}");
        self.file(&path, 0o755, content).command(name, &path)
    }

    /// Provides a variable.
    pub fn env(mut self, key: &str, value: &str) -> Recipe {
        self.env.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Provides a file or a directory.
    pub fn provides(mut self, source: &str, target: &str) -> Recipe {
        self.files.push((source.to_owned(), target.to_owned()));
        self
    }

    /// The bytes of the package, in the published container.
    pub fn bytes(&self) -> Vec<u8> {
        let mut manifest = Bare(1_u16.to_le_bytes().to_vec());
        manifest
            .str(&self.name)
            .str(&self.version)
            .flag(false)
            .flag(true);
        manifest.uint(self.env.len());
        for (key, value) in &self.env {
            manifest.str(key).str(value);
        }
        manifest.uint(self.files.len());
        for (source, target) in &self.files {
            manifest.str(source).str(target);
        }
        manifest.uint(self.commands.len());
        for (name, entry) in &self.commands {
            manifest.str(name).str(entry);
        }
        manifest.uint(0).flag(false);

        let mut index = Bare(1_u16.to_le_bytes().to_vec());
        let mut mount = Vec::new();
        index.uint(self.nodes.len());
        for (path, node) in &self.nodes {
            let (kind, mode, content, target): (_, _, &[u8], _) = match node {
                Node::File(mode, content) => (0, 0o100000 | mode, content, None),
                Node::Dir(mode) => (1, 0o040000 | mode, &[], None),
                Node::Link(target) => (2, 0o120777, &[], Some(target)),
            };
            index.str(&format!("/{path}")).uint(kind);
            index.0.extend((mount.len() as u64).to_le_bytes());
            index.0.extend((content.len() as u64).to_le_bytes());
            index.0.extend(mode.to_le_bytes());
            // The one who packed it; nobody in the VM.
            index.0.extend(501_u32.to_le_bytes());
            index.0.extend(20_u32.to_le_bytes());
            index.0.extend(MTIME.to_le_bytes());
            index.flag(target.is_some());
            if let Some(target) = target {
                index.str(target);
            }
            mount.extend_from_slice(content);
        }
        let mut bytes = b"\x89AOS\x01\0\0\0".to_vec();
        bytes.extend((manifest.0.len() as u32).to_le_bytes());
        bytes.extend((index.0.len() as u32).to_le_bytes());
        [bytes, manifest.0, index.0, mount].concat()
    }

    /// The package, open.
    pub fn open(&self) -> Arc<Package> {
        let mut file = tempfile::tempfile().expect("a temporary file");
        file.write_all(&self.bytes()).expect("write");
        Arc::new(Package::from_file(file, None).expect("a valid package"))
    }
}

/// Modification time of every entry.
pub const MTIME: i64 = 1_700_000_000;

/// BARE, as far as packages need it.
struct Bare(Vec<u8>);

impl Bare {
    fn uint(&mut self, mut value: usize) -> &mut Bare {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
        self
    }

    fn str(&mut self, text: &str) -> &mut Bare {
        self.uint(text.len());
        self.0.extend_from_slice(text.as_bytes());
        self
    }

    fn flag(&mut self, value: bool) -> &mut Bare {
        self.0.push(value.into());
        self
    }
}

/// A VM whose whole root is a projection.
pub struct Vm {
    pub projection: Arc<Projection>,
    pub warnings: Vec<String>,
    namespace: Arc<Namespace>,
    root: Path,
    caller: Caller,
}

impl Vm {
    /// Projects packages with the default options.
    pub fn new(recipes: &[Recipe]) -> Vm {
        Vm::with(recipes, &Options::default())
    }

    /// Projects packages.
    pub fn with(recipes: &[Recipe], options: &Options) -> Vm {
        Vm::of(recipes.iter().map(Recipe::open).collect(), options)
    }

    /// Projects open packages.
    pub fn of(packages: Vec<Arc<Package>>, options: &Options) -> Vm {
        let (projection, warnings) = Projection::new(packages, options).expect("a projection");
        let fs: Arc<dyn FileSystem> = projection.clone();
        let namespace = Namespace::new(fs, MountFlags::empty(), Arc::new(NoSpecialFiles));
        let root = namespace.root();
        let warnings = warnings.iter().map(Warning::to_string).collect();
        let caller = Caller {
            cred: Arc::new(vfs_core::Cred::user(1000, 1000)),
            ..Caller::host()
        };
        Vm {
            projection,
            warnings,
            namespace,
            root,
            caller,
        }
    }

    /// For calls by path, as an ordinary user.
    pub fn at(&self) -> At<'_> {
        At {
            ns: &self.namespace,
            root: &self.root,
            base: &self.root,
            caller: &self.caller,
        }
    }

    /// Attributes of what a path leads to.
    pub fn stat(&self, path: &str) -> Result<Stat> {
        self.at().stat(path.as_bytes(), Lookup::FOLLOW)
    }

    /// Attributes of what has a path.
    pub fn lstat(&self, path: &str) -> Result<Stat> {
        self.at().stat(path.as_bytes(), Lookup::empty())
    }

    /// Text of a link.
    pub fn readlink(&self, path: &str) -> Result<String> {
        self.at()
            .readlink(path.as_bytes())
            .map(|t| String::from_utf8(t).expect("text"))
    }

    /// Content of a file.
    pub fn cat(&self, path: &str) -> Result<String> {
        let file = self.at().open(path.as_bytes(), OpenFlags::empty(), 0)?;
        let mut content = Vec::new();
        let mut buffer = [0; 7];
        loop {
            match file.read(&mut buffer)? {
                0 => return Ok(String::from_utf8(content).expect("text")),
                n => content.extend_from_slice(&buffer[..n]),
            }
        }
    }

    /// Names in a directory, sorted.
    pub fn ls(&self, path: &str) -> Result<Vec<String>> {
        let mut names: Vec<String> = self.list(path)?.into_iter().map(|e| e.name).collect();
        names.sort();
        Ok(names)
    }

    /// Entries of a directory without `.` and `..`, in the order they come in.
    pub fn list(&self, path: &str) -> Result<Vec<Listed>> {
        self.list_from(path, 2)
    }

    /// Entries after a cookie.
    pub fn list_from(&self, path: &str, cookie: u64) -> Result<Vec<Listed>> {
        let dir = self.at().open(path.as_bytes(), OpenFlags::DIRECTORY, 0)?;
        let mut entries = Vec::new();
        dir.readdir(cookie, &mut |entry| {
            entries.push(Listed::from(entry));
            true
        })?;
        Ok(entries)
    }

    /// Walks all of a tree and fails unless each directory is consistent: names come once, each
    /// can be looked up and is what the listing says, and a listing goes on after every entry.
    /// Returns the paths, with a slash after those of directories.
    pub fn walk(&self, top: &str) -> Vec<String> {
        let mut paths = Vec::new();
        let mut todo = vec![top.to_owned()];
        while let Some(dir) = todo.pop() {
            let entries = self.list(&format!("{dir}/")).expect("a listing");
            let mut names: Vec<&str> = entries.iter().map(|e| e.name.as_str()).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), entries.len(), "{dir}: a name comes twice");
            for (at, entry) in entries.iter().enumerate() {
                let path = format!("{dir}/{}", entry.name);
                let stat = self.lstat(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
                assert_eq!(
                    (stat.ino, stat.file_type()),
                    (entry.ino, entry.kind),
                    "{path}"
                );
                assert!(entry.next > 2 && stat.ino != 0 && stat.nlink == 1, "{path}");
                assert_eq!(stat.uid | stat.gid, 0, "{path}");
                let rest = self
                    .list_from(&format!("{dir}/"), entry.next)
                    .expect("a listing");
                assert_eq!(rest, entries[at + 1..], "{dir} after {}", entry.name);
                if entry.kind == FileType::Directory {
                    todo.push(path.clone());
                    paths.push(path + "/");
                } else {
                    if entry.kind == FileType::Symlink {
                        let text = self.readlink(&path).expect("a link");
                        assert_eq!(stat.size, text.len() as u64, "{path} -> {text}");
                    }
                    paths.push(path);
                }
            }
            assert_eq!(
                self.lstat(&format!("{dir}/no such name")).err(),
                Some(Errno::ENOENT)
            );
        }
        paths.sort();
        paths
    }
}

/// An entry of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    pub name: String,
    pub ino: u64,
    pub kind: FileType,
    pub next: u64,
}

impl From<DirEntry<'_>> for Listed {
    fn from(entry: DirEntry<'_>) -> Listed {
        let name = String::from_utf8(entry.name.to_vec()).expect("text");
        Listed {
            name,
            ino: entry.ino,
            kind: entry.kind,
            next: entry.next,
        }
    }
}
