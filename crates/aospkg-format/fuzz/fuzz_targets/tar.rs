//! Any bytes, packed as a tar or a compressed tar. What is packed must be whole.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../tests/support/exercise.rs"]
mod exercise;

fuzz_target!(|bytes: &[u8]| exercise::pack(bytes));
