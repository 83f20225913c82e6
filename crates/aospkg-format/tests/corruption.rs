//! Damage, by accident and on purpose: a package is flipped, cut, extended and rewritten thousands
//! of ways, and every one of them ends in an error or an answer.

use aospkg_format::{Error, IndexSource, Package, PackageBuilder, WriteOptions};

#[path = "support/exercise.rs"]
mod exercise;

use exercise::{exercise, memory_file, whole};

/// A small package with everything in it.
fn sample(index: bool) -> Vec<u8> {
    let mut builder = PackageBuilder::new("sample", "1.0.0")
        .options(WriteOptions {
            index,
            ..WriteOptions::default()
        })
        .manifest(|m| {
            m.provides = Some(Default::default());
            m.agent = Some(Default::default());
        })
        .file("bin/tool", 0o755, "\0asm....")
        .file("big", 0o644, vec![b'x'; 4100])
        .file("lib/deep/down/f", 0o600, "text")
        .file(format!("lib/{}", "n".repeat(120)), 0o644, "long")
        .symlink("link", "lib/deep")
        .directory("empty", 0o700)
        .command("tool", "bin/tool")
        .command("tool-2", "bin/tool");
    for i in 0..12 {
        builder = builder.file(format!("many/{i}"), 0o644, format!("{i}"));
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p");
    builder.write(&path).unwrap();
    std::fs::read(path).unwrap()
}

/// A small generator, so that failures repeat.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

/// Fewer rounds where they take ten times as long.
const fn rounds(n: usize) -> usize {
    if cfg!(debug_assertions) { n / 6 } else { n }
}

/// Makes the footer's own check right again, as an author of hostile packages would.
fn reseal(bytes: &mut [u8]) {
    let Some(at) = bytes.len().checked_sub(256) else {
        return;
    };
    let check = blake3::hash(&bytes[at..at + 224]);
    bytes[at + 224..at + 240].copy_from_slice(&check.as_bytes()[..16]);
}

#[test]
fn every_flipped_byte_is_noticed() {
    let good = sample(true);
    assert!(whole(&good));
    let mut random = Random(1);
    // All of the small parts, and samples of the long ones.
    let footer = good.len() - 256;
    let places = (0..4200).step_by(7).chain(footer..good.len()).chain(
        (0..1500)
            .map(|_| random.below(good.len()))
            .collect::<Vec<_>>(),
    );
    for at in places {
        let mut bytes = good.clone();
        bytes[at] ^= 1 << (at % 8);
        let _ = exercise(&bytes);
        assert!(
            !whole(&bytes),
            "a flip at {at} of {} went unnoticed",
            bytes.len()
        );
    }
}

#[test]
fn header_damage_is_refused_at_open() {
    let good = sample(true);
    for at in 0..16 {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        assert!(exercise(&bytes).is_err(), "header byte {at}");
    }
    for at in good.len() - 256..good.len() - 16 {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        assert!(
            matches!(exercise(&bytes), Err(Error::Corrupt { .. })),
            "footer byte {at}"
        );
    }
}

#[test]
fn cut_anywhere() {
    for index in [true, false] {
        let good = sample(index);
        let container = Package::from_file(memory_file(&good), None)
            .unwrap()
            .container_len() as usize;
        for len in (0..good.len())
            .step_by(13)
            .chain(good.len() - 300..good.len())
        {
            let opened = exercise(&good[..len]);
            // The last file's content ends 1,024 and some bytes before the end of the archive.
            if len < container - 2048 {
                assert!(opened.is_err(), "{len} of {container} bytes opened");
            }
            if len != container && len + 1024 < container {
                assert!(!whole(&good[..len]), "{len} of {container} bytes are whole");
            }
        }
    }
}

#[test]
fn extended_and_rewritten() {
    let mut random = Random(2);
    for index in [true, false] {
        let good = sample(index);
        for round in 0..rounds(1500) {
            let mut bytes = good.clone();
            match round % 5 {
                0 => bytes.extend((0..random.below(600)).map(|_| random.0 as u8)),
                1 => {
                    let at = random.below(bytes.len());
                    let tail = bytes.split_off(at);
                    bytes.extend((0..random.below(5000)).map(|i| i as u8));
                    bytes.extend(tail);
                }
                2 => {
                    let at = random.below(bytes.len());
                    let len = random.below(bytes.len() - at);
                    bytes.drain(at..at + len);
                }
                3 => {
                    let (from, to) = (random.below(bytes.len()), random.below(bytes.len()));
                    let len = random.below(bytes.len() - from.max(to));
                    bytes.copy_within(from..from + len, to);
                }
                _ => {
                    for _ in 0..1 + random.below(40) {
                        let at = random.below(bytes.len());
                        bytes[at] = random.next() as u8;
                    }
                }
            }
            let _ = exercise(&bytes);
            reseal(&mut bytes);
            let _ = exercise(&bytes);
            if bytes != good {
                let _ = whole(&bytes);
            }
        }
    }
}

/// Damage that keeps to the index tables and is sealed again: what somebody does who knows the
/// format.
#[test]
fn hostile_tables() {
    let good = sample(true);
    let start = Package::from_file(memory_file(&good), None)
        .unwrap()
        .container_len()
        .next_multiple_of(4096) as usize;
    let mut random = Random(3);
    let interesting = [
        0u32,
        1,
        2,
        47,
        48,
        49,
        255,
        256,
        0x7fff_ffff,
        0xffff_fffe,
        u32::MAX,
    ];
    for round in 0..rounds(6000) {
        let mut bytes = good.clone();
        for _ in 0..1 + round % 4 {
            // Aligned numbers, mostly those that are nearly right.
            let at = start + random.below((bytes.len() - start) / 4) * 4;
            let value = if round % 3 == 0 {
                random.next() as u32
            } else {
                interesting[random.below(interesting.len())]
            };
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        reseal(&mut bytes);
        let _ = exercise(&bytes);
        assert!(bytes == good || !whole(&bytes));
    }
}

/// Every 32-bit number of the footer, set to every interesting value.
#[test]
fn hostile_footers() {
    let good = sample(true);
    let footer = good.len() - 256;
    for at in (footer..footer + 224).step_by(4) {
        for value in [0u32, 1, 63, 64, 4096, 0x7fff_ffff, u32::MAX] {
            let mut bytes = good.clone();
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
            reseal(&mut bytes);
            let _ = exercise(&bytes);
            assert!(
                bytes == good || !whole(&bytes),
                "footer offset {}",
                at - footer
            );
        }
    }
}

#[test]
fn a_trailer_of_a_later_version_is_passed_over() {
    let good = sample(true);
    let mut bytes = good.clone();
    let footer = bytes.len() - 256;
    bytes[footer + 8] = 2;
    reseal(&mut bytes);
    let package = Package::from_file(memory_file(&bytes), None).unwrap();
    assert_eq!(package.index_source(), IndexSource::Decoded);
    assert!(package.lookup_path(b"bin/tool").unwrap().is_some());
}
