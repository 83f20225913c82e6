//! What every file must look like.

use crate::{files, none, root};
use std::path::Path;

/// Most lines of a source file. Longer ones hold two ideas.
const LINES: usize = 800;

/// The text of our own files, with their names.
fn texts() -> Vec<(String, String)> {
    files()
        .into_iter()
        .filter(|f| {
            let name = f.to_string_lossy();
            let known = ["rs", "toml", "md", "sh", "json", "txt", "wat"];
            let text = f.extension().is_some_and(|e| known.iter().any(|k| e == *k));
            (text || name == ".ci/run") && name != "Cargo.lock"
        })
        .map(|f| {
            let text = std::fs::read_to_string(root().join(&f))
                .unwrap_or_else(|e| panic!("{}: {e}", f.display()));
            (f.to_string_lossy().into_owned(), text)
        })
        .collect()
}

fn is_source(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|e| e == "rs")
}

#[test]
fn every_source_file_says_what_it_is_for_and_is_one_idea() {
    let mut complaints = Vec::new();
    for (name, text) in texts().iter().filter(|(name, _)| is_source(name)) {
        if !text.starts_with("//! ") && !text.starts_with("#!") {
            complaints.push(format!("{name} has no module documentation at its head"));
        }
        let lines = text.lines().count();
        if lines > LINES {
            complaints.push(format!("{name} has {lines} lines; {LINES} is the most"));
        }
    }
    none(complaints);
}

#[test]
fn no_file_ends_its_lines_in_blanks_or_names_a_machine() {
    // Put together here, so that this file does not name them either.
    let machine = [
        concat!("/work/m", "ain"),
        concat!("/work/s", "hared"),
        concat!("/work/t", "arget"),
        concat!("/root/.", "c"),
        concat!("/tmp/bash", "_jobs"),
        concat!("registry.npm", "js.org"),
        concat!("static.crates", ".io"),
        concat!("deb.debian", ".org"),
        concat!("files.python", "hosted.org"),
    ];
    let mut complaints = Vec::new();
    for (name, text) in texts() {
        for (at, line) in text.lines().enumerate() {
            let place = format!("{name}:{}", at + 1);
            if line.ends_with([' ', '\t']) && !name.ends_with(".txt") {
                complaints.push(format!("{place} ends in a blank"));
            }
            if let Some(word) = machine.iter().find(|word| line.contains(*word)) {
                complaints.push(format!("{place} names {word}"));
            }
        }
        if !text.is_empty() && !text.ends_with('\n') {
            complaints.push(format!("{name} does not end in a newline"));
        }
    }
    none(complaints);
}

#[test]
fn libraries_print_nothing_and_leave_nothing_undone() {
    let unfinished = [
        concat!("to", "do!("),
        concat!("unimple", "mented!("),
        concat!("FIX", "ME"),
    ];
    let hiding = [concat!("#[ign", "ore"), concat!("#[should_", "panic")];
    let printing = ["println!(", "print!(", "eprintln!(", "eprint!(", "dbg!("];
    let mut complaints = Vec::new();
    for (name, text) in texts().iter().filter(|(name, _)| is_source(name)) {
        let library =
            name.starts_with("crates/") && name.contains("/src/") && !name.contains("/bin/");
        let mut tests = false;
        for (at, line) in text.lines().enumerate() {
            tests |= line.trim() == "#[cfg(test)]";
            let code = !line.trim_start().starts_with("//");
            if library && code && !tests && printing.iter().any(|word| line.contains(word)) {
                complaints.push(format!("{name}:{} prints", at + 1));
            }
            if unfinished.iter().any(|word| line.contains(word)) {
                complaints.push(format!("{name}:{} is unfinished", at + 1));
            }
            if hiding.iter().any(|word| line.contains(word)) {
                complaints.push(format!("{name}:{} hides a test", at + 1));
            }
        }
    }
    none(complaints);
}

#[test]
fn documents_link_only_to_files_that_are_there() {
    let mut complaints = Vec::new();
    for (name, text) in texts().iter().filter(|(name, _)| name.ends_with(".md")) {
        let dir = root().join(name);
        let dir = dir.parent().expect("a file lies in a directory");
        for link in text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
        {
            let target = link.split('#').next().unwrap_or_default();
            let local = !target.is_empty() && !target.contains("://") && !target.contains(' ');
            if local && !dir.join(target).exists() {
                complaints.push(format!("{name} links to {target}, which is not there"));
            }
        }
    }
    none(complaints);
}
