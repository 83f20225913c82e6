//! Who the process is: ids, arguments, groups and sessions, resource limits, names of the system.

use super::Task;
use proctable::rlimit::{Resource, Rlimit};
use std::sync::Arc;
use vfs_core::errno::{Errno, Result};

/// Names of the system (`struct utsname`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UtsName {
    /// Name of the operating system.
    pub sysname: Vec<u8>,
    /// Host name.
    pub nodename: Vec<u8>,
    /// Release.
    pub release: Vec<u8>,
    /// Version.
    pub version: Vec<u8>,
    /// Hardware.
    pub machine: Vec<u8>,
    /// NIS domain.
    pub domainname: Vec<u8>,
}

impl Task {
    /// Arguments, exactly as they were given.
    pub fn argv(&self) -> Arc<[Vec<u8>]> {
        self.process.argv()
    }

    /// Environment, `KEY=VALUE` each, exactly as it was given.
    pub fn environ(&self) -> Arc<[Vec<u8>]> {
        self.process.env()
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Parent's process id.
    pub fn ppid(&self) -> u32 {
        self.process.ppid()
    }

    /// Process group.
    pub fn pgid(&self) -> u32 {
        self.process.pgid()
    }

    /// Session.
    pub fn sid(&self) -> u32 {
        self.process.sid()
    }

    /// Process group of a process, 0 for the caller's own (`getpgid(2)`); `ESRCH`.
    pub fn getpgid(&self, pid: i32) -> Result<u32> {
        self.vm.table.getpgid(&self.process, pid)
    }

    /// Moves a process into a group (`setpgid(2)`).
    pub fn setpgid(&self, pid: i32, pgid: i32) -> Result<()> {
        self.vm.table.setpgid(&self.process, pid, pgid)
    }

    /// Session of a process, 0 for the caller's own (`getsid(2)`); `ESRCH`.
    pub fn getsid(&self, pid: i32) -> Result<u32> {
        self.vm.table.getsid(&self.process, pid)
    }

    /// Starts a session with the caller as its leader (`setsid(2)`); `EPERM` for a group leader.
    pub fn setsid(&self) -> Result<u32> {
        self.vm.table.setsid(&self.process)
    }

    /// Sets the file mode creation mask, if one is given, and returns what was (`umask(2)`).
    pub fn umask(&self, mask: Option<u32>) -> u32 {
        match mask {
            Some(mask) => self.process.set_umask(mask),
            None => self.process.umask(),
        }
    }

    /// Soft and hard limit of a resource by Linux's number, `u64::MAX` for none (`getrlimit(2)`).
    pub fn getrlimit(&self, resource: u32) -> Result<(u64, u64)> {
        let limit = self
            .process
            .rlimit(Resource::new(resource).ok_or(Errno::EINVAL)?);
        Ok((limit.soft, limit.hard))
    }

    /// Sets the limits of a resource (`setrlimit(2)`).
    pub fn setrlimit(&self, resource: u32, soft: u64, hard: u64) -> Result<()> {
        let resource = Resource::new(resource).ok_or(Errno::EINVAL)?;
        self.process.set_rlimit(resource, Rlimit { soft, hard })?;
        match resource {
            Resource::Fsize => self.refresh_file_limit(),
            Resource::Cpu => self.vm.watch_cpu(&self.process),
            _ => {}
        }
        Ok(())
    }

    pub(super) fn refresh_file_limit(&self) {
        self.file_bytes
            .set(self.process.rlimit(Resource::Fsize).soft);
    }

    pub(super) fn rlimit_as(&self) -> u64 {
        self.process.rlimit(Resource::As).soft
    }

    /// Names of the system (`uname(2)`).
    pub fn uname(&self) -> UtsName {
        UtsName {
            sysname: crate::SYSNAME.into(),
            nodename: self.vm.hostname.clone(),
            release: crate::RELEASE.into(),
            version: crate::VERSION.into(),
            machine: crate::MACHINE.into(),
            domainname: b"(none)".to_vec(),
        }
    }
}
