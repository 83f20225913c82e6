//! Credentials: user and group ids, by Linux's rules (`kernel/sys.c`). The superuser holds the
//! capabilities `CAP_SETUID` and `CAP_SETGID`, nobody else does.

use super::Task;
use std::sync::Arc;
use vfs_core::errno::{Errno, Result};
use vfs_core::types::{Caller, Cred};

/// Most supplementary groups (`process.groups`).
pub(crate) const MAX_GROUPS: usize = 64;

impl Task {
    /// All credentials.
    pub fn cred(&self) -> Arc<Cred> {
        self.process.cred()
    }

    /// Real, effective and saved user.
    pub fn getresuid(&self) -> (u32, u32, u32) {
        let cred = self.cred();
        (cred.uid, cred.euid, cred.suid)
    }

    /// Real, effective and saved group.
    pub fn getresgid(&self) -> (u32, u32, u32) {
        let cred = self.cred();
        (cred.gid, cred.egid, cred.sgid)
    }

    /// Supplementary groups.
    pub fn getgroups(&self) -> Vec<u32> {
        self.cred().groups.clone()
    }

    /// Whose permissions `access(2)` asks about: the real ids in place of the effective ones.
    pub(super) fn real_caller(&self) -> Caller {
        let mut caller = self.caller();
        if caller.cred.uid != caller.cred.euid || caller.cred.gid != caller.cred.egid {
            let mut cred = (*caller.cred).clone();
            cred.euid = cred.uid;
            cred.egid = cred.gid;
            caller.cred = Arc::new(cred);
        }
        caller
    }

    fn change(&self, change: impl FnOnce(&mut Cred) -> Result<()>) -> Result<()> {
        let mut cred = (*self.cred()).clone();
        change(&mut cred)?;
        self.process.set_cred(Arc::new(cred));
        Ok(())
    }

    /// `setuid(2)`: the superuser sets all three, others the effective one to the real or saved.
    pub fn setuid(&self, uid: u32) -> Result<()> {
        valid(uid)?;
        self.change(|cred| {
            if cred.is_root() {
                (cred.uid, cred.euid, cred.suid) = (uid, uid, uid);
            } else if uid == cred.uid || uid == cred.suid {
                cred.euid = uid;
            } else {
                return Err(Errno::EPERM);
            }
            Ok(())
        })
    }

    /// `setgid(2)`.
    pub fn setgid(&self, gid: u32) -> Result<()> {
        valid(gid)?;
        self.change(|cred| {
            if cred.is_root() {
                (cred.gid, cred.egid, cred.sgid) = (gid, gid, gid);
            } else if gid == cred.gid || gid == cred.sgid {
                cred.egid = gid;
            } else {
                return Err(Errno::EPERM);
            }
            Ok(())
        })
    }

    /// `seteuid(3)`.
    pub fn seteuid(&self, uid: u32) -> Result<()> {
        valid(uid)?;
        self.setresuid(None, Some(uid), None)
    }

    /// `setegid(3)`.
    pub fn setegid(&self, gid: u32) -> Result<()> {
        valid(gid)?;
        self.setresgid(None, Some(gid), None)
    }

    /// `setreuid(2)`; `None` leaves an id. The saved id follows the effective one if the real id
    /// was set or the effective one set to something else than the old real one.
    pub fn setreuid(&self, uid: Option<u32>, euid: Option<u32>) -> Result<()> {
        self.change(|cred| {
            let old = cred.clone();
            if let Some(uid) = uid {
                if !old.is_root() && uid != old.uid && uid != old.euid {
                    return Err(Errno::EPERM);
                }
                cred.uid = uid;
            }
            if let Some(euid) = euid {
                if !old.is_root() && ![old.uid, old.euid, old.suid].contains(&euid) {
                    return Err(Errno::EPERM);
                }
                cred.euid = euid;
            }
            if uid.is_some() || euid.is_some_and(|euid| euid != old.uid) {
                cred.suid = cred.euid;
            }
            Ok(())
        })
    }

    /// `setregid(2)`; `None` leaves an id.
    pub fn setregid(&self, gid: Option<u32>, egid: Option<u32>) -> Result<()> {
        self.change(|cred| {
            let old = cred.clone();
            if let Some(gid) = gid {
                if !old.is_root() && gid != old.gid && gid != old.egid {
                    return Err(Errno::EPERM);
                }
                cred.gid = gid;
            }
            if let Some(egid) = egid {
                if !old.is_root() && ![old.gid, old.egid, old.sgid].contains(&egid) {
                    return Err(Errno::EPERM);
                }
                cred.egid = egid;
            }
            if gid.is_some() || egid.is_some_and(|egid| egid != old.gid) {
                cred.sgid = cred.egid;
            }
            Ok(())
        })
    }

    /// `setresuid(2)`; `None` leaves an id.
    pub fn setresuid(&self, uid: Option<u32>, euid: Option<u32>, suid: Option<u32>) -> Result<()> {
        self.change(|cred| {
            let had = [cred.uid, cred.euid, cred.suid];
            if !cred.is_root()
                && [uid, euid, suid]
                    .iter()
                    .flatten()
                    .any(|id| !had.contains(id))
            {
                return Err(Errno::EPERM);
            }
            cred.uid = uid.unwrap_or(cred.uid);
            cred.euid = euid.unwrap_or(cred.euid);
            cred.suid = suid.unwrap_or(cred.suid);
            Ok(())
        })
    }

    /// `setresgid(2)`; `None` leaves an id.
    pub fn setresgid(&self, gid: Option<u32>, egid: Option<u32>, sgid: Option<u32>) -> Result<()> {
        self.change(|cred| {
            let had = [cred.gid, cred.egid, cred.sgid];
            if !cred.is_root()
                && [gid, egid, sgid]
                    .iter()
                    .flatten()
                    .any(|id| !had.contains(id))
            {
                return Err(Errno::EPERM);
            }
            cred.gid = gid.unwrap_or(cred.gid);
            cred.egid = egid.unwrap_or(cred.egid);
            cred.sgid = sgid.unwrap_or(cred.sgid);
            Ok(())
        })
    }

    /// Sets the supplementary groups (`setgroups(2)`): `EPERM` unless superuser, `EINVAL` for more
    /// than 64.
    pub fn setgroups(&self, groups: &[u32]) -> Result<()> {
        self.change(|cred| {
            if !cred.is_root() {
                return Err(Errno::EPERM);
            }
            if groups.len() > MAX_GROUPS {
                return Err(Errno::EINVAL);
            }
            cred.groups = groups.to_vec();
            Ok(())
        })
    }
}

/// The all-ones id means "leave it" where that is possible and is refused where it is not.
fn valid(id: u32) -> Result<()> {
    if id == u32::MAX {
        Err(Errno::EINVAL)
    } else {
        Ok(())
    }
}
