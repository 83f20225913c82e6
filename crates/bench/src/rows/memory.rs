//! Memory, each in a process of its own so that nothing from before is counted.

use super::Session;
use crate::measure::{Stats, Unit};
use crate::probe;
use crate::report::{Bar, Line};
use anyhow::{Context, Result};

/// One process: a shell that waits for a line that never comes.
const WAITING: &[&str] = &["sh", "-c", "echo ready; read line"];
/// Two processes: a shell that waits for a command that sleeps.
const PARENT: &[&str] = &["sh", "-c", "echo ready; sleep 100000; true"];

/// VMs that are added to the first on the published runtime.
const FEW: usize = 3;

pub(super) fn sleepers(session: &mut Session) -> Result<Vec<Line>> {
    let (runs, count) = if session.quick { (1, 20) } else { (5, 50) };
    let mut lines = Vec::new();
    for (what, command) in [
        ("extra VM, one sleeping sh", WAITING),
        ("extra VM, sh and the sleep it waits for", PARENT),
    ] {
        let (mut rss, mut pss, mut tables) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..runs {
            let count = count.to_string();
            let words = [&["sleepers", &count], command].concat();
            let answer = probe::start(&words)?;
            let number = |name: &str| answer[name].as_f64().context("the probe gave no number");
            rss.push(number("rss")?);
            pss.push(number("pss")?);
            tables.push(number("tables")?);
        }
        // The published runtime does not get as far as a second shell that reads.
        let peer = match command == PARENT {
            true => session.peer(|peer| peer.sleepers(FEW, command)),
            false => None,
        };
        let kib = |samples| Stats::of(samples).median / 1024.0;
        let note = format!(
            "Rss of smaps_rollup, {count} VMs more than the first, divided; Pss {:.0} KiB, \
             page tables {:.0} KiB on top",
            kib(pss),
            kib(tables)
        );
        lines.push(
            Line::new(what, Stats::of(rss))
                .unit(Unit::Bytes)
                .bar(Bar::AtMost(f64::from(3 << 20)))
                .peer(peer.map(|bytes| Stats::of(vec![bytes])))
                .note(note),
        );
    }
    Ok(lines)
}

pub(super) fn life(session: &mut Session) -> Result<Vec<Line>> {
    let cycles = if session.quick { "200" } else { "1000" };
    let answer = probe::start(&["life", cycles])?;
    let seconds = answer["seconds"].as_array().context("no times")?;
    let seconds = seconds.iter().filter_map(|s| s.as_f64()).collect();
    let growth = answer["bytes"].as_f64().context("no number of bytes")?;
    Ok(vec![
        Line::new("make a VM, run true, dispose", Stats::of(seconds)),
        Line::new(
            "resident memory that stays after it",
            Stats::of(vec![growth]),
        )
        .unit(Unit::Bytes)
        .note(format!(
            "growth over {cycles} lives after 100 others, divided"
        )),
    ])
}
