//! `aos shell`: a terminal session in a fresh VM.

use crate::output;
use crate::run::{self, Job, Machine, Seat};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::process::ExitCode;

/// Status when there is no terminal to sit at.
const NO_TERMINAL: u8 = 1;
/// What a session runs if nothing else is asked for.
const SHELL: &[u8] = b"sh";

/// Open a terminal session in a fresh virtual machine
///
/// The machine gets a terminal of its own, and the caller's terminal shows it: keys go to it as
/// they are, its size follows the caller's window. When the command has ended the machine and
/// everything still running in it is gone, and the caller's terminal is as it was.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  aos shell
  aos shell --mount .:/workspace --cwd /workspace
  aos shell --package tool.aospkg --package npm:@agentos-software/common@0.2.21
  aos shell -- cat

Without --package the machine has the common commands, as with aos run. TERM, LINES and COLUMNS are
set from the caller's terminal; nothing else of the caller's environment is seen.

Keys such as ^C and ^Z are the business of the session. A SIGHUP, SIGTERM, SIGINT or SIGQUIT that is
sent to aos itself hangs the session's terminal up, as closing the window does; what has not ended
two seconds later is killed.

An interactive sh asks the terminal where its cursor is and ends if nobody answers. A terminal
emulator does; a program that holds the other end of the caller's terminal may not, and can let
the session's terminal do it with --answer-cursor. It then says that the cursor is at home.

Exit status: that of the command, or 128 plus the number of the signal that ended it or the session;
1 if standard input is not a terminal, else as with aos run.")]
pub(crate) struct Arguments {
    #[command(flatten)]
    machine: Machine,
    /// Let the terminal itself answer where its cursor is, if no emulator looks at the output
    #[arg(long)]
    answer_cursor: bool,
    /// The command and its arguments [default: sh, as a login shell]
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// `aos shell`.
pub(crate) fn run(arguments: Arguments) -> ExitCode {
    let Some(seat) = Seat::take(arguments.answer_cursor) else {
        output::say("standard input is not a terminal; for a command without one there is aos run");
        return ExitCode::from(NO_TERMINAL);
    };
    let words = arguments.command.into_iter().map(OsStringExt::into_vec);
    let mut argv: Vec<_> = words.collect();
    let command = match argv.first() {
        Some(command) => command.clone(),
        None => {
            // The dash is how login(1) says it.
            argv.push([b"-", SHELL].concat());
            SHELL.to_vec()
        }
    };
    run::start(Job {
        machine: arguments.machine,
        command,
        argv,
        seat: Some(seat),
    })
}
