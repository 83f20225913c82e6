//! Packages: opening, looking things up, putting them into a VM.

use super::{Session, pair};
use crate::measure::{Stats, Unit, contender, in_turns, time};
use crate::probe;
use crate::report::{Bar, Line};
use crate::setup::{self, Synthetic};
use anyhow::{Context, Result, bail};
use aospkg_format::{IndexSource, Package};
use kernel::vfs_core::errno::Errno;
use sidecar::software::Software;
use std::hint::black_box;
use std::sync::Arc;

/// Lookups in one sample.
const BATCH: u32 = 1000;

/// Names of directories that are listed, one after the other.
const DIRECTORIES: u32 = 999;

pub(super) fn open(session: &mut Session) -> Result<Vec<Line>> {
    let dir = session.dir()?;
    let (small, large) = (Synthetic::small(&dir)?, Synthetic::large(&dir)?);
    let open = |path: &std::path::Path| {
        let mut package = None;
        let seconds = time(|| {
            package = Some(Package::open(path, None)?);
            Ok(())
        })?;
        let package = package.context("it was opened")?;
        if package.index_source() != IndexSource::Trailer {
            bail!("{} has no index", path.display());
        }
        Ok(seconds)
    };
    let samples = in_turns(
        session.budget,
        20,
        &mut [
            contender(|| open(&small.path)),
            contender(|| open(&large.path)),
        ],
    )?;
    let (few, many) = pair(&samples)?;
    Ok(vec![
        Line::new("open, 10 entries", few.stats()).bar(Bar::AtMost(20e-6)),
        Line::new("open, 1,000,000 entries", many.stats())
            .beside("10 entries", few.stats())
            .bar(Bar::AtMost(20e-6))
            .bar(Bar::TimesAtMost(1.5)),
    ])
}

pub(super) fn pi(session: &mut Session) -> Result<Vec<Line>> {
    let path = setup::pi(&session.cache)?;
    let index = session.cache.index();
    let entries = Package::open(&path, Some(&index))?.entry_count();
    let open = |cache: Option<&std::path::Path>| {
        time(|| {
            black_box(Package::open(&path, cache)?);
            Ok(())
        })
    };
    let samples = in_turns(
        session.budget,
        10,
        &mut [contender(|| open(Some(&index))), contender(|| open(None))],
    )?;
    let (cached, decoded) = pair(&samples)?;
    Ok(vec![
        Line::new(
            format!("open pi ({entries} entries), cached index"),
            cached.stats(),
        )
        .beside("decode", decoded.stats())
        .bar(Bar::TimesAtMost(1.0 / 50.0)),
    ])
}

pub(super) fn install(session: &mut Session) -> Result<Vec<Line>> {
    let small = Synthetic::small(&session.dir()?)?;
    // So that the indexes are in the cache, as they are from the second open on.
    setup::common(&session.cache)?;
    let mut lines = Vec::new();
    let indexed = super::text(&small.path)?;
    for (what, words) in [
        (
            "the eight published packages, index cached",
            vec!["install"],
        ),
        ("a package with an index", vec!["install", indexed]),
    ] {
        let (written, created) = probe::trace_install(&words)?;
        let count = |what: String, number: u64| {
            Line::new(what, Stats::of(vec![number as f64]))
                .unit(Unit::Count)
                .bar(Bar::AtMost(0.0))
        };
        lines.push(count(format!("bytes written: {what}"), written).unit(Unit::Bytes));
        lines.push(count(format!("files created: {what}"), created));
    }
    Ok(lines)
}

pub(super) fn lookup(session: &mut Session) -> Result<Vec<Line>> {
    let large = Synthetic::large(&session.dir()?)?;
    let package = Package::open(&large.path, None)?;
    let software = Software::new(
        vec![Arc::new(Package::open(&large.path, None)?)],
        &Default::default(),
    )?;
    let vm = setup::vm(&session.runtime()?, &software)?;
    let paths: Vec<String> = large.strewn(200 * BATCH).map(|n| large.file(n)).collect();
    let inside: Vec<Vec<u8>> = paths
        .iter()
        .map(|path| format!("/opt/agentos/pkgs/synthetic/1.0.0/{path}").into_bytes())
        .collect();
    let (mut next, mut next_inside) = (
        paths.chunks(BATCH as usize).cycle(),
        inside.chunks(BATCH as usize).cycle(),
    );
    let (mut turn, mut turn_inside) = (0, 0);
    let directory = |turn: &mut u32| {
        *turn = (*turn + 1) % DIRECTORIES;
        format!("lib/package-{turn:04}")
    };
    let samples = in_turns(
        session.budget,
        20,
        &mut [
            contender(|| {
                let batch = next.next().context("there are paths")?;
                let seconds = time(|| {
                    for path in batch {
                        let found = package.lookup_path(path.as_bytes())?;
                        black_box(found.context("the path is there")?);
                    }
                    Ok(())
                })?;
                Ok(seconds / f64::from(BATCH))
            }),
            contender(|| {
                let batch = next_inside.next().context("there are paths")?;
                let seconds = time(|| {
                    for path in batch {
                        black_box(vm.stat(path)?);
                    }
                    Ok(())
                })?;
                Ok(seconds / f64::from(BATCH))
            }),
            contender(|| {
                let name = directory(&mut turn);
                let id = package.lookup_path(name.as_bytes())?;
                let id = id.context("the directory is there")?;
                time(|| {
                    let mut names = 0;
                    for entry in package.children(id)? {
                        names += entry?.name.len();
                    }
                    black_box(names);
                    Ok(())
                })
            }),
            contender(|| {
                turn_inside = (turn_inside + 1) % DIRECTORIES;
                let name =
                    format!("/opt/agentos/pkgs/synthetic/1.0.0/lib/package-{turn_inside:04}");
                time(|| {
                    let entries = vm.read_dir(name.as_bytes())?;
                    match entries.len() {
                        1000 => Ok(()),
                        _ => Err(Errno::EIO.into()),
                    }
                })
            }),
        ],
    )?;
    let stats: Vec<Stats> = samples.iter().map(|s| s.stats()).collect();
    let [find, stat, children, read_dir] = stats.try_into().ok().context("four were measured")?;
    Ok(vec![
        Line::new("find one path of 1,000,000", find).bar(Bar::AtMost(1e-6)),
        Line::new("the same, stat in a VM", stat),
        Line::new("list 1,000 entries", children).bar(Bar::AtMost(50e-6)),
        Line::new("the same, read_dir in a VM", read_dir),
    ])
}

pub(super) fn create(session: &mut Session) -> Result<Vec<Line>> {
    let runtime = session.runtime()?;
    let cache = session.cache.clone();
    let files = setup::common_files(&cache)?;
    let software = setup::common(&cache)?;
    // What is timed is kept until the clock has stopped: going away is no part of being made.
    let whole = contender(|| {
        let mut vm = None;
        time(|| {
            let software = setup::common(&cache)?;
            vm = Some(setup::vm(&runtime, &software)?);
            Ok(())
        })
    });
    let shared = contender(|| {
        let mut vm = None;
        time(|| {
            vm = Some(setup::vm(&runtime, &software)?);
            Ok(())
        })
    });
    let (samples, peer) = session.in_turns(5, vec![whole, shared], |peer| peer.create())?;
    let (whole, shared) = pair(&samples)?;
    let packages = files.len();
    Ok(vec![
        Line::new(
            format!("open {packages} packages and make a VM"),
            whole.stats(),
        )
        .bar(Bar::AtMost(1e-3))
        .peer(peer.map(|p| p.stats())),
        Line::new("make a VM, packages shared", shared.stats()).bar(Bar::AtMost(1e-3)),
    ])
}
