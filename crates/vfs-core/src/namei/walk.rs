//! Following a path, component by component (`link_path_walk`, `path_lookupat`).

use crate::dentry::Dentry;
use crate::errno::{Errno, Result};
use crate::file::OpenFile;
use crate::inode::LinkTarget;
use crate::namei::magic::OpenInode;
use crate::namei::perm::inode_permission;
use crate::namei::{At, Lookup, Path};
use crate::types::{Access, FileType, MAXSYMLINKS, NAME_MAX, PATH_MAX};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// What the last component of a path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Last {
    /// There is none: the path is `/`, or a link led there.
    Root,
    /// `.`
    Dot,
    /// `..`
    DotDot,
    /// A name.
    Name,
}

/// Where following a symbolic link goes on.
enum Jump<'t> {
    /// With this text, from the present directory or, if it was absolute, from the root.
    Text(Cow<'t, [u8]>),
    /// Nowhere: the walk is there.
    There,
}

/// A walk under way (`struct nameidata`).
pub(super) struct Walk<'a, 't> {
    at: &'a At<'a>,
    /// Where the walk is; while a last component is pending, its directory.
    pub(super) path: Path,
    /// The text the last component is in.
    text: Cow<'t, [u8]>,
    name: Range<usize>,
    /// What the last component is.
    pub(super) last: Last,
    /// Whether slashes follow the last component.
    pub(super) slash: bool,
    /// The open file that the last magic link led to, if that was the last thing followed.
    pub(super) file: Option<Arc<OpenFile>>,
    links: u32,
}

/// Refuses what no path can be: `ENOENT` for none, `ENAMETOOLONG` for 4,096 bytes with the NUL.
pub(super) fn check_text(path: &[u8]) -> Result<()> {
    if path.len() >= PATH_MAX {
        return Err(Errno::ENAMETOOLONG);
    }
    if path.is_empty() {
        return Err(Errno::ENOENT);
    }
    // A path of the system call interface ends at a NUL; none can be inside.
    if path.contains(&0) {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

impl<'a, 't> Walk<'a, 't> {
    /// Walks to the directory of the last component of `path` (`filename_parentat`).
    pub(super) fn parent(at: &'a At<'a>, path: &'t [u8]) -> Result<Walk<'a, 't>> {
        check_text(path)?;
        let absolute = path[0] == b'/';
        let start = if absolute { at.root } else { at.base };
        let mut walk = Walk {
            at,
            path: start.clone(),
            text: Cow::Borrowed(b""),
            name: 0..0,
            last: Last::Root,
            slash: false,
            file: None,
            links: 0,
        };
        if !absolute && !walk.path.is_dir() {
            return Err(Errno::ENOTDIR);
        }
        walk.run(Cow::Borrowed(path))?;
        Ok(walk)
    }

    /// Walks all of `path` (`path_lookupat`).
    pub(super) fn whole(at: &'a At<'a>, path: &'t [u8], lookup: Lookup) -> Result<Walk<'a, 't>> {
        let mut walk = Walk::parent(at, path)?;
        let mut lookup = lookup;
        walk.finish(&mut lookup)?;
        if lookup.contains(Lookup::DIRECTORY) && !walk.path.is_dir() {
            return Err(Errno::ENOTDIR);
        }
        Ok(walk)
    }

    /// The last component.
    pub(super) fn name(&self) -> &[u8] {
        &self.text[self.name.clone()]
    }

    /// Takes the last component too, following links as `lookup` says; a trailing slash means
    /// that they are followed and that the end must be a directory, which is noted in `lookup`.
    pub(super) fn finish(&mut self, lookup: &mut Lookup) -> Result<()> {
        loop {
            if self.last != Last::Name {
                self.dots();
                return Ok(());
            }
            if self.slash {
                *lookup |= Lookup::FOLLOW | Lookup::DIRECTORY;
            }
            let mut child = self.path.clone();
            child.dentry = self.child()?;
            if !self.step(child, lookup.contains(Lookup::FOLLOW))? {
                return Ok(());
            }
        }
    }

    /// The dentry of the last component, a name.
    pub(super) fn child(&self) -> Result<Arc<Dentry>> {
        lookup(&self.path.dentry, self.name())
    }

    /// Moves to `child`, found under the last component, crossing mounts. A link is followed if
    /// `follow`; returns whether that left a new last component to be taken.
    pub(super) fn step(&mut self, mut child: Path, follow: bool) -> Result<bool> {
        self.at.ns.cross_down(&mut child);
        if follow && child.dentry.kind() == FileType::Symlink {
            return match self.follow(&child)? {
                Jump::Text(text) => {
                    self.run(text)?;
                    Ok(true)
                }
                Jump::There => {
                    self.slash = false;
                    Ok(false)
                }
            };
        }
        self.path = child;
        Ok(false)
    }

    /// Takes a last component that is `.` or `..`, or none.
    pub(super) fn dots(&mut self) {
        if self.last == Last::DotDot {
            self.up();
        }
    }

    /// One directory up, out of mounts but never above the root (`follow_dotdot`).
    fn up(&mut self) {
        while self.path != *self.at.root {
            let mount = &self.path.mount;
            if Arc::ptr_eq(&self.path.dentry, mount.root()) {
                match mount.mountpoint() {
                    Some(up) => self.path = up,
                    None => break,
                }
            } else {
                if let Some(parent) = self.path.dentry.parent() {
                    self.path.dentry = parent;
                }
                break;
            }
        }
        self.at.ns.cross_down(&mut self.path);
    }

    /// Reads the link `link` and, if it is absolute or magic, jumps (`pick_link`).
    fn follow(&mut self, link: &Path) -> Result<Jump<'t>> {
        self.links += 1;
        if self.links > MAXSYMLINKS {
            return Err(Errno::ELOOP);
        }
        link.mount.touch_atime(link.inode());
        match link.inode().readlink(self.at.caller)? {
            LinkTarget::Text(mut text) => {
                let slashes = text.iter().take_while(|&&b| b == b'/').count();
                if slashes > 0 {
                    self.path = self.at.root.clone();
                    text.drain(..slashes);
                    if text.is_empty() {
                        self.last = Last::Root;
                        return Ok(Jump::There);
                    }
                }
                if text.is_empty() {
                    return Err(Errno::ENOENT);
                }
                Ok(Jump::Text(Cow::Owned(text)))
            }
            LinkTarget::Path(path) => {
                self.path = path;
                Ok(Jump::There)
            }
            LinkTarget::File(file) => {
                self.path = OpenInode::locate(&link.mount, &file);
                self.file = Some(file);
                Ok(Jump::There)
            }
        }
    }

    /// Walks `text` up to its last component, which stays pending (`link_path_walk`).
    fn run(&mut self, mut text: Cow<'t, [u8]>) -> Result<()> {
        // What is left to do after the links being walked.
        let mut rest: Vec<(Cow<'t, [u8]>, usize)> = Vec::new();
        let mut pos = skip_slashes(&text, 0);
        self.last = Last::Root;
        self.slash = false;
        if pos == text.len() {
            return Ok(());
        }
        loop {
            self.file = None;
            inode_permission(
                &self.path.mount,
                self.path.inode(),
                &self.at.caller.cred,
                Access::EXEC,
            )?;
            let end = text[pos..]
                .iter()
                .position(|&b| b == b'/')
                .map_or(text.len(), |n| pos + n);
            let name = pos..end;
            let last = match &text[name.clone()] {
                b"." => Last::Dot,
                b".." => Last::DotDot,
                _ => Last::Name,
            };
            let next = skip_slashes(&text, end);
            let mut resume = None;
            if next == text.len() {
                match rest.pop() {
                    None => {
                        self.last = last;
                        self.slash = next > end;
                        self.name = name;
                        self.text = text;
                        return Ok(());
                    }
                    // The end of a link inside the path: walked like any component.
                    outer => resume = outer,
                }
            }
            let mut link = None;
            match last {
                Last::Root | Last::Dot => {}
                Last::DotDot => self.up(),
                Last::Name => {
                    let dentry = lookup(&self.path.dentry, &text[name])?;
                    if dentry.kind() == FileType::Symlink || dentry.is_mountpoint() {
                        let mut child = Path {
                            mount: self.path.mount.clone(),
                            dentry,
                        };
                        self.at.ns.cross_down(&mut child);
                        if child.dentry.kind() == FileType::Symlink {
                            if let Jump::Text(text) = self.follow(&child)? {
                                link = Some(text);
                            }
                        } else {
                            self.path = child;
                        }
                    } else {
                        self.path.dentry = dentry;
                    }
                }
            }
            (text, pos) = match (link, resume) {
                (None, None) => (text, next),
                (None, Some(outer)) => outer,
                (Some(link), outer) => {
                    rest.push(outer.unwrap_or((text, next)));
                    (link, 0)
                }
            };
            if !self.path.is_dir() {
                return Err(Errno::ENOTDIR);
            }
        }
    }
}

/// Looks `name` up in a directory whose search permission was checked.
pub(super) fn lookup(dir: &Arc<Dentry>, name: &[u8]) -> Result<Arc<Dentry>> {
    if name.len() > NAME_MAX {
        return Err(Errno::ENAMETOOLONG);
    }
    dir.lookup(name)
}

fn skip_slashes(text: &[u8], from: usize) -> usize {
    from + text[from..].iter().take_while(|&&b| b == b'/').count()
}

impl At<'_> {
    /// The location of `path`. `ENOENT` for an empty path or a missing name, `ENAMETOOLONG`,
    /// `ENOTDIR`, `EACCES` for a directory that can't be searched, `ELOOP` beyond 40 links.
    pub fn resolve(&self, path: &[u8], lookup: Lookup) -> Result<Path> {
        Ok(Walk::whole(self, path, lookup)?.path)
    }
}
