//! Any bytes as the header of a file; see `../invariants.rs` for what must hold.
#![no_main]

#[path = "../invariants.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| invariants::check(bytes));
