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

use crate::block::block_on;
use crate::limits::{Meter, Meters};
use crate::pipe::next_ino;
use crate::process::Process;
use crate::signal::Signal;
use crate::sync::lock;
use rustc_hash::FxHashSet;
use std::any::Any;
use std::cell::RefCell;
use std::collections::VecDeque;
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
/// What a message counts beyond its bytes, so that empty ones do not pile up.
const OVERHEAD: usize = 256;
/// A stream's bytes are kept in messages of at most this size, so that taking from the front
/// stays cheap.
const STREAM_CHUNK: usize = 32_768;
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

/// Descriptors on their way; given back to the meter when they arrive or are dropped.
struct Rights {
    files: Vec<Arc<OpenFile>>,
    counted: u64,
    meter: Option<Arc<Meter>>,
}

impl Rights {
    const NONE: Rights = Rights {
        files: Vec::new(),
        counted: 0,
        meter: None,
    };

    fn take(files: Vec<Arc<OpenFile>>, meter: &Arc<Meter>) -> Result<Rights> {
        if files.is_empty() {
            return Ok(Rights::NONE);
        }
        let counted = files.len() as u64;
        meter.acquire(counted)?;
        Ok(Rights {
            files,
            counted,
            meter: Some(meter.clone()),
        })
    }

    fn arrive(mut self) -> Vec<Arc<OpenFile>> {
        std::mem::take(&mut self.files)
    }
}

impl Drop for Rights {
    fn drop(&mut self) {
        if let Some(meter) = &self.meter {
            meter.release(self.counted);
        }
        bury(std::mem::take(&mut self.files));
    }
}

thread_local! {
    /// Files to let go of, while a thread is letting go of files.
    static GRAVE: RefCell<Option<Vec<Arc<OpenFile>>>> = const { RefCell::new(None) };
}

/// Lets go of files that were on their way. A socket among them may hold messages with sockets
/// that hold messages; these are taken in turn, not one inside the other, so that a long chain
/// does not use up the stack.
fn bury(files: Vec<Arc<OpenFile>>) {
    if files.is_empty() {
        return;
    }
    let nested = GRAVE.with_borrow_mut(|grave| match grave {
        Some(waiting) => {
            waiting.extend(files);
            true
        }
        None => {
            *grave = Some(files);
            false
        }
    });
    if nested {
        return;
    }
    while let Some(file) = GRAVE.with_borrow_mut(|grave| grave.as_mut().and_then(Vec::pop)) {
        drop(file);
    }
    GRAVE.set(None);
}

struct Message {
    data: Vec<u8>,
    /// Bytes of `data` already taken.
    taken: usize,
    rights: Rights,
}

impl Message {
    fn left(&self) -> &[u8] {
        &self.data[self.taken..]
    }

    fn cost(&self) -> usize {
        self.data.len() + OVERHEAD
    }
}

/// What one end has received, and how it stands. Guarded by `End::inbox`.
#[derive(Default)]
struct Inbox {
    messages: VecDeque<Message>,
    /// Bytes charged for `messages`.
    used: usize,
    /// The owner has closed.
    closed: bool,
    /// Nothing more will come: the owner or the other end has shut this direction.
    no_more: bool,
    /// The owner may not send any more.
    no_send: bool,
    /// A datagram socket has noticed that the other end is closed.
    disconnected: bool,
    /// To be reported once.
    error: Option<Errno>,
}

impl Inbox {
    fn push(&mut self, data: &[u8], rights: Rights) {
        let message = Message {
            data: data.to_vec(),
            taken: 0,
            rights,
        };
        self.used += message.cost();
        self.messages.push_back(message);
    }

    /// Adds bytes of a stream: to the last message where they fit, so that single bytes cost
    /// little, then in messages of their own. Descriptors go with the first byte.
    fn push_stream(&mut self, data: &[u8], rights: Rights) {
        let mut rest = data;
        if rights.files.is_empty()
            && let Some(last) = self.messages.back_mut()
            && last.rights.files.is_empty()
        {
            let more = rest.len().min(STREAM_CHUNK.saturating_sub(last.data.len()));
            last.data.extend_from_slice(&rest[..more]);
            self.used += more;
            rest = &rest[more..];
        }
        let mut rights = Some(rights);
        for chunk in rest.chunks(STREAM_CHUNK) {
            self.push(chunk, rights.take().unwrap_or(Rights::NONE));
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

/// How [`send`] and [`recv`] behave (`MSG_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MsgFlags {
    /// Do not block (`MSG_DONTWAIT`), whatever the file says.
    pub dont_wait: bool,
    /// Leave what is received (`MSG_PEEK`).
    pub peek: bool,
    /// Receive until the buffer is full (`MSG_WAITALL`); for streams.
    pub wait_all: bool,
    /// Raise no `SIGPIPE` (`MSG_NOSIGNAL`).
    pub no_signal: bool,
}

/// Sends bytes and descriptors, blocking as the file and `flags` say (`sendmsg(2)`). `ENOTSOCK`,
/// and the errors of [`Socket::send`]; a stream returns less only when something comes after a
/// part was sent.
pub fn send(
    process: &Process,
    file: &OpenFile,
    data: &[u8],
    rights: &[Arc<OpenFile>],
    flags: MsgFlags,
) -> Result<usize> {
    let socket = Socket::of(file).ok_or(Errno::ENOTSOCK)?;
    let blocks = !flags.dont_wait && !file.flags().contains(OpenFlags::NONBLOCK);
    let mut done = 0;
    let mut rights = rights;
    loop {
        let attempt = || socket.send(&data[done..], rights);
        let sent = if blocks {
            block_on(process, &[(&socket.mine().queue, WRITABLE)], None, attempt)
        } else {
            attempt()
        };
        match sent {
            Ok(n) => {
                done += n;
                rights = &[];
                if done >= data.len() || n == 0 {
                    return Ok(done);
                }
            }
            Err(error) => {
                if error == Errno::EPIPE && socket.raises_sigpipe() && !flags.no_signal {
                    process.raise(Signal::PIPE);
                }
                return if done > 0 { Ok(done) } else { Err(error) };
            }
        }
    }
}

/// Receives bytes and descriptors, blocking as the file and `flags` say (`recvmsg(2)`).
/// `ENOTSOCK`; `EINTR` when a signal can be delivered before anything came.
pub fn recv(
    process: &Process,
    file: &OpenFile,
    buf: &mut [u8],
    max_rights: usize,
    flags: MsgFlags,
) -> Result<Received> {
    let socket = Socket::of(file).ok_or(Errno::ENOTSOCK)?;
    let blocks = !flags.dont_wait && !file.flags().contains(OpenFlags::NONBLOCK);
    let all = flags.wait_all && !flags.peek && socket.kind() == SocketKind::Stream;
    let mut got = Received::default();
    loop {
        let done = got.len;
        let mut attempt = || socket.recv(&mut buf[done..], max_rights, flags.peek);
        let part = if blocks {
            block_on(process, &[(&socket.mine().queue, READABLE)], None, attempt)
        } else {
            attempt()
        };
        match part {
            Ok(part) => {
                let ended = part.len == 0;
                got = Received {
                    len: done + part.len,
                    full_len: done + part.full_len,
                    rights: part.rights,
                    rights_cut: part.rights_cut,
                };
                let came_with_rights = !got.rights.is_empty() || got.rights_cut;
                if !all || ended || came_with_rights || got.len == buf.len() {
                    return Ok(got);
                }
            }
            Err(_) if done > 0 => return Ok(got),
            Err(error) => return Err(error),
        }
    }
}
