//! Sending signals: who may, to whom, and what counts as success (`kill(2)`).

use crate::process::Process;
use crate::signal::{SigCode, SigInfo, Signal};
use crate::table::{INIT_PID, ProcTable, Wakes};
use std::sync::Arc;
use vfs_core::errno::{Errno, Result};
use vfs_core::types::Cred;

/// Whom a signal is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillTarget {
    /// One process.
    Pid(u32),
    /// Every member of a group.
    Group(u32),
    /// Every process of a session; only the system and the host send these.
    Session(u32),
    /// Every process but pid 1 and the sender.
    All,
}

impl KillTarget {
    /// The meaning of the `pid` argument of `kill(2)`. `ESRCH` for the one number that has none.
    pub fn from_pid(sender: &Process, pid: i32) -> Result<KillTarget> {
        Ok(match pid {
            0 => KillTarget::Group(sender.pgid()),
            -1 => KillTarget::All,
            i32::MIN => return Err(Errno::ESRCH),
            pid if pid < 0 => KillTarget::Group(pid.unsigned_abs()),
            pid => KillTarget::Pid(pid.unsigned_abs()),
        })
    }
}

/// Who sends, and what is sent.
struct Letter<'a> {
    /// `None` is the host, which may do anything.
    sender: Option<(&'a Process, Arc<Cred>)>,
    /// `None` asks only whether it could be sent.
    info: Option<SigInfo>,
}

impl Letter<'_> {
    /// `kill_ok_by_cred`, and any process of the session may be continued.
    fn allowed(&self, target: &Process) -> bool {
        let Some((sender, cred)) = &self.sender else {
            return true;
        };
        let theirs = target.cred();
        cred.is_root()
            || [cred.uid, cred.euid]
                .iter()
                .any(|id| [theirs.uid, theirs.suid].contains(id))
            || (self.info.is_some_and(|i| i.signal == Signal::CONT) && sender.sid() == target.sid())
    }
}

impl ProcTable {
    /// Sends `signal`, or with `None` only asks whether it could be sent (signal 0). Without a
    /// sender it comes from the host, which may signal anybody. `ESRCH` if there is nobody,
    /// `EPERM` if there is and none may be signalled.
    pub fn kill(
        &self,
        sender: Option<&Process>,
        target: KillTarget,
        signal: Option<Signal>,
    ) -> Result<()> {
        self.send(sender, target, signal, SigCode::User, 0)
    }

    /// Sends a signal with a value (`sigqueue(3)`); `EAGAIN` if its queue is full.
    pub fn sigqueue(
        &self,
        sender: &Process,
        pid: u32,
        signal: Option<Signal>,
        value: i64,
    ) -> Result<()> {
        self.send(
            Some(sender),
            KillTarget::Pid(pid),
            signal,
            SigCode::Queue,
            value,
        )
    }

    fn send(
        &self,
        sender: Option<&Process>,
        target: KillTarget,
        signal: Option<Signal>,
        code: SigCode,
        value: i64,
    ) -> Result<()> {
        let sender = sender.map(|s| (s, s.cred()));
        let (pid, uid) = sender
            .as_ref()
            .map_or((0, 0), |(s, cred)| (s.pid(), cred.uid));
        let info = signal.map(|signal| SigInfo {
            signal,
            code,
            pid,
            uid,
            value,
        });
        let letter = Letter { sender, info };
        let mut wakes = Wakes::default();
        let sent = self.send_to(&letter, target, &mut wakes);
        wakes.fire();
        sent
    }

    fn send_to(&self, letter: &Letter<'_>, target: KillTarget, wakes: &mut Wakes) -> Result<()> {
        let tree = self.tree();
        let mut one = |process: &Arc<Process>| -> Result<()> {
            if !letter.allowed(process) {
                return Err(Errno::EPERM);
            }
            match letter.info {
                Some(info) => self.post_in(&tree, process, info, wakes),
                None => Ok(()),
            }
        };
        match target {
            KillTarget::Pid(pid) => one(tree.get(pid).ok_or(Errno::ESRCH)?),
            // One success is success (`__kill_pgrp_info`).
            KillTarget::Group(pgid) => {
                let mut result = Err(Errno::ESRCH);
                for member in tree.members(pgid) {
                    let sent = one(member);
                    if result.is_err() {
                        result = sent;
                    }
                }
                result
            }
            KillTarget::Session(sid) => {
                let mut result = Err(Errno::ESRCH);
                for entry in tree.entries.values().filter(|e| e.process.sid() == sid) {
                    let sent = one(&entry.process);
                    if result.is_err() {
                        result = sent;
                    }
                }
                result
            }
            // The last error that is not EPERM counts (`kill_something_info`), and without any,
            // having found somebody is success.
            KillTarget::All => {
                let myself = letter.sender.as_ref().map(|(s, _)| s.pid());
                let mut result = Err(Errno::ESRCH);
                for entry in tree.entries.values() {
                    let pid = entry.process.pid();
                    if pid == INIT_PID || Some(pid) == myself {
                        continue;
                    }
                    match one(&entry.process) {
                        Err(Errno::EPERM) if result == Err(Errno::ESRCH) => result = Ok(()),
                        Err(Errno::EPERM) => {}
                        other => result = other,
                    }
                }
                result
            }
        }
    }
}
