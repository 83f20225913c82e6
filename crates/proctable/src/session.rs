//! Process groups and sessions: `setpgid`, `setsid` and their rules (`kernel/sys.c`).

use crate::process::{Process, ZOMBIE};
use crate::signal::{SigInfo, Signal};
use crate::table::{INIT_PID, ProcTable, Tree, Wakes};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vfs_core::errno::{Errno, Result};

/// A terminal as its session sees it.
pub trait ControllingTerminal: Send + Sync + std::any::Any {
    /// For the module that made it.
    fn as_any(&self) -> &dyn std::any::Any;

    /// The leader of session `sid` has ended, which no longer has this terminal: its foreground
    /// group gets `SIGHUP` and `SIGCONT` (`disassociate_ctty`). No lock of this crate is held.
    fn leader_exited(&self, sid: u32);
}

/// A process group that has members, zombies included. Guarded by the tree lock.
pub(crate) struct Group {
    pub(crate) sid: u32,
    pub(crate) members: Vec<u32>,
}

/// A session that has members. Guarded by the tree lock.
#[derive(Default)]
pub(crate) struct Session {
    members: usize,
    tty: Option<Arc<dyn ControllingTerminal>>,
}

impl Tree {
    /// Puts a process into a group of a session, making both as needed.
    pub(crate) fn join(&mut self, process: &Process, pgid: u32, sid: u32) {
        process.pgid.store(pgid, Ordering::Relaxed);
        process.sid.store(sid, Ordering::Relaxed);
        self.sessions.entry(sid).or_default().members += 1;
        let group = self.groups.entry(pgid).or_insert_with(|| Group {
            sid,
            members: Vec::new(),
        });
        group.members.push(process.pid());
    }

    /// Takes a process out of its group and session; empty ones disappear.
    pub(crate) fn leave(&mut self, process: &Process) {
        let (pid, pgid, sid) = (process.pid(), process.pgid(), process.sid());
        if let Some(group) = self.groups.get_mut(&pgid) {
            group.members.retain(|m| *m != pid);
            if group.members.is_empty() {
                self.groups.remove(&pgid);
            }
        }
        if let Some(session) = self.sessions.get_mut(&sid) {
            session.members = session.members.saturating_sub(1);
            if session.members == 0 {
                self.sessions.remove(&sid);
            }
        }
    }

    pub(crate) fn members(&self, pgid: u32) -> impl Iterator<Item = &Arc<Process>> {
        let members = self.groups.get(&pgid).map_or(&[][..], |g| &g.members[..]);
        members.iter().filter_map(|pid| self.get(*pid))
    }

    /// Whether no member has a parent in another group of the same session, who could continue
    /// the group after a stop (`will_become_orphaned_pgrp`). `leaving` no longer counts.
    pub(crate) fn is_orphaned(&self, pgid: u32, leaving: Option<u32>) -> bool {
        !self.members(pgid).any(|member| {
            Some(member.pid()) != leaving
                && member.life.load(Ordering::Relaxed) != ZOMBIE
                && member.ppid() != INIT_PID
                && self
                    .parent(member)
                    .is_some_and(|parent| parent.pgid() != pgid && parent.sid() == member.sid())
        })
    }

    fn has_stopped(&self, pgid: u32) -> bool {
        self.members(pgid).any(|m| m.signals().stopped().is_some())
    }
}

impl ProcTable {
    /// If the group of `process` becomes orphaned because its link to `parent` goes, and has
    /// stopped members, these are hung up and continued (`kill_orphaned_pgrp`). `leaving` is set
    /// when `process` itself ends rather than its parent.
    pub(crate) fn orphan_check(
        &self,
        tree: &Tree,
        process: &Process,
        parent: &Process,
        leaving: bool,
        wakes: &mut Wakes,
    ) {
        let pgid = process.pgid();
        let ignored = leaving.then(|| process.pid());
        if parent.pgid() != pgid
            && parent.sid() == process.sid()
            && tree.is_orphaned(pgid, ignored)
            && tree.has_stopped(pgid)
        {
            for signal in [Signal::HUP, Signal::CONT] {
                for member in tree.members(pgid) {
                    // Cannot fail: details may be dropped.
                    let _ = self.post_in(tree, member, SigInfo::kernel(signal), wakes);
                }
            }
        }
    }

    /// Moves `pid` (0: the caller) into group `pgid` (0: one it leads), as `setpgid(2)` allows:
    /// `EINVAL` negative group, `ESRCH` neither the caller nor its child, `EPERM` a session
    /// leader, another session or no such group, `EACCES` a child that has called `exec`.
    pub fn setpgid(&self, caller: &Process, pid: i32, pgid: i32) -> Result<()> {
        let pgid = u32::try_from(pgid).map_err(|_| Errno::EINVAL)?;
        let pid = match pid {
            0 => caller.pid(),
            pid => u32::try_from(pid).map_err(|_| Errno::ESRCH)?,
        };
        let pgid = if pgid == 0 { pid } else { pgid };
        let mut tree = self.tree();
        let target = tree.get(pid).cloned().ok_or(Errno::ESRCH)?;
        if target.ppid() == caller.pid() {
            if target.sid() != caller.sid() {
                return Err(Errno::EPERM);
            }
            if target.execed.load(Ordering::Relaxed) {
                return Err(Errno::EACCES);
            }
        } else if pid != caller.pid() {
            return Err(Errno::ESRCH);
        }
        if target.is_session_leader() {
            return Err(Errno::EPERM);
        }
        let sid = target.sid();
        if pgid != pid && tree.groups.get(&pgid).is_none_or(|g| g.sid != sid) {
            return Err(Errno::EPERM);
        }
        if pgid != target.pgid() {
            tree.leave(&target);
            tree.join(&target, pgid, sid);
        }
        Ok(())
    }

    /// Makes `caller` the leader of a new session without a terminal and returns its id
    /// (`setsid(2)`): `EPERM` if a group with its pid exists.
    pub fn setsid(&self, caller: &Process) -> Result<u32> {
        let mut tree = self.tree();
        let pid = caller.pid();
        if caller.is_session_leader() || tree.groups.contains_key(&pid) {
            return Err(Errno::EPERM);
        }
        tree.leave(caller);
        tree.join(caller, pid, pid);
        Ok(pid)
    }

    /// Group of `pid` (0: the caller); `ESRCH`.
    pub fn getpgid(&self, caller: &Process, pid: i32) -> Result<u32> {
        self.relative(caller, pid, Process::pgid)
    }

    /// Session of `pid` (0: the caller); `ESRCH`.
    pub fn getsid(&self, caller: &Process, pid: i32) -> Result<u32> {
        self.relative(caller, pid, Process::sid)
    }

    fn relative(&self, caller: &Process, pid: i32, of: impl Fn(&Process) -> u32) -> Result<u32> {
        if pid == 0 {
            return Ok(of(caller));
        }
        let pid = u32::try_from(pid).map_err(|_| Errno::ESRCH)?;
        self.get(pid).map(|p| of(&p)).ok_or(Errno::ESRCH)
    }

    /// Session of the group `pgid`, if it has members.
    pub fn group_session(&self, pgid: u32) -> Option<u32> {
        self.tree().groups.get(&pgid).map(|g| g.sid)
    }

    /// Pids of the members of a group, zombies included.
    pub fn group_members(&self, pgid: u32) -> Vec<u32> {
        self.tree()
            .groups
            .get(&pgid)
            .map_or_else(Vec::new, |g| g.members.clone())
    }

    /// Whether a group is orphaned: stops from its terminal would stop it for good.
    pub fn is_orphaned_group(&self, pgid: u32) -> bool {
        self.tree().is_orphaned(pgid, None)
    }

    /// The controlling terminal of a session.
    pub fn terminal(&self, sid: u32) -> Option<Arc<dyn ControllingTerminal>> {
        self.tree().sessions.get(&sid).and_then(|s| s.tty.clone())
    }

    /// Gives a session a terminal or takes it away; `ESRCH` if there is no such session.
    pub fn set_terminal(&self, sid: u32, tty: Option<Arc<dyn ControllingTerminal>>) -> Result<()> {
        let mut tree = self.tree();
        let session = tree.sessions.get_mut(&sid).ok_or(Errno::ESRCH)?;
        let old = std::mem::replace(&mut session.tty, tty);
        drop(tree);
        drop(old);
        Ok(())
    }

    /// Takes the terminal of the session that `leader`, which is ending, leads.
    pub(crate) fn lose_terminal(tree: &mut Tree, leader: &Process, wakes: &mut Wakes) {
        if leader.is_session_leader()
            && let Some(session) = tree.sessions.get_mut(&leader.sid())
            && let Some(tty) = session.tty.take()
        {
            wakes.hangup(leader.sid(), tty);
        }
    }
}
