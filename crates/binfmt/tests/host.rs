//! The same script given to the host kernel's `execve` and to [`binfmt::resolve`]: same error,
//! or the same arguments arrive.
//!
//! This executable is also the interpreter. Scripts name links to it, and started with
//! [`PRINT`] in its environment it prints its arguments and ends.

mod host {
    pub(crate) mod oracle;
    pub(crate) mod proptests;
    pub(crate) mod table;
}

use host::oracle;
use libtest_mimic::{Arguments, Trial};

fn main() {
    if std::env::var_os(oracle::PRINT).is_some() {
        return oracle::print_arguments();
    }
    let mut trials = host::table::trials();
    trials.push(Trial::test(
        "random headers",
        host::proptests::random_headers,
    ));
    trials.push(Trial::test("random chains", host::proptests::random_chains));
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
