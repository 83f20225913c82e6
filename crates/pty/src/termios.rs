//! Terminal modes and control characters, with Linux's numbers on x86-64
//! (`include/uapi/asm-generic/termbits.h`). Our own table; a test compares it with the host's.

use bitflags::bitflags;

bitflags! {
    /// Input modes (`c_iflag`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Iflag: u32 {
        /// Ignore break.
        const IGNBRK = 0x001;
        /// Signal on break.
        const BRKINT = 0x002;
        /// Ignore parity errors.
        const IGNPAR = 0x004;
        /// Mark parity errors; doubles `\377` on input.
        const PARMRK = 0x008;
        /// Check parity.
        const INPCK = 0x010;
        /// Strip the eighth bit.
        const ISTRIP = 0x020;
        /// NL to CR on input.
        const INLCR = 0x040;
        /// Ignore CR.
        const IGNCR = 0x080;
        /// CR to NL on input.
        const ICRNL = 0x100;
        /// Upper to lower case on input.
        const IUCLC = 0x200;
        /// `START` and `STOP` control output.
        const IXON = 0x400;
        /// Any character restarts output.
        const IXANY = 0x800;
        /// Send `START` and `STOP` when the input queue fills; recorded only.
        const IXOFF = 0x1000;
        /// Ring when the input queue is full; recorded only, as on Linux.
        const IMAXBEL = 0x2000;
        /// Input is UTF-8: erasing takes whole characters.
        const IUTF8 = 0x4000;
        const _ = !0;
    }

    /// Output modes (`c_oflag`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Oflag: u32 {
        /// Process output.
        const OPOST = 0x01;
        /// Lower to upper case on output.
        const OLCUC = 0x02;
        /// NL to CR-NL on output.
        const ONLCR = 0x04;
        /// CR to NL on output.
        const OCRNL = 0x08;
        /// No CR at column 0.
        const ONOCR = 0x10;
        /// NL does what CR does.
        const ONLRET = 0x20;
        /// Tabs become spaces (both bits of `TABDLY`).
        const XTABS = 0x1800;
        const _ = !0;
    }

    /// Local modes (`c_lflag`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Lflag: u32 {
        /// Control characters raise signals.
        const ISIG = 0x0001;
        /// Canonical input, by lines.
        const ICANON = 0x0002;
        /// Echo.
        const ECHO = 0x0008;
        /// Erase echoes as backspace, space, backspace.
        const ECHOE = 0x0010;
        /// Kill echoes a newline.
        const ECHOK = 0x0020;
        /// Echo NL even without `ECHO`.
        const ECHONL = 0x0040;
        /// A signal does not flush the queues.
        const NOFLSH = 0x0080;
        /// Background writers get `SIGTTOU`.
        const TOSTOP = 0x0100;
        /// Control characters echo as `^X`.
        const ECHOCTL = 0x0200;
        /// Erased characters echo between `\` and `/`.
        const ECHOPRT = 0x0400;
        /// Kill erases each character on the line.
        const ECHOKE = 0x0800;
        /// Output is being flushed; recorded only, as on Linux.
        const FLUSHO = 0x1000;
        /// Reprint pending input; recorded only, as on Linux.
        const PENDIN = 0x4000;
        /// Word erase, reprint, literal next and `EOL2`.
        const IEXTEN = 0x8000;
        /// Input was processed by the other end.
        const EXTPROC = 0x10000;
        const _ = !0;
    }
}

/// Number of control characters (`NCCS` of the kernel).
pub const NCCS: usize = 19;

/// Interrupt character.
pub const VINTR: usize = 0;
/// Quit character.
pub const VQUIT: usize = 1;
/// Erase character.
pub const VERASE: usize = 2;
/// Kill-line character.
pub const VKILL: usize = 3;
/// End-of-file character.
pub const VEOF: usize = 4;
/// Timeout of a raw read, in tenths of a second.
pub const VTIME: usize = 5;
/// Fewest bytes of a raw read.
pub const VMIN: usize = 6;
/// Start character.
pub const VSTART: usize = 8;
/// Stop character.
pub const VSTOP: usize = 9;
/// Suspend character.
pub const VSUSP: usize = 10;
/// Further end-of-line character.
pub const VEOL: usize = 11;
/// Reprint character.
pub const VREPRINT: usize = 12;
/// Word-erase character.
pub const VWERASE: usize = 14;
/// Literal-next character.
pub const VLNEXT: usize = 15;
/// Second further end-of-line character.
pub const VEOL2: usize = 16;

/// Modes of a terminal (`struct ktermios` without what a pseudoterminal has no use for).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Termios {
    /// Input modes.
    pub iflag: Iflag,
    /// Output modes.
    pub oflag: Oflag,
    /// Control modes: recorded and given back; there is no line to control.
    pub cflag: u32,
    /// Local modes.
    pub lflag: Lflag,
    /// Control characters; 0 disables one.
    pub cc: [u8; NCCS],
}

impl Default for Termios {
    /// The modes of a new terminal (`tty_std_termios`).
    fn default() -> Termios {
        let mut cc = [0; NCCS];
        cc[VINTR] = 0x03;
        cc[VQUIT] = 0x1c;
        cc[VERASE] = 0x7f;
        cc[VKILL] = 0x15;
        cc[VEOF] = 0x04;
        cc[VMIN] = 1;
        cc[VSTART] = 0x11;
        cc[VSTOP] = 0x13;
        cc[VSUSP] = 0x1a;
        cc[VREPRINT] = 0x12;
        cc[13] = 0x0f;
        cc[VWERASE] = 0x17;
        cc[VLNEXT] = 0x16;
        Termios {
            iflag: Iflag::ICRNL | Iflag::IXON,
            oflag: Oflag::OPOST | Oflag::ONLCR,
            // B38400 | CS8 | CREAD
            cflag: 0x0f | 0x30 | 0x80,
            lflag: Lflag::ISIG
                | Lflag::ICANON
                | Lflag::ECHO
                | Lflag::ECHOE
                | Lflag::ECHOK
                | Lflag::ECHOCTL
                | Lflag::ECHOKE
                | Lflag::IEXTEN,
            cc,
        }
    }
}

impl Termios {
    /// Raw modes as `cfmakeraw(3)` sets them.
    pub fn make_raw(&mut self) {
        self.iflag.remove(
            Iflag::IGNBRK
                | Iflag::BRKINT
                | Iflag::PARMRK
                | Iflag::ISTRIP
                | Iflag::INLCR
                | Iflag::IGNCR
                | Iflag::ICRNL
                | Iflag::IXON,
        );
        self.oflag.remove(Oflag::OPOST);
        self.lflag
            .remove(Lflag::ECHO | Lflag::ECHONL | Lflag::ICANON | Lflag::ISIG | Lflag::IEXTEN);
        // CSIZE | PARENB off, CS8 on.
        self.cflag = (self.cflag & !(0x30 | 0x100)) | 0x30;
        self.cc[VMIN] = 1;
        self.cc[VTIME] = 0;
    }

    /// Whether the line discipline hands input to readers line by line.
    pub(crate) fn canonical(&self) -> bool {
        self.lflag.contains(Lflag::ICANON) && !self.lflag.contains(Lflag::EXTPROC)
    }
}

/// Size of a terminal's window (`struct winsize`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Winsize {
    /// Rows of characters.
    pub rows: u16,
    /// Columns of characters.
    pub cols: u16,
    /// Width in pixels, or 0.
    pub xpixel: u16,
    /// Height in pixels, or 0.
    pub ypixel: u16,
}

/// When [`crate::Terminal::set_termios`] takes effect (`TCSANOW`, `TCSADRAIN`, `TCSAFLUSH`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum When {
    /// At once.
    Now,
    /// When what was written has been sent. Output of a pseudoterminal counts as sent once the
    /// master can read it, so this is at once too.
    Drain,
    /// As `Drain`, and unread input is thrown away.
    Flush,
}

/// Which queues [`crate::Terminal::flush`] empties (`tcflush(3)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Queue {
    /// Received and not read.
    Input,
    /// Written and not sent.
    Output,
    /// Both.
    Both,
}
