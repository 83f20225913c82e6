//! Replays the corpus of the fuzz target, and its neighbours: every input cut short at every
//! length.

#[path = "../fuzz/invariants.rs"]
mod invariants;

#[test]
fn corpus() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/header");
    let mut inputs = 0;
    for entry in std::fs::read_dir(corpus).expect("the corpus") {
        let bytes = std::fs::read(entry.expect("an entry").path()).expect("an input");
        for len in 0..=bytes.len() {
            invariants::check(&bytes[..len]);
        }
        inputs += 1;
    }
    assert!(inputs >= 20, "only {inputs} inputs");
}

#[test]
fn every_byte_after_a_prefix() {
    for prefix in [
        &b"#!"[..],
        b"#!/i",
        b"#!/i ",
        b"#! ",
        b"\0as",
        b"\0aos",
        b"\0aosx",
    ] {
        for a in 0..=255 {
            for b in [0, b' ', b'\t', b'\n', b'x', 0xff] {
                invariants::check(&[prefix, &[a, b]].concat());
            }
        }
    }
}
