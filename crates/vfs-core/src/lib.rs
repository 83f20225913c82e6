//! The virtual file system of a VM.
//!
//! It is shaped like Linux's own, so that its behaviour can be compared with it call by call:
//!
//! * [`inode`] is what a file system implements: nodes reached by parent and name. [`memfs`],
//!   [`hostfs`] and [`statictree`] are the file systems of this crate; the overlay, the package
//!   projection, `/dev` and `/proc` live in crates above.
//! * [`dentry`] and [`mount`] give inodes their names: a tree of live names per mounted file
//!   system, and the [`Namespace`] that joins file systems into the one tree a VM sees.
//! * [`namei`] is every call that takes a path: the walk with its symbolic links, the permission
//!   checks and the order of errors. It starts from an [`At`], which says where and for whom.
//! * [`mod@file`] is what `open` makes, an [`OpenFile`] over [`FileOps`]; [`wait`] is how a call that
//!   would block is waited for; [`locks`] holds advisory locks.
//! * [`errno`] and [`types`] are the vocabulary: Linux's numbers as our own tables.
//!
//! Nothing in here knows of processes, drivers or WebAssembly, and nothing sleeps.

pub mod dentry;
pub mod errno;
pub mod file;
pub mod hostfs;
pub mod inode;
pub mod locks;
pub mod memfs;
pub mod mount;
pub mod namei;
pub mod statictree;
mod sync;
pub mod types;
pub mod wait;

pub use dentry::{Dentry, WriteDenial};
pub use errno::{Errno, Result};
pub use file::{FileOps, OpenFile, RangeChange, Whence};
pub use hostfs::{HostFs, HostFsOptions};
pub use inode::{Content, FileSystem, Inode, InodeRef, LinkTarget, NewNode};
pub use locks::LockTable;
pub use memfs::{MemFs, MemFsOptions};
pub use mount::{AbsolutePath, Mount, MountFlags, MountInfo, Namespace};
pub use namei::{At, Lookup, Path, SpecialFiles, TimeSet, permission};
pub use statictree::StaticFs;
pub use types::{
    Access, Caller, Cred, DirEntry, FileType, OpenFlags, RenameFlags, SetAttr, Stat, StatFs,
    Timespec,
};
pub use wait::{PollEvents, WaitQueue, Waiter};

/// The example of the README, kept true.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
