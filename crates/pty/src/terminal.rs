//! One pseudoterminal: the two queues between its sides, its modes, its session and who is woken
//! and signalled when something happens (`drivers/tty/{tty_io,pty,tty_jobctrl}.c`).
//!
//! # Locks
//!
//! One lock, `state`, guards everything that changes. It is below every lock of `proctable` and
//! never held while a signal is sent, a queue is woken or a process is asked something: what has
//! to be sent is collected and sent after.

use crate::input::Input;
use crate::output::Output;
use crate::termios::{Lflag, Queue, Termios, VMIN, VTIME, When, Winsize};
use proctable::limits::Meter;
use proctable::{ControllingTerminal, Disposition, KillTarget, ProcTable, Process, Signal};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
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
    procs: Weak<ProcTable>,
    meter: Arc<Meter>,
    state: Mutex<State>,
    /// Readers and writers of the slave.
    pub(crate) slave_queue: WaitQueue,
    /// Readers and writers of the master.
    pub(crate) master_queue: WaitQueue,
    /// Answers a cursor report itself; see [`Terminal::answer_cursor_reports`].
    answers: Mutex<Option<CursorReports>>,
}

/// Guarded by `Terminal::state`.
struct State {
    termios: Termios,
    winsize: Winsize,
    input: Input,
    output: Output,
    /// Written by the master, no room in `input` yet.
    pending: VecDeque<u8>,
    master_open: bool,
    /// Open file descriptions of the slave.
    slaves: usize,
    /// The slave was open once: the master then sees its last close.
    slave_seen: bool,
    /// Slaves opened before the last hang-up are dead; this numbers them.
    generation: u64,
    /// `TIOCSPTLCK`: the slave can't be opened.
    locked: bool,
    session: Option<u32>,
    foreground: Option<u32>,
    perm: u32,
    spares_leader: bool,
}

/// Looks for the sequence that asks for the cursor position.
#[derive(Default)]
struct CursorReports {
    matched: usize,
}

/// Device Status Report 6 (ECMA-48, 8.3.35): report the active position.
const CURSOR_QUESTION: &[u8] = b"\x1b[6n";
/// The answer of a terminal whose cursor is at home.
const CURSOR_ANSWER: &[u8] = b"\x1b[1;1R";

/// What to tell the processes once the state is unlocked.
#[derive(Default)]
struct Signals {
    letters: Vec<(KillTarget, Signal)>,
    /// This session leader is not told of `letters` it would die or stop of.
    spared: Option<u32>,
    /// A session that has lost its terminal.
    detached: Option<u32>,
}

impl Signals {
    fn push_group(&mut self, group: Option<u32>, signal: Signal) {
        if let Some(group) = group {
            self.letters.push((KillTarget::Group(group), signal));
        }
    }

    fn send(self, procs: &Weak<ProcTable>) {
        if self.letters.is_empty() && self.detached.is_none() {
            return;
        }
        if let Some(procs) = procs.upgrade() {
            if let Some(sid) = self.detached {
                // The session may be gone by now.
                let _ = procs.set_terminal(sid, None);
            }
            for (target, signal) in self.letters {
                let spared = self.spared.filter(|sid| {
                    procs.get(*sid).is_some_and(|leader| {
                        leader.signals().action(signal).disposition == Disposition::Default
                    })
                });
                // Nobody may be left in the group; that is no error for the terminal.
                match (target, spared) {
                    (KillTarget::Group(group), Some(sid)) => {
                        for pid in procs.group_members(group) {
                            if pid != sid {
                                let _ = procs.kill(None, KillTarget::Pid(pid), Some(signal));
                            }
                        }
                    }
                    _ => {
                        let _ = procs.kill(None, target, Some(signal));
                    }
                }
            }
        }
    }
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

    fn lock(&self) -> MutexGuard<'_, State> {
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

    // ---- the slave's side ----

    /// Reads as a process does (`n_tty_read`): a line in canonical mode; otherwise what `VMIN` and
    /// `VTIME` ask for. `SIGTTIN` stops a background reader. Without `process` nothing blocks and
    /// nobody is stopped.
    pub(crate) fn slave_read(
        &self,
        process: Option<&Process>,
        generation: u64,
        nonblocking: bool,
        buf: &mut [u8],
    ) -> Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        if let Some(process) = process {
            self.check_job(process, Signal::TTIN)?;
        }
        let mut read = SlaveRead::default();
        let first = self.read_step(generation, &mut read, buf);
        let deadline = match first {
            Step::Done(result) => return result,
            Step::Wait(deadline) => deadline,
        };
        let Some(process) = process.filter(|_| !nonblocking) else {
            return if read.done > 0 {
                Ok(read.done)
            } else {
                Err(Errno::EAGAIN)
            };
        };
        let mut deadline = deadline;
        loop {
            let mut next = None;
            let outcome = proctable::block_on(
                process,
                &[(&self.slave_queue, PollEvents::IN | PollEvents::RDNORM)],
                deadline,
                || match self.read_step(generation, &mut read, buf) {
                    Step::Done(result) => result.map(Some),
                    // Bytes came, so the time between two bytes starts again.
                    Step::Wait(new) if read.progress => {
                        read.progress = false;
                        next = Some(new);
                        Ok(None)
                    }
                    Step::Wait(_) => Err(Errno::EAGAIN),
                },
            );
            match outcome {
                Ok(Some(n)) => return Ok(n),
                Ok(None) => deadline = next.flatten(),
                Err(Errno::ETIMEDOUT) => return Ok(read.done),
                Err(_) if read.done > 0 => return Ok(read.done),
                Err(error) => return Err(error),
            }
        }
    }

    /// One look at the input: an answer, or until when to wait for more.
    fn read_step(&self, generation: u64, read: &mut SlaveRead, buf: &mut [u8]) -> Step {
        let mut signals = Signals::default();
        let mut state = self.lock();
        if state.generation != generation {
            return Step::Done(Ok(read.done));
        }
        let step = if state.termios.canonical() {
            if state.input.available(&state.termios, 1) {
                let n = state.input.read_line(&mut buf[read.done..]);
                read.done += n;
                Step::Done(Ok(read.done))
            } else if !state.master_open {
                Step::Done(if read.done > 0 {
                    Ok(read.done)
                } else {
                    Err(Errno::EIO)
                })
            } else {
                Step::Wait(None)
            }
        } else {
            raw_step(&mut state, read, buf)
        };
        if matches!(step, Step::Done(Ok(n)) if n > 0) || read.progress {
            receive_pending(&mut state, &mut signals);
            drop(state);
            self.master_queue.wake(PollEvents::OUT | PollEvents::WRNORM);
            signals.send(&self.procs);
        }
        step
    }

    /// Writes as a process does (`n_tty_write`); returns how much was taken. `EAGAIN` without
    /// room or while output is stopped, `EIO` after a hang-up. `SIGTTOU` stops a background writer
    /// under `TOSTOP`.
    pub(crate) fn slave_write(
        &self,
        process: Option<&Process>,
        generation: u64,
        buf: &[u8],
    ) -> Result<usize> {
        if let Some(process) = process
            && self.lock().termios.lflag.contains(Lflag::TOSTOP)
        {
            self.check_job(process, Signal::TTOU)?;
        }
        let n = {
            let mut state = self.lock();
            if state.generation != generation || !state.master_open {
                return Err(Errno::EIO);
            }
            let State {
                output, termios, ..
            } = &mut *state;
            output.process_echoes(termios);
            output.write(termios, buf)
        };
        if n == 0 && !buf.is_empty() {
            return Err(Errno::EAGAIN);
        }
        self.master_queue.wake(PollEvents::IN | PollEvents::RDNORM);
        self.answer(&buf[..n]);
        Ok(n)
    }

    /// Answers questions for the cursor position in what was just written, if asked to.
    fn answer(&self, written: &[u8]) {
        let questions = {
            let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(reports) = answers.as_mut() else {
                return;
            };
            written.iter().filter(|&&byte| reports.sees(byte)).count()
        };
        for _ in 0..questions {
            // A terminal nobody reads from is full at some point; the question then stays open.
            let _ = self.master_write(CURSOR_ANSWER);
        }
    }

    pub(crate) fn slave_poll(&self, generation: u64) -> PollEvents {
        let state = self.lock();
        if state.generation != generation {
            return PollEvents::all() - PollEvents::NVAL - PollEvents::PRI;
        }
        let mut events = PollEvents::empty();
        let (min, time) = (state.termios.cc[VMIN], state.termios.cc[VTIME]);
        let amount = if time == 0 && min > 0 {
            usize::from(min)
        } else {
            1
        };
        if state.input.available(&state.termios, amount) {
            events |= PollEvents::IN | PollEvents::RDNORM;
        }
        if state.output.room() > 0 {
            events |= PollEvents::OUT | PollEvents::WRNORM;
        }
        if !state.master_open {
            events |= PollEvents::HUP;
        }
        events
    }

    /// Bytes the slave could read now (`FIONREAD`).
    pub(crate) fn slave_readable(&self) -> usize {
        let state = self.lock();
        state.input.readable(&state.termios)
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
            let ixon = crate::termios::Iflag::IXON;
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

    // ---- jobs ----

    /// The session this is the controlling terminal of.
    pub fn session(&self) -> Option<u32> {
        self.lock().session
    }

    /// The foreground group.
    pub fn foreground(&self) -> Option<u32> {
        self.lock().foreground
    }

    /// Makes this the controlling terminal of the caller's session (`TIOCSCTTY`). `EPERM` if the
    /// caller leads no session, has a terminal already, or another session has this one and is
    /// not robbed (`steal`, for the superuser).
    pub fn set_controlling(self: &Arc<Self>, caller: &Process, steal: bool) -> Result<()> {
        let table = self.procs.upgrade().ok_or(Errno::EIO)?;
        let sid = caller.sid();
        if caller.is_session_leader() && self.session() == Some(sid) {
            return Ok(());
        }
        if !caller.is_session_leader() || table.terminal(sid).is_some() {
            return Err(Errno::EPERM);
        }
        let robbed = {
            let mut state = self.lock();
            let robbed = state.session;
            if robbed.is_some() && !(steal && caller.cred().is_root()) {
                return Err(Errno::EPERM);
            }
            state.session = Some(sid);
            state.foreground = Some(caller.pgid());
            robbed
        };
        if let Some(robbed) = robbed {
            // The session may be gone by now.
            let _ = table.set_terminal(robbed, None);
        }
        table.set_terminal(sid, Some(self.clone()))
    }

    /// Gives the terminal up (`TIOCNOTTY`): the leader takes it from the whole session, whose
    /// foreground group gets `SIGHUP` and `SIGCONT`. `ENOTTY` if it is not the caller's.
    pub fn give_up(&self, caller: &Process) -> Result<()> {
        let table = self.procs.upgrade().ok_or(Errno::EIO)?;
        if self.session() != Some(caller.sid()) {
            return Err(Errno::ENOTTY);
        }
        if !caller.is_session_leader() {
            // A terminal belongs to the session here; one process alone cannot leave it.
            return Err(Errno::EPERM);
        }
        let mut signals = Signals::default();
        {
            let mut state = self.lock();
            signals.push_group(state.foreground, Signal::HUP);
            signals.push_group(state.foreground, Signal::CONT);
            state.session = None;
            state.foreground = None;
        }
        table.set_terminal(caller.sid(), None)?;
        signals.send(&self.procs);
        Ok(())
    }

    /// The foreground group for a process of this session (`TIOCGPGRP`); `ENOTTY` for others.
    pub fn get_foreground(&self, caller: &Process) -> Result<u32> {
        let state = self.lock();
        if state.session != Some(caller.sid()) {
            return Err(Errno::ENOTTY);
        }
        Ok(state.foreground.unwrap_or(0))
    }

    /// Sets the foreground group (`TIOCSPGRP`): `ENOTTY` if it is not the caller's terminal,
    /// `ESRCH` for a group without members, `EPERM` for one of another session. A background
    /// process gets `SIGTTOU` first.
    pub fn set_foreground(&self, caller: &Process, pgid: i32) -> Result<()> {
        match self.check_job(caller, Signal::TTOU) {
            Err(Errno::EIO) => return Err(Errno::ENOTTY),
            other => other?,
        }
        if self.session() != Some(caller.sid()) {
            return Err(Errno::ENOTTY);
        }
        let pgid = u32::try_from(pgid).map_err(|_| Errno::EINVAL)?;
        let table = self.procs.upgrade().ok_or(Errno::EIO)?;
        let session = table.group_session(pgid).ok_or(Errno::ESRCH)?;
        if session != caller.sid() {
            return Err(Errno::EPERM);
        }
        self.lock().foreground = Some(pgid);
        Ok(())
    }

    /// The session (`TIOCGSID`); `ENOTTY` for processes of others.
    pub fn get_session(&self, caller: &Process) -> Result<u32> {
        let session = self.session().ok_or(Errno::ENOTTY)?;
        if session != caller.sid() {
            return Err(Errno::ENOTTY);
        }
        Ok(session)
    }

    /// Whether `caller` may read (`SIGTTIN`) or change (`SIGTTOU`) the terminal now
    /// (`__tty_check_change`). A background process of its session has its group signalled and
    /// gets `EINTR`; if it ignores the signal, or its group is orphaned, it gets `EIO`, or may go
    /// on, as the rules have it.
    fn check_job(&self, caller: &Process, signal: Signal) -> Result<()> {
        let foreground = {
            let state = self.lock();
            if state.session != Some(caller.sid()) {
                return Ok(());
            }
            state.foreground
        };
        let group = caller.pgid();
        if foreground.is_none_or(|f| f == group) {
            return Ok(());
        }
        let signals = caller.signals();
        if signals.mask().contains(signal) || signals.ignored().contains(signal) {
            return if signal == Signal::TTIN {
                Err(Errno::EIO)
            } else {
                Ok(())
            };
        }
        let table = self.procs.upgrade().ok_or(Errno::EIO)?;
        if table.is_orphaned_group(group) {
            return Err(Errno::EIO);
        }
        let _ = table.kill(None, KillTarget::Group(group), Some(signal));
        Err(Errno::EINTR)
    }
}

impl ControllingTerminal for Terminal {
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }

    fn leader_exited(&self, sid: u32) {
        let mut signals = Signals::default();
        {
            let mut state = self.lock();
            if state.session != Some(sid) {
                return;
            }
            hang_up(&mut state, true, &mut signals);
        }
        self.slave_queue.wake_all();
        self.master_queue.wake_all();
        signals.send(&self.procs);
    }
}

impl CursorReports {
    /// Whether this byte completes the question.
    fn sees(&mut self, byte: u8) -> bool {
        self.matched = if byte == CURSOR_QUESTION[self.matched] {
            self.matched + 1
        } else {
            usize::from(byte == CURSOR_QUESTION[0])
        };
        let whole = self.matched == CURSOR_QUESTION.len();
        if whole {
            self.matched = 0;
        }
        whole
    }
}

/// A read under way.
#[derive(Default)]
struct SlaveRead {
    /// Bytes in the caller's buffer.
    done: usize,
    /// Bytes came since the last wait began.
    progress: bool,
}

/// What a look at the input gave.
enum Step {
    Done(Result<usize>),
    /// Nothing yet; give up at this time with what there is.
    Wait(Option<Instant>),
}

/// Most bytes a raw read collects before it looks at `VMIN`: Linux reads in pieces of this size,
/// so a larger `VMIN` is met by one.
const READ_PIECE: usize = 64;

/// Raw reading by `VMIN` and `VTIME` (termios(3), "Canonical and noncanonical mode").
fn raw_step(state: &mut State, read: &mut SlaveRead, buf: &mut [u8]) -> Step {
    let min = usize::from(state.termios.cc[VMIN]);
    let time = Duration::from_millis(100) * u32::from(state.termios.cc[VTIME]);
    let piece = buf.len().min(READ_PIECE);
    let wanted = min.clamp(1, piece);
    if state.input.available(&state.termios, 1) {
        if read.done < piece {
            let n = state.input.read_raw(&mut buf[read.done..piece]);
            read.done += n;
            read.progress |= n > 0;
        }
        if read.done >= wanted {
            if min <= READ_PIECE {
                read.done += state.input.read_raw(&mut buf[read.done..]);
            }
            return Step::Done(Ok(read.done));
        }
    }
    if !state.master_open {
        return Step::Done(if read.done > 0 {
            Ok(read.done)
        } else {
            Err(Errno::EIO)
        });
    }
    let started = min > 0 && read.done > 0;
    match (min, time.is_zero()) {
        (0, true) => Step::Done(Ok(read.done)),
        (0, false) => Step::Wait(Some(Instant::now() + time)),
        (_, false) if started => Step::Wait(Some(Instant::now() + time)),
        _ => Step::Wait(None),
    }
}

/// Moves what the master wrote into the line discipline as far as there is room.
fn receive_pending(state: &mut State, signals: &mut Signals) {
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

/// The line goes dead (`__tty_hangup`): what is open on the slave reads as ended and can't be
/// written, the session loses its terminal. Its leader gets `SIGHUP` and `SIGCONT`; if the leader
/// is what ended (`on_exit`), its foreground group gets `SIGHUP`.
fn hang_up(state: &mut State, on_exit: bool, signals: &mut Signals) {
    if let Some(sid) = state.session.take() {
        if on_exit {
            signals.push_group(state.foreground, Signal::HUP);
        } else {
            signals.letters.push((KillTarget::Pid(sid), Signal::HUP));
            signals.letters.push((KillTarget::Pid(sid), Signal::CONT));
        }
        signals.detached = Some(sid);
    }
    state.foreground = None;
    state.generation += 1;
    state.slaves = 0;
    state.input.flush();
    state.output.stopped = false;
}
