//! Signals as plain data: numbers, names, sets, default actions, dispositions.
//!
//! Numbers are Linux's on x86-64 (`include/uapi/asm-generic/signal.h`); 32 to 64 are the
//! real-time signals. The names follow `kill -l`, where the first two real-time signals, which
//! the C library keeps for itself, have none.

use bitflags::bitflags;
use std::fmt;

/// A signal number, `1..=64`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Signal(u8);

/// What the system does for a process that has not said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultAction {
    /// Ends the process.
    Terminate,
    /// Ends the process and records that a core image would have been written.
    Core,
    /// Stops the process.
    Stop,
    /// Continues it if it is stopped, else nothing.
    Continue,
    /// Nothing.
    Ignore,
}

macro_rules! signals {
    ($($name:ident $number:literal $text:literal)*) => {
        impl Signal {
            $(#[doc = concat!($text, " (", $number, ").")] pub const $name: Signal = Signal($number);)*

            /// The words `strsignal(3)` has for it, without "Real-time signal".
            pub fn description(self) -> &'static str {
                match self.0 { $($number => $text,)* _ => "Real-time signal" }
            }

            /// The name of a standard signal, `"SIGTERM"`.
            fn standard_name(self) -> Option<&'static str> {
                match self.0 { $($number => Some(concat!("SIG", stringify!($name))),)* _ => None }
            }
        }
    };
}

signals! {
    HUP 1 "Hangup"
    INT 2 "Interrupt"
    QUIT 3 "Quit"
    ILL 4 "Illegal instruction"
    TRAP 5 "Trace/breakpoint trap"
    ABRT 6 "Aborted"
    BUS 7 "Bus error"
    FPE 8 "Floating point exception"
    KILL 9 "Killed"
    USR1 10 "User defined signal 1"
    SEGV 11 "Segmentation fault"
    USR2 12 "User defined signal 2"
    PIPE 13 "Broken pipe"
    ALRM 14 "Alarm clock"
    TERM 15 "Terminated"
    STKFLT 16 "Stack fault"
    CHLD 17 "Child exited"
    CONT 18 "Continued"
    STOP 19 "Stopped (signal)"
    TSTP 20 "Stopped"
    TTIN 21 "Stopped (tty input)"
    TTOU 22 "Stopped (tty output)"
    URG 23 "Urgent I/O condition"
    XCPU 24 "CPU time limit exceeded"
    XFSZ 25 "File size limit exceeded"
    VTALRM 26 "Virtual timer expired"
    PROF 27 "Profiling timer expired"
    WINCH 28 "Window changed"
    IO 29 "I/O possible"
    PWR 30 "Power failure"
    SYS 31 "Bad system call"
}

impl Signal {
    /// Highest signal number (`_NSIG`).
    pub const MAX: u8 = 64;
    /// First real-time signal as the kernel counts (`SIGRTMIN`).
    pub const RTMIN: u8 = 32;

    /// The signal of this number; `None` outside `1..=64`.
    pub fn new(number: i32) -> Option<Signal> {
        u8::try_from(number)
            .ok()
            .filter(|n| (1..=Signal::MAX).contains(n))
            .map(Signal)
    }

    /// The number.
    pub fn number(self) -> u8 {
        self.0
    }

    /// Every signal in rising order.
    pub fn all() -> impl Iterator<Item = Signal> {
        (1..=Signal::MAX).map(Signal)
    }

    /// Whether it queues instead of coalescing.
    pub fn is_realtime(self) -> bool {
        self.0 >= Signal::RTMIN
    }

    /// What happens to a process that has not said otherwise (signal(7)).
    pub fn default_action(self) -> DefaultAction {
        match self {
            Signal::QUIT
            | Signal::ILL
            | Signal::TRAP
            | Signal::ABRT
            | Signal::BUS
            | Signal::FPE
            | Signal::SEGV
            | Signal::XCPU
            | Signal::XFSZ
            | Signal::SYS => DefaultAction::Core,
            Signal::STOP | Signal::TSTP | Signal::TTIN | Signal::TTOU => DefaultAction::Stop,
            Signal::CONT => DefaultAction::Continue,
            Signal::CHLD | Signal::URG | Signal::WINCH => DefaultAction::Ignore,
            _ => DefaultAction::Terminate,
        }
    }

    /// The name as `kill -l` prints it: `SIGTERM`, `SIGRTMIN+2`, or the bare number for 32 and 33.
    pub fn name(self) -> String {
        match self.0 {
            34 => "SIGRTMIN".into(),
            64 => "SIGRTMAX".into(),
            n @ 35..=49 => format!("SIGRTMIN+{}", n - 34),
            n @ 50..=63 => format!("SIGRTMAX-{}", 64 - n),
            n => self
                .standard_name()
                .map_or_else(|| n.to_string(), str::to_owned),
        }
    }

    /// Reads a name, with or without `SIG` and in any case, or a number.
    pub fn from_name(text: &str) -> Option<Signal> {
        if let Ok(number) = text.parse::<i32>() {
            return Signal::new(number);
        }
        let upper = text.to_ascii_uppercase();
        let name = upper.strip_prefix("SIG").unwrap_or(&upper);
        match name {
            "CLD" => return Some(Signal::CHLD),
            "POLL" => return Some(Signal::IO),
            "IOT" => return Some(Signal::ABRT),
            _ => {}
        }
        Signal::all().find(|s| s.name().strip_prefix("SIG") == Some(name))
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

/// A set of signals; bit *n*-1 stands for signal *n* (`sigset_t`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct SigSet(u64);

impl SigSet {
    /// No signal.
    pub const EMPTY: SigSet = SigSet(0);
    /// Every signal.
    pub const ALL: SigSet = SigSet(!0);
    /// What no mask may hold: `SIGKILL` and `SIGSTOP`.
    pub const UNBLOCKABLE: SigSet = SigSet::EMPTY.with(Signal::KILL).with(Signal::STOP);
    /// The signals whose default action is to stop.
    pub const STOPS: SigSet = SigSet::EMPTY
        .with(Signal::STOP)
        .with(Signal::TSTP)
        .with(Signal::TTIN)
        .with(Signal::TTOU);
    /// The signals raised by a program's own fault, which are delivered before others.
    pub const SYNCHRONOUS: SigSet = SigSet::EMPTY
        .with(Signal::SEGV)
        .with(Signal::BUS)
        .with(Signal::ILL)
        .with(Signal::TRAP)
        .with(Signal::FPE)
        .with(Signal::SYS);

    /// The set of these bits.
    pub const fn from_bits(bits: u64) -> SigSet {
        SigSet(bits)
    }

    /// The bits.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The set with `signal` in it.
    #[must_use]
    pub const fn with(self, signal: Signal) -> SigSet {
        SigSet(self.0 | 1 << (signal.0 - 1))
    }

    /// The set without `signal`.
    #[must_use]
    pub const fn without(self, signal: Signal) -> SigSet {
        SigSet(self.0 & !(1 << (signal.0 - 1)))
    }

    /// What is in either.
    #[must_use]
    pub const fn union(self, other: SigSet) -> SigSet {
        SigSet(self.0 | other.0)
    }

    /// What is in both.
    #[must_use]
    pub const fn intersection(self, other: SigSet) -> SigSet {
        SigSet(self.0 & other.0)
    }

    /// What is in this set and not in the other.
    #[must_use]
    pub const fn difference(self, other: SigSet) -> SigSet {
        SigSet(self.0 & !other.0)
    }

    /// Whether `signal` is in the set.
    pub const fn contains(self, signal: Signal) -> bool {
        self.0 & (1 << (signal.0 - 1)) != 0
    }

    /// Whether there is nothing in it.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The signals in rising order.
    pub fn iter(self) -> impl Iterator<Item = Signal> {
        let mut bits = self.0;
        std::iter::from_fn(move || {
            let signal = SigSet(bits).first()?;
            bits &= bits - 1;
            Some(signal)
        })
    }

    /// The lowest signal in the set.
    pub fn first(self) -> Option<Signal> {
        (self.0 != 0).then(|| Signal(self.0.trailing_zeros() as u8 + 1))
    }
}

impl FromIterator<Signal> for SigSet {
    fn from_iter<I: IntoIterator<Item = Signal>>(signals: I) -> SigSet {
        signals.into_iter().fold(SigSet::EMPTY, SigSet::with)
    }
}

impl fmt::Debug for SigSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// What a process does about a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Disposition {
    /// The default action (`SIG_DFL`).
    #[default]
    Default,
    /// Nothing (`SIG_IGN`).
    Ignore,
    /// Its own handler, whose address only the guest knows.
    Handler,
}

bitflags! {
    /// Flags of `sigaction(2)`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct SaFlags: u32 {
        /// `SIGCHLD` only for children that end, not for those that stop or continue.
        const NOCLDSTOP = 0x0000_0001;
        /// Children leave no zombies.
        const NOCLDWAIT = 0x0000_0002;
        /// The handler takes a `siginfo_t`; recorded, the driver decides what it can pass.
        const SIGINFO = 0x0000_0004;
        /// The handler runs on the alternate stack; recorded only.
        const ONSTACK = 0x0800_0000;
        /// Interrupted calls start again after the handler.
        const RESTART = 0x1000_0000;
        /// The signal is not blocked while its handler runs.
        const NODEFER = 0x4000_0000;
        /// The disposition falls back to the default when the handler is entered.
        const RESETHAND = 0x8000_0000;
    }
}

/// Disposition, mask and flags of one signal (`struct sigaction`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SigAction {
    /// What to do.
    pub disposition: Disposition,
    /// Blocked in addition while the handler runs.
    pub mask: SigSet,
    /// Flags.
    pub flags: SaFlags,
}

impl SigAction {
    /// The default action.
    pub const DEFAULT: SigAction = SigAction {
        disposition: Disposition::Default,
        mask: SigSet::EMPTY,
        flags: SaFlags::empty(),
    };
    /// Ignore it.
    pub const IGNORE: SigAction = SigAction {
        disposition: Disposition::Ignore,
        mask: SigSet::EMPTY,
        flags: SaFlags::empty(),
    };
}

/// Who sent a signal and why (`si_code`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SigCode {
    /// `kill(2)` (`SI_USER`, 0).
    User,
    /// The system itself (`SI_KERNEL`, 0x80).
    Kernel,
    /// `sigqueue(3)` with a value (`SI_QUEUE`, -1).
    Queue,
    /// An interval timer (`SI_TIMER`, -2).
    Timer,
    /// A child ended by itself (`CLD_EXITED`, 1).
    ChildExited,
    /// A child was killed (`CLD_KILLED`, 2).
    ChildKilled,
    /// A child was killed and a core image recorded (`CLD_DUMPED`, 3).
    ChildDumped,
    /// A child stopped (`CLD_STOPPED`, 5).
    ChildStopped,
    /// A child continued (`CLD_CONTINUED`, 6).
    ChildContinued,
}

impl SigCode {
    /// The number a guest sees.
    pub fn number(self) -> i32 {
        match self {
            SigCode::User => 0,
            SigCode::Kernel => 0x80,
            SigCode::Queue => -1,
            SigCode::Timer => -2,
            SigCode::ChildExited => 1,
            SigCode::ChildKilled => 2,
            SigCode::ChildDumped => 3,
            SigCode::ChildStopped => 5,
            SigCode::ChildContinued => 6,
        }
    }
}

/// What is known of one posted signal (`siginfo_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SigInfo {
    /// The signal.
    pub signal: Signal,
    /// Why it came.
    pub code: SigCode,
    /// Sending process, or the child that changed; 0 is the system or the host.
    pub pid: u32,
    /// Real user of that process.
    pub uid: u32,
    /// Exit code or signal of a child, or the value of `sigqueue`.
    pub value: i64,
}

impl SigInfo {
    /// A signal from the system or the host.
    pub fn kernel(signal: Signal) -> SigInfo {
        SigInfo {
            signal,
            code: SigCode::Kernel,
            pid: 0,
            uid: 0,
            value: 0,
        }
    }
}
