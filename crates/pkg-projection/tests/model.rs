//! Random packages against a model in which what they bring is put into a tree piece by piece.

mod support;

use pkg_projection::Options;
use proptest::prelude::*;
use proptest::sample::select;
use std::collections::BTreeMap;
use support::{Recipe, Vm};

/// A tree: content of files, `None` for directories, by path.
type Tree = BTreeMap<String, Option<String>>;

/// What is packed: files by path, and what is provided, as source and target.
#[derive(Clone, Debug)]
struct Plan {
    files: Vec<String>,
    provides: Vec<(usize, String)>,
    commands: Vec<(&'static str, usize)>,
}

const NAMES: [&str; 3] = ["a", "b", "c"];

fn path(depth: std::ops::Range<usize>) -> impl Strategy<Value = String> {
    proptest::collection::vec(select(NAMES.to_vec()), depth).prop_map(|names| names.join("/"))
}

fn plan() -> impl Strategy<Value = Plan> {
    let files = proptest::collection::vec(path(1..4), 1..8);
    let provides = proptest::collection::vec((any::<usize>(), path(0..4)), 0..5);
    let commands = proptest::collection::vec((select(vec!["x", "y", "z"]), any::<usize>()), 0..4);
    (files, provides, commands).prop_map(|(files, provides, commands)| Plan {
        files,
        provides,
        commands,
    })
}

/// The package's own tree; a path that goes through an earlier file is left out.
fn tree(plan: &Plan, name: &str) -> Tree {
    let mut tree = Tree::from([(String::new(), None)]);
    for path in &plan.files {
        put(&mut tree, path, Some(format!("{name}: {path}")));
    }
    tree
}

/// Puts a file or a directory into a tree, with the directories above it. What is there stays.
fn put(tree: &mut Tree, path: &str, content: Option<String>) {
    let above: Vec<&str> = path.match_indices('/').map(|(at, _)| &path[..at]).collect();
    if above
        .iter()
        .any(|dir| matches!(tree.get(*dir), Some(Some(_))))
    {
        return;
    }
    for dir in above {
        tree.entry(dir.to_owned()).or_insert(None);
    }
    tree.entry(path.to_owned()).or_insert(content);
}

fn join(dir: &str, name: &str) -> String {
    if dir.is_empty() || name.is_empty() {
        format!("{dir}{name}")
    } else {
        format!("{dir}/{name}")
    }
}

/// Puts what is at `source` of one tree to `target` of another, directories entry by entry.
fn provide(into: &mut Tree, target: &str, from: &Tree, source: &str) {
    // If the top itself finds no place, nothing below it does.
    put(into, target, from[source].clone());
    if from[source].is_none() && matches!(into.get(target), Some(None)) {
        for (path, content) in from {
            let below = if source.is_empty() {
                Some(path.as_str())
            } else {
                path.strip_prefix(&format!("{source}/"))
            };
            if let Some(below) = below.filter(|b| !b.is_empty()) {
                put(into, &join(target, below), content.clone());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1500) })]

    #[test]
    fn packages(plans in proptest::collection::vec(plan(), 1..4)) {
        let mut expected = Tree::from([(String::new(), None)]);
        let mut links: BTreeMap<&str, String> = BTreeMap::new();
        let mut recipes = Vec::new();
        for (number, plan) in plans.iter().enumerate() {
            let name = format!("p{number}");
            let tree = tree(plan, &name);
            let mut recipe = Recipe::new(&name, "1");
            for (path, content) in tree.iter().filter(|(path, _)| !path.is_empty()) {
                recipe = match content {
                    Some(content) => recipe.file(path, 0o644, content),
                    None => recipe.dir(path, 0o755),
                };
            }
            for (source, target) in &plan.provides {
                let sources: Vec<&String> = tree.keys().collect();
                let source = sources[source % sources.len()];
                if target.is_empty() && tree[source].is_some() {
                    continue;
                }
                recipe = recipe.provides(source, &format!("/{target}"));
                provide(&mut expected, target, &tree, source);
            }
            let files: Vec<&String> = tree.keys().filter(|path| tree[*path].is_some()).collect();
            let mut own = BTreeMap::new();
            for (command, file) in &plan.commands {
                let file = files[file % files.len()];
                recipe = recipe.command(command, file);
                own.insert(*command, format!("{name}: {file}"));
            }
            for (command, content) in own {
                links.entry(command).or_insert(content);
            }
            recipes.push(recipe);
        }
        let vm = Vm::with(&recipes, &Options::default());

        let mut seen = Tree::from([(String::new(), None)]);
        for path in vm.walk("") {
            if path.starts_with("/opt/") {
                continue;
            }
            match path.strip_suffix('/') {
                Some(dir) => seen.insert(dir[1..].to_owned(), None),
                None => seen.insert(path[1..].to_owned(), Some(vm.cat(&path).unwrap())),
            };
        }
        prop_assert_eq!(seen, expected);

        let farm: BTreeMap<String, String> = vm
            .ls("/opt/agentos/bin")
            .unwrap()
            .into_iter()
            .map(|name| (name.clone(), vm.cat(&format!("/opt/agentos/bin/{name}")).unwrap()))
            .collect();
        let links: BTreeMap<String, String> =
            links.into_iter().map(|(name, content)| (name.to_owned(), content)).collect();
        prop_assert_eq!(farm, links);
    }
}
