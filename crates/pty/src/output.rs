//! Output processing and echo: the half of the line discipline that writes to the master
//! (`do_output_char`, `__process_echoes` in `drivers/tty/n_tty.c`).

use crate::termios::{Iflag, Lflag, Oflag, Termios};
use std::collections::VecDeque;

/// Bytes that may wait for the master to read them, as for a pseudoterminal of Linux.
pub const OUTPUT_CAPACITY: usize = 65536;

/// Bytes of echo that wait at most before they are written (`ECHO_COMMIT_WATERMARK`).
const ECHO_BLOCK: usize = 256;

/// Bytes of echo that may wait while output is stopped or full; older ones are dropped for newer
/// ones (`ECHO_DISCARD_WATERMARK`).
const ECHO_CAPACITY: usize = 4096 - (ECHO_BLOCK + 32);

/// Output that a flush cannot take back, because the master's own buffer holds it already
/// (`N_TTY_BUF_SIZE`).
const DELIVERED_MAX: usize = 4095;

/// One pending piece of echo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Echo {
    /// A character, through output processing.
    Char(u8),
    /// A control character as `^X`.
    Control(u8),
    /// Backspaces over a tab: columns used since the last tab, or since the start of input.
    EraseTab { columns: u8, after_tab: bool },
    /// The column is where input begins.
    SetCanonColumn,
    /// One column back, nothing written.
    BackColumn,
}

impl Echo {
    /// Bytes it takes in Linux's echo buffer, which decide when echo is written.
    fn weight(self) -> usize {
        match self {
            Echo::Char(0xff) | Echo::Control(_) | Echo::SetCanonColumn | Echo::BackColumn => 2,
            Echo::Char(_) => 1,
            Echo::EraseTab { .. } => 4,
        }
    }
}

/// What a terminal writes towards its master, and where the cursor is thought to be.
#[derive(Debug, Default)]
pub(crate) struct Output {
    queue: VecDeque<u8>,
    /// How much of the front of `queue` a flush leaves.
    delivered: usize,
    echo: VecDeque<Echo>,
    /// Weight of all of `echo`.
    echo_weight: usize,
    column: u32,
    canon_column: u32,
    /// `STOP` was typed.
    pub(crate) stopped: bool,
}

impl Output {
    /// Bytes the master can read.
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Room for more; none while output is stopped.
    pub(crate) fn room(&self) -> usize {
        if self.stopped {
            return 0;
        }
        OUTPUT_CAPACITY.saturating_sub(self.queue.len())
    }

    /// Moves bytes to the master's buffer.
    pub(crate) fn take(&mut self, buf: &mut [u8]) -> usize {
        let n = buf.len().min(self.queue.len());
        let (front, back) = self.queue.as_slices();
        let first = n.min(front.len());
        buf[..first].copy_from_slice(&front[..first]);
        buf[first..n].copy_from_slice(&back[..n - first]);
        self.queue.drain(..n);
        self.delivered = self.delivered.saturating_sub(n);
        if self.queue.is_empty() && self.queue.capacity() > 4096 {
            // An idle terminal holds no memory for what once was on its way.
            self.queue = VecDeque::new();
        }
        n
    }

    /// A new step begins: what was written before has reached the master's buffer, as far as that
    /// has room.
    pub(crate) fn deliver(&mut self) {
        self.delivered = self.queue.len().min(DELIVERED_MAX);
    }

    /// Forgets output that is on its way to the master.
    pub(crate) fn flush(&mut self) {
        self.queue.truncate(self.delivered);
    }

    /// Forgets echo that was not written yet.
    pub(crate) fn flush_echo(&mut self) {
        self.echo.clear();
        self.echo_weight = 0;
    }

    /// Writes as a process does; returns how many bytes of `buf` were taken.
    pub(crate) fn write(&mut self, termios: &Termios, buf: &[u8]) -> usize {
        if !termios.oflag.contains(Oflag::OPOST) {
            let n = buf.len().min(self.room());
            self.queue.extend(&buf[..n]);
            return n;
        }
        for (done, &byte) in buf.iter().enumerate() {
            if !self.put(termios, byte) {
                return done;
            }
        }
        buf.len()
    }

    /// One character through output processing; false if there is no room (`do_output_char`).
    fn put(&mut self, termios: &Termios, byte: u8) -> bool {
        let room = self.room();
        if room == 0 {
            return false;
        }
        let oflag = termios.oflag;
        let mut byte = byte;
        match byte {
            b'\n' => {
                if oflag.contains(Oflag::ONLRET) {
                    self.column = 0;
                }
                if oflag.contains(Oflag::ONLCR) {
                    if room < 2 {
                        return false;
                    }
                    self.column = 0;
                    self.canon_column = 0;
                    self.queue.extend(b"\r\n");
                    return true;
                }
                self.canon_column = self.column;
            }
            b'\r' => {
                if oflag.contains(Oflag::ONOCR) && self.column == 0 {
                    return true;
                }
                if oflag.contains(Oflag::OCRNL) {
                    byte = b'\n';
                    if oflag.contains(Oflag::ONLRET) {
                        self.column = 0;
                        self.canon_column = 0;
                    }
                } else {
                    self.column = 0;
                    self.canon_column = 0;
                }
            }
            b'\t' => {
                let spaces = 8 - (self.column & 7) as usize;
                if oflag.contains(Oflag::XTABS) {
                    if room < spaces {
                        return false;
                    }
                    self.column += spaces as u32;
                    self.queue.extend(&b"        "[..spaces]);
                    return true;
                }
                self.column = self.column.wrapping_add(spaces as u32);
            }
            0x08 => self.column = self.column.saturating_sub(1),
            _ if is_control(byte) => {}
            _ => {
                if oflag.contains(Oflag::OLCUC) {
                    byte = to_upper(byte);
                }
                if !is_continuation(termios, byte) {
                    self.column = self.column.wrapping_add(1);
                }
            }
        }
        self.queue.push_back(byte);
        true
    }

    fn push_echo(&mut self, op: Echo) {
        self.echo.push_back(op);
        self.echo_weight += op.weight();
    }

    fn pop_echo(&mut self) {
        if let Some(op) = self.echo.pop_front() {
            self.echo_weight -= op.weight();
        }
    }

    /// Writes echo if much of it has gathered (`commit_echoes`).
    pub(crate) fn commit_echoes(&mut self, termios: &Termios) {
        if self.echo_weight >= ECHO_BLOCK {
            self.process_echoes(termios);
        }
    }

    /// Echoes a character, control characters as `^X` under `ECHOCTL` (`echo_char`).
    pub(crate) fn echo(&mut self, termios: &Termios, byte: u8) {
        let caret = termios.lflag.contains(Lflag::ECHOCTL) && is_control(byte) && byte != b'\t';
        self.push_echo(if caret {
            Echo::Control(byte)
        } else {
            Echo::Char(byte)
        });
    }

    /// Echoes a character as it is (`echo_char_raw`).
    pub(crate) fn echo_raw(&mut self, byte: u8) {
        self.push_echo(Echo::Char(byte));
    }

    /// Echoes the erasure of a tab (`echo_erase_tab`).
    pub(crate) fn echo_erase_tab(&mut self, columns: u32, after_tab: bool) {
        self.push_echo(Echo::EraseTab {
            columns: (columns & 7) as u8,
            after_tab,
        });
    }

    /// Input begins at the column reached when the echo before this is written.
    pub(crate) fn echo_set_canon_column(&mut self) {
        self.push_echo(Echo::SetCanonColumn);
    }

    /// One column back, for the second half of a wide character.
    pub(crate) fn echo_back_column(&mut self) {
        self.push_echo(Echo::BackColumn);
    }

    /// Writes as much pending echo as there is room for (`__process_echoes`).
    pub(crate) fn process_echoes(&mut self, termios: &Termios) {
        while let Some(op) = self.echo.front().copied() {
            let room = self.room();
            let written = match op {
                // Linux's echo buffer escapes this byte, and unescapes it past output processing.
                Echo::Char(0xff) if room > 0 => {
                    self.queue.push_back(0xff);
                    self.column = self.column.wrapping_add(1);
                    true
                }
                Echo::Char(byte) if termios.oflag.contains(Oflag::OPOST) => self.put(termios, byte),
                Echo::Char(_) if room == 0 => false,
                Echo::Char(byte) => {
                    self.queue.push_back(byte);
                    true
                }
                Echo::Control(_) if room < 2 => false,
                Echo::Control(byte) => {
                    self.queue.extend([b'^', byte ^ 0o100]);
                    self.column = self.column.wrapping_add(2);
                    true
                }
                Echo::EraseTab { columns, after_tab } => {
                    let from = if after_tab { 0 } else { self.canon_column };
                    let back = 8 - (u32::from(columns).wrapping_add(from) & 7);
                    if room < back as usize {
                        false
                    } else {
                        self.queue.extend(std::iter::repeat_n(0x08, back as usize));
                        self.column = self.column.saturating_sub(back);
                        true
                    }
                }
                Echo::SetCanonColumn => {
                    self.canon_column = self.column;
                    true
                }
                Echo::BackColumn => {
                    self.column = self.column.saturating_sub(1);
                    true
                }
            };
            if !written {
                break;
            }
            self.pop_echo();
        }
        while self.echo_weight >= ECHO_CAPACITY {
            self.pop_echo();
        }
    }
}

/// `iscntrl` of the kernel (`lib/ctype.c`): ASCII only.
pub(crate) fn is_control(byte: u8) -> bool {
    byte < 0x20 || byte == 0x7f
}

/// `isalnum` of the kernel, which counts the letters of Latin-1.
pub(crate) fn is_alnum(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || (byte >= 0xc0 && byte != 0xd7 && byte != 0xf7)
}

/// `toupper` of the kernel, which knows the lower case of Latin-1.
fn to_upper(byte: u8) -> u8 {
    match byte {
        b'a'..=b'z' | 0xdf..=0xf6 | 0xf8..=0xff => byte - 0x20,
        _ => byte,
    }
}

/// `tolower` of the kernel.
pub(crate) fn to_lower(byte: u8) -> u8 {
    match byte {
        b'A'..=b'Z' | 0xc0..=0xd6 | 0xd8..=0xde => byte + 0x20,
        _ => byte,
    }
}

/// Whether a byte goes on with a UTF-8 character, for terminals that are told their input is.
pub(crate) fn is_continuation(termios: &Termios, byte: u8) -> bool {
    termios.iflag.contains(Iflag::IUTF8) && byte & 0xc0 == 0x80
}
