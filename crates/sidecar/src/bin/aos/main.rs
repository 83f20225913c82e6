//! The `aos` command.
fn main() {}
