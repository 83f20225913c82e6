//! Socket pairs and the passing of descriptors over them.

use crate::call::imports;
use crate::guest::{Done, Guest, View};
use kernel::{Errno, FdKind};
use wasmtime::{Linker, Result};

/// Most descriptors of one message (`SCM_MAX_FD`).
const MAX_RIGHTS: u32 = 253;

/// Flags of `recv` and `send` that pass through: PEEK, TRUNC, DONTWAIT, WAITALL, NOSIGNAL, and
/// `MSG_CMSG_CLOEXEC`.
const MESSAGE_FLAGS: u32 = 0x2 | 0x20 | 0x40 | 0x100 | 0x4000 | 0x4000_0000;

pub(super) fn link(linker: &mut Linker<Guest>) -> Result<()> {
    imports! { linker, "host_process";
        errno fd_socketpair(kind: u32, nonblock: u32, cloexec: u32, out_a: u32, out_b: u32);
        errno fd_sendmsg_rights(
            fd: i32, data: u32, len: u32, rights: u32, rights_count: u32, flags: u32, out: u32,
        );
        errno fd_recvmsg_rights(
            fd: i32, data: u32, cap: u32, rights: u32, rights_cap: u32, flags: u32,
            out_len: u32, out_rights: u32, out_flags: u32,
        );
    }
    Ok(())
}

fn fd_socketpair(
    v: &mut View<'_>,
    kind: u32,
    nonblock: u32,
    cloexec: u32,
    out_a: u32,
    out_b: u32,
) -> Done {
    v.memory.check_u32s([out_a, out_b])?;
    if nonblock > 1 || cloexec > 1 || !matches!(kind, 1 | 2 | 5 | 6) {
        return Err(Errno::EINVAL.into());
    }
    Err(Errno::ENOTSUP.into())
}

#[expect(clippy::too_many_arguments, reason = "the import has them")]
fn fd_sendmsg_rights(
    v: &mut View<'_>,
    fd: i32,
    data: u32,
    len: u32,
    rights: u32,
    rights_count: u32,
    flags: u32,
    out: u32,
) -> Done {
    v.memory.check(out, 4)?;
    if rights_count > MAX_RIGHTS {
        return Err(Errno::EINVAL.into());
    }
    v.memory.check_array(rights, rights_count, 4)?;
    v.memory.check(data, len)?;
    message(v, fd, flags)
}

#[expect(clippy::too_many_arguments, reason = "the import has them")]
fn fd_recvmsg_rights(
    v: &mut View<'_>,
    fd: i32,
    data: u32,
    cap: u32,
    rights: u32,
    rights_cap: u32,
    flags: u32,
    out_len: u32,
    out_rights: u32,
    out_flags: u32,
) -> Done {
    v.memory.check_u32s([out_len, out_rights, out_flags])?;
    let rights_cap = rights_cap.min(MAX_RIGHTS);
    v.memory.check_array(rights, rights_cap, 4)?;
    v.memory.check(data, cap)?;
    message(v, fd, flags)
}

/// No descriptor is a socket yet.
fn message(v: &View<'_>, fd: i32, flags: u32) -> Done {
    if flags & !MESSAGE_FLAGS != 0 {
        return Err(Errno::EINVAL.into());
    }
    match v.task().fd_kind(fd)? {
        FdKind::Socket { .. } => Err(Errno::ENOTSUP.into()),
        _ => Err(Errno::ENOTSOCK.into()),
    }
}
