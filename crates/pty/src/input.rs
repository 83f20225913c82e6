//! Input processing: the half of the line discipline between the master's writes and the slave's
//! reads (`n_tty_receive_*`, `eraser`, `canon_copy_from_read_buf` in `drivers/tty/n_tty.c`).
//!
//! Positions count bytes ever received and are reduced modulo the buffer size where the buffer is
//! touched, as there.

use crate::output::{Output, is_alnum, is_continuation, is_control, to_lower};
use crate::termios::{
    Iflag, Lflag, Termios, VEOF, VEOL, VEOL2, VERASE, VINTR, VKILL, VLNEXT, VQUIT, VREPRINT,
    VSTART, VSTOP, VSUSP, VWERASE,
};
use proctable::Signal;

/// Size of the input buffer; a line holds one byte less and its end (`N_TTY_BUF_SIZE`).
const BUFFER: usize = 4096;

/// How an end-of-file character is kept: a marked NUL (`__DISABLED_CHAR`).
const EOF_MARK: u8 = 0;

/// Received bytes, and where lines end among them.
#[derive(Debug, Default)]
pub(crate) struct Input {
    /// Allocated with the first byte.
    buffer: Vec<u8>,
    /// Bit of each position: a line ends there.
    ends: Vec<u64>,
    head: usize,
    tail: usize,
    /// End of the complete lines.
    canon_head: usize,
    /// End of what a raw reader may have.
    commit_head: usize,
    /// The next character is literal.
    literal_next: bool,
    /// `\` was echoed for erased characters.
    erasing: bool,
}

/// What receiving made happen besides changes to the queues.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Received {
    /// Bytes taken of those offered.
    pub(crate) taken: usize,
    /// Signals for the foreground group, in order.
    pub(crate) signals: Vec<Signal>,
}

impl Input {
    fn at(&self, position: usize) -> u8 {
        self.buffer.get(position % BUFFER).copied().unwrap_or(0)
    }

    fn is_end(&self, position: usize) -> bool {
        let bit = position % BUFFER;
        self.ends
            .get(bit / 64)
            .is_some_and(|w| w >> (bit % 64) & 1 == 1)
    }

    fn mark_end(&mut self, position: usize, end: bool) {
        let bit = position % BUFFER;
        if let Some(word) = self.ends.get_mut(bit / 64) {
            *word = (*word & !(1 << (bit % 64))) | (u64::from(end) << (bit % 64));
        }
    }

    fn put(&mut self, byte: u8) {
        if self.buffer.is_empty() {
            self.buffer = vec![0; BUFFER];
            self.ends = vec![0; BUFFER / 64];
        }
        self.buffer[self.head % BUFFER] = byte;
        self.head += 1;
    }

    /// Throws all input away (`reset_buffer_flags`).
    pub(crate) fn flush(&mut self) {
        let literal_next = self.literal_next;
        *self = Input {
            literal_next,
            ..Input::default()
        };
    }

    /// Bytes a reader could have now, for `FIONREAD` (`inq_canon`).
    pub(crate) fn readable(&self, termios: &Termios) -> usize {
        if !termios.canonical() {
            return self.commit_head - self.tail;
        }
        if self.canon_head - self.tail == BUFFER {
            // Linux does not look for marks in a buffer that is full to the last place.
            return BUFFER;
        }
        // Every end-of-file mark takes a place and is not read.
        (self.tail..self.canon_head)
            .filter(|&p| !(self.is_end(p) && self.at(p) == EOF_MARK))
            .count()
    }

    /// Whether a read would find at least `amount` bytes, or a line (`input_available_p`).
    pub(crate) fn available(&self, termios: &Termios, amount: usize) -> bool {
        if termios.canonical() {
            self.canon_head != self.tail
        } else {
            self.commit_head - self.tail >= amount
        }
    }

    /// The modes changed from `old` to `new` (`n_tty_set_termios`).
    pub(crate) fn modes_changed(&mut self, old: &Termios, new: &Termios) {
        let changed = (old.lflag ^ new.lflag) & (Lflag::ICANON | Lflag::EXTPROC);
        if changed.is_empty() {
            return;
        }
        self.ends.fill(0);
        if !new.lflag.contains(Lflag::ICANON) || self.head == self.tail {
            self.canon_head = self.tail;
        } else {
            self.mark_end(self.head - 1, true);
            // What waits becomes a line without an end of its own.
            self.canon_head = self.head;
        }
        self.commit_head = self.head;
        self.erasing = false;
        self.literal_next = false;
    }

    /// Takes what the master wrote, as far as there is room (`n_tty_receive_buf_common`).
    pub(crate) fn receive(
        &mut self,
        termios: &Termios,
        output: &mut Output,
        bytes: &[u8],
    ) -> Received {
        let mut received = Received::default();
        // As on Linux the room is looked at once more when all is taken: what overflowed last is
        // then gone.
        loop {
            let mut room = BUFFER as isize - (self.head - self.tail) as isize;
            if termios.iflag.contains(Iflag::PARMRK) {
                room = (room + 2) / 3;
            }
            room -= 1;
            if room <= 0 {
                // A line that is too long goes on in its last place, so that its end can come.
                let overflow =
                    termios.lflag.contains(Lflag::ICANON) && self.canon_head == self.tail;
                if !overflow {
                    break;
                }
                if room < 0 {
                    // Never behind the place of the line's last byte, however many bytes one
                    // character took.
                    self.head = self.tail + BUFFER - 1;
                }
                room = 1;
            }
            let n = (room as usize).min(bytes.len() - received.taken);
            if n == 0 {
                break;
            }
            for &byte in &bytes[received.taken..received.taken + n] {
                self.receive_byte(termios, output, byte, &mut received.signals);
                output.commit_echoes(termios);
            }
            received.taken += n;
            output.process_echoes(termios);
            if !termios.canonical() {
                self.commit_head = self.head;
            }
        }
        received
    }

    fn receive_byte(
        &mut self,
        termios: &Termios,
        output: &mut Output,
        byte: u8,
        signals: &mut Vec<Signal>,
    ) {
        if termios.lflag.contains(Lflag::EXTPROC) && !self.literal_next {
            self.put(byte);
            return;
        }
        let literal = std::mem::take(&mut self.literal_next);
        let mut byte = byte;
        if termios.iflag.contains(Iflag::ISTRIP) {
            byte &= 0x7f;
        }
        if termios.iflag.contains(Iflag::IUCLC) && termios.lflag.contains(Lflag::IEXTEN) {
            byte = to_lower(byte);
        }
        if !literal && is_special(termios, byte) {
            self.receive_special(termios, output, byte, signals);
        } else {
            self.receive_plain(termios, output, byte);
        }
    }

    /// `n_tty_receive_char`
    fn receive_plain(&mut self, termios: &Termios, output: &mut Output, byte: u8) {
        self.any_restarts(termios, output);
        if termios.lflag.contains(Lflag::ECHO) {
            self.finish_erasing(output);
            self.echo_input(termios, output, byte);
        }
        if byte == 0xff && termios.iflag.contains(Iflag::PARMRK) {
            self.put(byte);
        }
        self.put(byte);
    }

    /// `n_tty_receive_char_special`
    fn receive_special(
        &mut self,
        termios: &Termios,
        output: &mut Output,
        byte: u8,
        signals: &mut Vec<Signal>,
    ) {
        let cc = &termios.cc;
        if termios.iflag.contains(Iflag::IXON) {
            if byte == cc[VSTART] {
                output.stopped = false;
                output.process_echoes(termios);
                return;
            }
            if byte == cc[VSTOP] {
                output.stopped = true;
                return;
            }
        }
        if termios.lflag.contains(Lflag::ISIG) {
            let signal = if byte == cc[VINTR] {
                Some(Signal::INT)
            } else if byte == cc[VQUIT] {
                Some(Signal::QUIT)
            } else if byte == cc[VSUSP] {
                Some(Signal::TSTP)
            } else {
                None
            };
            if let Some(signal) = signal {
                self.receive_signal(termios, output, byte, signal, signals);
                return;
            }
        }
        self.any_restarts(termios, output);
        let mut byte = byte;
        if byte == b'\r' {
            if termios.iflag.contains(Iflag::IGNCR) {
                return;
            }
            if termios.iflag.contains(Iflag::ICRNL) {
                byte = b'\n';
            }
        } else if byte == b'\n' && termios.iflag.contains(Iflag::INLCR) {
            byte = b'\r';
        }
        if termios.lflag.contains(Lflag::ICANON) && self.receive_canonical(termios, output, byte) {
            return;
        }
        if termios.lflag.contains(Lflag::ECHO) {
            self.finish_erasing(output);
            if byte == b'\n' {
                output.echo_raw(b'\n');
            } else {
                self.echo_input(termios, output, byte);
            }
        }
        if byte == 0xff && termios.iflag.contains(Iflag::PARMRK) {
            self.put(byte);
        }
        self.put(byte);
    }

    /// `n_tty_receive_signal_char`, `isig`
    fn receive_signal(
        &mut self,
        termios: &Termios,
        output: &mut Output,
        byte: u8,
        signal: Signal,
        signals: &mut Vec<Signal>,
    ) {
        signals.push(signal);
        if !termios.lflag.contains(Lflag::NOFLSH) {
            output.flush();
            output.flush_echo();
            self.flush();
        }
        if termios.iflag.contains(Iflag::IXON) {
            output.stopped = false;
        }
        if termios.lflag.contains(Lflag::ECHO) {
            output.echo(termios, byte);
        } else {
            output.process_echoes(termios);
        }
    }

    /// `n_tty_receive_char_canon`: whether the character is dealt with.
    fn receive_canonical(&mut self, termios: &Termios, output: &mut Output, byte: u8) -> bool {
        let cc = &termios.cc;
        let lflag = termios.lflag;
        let extended = lflag.contains(Lflag::IEXTEN);
        let echo = lflag.contains(Lflag::ECHO);
        if byte == cc[VERASE] || byte == cc[VKILL] || (byte == cc[VWERASE] && extended) {
            self.erase(termios, output, byte);
            return true;
        }
        if byte == cc[VLNEXT] && extended {
            self.literal_next = true;
            if echo {
                self.finish_erasing(output);
                if lflag.contains(Lflag::ECHOCTL) {
                    output.echo_raw(b'^');
                    output.echo_raw(0x08);
                }
            }
            return true;
        }
        if byte == cc[VREPRINT] && echo && extended {
            self.finish_erasing(output);
            output.echo(termios, byte);
            output.echo_raw(b'\n');
            for position in self.canon_head..self.head {
                output.echo(termios, self.at(position));
            }
            return true;
        }
        if byte == b'\n' {
            if echo || lflag.contains(Lflag::ECHONL) {
                output.echo_raw(b'\n');
            }
            self.end_line(byte);
            return true;
        }
        if byte == cc[VEOF] {
            self.end_line(EOF_MARK);
            return true;
        }
        if byte == cc[VEOL] || (byte == cc[VEOL2] && extended) {
            if echo {
                self.echo_input(termios, output, byte);
            }
            if byte == 0xff && termios.iflag.contains(Iflag::PARMRK) {
                self.put(byte);
            }
            self.end_line(byte);
            return true;
        }
        false
    }

    fn end_line(&mut self, byte: u8) {
        let position = self.head;
        self.put(byte);
        self.mark_end(position, true);
        self.canon_head = self.head;
    }

    /// Echoes a character of input; the first one of a line notes where the line begins.
    fn echo_input(&self, termios: &Termios, output: &mut Output, byte: u8) {
        if self.canon_head == self.head {
            output.echo_set_canon_column();
        }
        output.echo(termios, byte);
    }

    fn any_restarts(&self, termios: &Termios, output: &mut Output) {
        if output.stopped && termios.iflag.contains(Iflag::IXON | Iflag::IXANY) {
            output.stopped = false;
            output.process_echoes(termios);
        }
    }

    fn finish_erasing(&mut self, output: &mut Output) {
        if self.erasing {
            output.echo_raw(b'/');
            self.erasing = false;
        }
    }

    /// Erases a character, a word or the line (`eraser`).
    fn erase(&mut self, termios: &Termios, output: &mut Output, key: u8) {
        #[derive(PartialEq)]
        enum Kind {
            Char,
            Word,
            Line,
        }
        if self.head == self.canon_head {
            return;
        }
        let lflag = termios.lflag;
        let echo = lflag.contains(Lflag::ECHO);
        let kind = if key == termios.cc[VERASE] {
            Kind::Char
        } else if key == termios.cc[VWERASE] {
            Kind::Word
        } else {
            if !echo {
                self.head = self.canon_head;
                return;
            }
            if !lflag.contains(Lflag::ECHOK | Lflag::ECHOKE | Lflag::ECHOE) {
                self.head = self.canon_head;
                self.finish_erasing(output);
                output.echo(termios, termios.cc[VKILL]);
                if lflag.contains(Lflag::ECHOK) {
                    output.echo_raw(b'\n');
                }
                return;
            }
            Kind::Line
        };
        let mut in_word = false;
        while self.head != self.canon_head {
            // One character, which may be several bytes.
            let mut start = self.head;
            let byte = loop {
                start -= 1;
                let byte = self.at(start);
                if !is_continuation(termios, byte) || start == self.canon_head {
                    break byte;
                }
            };
            if is_continuation(termios, byte) {
                // The rest of a character whose start is gone: not erased in part.
                break;
            }
            if kind == Kind::Word {
                if is_alnum(byte) || byte == b'_' {
                    in_word = true;
                } else if in_word {
                    break;
                }
            }
            let end = std::mem::replace(&mut self.head, start);
            if echo {
                if lflag.contains(Lflag::ECHOPRT) {
                    if !self.erasing {
                        output.echo_raw(b'\\');
                        self.erasing = true;
                    }
                    output.echo(termios, byte);
                    for position in start + 1..end {
                        output.echo_raw(self.at(position));
                        output.echo_back_column();
                    }
                } else if kind == Kind::Char && !lflag.contains(Lflag::ECHOE) {
                    output.echo(termios, termios.cc[VERASE]);
                } else if byte == b'\t' {
                    self.echo_tab_erased(termios, output);
                } else {
                    let control = is_control(byte);
                    let carets = lflag.contains(Lflag::ECHOCTL);
                    let columns = match (control, carets) {
                        (false, _) => 1,
                        (true, true) => 2,
                        (true, false) => 0,
                    };
                    for _ in 0..columns {
                        output.echo_raw(0x08);
                        output.echo_raw(b' ');
                        output.echo_raw(0x08);
                    }
                }
            }
            if kind == Kind::Char {
                break;
            }
        }
        if self.head == self.canon_head && echo {
            self.finish_erasing(output);
        }
    }

    /// Goes back over a tab that was erased: as far as the characters before it leave open.
    fn echo_tab_erased(&self, termios: &Termios, output: &mut Output) {
        let mut columns = 0u32;
        let mut after_tab = false;
        for position in (self.canon_head..self.head).rev() {
            let byte = self.at(position);
            if byte == b'\t' {
                after_tab = true;
                break;
            }
            if is_control(byte) {
                if termios.lflag.contains(Lflag::ECHOCTL) {
                    columns = columns.wrapping_add(2);
                }
            } else if !is_continuation(termios, byte) {
                columns = columns.wrapping_add(1);
            }
        }
        output.echo_erase_tab(columns, after_tab);
    }

    /// Reads up to `buf` bytes of one line (`canon_copy_from_read_buf`). An end-of-file mark
    /// ends a line and is not read.
    pub(crate) fn read_line(&mut self, buf: &mut [u8]) -> usize {
        let mut n = 0;
        while self.tail != self.canon_head {
            let (byte, end) = (self.at(self.tail), self.is_end(self.tail));
            let mark = end && byte == EOF_MARK;
            // A mark right behind a full buffer goes with it, or the next read would see the end
            // of the file that this one ran into.
            if n == buf.len() && !(mark && n > 0) {
                break;
            }
            if end {
                self.mark_end(self.tail, false);
            }
            self.tail += 1;
            if !mark {
                buf[n] = byte;
                n += 1;
            }
            if end {
                break;
            }
        }
        n
    }

    /// Reads raw bytes (`copy_from_read_buf`).
    pub(crate) fn read_raw(&mut self, buf: &mut [u8]) -> usize {
        let n = buf.len().min(self.commit_head - self.tail);
        for slot in &mut buf[..n] {
            *slot = self.buffer[self.tail % BUFFER];
            self.tail += 1;
        }
        n
    }
}

/// Whether a character means something under these modes (`char_map`).
fn is_special(termios: &Termios, byte: u8) -> bool {
    if byte == 0 {
        // A control character set to NUL is disabled.
        return false;
    }
    let (iflag, lflag, cc) = (termios.iflag, termios.lflag, &termios.cc);
    let is = |index: usize| cc[index] == byte;
    (byte == b'\r' && iflag.intersects(Iflag::IGNCR | Iflag::ICRNL))
        || (byte == b'\n' && iflag.contains(Iflag::INLCR))
        || (lflag.contains(Lflag::ICANON)
            && (byte == b'\n'
                || is(VERASE)
                || is(VKILL)
                || is(VEOF)
                || is(VEOL)
                || (lflag.contains(Lflag::IEXTEN)
                    && (is(VWERASE)
                        || is(VLNEXT)
                        || is(VEOL2)
                        || (lflag.contains(Lflag::ECHO) && is(VREPRINT))))))
        || (iflag.contains(Iflag::IXON) && (is(VSTART) || is(VSTOP)))
        || (lflag.contains(Lflag::ISIG) && (is(VINTR) || is(VQUIT) || is(VSUSP)))
}
