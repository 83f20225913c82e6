//! Random operations on a host tmpfs and on ours: the same results, error numbers and trees.

mod common;

use common::against::{Subject, compare};
use vfs_core::{Cred, HostFs, HostFsOptions, MemFs, MemFsOptions};

fn memory() -> Subject {
    Subject {
        fs: MemFs::new(MemFsOptions::default()),
        dir: None,
    }
}

fn host_directory() -> Subject {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let fs = HostFs::open(dir.path(), HostFsOptions::default()).unwrap();
    Subject { fs, dir: Some(dir) }
}

/// Root, a user, and another who is of the first one's group.
fn users() -> Vec<Cred> {
    let mut member = Cred::user(1001, 1001);
    member.groups = vec![1000];
    vec![Cred::root(), Cred::user(1000, 1000), member]
}

#[test]
fn root_sees_the_same_tree() {
    compare(200, &[Cred::root()], memory);
}

#[test]
fn users_see_the_same_tree() {
    compare(250, &users(), memory);
}

#[test]
fn a_mounted_host_directory_is_the_same_tree() {
    compare(150, &users(), host_directory);
}
