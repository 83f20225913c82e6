//! The rows: what is measured, in the order it is shown.

mod data;
mod memory;
mod packages;
mod processes;

use crate::measure::{self, Contender, Samples, contender};
use crate::peer::Peer;
use crate::report::Line;
use crate::setup;
use anyhow::{Context, Result};
use kernel::Vm;
use sidecar::cache::Cache;
use sidecar::vm::Runtime;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// One subject.
pub(crate) struct Row {
    /// As it is chosen on the command line.
    pub(crate) name: &'static str,
    /// What it is about.
    pub(crate) about: &'static str,
    /// Measures it.
    pub(crate) run: fn(&mut Session) -> Result<Vec<Line>>,
}

/// Every row.
pub(crate) const ALL: &[Row] = &[
    Row {
        name: "open",
        about: "open a package with an index, 10 entries and 1,000,000",
        run: packages::open,
    },
    Row {
        name: "pi",
        about: "open the published pi: decode its index, or use the cached one",
        run: packages::pi,
    },
    Row {
        name: "install",
        about: "what installing packages writes, by system call trace",
        run: packages::install,
    },
    Row {
        name: "lookup",
        about: "find a path among 1,000,000, list 1,000 entries",
        run: packages::lookup,
    },
    Row {
        name: "create",
        about: "make a VM with the eight common packages",
        run: packages::create,
    },
    Row {
        name: "spawn",
        about: "true in a warm VM, from spawn to exit collected",
        run: processes::spawn,
    },
    Row {
        name: "shell",
        about: "sh -c true in a warm VM",
        run: processes::shell,
    },
    Row {
        name: "cold",
        about: "aos run -- true, the whole process, with cached code",
        run: processes::cold,
    },
    Row {
        name: "pipe",
        about: "head -c 1G /dev/zero | wc -c",
        run: data::pipe,
    },
    Row {
        name: "sort",
        about: "seq 1 1000 | sort -n | tail -1 in a warm VM",
        run: processes::sort,
    },
    Row {
        name: "memory",
        about: "resident memory of a VM that holds a sleeping shell",
        run: memory::sleepers,
    },
    Row {
        name: "parallel",
        about: "80 times true at once",
        run: processes::parallel,
    },
    Row {
        name: "search",
        about: "find and sed over 1,000 files",
        run: data::search,
    },
    Row {
        name: "life",
        about: "make a VM, run true in it, dispose of it, again and again",
        run: memory::life,
    },
];

impl Row {
    /// Whether one of the words is part of its name; no words choose all.
    pub(crate) fn chosen(&self, words: &[String]) -> bool {
        words.is_empty() || words.iter().any(|word| self.name.contains(word.as_str()))
    }
}

/// How long the published runtime is left to itself before the next row.
const SETTLE: Duration = Duration::from_secs(1);

/// What the rows share; made when first wanted.
pub(crate) struct Session {
    /// Time for each contender of a line.
    pub(crate) budget: Duration,
    /// Whether rough numbers will do.
    pub(crate) quick: bool,
    /// The user's cache directory.
    pub(crate) cache: Cache,
    /// The `aos` command.
    pub(crate) aos: PathBuf,
    runtime: Option<Runtime>,
    warm: Option<Vm>,
    peer: Option<Peer>,
    problem: Option<anyhow::Error>,
}

impl Session {
    pub(crate) fn new(budget: Duration, quick: bool, aos: PathBuf, peer: bool) -> Result<Session> {
        let cache = Cache::from_env()?;
        let peer = peer.then(|| Peer::start(&cache)).transpose()?;
        Ok(Session {
            budget,
            quick,
            cache,
            aos,
            runtime: None,
            warm: None,
            peer,
            problem: None,
        })
    }

    /// Directory of what takes long to make, and of the results.
    pub(crate) fn dir(&self) -> Result<PathBuf> {
        let dir = self.cache.root().join("bench");
        self.cache.ensure(&dir)?;
        Ok(dir)
    }

    /// Where the numbers of this run go.
    pub(crate) fn keep(&self, name: &str) -> Result<PathBuf> {
        Ok(self.dir()?.join(name))
    }

    /// The engines.
    pub(crate) fn runtime(&mut self) -> Result<Runtime> {
        if self.runtime.is_none() {
            self.runtime = Some(Runtime::new(self.cache.clone())?);
        }
        self.runtime.clone().context("it was just made")
    }

    /// A VM that stays, with the common packages.
    pub(crate) fn warm(&mut self) -> Result<Vm> {
        if self.warm.is_none() {
            let runtime = self.runtime()?;
            self.warm = Some(setup::vm(&runtime, &setup::common(&self.cache)?)?);
        }
        self.warm.clone().context("it was just made")
    }

    /// Asks the published runtime, if it is to be asked. What it fails at is no fault of the row.
    pub(crate) fn peer(&mut self, ask: impl FnOnce(&mut Peer) -> Result<f64>) -> Option<f64> {
        match ask(self.peer.as_mut()?) {
            Ok(number) => Some(number),
            Err(error) => {
                self.problem = Some(error);
                None
            }
        }
    }

    /// What the published runtime has failed at since this was last asked.
    pub(crate) fn problem(&mut self) -> Option<anyhow::Error> {
        self.problem.take()
    }

    /// Measures `contenders` in turns, and then the published runtime if it is to be asked: its
    /// threads go on working after an answer, which would fall on whoever comes next.
    pub(crate) fn in_turns(
        &mut self,
        rounds: usize,
        mut contenders: Vec<Contender<'_>>,
        mut ask: impl FnMut(&mut Peer) -> Result<f64>,
    ) -> Result<(Vec<Samples>, Option<Samples>)> {
        let ours = measure::in_turns(self.budget, rounds, &mut contenders)?;
        let Some(peer) = self.peer.as_mut() else {
            return Ok((ours, None));
        };
        let theirs = measure::in_turns(self.budget, rounds, &mut [contender(|| ask(peer))]);
        std::thread::sleep(SETTLE);
        match theirs {
            Ok(mut peer) => Ok((ours, peer.pop())),
            Err(error) => {
                self.problem = Some(error);
                Ok((ours, None))
            }
        }
    }
}

/// One of ours and what it is compared with, out of the result of [`measure::in_turns`].
fn pair(samples: &[Samples]) -> Result<(&Samples, &Samples)> {
    match samples {
        [ours, theirs] => Ok((ours, theirs)),
        _ => anyhow::bail!("two were to be measured, and {} were", samples.len()),
    }
}

/// The text of a path, for a command line.
fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a path that is not UTF-8")
}
