//! `poll_oneoff`: waiting for descriptors and clocks.

use super::clock;
use crate::abi;
use crate::call::imports;
use crate::errno;
use crate::guest::{Done, Guest, View};
use kernel::{Errno, PollEvents, PollFd};
use std::time::Duration;
use wasmtime::{Linker, Result};

/// Bytes of a subscription.
const SUBSCRIPTION: u32 = 48;
/// Bytes of an event.
const EVENT: u32 = 32;
/// Subscription flag: the time is a point, not a span.
const ABSTIME: u16 = 1;
/// Event flag: the other end is gone.
const HANGUP: u16 = 1;

pub(super) fn link(linker: &mut Linker<Guest>) -> Result<()> {
    imports! { linker, "wasi_snapshot_preview1";
        once poll_oneoff(subscriptions: u32, events: u32, count: u32, out: u32);
    }
    Ok(())
}

/// What a subscription waits for.
#[derive(Clone, Copy)]
enum Kind {
    /// A time from now.
    Clock(Duration),
    /// Readable.
    Read,
    /// Writable.
    Write,
    /// Not valid; reported as an event with this error, as WASI wants it.
    Invalid(Errno, u8),
}

struct Subscription {
    userdata: [u8; 8],
    kind: Kind,
    fd: i32,
}

impl Subscription {
    fn parse(v: &View<'_>, bytes: &[u8; SUBSCRIPTION as usize]) -> Subscription {
        let u64_at = |at: usize| {
            bytes[at..at + 8]
                .iter()
                .rev()
                .fold(0u64, |value, byte| value << 8 | u64::from(*byte))
        };
        let userdata = u64_at(0).to_le_bytes();
        let tag = bytes[8];
        let (kind, fd) = match tag {
            0 => (
                clock_kind(v, u64_at(16) as u32, u64_at(24), u64_at(40) as u16),
                -1,
            ),
            1 => (Kind::Read, u64_at(16) as u32 as i32),
            2 => (Kind::Write, u64_at(16) as u32 as i32),
            _ => (Kind::Invalid(Errno::EINVAL, tag), -1),
        };
        Subscription { userdata, kind, fd }
    }

    fn tag(&self) -> u8 {
        match self.kind {
            Kind::Clock(_) => 0,
            Kind::Read => 1,
            Kind::Write => 2,
            Kind::Invalid(_, tag) => tag,
        }
    }
}

fn clock_kind(v: &View<'_>, number: u32, timeout: u64, flags: u16) -> Kind {
    match clock(number) {
        Ok(_) if flags & ABSTIME == 0 => Kind::Clock(Duration::from_nanos(timeout)),
        Ok(clock) => {
            let now = u64::try_from(v.task().clock_gettime(clock).as_nanos()).unwrap_or(0);
            Kind::Clock(Duration::from_nanos(timeout.saturating_sub(now)))
        }
        Err(errno) => Kind::Invalid(errno, 0),
    }
}

fn poll_oneoff(v: &mut View<'_>, subscriptions: u32, events: u32, count: u32, out: u32) -> Done {
    if count == 0 || count > abi::MAX_VECTOR {
        return Err(Errno::EINVAL.into());
    }
    v.memory.check(out, 4)?;
    v.memory.check_array(events, count, EVENT)?;
    v.memory.check_array(subscriptions, count, SUBSCRIPTION)?;
    let mut wanted = Vec::with_capacity(count as usize);
    for index in 0..count {
        let bytes = v.memory.bytes(subscriptions + index * SUBSCRIPTION)?;
        wanted.push(Subscription::parse(v, &bytes));
    }
    let mut fds: Vec<PollFd> = Vec::new();
    let mut timeout: Option<Duration> = None;
    for subscription in &wanted {
        match subscription.kind {
            Kind::Clock(span) => {
                timeout = Some(timeout.map_or(span, |shortest| shortest.min(span)))
            }
            Kind::Read => fds.push(poll_fd(subscription.fd, PollEvents::IN)),
            Kind::Write => fds.push(poll_fd(subscription.fd, PollEvents::OUT)),
            Kind::Invalid(..) => timeout = Some(Duration::ZERO),
        }
    }
    let ready = v.task().poll(&mut fds, timeout, None)?;
    let mut polled = fds.iter();
    let mut written = 0;
    for subscription in &wanted {
        let event = match subscription.kind {
            // Without a ready descriptor the shortest clock has run out, and with it all clocks
            // of the same length.
            Kind::Clock(span) if ready == 0 && Some(span) == timeout => Some((0, 0, 0)),
            Kind::Clock(_) => None,
            Kind::Invalid(errno, _) => Some((errno::wasi(errno), 0, 0)),
            Kind::Read | Kind::Write => polled.next().and_then(|fd| fd_event(v, fd)),
        };
        if let Some((error, nbytes, flags)) = event {
            let mut bytes = [0; EVENT as usize];
            bytes[0..8].copy_from_slice(&subscription.userdata);
            bytes[8..10].copy_from_slice(&u16::to_le_bytes(error));
            bytes[10] = subscription.tag();
            bytes[16..24].copy_from_slice(&u64::to_le_bytes(nbytes));
            bytes[24..26].copy_from_slice(&u16::to_le_bytes(flags));
            v.memory.write(events + written * EVENT, &bytes)?;
            written += 1;
        }
    }
    Ok(v.memory.put_u32(out, written)?)
}

/// A descriptor out of the range of `int` is as closed as any.
fn poll_fd(fd: i32, events: PollEvents) -> PollFd {
    // poll(2) skips negative descriptors without a word; WASI reports them.
    PollFd {
        fd: if fd < 0 { i32::MAX } else { fd },
        events,
        revents: PollEvents::empty(),
    }
}

/// Error number, bytes that can be read, and flags of a descriptor that is ready.
fn fd_event(v: &View<'_>, fd: &PollFd) -> Option<(u16, u64, u16)> {
    if fd.revents.is_empty() {
        return None;
    }
    if fd.revents.contains(PollEvents::NVAL) {
        return Some((errno::wasi(Errno::EBADF), 0, 0));
    }
    let hangup = if fd.revents.contains(PollEvents::HUP) {
        HANGUP
    } else {
        0
    };
    let nbytes = if fd.events.contains(PollEvents::IN) {
        let readable = v
            .task()
            .file(fd.fd)
            .and_then(|file| file.ops().readable_bytes());
        readable.map_or(0, |n| n as u64)
    } else {
        0
    };
    Some((errno::SUCCESS, nbytes, hangup))
}
