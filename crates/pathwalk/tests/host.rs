//! The same `$PATH` and the same tree given to the host's `execvp` and to [`pathwalk::find`]: same
//! file, under the same path, or the same error.
//!
//! This executable plays two further parts, chosen by [`oracle::PART`] in its environment: it
//! calls `execvp`, and it is the interpreter of the scripts that get found, which prints their
//! path.

mod host {
    pub(crate) mod oracle;
    pub(crate) mod proptests;
    pub(crate) mod table;
}

use host::oracle::{self, Machine};
use libtest_mimic::{Arguments, Trial};
use std::sync::Arc;

fn main() {
    if let Some(part) = std::env::var_os(oracle::PART) {
        return oracle::play(&part);
    }
    let machine = Arc::new(Machine::new());
    let mut trials = host::table::trials(&machine);
    let random = machine.clone();
    trials.push(Trial::test("random trees", move || {
        host::proptests::random_trees(&random)
    }));
    let conclusion = libtest_mimic::run(&Arguments::from_args(), trials);
    drop(machine);
    conclusion.exit();
}
