//! Resource limits of a process (`getrlimit(2)`), by Linux's numbers and rules.

use crate::limits::ProcLimits;
use vfs_core::errno::{Errno, Result};

/// No limit (`RLIM_INFINITY`).
pub const RLIM_INFINITY: u64 = u64::MAX;

/// A resource (`RLIMIT_*`, `include/uapi/asm-generic/resource.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Resource {
    /// CPU time in seconds.
    Cpu = 0,
    /// Largest file in bytes.
    Fsize = 1,
    /// Data segment in bytes.
    Data = 2,
    /// Stack in bytes.
    Stack = 3,
    /// Core image in bytes.
    Core = 4,
    /// Resident memory in bytes.
    Rss = 5,
    /// Processes of the user.
    Nproc = 6,
    /// One more than the highest descriptor.
    Nofile = 7,
    /// Locked memory in bytes.
    Memlock = 8,
    /// Address space in bytes.
    As = 9,
    /// File locks.
    Locks = 10,
    /// Queued signals.
    Sigpending = 11,
    /// Message queues in bytes.
    Msgqueue = 12,
    /// Ceiling of the nice value.
    Nice = 13,
    /// Ceiling of the real-time priority.
    Rtprio = 14,
    /// Real-time CPU time in microseconds.
    Rttime = 15,
}

impl Resource {
    /// The resource of this number.
    pub fn new(number: u32) -> Option<Resource> {
        use Resource::*;
        [
            Cpu, Fsize, Data, Stack, Core, Rss, Nproc, Nofile, Memlock, As, Locks, Sigpending,
            Msgqueue, Nice, Rtprio, Rttime,
        ]
        .get(number as usize)
        .copied()
    }
}

/// A soft and a hard limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rlimit {
    /// What is enforced.
    pub soft: u64,
    /// How far an unprivileged process may raise it.
    pub hard: u64,
}

/// The limits of one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rlimits([Rlimit; 16]);

/// Soft descriptor limit of the first process, as Linux gives it.
const NOFILE_SOFT: u64 = 1024;
/// Soft stack limit of the first process, as Linux gives it.
const STACK_SOFT: u64 = 8 << 20;

impl Rlimits {
    /// What the first process of a VM has (`INIT_RLIMITS`), within the VM's own limits.
    pub fn initial(limits: &ProcLimits) -> Rlimits {
        let mut all = [Rlimit {
            soft: RLIM_INFINITY,
            hard: RLIM_INFINITY,
        }; 16];
        let mut set = |r: Resource, soft, hard| all[r as usize] = Rlimit { soft, hard };
        set(Resource::Stack, STACK_SOFT, RLIM_INFINITY);
        set(Resource::Core, 0, RLIM_INFINITY);
        set(Resource::Nproc, limits.processes, limits.processes);
        set(
            Resource::Nofile,
            NOFILE_SOFT.min(limits.descriptors),
            limits.descriptors,
        );
        set(
            Resource::Sigpending,
            limits.signals_pending,
            limits.signals_pending,
        );
        set(Resource::Memlock, STACK_SOFT, STACK_SOFT);
        set(Resource::Msgqueue, 819_200, 819_200);
        set(Resource::Nice, 0, 0);
        set(Resource::Rtprio, 0, 0);
        Rlimits(all)
    }

    /// The limits of `resource`.
    pub fn get(&self, resource: Resource) -> Rlimit {
        self.0[resource as usize]
    }

    /// Sets them: `EINVAL` if soft is above hard, `EPERM` if hard rises without privilege or, for
    /// descriptors, above what the VM allows anybody (`nr_open`).
    pub fn set(
        &mut self,
        resource: Resource,
        new: Rlimit,
        privileged: bool,
        nr_open: u64,
    ) -> Result<()> {
        if new.soft > new.hard {
            return Err(Errno::EINVAL);
        }
        if resource == Resource::Nofile && new.hard > nr_open {
            return Err(Errno::EPERM);
        }
        let old = &mut self.0[resource as usize];
        if new.hard > old.hard && !privileged {
            return Err(Errno::EPERM);
        }
        *old = new;
        Ok(())
    }
}
