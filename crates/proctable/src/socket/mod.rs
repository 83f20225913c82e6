//! Pairs of unix sockets (`socketpair(2)`, unix(7)): streams, datagrams and packets that carry
//! descriptors.
//!
//! Each end owns an inbox, which the other end fills. A descriptor on its way is an open file
//! description held by a message; it is counted against `socket.rights`, since no table counts it.
//!
//! # No cycles
//!
//! A socket on its way in its own pair, directly or through others, could never be received
//! once the last descriptor outside is closed, and would hold itself alive for ever. Linux lets
//! that happen and collects such garbage later. Here a message that would close a cycle is refused
//! with `ETOOMANYREFS`, the error Linux has for descriptors nested too deeply, so what is no longer
//! referred to is always freed at once. Programs do not pass a pair through itself; those that
//! pass a new pair's end to a peer, as all do, are not affected.
//!
//! # Locks
//!
//! `SocketLimits::passing` (only while a socket is passed), then the inbox of one end at a time.

mod inbox;
mod message;
mod rights;

pub use message::{MsgFlags, recv, send};

use crate::limits::{Meter, Meters};
use crate::pipe::next_ino;
use crate::sync::lock;
use inbox::{Inbox, OVERHEAD};
use rights::{Rights, bury};
use rustc_hash::FxHashSet;
use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use vfs_core::errno::{Errno, Result};
use vfs_core::file::{FileOps, OpenFile};
use vfs_core::types::{Cred, FileType, OpenFlags, Stat, Timespec};
use vfs_core::wait::{PollEvents, WaitQueue};

/// Most descriptors in one message (`SCM_MAX_FD`).
pub const MAX_RIGHTS: usize = 253;
/// Bytes an inbox holds, messages' overhead included (`net.core.wmem_default`).
pub const CAPACITY: usize = 212_992;
/// Device number that `stat` shows for sockets.
const SOCKFS_DEV: u64 = 8;

const READABLE: PollEvents = PollEvents::IN.union(PollEvents::RDNORM);
const WRITABLE: PollEvents = PollEvents::OUT.union(PollEvents::WRNORM);

/// How a socket carries bytes (`SOCK_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketKind {
    /// A stream of bytes.
    Stream,
    /// Messages, each whole, without a notion of the other end going away.
    Datagram,
    /// Messages, each whole, over a connection.
    SeqPacket,
}

/// What sockets of one VM share.
#[derive(Clone, Debug)]
pub struct SocketLimits {
    /// `sockets`.
    pub count: Arc<Meter>,
    /// `socket.rights`.
    pub rights: Arc<Meter>,
    /// Held while a message that carries a socket is checked and put into its inbox.
    passing: Arc<Mutex<()>>,
}

impl SocketLimits {
    /// The limits of a VM. There is one for each VM: two would not see each other's cycles.
    pub(crate) fn new(meters: &Meters) -> SocketLimits {
        SocketLimits {
            count: meters.sockets.clone(),
            rights: meters.socket_rights.clone(),
            passing: Arc::default(),
        }
    }
}

#[derive(Default)]
struct End {
    inbox: Mutex<Inbox>,
    queue: WaitQueue,
}

/// Two ends that are connected.
struct Pair {
    kind: SocketKind,
    limits: SocketLimits,
    uid: u32,
    gid: u32,
    created: Timespec,
    ends: [End; 2],
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.limits.count.release(2);
    }
}

/// One end of a pair.
pub struct Socket {
    pair: Arc<Pair>,
    side: usize,
    ino: u64,
    closed: AtomicBool,
}

/// What [`Socket::recv`] received.
#[derive(Debug, Default)]
pub struct Received {
    /// Bytes put into the buffer.
    pub len: usize,
    /// Length of the whole message; the same for streams.
    pub full_len: usize,
    /// Descriptors that came along, at most as many as there was room for.
    pub rights: Vec<Arc<OpenFile>>,
    /// Descriptors came that there was no room for; they are closed (`MSG_CTRUNC`).
    pub rights_cut: bool,
}

impl Received {
    /// Whether the message was longer than the buffer (`MSG_TRUNC`).
    pub fn truncated(&self) -> bool {
        self.full_len > self.len
    }
}

/// Which way to shut (`shutdown(2)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// Receive no more.
    Read,
    /// Send no more.
    Write,
    /// Both.
    Both,
}

/// Makes a connected pair (`socketpair(2)`); of `flags`, `O_NONBLOCK` counts. `ENFILE` at the
/// limit of sockets.
pub fn socketpair(
    limits: &SocketLimits,
    kind: SocketKind,
    cred: &Cred,
    flags: OpenFlags,
) -> Result<(Arc<OpenFile>, Arc<OpenFile>)> {
    limits.count.acquire(2)?;
    let pair = Arc::new(Pair {
        kind,
        limits: limits.clone(),
        uid: cred.euid,
        gid: cred.egid,
        created: Timespec::now(),
        ends: Default::default(),
    });
    let end = |side| {
        let socket = Socket {
            pair: pair.clone(),
            side,
            ino: next_ino(),
            closed: AtomicBool::new(false),
        };
        OpenFile::anonymous(
            Arc::new(socket),
            OpenFlags::RDWR | (flags & OpenFlags::NONBLOCK),
        )
    };
    Ok((end(0), end(1)))
}

impl Socket {
    /// The socket behind an open file, if it is one.
    pub fn of(file: &OpenFile) -> Option<&Socket> {
        file.ops().as_any().downcast_ref()
    }

    /// How it carries bytes.
    pub fn kind(&self) -> SocketKind {
        self.pair.kind
    }

    fn mine(&self) -> &End {
        &self.pair.ends[self.side]
    }

    fn theirs(&self) -> &End {
        &self.pair.ends[1 - self.side]
    }

    /// Whether a failed send raises `SIGPIPE`, as only streams do.
    pub fn raises_sigpipe(&self) -> bool {
        self.pair.kind == SocketKind::Stream
    }

    /// Sends without blocking. A stream takes what there is room for, with all of `rights` if it
    /// takes anything; the others take all or nothing. `EAGAIN` when there is no room, `EPIPE` when
    /// the other end receives no more, `ECONNREFUSED` from a datagram socket whose other end is
    /// closed, `EMSGSIZE` for a message that never fits, `EINVAL` for more than [`MAX_RIGHTS`]
    /// descriptors, `EMFILE` when too many are on their way, `ETOOMANYREFS` for a cycle.
    pub fn send(&self, data: &[u8], rights: &[Arc<OpenFile>]) -> Result<usize> {
        if rights.len() > MAX_RIGHTS {
            return Err(Errno::EINVAL);
        }
        let stream = self.pair.kind == SocketKind::Stream;
        if !stream && data.len() + OVERHEAD > CAPACITY {
            return Err(Errno::EMSGSIZE);
        }
        // The check for cycles and the change that it allows are one step.
        let passes = rights.iter().any(|f| Socket::of(f).is_some());
        let _passing = passes.then(|| lock(&self.pair.limits.passing));
        if passes && self.closes_cycle(rights) {
            return Err(Errno::ETOOMANYREFS);
        }
        {
            let mut mine = lock(&self.mine().inbox);
            // Streams look whether they may send first (`unix_stream_sendmsg`).
            if !stream && let Some(error) = mine.error.take() {
                return Err(error);
            }
            if mine.no_send {
                return Err(Errno::EPIPE);
            }
        }
        let mut inbox = lock(&self.theirs().inbox);
        if inbox.closed {
            drop(inbox);
            return Err(self.send_to_nobody());
        }
        if inbox.no_more {
            return Err(Errno::EPIPE);
        }
        if stream && data.is_empty() {
            // A stream has no empty messages; descriptors need a byte to go with.
            return Ok(0);
        }
        let room = CAPACITY.saturating_sub(inbox.used + OVERHEAD);
        let n = if stream {
            data.len().min(room)
        } else {
            data.len()
        };
        if n > room || (n == 0 && stream) {
            return Err(Errno::EAGAIN);
        }
        let rights = Rights::take(rights.to_vec(), &self.pair.limits.rights)?;
        let was_empty = inbox.messages.is_empty();
        if stream {
            inbox.push_stream(&data[..n], rights);
        } else {
            inbox.push(data, rights);
        }
        drop(inbox);
        if was_empty || !stream {
            self.theirs().queue.wake(READABLE);
        }
        Ok(n)
    }

    /// The error of sending to an end that is closed. A datagram socket notices once and is no
    /// longer connected then.
    fn send_to_nobody(&self) -> Errno {
        if self.pair.kind != SocketKind::Datagram {
            return Errno::EPIPE;
        }
        let mut inbox = lock(&self.mine().inbox);
        if std::mem::replace(&mut inbox.disconnected, true) {
            return Errno::ENOTCONN;
        }
        // What came before is lost (`unix_dgram_disconnected`).
        inbox.used = 0;
        let lost = std::mem::take(&mut inbox.messages);
        drop(inbox);
        drop(lost);
        Errno::ECONNREFUSED
    }

    /// Whether one of `files` leads, through messages on their way, to this pair.
    fn closes_cycle(&self, files: &[Arc<OpenFile>]) -> bool {
        let mut seen = FxHashSet::default();
        let mut next: Vec<Arc<Pair>> = pairs(files).collect();
        while let Some(pair) = next.pop() {
            if Arc::ptr_eq(&pair, &self.pair) {
                return true;
            }
            if !seen.insert(Arc::as_ptr(&pair)) {
                continue;
            }
            for end in &pair.ends {
                let inbox = lock(&end.inbox);
                next.extend(inbox.messages.iter().flat_map(|m| pairs(&m.rights.files)));
            }
        }
        false
    }

    /// Receives without blocking: bytes into `buf`, and at most `max_rights` descriptors. With
    /// `peek` everything also stays. Nothing received and no `EAGAIN` is the end.
    pub fn recv(&self, buf: &mut [u8], max_rights: usize, peek: bool) -> Result<Received> {
        let mut dropped = Vec::new();
        let stream = self.pair.kind == SocketKind::Stream;
        let mut inbox = lock(&self.mine().inbox);
        // An error comes before messages, and after what is left of a stream.
        if (!stream || inbox.messages.is_empty())
            && let Some(error) = inbox.error.take()
        {
            return Err(error);
        }
        if inbox.messages.is_empty() {
            return if inbox.no_more {
                Ok(Received::default())
            } else {
                Err(Errno::EAGAIN)
            };
        }
        let before = inbox.used;
        let mut received = Received::default();
        let mut at = 0;
        while let Some(message) = inbox.messages.get_mut(at) {
            let room = &mut buf[received.len..];
            let n = message.left().len().min(room.len());
            room[..n].copy_from_slice(&message.left()[..n]);
            received.len += n;
            received.full_len += if stream { n } else { message.left().len() };
            let whole = n == message.left().len();
            let had_rights = !message.rights.files.is_empty();
            if stream && n == 0 {
                break;
            }
            if peek {
                at += 1;
                received.rights.clone_from(&message.rights.files);
            } else {
                if stream {
                    message.taken += n;
                }
                let rights = std::mem::replace(&mut message.rights, Rights::NONE);
                if had_rights {
                    received.rights = rights.arrive();
                }
                if (whole || !stream)
                    && let Some(message) = inbox.messages.pop_front()
                {
                    inbox.used = inbox.used.saturating_sub(message.cost());
                }
            }
            // Descriptors end a read, so that they stay with their bytes.
            if !stream || had_rights || !whole {
                break;
            }
        }
        // A stream's peer is woken when three quarters are free, as on Linux. A message may need
        // more than that, so its sender looks each time.
        let (used, low) = (inbox.used, CAPACITY / 4);
        drop(inbox);
        if used < before && (!stream || (before > low && used <= low)) {
            self.theirs().queue.wake(WRITABLE);
        }
        if received.rights.len() > max_rights {
            received.rights_cut = true;
            dropped = received.rights.split_off(max_rights);
        }
        bury(dropped);
        Ok(received)
    }

    /// Shuts one direction or both (`shutdown(2)`).
    pub fn shutdown(&self, how: Shutdown) {
        if how != Shutdown::Write {
            lock(&self.mine().inbox).no_more = true;
            if self.pair.kind != SocketKind::Datagram {
                lock(&self.theirs().inbox).no_send = true;
            }
        }
        if how != Shutdown::Read {
            lock(&self.mine().inbox).no_send = true;
            if self.pair.kind != SocketKind::Datagram {
                lock(&self.theirs().inbox).no_more = true;
            }
        }
        for end in &self.pair.ends {
            end.queue.wake_all();
        }
    }

    fn close(&self) {
        if self.closed.swap(true, Ordering::Relaxed) {
            return;
        }
        let unread = {
            let mut inbox = lock(&self.mine().inbox);
            inbox.closed = true;
            inbox.no_more = true;
            inbox.used = 0;
            std::mem::take(&mut inbox.messages)
        };
        if self.pair.kind != SocketKind::Datagram {
            let mut inbox = lock(&self.theirs().inbox);
            inbox.no_more = true;
            inbox.no_send = true;
            if !unread.is_empty() {
                inbox.error = Some(Errno::ECONNRESET);
            }
        }
        self.theirs().queue.wake_all();
        // Outside the locks: this may close anything.
        drop(unread);
    }
}

/// The pairs of the sockets among `files`.
fn pairs(files: &[Arc<OpenFile>]) -> impl Iterator<Item = Arc<Pair>> {
    files
        .iter()
        .filter_map(|f| Some(Socket::of(f)?.pair.clone()))
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.close();
    }
}

impl FileOps for Socket {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn read_at(&self, buf: &mut [u8], _offset: u64) -> Result<usize> {
        if buf.is_empty() {
            // Takes no message either (`sock_read_iter`).
            return Ok(0);
        }
        // Descriptors are lost on a plain read, as everywhere.
        Ok(self.recv(buf, 0, false)?.len)
    }

    fn write_at(&self, buf: &[u8], _offset: u64) -> Result<usize> {
        self.send(buf, &[])
    }

    fn seekable(&self) -> bool {
        false
    }

    fn stat(&self) -> Result<Stat> {
        let at = self.pair.created;
        Ok(Stat {
            dev: SOCKFS_DEV,
            ino: self.ino,
            mode: FileType::Socket.mode_bits() | 0o777,
            nlink: 1,
            uid: self.pair.uid,
            gid: self.pair.gid,
            rdev: 0,
            size: 0,
            blocks: 0,
            atime: at,
            mtime: at,
            ctime: at,
            btime: at,
        })
    }

    fn poll(&self) -> PollEvents {
        let mut events = PollEvents::empty();
        {
            let mine = lock(&self.mine().inbox);
            if !mine.messages.is_empty() || mine.no_more {
                events |= READABLE;
            }
            if mine.no_more && mine.no_send {
                events |= PollEvents::HUP;
            }
            if mine.error.is_some() {
                events |= PollEvents::ERR;
            }
        }
        if lock(&self.theirs().inbox).used <= CAPACITY / 4 {
            events |= WRITABLE;
        }
        events
    }

    fn wait_queue(&self) -> Option<&WaitQueue> {
        Some(&self.mine().queue)
    }

    fn readable_bytes(&self) -> Result<usize> {
        let mine = lock(&self.mine().inbox);
        Ok(match self.pair.kind {
            SocketKind::Datagram => mine.messages.front().map_or(0, |m| m.left().len()),
            _ => mine.messages.iter().map(|m| m.left().len()).sum(),
        })
    }

    fn release(&self, _flags: OpenFlags) {
        self.close();
    }
}
