//! Processes: spawning, shells, whole runs of `aos`, and many at once.

use super::{Session, pair};
use crate::measure::{Samples, contender, time};
use crate::report::{Bar, Line};
use crate::setup;
use anyhow::{Context, Result, bail};
use kernel::{ExitStatus, Vm};
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, posix_spawn};
use nix::sys::wait::{WaitStatus, waitpid};
use std::ffi::CString;
use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

/// Processes at once.
const MANY: usize = 80;

/// Runs `words` in the VM, without input and output, to the exit status.
fn guest(vm: &Vm, words: &[&str]) -> Result<()> {
    let status = vm.spawn(&setup::request(words))?.wait();
    if status != ExitStatus::Code(0) {
        bail!("{words:?} ended with {status:?}");
    }
    Ok(())
}

/// Starts a host program as cheaply as the host can, and waits for it.
fn host(words: &[CString]) -> Result<()> {
    let program = words.first().context("a program has a name")?;
    let actions = PosixSpawnFileActions::init()?;
    let attributes = PosixSpawnAttr::init()?;
    let pid = posix_spawn(
        program.as_c_str(),
        &actions,
        &attributes,
        words,
        &[] as &[CString],
    )?;
    match waitpid(pid, None)? {
        WaitStatus::Exited(_, 0) => Ok(()),
        status => bail!("{words:?} ended with {status:?}"),
    }
}

fn words(words: &[&str]) -> Result<Vec<CString>> {
    Ok(words
        .iter()
        .map(|word| CString::new(*word))
        .collect::<Result<_, _>>()?)
}

/// One command in a warm VM, beside the same on the host and on the published runtime.
fn beside_host(
    session: &mut Session,
    what: &str,
    command: &[&str],
    native: &[&str],
    bar: Bar,
) -> Result<Vec<Line>> {
    let vm = session.warm()?;
    let host_words = words(native)?;
    let contenders = vec![
        contender(|| time(|| guest(&vm, command))),
        contender(|| time(|| host(&host_words))),
    ];
    let (samples, peer) = session.in_turns(5, contenders, |peer| peer.run(command))?;
    let (ours, theirs) = pair(&samples)?;
    Ok(vec![
        Line::new(what, ours.stats())
            .beside("host", theirs.stats())
            .bar(bar)
            .peer(peer.map(|p| p.stats())),
    ])
}

pub(super) fn spawn(session: &mut Session) -> Result<Vec<Line>> {
    beside_host(
        session,
        "warm true",
        &["true"],
        &["/bin/true"],
        Bar::TimesAtMost(0.4),
    )
}

pub(super) fn shell(session: &mut Session) -> Result<Vec<Line>> {
    beside_host(
        session,
        "warm sh -c true",
        &["sh", "-c", "true"],
        &["/bin/sh", "-c", "true"],
        Bar::AtMost(2e-3),
    )
}

pub(super) fn sort(session: &mut Session) -> Result<Vec<Line>> {
    let command = ["sh", "-c", "seq 1 1000 | sort -n | tail -1"];
    let printed = setup::output(&session.warm()?, &command)?;
    if printed != "1000\n" {
        bail!("{command:?} printed {printed:?}");
    }
    beside_host(
        session,
        "warm seq | sort | tail",
        &command,
        &["/bin/sh", "-c", "seq 1 1000 | sort -n | tail -1 >/dev/null"],
        Bar::AtMost(5e-3),
    )
}

pub(super) fn cold(session: &mut Session) -> Result<Vec<Line>> {
    let aos = session.aos.clone();
    let run = |arguments: &[&str]| {
        let status = Command::new(&aos)
            .args(["run", "--"])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()
            .with_context(|| format!("cannot start {}", aos.display()))?;
        if !status.success() {
            bail!("{} ended with {status}", aos.display());
        }
        Ok(())
    };
    let native = words(&["/bin/sh", "-c", "true"])?;
    let contenders = vec![
        contender(|| time(|| run(&["true"]))),
        contender(|| time(|| run(&["sh", "-c", "true"]))),
        contender(|| time(|| host(&native))),
    ];
    // A process of its own each time, so the one that is kept is of no use here.
    let (samples, peer) =
        session.in_turns(5, contenders, |peer| time(|| peer.whole_process(&["true"])))?;
    let [first, shell, native] = <[Samples; 3]>::try_from(samples)
        .ok()
        .context("three were measured")?;
    Ok(vec![
        Line::new("aos run -- true", first.stats())
            .bar(Bar::AtMost(40e-3))
            .peer(peer.map(|p| p.stats())),
        Line::new("aos run -- sh -c true", shell.stats()).beside("host sh -c true", native.stats()),
    ])
}

pub(super) fn parallel(session: &mut Session) -> Result<Vec<Line>> {
    let vm = session.warm()?;
    let native = words(&["/bin/true"])?;
    // The pool's threads and the host's caches are warm from here on.
    at_once(&|| guest(&vm, &["true"]))?;
    at_once(&|| host(&native))?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let start = Instant::now();
    while start.elapsed() < session.budget * 2 {
        ours.extend(at_once(&|| guest(&vm, &["true"]))?);
        theirs.extend(at_once(&|| host(&native))?);
    }
    let (ours, theirs) = (Samples(ours).stats(), Samples(theirs).stats());
    let note = format!(
        "one in a hundred takes longer than {:.1} ms; on the host {:.1} ms",
        ours.p99 * 1e3,
        theirs.p99 * 1e3
    );
    Ok(vec![
        Line::new(format!("{MANY} true at once, each"), ours)
            .beside("host", theirs)
            .note(note),
    ])
}

/// Runs `work` on many threads that start together; how long each took.
fn at_once(work: &(dyn Fn() -> Result<()> + Sync)) -> Result<Vec<f64>> {
    let gate = Barrier::new(MANY);
    thread::scope(|scope| {
        let one = || {
            gate.wait();
            time(work)
        };
        let threads: Vec<_> = (0..MANY).map(|_| scope.spawn(one)).collect();
        threads
            .into_iter()
            .map(|thread| match thread.join() {
                Ok(seconds) => seconds,
                Err(panic) => std::panic::resume_unwind(panic),
            })
            .collect()
    })
}
