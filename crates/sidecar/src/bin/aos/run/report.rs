//! How a run went, for programs.

use kernel::{Event, EventQueue, ExitStatus};
use serde::Serialize;
use std::time::Duration;

/// What `--json` prints.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Report {
    /// Exit status of `aos` itself.
    pub(crate) status: u8,
    /// Exit code of the command, if it exited.
    pub(crate) code: Option<u8>,
    /// Name of the signal that ended it, if one did.
    pub(crate) signal: Option<String>,
    /// Whether its time was up.
    pub(crate) timed_out: bool,
    /// From the spawn to the end.
    pub(crate) duration_ms: f64,
    /// Limits that were nearly or wholly used up.
    pub(crate) limits: Vec<LimitNote>,
    /// What went wrong in runtimes: traps of programs.
    pub(crate) faults: Vec<String>,
    /// Why there was nothing to run.
    pub(crate) error: Option<String>,
}

/// A limit that was felt.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct LimitNote {
    pub(crate) name: &'static str,
    pub(crate) limit: u64,
    /// Whether something was refused for it.
    pub(crate) reached: bool,
}

impl Report {
    /// The command ended.
    pub(crate) fn ended(&mut self, status: ExitStatus, duration: Duration) {
        match status {
            ExitStatus::Code(code) => self.code = Some(code),
            ExitStatus::Signal { signal, .. } => self.signal = Some(signal.name().to_string()),
        }
        self.status = status.shell_code();
        self.duration_ms = duration.as_secs_f64() * 1e3;
    }

    /// Takes up what happened meanwhile; each limit once.
    pub(crate) fn collect(&mut self, events: &EventQueue) {
        while let Some(event) = events.pop() {
            match event {
                Event::LimitWarning { name, limit, .. } => self.note(name, limit, false),
                Event::LimitReached { name, limit, .. } => self.note(name, limit, true),
                Event::DriverFault { pid, message, .. } => {
                    self.faults.push(format!("process {pid}: {message}"));
                }
                _ => {}
            }
        }
    }

    fn note(&mut self, name: &'static str, limit: u64, reached: bool) {
        match self.limits.iter_mut().find(|note| note.name == name) {
            Some(note) => note.reached |= reached,
            None => self.limits.push(LimitNote {
                name,
                limit,
                reached,
            }),
        }
    }
}
