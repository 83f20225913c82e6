//! The `aos` command: packages as files, and programs run in a virtual machine.
//!
//! Exit statuses: 0 for success, 1 for a failure, 2 for a wrong command line, 141 when whoever
//! reads our output went away. `aos run` and `aos shell` have their own, see
//! [`run`].

mod cat;
mod fetch;
mod index;
mod inspect;
mod ls;
mod open;
mod output;
mod pack;
mod run;
mod shell;
mod unpack;
mod verify;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Runs a Linux-like machine inside one process, from packages that are never unpacked.
#[derive(Parser)]
#[command(
    name = "aos",
    version,
    arg_required_else_help = true,
    max_term_width = 100
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Pack(pack::Arguments),
    Inspect(inspect::Arguments),
    Ls(ls::Arguments),
    Cat(cat::Arguments),
    Verify(verify::Arguments),
    Index(index::Arguments),
    Unpack(unpack::Arguments),
    Fetch(fetch::Arguments),
    Run(Box<run::Arguments>),
    Shell(Box<shell::Arguments>),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Pack(arguments) => pack::run(&arguments),
        Command::Inspect(arguments) => inspect::run(&arguments),
        Command::Ls(arguments) => ls::run(&arguments),
        Command::Cat(arguments) => cat::run(&arguments),
        Command::Verify(arguments) => verify::run(&arguments),
        Command::Index(arguments) => index::run(&arguments),
        Command::Unpack(arguments) => unpack::run(&arguments),
        Command::Fetch(arguments) => fetch::run(&arguments),
        Command::Run(arguments) => return run::run(*arguments),
        Command::Shell(arguments) => return shell::run(*arguments),
    };
    output::finish(result)
}
