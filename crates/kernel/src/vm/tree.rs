//! Looking at the processes of a VM, and signalling them, from the host. There is one space of
//! process ids: what the host sees is what guests see.

use super::Vm;
use proctable::{KillTarget, Process, Signal, State};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use vfs_core::errno::Result;
use vfs_core::types::Timespec;

/// One process as the host sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcInfo {
    /// Process id.
    pub pid: u32,
    /// Parent.
    pub ppid: u32,
    /// Process group.
    pub pgid: u32,
    /// Session.
    pub sid: u32,
    /// Real user.
    pub uid: u32,
    /// Arguments.
    pub argv: Arc<[Vec<u8>]>,
    /// Short name.
    pub comm: Vec<u8>,
    /// Working directory; none once it has ended.
    pub cwd: Option<Vec<u8>>,
    /// The runtime it runs on.
    pub driver: &'static str,
    /// What it is doing.
    pub state: State,
    /// When it was started.
    pub started: Timespec,
    /// CPU time it has used.
    pub cpu: Duration,
    /// Guest memory it has.
    pub memory: u64,
}

impl Vm {
    /// Every process, pid 1 and zombies included, by rising id; parents make it a tree.
    pub fn processes(&self) -> Vec<ProcInfo> {
        self.inner
            .table
            .list()
            .iter()
            .map(|process| self.info(process))
            .collect()
    }

    /// One process.
    pub fn process(&self, pid: u32) -> Option<ProcInfo> {
        self.inner.table.get(pid).map(|process| self.info(&process))
    }

    fn info(&self, process: &Arc<Process>) -> ProcInfo {
        let vm = &self.inner;
        let pid = process.pid();
        vm.running.count_cpu(pid);
        let image = process.image();
        ProcInfo {
            pid,
            ppid: process.ppid(),
            pgid: process.pgid(),
            sid: process.sid(),
            uid: process.cred().uid,
            argv: image.argv,
            comm: image.comm,
            cwd: process
                .fs()
                .map(|fs| vm.ns.absolute(&fs.cwd, &fs.root).bytes),
            driver: image.driver,
            state: process.state(),
            started: process.started_at(),
            cpu: process.cpu_time(),
            memory: vm.running.memory(pid),
        }
    }

    /// Sends a signal with the host's authority; `ESRCH` if the target has no process.
    pub fn kill(&self, target: KillTarget, signal: Signal) -> Result<()> {
        self.inner.table.kill(None, target, Some(signal))
    }

    /// Kills a process, all its descendants, and every session that one of them leads, so that
    /// what was started in the background and left to pid 1 goes too.
    pub fn kill_tree(&self, pid: u32) {
        let table = &self.inner.table;
        // What is killed makes no more children, so this ends; a round that finds nothing new is
        // the last.
        let mut known = HashSet::from([pid]);
        let mut killed = HashSet::new();
        loop {
            let all = table.list();
            let before = known.len();
            for process in &all {
                if known.contains(&process.ppid()) || known.contains(&process.sid()) {
                    known.insert(process.pid());
                }
            }
            let doomed: Vec<u32> = known.difference(&killed).copied().collect();
            for pid in doomed {
                killed.insert(pid);
                // Whoever has ended meanwhile needs no killing.
                let _ = table.kill(None, KillTarget::Pid(pid), Some(Signal::KILL));
            }
            if known.len() == before && killed.len() == known.len() {
                return;
            }
        }
    }
}
