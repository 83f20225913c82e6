//! Any bytes, opened as a package and used in every way.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../tests/support/exercise.rs"]
mod exercise;

fuzz_target!(|bytes: &[u8]| {
    let _ = exercise::exercise(bytes);
    let _ = exercise::whole(bytes);
});
