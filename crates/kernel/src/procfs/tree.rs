//! The fixed part of `/proc`: one table.

use super::system;
use crate::vm::VmInner;
use vfs_core::types::FileType;

/// What an entry is.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Dir,
    File(fn(&VmInner) -> Vec<u8>),
    /// A link with this text.
    Link(&'static str),
    /// A link to the directory of whoever looks.
    SelfLink,
}

impl Kind {
    pub(super) fn file_type(self) -> FileType {
        match self {
            Kind::Dir => FileType::Directory,
            Kind::File(_) => FileType::Regular,
            Kind::Link(_) | Kind::SelfLink => FileType::Symlink,
        }
    }
}

/// An entry and the place of its directory in the table.
pub(super) struct TreeEntry {
    pub(super) name: &'static [u8],
    parent: usize,
    pub(super) kind: Kind,
}

const fn entry_of(parent: usize, name: &'static [u8], kind: Kind) -> TreeEntry {
    TreeEntry { name, parent, kind }
}

/// Place of the root, which is its own parent.
pub(super) const ROOT: usize = 0;
const SYS: usize = 1;
const KERNEL: usize = 2;
const RANDOM: usize = 3;
const FS: usize = 4;
const VM: usize = 5;

static TREE: &[TreeEntry] = &[
    entry_of(ROOT, b"/", Kind::Dir),
    entry_of(ROOT, b"sys", Kind::Dir),
    entry_of(SYS, b"kernel", Kind::Dir),
    entry_of(KERNEL, b"random", Kind::Dir),
    entry_of(SYS, b"fs", Kind::Dir),
    entry_of(SYS, b"vm", Kind::Dir),
    entry_of(ROOT, b"self", Kind::SelfLink),
    entry_of(ROOT, b"thread-self", Kind::SelfLink),
    entry_of(ROOT, b"mounts", Kind::Link("self/mounts")),
    entry_of(ROOT, b"meminfo", Kind::File(system::meminfo)),
    entry_of(ROOT, b"uptime", Kind::File(system::uptime)),
    entry_of(ROOT, b"cpuinfo", Kind::File(system::cpuinfo)),
    entry_of(ROOT, b"loadavg", Kind::File(system::loadavg)),
    entry_of(ROOT, b"version", Kind::File(system::version)),
    entry_of(ROOT, b"filesystems", Kind::File(system::filesystems)),
    entry_of(ROOT, b"stat", Kind::File(system::stat)),
    entry_of(KERNEL, b"hostname", Kind::File(system::hostname)),
    entry_of(KERNEL, b"domainname", Kind::File(|_| b"(none)\n".to_vec())),
    entry_of(KERNEL, b"ostype", Kind::File(|_| line(crate::SYSNAME))),
    entry_of(KERNEL, b"osrelease", Kind::File(|_| line(crate::RELEASE))),
    entry_of(KERNEL, b"version", Kind::File(|_| line(crate::VERSION))),
    entry_of(KERNEL, b"arch", Kind::File(|_| line(crate::MACHINE))),
    entry_of(KERNEL, b"pid_max", Kind::File(system::pid_max)),
    entry_of(KERNEL, b"threads-max", Kind::File(system::threads_max)),
    entry_of(KERNEL, b"ngroups_max", Kind::File(system::ngroups_max)),
    entry_of(KERNEL, b"cap_last_cap", Kind::File(|_| b"40\n".to_vec())),
    entry_of(RANDOM, b"boot_id", Kind::File(system::boot_id)),
    entry_of(RANDOM, b"uuid", Kind::File(system::uuid)),
    entry_of(RANDOM, b"entropy_avail", Kind::File(|_| b"256\n".to_vec())),
    entry_of(RANDOM, b"poolsize", Kind::File(|_| b"256\n".to_vec())),
    entry_of(FS, b"file-max", Kind::File(system::file_max)),
    entry_of(FS, b"nr_open", Kind::File(system::nr_open)),
    entry_of(FS, b"pipe-max-size", Kind::File(system::pipe_max_size)),
    entry_of(VM, b"overcommit_memory", Kind::File(|_| b"0\n".to_vec())),
];

/// A text as one line.
fn line(text: &str) -> Vec<u8> {
    format!("{text}\n").into_bytes()
}

/// The entry at a place.
pub(super) fn entry(at: usize) -> &'static TreeEntry {
    &TREE[at]
}

/// Places of the entries of a directory, in the table's order.
pub(super) fn children(dir: usize) -> impl Iterator<Item = usize> {
    (1..TREE.len()).filter(move |&at| TREE[at].parent == dir)
}

/// Place of an entry of a directory.
pub(super) fn lookup(dir: usize, name: &[u8]) -> Option<usize> {
    children(dir).find(|&at| TREE[at].name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_a_tree() {
        for (place, name) in [
            (SYS, &b"sys"[..]),
            (KERNEL, b"kernel"),
            (RANDOM, b"random"),
            (FS, b"fs"),
            (VM, b"vm"),
        ] {
            assert_eq!(TREE[place].name, name);
        }
        for (at, entry) in TREE.iter().enumerate() {
            assert!(matches!(TREE[entry.parent].kind, Kind::Dir));
            assert_eq!(lookup(entry.parent, entry.name), (at != ROOT).then_some(at));
        }
    }
}
