//! A command at a terminal of its VM, which the caller's terminal shows.
//!
//! Everything that can happen comes to one place as an [`Event`], and what it does to the caller's
//! terminal is done there, so that there is one way out and it gives the terminal back.

use super::report::Report;
use super::signals::Signals;
use super::{GRACE, TIMED_OUT, explain};
use kernel::{ExitStatus, HostTerminal, KillTarget, SpawnRequest, Vm};
use nix::sys::signal::{SigSet, Signal, raise};
use sidecar::hostio::{End, HostTty, RawMode, Relay};
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// `TERM` where the caller has none: a terminal of which nothing is known.
const UNKNOWN_TERMINAL: &str = "dumb";

/// The caller's terminal, to be sat at.
pub(crate) struct Seat {
    tty: HostTty,
    answer_cursor: bool,
}

/// What happens in a session.
enum Event {
    /// The command has ended.
    Ended(ExitStatus),
    /// A signal was sent to `aos`.
    Signal(Signal),
    /// A direction has come to its end.
    Relay(End),
}

impl Seat {
    /// The terminal behind standard input, if it is one.
    pub(crate) fn take(answer_cursor: bool) -> Option<Seat> {
        let tty = HostTty::of(io::stdin()).ok().flatten()?;
        Some(Seat { tty, answer_cursor })
    }

    /// What programs look up in the environment: the kind of terminal, and its size at the start.
    pub(super) fn environment(&self) -> Vec<Vec<u8>> {
        let kind = std::env::var("TERM").unwrap_or_default();
        let kind = match kind.is_empty() || kind.contains(|c: char| c.is_control()) {
            true => UNKNOWN_TERMINAL,
            false => &kind,
        };
        let mut all = vec![format!("TERM={kind}").into_bytes()];
        let size = self.tty.size();
        for (name, number) in [("LINES", size.rows), ("COLUMNS", size.cols)] {
            if number > 0 {
                all.push(format!("{name}={number}").into_bytes());
            }
        }
        all
    }

    /// Runs the command until it ends, or the session does.
    pub(super) fn run(
        self,
        vm: &Vm,
        request: &mut SpawnRequest,
        signals: Signals,
        timeout: Option<Duration>,
        report: &mut Report,
    ) -> anyhow::Result<()> {
        let terminal = Arc::new(
            vm.open_terminal(self.tty.size())
                .map_err(|errno| anyhow::anyhow!("cannot make a terminal: {errno}"))?,
        );
        if self.answer_cursor {
            terminal.answer_cursor_reports();
        }
        if is_interactive_shell(&request.argv) {
            terminal.terminal().spare_leader(true);
        }
        let (events, happens) = channel();
        // From here on every way out, a panic too, gives the terminal its modes back.
        let raw = self.tty.raw()?;
        request.terminal = Some(terminal.clone());
        let started = Instant::now();
        let child = vm.spawn(request).map_err(explain)?;
        request.terminal = None;
        let group = child.pid();
        let tell = events.clone();
        let relay = Relay::start(
            &terminal,
            io::stdin().as_fd().try_clone_to_owned()?,
            io::stdout().as_fd().try_clone_to_owned()?,
            move |end| report_to(&tell, Event::Relay(end)),
        )?;
        let tell = events.clone();
        signals.listen(move |signal| tell.send(Event::Signal(signal)).is_ok())?;
        std::thread::Builder::new()
            .name("wait".to_owned())
            .spawn(move || report_to(&events, Event::Ended(child.wait())))?;
        let mut session = Session {
            vm,
            group,
            tty: &self.tty,
            raw: &raw,
            terminal: Some(terminal),
            relay,
            deadline: timeout.map(|timeout| started + timeout),
            cause: None,
            timed_out: false,
            killed: false,
        };
        let status = session.attend(&happens);
        let elapsed = started.elapsed();
        session.show_the_rest(&happens);
        report.ended(status, elapsed);
        report.timed_out = session.timed_out;
        match session.cause {
            Some(signal) => report.status = 128 + signal as u8,
            None if session.timed_out => report.status = TIMED_OUT,
            None => {}
        }
        Ok(())
    }
}

/// A session under way.
struct Session<'a> {
    vm: &'a Vm,
    /// Process group of the command.
    group: u32,
    tty: &'a HostTty,
    raw: &'a RawMode,
    /// The VM's terminal, until it is hung up.
    terminal: Option<Arc<HostTerminal>>,
    relay: Relay,
    /// When to stop waiting for what is waited for.
    deadline: Option<Instant>,
    /// The signal that ended the session.
    cause: Option<Signal>,
    timed_out: bool,
    killed: bool,
}

impl Session<'_> {
    /// Waits for the command's end and sees to everything until then.
    fn attend(&mut self, happens: &Receiver<Event>) -> ExitStatus {
        loop {
            match self.next(happens) {
                Some(Event::Ended(status)) => return status,
                Some(Event::Signal(signal)) => self.signal(signal),
                Some(Event::Relay(End::Keyboard | End::Screen)) => self.hang_up(Signal::SIGHUP),
                Some(Event::Relay(End::Shown)) => {}
                None if self.killed => {
                    // Killed threads come to their end unless the host is starved.
                    return ExitStatus::Signal {
                        signal: kernel::Signal::KILL,
                        core: false,
                    };
                }
                None => {
                    self.timed_out = self.cause.is_none();
                    self.killed = true;
                    self.kill(KillTarget::All, kernel::Signal::KILL);
                    self.deadline = Instant::now().checked_add(GRACE);
                }
            }
        }
    }

    /// Waits until all is on the screen that the command wrote. A screen that takes nothing holds
    /// this up as it would any program; signals end it, and so does the time limit's grace.
    fn show_the_rest(&mut self, happens: &Receiver<Event>) {
        self.relay.finish();
        if !self.killed {
            self.deadline = None;
        }
        while self.terminal.is_some() {
            match self.next(happens) {
                Some(Event::Signal(signal)) => self.signal(signal),
                Some(Event::Relay(End::Shown | End::Screen)) | None => break,
                Some(Event::Relay(End::Keyboard) | Event::Ended(_)) => {}
            }
        }
    }

    /// The next thing that happens; `None` when the time is up.
    fn next(&self, happens: &Receiver<Event>) -> Option<Event> {
        let Some(deadline) = self.deadline else {
            return happens.recv().ok();
        };
        let left = deadline.saturating_duration_since(Instant::now());
        happens.recv_timeout(left).ok()
    }

    fn signal(&mut self, signal: Signal) {
        match signal {
            Signal::SIGWINCH => self.resize(),
            Signal::SIGTSTP => {
                // What the modes can't be changed of is gone.
                if self.suspend().is_err() {
                    self.hang_up(Signal::SIGHUP);
                }
            }
            // Whoever had the terminal meanwhile has left it with modes of their own. The host
            // sends this with a hang-up, too.
            Signal::SIGCONT => match self.raw.again() {
                Ok(()) => self.resize(),
                Err(_) => self.hang_up(Signal::SIGHUP),
            },
            Signal::SIGUSR1 | Signal::SIGUSR2 => {
                if let Some(signal) = kernel::Signal::new(signal as i32) {
                    self.kill(KillTarget::Group(self.group), signal);
                }
            }
            _ => self.hang_up(signal),
        }
    }

    fn resize(&self) {
        if let Some(terminal) = &self.terminal {
            terminal.resize(self.tty.size());
        }
    }

    /// Stops, machine and all, with the terminal as it was before; goes on when continued.
    fn suspend(&self) -> io::Result<()> {
        self.raw.leave()?;
        let stop: SigSet = [Signal::SIGTSTP].into_iter().collect();
        stop.thread_unblock()?;
        // Without a shell to continue us the host does not stop us.
        raise(Signal::SIGTSTP)?;
        stop.thread_block()?;
        self.raw.again()
    }

    /// Hangs the VM's terminal up, as when a window is closed, and gives the guest a little time.
    fn hang_up(&mut self, cause: Signal) {
        if self.cause.is_some() {
            return;
        }
        self.cause = Some(cause);
        self.relay.let_go();
        self.terminal = None;
        self.deadline = Instant::now().checked_add(GRACE);
    }

    fn kill(&self, target: KillTarget, signal: kernel::Signal) {
        // Nobody left to tell is as good.
        let _ = self.vm.kill(target, signal);
    }
}

fn report_to(events: &Sender<Event>, event: Event) {
    // Nobody listens any more when the session is over.
    let _ = events.send(event);
}

/// Whether a command is a shell that will read commands from its terminal. The published ones
/// catch no signals and keep their children in their own group, so what is typed to end a child
/// must pass over them.
fn is_interactive_shell(argv: &[Vec<u8>]) -> bool {
    let Some((name, options)) = argv.split_first() else {
        return false;
    };
    let base = name.rsplit(|&b| b == b'/').next().unwrap_or(name);
    let base = base.strip_prefix(b"-").unwrap_or(base);
    let plain = |option: &Vec<u8>| match option.as_slice() {
        [b'-', b'-', ..] => true,
        [b'-' | b'+', letters @ ..] => !letters.contains(&b'c'),
        _ => false,
    };
    matches!(base, b"sh" | b"bash") && options.iter().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shells_that_read_from_the_terminal_are_told_apart() {
        let is = |words: &[&str]| {
            let argv: Vec<Vec<u8>> = words.iter().map(|word| (*word).into()).collect();
            is_interactive_shell(&argv)
        };
        assert!(is(&["sh"]) && is(&["-sh"]) && is(&["/bin/bash", "-i", "--norc"]));
        assert!(!is(&[]) && !is(&["cat"]) && !is(&["sh", "-c", "x"]) && !is(&["sh", "-xc", "x"]));
        assert!(!is(&["bash", "script.sh"]) && !is(&["bash", "-x", "script.sh"]));
    }
}
