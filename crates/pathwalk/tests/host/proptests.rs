//! Random trees, `$PATH`s and commands, compared with the host.

use super::oracle::{Machine, Node, Tree};
use libtest_mimic::Failed;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestRunner};

/// Everything a tree may hold below its directories, each name in each of them.
const NAMES: [&str; 4] = ["x", "y", "z", "a"];
/// Directories of every tree.
const DIRS: [&str; 4] = ["a", "b", "b/c", "d"];

fn node() -> impl Strategy<Value = Option<Node>> {
    let modes = select(vec![
        0o755, 0o700, 0o111, 0o100, 0o010, 0o001, 0o644, 0o000, 0o4755,
    ]);
    let targets = select(vec![
        "x", "y", "../x", "../a/x", "nowhere", ".", "../b", "z",
    ]);
    prop_oneof![
        4 => Just(None),
        4 => (modes, select(vec![0, 1000, 1001])).prop_map(|(m, owner)| Some(Node::Script(m, owner))),
        2 => targets.prop_map(|target| Some(Node::Link(target))),
        1 => Just(Some(Node::Dir(0o755))),
        1 => Just(Some(Node::Fifo)),
    ]
}

fn tree() -> impl Strategy<Value = Tree> {
    let modes = select(vec![0o755, 0o755, 0o711, 0o700, 0o644, 0o000]);
    let dirs = proptest::collection::vec(modes, DIRS.len());
    let nodes = proptest::collection::vec(node(), NAMES.len() * (DIRS.len() + 1));
    (dirs, nodes).prop_map(|(modes, nodes)| {
        let mut tree: Tree = DIRS
            .iter()
            .zip(modes)
            .map(|(dir, mode)| (dir.to_string(), Node::Dir(mode)))
            .collect();
        let places = ["."]
            .iter()
            .chain(&DIRS)
            .flat_map(|dir| NAMES.map(|name| (dir, name)));
        for ((dir, name), node) in places.zip(nodes) {
            let path = if *dir == "." {
                name.to_owned()
            } else {
                format!("{dir}/{name}")
            };
            if let Some(node) = node
                && !DIRS.contains(&path.as_str())
            {
                tree.push((path, node));
            }
        }
        tree
    })
}

/// An element of `$PATH`; `@` stands for the tree's absolute path.
fn element() -> impl Strategy<Value = String> {
    let known = [
        "", ".", "a", "b", "b/c", "d", "@/a", "@/b/", "a/..", "x", "y", "b/a", "none", "/",
    ];
    prop_oneof![
        12 => select(known.to_vec()).prop_map(str::to_owned),
        1 => "[a-d./]{0,8}",
    ]
}

fn command() -> impl Strategy<Value = String> {
    let known = [
        "x", "y", "z", "a", "./x", "a/x", "@/b/y", "b/c/z", "x/", "", ".", "none",
    ];
    prop_oneof![6 => select(NAMES.to_vec()), 2 => select(known.to_vec())].prop_map(str::to_owned)
}

/// A fresh tree for each case, searched as root and as a user.
pub(crate) fn random_trees(machine: &Machine) -> Result<(), Failed> {
    let searches =
        proptest::collection::vec((command(), proptest::collection::vec(element(), 1..6)), 6);
    let config = Config {
        cases: 150,
        failure_persistence: None,
        ..Config::default()
    };
    TestRunner::new(config)
        .run(&(tree(), searches), |(tree, searches)| {
            let planted = machine.plant(&tree);
            let base = String::from_utf8_lossy(planted.base()).into_owned();
            for (command, path) in searches {
                let path = path.join(":").replace('@', &base);
                let command = command.replace('@', &base);
                for uid in [0, 1000] {
                    let agreed = planted.agree(command.as_bytes(), Some(path.as_bytes()), uid);
                    prop_assert!(
                        agreed.is_ok(),
                        "{command:?} in {path:?}: {}",
                        agreed.unwrap_err()
                    );
                }
            }
            Ok(())
        })
        .map_err(|e| e.to_string().into())
}
