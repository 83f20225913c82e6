//! `host_net` on a machine without a network.
//!
//! Socket pairs exist, and their ends answer here as sockets do. Everything that would make or
//! reach an Internet socket answers as a kernel without that address family. Guests send every
//! descriptor they are not sure about through here first, so what is no socket must say so.

use crate::call::imports;
use crate::guest::{Done, Guest, View};
use crate::host_process::{MSG_TRUNC, message_flags, poll_fds};
use kernel::{Errno, FdKind, OpenFlags};
use std::time::Duration;
use wasmtime::{Linker, Result};

/// Longest name or address that is looked at.
const MAX_TEXT: u32 = 4096;

/// Defines every function of the module.
pub(crate) fn link(linker: &mut Linker<Guest>) -> Result<()> {
    imports! { linker, "host_net";
        errno net_send(fd: i32, ptr: u32, len: u32, flags: u32, out: u32);
        errno net_recv(fd: i32, ptr: u32, len: u32, flags: u32, out: u32);
        errno net_sendto(
            fd: i32, ptr: u32, len: u32, flags: u32, addr: u32, addr_len: u32, out: u32,
        );
        errno net_recvfrom(
            fd: i32, ptr: u32, cap: u32, flags: u32, out: u32, addr: u32, addr_len: u32,
        );
        errno net_socket(domain: u32, kind: u32, protocol: u32, out: u32);
        errno net_set_nonblock(fd: i32, enable: u32);
        errno net_connect(fd: i32, addr: u32, addr_len: u32);
        errno net_bind(fd: i32, addr: u32, addr_len: u32);
        errno net_listen(fd: i32, backlog: i32);
        errno net_accept(fd: i32, out: u32, addr: u32, addr_len: u32);
        errno net_getsockname(fd: i32, addr: u32, addr_len: u32);
        errno net_getpeername(fd: i32, addr: u32, addr_len: u32);
        errno net_validate_socket(fd: i32);
        errno net_validate_accept(fd: i32);
        errno net_setsockopt(fd: i32, level: u32, name: u32, ptr: u32, len: u32);
        errno net_getsockopt(fd: i32, level: u32, name: u32, ptr: u32, len: u32);
        errno net_getaddrinfo(
            host: u32, host_len: u32, service: u32, service_len: u32, family: u32,
            out: u32, out_len: u32,
        );
        errno net_dns_query_rr_v1(
            name: u32, name_len: u32, kind: u32, out: u32, cap: u32,
            out_len: u32, out_ttl: u32, out_status: u32,
        );
        once net_poll(fds: u32, count: u32, timeout_ms: i32, out: u32);
        errno net_close(fd: i32);
        errno net_tls_connect(fd: i32, name: u32, name_len: u32);
    }
    Ok(())
}

/// Proves that the descriptor is a socket: `EBADF`, `ENOTSOCK`.
fn socket(v: &View<'_>, fd: i32) -> kernel::Result<()> {
    match v.task().fd_kind(fd)? {
        FdKind::Socket { .. } => Ok(()),
        _ => Err(Errno::ENOTSOCK),
    }
}

fn net_send(v: &mut View<'_>, fd: i32, ptr: u32, len: u32, flags: u32, out: u32) -> Done {
    v.memory.check(out, 4)?;
    let sent = v
        .guest
        .task
        .send(fd, v.memory.slice(ptr, len)?, message_flags(flags))?;
    Ok(v.memory.put_u32(out, sent as u32)?)
}

fn net_recv(v: &mut View<'_>, fd: i32, ptr: u32, len: u32, flags: u32, out: u32) -> Done {
    v.memory.check(out, 4)?;
    let buffer = v.memory.slice_mut(ptr, len)?;
    let received = v
        .guest
        .task
        .recvmsg(fd, buffer, 0, false, message_flags(flags))?;
    let told = if flags & MSG_TRUNC != 0 {
        received.full_len
    } else {
        received.bytes
    };
    Ok(v.memory.put_u32(out, told as u32)?)
}

#[expect(clippy::too_many_arguments, reason = "the import has them")]
fn net_sendto(
    v: &mut View<'_>,
    fd: i32,
    ptr: u32,
    len: u32,
    flags: u32,
    addr: u32,
    addr_len: u32,
    out: u32,
) -> Done {
    text(v, addr, addr_len)?;
    if addr_len != 0 {
        // The ends of a pair are connected for life.
        socket(v, fd)?;
        return Err(Errno::EISCONN.into());
    }
    net_send(v, fd, ptr, len, flags, out)
}

#[expect(clippy::too_many_arguments, reason = "the import has them")]
fn net_recvfrom(
    v: &mut View<'_>,
    fd: i32,
    ptr: u32,
    cap: u32,
    flags: u32,
    out: u32,
    addr: u32,
    addr_len: u32,
) -> Done {
    address_room(v, addr, addr_len)?;
    net_recv(v, fd, ptr, cap, flags, out)?;
    put_address(v, addr, addr_len)
}

/// Asks the policy, and then there is no network to make a socket of; pairs are made with
/// `host_process.fd_socketpair`.
fn net_socket(v: &mut View<'_>, domain: u32, _kind: u32, _protocol: u32, out: u32) -> Done {
    v.memory.check(out, 4)?;
    // The guest's libc counts the families by itself.
    let family = match domain {
        1 => 2,
        2 => 10,
        3 => 1,
        _ => return Err(Errno::EAFNOSUPPORT.into()),
    };
    let fd = v.task().socket(family)?;
    Ok(v.memory.put_u32(out, fd as u32)?)
}

fn net_set_nonblock(v: &mut View<'_>, fd: i32, enable: u32) -> Done {
    socket(v, fd)?;
    let mut flags = v.task().getfl(fd)?;
    flags.set(OpenFlags::NONBLOCK, enable != 0);
    Ok(v.task().setfl(fd, flags)?)
}

/// Text of the guest, such as an address.
fn text<'v>(v: &'v View<'_>, ptr: u32, len: u32) -> kernel::Result<&'v [u8]> {
    if len > MAX_TEXT {
        return Err(Errno::EINVAL);
    }
    v.memory.slice(ptr, len)
}

fn net_connect(v: &mut View<'_>, fd: i32, addr: u32, addr_len: u32) -> Done {
    text(v, addr, addr_len)?;
    socket(v, fd)?;
    Err(Errno::EISCONN.into())
}

fn net_bind(v: &mut View<'_>, fd: i32, addr: u32, addr_len: u32) -> Done {
    text(v, addr, addr_len)?;
    socket(v, fd)?;
    Err(Errno::ENOTSUP.into())
}

fn net_listen(v: &mut View<'_>, fd: i32, _backlog: i32) -> Done {
    socket(v, fd)?;
    Err(Errno::EINVAL.into())
}

fn net_accept(v: &mut View<'_>, fd: i32, out: u32, addr: u32, addr_len: u32) -> Done {
    v.memory.check(out, 4)?;
    address_room(v, addr, addr_len)?;
    socket(v, fd)?;
    Err(Errno::EINVAL.into())
}

/// Proves that an address can be written where an in-out length says how much room there is.
fn address_room(v: &View<'_>, addr: u32, addr_len: u32) -> kernel::Result<()> {
    let cap = v.memory.u32(addr_len)?;
    v.memory.check(addr, cap).map(drop)
}

/// Writes the address of a socket that has none.
fn put_address(v: &mut View<'_>, addr: u32, addr_len: u32) -> Done {
    const UNNAMED: &[u8] = b"unix-unnamed";
    let cap = v.memory.u32(addr_len)? as usize;
    let shown = &UNNAMED[..UNNAMED.len().min(cap)];
    v.memory.write(addr, shown)?;
    Ok(v.memory.put_u32(addr_len, shown.len() as u32)?)
}

fn net_getsockname(v: &mut View<'_>, fd: i32, addr: u32, addr_len: u32) -> Done {
    address_room(v, addr, addr_len)?;
    socket(v, fd)?;
    put_address(v, addr, addr_len)
}

fn net_getpeername(v: &mut View<'_>, fd: i32, addr: u32, addr_len: u32) -> Done {
    net_getsockname(v, fd, addr, addr_len)
}

fn net_validate_socket(v: &mut View<'_>, fd: i32) -> Done {
    Ok(socket(v, fd)?)
}

/// No socket here listens.
fn net_validate_accept(v: &mut View<'_>, fd: i32) -> Done {
    socket(v, fd)?;
    Err(Errno::EINVAL.into())
}

/// `SOL_SOCKET` in Linux's and in wasi-libc's numbers.
const SOL_SOCKET: [u32; 2] = [1, 0x7fff_ffff];

fn net_setsockopt(v: &mut View<'_>, fd: i32, level: u32, name: u32, ptr: u32, len: u32) -> Done {
    text(v, ptr, len)?;
    socket(v, fd)?;
    // Options that mean nothing to a pair, but that programs set as a matter of course.
    let size = match (SOL_SOCKET.contains(&level), level, name) {
        (true, _, 2) => 4,
        (true, _, 13) => 8,
        (true, _, 9) | (_, 6, 1) | (_, 0, 1) | (_, 41, 67) => 0,
        _ => return Err(Errno::EINVAL.into()),
    };
    if len < size {
        Err(Errno::EINVAL.into())
    } else {
        Ok(())
    }
}

fn net_getsockopt(v: &mut View<'_>, fd: i32, level: u32, name: u32, ptr: u32, len: u32) -> Done {
    const SO_ERROR: u32 = 4;
    let cap = v.memory.u32(len)?;
    v.memory.check(ptr, cap)?;
    socket(v, fd)?;
    if !SOL_SOCKET.contains(&level) || name != SO_ERROR || cap < 4 {
        return Err(Errno::EINVAL.into());
    }
    v.memory.put_u32(ptr, 0)?;
    v.memory.put_u32(len, 4)?;
    Ok(())
}

#[expect(clippy::too_many_arguments, reason = "the import has them")]
fn net_getaddrinfo(
    v: &mut View<'_>,
    host: u32,
    host_len: u32,
    service: u32,
    service_len: u32,
    _family: u32,
    out: u32,
    out_len: u32,
) -> Done {
    text(v, host, host_len)?;
    text(v, service, service_len)?;
    address_room(v, out, out_len)?;
    Err(Errno::ENOTSUP.into())
}

#[expect(clippy::too_many_arguments, reason = "the import has them")]
fn net_dns_query_rr_v1(
    v: &mut View<'_>,
    name: u32,
    name_len: u32,
    _kind: u32,
    out: u32,
    cap: u32,
    out_len: u32,
    out_ttl: u32,
    out_status: u32,
) -> Done {
    text(v, name, name_len)?;
    v.memory.check(out, cap)?;
    v.memory.check_u32s([out_len, out_ttl, out_status])?;
    Err(Errno::ENOTSUP.into())
}

fn net_poll(v: &mut View<'_>, fds: u32, count: u32, timeout_ms: i32, out: u32) -> Done {
    let timeout = u64::try_from(timeout_ms).ok().map(Duration::from_millis);
    poll_fds(v, fds, count, timeout, None, out)
}

fn net_close(v: &mut View<'_>, fd: i32) -> Done {
    Ok(v.task().close(fd)?)
}

fn net_tls_connect(v: &mut View<'_>, fd: i32, name: u32, name_len: u32) -> Done {
    text(v, name, name_len)?;
    socket(v, fd)?;
    Err(Errno::ENOTSUP.into())
}
