//! `host_user`: user and group numbers, and the records of `/etc/passwd` and `/etc/group`.

use crate::call::imports;
use crate::guest::{Done, Guest, View};
use kernel::Errno;
use wasmtime::{Linker, Result};

/// Most supplementary groups.
const MAX_GROUPS: u32 = 64;
/// Longest user or group name that is looked up.
const MAX_NAME: u32 = 4096;
/// Stands for "leave it" where a call takes several ids.
const KEEP: u32 = u32::MAX;

/// Defines every function of the module.
pub(crate) fn link(linker: &mut Linker<Guest>) -> Result<()> {
    imports! { linker, "host_user";
        errno getuid(out: u32);
        errno geteuid(out: u32);
        errno getgid(out: u32);
        errno getegid(out: u32);
        errno getresuid(real: u32, effective: u32, saved: u32);
        errno getresgid(real: u32, effective: u32, saved: u32);
        errno setuid(uid: u32);
        errno seteuid(uid: u32);
        errno setgid(gid: u32);
        errno setegid(gid: u32);
        errno setreuid(real: u32, effective: u32);
        errno setregid(real: u32, effective: u32);
        errno setresuid(real: u32, effective: u32, saved: u32);
        errno setresgid(real: u32, effective: u32, saved: u32);
        errno getgroups(cap: u32, ptr: u32, out: u32);
        errno setgroups(count: u32, ptr: u32);
        errno isatty(fd: i32, out: u32);
        errno getpwuid(uid: u32, buf: u32, cap: u32, out: u32);
        errno getgrgid(gid: u32, buf: u32, cap: u32, out: u32);
        errno getpwnam(name: u32, len: u32, buf: u32, cap: u32, out: u32);
        errno getgrnam(name: u32, len: u32, buf: u32, cap: u32, out: u32);
        errno getpwent(index: u32, buf: u32, cap: u32, out: u32);
        errno getgrent(index: u32, buf: u32, cap: u32, out: u32);
    }
    Ok(())
}

fn getuid(v: &mut View<'_>, out: u32) -> Done {
    let uid = v.task().getresuid().0;
    Ok(v.memory.put_u32(out, uid)?)
}

fn geteuid(v: &mut View<'_>, out: u32) -> Done {
    let uid = v.task().getresuid().1;
    Ok(v.memory.put_u32(out, uid)?)
}

fn getgid(v: &mut View<'_>, out: u32) -> Done {
    let gid = v.task().getresgid().0;
    Ok(v.memory.put_u32(out, gid)?)
}

fn getegid(v: &mut View<'_>, out: u32) -> Done {
    let gid = v.task().getresgid().1;
    Ok(v.memory.put_u32(out, gid)?)
}

fn three(v: &mut View<'_>, ids: (u32, u32, u32), outs: [u32; 3]) -> Done {
    v.memory.check_u32s(outs)?;
    for (out, id) in outs.into_iter().zip([ids.0, ids.1, ids.2]) {
        v.memory.put_u32(out, id)?;
    }
    Ok(())
}

fn getresuid(v: &mut View<'_>, real: u32, effective: u32, saved: u32) -> Done {
    let ids = v.task().getresuid();
    three(v, ids, [real, effective, saved])
}

fn getresgid(v: &mut View<'_>, real: u32, effective: u32, saved: u32) -> Done {
    let ids = v.task().getresgid();
    three(v, ids, [real, effective, saved])
}

fn setuid(v: &mut View<'_>, uid: u32) -> Done {
    Ok(v.task().setuid(uid)?)
}

fn seteuid(v: &mut View<'_>, uid: u32) -> Done {
    Ok(v.task().seteuid(uid)?)
}

fn setgid(v: &mut View<'_>, gid: u32) -> Done {
    Ok(v.task().setgid(gid)?)
}

fn setegid(v: &mut View<'_>, gid: u32) -> Done {
    Ok(v.task().setegid(gid)?)
}

/// An id to set, or `None` to leave it.
pub(crate) fn change(id: u32) -> Option<u32> {
    (id != KEEP).then_some(id)
}

fn setreuid(v: &mut View<'_>, real: u32, effective: u32) -> Done {
    Ok(v.task().setreuid(change(real), change(effective))?)
}

fn setregid(v: &mut View<'_>, real: u32, effective: u32) -> Done {
    Ok(v.task().setregid(change(real), change(effective))?)
}

fn setresuid(v: &mut View<'_>, real: u32, effective: u32, saved: u32) -> Done {
    Ok(v.task()
        .setresuid(change(real), change(effective), change(saved))?)
}

fn setresgid(v: &mut View<'_>, real: u32, effective: u32, saved: u32) -> Done {
    Ok(v.task()
        .setresgid(change(real), change(effective), change(saved))?)
}

fn getgroups(v: &mut View<'_>, cap: u32, ptr: u32, out: u32) -> Done {
    if cap > MAX_GROUPS {
        return Err(Errno::EINVAL.into());
    }
    v.memory.check(out, 4)?;
    v.memory.check_array(ptr, cap, 4)?;
    let groups = v.task().getgroups();
    if cap != 0 {
        if groups.len() > cap as usize {
            return Err(Errno::EINVAL.into());
        }
        for (index, group) in groups.iter().enumerate() {
            v.memory.put_u32(ptr + index as u32 * 4, *group)?;
        }
    }
    Ok(v.memory.put_u32(out, groups.len() as u32)?)
}

fn setgroups(v: &mut View<'_>, count: u32, ptr: u32) -> Done {
    if count > MAX_GROUPS {
        return Err(Errno::EINVAL.into());
    }
    let groups: Vec<u32> = v.memory.u32s(ptr, count)?.collect();
    Ok(v.task().setgroups(&groups)?)
}

fn isatty(v: &mut View<'_>, fd: i32, out: u32) -> Done {
    v.memory.check(out, 4)?;
    let terminal = v.task().isatty(fd)?;
    Ok(v.memory.put_u32(out, u32::from(terminal))?)
}

/// Writes a record and its length. The length is written also when there is no room for the
/// record, which then is `ERANGE`.
fn record(
    v: &mut View<'_>,
    record: impl FnOnce(&View<'_>) -> kernel::Result<Vec<u8>>,
    buf: u32,
    cap: u32,
    out: u32,
) -> Done {
    v.memory.check(out, 4)?;
    v.memory.check(buf, cap)?;
    let record = record(v)?;
    v.memory.put_u32(out, record.len() as u32)?;
    if record.len() > cap as usize {
        return Err(Errno::ERANGE.into());
    }
    Ok(v.memory.write(buf, &record)?)
}

fn getpwuid(v: &mut View<'_>, uid: u32, buf: u32, cap: u32, out: u32) -> Done {
    record(v, |v| v.task().getpwuid(uid), buf, cap, out)
}

fn getgrgid(v: &mut View<'_>, gid: u32, buf: u32, cap: u32, out: u32) -> Done {
    record(v, |v| v.task().getgrgid(gid), buf, cap, out)
}

fn name<'v>(v: &'v View<'_>, ptr: u32, len: u32) -> kernel::Result<&'v [u8]> {
    if len > MAX_NAME {
        return Err(Errno::ENAMETOOLONG);
    }
    v.memory.slice(ptr, len)
}

fn getpwnam(v: &mut View<'_>, ptr: u32, len: u32, buf: u32, cap: u32, out: u32) -> Done {
    record(v, |v| v.task().getpwnam(name(v, ptr, len)?), buf, cap, out)
}

fn getgrnam(v: &mut View<'_>, ptr: u32, len: u32, buf: u32, cap: u32, out: u32) -> Done {
    record(v, |v| v.task().getgrnam(name(v, ptr, len)?), buf, cap, out)
}

fn getpwent(v: &mut View<'_>, index: u32, buf: u32, cap: u32, out: u32) -> Done {
    record(v, |v| v.task().getpwent(index as usize), buf, cap, out)
}

fn getgrent(v: &mut View<'_>, index: u32, buf: u32, cap: u32, out: u32) -> Done {
    record(v, |v| v.task().getgrent(index as usize), buf, cap, out)
}
