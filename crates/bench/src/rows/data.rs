//! Bytes through pipes and many small files.

use super::{Session, pair, text};
use crate::measure::{Unit, contender, in_turns, time};
use crate::report::{Bar, Line};
use crate::setup;
use anyhow::{Context, Result, bail};
use std::process::{Command, Stdio};

/// Directories of the tree that is searched, and files in each.
const TREE: (u32, u32) = (20, 50);

/// Bytes of each of the files.
const FILE: usize = 4000;

/// Bytes that the published runtime is asked to pipe: a thousandth, for it needs minutes for more.
const FEW: u64 = 1 << 20;

pub(super) fn pipe(session: &mut Session) -> Result<Vec<Line>> {
    let bytes: u64 = if session.quick { 1 << 28 } else { 1 << 30 };
    let script = |bytes: u64| format!("head -c {bytes} /dev/zero | wc -c");
    let (vm, ours) = (session.warm()?, script(bytes));
    let contenders = vec![
        contender(|| {
            time(|| {
                let printed = setup::output(&vm, &["sh", "-c", &ours])?;
                counted(&printed, bytes)
            })
        }),
        contender(|| time(|| counted(&host(&["sh", "-c", &ours])?, bytes))),
    ];
    let few = script(FEW);
    let (samples, peer) = session.in_turns(3, contenders, |peer| peer.run(&["sh", "-c", &few]))?;
    let (guest, native) = pair(&samples)?;
    let line = Line::new("head -c 1G /dev/zero | wc -c", guest.rates(bytes as f64))
        .unit(Unit::BytesPerSecond)
        .beside("host", native.rates(bytes as f64))
        .bar(Bar::TimesAtLeast(0.5))
        .peer(peer.map(|p| p.rates(FEW as f64)));
    Ok(vec![match session.quick {
        true => line.note("quick: 256 MiB only"),
        false => line,
    }])
}

fn counted(printed: &str, bytes: u64) -> Result<()> {
    if printed.trim() != bytes.to_string() {
        bail!("{bytes} bytes went in, {} came out", printed.trim());
    }
    Ok(())
}

pub(super) fn search(session: &mut Session) -> Result<Vec<Line>> {
    let vm = setup::vm(&session.runtime()?, &setup::common(&session.cache)?)?;
    let dir = tempfile::tempdir()?;
    let inside = "/tmp/tree";
    for directory in 0..TREE.0 {
        let (there, here) = (
            format!("{inside}/{directory}"),
            dir.path().join(directory.to_string()),
        );
        vm.mkdir_all(there.as_bytes(), 0o755)?;
        std::fs::create_dir(&here)?;
        for file in 0..TREE.1 {
            let content = content(directory * TREE.1 + file);
            vm.write_file(format!("{there}/{file}").as_bytes(), &content, 0o644)?;
            std::fs::write(here.join(file.to_string()), content)?;
        }
    }
    let outside = text(dir.path())?;
    let files = (TREE.0 * TREE.1) as usize;
    let mut lines = Vec::new();
    let scripts = |tree: &str| {
        [
            format!("find {tree} -type f | xargs sed -n /needle/p"),
            format!("find {tree}"),
        ]
    };
    let [search, list] = scripts(inside);
    let [host_search, host_list] = scripts(outside);
    for (what, ours, theirs, expected) in [
        (
            "find | xargs sed over 1,000 files",
            search,
            host_search,
            files / 10,
        ),
        (
            "find over 1,000 files",
            list,
            host_list,
            files + TREE.0 as usize + 1,
        ),
    ] {
        let matches = |printed: String| match printed.lines().count() {
            lines if lines == expected => Ok(()),
            lines => bail!("{what}: {lines} lines were printed, not {expected}"),
        };
        let samples = in_turns(
            session.budget,
            5,
            &mut [
                contender(|| time(|| matches(setup::output(&vm, &["sh", "-c", &ours])?))),
                contender(|| time(|| matches(host(&["sh", "-c", &theirs])?))),
            ],
        )?;
        let (guest, native) = pair(&samples)?;
        lines.push(Line::new(what, guest.stats()).beside("host (GNU)", native.stats()));
    }
    Ok(lines)
}

/// Lines of text; a tenth of the files holds the word that is searched for.
fn content(number: u32) -> Vec<u8> {
    let mut text = Vec::with_capacity(FILE + 64);
    while text.len() < FILE {
        text.extend_from_slice(b"nothing but a haystack, line after line of it\n");
    }
    if number.is_multiple_of(10) {
        text.extend_from_slice(b"and here a needle\n");
    }
    text
}

/// What a host command prints.
fn host(words: &[&str]) -> Result<String> {
    let (program, arguments) = words.split_first().context("a command has a name")?;
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {program}"))?;
    if !output.status.success() {
        bail!("{words:?} ended with {}", output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
