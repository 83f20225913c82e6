//! Socket pairs and the passing of descriptors over them.

use crate::call::imports;
use crate::guest::{Done, Guest, View};
use kernel::{Errno, MsgFlags, OpenFlags, SocketKind};
use wasmtime::{Linker, Result};

/// Most descriptors of one message (`SCM_MAX_FD`).
const MAX_RIGHTS: u32 = 253;

/// `MSG_TRUNC`: tell the whole length of a message that was cut.
pub(crate) const MSG_TRUNC: u32 = 0x20;
/// `MSG_CMSG_CLOEXEC`: received descriptors are closed on exec.
const MSG_CMSG_CLOEXEC: u32 = 0x4000_0000;

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

/// Flags of a send or receive; bits without a meaning here are ignored, as Linux ignores them.
pub(crate) fn message_flags(flags: u32) -> MsgFlags {
    MsgFlags {
        peek: flags & 0x2 != 0,
        dont_wait: flags & 0x40 != 0,
        wait_all: flags & 0x100 != 0,
        no_signal: flags & 0x4000 != 0,
    }
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
    let kind = match kind {
        1 => SocketKind::Stream,
        2 => SocketKind::Datagram,
        3 => SocketKind::SeqPacket,
        _ => return Err(Errno::EINVAL.into()),
    };
    let mut flags = OpenFlags::empty();
    flags.set(OpenFlags::NONBLOCK, nonblock != 0);
    flags.set(OpenFlags::CLOEXEC, cloexec != 0);
    let (a, b) = v.task().socketpair(kind, flags)?;
    v.memory.put_u32(out_a, a as u32)?;
    v.memory.put_u32(out_b, b as u32)?;
    Ok(())
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
    let rights: Vec<i32> = v
        .memory
        .u32s(rights, rights_count)?
        .map(|fd| fd as i32)
        .collect();
    let bytes = v.memory.slice(data, len)?;
    let sent = v
        .guest
        .task
        .sendmsg(fd, bytes, &rights, message_flags(flags))?;
    Ok(v.memory.put_u32(out, sent as u32)?)
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
    let buffer = v.memory.slice_mut(data, cap)?;
    let cloexec = flags & MSG_CMSG_CLOEXEC != 0;
    let received = v.guest.task.recvmsg(
        fd,
        buffer,
        rights_cap as usize,
        cloexec,
        message_flags(flags),
    )?;
    for (index, fd) in received.rights.iter().enumerate() {
        v.memory.put_u32(rights + index as u32 * 4, *fd as u32)?;
    }
    // Two bits say what was cut, the rest is the length of the whole message.
    let full = u32::try_from(received.full_len).unwrap_or(u32::MAX) << 2;
    let message =
        u32::from(received.truncated()) | u32::from(received.rights_truncated) << 1 | full;
    v.memory.put_u32(out_len, received.bytes as u32)?;
    v.memory.put_u32(out_rights, received.rights.len() as u32)?;
    v.memory.put_u32(out_flags, message)?;
    Ok(())
}
