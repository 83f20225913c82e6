//! One pseudoterminal: the two queues between its sides, its modes, its session and who is woken
//! and signalled when something happens (`drivers/tty/{tty_io,pty,tty_jobctrl}.c`).
//!
//! # Locks
//!
//! One lock, `state`, guards everything that changes. It is below every lock of `proctable` and
//! never held while a signal is sent, a queue is woken or a process is asked something: what has
//! to be sent is collected and sent after.

use crate::cursor::CursorReports;
use crate::input::Input;
use crate::jobs::hang_up;
use crate::output::Output;
use crate::signals::Signals;
use crate::termios::{Iflag, Queue, Termios, When, Winsize};
use proctable::limits::Meter;
use proctable::{ProcTable, Process, Signal};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use vfs_core::errno::{Errno, Result};
use vfs_core::types::Timespec;
use vfs_core::wait::{PollEvents, WaitQueue};

/// Control modes of a pseudoterminal (`c_cflag`).
const CSIZE: u32 = 0x30;
const CS8: u32 = 0x30;
const CREAD: u32 = 0x80;
const PARENB: u32 = 0x100;

/// Bytes of the master that may wait for the line discipline, as on Linux.
const PENDING_CAPACITY: usize = 65536;

/// A pseudoterminal; both sides hold it.
pub struct Terminal {
    index: u32,
    uid: u32,
    gid: u32,
    created: Timespec,
    pub(crate) procs: Weak<ProcTable>,
    meter: Arc<Meter>,
    state: Mutex<State>,
    /// Readers and writers of the slave.
    pub(crate) slave_queue: WaitQueue,
    /// Readers and writers of the master.
    pub(crate) master_queue: WaitQueue,
    /// Answers a cursor report itself; see [`Terminal::answer_cursor_reports`].
    pub(crate) answers: Mutex<Option<CursorReports>>,
}

/// Guarded by `Terminal::state`.
pub(crate) struct State {
    pub(crate) termios: Termios,
    pub(crate) winsize: Winsize,
    pub(crate) input: Input,
    pub(crate) output: Output,
    /// Written by the master, no room in `input` yet.
    pub(crate) pending: VecDeque<u8>,
    pub(crate) master_open: bool,
    /// Open file descriptions of the slave.
    pub(crate) slaves: usize,
    /// The slave was open once: the master then sees its last close.
    pub(crate) slave_seen: bool,
    /// Slaves opened before the last hang-up are dead; this numbers them.
    pub(crate) generation: u64,
    /// `TIOCSPTLCK`: the slave can't be opened.
    pub(crate) locked: bool,
    pub(crate) session: Option<u32>,
    pub(crate) foreground: Option<u32>,
    pub(crate) perm: u32,
    pub(crate) spares_leader: bool,
}

impl Terminal {
    pub(crate) fn new(
        index: u32,
        owner: (u32, u32),
        procs: Weak<ProcTable>,
        meter: Arc<Meter>,
    ) -> Arc<Terminal> {
        Arc::new(Terminal {
            index,
            uid: owner.0,
            gid: owner.1,
            created: Timespec::now(),
            procs,
            meter,
            state: Mutex::new(State {
                termios: Termios::default(),
                winsize: Winsize::default(),
                input: Input::default(),
                output: Output::default(),
                pending: VecDeque::new(),
                master_open: true,
                slaves: 0,
                slave_seen: false,
                generation: 0,
                locked: true,
                session: None,
                foreground: None,
                perm: 0o620,
                spares_leader: false,
            }),
            slave_queue: WaitQueue::new(),
            master_queue: WaitQueue::new(),
            answers: Mutex::new(None),
        })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its number: the slave is `/dev/pts/N` (`TIOCGPTN`).
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Owner of the slave's node.
    pub fn owner(&self) -> (u32, u32) {
        (self.uid, self.gid)
    }

    /// Permission bits of the slave's node.
    pub fn perm(&self) -> u32 {
        self.lock().perm
    }

    /// Changes the permission bits of the slave's node (`mesg(1)`).
    pub fn set_perm(&self, perm: u32) {
        self.lock().perm = perm & 0o7777;
    }

    /// When it was made.
    pub fn created(&self) -> Timespec {
        self.created
    }

    /// Forbids or allows opening the slave (`TIOCSPTLCK`; `unlockpt(3)`). New ones are locked.
    pub fn set_locked(&self, locked: bool) {
        self.lock().locked = locked;
    }

    /// Whether the slave can't be opened (`TIOCGPTLCK`).
    pub fn locked(&self) -> bool {
        self.lock().locked
    }

    /// From now on the terminal itself answers when somebody asks where the cursor is, as if it
    /// were at home; the question still reaches the master. For sessions that no terminal
    /// emulator looks at.
    pub fn answer_cursor_reports(&self) {
        *self.answers.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(CursorReports::default());
    }

    /// Whether typed signals pass over the session's leader as long as it has no handler for them
    /// and does not ignore them. For shells that cannot catch signals and would be ended by the
    /// `^C` that is meant for their child; Linux has no such thing, so it is off at first.
    pub fn spare_leader(&self, spare: bool) {
        self.lock().spares_leader = spare;
    }

    // ---- the two ends ----

    pub(crate) fn open_slave(&self) -> Result<u64> {
        let mut state = self.lock();
        if !state.master_open || state.locked {
            return Err(Errno::EIO);
        }
        state.slaves += 1;
        state.slave_seen = true;
        Ok(state.generation)
    }

    pub(crate) fn close_slave(&self, generation: u64) {
        let mut state = self.lock();
        if generation != state.generation {
            return;
        }
        state.slaves -= 1;
        let last = state.slaves == 0;
        drop(state);
        if last {
            self.master_queue.wake_all();
        }
    }

    pub(crate) fn close_master(&self) {
        let mut signals = Signals::default();
        {
            let mut state = self.lock();
            state.master_open = false;
            state.pending.clear();
            hang_up(&mut state, false, &mut signals);
        }
        self.meter.release(1);
        // First the signal: a reader that is woken and finds the end is to die of it.
        signals.send(&self.procs);
        self.slave_queue.wake_all();
        self.master_queue.wake_all();
    }

    /// Whether a slave opened in `generation` has been hung up.
    pub(crate) fn hung_up(&self, generation: u64) -> bool {
        self.lock().generation != generation
    }

    // ---- the master's side ----

    /// Types: what the person's keyboard sends. Returns how much was taken; `EAGAIN` when the
    /// other side reads nothing and both buffers are full, `EIO` when no slave is open.
    pub fn master_write(&self, buf: &[u8]) -> Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        let mut signals = Signals::default();
        let taken = {
            let mut state = self.lock();
            if state.slave_seen && state.slaves == 0 {
                return Err(Errno::EIO);
            }
            state.output.deliver();
            let taken = buf.len().min(PENDING_CAPACITY - state.pending.len());
            state.pending.extend(&buf[..taken]);
            receive_pending(&mut state, &mut signals);
            taken
        };
        self.slave_queue.wake_all();
        self.master_queue.wake_all();
        signals.send(&self.procs);
        if taken == 0 {
            return Err(Errno::EAGAIN);
        }
        Ok(taken)
    }

    /// Reads what the person's screen is to show. `EAGAIN` when there is nothing, `EIO` when
    /// there is nothing and the last slave was closed.
    pub fn master_read(&self, buf: &mut [u8]) -> Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        let n = {
            let mut state = self.lock();
            let n = state.output.take(buf);
            if n == 0 {
                let closed = state.slave_seen && state.slaves == 0;
                return Err(if closed { Errno::EIO } else { Errno::EAGAIN });
            }
            let State {
                output, termios, ..
            } = &mut *state;
            output.process_echoes(termios);
            n
        };
        self.slave_queue.wake(PollEvents::OUT | PollEvents::WRNORM);
        Ok(n)
    }

    pub(crate) fn master_poll(&self) -> PollEvents {
        let state = self.lock();
        let mut events = PollEvents::empty();
        if state.output.len() > 0 {
            events |= PollEvents::IN | PollEvents::RDNORM;
        }
        if state.pending.len() < PENDING_CAPACITY {
            events |= PollEvents::OUT | PollEvents::WRNORM;
        }
        if state.slave_seen && state.slaves == 0 {
            events |= PollEvents::HUP;
        }
        events
    }

    /// Bytes the master can read.
    pub(crate) fn master_readable(&self) -> usize {
        self.lock().output.len()
    }

    // ---- modes and size ----

    /// The modes (`tcgetattr(3)`).
    pub fn termios(&self) -> Termios {
        self.lock().termios
    }

    /// Changes the modes (`tcsetattr(3)`). A background process gets `SIGTTOU` first, and `EINTR`.
    pub fn set_termios(&self, process: Option<&Process>, new: &Termios, when: When) -> Result<()> {
        if let Some(process) = process {
            self.check_job(process, Signal::TTOU)?;
        }
        let mut signals = Signals::default();
        {
            let mut state = self.lock();
            if when == When::Flush {
                // As on Linux, what the line discipline had no room for yet is not unread input.
                state.input.flush();
            }
            let mut new = *new;
            // A pseudoterminal has eight bits and no parity (`pty_set_termios`).
            new.cflag = (new.cflag & !(CSIZE | PARENB)) | CS8 | CREAD;
            let old = std::mem::replace(&mut state.termios, new);
            let State {
                input,
                output,
                termios,
                ..
            } = &mut *state;
            input.modes_changed(&old, termios);
            let ixon = Iflag::IXON;
            if old.iflag.contains(ixon) && !termios.iflag.contains(ixon) && output.stopped {
                output.stopped = false;
                output.process_echoes(termios);
            }
            if when == When::Flush {
                receive_pending(&mut state, &mut signals);
            }
        }
        self.slave_queue.wake_all();
        self.master_queue.wake_all();
        signals.send(&self.procs);
        Ok(())
    }

    /// The window size (`TIOCGWINSZ`).
    pub fn winsize(&self) -> Winsize {
        self.lock().winsize
    }

    /// Sets the window size (`TIOCSWINSZ`). The foreground group gets `SIGWINCH` if it changed.
    pub fn set_winsize(&self, size: Winsize) {
        let mut signals = Signals::default();
        {
            let mut state = self.lock();
            if state.winsize != size {
                state.winsize = size;
                signals.push_group(state.foreground, Signal::WINCH);
            }
        }
        signals.send(&self.procs);
    }

    /// Throws queued bytes away, as seen from the slave (`tcflush(3)`).
    pub fn flush(&self, process: Option<&Process>, queue: Queue) -> Result<()> {
        if let Some(process) = process {
            self.check_job(process, Signal::TTOU)?;
        }
        {
            let mut state = self.lock();
            if queue != Queue::Input {
                state.output.deliver();
                state.output.flush();
            }
            if queue != Queue::Output {
                state.input.flush();
                state.pending.clear();
            }
        }
        self.slave_queue.wake_all();
        self.master_queue.wake_all();
        Ok(())
    }
}

/// Moves what the master wrote into the line discipline as far as there is room.
pub(crate) fn receive_pending(state: &mut State, signals: &mut Signals) {
    while !state.pending.is_empty() {
        let State {
            pending,
            input,
            output,
            termios,
            ..
        } = &mut *state;
        let received = input.receive(termios, output, pending.as_slices().0);
        pending.drain(..received.taken);
        for signal in received.signals {
            signals.spared = state.session.filter(|_| state.spares_leader);
            signals.push_group(state.foreground, signal);
        }
        if received.taken == 0 {
            return;
        }
    }
    if state.pending.capacity() > 4096 {
        state.pending = VecDeque::new();
    }
}
