//! What opening, lookups and listings cost: ten entries beside a million, decoding beside a cached
//! index.
//!
//!     cargo run --release -p aospkg-format --example open_cost [PACKAGE]
//!
//! PACKAGE is a published package for the comparison of decoding with the cached index.

#![allow(clippy::print_stdout, reason = "an example's output is its point")]

use std::error::Error;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use aospkg_format::{EntryId, Package, PackageBuilder, WriteOptions};

/// Median of `rounds` runs.
fn median(rounds: usize, mut run: impl FnMut()) -> Duration {
    let mut times: Vec<Duration> = (0..rounds)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed()
        })
        .collect();
    times.sort();
    times[rounds / 2]
}

fn synthetic(dir: &Path, directories: u32, files: u32) -> Result<PathBuf, Box<dyn Error>> {
    let path = dir.join(format!("{directories}x{files}.aospkg"));
    let mut builder = PackageBuilder::new("synthetic", "1.0.0").options(WriteOptions::default());
    for directory in 0..directories {
        for file in 0..files {
            let name = format!("lib/package-{directory:04}/module-{file:04}.js");
            builder = builder.file(name, 0o644, "x");
        }
    }
    builder.write(&path)?;
    Ok(path)
}

fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    for (directories, files) in [(2, 3), (1000, 1000)] {
        let path = synthetic(dir.path(), directories, files)?;
        let open = median(2001, || {
            black_box(Package::open(&path, None).map(|p| p.entry_count())).ok();
        });
        let package = Package::open(&path, None)?;
        println!("open, {} entries: {open:?}", package.entry_count());
        let mut i = 0u32;
        let paths: Vec<String> = (0..100_000u32)
            .map(|n| {
                let n = n.wrapping_mul(2_654_435_761);
                format!(
                    "lib/package-{:04}/module-{:04}.js",
                    n / 1000 % directories,
                    n % files
                )
            })
            .collect();
        let lookup = median(5, || {
            for path in &paths {
                i ^= package
                    .lookup_path(path.as_bytes())
                    .ok()
                    .flatten()
                    .map_or(0, |id| id.0);
            }
        });
        println!("  lookup_path: {:?}", lookup / paths.len() as u32);
        let walk = median(5, || {
            for path in &paths {
                let mut at = EntryId::ROOT;
                for name in path.split('/') {
                    at = package
                        .lookup(at, name.as_bytes())
                        .ok()
                        .flatten()
                        .unwrap_or(EntryId::ROOT);
                }
                i ^= at.0;
            }
        });
        println!("  three lookups: {:?}", walk / paths.len() as u32);
        let list = package
            .lookup_path(b"lib/package-0001")?
            .ok_or("a directory")?;
        let readdir = median(101, || {
            for child in package.children(list).into_iter().flatten() {
                i ^= child.map_or(0, |entry| entry.name.len() as u32);
            }
        });
        println!("  readdir of {files}: {readdir:?}");
        black_box(i);
    }
    if let Some(path) = std::env::args_os().nth(1) {
        let cache = dir.path().join("index");
        Package::open(&path, Some(&cache))?;
        let decode = median(21, || {
            black_box(Package::open(&path, None)).ok();
        });
        let cached = median(2001, || {
            black_box(Package::open(&path, Some(&cache))).ok();
        });
        let ratio = decode.as_secs_f64() / cached.as_secs_f64();
        println!("decode: {decode:?}, cached index: {cached:?}, {ratio:.0} times");
    }
    Ok(())
}
