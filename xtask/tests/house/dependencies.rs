//! Other people's crates: their licences, the ones we do without, and how many there are.

use crate::{metadata, none, packages, root};
use std::collections::{BTreeMap, BTreeSet};

/// Most crates that `aos` may be built from, ours included. A rise is a decision: say why in the
/// commit that raises it.
const CEILING: usize = 185;

/// The items of a list of strings in `deny.toml`.
fn allowed_licences() -> BTreeSet<String> {
    let text = std::fs::read_to_string(root().join("deny.toml")).expect("deny.toml is there");
    let list = text
        .split("allow = [")
        .nth(1)
        .and_then(|t| t.split(']').next())
        .expect("a list");
    list.split('"')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

/// Whether some choice that the SPDX expression leaves us is allowed.
fn satisfied(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let expression = expression.trim();
    for (word, all) in [(" AND ", true), (" OR ", false), ("/", false)] {
        let parts = split(expression, word);
        if parts.len() > 1 {
            let ok = |part: &&str| satisfied(part, allowed);
            return if all {
                parts.iter().all(ok)
            } else {
                parts.iter().any(ok)
            };
        }
    }
    match expression
        .strip_prefix('(')
        .and_then(|e| e.strip_suffix(')'))
    {
        Some(inner) => satisfied(inner, allowed),
        None => allowed.contains(expression),
    }
}

/// Splits at `word` outside of parentheses.
fn split<'t>(text: &'t str, word: &str) -> Vec<&'t str> {
    let (mut parts, mut depth, mut from, mut at) = (Vec::new(), 0, 0, 0);
    while at < text.len() {
        match text.as_bytes()[at] {
            b'(' => depth += 1,
            b')' => depth -= 1,
            _ if depth == 0 && text[at..].starts_with(word) => {
                parts.push(&text[from..at]);
                from = at + word.len();
                at = from;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    parts.push(&text[from..]);
    parts
}

#[test]
fn every_licence_is_on_the_list() {
    let allowed = allowed_licences();
    let complaints = packages()
        .iter()
        .filter(|p| {
            !p["license"]
                .as_str()
                .is_some_and(|l| satisfied(l, &allowed))
        })
        .map(|p| {
            format!(
                "{} is under {}, which deny.toml does not list",
                p["name"], p["license"]
            )
        })
        .collect();
    none(complaints);
    assert!(satisfied("(MIT OR GPL-3.0-only) AND Unicode-3.0", &allowed));
    assert!(!satisfied("MIT AND GPL-3.0-only", &allowed));
}

#[test]
fn the_product_does_without_what_deny_toml_bans_and_stays_small() {
    let text = std::fs::read_to_string(root().join("deny.toml")).expect("deny.toml is there");
    let banned: Vec<&str> = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("{ crate = \"")?.split('"').next())
        .collect();
    assert!(banned.len() >= 5, "the bans of deny.toml were not found");
    let product = product();
    let mut complaints = Vec::new();
    for (name, version) in &product {
        for ban in &banned {
            let hit = match ban.split_once(":<") {
                None => ban == name,
                Some((crate_name, below)) => {
                    let major = |v: &str| v.split('.').next().and_then(|m| m.parse::<u32>().ok());
                    crate_name == name && major(version) < major(below)
                }
            };
            if hit {
                complaints.push(format!(
                    "the product contains {name} {version}, which deny.toml bans"
                ));
            }
        }
    }
    if product.len() > CEILING {
        complaints.push(format!(
            "{} crates, and the ceiling is {CEILING}",
            product.len()
        ));
    }
    none(complaints);
}

/// Names and versions of what `aos` is built from: no tests, no benches.
fn product() -> BTreeSet<(String, String)> {
    let by_id: BTreeMap<&str, _> = packages()
        .iter()
        .map(|p| (p["id"].as_str().expect("an id"), p))
        .collect();
    let nodes: BTreeMap<&str, _> = metadata()["resolve"]["nodes"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|n| (n["id"].as_str().expect("an id"), n))
        .collect();
    let start = packages()
        .iter()
        .find(|p| p["name"] == "sidecar")
        .expect("it is ours");
    let (mut seen, mut todo) = (BTreeSet::new(), vec![start["id"].as_str().expect("an id")]);
    while let Some(id) = todo.pop() {
        if !seen.insert(id) {
            continue;
        }
        for dependency in nodes[id]["deps"].as_array().expect("a list") {
            let kinds = dependency["dep_kinds"].as_array().expect("a list");
            if kinds.iter().any(|k| k["kind"] != "dev") {
                todo.push(dependency["pkg"].as_str().expect("an id"));
            }
        }
    }
    let text = |v: &serde_json::Value| v.as_str().unwrap_or_default().to_owned();
    seen.iter()
        .map(|id| (text(&by_id[id]["name"]), text(&by_id[id]["version"])))
        .collect()
}
