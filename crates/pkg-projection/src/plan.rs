//! Making a projection: which packages, which version of each, and where everything goes.

use crate::collisions::{self, Commands};
use crate::dir::Dir;
use crate::error::{ProjectionError, Warning};
use crate::members::{Id, Member};
use crate::provides;
use crate::table::{Layer, MAX_MEMBERS, Node, Place, StaticDir, Table};
use aospkg_format::{EntryId, Package, check_command};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::Arc;
use vfs_core::inode::anonymous_dev;
use vfs_core::{FileSystem, InodeRef, Result, StatFs};

type Fallible<T> = std::result::Result<T, ProjectionError>;

/// How packages are projected.
#[derive(Clone, Debug)]
pub struct Options {
    /// Name and version of packages whose current version is to be another than the one that was
    /// configured last.
    pub current: BTreeMap<String, String>,
    /// The limit `packages.count`: most packages, each version counted.
    pub max_packages: u64,
    /// The limit `packages.links`: most links that the projection makes of current versions: for
    /// each command, for each provided file, and `current` itself.
    pub max_links: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            current: BTreeMap::new(),
            max_packages: 128,
            max_links: 4096,
        }
    }
}

/// A package of a projection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackageInfo<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its version.
    pub version: &'a str,
    /// Whether `current` leads to it and its commands are linked.
    pub current: bool,
    /// How many commands it has.
    pub commands: u32,
}

/// Packages as a read-only file system; see the [crate documentation](crate).
pub struct Projection {
    table: Arc<Table>,
    environment: Vec<(String, String)>,
}

impl Projection {
    /// Projects packages, given in the order of configuration.
    ///
    /// # Errors
    ///
    /// [`ProjectionError`] if a package can't be read, has a name that can't be a directory's or
    /// provides what can't be, if two different packages have one name and version, or if a limit
    /// is exceeded. What was merely decided between packages is told by the [`Warning`]s.
    pub fn new(
        packages: Vec<Arc<Package>>,
        options: &Options,
    ) -> Fallible<(Arc<Projection>, Vec<Warning>)> {
        let mut warnings = Vec::new();
        let max_packages = options.max_packages.min(MAX_MEMBERS);
        limit(
            "packages.count",
            max_packages,
            packages.len() as u64,
            &mut warnings,
        )?;
        let members = members(packages, options, &mut warnings)?;

        let mut links = 0;
        for member in members.iter().filter(|m| m.current) {
            links += 1 + u64::from(member.package.command_count());
            let provides = manifest(member)?.provides.as_ref();
            links += provides.map_or(0, |p| p.files.len() as u64);
        }
        limit("packages.links", options.max_links, links, &mut warnings)?;

        hidden_commands(&members, &mut warnings)?;
        let environment = environment(&members, &mut warnings)?;
        let dirs = directories(&members, &mut warnings)?;
        let members = members.into();
        let table = Arc::new(Table {
            members,
            dirs: dirs.into(),
            dev: anonymous_dev(),
        });
        Ok((Arc::new(Projection { table, environment }), warnings))
    }

    /// The environment that current versions provide, those of earlier packages first. No name
    /// occurs twice.
    pub fn env(&self) -> &[(String, String)] {
        &self.environment
    }

    /// The packages, those of one name next to each other, in the order that decides between them.
    pub fn packages(&self) -> impl Iterator<Item = PackageInfo<'_>> {
        self.table.members.iter().map(|member| PackageInfo {
            name: &member.name,
            version: &member.version,
            current: member.current,
            commands: member.package.command_count(),
        })
    }
}

impl FileSystem for Projection {
    fn root(&self) -> InodeRef {
        Arc::new(Dir::fixed(self.table.clone(), 0))
    }

    fn fs_type(&self) -> &'static str {
        "aospkg"
    }

    fn statfs(&self) -> Result<StatFs> {
        const BLOCK: u64 = 4096;
        let packages = || self.table.members.iter().map(|m| &m.package);
        Ok(StatFs {
            magic: u64::from(u32::from_be_bytes(aospkg_format::MAGIC)),
            bsize: BLOCK,
            blocks: packages().map(|p| p.container_len().div_ceil(BLOCK)).sum(),
            files: packages().map(|p| u64::from(p.entry_count())).sum(),
            namelen: vfs_core::types::NAME_MAX as u64,
            ..StatFs::default()
        })
    }

    fn read_only(&self) -> bool {
        true
    }
}

impl std::fmt::Debug for Projection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.packages()).finish()
    }
}

fn limit(name: &'static str, limit: u64, used: u64, warnings: &mut Vec<Warning>) -> Fallible<()> {
    if used > limit {
        return Err(ProjectionError::Limit {
            name,
            limit,
            got: used,
        });
    }
    if used.saturating_mul(5) >= limit.saturating_mul(4) {
        warnings.push(Warning::NearLimit { name, limit, used });
    }
    Ok(())
}

fn manifest(member: &Member) -> Fallible<&aospkg_format::Manifest> {
    member.package.manifest().map_err(unreadable(&member.name))
}

fn unreadable(package: &str) -> impl FnOnce(aospkg_format::Error) -> ProjectionError {
    move |source| ProjectionError::Package {
        package: package.to_owned(),
        source,
    }
}

/// Names the packages, puts them in order and chooses current versions.
fn members(
    packages: Vec<Arc<Package>>,
    options: &Options,
    warnings: &mut Vec<Warning>,
) -> Fallible<Vec<Member>> {
    // Versions of one package, under the place where its name came first.
    let mut groups: Vec<Vec<Member>> = Vec::new();
    let mut places: FxHashMap<String, usize> = FxHashMap::default();
    for (index, package) in packages.into_iter().enumerate() {
        let number = format!("#{}", index + 1);
        let manifest = package.manifest().map_err(unreadable(&number))?;
        let (name, version) = (manifest.name.clone(), manifest.version.clone());
        check_names(&name, &version)?;
        let place = *places.entry(name.clone()).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        let twin = groups[place].iter().position(|m| m.version == version);
        if let Some(at) = twin {
            let twin = groups[place].remove(at);
            if !same(&twin.package, &package).map_err(unreadable(&name))? {
                return Err(ProjectionError::Conflict { name, version });
            }
            warnings.push(Warning::Duplicate { name, version });
            // Configured again, it is the one that was configured last.
            groups[place].push(twin);
        } else {
            groups[place].push(Member::new(package, name, version));
        }
    }
    for (name, version) in &options.current {
        let group = places.get(name).map(|&place| &mut groups[place]);
        let chosen = group.and_then(|g| g.iter_mut().find(|m| m.version == *version));
        let missing = || ProjectionError::NoSuchVersion {
            name: name.clone(),
            version: version.clone(),
        };
        chosen.ok_or_else(missing)?.current = true;
    }
    for group in &mut groups {
        if !group.iter().any(|m| m.current)
            && let Some(last) = group.last_mut()
        {
            last.current = true;
        }
    }
    Ok(groups.into_iter().flatten().collect())
}

fn same(a: &Arc<Package>, b: &Arc<Package>) -> std::result::Result<bool, aospkg_format::Error> {
    Ok(Arc::ptr_eq(a, b) || a.identity()? == b.identity()?)
}

/// Both become names of directories, and `current` is taken.
fn check_names(name: &str, version: &str) -> Fallible<()> {
    let refuse = |why: String| ProjectionError::Name {
        name: name.to_owned(),
        version: version.to_owned(),
        why,
    };
    check_command(name.as_bytes()).map_err(|why| refuse(format!("name: {why}")))?;
    check_command(version.as_bytes()).map_err(|why| refuse(format!("version: {why}")))?;
    if version == CURRENT {
        return Err(refuse("the version can't be called `current`".to_owned()));
    }
    Ok(())
}

const CURRENT: &str = "current";

impl Commands for &Member {
    type Error = ProjectionError;

    fn count(&self) -> u32 {
        self.package.command_count()
    }

    fn name(&self, index: u32) -> Fallible<Option<&[u8]>> {
        let command = self
            .package
            .command_at(index)
            .map_err(unreadable(&self.name))?;
        Ok(command.and_then(|c| c.entry.map(|_| c.name)))
    }

    fn has(&self, name: &[u8]) -> Fallible<bool> {
        let command = self.package.command(name).map_err(unreadable(&self.name))?;
        Ok(command.is_some_and(|c| c.entry.is_some()))
    }
}

fn hidden_commands(members: &[Member], warnings: &mut Vec<Warning>) -> Fallible<()> {
    let current: Vec<&Member> = members.iter().filter(|m| m.current).collect();
    for collision in collisions::find(&current)? {
        let text = |name: &Vec<u8>| String::from_utf8_lossy(name).into_owned();
        warnings.push(Warning::Commands {
            winner: current[collision.winner].name.clone(),
            loser: current[collision.loser].name.clone(),
            commands: collision.commands.iter().map(text).collect(),
            total: collision.total,
        });
    }
    Ok(())
}

fn environment(members: &[Member], warnings: &mut Vec<Warning>) -> Fallible<Vec<(String, String)>> {
    let mut environment = Vec::new();
    let mut owners: FxHashMap<String, &str> = FxHashMap::default();
    for member in members.iter().filter(|m| m.current) {
        let provides = manifest(member)?.provides.as_ref();
        for (key, value) in provides.iter().flat_map(|p| &p.env) {
            if key.is_empty() || key.contains(['=', '\0']) || value.contains('\0') {
                let package = member.name.clone();
                warnings.push(Warning::BadEnvironment {
                    package,
                    key: key.clone(),
                });
            } else if let Some(owner) = owners.get(key) {
                warnings.push(Warning::Environment {
                    winner: (*owner).to_owned(),
                    loser: member.name.clone(),
                    key: key.clone(),
                });
            } else {
                owners.insert(key.clone(), &member.name);
                environment.push((key.clone(), value.clone()));
            }
        }
    }
    Ok(environment)
}

/// Lays out the directories.
fn directories(members: &[Member], warnings: &mut Vec<Warning>) -> Fallible<Vec<StaticDir>> {
    let mut draft = Draft::default();
    let agentos = draft.path(&[b"opt", b"agentos"]);
    draft.dirs[agentos as usize].sealed = true;
    let bin = draft.dir(agentos, b"bin");
    let pkgs = draft.dir(agentos, b"pkgs");
    for (id, member) in (0..).zip(members) {
        let package = draft.dir(pkgs, member.name.as_bytes());
        draft
            .version(package, id, member)
            .map_err(unreadable(&member.name))?;
        if member.current {
            draft.dirs[package as usize]
                .entries
                .insert(CURRENT.into(), Node::Current(id));
            draft.dirs[bin as usize]
                .below
                .push(Layer::Commands(id, Place::Farm));
        }
    }
    for (id, member) in (0..).zip(members).filter(|(_, m)| m.current) {
        for file in manifest(member)?.provides.iter().flat_map(|p| &p.files) {
            let place = provides::place(&mut draft, members, id, file);
            let winner = place.map_err(|why| ProjectionError::Provides {
                package: member.name.clone(),
                source_path: file.source.clone(),
                target: file.target.clone(),
                why,
            })?;
            if let Some(winner) = winner.filter(|&winner| winner != id) {
                warnings.push(Warning::Provides {
                    winner: members[winner as usize].name.clone(),
                    loser: member.name.clone(),
                    target: file.target.clone(),
                });
            }
        }
    }
    Ok(draft.finish())
}

/// Directories while they are laid out.
pub(crate) struct Draft {
    pub(crate) dirs: Vec<DraftDir>,
    /// How many files and directories were provided.
    pub(crate) provided: u32,
}

/// One of them.
#[derive(Default)]
pub(crate) struct DraftDir {
    pub(crate) entries: BTreeMap<Vec<u8>, Node>,
    pub(crate) below: Vec<Layer>,
    pub(crate) sealed: bool,
    pub(crate) like: Option<(Id, EntryId)>,
    /// The package for whose provided file it was made.
    pub(crate) made_for: Option<Id>,
}

impl Default for Draft {
    fn default() -> Draft {
        Draft {
            dirs: vec![DraftDir::default()],
            provided: 0,
        }
    }
}

impl Draft {
    /// Makes a directory, or finds it.
    pub(crate) fn dir(&mut self, parent: u32, name: &[u8]) -> u32 {
        if let Some(Node::Dir(dir)) = self.dirs[parent as usize].entries.get(name) {
            return *dir;
        }
        let dir = self.dirs.len() as u32;
        self.dirs.push(DraftDir::default());
        self.dirs[parent as usize]
            .entries
            .insert(name.to_vec(), Node::Dir(dir));
        dir
    }

    fn path(&mut self, names: &[&[u8]]) -> u32 {
        names.iter().fold(0, |parent, name| self.dir(parent, name))
    }

    /// The directory of one version: the package's own tree, with links in `bin` for the commands
    /// that have no file there.
    fn version(
        &mut self,
        parent: u32,
        id: Id,
        member: &Member,
    ) -> std::result::Result<(), aospkg_format::Error> {
        let version = self.dir(parent, member.version.as_bytes());
        let dir = &mut self.dirs[version as usize];
        dir.below.push(Layer::Dir(id, EntryId::ROOT, 0));
        dir.like = Some((id, EntryId::ROOT));
        dir.sealed = true;
        if member.package.command_count() == 0 {
            return Ok(());
        }
        let Some(own_bin) = member.own_bin()? else {
            return Ok(());
        };
        let bin = self.dir(version, b"bin");
        let dir = &mut self.dirs[bin as usize];
        dir.below.extend(own_bin.map(|own| Layer::Dir(id, own, 0)));
        dir.below.push(Layer::Commands(id, Place::Bin));
        dir.like = own_bin.map(|own| (id, own));
        dir.sealed = true;
        Ok(())
    }

    fn finish(self) -> Vec<StaticDir> {
        let finish = |dir: DraftDir| StaticDir {
            entries: dir
                .entries
                .into_iter()
                .map(|(name, node)| (name.into(), node))
                .collect(),
            below: dir.below,
            sealed: dir.sealed,
            like: dir.like,
        };
        self.dirs.into_iter().map(finish).collect()
    }
}
