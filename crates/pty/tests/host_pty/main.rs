//! The same bytes, modes and reads given to a pseudoterminal of the host kernel and to ours must
//! give the same echo, output, reads and pending signals.
//!
//! The host's side needs a process of its own that leads a session, so this is a program without
//! the usual harness: it forks once, before there are threads, and runs everything in the child.

#![expect(
    clippy::print_stdout,
    reason = "the number of compared sequences is part of the result"
)]

mod host;
mod ours;
mod sequence;

use libtest_mimic::{Arguments, Failed, Trial};
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};
use sequence::{Op, sequences};

/// Random sequences compared in a run.
const CASES: u32 = 1500;

fn main() {
    let code = host::in_own_session(|| {
        let mut args = Arguments::from_args();
        // The host's side belongs to this thread: a session has one terminal.
        args.test_threads = Some(1);
        let trials = vec![
            Trial::test("recorded_sequences", recorded),
            Trial::test("random_sequences", random),
            Trial::test("numbers_are_the_hosts", numbers),
        ];
        i32::from(libtest_mimic::run(&args, trials).has_failed())
    });
    std::process::exit(code);
}

/// Runs a sequence on both; a difference has to show three times, each time with more patience for
/// the host's worker threads, before it counts.
fn compare(ops: &[Op]) -> Result<(), String> {
    let mut difference = String::new();
    for patience_ms in [1, 15, 60] {
        let host = host::run(ops, patience_ms);
        let ours = ours::run(ops);
        match host.iter().zip(&ours).position(|(h, o)| h != o) {
            None if host.len() == ours.len() => return Ok(()),
            at => {
                let at = at.unwrap_or(0);
                difference = format!(
                    "step {at} of {ops:#?}\n host {}\n ours {}",
                    host[at], ours[at]
                );
            }
        }
    }
    Err(difference)
}

fn recorded() -> Result<(), Failed> {
    let recorded = sequence::recorded();
    for ops in &recorded {
        compare(ops)?;
    }
    println!(
        "{} recorded sequences compared with the host",
        recorded.len()
    );
    Ok(())
}

fn random() -> Result<(), Failed> {
    let mut runner = TestRunner::new(Config {
        cases: CASES,
        max_shrink_iters: 300,
        failure_persistence: None,
        ..Config::default()
    });
    let outcome = runner.run(&sequences(), |ops| {
        compare(&ops).map_err(TestCaseError::fail)
    });
    match outcome {
        Ok(()) => {
            println!("{CASES} random sequences compared with the host");
            Ok(())
        }
        Err(TestError::Fail(reason, _)) => Err(reason.message().into()),
        Err(error) => Err(error.to_string().into()),
    }
}

/// The tables of flags and control characters are the host's.
fn numbers() -> Result<(), Failed> {
    use pty::termios::*;
    let pairs = [
        (Iflag::ISTRIP.bits(), libc::ISTRIP),
        (Iflag::INLCR.bits(), libc::INLCR),
        (Iflag::IGNCR.bits(), libc::IGNCR),
        (Iflag::ICRNL.bits(), libc::ICRNL),
        (Iflag::IXON.bits(), libc::IXON),
        (Iflag::IXANY.bits(), libc::IXANY),
        (Iflag::IXOFF.bits(), libc::IXOFF),
        (Iflag::IMAXBEL.bits(), libc::IMAXBEL),
        (Iflag::IUTF8.bits(), libc::IUTF8),
        (Iflag::PARMRK.bits(), libc::PARMRK),
        (Oflag::OPOST.bits(), libc::OPOST),
        (Oflag::OLCUC.bits(), libc::OLCUC),
        (Oflag::ONLCR.bits(), libc::ONLCR),
        (Oflag::OCRNL.bits(), libc::OCRNL),
        (Oflag::ONOCR.bits(), libc::ONOCR),
        (Oflag::ONLRET.bits(), libc::ONLRET),
        (Oflag::XTABS.bits(), libc::XTABS),
        (Lflag::ISIG.bits(), libc::ISIG),
        (Lflag::ICANON.bits(), libc::ICANON),
        (Lflag::ECHO.bits(), libc::ECHO),
        (Lflag::ECHOE.bits(), libc::ECHOE),
        (Lflag::ECHOK.bits(), libc::ECHOK),
        (Lflag::ECHONL.bits(), libc::ECHONL),
        (Lflag::NOFLSH.bits(), libc::NOFLSH),
        (Lflag::TOSTOP.bits(), libc::TOSTOP),
        (Lflag::ECHOCTL.bits(), libc::ECHOCTL),
        (Lflag::ECHOPRT.bits(), libc::ECHOPRT),
        (Lflag::ECHOKE.bits(), libc::ECHOKE),
        (Lflag::IEXTEN.bits(), libc::IEXTEN),
        (Lflag::EXTPROC.bits(), libc::EXTPROC),
        (VINTR as u32, libc::VINTR as u32),
        (VQUIT as u32, libc::VQUIT as u32),
        (VERASE as u32, libc::VERASE as u32),
        (VKILL as u32, libc::VKILL as u32),
        (VEOF as u32, libc::VEOF as u32),
        (VTIME as u32, libc::VTIME as u32),
        (VMIN as u32, libc::VMIN as u32),
        (VSTART as u32, libc::VSTART as u32),
        (VSTOP as u32, libc::VSTOP as u32),
        (VSUSP as u32, libc::VSUSP as u32),
        (VEOL as u32, libc::VEOL as u32),
        (VREPRINT as u32, libc::VREPRINT as u32),
        (VWERASE as u32, libc::VWERASE as u32),
        (VLNEXT as u32, libc::VLNEXT as u32),
        (VEOL2 as u32, libc::VEOL2 as u32),
    ];
    for (row, (ours, host)) in pairs.iter().enumerate() {
        if ours != host {
            return Err(format!("row {row}: ours {ours:#x}, the host's {host:#x}").into());
        }
    }
    if host::initial_modes() != Termios::default() {
        return Err(format!("a new terminal of the host has {:?}", host::initial_modes()).into());
    }
    Ok(())
}
