//! The slave's side: reading by lines or by `VMIN` and `VTIME`, writing, readiness (`n_tty_read`,
//! `n_tty_write`, `n_tty_poll`).

use crate::cursor::CURSOR_ANSWER;
use crate::signals::Signals;
use crate::terminal::{State, Terminal, receive_pending};
use crate::termios::{Lflag, VMIN, VTIME};
use proctable::{Process, Signal};
use std::sync::PoisonError;
use std::time::{Duration, Instant};
use vfs_core::errno::{Errno, Result};
use vfs_core::wait::PollEvents;

impl Terminal {
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
