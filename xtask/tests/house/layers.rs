//! Who may see whom. The table in `docs/ARCHITECTURE.md` is the law; this reads it.

use crate::{none, packages, root};
use std::collections::{BTreeMap, BTreeSet};

/// Rows of the table: a crate and the crates it may depend on, in the order of the layers.
fn table() -> Vec<(String, BTreeSet<String>)> {
    let text = std::fs::read_to_string(root().join("docs/ARCHITECTURE.md")).expect("it is there");
    let names = |cell: &str| -> Vec<String> {
        cell.split('`')
            .skip(1)
            .step_by(2)
            .map(str::to_owned)
            .collect()
    };
    let mut rows: Vec<(String, BTreeSet<String>)> = Vec::new();
    let table = text
        .lines()
        .skip_while(|line| !line.starts_with("| crate | concern | may depend on |"))
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    for line in table {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let allowed: BTreeSet<String> = match cells[3] {
            "all above" => rows.iter().map(|(name, _)| name.clone()).collect(),
            cell => names(cell).into_iter().collect(),
        };
        for name in names(cells[1]) {
            rows.push((name, allowed.clone()));
        }
    }
    assert!(
        rows.len() >= 11,
        "the table of docs/ARCHITECTURE.md was not found"
    );
    rows
}

#[test]
fn a_crate_depends_only_on_what_the_architecture_lets_it_see() {
    let rows = table();
    let order: Vec<&String> = rows.iter().map(|(name, _)| name).collect();
    let law: BTreeMap<&String, &BTreeSet<String>> = rows.iter().map(|(n, a)| (n, a)).collect();
    let ours: Vec<_> = packages()
        .iter()
        .filter(|p| p["source"].is_null())
        .collect();
    let mut complaints = Vec::new();
    for package in &ours {
        let name = package["name"]
            .as_str()
            .expect("packages have names")
            .to_owned();
        let Some(allowed) = law.get(&name) else {
            complaints.push(format!(
                "{name} is not in the table of docs/ARCHITECTURE.md"
            ));
            continue;
        };
        for dependency in package["dependencies"].as_array().expect("a list") {
            let on = dependency["name"]
                .as_str()
                .expect("dependencies have names")
                .to_owned();
            if dependency["path"].is_null() {
                continue;
            }
            if dependency["kind"] == "dev" {
                // Tests may look at anything that lies above, as the crates below them do.
                let place = |n: &String| order.iter().position(|o| *o == n);
                if place(&on) >= place(&name) {
                    complaints.push(format!(
                        "the tests of {name} depend on {on}, which is not above it"
                    ));
                }
            } else if !allowed.contains(&on) {
                complaints.push(format!("{name} depends on {on}, which it must not see"));
            }
        }
    }
    none(complaints);
}

#[test]
fn the_table_names_no_crate_that_is_gone_and_points_only_up() {
    let rows = table();
    let mut complaints = Vec::new();
    for (place, (name, allowed)) in rows.iter().enumerate() {
        if !packages()
            .iter()
            .any(|p| p["source"].is_null() && p["name"] == name.as_str())
        {
            complaints.push(format!("{name} is in the table and not in the workspace"));
        }
        for on in allowed {
            if !rows[..place].iter().any(|(above, _)| above == on) {
                complaints.push(format!(
                    "the table lets {name} see {on}, which is not above it"
                ));
            }
        }
    }
    none(complaints);
}

#[test]
fn every_crate_inherits_the_lints_and_explains_itself() {
    let mut complaints = Vec::new();
    for package in packages().iter().filter(|p| p["source"].is_null()) {
        let name = package["name"].as_str().expect("packages have names");
        let manifest = package["manifest_path"]
            .as_str()
            .expect("packages have manifests");
        let manifest = std::path::Path::new(manifest);
        let text = std::fs::read_to_string(manifest).expect("the manifest is there");
        if !text.contains("[lints]\nworkspace = true") {
            complaints.push(format!("{name} does not inherit the workspace's lints"));
        }
        if package["license"] != "Apache-2.0" {
            complaints.push(format!("{name} is not under Apache-2.0"));
        }
        if package["description"].is_null() {
            complaints.push(format!("{name} has no description"));
        }
        if name != "xtask" && !manifest.with_file_name("README.md").is_file() {
            complaints.push(format!("{name} has no README.md"));
        }
    }
    none(complaints);
}
