//! Random file system operations, and what a tree looks like after them, for two sides that are
//! compared: the host kernel ([`linux`]) and our path walk over some file system ([`ours`]).

pub(crate) mod linux;
pub(crate) mod ours;

use proptest::prelude::*;
use std::collections::BTreeMap;

/// A relative path, `/` between names.
pub(crate) type Name = String;

/// One call, or a few that belong together.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// `open(O_CREAT | O_WRONLY)`, perhaps with `O_EXCL`.
    Create {
        path: Name,
        perm: u32,
        excl: bool,
    },
    /// `open(O_WRONLY)`, `pwrite`.
    Write {
        path: Name,
        at: u16,
        len: u16,
        byte: u8,
    },
    /// `open(O_WRONLY | O_APPEND)`, `write`.
    Append {
        path: Name,
        len: u16,
        byte: u8,
    },
    /// `open(O_WRONLY | O_TRUNC)`.
    Overwrite {
        path: Name,
    },
    Truncate {
        path: Name,
        len: u16,
    },
    Read {
        path: Name,
    },
    Readlink {
        path: Name,
    },
    Readdir {
        path: Name,
    },
    Mkdir {
        path: Name,
        perm: u32,
    },
    Rmdir {
        path: Name,
    },
    Unlink {
        path: Name,
    },
    Rename {
        from: Name,
        to: Name,
        flags: u32,
    },
    Link {
        from: Name,
        to: Name,
    },
    Symlink {
        target: Name,
        path: Name,
    },
    Mkfifo {
        path: Name,
    },
    /// A character device that no driver has.
    Mkdev {
        path: Name,
    },
    Chmod {
        path: Name,
        perm: u32,
    },
    Chown {
        path: Name,
        uid: Option<u32>,
        gid: Option<u32>,
        follow: bool,
    },
    Utimens {
        path: Name,
        sec: u32,
        nsec: u32,
        follow: bool,
    },
    Setxattr {
        path: Name,
        name: &'static str,
        len: u8,
        flags: i32,
    },
    Removexattr {
        path: Name,
        name: &'static str,
    },
    /// `open(O_RDWR)`, kept open under a number.
    Hold {
        slot: usize,
        path: Name,
    },
    HeldWrite {
        slot: usize,
        at: u16,
        len: u16,
        byte: u8,
    },
    HeldRead {
        slot: usize,
    },
    HeldChmod {
        slot: usize,
        perm: u32,
    },
    HeldStat {
        slot: usize,
    },
    Release {
        slot: usize,
    },
}

/// What a call gave: bytes to compare, or the error number.
pub(crate) type Outcome = Result<Vec<u8>, i32>;

/// Times up to here were set by an operation; later ones are the present and not compared.
pub(crate) const SET_TIMES: i64 = 1 << 30;

/// An entry of a tree, reduced to what both sides must agree on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) nlink: u64,
    pub(crate) rdev: u64,
    /// Not of directories.
    pub(crate) size: Option<u64>,
    pub(crate) mtime: Option<(i64, i64)>,
    pub(crate) atime: Option<(i64, i64)>,
    /// Bytes of a file, text of a link.
    pub(crate) content: Vec<u8>,
    pub(crate) xattrs: BTreeMap<String, Vec<u8>>,
    /// The first path in order that is the same inode.
    pub(crate) same_as: Name,
}

/// A whole tree, without its root.
pub(crate) type Tree = BTreeMap<Name, Seen>;

/// Keeps a time only if an operation set it.
pub(crate) fn set_time(sec: i64, nsec: i64) -> Option<(i64, i64)> {
    (sec < SET_TIMES).then_some((sec, nsec))
}

/// Encodes what `fstat` of a held file must agree on.
pub(crate) fn held_stat(mode: u32, nlink: u64, size: u64) -> Vec<u8> {
    format!("{mode:o} {nlink} {size}").into_bytes()
}

pub(crate) const XATTRS: [&str; 3] = ["user.a", "user.b", "trusted.c"];
pub(crate) const SLOTS: usize = 3;

fn path() -> impl Strategy<Value = Name> {
    let name = || prop::sample::select(vec!["a", "b", "c", "d"]);
    prop_oneof![
        4 => name().prop_map(str::to_owned),
        5 => (name(), name()).prop_map(|(a, b)| format!("{a}/{b}")),
        3 => (name(), name(), name()).prop_map(|(a, b, c)| format!("{a}/{b}/{c}")),
    ]
}

fn perm() -> impl Strategy<Value = u32> {
    prop::sample::select(vec![0o644, 0o600, 0o755, 0o4755, 0o2755, 0o1777, 0])
}

fn id() -> impl Strategy<Value = Option<u32>> {
    prop::option::of(0u32..3)
}

/// Operations that build a tree; also used to fill lower layers.
pub(crate) fn building() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (path(), perm()).prop_map(|(path, perm)| Op::Mkdir { path, perm }),
        6 => (path(), perm(), any::<bool>())
            .prop_map(|(path, perm, excl)| Op::Create { path, perm, excl }),
        4 => (path(), 0u16..9000, 0u16..5000, any::<u8>())
            .prop_map(|(path, at, len, byte)| Op::Write { path, at, len, byte }),
        2 => (path(), path()).prop_map(|(target, path)| Op::Symlink { target, path }),
        3 => (path(), path()).prop_map(|(from, to)| Op::Link { from, to }),
        1 => path().prop_map(|path| Op::Mkfifo { path }),
        1 => path().prop_map(|path| Op::Mkdev { path }),
        2 => (path(), 0u32..1 << 29, 0u32..1_000_000_000, any::<bool>())
            .prop_map(|(path, sec, nsec, follow)| Op::Utimens { path, sec, nsec, follow }),
        1 => (path(), id(), id(), any::<bool>())
            .prop_map(|(path, uid, gid, follow)| Op::Chown { path, uid, gid, follow }),
        2 => (path(), prop::sample::select(XATTRS.to_vec()), any::<u8>(), 0..3)
            .prop_map(|(path, name, len, flags)| Op::Setxattr { path, name, len, flags }),
    ]
}

/// Any operation.
pub(crate) fn anything() -> impl Strategy<Value = Op> {
    let slot = || 0..SLOTS;
    prop_oneof![
        12 => building(),
        3 => (path(), 0u16..3000, any::<u8>())
            .prop_map(|(path, len, byte)| Op::Append { path, len, byte }),
        1 => path().prop_map(|path| Op::Overwrite { path }),
        2 => (path(), 0u16..9000).prop_map(|(path, len)| Op::Truncate { path, len }),
        2 => path().prop_map(|path| Op::Read { path }),
        1 => path().prop_map(|path| Op::Readlink { path }),
        2 => path().prop_map(|path| Op::Readdir { path }),
        4 => path().prop_map(|path| Op::Rmdir { path }),
        6 => path().prop_map(|path| Op::Unlink { path }),
        12 => (path(), path(), prop::sample::select(vec![0, 0, 0, 1, 2, 2]))
            .prop_map(|(from, to, flags)| Op::Rename { from, to, flags }),
        2 => (path(), perm()).prop_map(|(path, perm)| Op::Chmod { path, perm }),
        1 => (path(), prop::sample::select(XATTRS.to_vec()))
            .prop_map(|(path, name)| Op::Removexattr { path, name }),
        2 => (slot(), path()).prop_map(|(slot, path)| Op::Hold { slot, path }),
        2 => (slot(), 0u16..9000, 1u16..3000, any::<u8>())
            .prop_map(|(slot, at, len, byte)| Op::HeldWrite { slot, at, len, byte }),
        1 => slot().prop_map(|slot| Op::HeldRead { slot }),
        1 => (slot(), perm()).prop_map(|(slot, perm)| Op::HeldChmod { slot, perm }),
        1 => slot().prop_map(|slot| Op::HeldStat { slot }),
        1 => slot().prop_map(|slot| Op::Release { slot }),
    ]
}
