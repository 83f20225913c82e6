//! The file system exerciser (crate `fsx`) through FUSE: random reads, writes, truncations,
//! allocations and mappings of one file, each read checked against a model.

mod fuse;
mod host;
mod machine;

use fuse::Data;
use machine::{Layers, memory};
use std::process::Command;
use std::sync::Arc;
use vfs_core::FileSystem;
use vfs_overlay::Marks;

const VERSION: &str = "0.3.2";
const OPERATIONS: &str = "4000";

fn exercise(what: &'static str, fs: Arc<dyn FileSystem>, data: Data) {
    let tool = host::tool("fsx", VERSION);
    host::in_private_mounts(what, move |dir| {
        let mapped = if data == Data::Cached { 10 } else { 0 };
        let config = format!(
            "[weights]\nclose_open = 1\ninvalidate = {mapped}\nmapread = {mapped}\n\
             mapwrite = {mapped}\nread = 10\nwrite = 10\ntruncate = 10\nfsync = 1\n\
             fdatasync = 1\nposix_fallocate = 2\nsendfile = {mapped}\ncopy_file_range = 2\n"
        );
        std::fs::write(dir.join("fsx.toml"), config).unwrap();
        let mountpoint = dir.join("mnt");
        std::fs::create_dir(&mountpoint).unwrap();
        let session = fuse::mount(fs, &mountpoint, data).unwrap();
        let outcome = Command::new(tool)
            .args(["-N", OPERATIONS, "-S", "7", "-P"])
            .arg(dir)
            .arg("-f")
            .arg(dir.join("fsx.toml"))
            .arg(mountpoint.join("file"))
            .output()
            .unwrap();
        session.umount_and_join().unwrap();
        let text = String::from_utf8_lossy(&outcome.stdout).into_owned();
        assert!(
            outcome.status.success(),
            "{text}\n{}",
            String::from_utf8_lossy(&outcome.stderr)
        );
    });
}

fn overlay() -> Arc<dyn FileSystem> {
    Layers::new(&[|m| m.write("file", "what the lower layer has")]).overlay(Marks::default())
}

#[test]
fn memory_direct() {
    exercise("fsx on memory", memory(), Data::Direct);
}

#[test]
fn memory_cached() {
    exercise("fsx on memory, cached", memory(), Data::Cached);
}

#[test]
fn overlay_direct() {
    exercise("fsx on the overlay", overlay(), Data::Direct);
}

#[test]
fn overlay_cached() {
    exercise("fsx on the overlay, cached", overlay(), Data::Cached);
}
