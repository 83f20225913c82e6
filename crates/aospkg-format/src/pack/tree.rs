//! The tree that is being packed: checked names, no doubles, whole parents, links that stay in.

use crate::error::Error;
use crate::limits::{MAX_DEPTH, MAX_ENTRIES, MAX_PATH};
use crate::mount::EntryKind;
use crate::names::{self, NameError};
use crate::pack::PackError;
use crate::write::NewEntry;

/// Links that are followed before giving up, as on Linux.
const MAX_LINKS: usize = 40;

/// Components that are walked before a path is taken for one that leads out. Bounds what a link can
/// cost that leads through many others.
const MAX_STEPS: usize = 8192;

/// An entry as a source has it, its path brought into form.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    /// Without a leading slash.
    pub(crate) path: String,
    pub(crate) kind: EntryKind,
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) mtime: i64,
    pub(crate) size: u64,
    pub(crate) link_target: Option<String>,
    /// What the source knows the content by.
    pub(crate) source: usize,
}

/// Brings a name from a source into the form of the index. `None` is the root.
///
/// `./a//b/` is `a/b`. Absolute names and names with `..` are refused.
pub(crate) fn normalize(raw: &[u8]) -> Result<Option<String>, PackError> {
    let shown = || String::from_utf8_lossy(raw).into_owned();
    if raw.is_empty() {
        return Err(PackError::name(shown(), NameError::Empty));
    }
    if raw.starts_with(b"/") {
        return Err(PackError::Absolute { entry: shown() });
    }
    let mut path = String::with_capacity(raw.len());
    let mut depth = 0;
    for component in raw.split(|&b| b == b'/') {
        match component {
            b"" | b"." => continue,
            b".." => return Err(PackError::DotDot { entry: shown() }),
            _ => {}
        }
        names::check_component(component).map_err(|e| PackError::name(shown(), e))?;
        let component =
            std::str::from_utf8(component).map_err(|_| PackError::NotUtf8 { entry: shown() })?;
        if !path.is_empty() {
            path.push('/');
        }
        path.push_str(component);
        depth += 1;
    }
    if path.is_empty() {
        return Ok(None);
    }
    if path.len() > MAX_PATH || depth > MAX_DEPTH {
        return Err(PackError::PathTooLong { entry: shown() });
    }
    Ok(Some(path))
}

/// A checked tree, sorted by path, the root first.
#[derive(Debug)]
pub(crate) struct Tree {
    entries: Vec<NewEntry>,
}

/// Where a path leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// To this entry, which is no link.
    Entry(usize),
    /// Nowhere, but not out of the tree either.
    Nothing,
    /// Out of the tree.
    Outside,
}

/// Checks what a source found and makes a tree of it. Also returns, for each place in the tree, the
/// source's name for the content.
///
/// `owner` is who directories belong to that the source does not have.
pub(crate) fn assemble(
    mut found: Vec<Found>,
    owner: (u32, u32),
) -> Result<(Tree, Vec<usize>), PackError> {
    if found.len() >= MAX_ENTRIES as usize {
        return Err(PackError::Package(Error::Limit {
            what: "number of entries",
            limit_name: "MAX_ENTRIES",
            limit: MAX_ENTRIES.into(),
            got: found.len() as u64 + 1,
        }));
    }
    for entry in &found {
        match normalize(entry.path.as_bytes())? {
            Some(path) if path == entry.path => {}
            _ => return Err(PackError::name(entry.path.clone(), NameError::Slash)),
        }
        if let Some(target) = &entry.link_target
            && !names::valid_link_target(target.as_bytes())
        {
            return Err(PackError::BadLinkTarget {
                entry: entry.path.clone(),
            });
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    if let Some(pair) = found.windows(2).find(|pair| pair[0].path == pair[1].path) {
        return Err(PackError::Duplicate {
            entry: pair[0].path.clone(),
        });
    }
    let missing = missing_parents(&found)?;
    found.extend(missing.into_iter().map(|path| Found {
        path,
        kind: EntryKind::Directory,
        mode: 0o755,
        uid: owner.0,
        gid: owner.1,
        mtime: 0,
        size: 0,
        link_target: None,
        source: usize::MAX,
    }));
    found.sort_by(|a, b| a.path.cmp(&b.path));

    let mut entries = vec![NewEntry::root()];
    let mut sources = vec![usize::MAX];
    for entry in found {
        sources.push(entry.source);
        entries.push(NewEntry {
            path: entry.path,
            kind: entry.kind,
            mode: entry.mode & 0o7777,
            uid: entry.uid,
            gid: entry.gid,
            mtime: entry.mtime,
            size: entry.size,
            link_target: entry.link_target,
        });
    }
    let tree = Tree { entries };
    tree.check_links()?;
    Ok((tree, sources))
}

/// The directories that entries lie in and the source does not have. An error when something lies
/// in a file or a link.
fn missing_parents(found: &[Found]) -> Result<Vec<String>, PackError> {
    let mut missing = std::collections::BTreeSet::new();
    let mut last = "";
    for entry in found {
        let mut parent = entry.path.as_str();
        while let Some((directory, _)) = parent.rsplit_once('/') {
            // Neighbours share their directories, and what holds for one holds for those above.
            if directory == last {
                break;
            }
            match found.binary_search_by(|other| other.path.as_str().cmp(directory)) {
                Ok(place) if found[place].kind == EntryKind::Directory => {}
                Ok(_) => {
                    return Err(PackError::ParentNotDirectory {
                        entry: entry.path.clone(),
                        parent: directory.to_owned(),
                    });
                }
                Err(_) => {
                    missing.insert(directory.to_owned());
                }
            }
            parent = directory;
        }
        last = entry
            .path
            .rsplit_once('/')
            .map_or("", |(directory, _)| directory);
    }
    Ok(missing.into_iter().collect())
}

impl Tree {
    pub(crate) fn entries(&self) -> &[NewEntry] {
        &self.entries
    }

    pub(crate) fn into_entries(self) -> Vec<NewEntry> {
        self.entries
    }

    /// Sets the permission bits of an entry.
    pub(crate) fn set_mode(&mut self, place: usize, mode: u32) {
        if let Some(entry) = self.entries.get_mut(place) {
            entry.mode = mode;
        }
    }

    pub(crate) fn find(&self, path: &str) -> Option<usize> {
        self.entries
            .binary_search_by(|entry| entry.path.as_str().cmp(path))
            .ok()
    }

    /// Follows a path from a directory, with every link on the way and at its end.
    pub(crate) fn follow<'t>(&'t self, directory: &str, path: &'t str) -> Target {
        if path.starts_with('/') {
            return Target::Outside;
        }
        let mut at = directory.to_owned();
        // What is still to be walked, last component first.
        let mut todo: Vec<&str> = split(path).rev().collect();
        let (mut links, mut steps) = (0, 0);
        while let Some(component) = todo.pop() {
            steps += 1;
            if steps > MAX_STEPS {
                return Target::Outside;
            }
            match component {
                "." => continue,
                ".." => {
                    if at.is_empty() {
                        return Target::Outside;
                    }
                    up(&mut at);
                    continue;
                }
                _ => {
                    if !at.is_empty() {
                        at.push('/');
                    }
                    at.push_str(component);
                }
            }
            let entry = self.find(&at).map(|place| &self.entries[place]);
            let Some(target) = entry.and_then(|entry| entry.link_target.as_deref()) else {
                continue;
            };
            links += 1;
            if links > MAX_LINKS {
                return Target::Nothing;
            }
            if target.starts_with('/') {
                return Target::Outside;
            }
            up(&mut at);
            todo.extend(split(target).rev());
        }
        match self.find(&at) {
            Some(place) => Target::Entry(place),
            None => Target::Nothing,
        }
    }

    /// Refuses links that lead out of the tree, whatever other links they go through. A link that
    /// leads nowhere is allowed, as it is in a directory.
    fn check_links(&self) -> Result<(), PackError> {
        for entry in &self.entries {
            let Some(target) = &entry.link_target else {
                continue;
            };
            let directory = entry.path.rsplit_once('/').map_or("", |(dir, _)| dir);
            if self.follow(directory, target) == Target::Outside {
                return Err(PackError::LinkEscapes {
                    entry: entry.path.clone(),
                    target: target.clone(),
                });
            }
        }
        Ok(())
    }
}

/// Drops the last component.
fn up(path: &mut String) {
    path.truncate(path.rfind('/').unwrap_or(0));
}

fn split(path: &str) -> impl DoubleEndedIterator<Item = &str> {
    path.split('/').filter(|component| !component.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, link: Option<&str>) -> Found {
        Found {
            path: path.into(),
            kind: match link {
                Some(_) => EntryKind::Symlink,
                None => EntryKind::File,
            },
            mode: 0o644,
            uid: 0,
            gid: 0,
            mtime: 0,
            size: 0,
            link_target: link.map(str::to_owned),
            source: 0,
        }
    }

    #[test]
    fn names_are_brought_into_form() {
        let text = |raw: &[u8]| normalize(raw).map(Option::unwrap_or_default).ok();
        assert_eq!(text(b"./a//b/"), Some("a/b".into()));
        assert_eq!(text(b"./"), Some(String::new()));
        assert!(matches!(normalize(b"/a"), Err(PackError::Absolute { .. })));
        assert!(matches!(
            normalize(b"a/../b"),
            Err(PackError::DotDot { .. })
        ));
        assert!(matches!(
            normalize(b"a\xff"),
            Err(PackError::NotUtf8 { .. })
        ));
        assert!(matches!(normalize(b""), Err(PackError::Name { .. })));
    }

    #[test]
    fn links_may_not_leave() {
        let escapes = |links: &[(&str, &str)]| {
            let entries = links
                .iter()
                .map(|(path, to)| found(path, Some(to)))
                .collect();
            assemble(entries, (0, 0)).is_err()
        };
        assert!(!escapes(&[("a/b/l", "../../c")]));
        assert!(escapes(&[("a/b/l", "../../../c")]));
        assert!(escapes(&[("l", "/etc/passwd")]));
        assert!(escapes(&[("l", "..")]));
        // `d` is the root itself, so `d/..` is above it although the text is not.
        assert!(escapes(&[("d", "."), ("l", "d/..")]));
        assert!(!escapes(&[("a", "b"), ("b", "a")]));
        assert!(!escapes(&[("a", "nowhere/../x")]));
    }

    #[test]
    fn parents_are_added_and_must_be_directories() {
        let (tree, _) = assemble(vec![found("a/b/c", None)], (1, 2)).unwrap();
        let paths: Vec<&str> = tree.entries().iter().map(|e| e.path.as_str()).collect();
        assert_eq!(paths, ["", "a", "a/b", "a/b/c"]);
        assert_eq!((tree.entries()[1].uid, tree.entries()[1].gid), (1, 2));
        for bad in [
            vec![found("a", None), found("a/b", None)],
            vec![found("a", Some(".")), found("a/b/c", None)],
        ] {
            assert!(matches!(
                assemble(bad, (0, 0)),
                Err(PackError::ParentNotDirectory { .. })
            ));
        }
        assert!(matches!(
            assemble(vec![found("a", None), found("a", None)], (0, 0)),
            Err(PackError::Duplicate { .. })
        ));
    }
}
