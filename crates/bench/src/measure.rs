//! Taking samples, in turns, and what is said of them.

use anyhow::Result;
use serde::Serialize;
use std::time::{Duration, Instant};

/// How long one contender may go on before it is another's turn.
const TURN: Duration = Duration::from_millis(10);

/// Samples kept of one contender at most.
const MOST: usize = 20_000;

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Unit {
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// Bytes in a second.
    BytesPerSecond,
    /// Things.
    Count,
}

/// Samples of one contender, summed up.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Stats {
    /// How many samples.
    pub(crate) samples: usize,
    /// A tenth of the samples lies below.
    pub(crate) p10: f64,
    /// The middle.
    pub(crate) median: f64,
    /// A tenth lies above.
    pub(crate) p90: f64,
    /// One in a hundred lies above.
    pub(crate) p99: f64,
}

impl Stats {
    /// Sums samples up. Of none nothing is known, not even zero.
    pub(crate) fn of(mut samples: Vec<f64>) -> Stats {
        samples.sort_by(f64::total_cmp);
        let last = samples.len().saturating_sub(1) as f64;
        let at = |part: f64| {
            let place = (last * part).round() as usize;
            samples.get(place).copied().unwrap_or(f64::NAN)
        };
        Stats {
            samples: samples.len(),
            p10: at(0.1),
            median: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
        }
    }
}

/// What was measured of one contender, in seconds.
#[derive(Clone, Debug)]
pub(crate) struct Samples(pub(crate) Vec<f64>);

impl Samples {
    /// Summed up as they are.
    pub(crate) fn stats(&self) -> Stats {
        Stats::of(self.0.clone())
    }

    /// Summed up as rates: each run dealt with `amount`.
    pub(crate) fn rates(&self, amount: f64) -> Stats {
        Stats::of(self.0.iter().map(|seconds| amount / seconds).collect())
    }
}

/// One of those who are measured in turns; it gives the seconds that one run took.
pub(crate) type Contender<'a> = Box<dyn FnMut() -> Result<f64> + 'a>;

/// Boxes a contender.
pub(crate) fn contender<'a>(run: impl FnMut() -> Result<f64> + 'a) -> Contender<'a> {
    Box::new(run)
}

/// The seconds that `work` takes.
pub(crate) fn time(work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed().as_secs_f64())
}

/// Lets each contender run once unmeasured, and then all in turns for `budget` each, at least
/// `rounds` times. The result has one element for each, in their order.
pub(crate) fn in_turns(
    budget: Duration,
    rounds: usize,
    contenders: &mut [Contender<'_>],
) -> Result<Vec<Samples>> {
    let mut samples: Vec<Vec<f64>> = contenders.iter().map(|_| Vec::new()).collect();
    for run in contenders.iter_mut() {
        run()?;
    }
    let budget = budget * contenders.len() as u32;
    let start = Instant::now();
    let mut round = 0;
    while round < rounds || start.elapsed() < budget {
        for (run, samples) in contenders.iter_mut().zip(&mut samples) {
            let turn = Instant::now();
            loop {
                let sample = run()?;
                if samples.len() < MOST {
                    samples.push(sample);
                }
                if turn.elapsed() >= TURN {
                    break;
                }
            }
        }
        round += 1;
    }
    Ok(samples.into_iter().map(Samples).collect())
}
