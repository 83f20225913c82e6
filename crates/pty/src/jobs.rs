//! Sessions, foreground groups and hang-up (`drivers/tty/tty_jobctrl.c`, `__tty_hangup`).

use crate::signals::Signals;
use crate::terminal::{State, Terminal};
use proctable::{ControllingTerminal, KillTarget, Process, Signal};
use std::sync::Arc;
use vfs_core::errno::{Errno, Result};

impl Terminal {
    /// The session this is the controlling terminal of.
    pub fn session(&self) -> Option<u32> {
        self.lock().session
    }

    /// The foreground group.
    pub fn foreground(&self) -> Option<u32> {
        self.lock().foreground
    }

    /// Makes this the controlling terminal of the caller's session (`TIOCSCTTY`). `EPERM` if the
    /// caller leads no session, has a terminal already, or another session has this one and is
    /// not robbed (`steal`, for the superuser).
    pub fn set_controlling(self: &Arc<Self>, caller: &Process, steal: bool) -> Result<()> {
        let table = self.procs.upgrade().ok_or(Errno::EIO)?;
        let sid = caller.sid();
        if caller.is_session_leader() && self.session() == Some(sid) {
            return Ok(());
        }
        if !caller.is_session_leader() || table.terminal(sid).is_some() {
            return Err(Errno::EPERM);
        }
        let robbed = {
            let mut state = self.lock();
            let robbed = state.session;
            if robbed.is_some() && !(steal && caller.cred().is_root()) {
                return Err(Errno::EPERM);
            }
            state.session = Some(sid);
            state.foreground = Some(caller.pgid());
            robbed
        };
        if let Some(robbed) = robbed {
            // The session may be gone by now.
            let _ = table.set_terminal(robbed, None);
        }
        table.set_terminal(sid, Some(self.clone()))
    }

    /// Gives the terminal up (`TIOCNOTTY`): the leader takes it from the whole session, whose
    /// foreground group gets `SIGHUP` and `SIGCONT`. `ENOTTY` if it is not the caller's.
    pub fn give_up(&self, caller: &Process) -> Result<()> {
        let table = self.procs.upgrade().ok_or(Errno::EIO)?;
        if self.session() != Some(caller.sid()) {
            return Err(Errno::ENOTTY);
        }
        if !caller.is_session_leader() {
            // A terminal belongs to the session here; one process alone cannot leave it.
            return Err(Errno::EPERM);
        }
        let mut signals = Signals::default();
        {
            let mut state = self.lock();
            signals.push_group(state.foreground, Signal::HUP);
            signals.push_group(state.foreground, Signal::CONT);
            state.session = None;
            state.foreground = None;
        }
        table.set_terminal(caller.sid(), None)?;
        signals.send(&self.procs);
        Ok(())
    }

    /// The foreground group for a process of this session (`TIOCGPGRP`); `ENOTTY` for others.
    pub fn get_foreground(&self, caller: &Process) -> Result<u32> {
        let state = self.lock();
        if state.session != Some(caller.sid()) {
            return Err(Errno::ENOTTY);
        }
        Ok(state.foreground.unwrap_or(0))
    }

    /// Sets the foreground group (`TIOCSPGRP`): `ENOTTY` if it is not the caller's terminal,
    /// `ESRCH` for a group without members, `EPERM` for one of another session. A background
    /// process gets `SIGTTOU` first.
    pub fn set_foreground(&self, caller: &Process, pgid: i32) -> Result<()> {
        match self.check_job(caller, Signal::TTOU) {
            Err(Errno::EIO) => return Err(Errno::ENOTTY),
            other => other?,
        }
        if self.session() != Some(caller.sid()) {
            return Err(Errno::ENOTTY);
        }
        let pgid = u32::try_from(pgid).map_err(|_| Errno::EINVAL)?;
        let table = self.procs.upgrade().ok_or(Errno::EIO)?;
        let session = table.group_session(pgid).ok_or(Errno::ESRCH)?;
        if session != caller.sid() {
            return Err(Errno::EPERM);
        }
        self.lock().foreground = Some(pgid);
        Ok(())
    }

    /// The session (`TIOCGSID`); `ENOTTY` for processes of others.
    pub fn get_session(&self, caller: &Process) -> Result<u32> {
        let session = self.session().ok_or(Errno::ENOTTY)?;
        if session != caller.sid() {
            return Err(Errno::ENOTTY);
        }
        Ok(session)
    }

    /// Whether `caller` may read (`SIGTTIN`) or change (`SIGTTOU`) the terminal now
    /// (`__tty_check_change`). A background process of its session has its group signalled and
    /// gets `EINTR`; if it ignores the signal, or its group is orphaned, it gets `EIO`, or may go
    /// on, as the rules have it.
    pub(crate) fn check_job(&self, caller: &Process, signal: Signal) -> Result<()> {
        let foreground = {
            let state = self.lock();
            if state.session != Some(caller.sid()) {
                return Ok(());
            }
            state.foreground
        };
        let group = caller.pgid();
        if foreground.is_none_or(|f| f == group) {
            return Ok(());
        }
        let signals = caller.signals();
        if signals.mask().contains(signal) || signals.ignored().contains(signal) {
            return if signal == Signal::TTIN {
                Err(Errno::EIO)
            } else {
                Ok(())
            };
        }
        let table = self.procs.upgrade().ok_or(Errno::EIO)?;
        if table.is_orphaned_group(group) {
            return Err(Errno::EIO);
        }
        let _ = table.kill(None, KillTarget::Group(group), Some(signal));
        Err(Errno::EINTR)
    }
}

impl ControllingTerminal for Terminal {
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }

    fn leader_exited(&self, sid: u32) {
        let mut signals = Signals::default();
        {
            let mut state = self.lock();
            if state.session != Some(sid) {
                return;
            }
            hang_up(&mut state, true, &mut signals);
        }
        self.slave_queue.wake_all();
        self.master_queue.wake_all();
        signals.send(&self.procs);
    }
}

/// The line goes dead (`__tty_hangup`): what is open on the slave reads as ended and can't be
/// written, the session loses its terminal. Its leader gets `SIGHUP` and `SIGCONT`; if the leader
/// is what ended (`on_exit`), its foreground group gets `SIGHUP`.
pub(crate) fn hang_up(state: &mut State, on_exit: bool, signals: &mut Signals) {
    if let Some(sid) = state.session.take() {
        if on_exit {
            signals.push_group(state.foreground, Signal::HUP);
        } else {
            signals.letters.push((KillTarget::Pid(sid), Signal::HUP));
            signals.letters.push((KillTarget::Pid(sid), Signal::CONT));
        }
        signals.detached = Some(sid);
    }
    state.foreground = None;
    state.generation += 1;
    state.slaves = 0;
    state.input.flush();
    state.output.stopped = false;
}
