//! CPU time and resource limits of a process.

use super::Process;
use crate::rlimit::{RLIM_INFINITY, Resource, Rlimit, Rlimits};
use crate::signal::Signal;
use crate::sync::lock;
use crate::wait::Rusage;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use vfs_core::errno::Result;

impl Process {
    /// Adds CPU time it has used, and raises `SIGXCPU` or `SIGKILL` where that passes
    /// `RLIMIT_CPU`: the first at the soft limit and each second after, the second at the hard.
    pub fn add_cpu(&self, user: Duration, system: Duration) {
        let (user, system) = (nanos(user), nanos(system));
        let before = self.user_ns.fetch_add(user, Ordering::Relaxed)
            + self.system_ns.fetch_add(system, Ordering::Relaxed);
        let after = before + user + system;
        if after >= self.cpu_limit_ns.load(Ordering::Relaxed) {
            self.over_cpu(after);
        }
    }

    #[cold]
    fn over_cpu(&self, used: u64) {
        let limit = self.rlimit(Resource::Cpu);
        let seconds = used / 1_000_000_000;
        let signal = if seconds >= limit.hard {
            Signal::KILL
        } else {
            Signal::XCPU
        };
        self.cpu_limit_ns.store(
            (seconds + 1).saturating_mul(1_000_000_000),
            Ordering::Relaxed,
        );
        self.raise(signal);
    }

    /// CPU time of its own and of the children it has waited for.
    pub fn rusage(&self) -> (Rusage, Rusage) {
        let load = |a: &AtomicU64| Duration::from_nanos(a.load(Ordering::Relaxed));
        (
            Rusage {
                user: load(&self.user_ns),
                system: load(&self.system_ns),
            },
            Rusage {
                user: load(&self.child_user_ns),
                system: load(&self.child_system_ns),
            },
        )
    }

    /// CPU time of its own.
    pub fn cpu_time(&self) -> Duration {
        let (own, _) = self.rusage();
        own.user + own.system
    }

    pub(crate) fn add_child_usage(&self, usage: Rusage) {
        self.child_user_ns
            .fetch_add(nanos(usage.user), Ordering::Relaxed);
        self.child_system_ns
            .fetch_add(nanos(usage.system), Ordering::Relaxed);
    }

    /// The limits of `resource`.
    pub fn rlimit(&self, resource: Resource) -> Rlimit {
        lock(&self.rlimits).get(resource)
    }

    pub(crate) fn rlimits(&self) -> Rlimits {
        lock(&self.rlimits).clone()
    }

    /// Sets the limits of `resource` with the privilege of its own credentials: `EINVAL`, `EPERM`.
    pub fn set_rlimit(&self, resource: Resource, limit: Rlimit) -> Result<()> {
        let privileged = self.cred().is_root();
        let nr_open = self
            .table()
            .map_or(RLIM_INFINITY, |t| t.limits().descriptors);
        lock(&self.rlimits).set(resource, limit, privileged, nr_open)?;
        match resource {
            Resource::Nofile => self.fds.set_limit(limit.soft),
            Resource::Sigpending => self.signals.set_queue_limit(limit.soft),
            Resource::Cpu => self
                .cpu_limit_ns
                .store(cpu_limit_ns(limit), Ordering::Relaxed),
            _ => {}
        }
        Ok(())
    }
}

fn nanos(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX / 4)
}

/// Soft `RLIMIT_CPU` in nanoseconds.
pub(super) fn cpu_limit_ns(limit: Rlimit) -> u64 {
    limit.soft.saturating_mul(1_000_000_000)
}
