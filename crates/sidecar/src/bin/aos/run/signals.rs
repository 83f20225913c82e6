//! Signals of the caller: handed on to the guest, or told to whoever sits between it and a terminal.

use kernel::{Child, KillTarget, Vm};
use nix::sys::signal::{SigSet, Signal};
use std::sync::mpsc;

/// What is handed on.
const FORWARDED: [Signal; 6] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
];

/// What else is told of in a terminal session.
const OF_TERMINALS: [Signal; 3] = [Signal::SIGWINCH, Signal::SIGTSTP, Signal::SIGCONT];

/// Keeps the signals back until there is a guest to hand them to. Must be made before any other
/// thread is, because threads inherit what is held back.
pub(crate) struct Signals {
    set: SigSet,
}

impl Signals {
    /// Holds the signals back, but not those that the caller ignores (`nohup`): a signal that is
    /// held back is kept even if it is ignored, and the guest would get it.
    pub(crate) fn hold() -> nix::Result<Signals> {
        Signals::hold_these(FORWARDED)
    }

    /// Holds back what concerns a terminal, too.
    pub(crate) fn hold_with_terminal() -> nix::Result<Signals> {
        Signals::hold_these(FORWARDED.into_iter().chain(OF_TERMINALS))
    }

    fn hold_these(signals: impl IntoIterator<Item = Signal>) -> nix::Result<Signals> {
        let ignored = ignored();
        let wanted = |signal: &Signal| ignored & 1 << (*signal as i32 - 1) == 0;
        let set: SigSet = signals.into_iter().filter(wanted).collect();
        set.thread_block()?;
        Ok(Signals { set })
    }

    /// Calls `tell` with each signal that comes, until it says that nobody listens.
    pub(crate) fn listen(
        self,
        tell: impl Fn(Signal) -> bool + Send + 'static,
    ) -> std::io::Result<()> {
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || while self.set.wait().is_ok_and(&tell) {})?;
        Ok(())
    }

    /// Hands what comes from now on to the group of `child`. The second SIGINT ends the VM; so that
    /// a guest which ignores the first can still be stopped from the keyboard.
    pub(crate) fn forward(self, vm: Vm, child: &Child) -> std::io::Result<()> {
        let group = child.pid();
        let (started, running) = mpsc::channel();
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                // The receiver waits, so the message can't fail to arrive.
                let _ = started.send(());
                let mut interrupts = 0;
                while let Ok(signal) = self.set.wait() {
                    interrupts += usize::from(signal == Signal::SIGINT);
                    let (target, number) = if interrupts > 1 {
                        (KillTarget::All, Signal::SIGKILL as i32)
                    } else {
                        (KillTarget::Group(group), signal as i32)
                    };
                    if let Some(signal) = kernel::Signal::new(number) {
                        // A guest that has just ended needs no signal.
                        let _ = vm.kill(target, signal);
                    }
                }
            })?;
        // Signals that came meanwhile are pending and are taken first.
        let _ = running.recv();
        Ok(())
    }
}

/// The signals this process ignores, bit n - 1 for signal n. Of what can't be read nothing counts
/// as ignored.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}
