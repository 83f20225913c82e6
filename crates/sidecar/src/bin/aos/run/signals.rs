//! Signals of the caller, handed on to the guest.

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

/// Keeps the signals back until there is a guest to hand them to. Must be made before any other
/// thread is, because threads inherit what is held back.
pub(crate) struct Signals {
    set: SigSet,
}

impl Signals {
    /// Holds the signals back. What the caller ignores (`nohup`) stays ignored: the host then never
    /// delivers it.
    pub(crate) fn hold() -> nix::Result<Signals> {
        let set: SigSet = FORWARDED.into_iter().collect();
        set.thread_block()?;
        Ok(Signals { set })
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
