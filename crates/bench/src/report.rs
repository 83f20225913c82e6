//! Lines of the result, what they are held against, and how they are shown.

use crate::machine::{self, Machine};
use crate::measure::{Stats, Unit};
use crate::rows::Row;
use serde::Serialize;

/// What a number should be.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Bar {
    /// No more than this.
    AtMost(f64),
    /// No more than this many times the number beside it.
    TimesAtMost(f64),
    /// At least this many times the number beside it.
    TimesAtLeast(f64),
}

/// A number to compare with, measured in the same run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Beside {
    /// Of whom.
    pub(crate) what: String,
    /// The number.
    pub(crate) stats: Stats,
    /// The line's median over this one's.
    pub(crate) times: f64,
}

/// One number.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Line {
    /// Name of the row.
    pub(crate) row: &'static str,
    /// What was measured.
    pub(crate) what: String,
    /// In what.
    pub(crate) unit: Unit,
    /// The number.
    pub(crate) stats: Stats,
    /// What the bar compares with.
    pub(crate) beside: Option<Beside>,
    /// The published runtime.
    pub(crate) peer: Option<Beside>,
    /// What it should be.
    pub(crate) bars: Vec<Bar>,
    /// Whether it is, if there is a bar.
    pub(crate) reached: Option<bool>,
    /// What else one should know.
    pub(crate) note: Option<String>,
}

impl Line {
    /// A number in seconds; its row is filled in by the report.
    pub(crate) fn new(what: impl Into<String>, stats: Stats) -> Line {
        Line {
            row: "",
            what: what.into(),
            unit: Unit::Seconds,
            stats,
            beside: None,
            peer: None,
            bars: Vec::new(),
            reached: None,
            note: None,
        }
    }

    pub(crate) fn unit(mut self, unit: Unit) -> Line {
        self.unit = unit;
        self
    }

    pub(crate) fn beside(mut self, what: impl Into<String>, stats: Stats) -> Line {
        self.beside = Some(self.compare(what.into(), stats));
        self
    }

    pub(crate) fn peer(mut self, stats: Option<Stats>) -> Line {
        self.peer = stats.map(|stats| self.compare("published runtime".into(), stats));
        self
    }

    pub(crate) fn bar(mut self, bar: Bar) -> Line {
        self.bars.push(bar);
        self
    }

    pub(crate) fn note(mut self, note: impl Into<String>) -> Line {
        self.note = Some(note.into());
        self
    }

    fn compare(&self, what: String, stats: Stats) -> Beside {
        let times = self.stats.median / stats.median;
        Beside { what, stats, times }
    }

    fn judge(&mut self) {
        let times = self.beside.as_ref().map_or(f64::NAN, |b| b.times);
        let reaches = |bar: &Bar| match *bar {
            Bar::AtMost(most) => self.stats.median <= most,
            Bar::TimesAtMost(most) => times <= most,
            Bar::TimesAtLeast(least) => times >= least,
        };
        self.reached = (!self.bars.is_empty()).then(|| self.bars.iter().all(reaches));
    }
}

/// A row that could not be measured.
#[derive(Clone, Debug, Serialize)]
struct Failure {
    row: &'static str,
    error: String,
}

/// All that was measured.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    machine: Machine,
    quick: bool,
    lines: Vec<Line>,
    failures: Vec<Failure>,
}

impl Report {
    /// Nothing yet.
    pub(crate) fn new(quick: bool) -> Report {
        Report {
            machine: Machine::new(),
            quick,
            lines: Vec::new(),
            failures: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, row: &Row, lines: Vec<Line>) {
        for mut line in lines {
            line.row = row.name;
            line.judge();
            self.lines.push(line);
        }
    }

    pub(crate) fn failed(&mut self, row: &Row, error: &anyhow::Error) {
        self.failures.push(Failure {
            row: row.name,
            error: format!("{error:#}"),
        });
    }

    pub(crate) fn anything_failed(&self) -> bool {
        !self.failures.is_empty()
    }

    pub(crate) fn finish(&mut self) {
        self.machine.load_at_end = Some(machine::load());
    }

    /// Named after the moment, for a directory of many.
    pub(crate) fn file_name(&self) -> String {
        format!("{}.json", self.machine.date.replace(':', "-"))
    }

    /// For a person.
    pub(crate) fn table(&self) -> String {
        let machine = &self.machine;
        let mut text = format!(
            "{} cores, {}, Linux {}, load {} then {}, {} ({}), {}{}\n\n",
            machine.cores,
            machine.processor,
            machine.kernel,
            machine.load_at_start,
            machine.load_at_end.as_deref().unwrap_or("?"),
            machine.version,
            machine.commit.as_deref().unwrap_or("?"),
            machine.date,
            if self.quick { ", quick" } else { "" },
        );
        let mut cells: Vec<[String; 7]> = vec![
            [
                "row",
                "what",
                "median (p10 to p90)",
                "beside it",
                "bar",
                "",
                "published runtime",
            ]
            .map(str::to_owned),
        ];
        cells.extend(self.lines.iter().map(cells_of));
        let mut widths = [0; 7];
        for row in &cells {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        for row in &cells {
            let mut line = String::new();
            for (width, cell) in widths.iter().zip(row) {
                if *width > 0 {
                    line.push_str(&format!("{cell:width$}  "));
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        for line in &self.lines {
            if let Some(note) = &line.note {
                text.push_str(&format!("\n{}, {}: {note}", line.row, line.what));
            }
        }
        for failure in &self.failures {
            text.push_str(&format!(
                "\n{} could not be run: {}",
                failure.row, failure.error
            ));
        }
        text.trim_end().to_owned()
    }
}

fn cells_of(line: &Line) -> [String; 7] {
    let show = |value| show(line.unit, value);
    let beside = |beside: &Beside| {
        let number = show(beside.stats.median);
        format!("{} {number} (x{})", beside.what, short(beside.times))
    };
    let peer = |peer: &Beside| format!("{} (x{})", show(peer.stats.median), short(peer.times));
    let bars: Vec<String> = line
        .bars
        .iter()
        .map(|bar| match bar {
            Bar::AtMost(most) => format!("<= {}", show(*most)),
            Bar::TimesAtMost(most) => format!("<= x{}", short(*most)),
            Bar::TimesAtLeast(least) => format!(">= x{}", short(*least)),
        })
        .collect();
    [
        line.row.to_owned(),
        line.what.clone(),
        format!(
            "{} ({} to {})",
            show(line.stats.median),
            show(line.stats.p10),
            show(line.stats.p90)
        ),
        line.beside.as_ref().map(beside).unwrap_or_default(),
        bars.join(", "),
        match line.reached {
            Some(true) => "pass".into(),
            Some(false) => "MISS".into(),
            None => String::new(),
        },
        line.peer.as_ref().map(peer).unwrap_or_default(),
    ]
}

/// Three digits.
fn short(value: f64) -> String {
    let digits = match value.abs() {
        0.0 => 0,
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 0.1 => 2,
        _ => 4,
    };
    format!("{value:.digits$}")
}

fn show(unit: Unit, value: f64) -> String {
    let scaled = |steps: &[(f64, &str)]| {
        let (scale, name) = steps
            .iter()
            .find(|(scale, _)| value.abs() >= *scale)
            .or(steps.last())
            .copied()
            .unwrap_or((1.0, ""));
        format!("{} {name}", short(value / scale))
    };
    let (k, m, g) = (1024.0, 1024.0 * 1024.0, 1024.0 * 1024.0 * 1024.0);
    match unit {
        Unit::Seconds => scaled(&[(1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")]),
        Unit::Bytes => scaled(&[(m, "MiB"), (k, "KiB"), (1.0, "B")]),
        Unit::BytesPerSecond => scaled(&[(g, "GiB/s"), (m, "MiB/s"), (k, "KiB/s")]),
        Unit::Count => format!("{value}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_judged_by_the_median_and_by_the_ratio() {
        let judged = |line: Line| {
            let mut line = line;
            line.judge();
            line.reached
        };
        let stats = |value: f64| Stats::of(vec![value]);
        let line = Line::new("a", stats(2.0)).beside("b", stats(1.0));
        assert_eq!(judged(line.clone()), None);
        assert_eq!(judged(line.clone().bar(Bar::AtMost(2.0))), Some(true));
        assert_eq!(judged(line.clone().bar(Bar::TimesAtMost(1.5))), Some(false));
        assert_eq!(judged(line.clone().bar(Bar::TimesAtLeast(2.0))), Some(true));
        let both = line.bar(Bar::AtMost(2.0)).bar(Bar::TimesAtMost(1.9));
        assert_eq!(judged(both), Some(false));
        let nothing = Line::new("a", Stats::of(Vec::new())).bar(Bar::AtMost(1.0));
        assert_eq!(judged(nothing), Some(false));
    }

    #[test]
    fn numbers_have_three_digits_and_a_unit() {
        assert_eq!(show(Unit::Seconds, 0.000_012_34), "12.3 µs");
        assert_eq!(show(Unit::Seconds, 0.5), "500 ms");
        assert_eq!(show(Unit::Bytes, 3.0 * 1024.0 * 1024.0), "3.00 MiB");
        assert_eq!(
            show(Unit::BytesPerSecond, 2.5 * 1024f64.powi(3)),
            "2.50 GiB/s"
        );
        assert_eq!(show(Unit::Count, 0.0), "0");
        assert_eq!(show(Unit::Bytes, 0.0), "0 B");
    }
}
