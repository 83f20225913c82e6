//! The project's own commands: `cargo xtask run | test | bench | ci`.
//!
//! They install what they need, build with one profile into one target directory, and leave
//! everything else to cargo. Nothing of the product lives here; what is slow to compile stays out,
//! so that the first command of a newcomer starts at once.

mod bench;
mod cargo;
mod ci;
mod host;
mod peer;
mod run;
mod test;

use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::process::ExitCode;

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    about = "Runs, tests and measures the project"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Build `aos` and run a command in a fresh VM, as `aos run` does
    #[command(
        after_help = "Examples:\n  cargo xtask run -- sh -c 'seq 1 1000000 | sort -rn | head -3'\n  \
        cargo xtask run --mount .:/workspace --cwd /workspace -- ls -l\n\n\
        Everything after `run` is handed to `aos run`, which explains its options with\n\
        `aos run --help`."
    )]
    Run {
        /// Options of `aos run`, `--`, and the command
        #[arg(
            trailing_var_arg = true,
            allow_hyphen_values = true,
            value_name = "[OPTIONS] -- CMD"
        )]
        arguments: Vec<OsString>,
    },
    /// Install what the tests need and run every test
    #[command(
        after_help = "Examples:\n  cargo xtask test\n  cargo xtask test --quick\n  cargo xtask test -p proctable pipe"
    )]
    Test {
        /// Fewer random cases, and none of the suites that take minutes
        #[arg(long)]
        quick: bool,
        /// Only this crate's tests; may be given several times
        #[arg(short, long = "package", value_name = "CRATE")]
        packages: Vec<String>,
        /// Only tests whose name contains one of these
        filters: Vec<String>,
    },
    /// Measure and compare with the bars of the project
    #[command(
        after_help = "Examples:\n  cargo xtask bench\n  cargo xtask bench --peer --json speed.json\n  cargo xtask bench pipe spawn"
    )]
    Bench {
        /// Options and rows of `aos-bench`; `cargo xtask bench --list` names the rows
        #[arg(
            trailing_var_arg = true,
            allow_hyphen_values = true,
            value_name = "[--peer] [--quick] [--json FILE] [ROW]"
        )]
        arguments: Vec<OsString>,
    },
    /// Everything a change must pass: format, lints, documentation, tests
    Ci,
}

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    // `run` hands its arguments on untouched, `--` included, so clap must not see them.
    if arguments.get(1).is_some_and(|a| a == "run")
        && !arguments.get(2).is_some_and(|a| a == "--help" || a == "-h")
    {
        return finish(run::run(&arguments[2..]));
    }
    finish(match Arguments::parse_from(arguments).command {
        Command::Run { arguments } => run::run(&arguments),
        Command::Test {
            quick,
            packages,
            filters,
        } => test::run(&test::Selection {
            quick,
            packages,
            filters,
        }),
        Command::Bench { arguments } => bench::run(&arguments),
        Command::Ci => ci::run(),
    })
}

fn finish(result: anyhow::Result<ExitCode>) -> ExitCode {
    match result {
        Ok(code) => code,
        Err(error) => {
            host::say(format_args!("xtask: {error:#}"));
            ExitCode::FAILURE
        }
    }
}
