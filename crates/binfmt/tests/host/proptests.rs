//! Random headers and random chains, compared with the host.

use super::oracle::Place;
use libtest_mimic::Failed;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// Parts of a `#!` line; most lead to an interpreter that exists, so that arguments get compared.
fn part() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        3 => Just(b" ".to_vec()),
        2 => Just(b"\t".to_vec()),
        1 => Just(b"\0".to_vec()),
        1 => Just(b"\n".to_vec()),
        1 => Just(b"\r".to_vec()),
        3 => Just(b"i".to_vec()),
        2 => Just(b"./i".to_vec()),
        1 => Just(b"d/".to_vec()),
        1 => (0_usize..140).prop_map(|n| b"./".repeat(n)),
        1 => (0_usize..270).prop_map(|n| b" ".repeat(n)),
        1 => (0_usize..270).prop_map(|n| b"x".repeat(n)),
        2 => proptest::collection::vec(any::<u8>(), 0..6),
    ]
}

fn header() -> impl Strategy<Value = Vec<u8>> {
    let start = prop_oneof![
        20 => Just(b"#!".to_vec()),
        10 => Just(b"#!./i ".to_vec()),
        1 => proptest::collection::vec(any::<u8>(), 0..3),
    ];
    let line = (start, proptest::collection::vec(part(), 0..10));
    // The first lengths around the end of the buffer are where the rules bite.
    (
        line,
        prop_oneof![2 => Just(None), 1 => (250_usize..260).prop_map(Some)],
    )
        .prop_map(|((mut line, parts), cut)| {
            line.extend(parts.concat());
            if let Some(len) = cut {
                line.resize(len, b'x');
            }
            line
        })
}

fn run<S: Strategy>(
    strategy: S,
    test: impl Fn(S::Value) -> Result<(), TestCaseError>,
) -> Result<(), Failed> {
    let config = Config {
        cases: 1000,
        failure_persistence: None,
        ..Config::default()
    };
    TestRunner::new(config)
        .run(&strategy, test)
        .map_err(|e| e.to_string().into())
}

/// One script with a random header.
pub(crate) fn random_headers() -> Result<(), Failed> {
    let place = Place::new();
    place.interpreter(b"i").directory(b"d");
    run(header(), |header| {
        // ELF is the one format that the host takes and we do not.
        prop_assume!(!header.starts_with(b"\x7fELF"));
        place.file(b"script", &header, 0o755);
        let agreed = place.agree(b"./script", &[b"a0", b"a1"]);
        prop_assert!(
            agreed.is_ok(),
            "{}\n{}",
            header.escape_ascii(),
            agreed.unwrap_err()
        );
        Ok(())
    })
}

/// Several scripts that name one another, the interpreter, or nothing.
pub(crate) fn random_chains() -> Result<(), Failed> {
    let place = Place::new();
    place.interpreter(b"i");
    const SCRIPTS: usize = 8;
    let link = prop_oneof![
        // Onward in most cases, so that chains get long; anywhere in some, so that they loop.
        8 => Just("+".to_owned()),
        1 => (0..SCRIPTS).prop_map(|n| format!("s{n}")),
        2 => Just("./i".to_owned()),
        1 => Just("none".to_owned()),
    ];
    let argument = prop_oneof![Just(""), Just(" "), Just(" -x"), Just(" a b "), Just("\0")];
    let end = prop_oneof![4 => Just("\n"), 1 => Just("")];
    let mode = prop_oneof![9 => Just(0o755), 1 => Just(0o644)];
    let scripts = proptest::collection::vec((link, argument, end, mode), SCRIPTS);
    run((scripts, 0..SCRIPTS), |(scripts, first)| {
        for (n, (link, argument, end, mode)) in scripts.iter().enumerate() {
            let target = match link.as_str() {
                "+" => format!("./s{}", n + 1),
                other => other.to_owned(),
            };
            let line = format!("#!{target}{argument}{end}");
            place.file(format!("s{n}").as_bytes(), line.as_bytes(), *mode);
        }
        let agreed = place.agree(format!("./s{first}").as_bytes(), &[b"a0"]);
        prop_assert!(agreed.is_ok(), "{}", agreed.unwrap_err());
        Ok(())
    })
}
