//! Pipes: a bounded queue of bytes between two ends (`fs/pipe.c`, pipe(7)).
//!
//! Writes of up to [`PIPE_BUF`] bytes are atomic: all or nothing, never mixed with another
//! writer's. Longer ones take what room there is. A read takes what is there. The queue holds
//! [`DEFAULT_CAPACITY`] bytes unless it is grown; memory for it is taken as it is needed.
//!
//! # Locks
//!
//! `write_side`, then `read_side`, then `state`; all below every other lock of this crate except
//! the wait queue's own. A writer holds `write_side` for the whole of a write and copies under it
//! alone, a reader likewise with `read_side`, so both copy at the same time. `state` is held only
//! to look at positions and to move one. The ring itself is exchanged only with both sides and
//! `state` held.
//!
//! # Wake-ups
//!
//! Readers are woken when the pipe stops being empty, writers when room for an atomic write comes
//! to be (room for [`PIPE_BUF`], which is also when `poll` says writable), and both when an end
//! disappears. Each happens after a change under `state`, so a sleeper that is on the queue and
//! has looked at the state cannot miss it. A long copy wakes at its end only: whoever sleeps then
//! finds more to do, and two that share a processor do not take turns at every piece.

mod end;

pub use end::PipeEnd;

use crate::eager::Eager;
use crate::limits::{Meter, Meters, ProcLimits};
use crate::ring::Ring;
use crate::sync::lock;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use vfs_core::errno::{Errno, Result};
use vfs_core::file::OpenFile;
use vfs_core::types::{Cred, OpenFlags, Timespec};
use vfs_core::wait::{PollEvents, WaitQueue};

/// Longest atomic write in bytes.
pub const PIPE_BUF: usize = 4096;
/// Bytes a new pipe holds, as on Linux.
pub const DEFAULT_CAPACITY: usize = 65536;
/// Device number that `stat` shows for pipes without a name.
const PIPEFS_DEV: u64 = 14;
/// A long copy becomes visible in pieces of this size, for an other side that is awake.
const PIECE: usize = 16384;

/// Source of inode numbers for pipes and sockets.
static NEXT_INO: AtomicU64 = AtomicU64::new(1);

pub(crate) fn next_ino() -> u64 {
    NEXT_INO.fetch_add(1, Ordering::Relaxed)
}

/// What pipes of one VM share: the counts against their limits.
#[derive(Clone, Debug)]
pub struct PipeLimits {
    /// `pipes`.
    pub count: Arc<Meter>,
    /// `pipe.total_bytes`, of what pipes hold beyond their first 64 KiB.
    pub bytes: Arc<Meter>,
    /// `pipe.max_bytes`.
    pub max_bytes: u64,
}

impl PipeLimits {
    /// The limits of a VM.
    pub fn new(limits: &ProcLimits, meters: &Meters) -> PipeLimits {
        PipeLimits {
            count: meters.pipes.clone(),
            bytes: meters.pipe_bytes.clone(),
            max_bytes: limits.pipe_max_bytes,
        }
    }
}

/// A pipe. Ends hold it; it disappears with the last of them.
pub struct Pipe {
    limits: PipeLimits,
    ino: u64,
    uid: u32,
    gid: u32,
    created: Timespec,
    /// Held by whoever writes.
    write_side: Mutex<()>,
    /// Held by whoever reads.
    read_side: Mutex<()>,
    state: Mutex<State>,
    queue: WaitQueue,
    /// Whether a reader that finds nothing should look again before it sleeps.
    pub(crate) eager: Eager,
}

/// Guarded by `Pipe::state`.
struct State {
    ring: Arc<Ring>,
    /// Position of the next byte to read.
    head: u64,
    /// Position of the next byte to write.
    tail: u64,
    capacity: usize,
    /// Whether `capacity` was raised only for data nobody reads yet, and falls once it is read.
    grown: bool,
    /// Taken from `limits.bytes`.
    charged: u64,
    readers: usize,
    writers: usize,
    /// Ends opened in all, for fifos.
    readers_ever: u64,
    writers_ever: u64,
}

impl State {
    fn len(&self) -> usize {
        (self.tail - self.head) as usize
    }

    fn room(&self) -> usize {
        self.capacity.saturating_sub(self.len())
    }
}

impl Pipe {
    /// A pipe without ends; `ENFILE` at the limit of pipes.
    pub(crate) fn new(limits: &PipeLimits, cred: &Cred) -> Result<Arc<Pipe>> {
        limits.count.acquire(1)?;
        Ok(Arc::new(Pipe {
            limits: limits.clone(),
            ino: next_ino(),
            uid: cred.euid,
            gid: cred.egid,
            created: Timespec::now(),
            write_side: Mutex::new(()),
            read_side: Mutex::new(()),
            state: Mutex::new(State {
                ring: Arc::new(Ring::empty()),
                head: 0,
                tail: 0,
                capacity: DEFAULT_CAPACITY,
                grown: false,
                charged: 0,
                readers: 0,
                writers: 0,
                readers_ever: 0,
                writers_ever: 0,
            }),
            queue: WaitQueue::new(),
            eager: Eager::default(),
        }))
    }

    /// Adds an end for the access mode in `flags` and wakes whoever waits for one.
    pub(crate) fn open_end(self: &Arc<Self>, flags: OpenFlags) -> PipeEnd {
        let (reads, writes) = (flags.readable(), flags.writable());
        let mut state = lock(&self.state);
        let hung_up_after = if state.writers == 0 {
            state.writers_ever
        } else {
            0
        };
        let met_at_open = match (reads, writes) {
            (true, false) => state.writers > 0,
            (false, true) => state.readers > 0,
            _ => true,
        };
        if reads {
            state.readers += 1;
            state.readers_ever += 1;
        }
        if writes {
            state.writers += 1;
            state.writers_ever += 1;
        }
        let end = PipeEnd {
            pipe: self.clone(),
            reads,
            writes,
            closed: AtomicBool::new(false),
            hung_up_after,
            met_at_open,
            readers_at_open: state.readers_ever,
            writers_at_open: state.writers_ever,
        };
        drop(state);
        self.queue.wake_all();
        end
    }

    /// Its number, which `stat` and `/proc/PID/fd` show.
    pub fn ino(&self) -> u64 {
        self.ino
    }

    /// Open file descriptions that read from it.
    pub fn readers(&self) -> usize {
        lock(&self.state).readers
    }

    /// Open file descriptions that write to it.
    pub fn writers(&self) -> usize {
        lock(&self.state).writers
    }

    pub(crate) fn ends_ever(&self) -> (u64, u64) {
        let state = lock(&self.state);
        (state.readers_ever, state.writers_ever)
    }

    /// Bytes in it.
    pub fn len(&self) -> usize {
        lock(&self.state).len()
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes it can hold (`F_GETPIPE_SZ`).
    pub fn capacity(&self) -> usize {
        lock(&self.state).capacity
    }

    /// Sets how much it can hold, rounded up to a power of two of at least a page
    /// (`F_SETPIPE_SZ`): `EBUSY` if more is in it, `EPERM` above `pipe.max_bytes`, `ENOSPC` when
    /// the VM has no more for pipes. Returns the capacity.
    pub fn set_capacity(&self, bytes: usize) -> Result<usize> {
        let new = bytes
            .max(PIPE_BUF)
            .checked_next_power_of_two()
            .ok_or(Errno::EINVAL)?;
        if new as u64 > self.limits.max_bytes.max(DEFAULT_CAPACITY as u64) {
            return Err(Errno::EPERM);
        }
        let _write = lock(&self.write_side);
        let _read = lock(&self.read_side);
        let mut state = lock(&self.state);
        if new < state.len() {
            return Err(Errno::EBUSY);
        }
        self.charge(&mut state, new)?;
        state.capacity = new;
        state.grown = false;
        if state.ring.size() > new {
            let size = if state.len() == 0 { 0 } else { new };
            self.exchange_ring(&mut state, size)?;
        }
        drop(state);
        self.queue.wake(PollEvents::OUT | PollEvents::WRNORM);
        Ok(new)
    }

    /// Doubles what it can hold, for data that nobody can read yet; it falls back once all was
    /// read. `ENOSPC` at `pipe.max_bytes` or when the VM has no more for pipes.
    pub fn grow(&self) -> Result<usize> {
        let mut state = lock(&self.state);
        let new = state.capacity.saturating_mul(2);
        if new as u64 > self.limits.max_bytes {
            let used = state.capacity as u64;
            drop(state);
            return Err(self.limits.bytes.refuse(
                "pipe.max_bytes",
                self.limits.max_bytes,
                used,
                used,
            ));
        }
        self.charge(&mut state, new)?;
        state.capacity = new;
        state.grown = true;
        drop(state);
        self.queue.wake(PollEvents::OUT | PollEvents::WRNORM);
        Ok(new)
    }

    /// Makes the charge that of `capacity`.
    fn charge(&self, state: &mut State, capacity: usize) -> Result<()> {
        let due = capacity.saturating_sub(DEFAULT_CAPACITY) as u64;
        if due > state.charged {
            self.limits.bytes.acquire(due - state.charged)?;
        } else if due < state.charged {
            self.limits.bytes.release(state.charged - due);
        }
        state.charged = due;
        Ok(())
    }

    /// Replaces the ring by one of `size` bytes with the same content. Both sides are held.
    fn exchange_ring(&self, state: &mut State, size: usize) -> Result<()> {
        let new = if size == 0 {
            Ring::empty()
        } else {
            Ring::new(size)?
        };
        let mut position = state.head;
        let mut piece = [0; 4096];
        while position < state.tail {
            let n = piece.len().min((state.tail - position) as usize);
            // SAFETY: both sides are held, so nobody else copies to or from the old ring; the
            // bytes between head and tail were written. The new ring is not shared yet, and its
            // size is at least the content's.
            unsafe {
                state.ring.read(position, &mut piece[..n]);
                new.write(position, &piece[..n]);
            }
            position += n as u64;
        }
        state.ring = Arc::new(new);
        Ok(())
    }

    /// Reads what is there, at most `buf`; `EAGAIN` when it is empty, 0 when it also has no writer.
    pub fn read(&self, buf: &mut [u8]) -> Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        let side = lock(&self.read_side);
        let mut done = 0;
        let mut made_room = false;
        while done < buf.len() {
            let (ring, head, n) = {
                let state = lock(&self.state);
                let n = state.len().min(buf.len() - done).min(PIECE);
                if n == 0 {
                    match (done, state.writers) {
                        (0, 0) => return Ok(0),
                        (0, _) => return Err(Errno::EAGAIN),
                        _ => break,
                    }
                }
                (state.ring.clone(), state.head, n)
            };
            // SAFETY: `read_side` is held, so no other reader is here. The positions lie between
            // head and tail, so they were written, and writers write only beyond the tail and
            // less than the ring's size ahead of the head, which moves below.
            unsafe { ring.read(head, &mut buf[done..done + n]) };
            done += n;
            let mut state = lock(&self.state);
            let before = state.room();
            state.head += n as u64;
            made_room |= before < PIPE_BUF && state.room() >= PIPE_BUF;
            if state.len() == 0 && (state.grown || state.writers == 0) {
                self.give_back(&mut state);
            }
        }
        drop(side);
        if made_room {
            self.queue.wake(PollEvents::OUT | PollEvents::WRNORM);
        }
        Ok(done)
    }

    /// The pipe is empty, and `read_side` is held: gives memory back, unless a writer is there.
    fn give_back(&self, state: &mut State) {
        // The order of locks is the other way round, so this may only try.
        let Ok(_write) = self.write_side.try_lock() else {
            return;
        };
        state.ring = Arc::new(Ring::empty());
        if std::mem::take(&mut state.grown) {
            self.limits
                .bytes
                .release(std::mem::take(&mut state.charged));
            state.capacity = DEFAULT_CAPACITY;
        }
    }

    /// Writes all of `buf` if it is at most [`PIPE_BUF`], else as much as there is room for.
    /// `EAGAIN` when it is full, `EPIPE` when nobody can read.
    pub fn write(&self, buf: &[u8]) -> Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        let side = lock(&self.write_side);
        let mut done = 0;
        let mut was_empty = false;
        while done < buf.len() {
            let (ring, tail, n) = {
                let mut state = lock(&self.state);
                if state.readers == 0 {
                    if done == 0 {
                        return Err(Errno::EPIPE);
                    }
                    break;
                }
                let room = state.room();
                let atomic = buf.len() <= PIPE_BUF;
                if room == 0 || (atomic && room < buf.len()) {
                    if done == 0 {
                        return Err(Errno::EAGAIN);
                    }
                    break;
                }
                let n = room.min(buf.len() - done).min(PIECE);
                if state.len() + n > state.ring.size() {
                    drop(state);
                    state = match self.enlarge_ring(n) {
                        Ok(state) => state,
                        Err(error) if done == 0 => return Err(error),
                        Err(_) => break,
                    };
                }
                (state.ring.clone(), state.tail, n)
            };
            // SAFETY: `write_side` is held, so no other writer is here. The positions lie beyond
            // the tail and end less than the ring's size after the head, so no reader, who stays
            // between head and tail, touches them; the tail moves below.
            unsafe { ring.write(tail, &buf[done..done + n]) };
            done += n;
            let mut state = lock(&self.state);
            was_empty |= state.len() == 0;
            state.tail += n as u64;
        }
        drop(side);
        if was_empty {
            self.queue.wake(PollEvents::IN | PollEvents::RDNORM);
        }
        Ok(done)
    }

    /// Makes room in memory for `more` bytes beyond what is there. `write_side` is held.
    fn enlarge_ring(&self, more: usize) -> Result<std::sync::MutexGuard<'_, State>> {
        let _read = lock(&self.read_side);
        let mut state = lock(&self.state);
        let needed = state.len() + more;
        if needed > state.ring.size() {
            self.exchange_ring(&mut state, needed.max(PIPE_BUF))?;
        }
        Ok(state)
    }

    fn close_end(&self, reads: bool, writes: bool) {
        let mut state = lock(&self.state);
        let mut gone = PollEvents::empty();
        if reads {
            state.readers -= 1;
            if state.readers == 0 {
                gone |= PollEvents::ERR | PollEvents::OUT | PollEvents::WRNORM;
            }
        }
        if writes {
            state.writers -= 1;
            if state.writers == 0 {
                gone |= PollEvents::HUP | PollEvents::IN | PollEvents::RDNORM;
            }
        }
        drop(state);
        if !gone.is_empty() {
            self.queue.wake(gone);
        }
    }

    /// Who is woken by changes.
    pub fn wait_queue(&self) -> &WaitQueue {
        &self.queue
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.limits.count.release(1);
        let charged = lock(&self.state).charged;
        if charged > 0 {
            self.limits.bytes.release(charged);
        }
    }
}

impl fmt::Debug for Pipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = lock(&self.state);
        f.debug_struct("Pipe")
            .field("ino", &self.ino)
            .field("len", &state.len())
            .field("capacity", &state.capacity)
            .field("readers", &state.readers)
            .field("writers", &state.writers)
            .finish()
    }
}

/// Makes a pipe and its two ends, read end first (`pipe2(2)`); of `flags`, `O_NONBLOCK` counts.
/// `ENFILE` at the limit of pipes.
pub fn pipe(
    limits: &PipeLimits,
    cred: &Cred,
    flags: OpenFlags,
) -> Result<(Arc<OpenFile>, Arc<OpenFile>)> {
    let pipe = Pipe::new(limits, cred)?;
    let status = flags & OpenFlags::NONBLOCK;
    let end =
        |access: OpenFlags| OpenFile::anonymous(Arc::new(pipe.open_end(access)), access | status);
    Ok((end(OpenFlags::empty()), end(OpenFlags::WRONLY)))
}
