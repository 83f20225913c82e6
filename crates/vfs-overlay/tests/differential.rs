//! Random operations on the kernel's file systems and on ours: after every step the outcome, the
//! whole tree and the whiteouts must be the same.
//!
//! The kernel's overlay is mounted with `redirect_dir=on,index=on`, which is how ours always
//! behaves. What differs on purpose is named in [`forgive`].
//!
//! Access times are kept by neither side (`noatime`), or looking at a tree would change it.
//!
//! `AOS_DIFF_CASES` and `AOS_DIFF_SEED` make it run longer or elsewhere.

mod host;
mod model;

use model::linux::{self, Linux};
use model::ours::Ours;
use model::{Op, anything, building};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use proptest::prelude::*;
use proptest::test_runner::{
    Config, RngAlgorithm, TestCaseError, TestCaseResult, TestError, TestRng, TestRunner,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use vfs_core::hostfs::{HostFs, HostFsOptions};
use vfs_core::memfs::{MemFs, MemFsOptions};
use vfs_core::{FileSystem, FileType, InodeRef};
use vfs_overlay::{Origin, OverlayFs, OverlayOptions};

fn from_env(name: &str, default: u32) -> u32 {
    std::env::var(name)
        .ok()
        .and_then(|value| value.parse().ok())
        .unwrap_or(default)
}

/// Runs `test` on random values; the same ones every time unless the environment says otherwise.
fn explore<S: Strategy>(cases: u32, strategy: &S, test: impl Fn(S::Value) -> TestCaseResult) {
    let config = Config {
        cases: from_env("AOS_DIFF_CASES", cases),
        failure_persistence: None,
        max_shrink_iters: 4000,
        ..Config::default()
    };
    let mut seed = [0; 32];
    seed[..4].copy_from_slice(&from_env("AOS_DIFF_SEED", 1).to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    match TestRunner::new_with_rng(config, rng).run(strategy, test) {
        Ok(()) => {}
        Err(TestError::Fail(reason, value)) => panic!("{reason}\nwith {value:#?}"),
        Err(TestError::Abort(reason)) => panic!("{reason}"),
    }
}

fn new_memory() -> Arc<MemFs> {
    // As the directories of the kernel's side.
    MemFs::new(MemFsOptions {
        mode: 0o755,
        ..MemFsOptions::default()
    })
}

/// A difference in a tree that is meant, by name.
///
/// *lazy-link-up*: when a lower file with several names, copied up under one of them, is used
/// under another, the kernel gives the copy that name too and for that copies up the directory it
/// is in. Ours waits until the name has to be there. All that shows is that the kernel no longer
/// counts the subdirectories of that directory.
fn forgive(kernel: &model::Tree, ours: &mut model::Tree) {
    for (path, seen) in ours {
        if seen.size.is_none()
            && seen.nlink > 1
            && kernel
                .get(path)
                .is_some_and(|k| k.size.is_none() && k.nlink == 1)
        {
            seen.nlink = 1;
        }
    }
}

/// Does one step on both sides and compares.
fn step(op: &Op, kernel: &mut Linux, ours: &mut Ours) -> TestCaseResult {
    let (theirs, mine) = (kernel.run(op), ours.run(op));
    if theirs != mine {
        return Err(TestCaseError::fail(format!(
            "{op:?}: kernel {theirs:?}, ours {mine:?}"
        )));
    }
    Ok(())
}

fn same_trees(
    op: Option<&Op>,
    kernel: &Linux,
    ours: &Ours,
) -> Result<BTreeMap<String, u64>, TestCaseError> {
    let (theirs, (mut mine, inos)) = (kernel.tree(), ours.tree());
    forgive(&theirs, &mut mine);
    if theirs != mine {
        let paths = theirs
            .keys()
            .chain(mine.keys())
            .collect::<std::collections::BTreeSet<_>>();
        let lines = paths
            .into_iter()
            .filter(|path| theirs.get(*path) != mine.get(*path))
            .map(|path| {
                let brief = |seen: Option<&model::Seen>| {
                    seen.map(|seen| model::Seen {
                        content: seen.content.iter().copied().take(16).collect(),
                        ..seen.clone()
                    })
                };
                format!(
                    "{path}:\n  kernel {:?}\n  ours   {:?}",
                    brief(theirs.get(path)),
                    brief(mine.get(path))
                )
            });
        let lines: Vec<_> = lines.collect();
        return Err(TestCaseError::fail(format!(
            "after {op:?}:\n{}",
            lines.join("\n")
        )));
    }
    Ok(inos)
}

/// Operations after which every name still stands for the same inode.
fn keeps_inodes(op: &Op) -> bool {
    !matches!(op, Op::Rename { .. } | Op::Unlink { .. } | Op::Rmdir { .. })
}

#[test]
fn tmpfs_and_memory() {
    host::in_private_mounts("tmpfs comparison", |dir| {
        let dir = dir.to_owned();
        explore(150, &prop::collection::vec(anything(), 1..60), move |ops| {
            let at = dir.join("t");
            std::fs::create_dir(&at).unwrap();
            let result = (|| {
                let (mut kernel, mut ours) = (Linux::new(&at), Ours::new(new_memory()));
                for op in &ops {
                    step(op, &mut kernel, &mut ours)?;
                    same_trees(Some(op), &kernel, &ours)?;
                }
                Ok(())
            })();
            std::fs::remove_dir_all(&at).unwrap();
            result
        });
    });
}

/// A kernel overlay and its layers below `dir`.
struct KernelOverlay<'a> {
    dir: &'a Path,
}

impl KernelOverlay<'_> {
    fn mount(&self) {
        let options = format!(
            "lowerdir={0}/l1:{0}/l2,upperdir={0}/u,workdir={0}/w,redirect_dir=on,index=on,metacopy=off",
            self.dir.display()
        );
        mount(
            Some("overlay"),
            &self.dir.join("m"),
            Some("overlay"),
            MsFlags::MS_NOATIME,
            Some(&*options),
        )
        .unwrap();
    }
}

impl Drop for KernelOverlay<'_> {
    fn drop(&mut self) {
        umount2(&self.dir.join("m"), MntFlags::MNT_DETACH).unwrap();
    }
}

/// Our whiteouts as paths of the upper layer, as [`linux::whiteouts`] gives the kernel's.
fn our_whiteouts(fs: &OverlayFs, upper: &MemFs) -> Vec<String> {
    let mut paths = BTreeMap::new();
    let mut stack: Vec<(String, InodeRef)> = vec![(String::new(), upper.root())];
    while let Some((path, dir)) = stack.pop() {
        let mut names = Vec::new();
        dir.readdir(0, &mut |entry| {
            if entry.kind == FileType::Directory {
                names.push(String::from_utf8(entry.name.to_vec()).unwrap());
            }
            true
        })
        .unwrap();
        for name in names {
            let child = dir.lookup(name.as_bytes()).unwrap();
            stack.push((format!("{path}{name}/"), child));
        }
        paths.insert(dir.stat().unwrap().ino, path);
    }
    let marks = fs.export_marks().unwrap();
    let mut found = Vec::new();
    for dir in marks.dirs {
        let path = paths
            .get(&dir.ino)
            .expect("marks of a directory that exists");
        assert!(dir.origin != Origin::SameName || !dir.whiteouts.is_empty());
        found.extend(
            dir.whiteouts
                .into_iter()
                .map(|n| path.clone() + std::str::from_utf8(&n).unwrap()),
        );
    }
    found.sort();
    found
}

/// What our lower layers are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lower {
    /// Memory file systems, filled by the same operations as the kernel's directories.
    Memory,
    /// The very directories the kernel has as lower layers.
    Host,
}

#[test]
fn kernel_overlay_and_ours() {
    compare(250, Lower::Memory);
}

#[test]
fn kernel_overlay_and_ours_on_host_directories() {
    compare(100, Lower::Host);
}

fn compare(cases: u32, lower: Lower) {
    host::in_private_mounts("overlay comparison", move |dir| {
        let dir = dir.to_owned();
        let layer = || prop::collection::vec(building(), 0..25);
        let input = (layer(), layer(), prop::collection::vec(anything(), 1..50));
        explore(cases, &input, move |(first, second, ops)| {
            let dir = dir.join("t");
            for name in ["l1", "l2", "u", "w", "m"] {
                std::fs::create_dir_all(dir.join(name)).unwrap();
            }
            let result = compare_overlays(&dir, lower, [&first, &second], &ops);
            std::fs::remove_dir_all(&dir).unwrap();
            result
        });
    });
}

/// What a host directory does not show to a guest.
fn hidden_by_host(op: &Op) -> bool {
    match op {
        Op::Mkdev { .. } => true,
        Op::Setxattr { name, .. } => name.starts_with("trusted."),
        _ => false,
    }
}

/// Fills a lower layer on both sides.
fn fill(dir: &Path, lower: Lower, ops: &[Op]) -> Result<Arc<dyn FileSystem>, TestCaseError> {
    let mut kernel = Linux::new(dir);
    if lower == Lower::Host {
        for op in ops.iter().filter(|op| !hidden_by_host(op)) {
            // Many fail, which is no matter here.
            let _ = kernel.run(op);
        }
        let options = HostFsOptions {
            read_only: true,
            ..HostFsOptions::default()
        };
        let fs = HostFs::open(dir, options).unwrap();
        same_trees(None, &kernel, &Ours::new(fs.clone()))?;
        return Ok(fs);
    }
    let fs = new_memory();
    let mut ours = Ours::new(fs.clone());
    for op in ops {
        step(op, &mut kernel, &mut ours)?;
    }
    same_trees(None, &kernel, &ours)?;
    Ok(fs)
}

fn compare_overlays(dir: &Path, lower: Lower, layers: [&[Op]; 2], ops: &[Op]) -> TestCaseResult {
    let lowers = vec![
        fill(&dir.join("l1"), lower, layers[0])?,
        fill(&dir.join("l2"), lower, layers[1])?,
    ];
    let overlay = KernelOverlay { dir };
    overlay.mount();
    let upper = new_memory();
    let fs = OverlayFs::new(Some(upper.clone()), lowers, OverlayOptions::default()).unwrap();
    let (mut kernel, mut ours) = (Linux::new(&dir.join("m")), Ours::new(fs.clone()));
    let mut inos = same_trees(None, &kernel, &ours)?;
    for op in ops {
        step(op, &mut kernel, &mut ours)?;
        let now = same_trees(Some(op), &kernel, &ours)?;
        if keeps_inodes(op) {
            for (path, ino) in &inos {
                prop_assert_eq!(now.get(path), Some(ino), "inode of {} after {:?}", path, op);
            }
        }
        inos = now;
        let (theirs, mine) = (linux::whiteouts(&dir.join("u")), our_whiteouts(&fs, &upper));
        prop_assert_eq!(theirs, mine, "whiteouts after {:?}", op);
    }
    Ok(())
}
