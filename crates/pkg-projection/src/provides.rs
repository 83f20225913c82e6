//! Where provided files go.
//!
//! A provided file is an entry of a static directory; a provided directory is a layer below one.
//! Packages are taken in order, so whatever is already in the way belongs to a package that wins.

use crate::members::{Id, Member};
use crate::plan::Draft;
use crate::table::{Layer, Node};
use aospkg_format::{EntryId, EntryKind, ProvidedFile, check_component};
use vfs_core::types::PATH_MAX;

/// Puts what package `id` provides in its place. `Ok(Some(other))` if a package that wins has put
/// something there already, so that nothing was done; `Err` says why it can't be provided at all.
pub(crate) fn place(
    draft: &mut Draft,
    members: &[Member],
    id: Id,
    file: &ProvidedFile,
) -> Result<Option<Id>, String> {
    let names = target_names(&file.target)?;
    let (entry, kind) = source_entry(&members[id as usize], &file.source)?;
    let is_dir = kind == EntryKind::Directory;
    let layer = Layer::Dir(id, entry, draft.provided);
    draft.provided += 1;
    let mut walk = Walk {
        draft,
        members,
        at: 0,
        covering: Vec::new(),
    };
    walk.covering = walk.draft.dirs[0].below.clone();
    let Some((last, parents)) = names.split_last() else {
        if !is_dir {
            return Err("the root can't be a file".to_owned());
        }
        walk.draft.dirs[0].below.push(layer);
        return Ok(None);
    };
    for name in parents {
        if let Some(winner) = walk.enter(name, id)? {
            return Ok(Some(winner));
        }
    }
    if is_dir {
        let known = walk.entry(last).is_some() || !walk.hits(last)?.is_empty();
        if let Some(winner) = walk.enter(last, id)? {
            return Ok(Some(winner));
        }
        let dir = &mut walk.draft.dirs[walk.at as usize];
        dir.below.push(layer);
        if !known {
            dir.like = Some((id, entry));
        }
        return Ok(None);
    }
    let taken = match walk.entry(last) {
        Some(Node::Dir(dir)) => {
            let owner = walk.draft.dirs[*dir as usize].made_for;
            Some(owner.ok_or("the projection has a directory there")?)
        }
        Some(Node::Entry(owner, _) | Node::Current(owner)) => Some(*owner),
        None => walk.hits(last)?.first().map(|hit| hit.member),
    };
    if taken.is_none() {
        walk.draft.dirs[walk.at as usize]
            .entries
            .insert(last.to_vec(), Node::Entry(id, entry));
    }
    Ok(taken)
}

/// A walk along a target.
struct Walk<'a> {
    draft: &'a mut Draft,
    members: &'a [Member],
    /// The static directory it has come to.
    at: u32,
    /// What is provided below that directory.
    covering: Vec<Layer>,
}

/// What a provided directory has under a name.
struct Hit {
    member: Id,
    entry: EntryId,
    kind: EntryKind,
    rank: u32,
}

impl Walk<'_> {
    fn entry(&self, name: &[u8]) -> Option<&Node> {
        self.draft.dirs[self.at as usize].entries.get(name)
    }

    /// What the directories provided here have under a name, the winner first.
    fn hits(&self, name: &[u8]) -> Result<Vec<Hit>, String> {
        let mut hits = Vec::new();
        for layer in &self.covering {
            if let Layer::Dir(member, dir, rank) = *layer {
                let package = &self.members[member as usize].package;
                let found = package.lookup(dir, name).map_err(|e| e.to_string())?;
                if let Some(entry) = found {
                    let kind = package.entry(entry).map_err(|e| e.to_string())?.kind;
                    hits.push(Hit {
                        member,
                        entry,
                        kind,
                        rank,
                    });
                }
            }
        }
        hits.sort_by_key(|hit| hit.rank);
        Ok(hits)
    }

    /// Goes into a directory, which is made if need be; returns the package whose file is in the
    /// way, if one is.
    fn enter(&mut self, name: &[u8], id: Id) -> Result<Option<Id>, String> {
        let hits = self.hits(name)?;
        let known = match self.entry(name) {
            Some(Node::Entry(owner, _) | Node::Current(owner)) => return Ok(Some(*owner)),
            Some(Node::Dir(_)) => true,
            None => false,
        };
        if let (false, Some(hit)) = (known, hits.first())
            && hit.kind != EntryKind::Directory
        {
            return Ok(Some(hit.member));
        }
        self.at = self.draft.dir(self.at, name);
        let dir = &mut self.draft.dirs[self.at as usize];
        if dir.sealed {
            return Err("nothing can be provided there".to_owned());
        }
        if !known {
            dir.made_for = Some(id);
            dir.like = hits.first().map(|hit| (hit.member, hit.entry));
        }
        let own = dir.below.iter().copied();
        let inherited = hits
            .iter()
            .filter(|hit| hit.kind == EntryKind::Directory)
            .map(|hit| Layer::Dir(hit.member, hit.entry, hit.rank));
        self.covering = own.chain(inherited).collect();
        Ok(None)
    }
}

/// The names along an absolute path.
fn target_names(target: &str) -> Result<Vec<&[u8]>, String> {
    let path = target
        .strip_prefix('/')
        .ok_or("the target is not absolute")?;
    if target.len() >= PATH_MAX {
        return Err("the target is too long for a path".to_owned());
    }
    let path = path.strip_suffix('/').unwrap_or(path);
    if path.is_empty() {
        return Ok(Vec::new());
    }
    let names: Vec<&[u8]> = path.split('/').map(str::as_bytes).collect();
    for name in &names {
        check_component(name).map_err(|why| format!("target: {why}"))?;
    }
    Ok(names)
}

/// The entry at a path of the package.
fn source_entry(member: &Member, source: &str) -> Result<(EntryId, EntryKind), String> {
    let path = source.strip_prefix("./").unwrap_or(source);
    let path = path.trim_matches('/');
    let path = if path == "." { "" } else { path };
    let found = member
        .package
        .lookup_path(path.as_bytes())
        .map_err(|e| e.to_string())?;
    let id = found.ok_or("the package has no such file")?;
    let kind = member.package.entry(id).map_err(|e| e.to_string())?.kind;
    if kind == EntryKind::Symlink {
        return Err("the source is a symbolic link".to_owned());
    }
    Ok((id, kind))
}
