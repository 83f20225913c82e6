//! The fuzz corpus, replayed and changed a little, without a fuzzer.
//!
//! `cargo +nightly fuzz run reader` (or `tar`) in `crates/aospkg-format` looks further.

use std::fs;
use std::path::Path;

#[path = "support/exercise.rs"]
mod exercise;

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/corpus")
        .join(target);
    let mut paths: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    paths.sort();
    assert!(!paths.is_empty());
    paths
        .into_iter()
        .map(|path| fs::read(path).unwrap())
        .collect()
}

/// Changes bytes, numbers and lengths, a few at a time.
fn mutate(bytes: &mut Vec<u8>, random: &mut impl FnMut() -> usize) {
    for _ in 0..1 + random() % 4 {
        if bytes.is_empty() {
            return;
        }
        let at = random() % bytes.len();
        match random() % 5 {
            0 => bytes[at] ^= 1 << (random() % 8),
            1 => bytes[at] = [0, 1, b'/', b'.', 0x7f, 0x80, 0xff][random() % 7],
            2 => bytes.truncate(at),
            3 => {
                let byte = bytes[at];
                bytes.insert(at, byte);
            }
            _ => {
                let other = random() % bytes.len();
                let len = (random() % 600).min(bytes.len() - at.max(other));
                bytes.copy_within(other..other + len, at);
            }
        }
    }
}

fn replay(target: &str, rounds: usize, run: impl Fn(&[u8])) {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as usize
    };
    let corpus = corpus(target);
    for bytes in &corpus {
        run(bytes);
    }
    for round in 0..rounds {
        let mut bytes = corpus[round % corpus.len()].clone();
        mutate(&mut bytes, &mut random);
        run(&bytes);
    }
}

#[test]
fn reader() {
    replay("reader", 600, |bytes| {
        let _ = exercise::exercise(bytes);
        let _ = exercise::whole(bytes);
    });
}

#[test]
fn tar() {
    replay("tar", 1000, exercise::pack);
}
