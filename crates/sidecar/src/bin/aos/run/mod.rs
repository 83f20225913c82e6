//! `aos run`: a command in a fresh VM, with the caller's streams; and what `aos shell` shares with it.
//!
//! The way to the first instruction of the guest is kept short: options, packages from their
//! cached indexes, a VM, a spawn. No helper process, no configuration file, no thread but the
//! guest's own and the one that waits for signals.

mod options;
mod report;
mod session;
mod signals;

pub(crate) use options::{Arguments, Machine};
pub(crate) use session::Seat;

use crate::output;
use kernel::{Child, EventQueue, KillTarget, SpawnError, SpawnRequest, Stdio, Vm};
use nix::unistd::{dup2_stdin, dup2_stdout};
use report::Report;
use sidecar::cache::Cache;
use sidecar::hostio::{self, Direction, InputFile};
use sidecar::npm::{NpmSpec, pinned};
use sidecar::software::{Software, Source};
use sidecar::vm::{Runtime, VmBuilder};
use signals::Signals;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use vfs_core::file::{OpenFile, Whence};

/// Status when there was no terminal to show a terminal session on.
const NO_TERMINAL: u8 = 1;
/// Status when the time was up, as timeout(1) has it.
const TIMED_OUT: u8 = 124;
/// Status when there was no machine, as env(1) and its like have it for their own failures.
const NO_MACHINE: u8 = 125;
/// Status of a wrong command line.
const USAGE: u8 = 2;
/// Events kept of a run; beyond that the oldest are dropped.
const EVENTS: usize = 1024;
/// How long to wait for the threads of guests that were killed.
const GRACE: Duration = Duration::from_secs(2);

/// A command to run.
pub(crate) struct Job {
    /// Where.
    pub(crate) machine: Machine,
    /// A path or a name.
    pub(crate) command: Vec<u8>,
    /// Its arguments, the zeroth too.
    pub(crate) argv: Vec<Vec<u8>>,
    /// The terminal it is to have, if it is not to have the caller's streams.
    pub(crate) seat: Option<Seat>,
}

/// `aos run`.
pub(crate) fn run(arguments: Arguments) -> ExitCode {
    let words = arguments.command.into_iter().map(OsStringExt::into_vec);
    let argv: Vec<_> = words.collect();
    let seat = match arguments.tty {
        true => match Seat::take(arguments.answer_cursor) {
            Some(seat) => Some(seat),
            None => {
                output::say(
                    "--tty: standard input is not a terminal; without --tty the command gets plain streams",
                );
                return ExitCode::from(NO_TERMINAL);
            }
        },
        false => None,
    };
    start(Job {
        machine: arguments.machine,
        command: argv.first().cloned().unwrap_or_default(),
        argv,
        seat,
    })
}

/// Runs the command; never fails but with a status.
pub(crate) fn start(job: Job) -> ExitCode {
    let limits = match job.machine.limits() {
        Ok(limits) => limits,
        Err(message) => {
            output::say(&format!("--limit: {message}"));
            return ExitCode::from(USAGE);
        }
    };
    let json = job.machine.json.clone();
    let mut report = Report::default();
    if let Err(error) = attempt(job, limits, &mut report) {
        let text = output::sentence(&error);
        output::say(&text);
        report.error = Some(text);
        report.status = match error.downcast_ref::<NotStarted>() {
            Some(not_started) => not_started.status,
            None => NO_MACHINE,
        };
    }
    if let Some(file) = json
        && let Err(error) = write_report(&report, &file)
    {
        output::say(&format!("--json: cannot write {}: {error}", file.display()));
    }
    ExitCode::from(report.status)
}

fn attempt(
    job: Job,
    (limits, packages): (kernel::Limits, pkg_projection::Options),
    report: &mut Report,
) -> anyhow::Result<()> {
    let signals = match &job.seat {
        Some(_) => Signals::hold_with_terminal()?,
        None => Signals::hold()?,
    };
    let machine = job.machine;
    let cache = Cache::from_env()?;
    let mut note = |spec: &NpmSpec| output::say(&format!("fetching {spec} with npm, once"));
    let sources = match machine.packages.is_empty() {
        true => vec![Source::parse(pinned::COMMON.as_ref())?],
        false => machine.packages.clone(),
    };
    let software = Software::open(&sources, &packages, &cache, &mut note)?;
    for warning in software.warnings() {
        output::say(&format!(
            "warning: {}",
            output::escaped(warning.to_string().as_bytes())
        ));
    }
    let runtime = Runtime::new(cache)?;
    if let Some(problem) = runtime.problem() {
        output::say(&format!("warning: compiled code is not kept: {problem}"));
    }
    let events = Arc::new(EventQueue::new(EVENTS));
    let mut builder = VmBuilder::new(&runtime)
        .software(&software)
        .limits(limits)
        .events(events.clone());
    for mount in machine.mounts.clone() {
        builder = builder.mount(mount);
    }
    if let Some(cred) = machine.cred() {
        builder = builder.cred(cred);
    }
    if let Some(dir) = machine.cwd.clone() {
        builder = builder.cwd(dir.into_vec());
    }
    // The terminal is described first; what the command line sets is the caller's own word and
    // comes over it. Nothing else of the caller's environment is looked at.
    for entry in job.seat.iter().flat_map(Seat::environment) {
        builder = builder.env(entry);
    }
    for entry in machine.env.clone() {
        builder = builder.env(entry);
    }
    let vm = builder.build()?;
    let mut request = SpawnRequest {
        argv: job.argv,
        ..SpawnRequest::new(job.command, [""; 0])
    };
    match job.seat {
        Some(seat) => seat.run(&vm, &mut request, signals, machine.timeout, report)?,
        None => stream(&vm, &mut request, signals, machine.timeout, report)?,
    }
    report.collect(&events);
    for fault in &report.faults {
        output::say(&output::escaped(fault.as_bytes()));
    }
    for limit in report.limits.iter().filter(|limit| limit.reached) {
        output::say(&format!(
            "the limit {} ({}) was reached",
            limit.name, limit.limit
        ));
    }
    Ok(())
}

/// Runs the command with the caller's streams.
fn stream(
    vm: &Vm,
    request: &mut SpawnRequest,
    signals: Signals,
    timeout: Option<Duration>,
    report: &mut Report,
) -> anyhow::Result<()> {
    let streams = Streams::take()?;
    request.stdio = streams.stdio();
    let started = Instant::now();
    let child = vm.spawn(request).map_err(explain)?;
    request.stdio = Default::default();
    signals.forward(vm.clone(), &child)?;
    let status = match timeout {
        None => child.wait(),
        Some(timeout) => match child.wait_timeout(timeout) {
            Some(status) => status,
            None => {
                report.timed_out = true;
                kill_all(vm, &child)
            }
        },
    };
    report.ended(status, started.elapsed());
    if report.timed_out {
        report.status = TIMED_OUT;
    }
    streams.leave();
    Ok(())
}

/// Kills every process; waits for the command's own end, which comes at once unless the host is
/// starved.
fn kill_all(vm: &Vm, child: &Child) -> kernel::ExitStatus {
    let killed = kernel::Signal::KILL;
    // Nobody left to kill is what is wanted.
    let _ = vm.kill(KillTarget::All, killed);
    child
        .wait_timeout(GRACE)
        .unwrap_or(kernel::ExitStatus::Signal {
            signal: killed,
            core: false,
        })
}

/// The machine was there and the command was not.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
struct NotStarted {
    text: String,
    status: u8,
}

/// A spawn that failed: the status is a shell's, the text says where was looked or which
/// interpreter is at fault.
fn explain(error: SpawnError) -> anyhow::Error {
    match &error {
        SpawnError::Program { .. } => NotStarted {
            text: output::escaped(error.to_string().as_bytes()),
            status: error.shell_code(),
        }
        .into(),
        _ => error.into(),
    }
}

/// The caller's three streams, lent to the guest.
struct Streams([Arc<OpenFile>; 3]);

impl Streams {
    /// Takes the streams. Input and output then belong to the guest alone, so that when it closes
    /// them whoever is at the other end sees it; errors stay ours too.
    fn take() -> io::Result<Streams> {
        let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
        let files = [
            hostio::open(stdin.as_fd().try_clone_to_owned()?, Direction::Input)?,
            hostio::open(stdout.as_fd().try_clone_to_owned()?, Direction::Output)?,
            hostio::open(stderr.as_fd().try_clone_to_owned()?, Direction::Output)?,
        ];
        let null = File::options().read(true).write(true).open("/dev/null")?;
        dup2_stdin(&null)?;
        dup2_stdout(&null)?;
        Ok(Streams(files))
    }

    fn stdio(&self) -> [Stdio; 3] {
        self.0.clone().map(Stdio::File)
    }

    /// Leaves an input file where the guest left it: what moved its offset last may have been a
    /// seek, which the host does not see.
    fn leave(&self) {
        if let Some(input) = self.0[0].ops().as_any().downcast_ref::<InputFile>()
            && let Ok(offset) = self.0[0].seek(0, Whence::Current)
        {
            input.leave_at(offset);
        }
    }
}

fn write_report(report: &Report, file: &std::path::Path) -> io::Result<()> {
    let mut line = serde_json::to_vec(report)?;
    line.push(b'\n');
    if file.as_os_str() == "-" {
        io::stderr().write_all(&line)
    } else {
        std::fs::write(file, line)
    }
}
