//! Terminals: pseudoterminals with a line discipline as Linux's `n_tty` has it.
//!
//! A [`Terminal`] has two sides. What is written to the *master* is what a person types: it goes
//! through input processing (editing, echo, signals) and is read at the *slave* line by line or
//! raw. What is written to the slave goes through output processing and is read at the master,
//! which is what a person sees. The slave is the terminal of a session: its foreground group gets
//! the signals that are typed, and other groups of the session are stopped when they read it.
//!
//! | module | after | holds |
//! |---|---|---|
//! | [`termios`] | `termbits.h` | modes, control characters, window size |
//! | `input` | `n_tty.c`, receiving half | editing, lines, raw input |
//! | `output` | `n_tty.c`, sending half | output processing, echo, columns |
//! | `terminal` | `tty_io.c`, `pty.c` | the queues between the sides, modes, size |
//! | `slave` | `n_tty_read`, `n_tty_write` | reading by lines, `VMIN` and `VTIME`; writing |
//! | `jobs` | `tty_jobctrl.c` | sessions, foreground groups, hang-up |
//! | `file` | `tty_io.c` | both sides as open files |
//! | [`devpts`] | `fs/devpts` | the table of a VM, `/dev/pts` |
//!
//! Nothing here reads a clock but `VTIME`, starts a thread, or knows what a system call is: the
//! kernel crate opens terminals, and guests reach them through it.

mod cursor;
pub mod devpts;
mod file;
mod input;
mod jobs;
mod output;
mod signals;
mod slave;
mod terminal;
pub mod termios;

pub use devpts::{DevPts, PtyTable};
pub use file::{Master, Slave, read, terminal_of, write};
pub use output::OUTPUT_CAPACITY;
pub use terminal::Terminal;
pub use termios::{Queue, Termios, When, Winsize};

/// The examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
