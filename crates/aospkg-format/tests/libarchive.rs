//! The odd archives that libarchive keeps for its own tests, given to the packer.
//!
//! Each of them is refused with a typed error, or becomes a package whose tree is what GNU tar
//! lists. `libarchive.expect` holds what happens to each today; a change in either direction fails.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use aospkg_format::{EntryId, EntryKind, PackError, PackOptions, Package, pack};

#[path = "support/debian.rs"]
mod debian;

/// What is compared of an entry: kind, size, permissions, whole seconds and link target.
type Line = (EntryKind, u64, u32, i64, String);
type Tree = BTreeMap<String, Line>;

/// Decodes a `.uu` file.
fn uudecode(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut lines = text
        .split(|&b| b == b'\n')
        .skip_while(|line| !line.starts_with(b"begin "));
    lines.next();
    for line in lines {
        let Some((&len, digits)) = line.split_first().filter(|_| !line.starts_with(b"end")) else {
            break;
        };
        let len = usize::from(len.wrapping_sub(b' ') & 63);
        let mut bytes = Vec::new();
        for group in digits.chunks(4) {
            let digit = |i: usize| {
                group
                    .get(i)
                    .map_or(0, |b| u32::from(b.wrapping_sub(b' ') & 63))
            };
            let value = digit(0) << 18 | digit(1) << 12 | digit(2) << 6 | digit(3);
            bytes.extend_from_slice(&value.to_be_bytes()[1..]);
        }
        bytes.truncate(len);
        out.extend(bytes);
    }
    out
}

/// What GNU tar lists; `None` when it finds fault with the archive.
fn gnu_list(path: &Path) -> Option<Vec<(String, Line)>> {
    let output = Command::new("tar")
        .args(["--list", "-vv", "--numeric-owner", "--full-time", "--utc"])
        .args(["--quoting-style=escape", "--file"])
        .arg(path)
        .env("LC_ALL", "C.UTF-8")
        .env("TZ", "UTC")
        .output()
        .ok()?;
    if !output.status.success() {
        return None;
    }
    let text = String::from_utf8(output.stdout).ok()?;
    text.lines().map(parse_line).collect()
}

/// One line of a verbose listing. `None` for what no package can hold.
fn parse_line(line: &str) -> Option<(String, Line)> {
    let mut rest = line;
    let mut field = || {
        let trimmed = rest.trim_start();
        let end = trimmed.find(' ')?;
        let (field, after) = trimmed.split_at(end);
        rest = after;
        Some(field)
    };
    let permissions = field()?;
    let _owner = field()?;
    let size: u64 = field()?.parse().ok()?;
    let (date, time) = (field()?, field()?);
    // Times are filled up to the longest one before them. No fixture's name begins with a blank.
    let name = rest.trim_start();
    let kind = match permissions.as_bytes().first()? {
        b'-' => EntryKind::File,
        b'd' => EntryKind::Directory,
        b'l' => EntryKind::Symlink,
        _ => return None,
    };
    let (name, target) = match kind {
        EntryKind::Symlink => name.split_once(" -> ")?,
        _ => (name, ""),
    };
    let path: Vec<&str> = name
        .split('/')
        .filter(|c| !c.is_empty() && *c != ".")
        .collect();
    let line = (
        kind,
        size,
        mode(permissions),
        seconds(date, time)?,
        target.to_owned(),
    );
    Some((path.join("/"), line))
}

fn mode(permissions: &str) -> u32 {
    let bytes = permissions.as_bytes();
    let mut mode = 0;
    for (i, &byte) in bytes.iter().skip(1).take(9).enumerate() {
        let bit = 1 << (8 - i);
        let special = 0o4000 >> (i / 3);
        mode |= match byte {
            b'-' => 0,
            b's' | b't' => bit | special,
            b'S' | b'T' => special,
            _ => bit,
        };
    }
    mode
}

/// Seconds since 1970 of `YYYY-MM-DD` and `HH:MM:SS`, rounded down.
fn seconds(date: &str, time: &str) -> Option<i64> {
    let (year, rest) = date.rsplit_once('-').and_then(|(ym, d)| {
        let (y, m) = ym.rsplit_once('-')?;
        Some((
            y.parse::<i64>().ok()?,
            (m.parse::<i64>().ok()?, d.parse::<i64>().ok()?),
        ))
    })?;
    let (month, day) = rest;
    let mut clock = time
        .split('.')
        .next()?
        .split(':')
        .map(|n| n.parse::<i64>().ok());
    let (h, m, s) = (clock.next()??, clock.next()??, clock.next()??);
    // Days from the civil calendar: years begin in March, so that the leap day is the last.
    let y = if month <= 2 { year - 1 } else { year };
    let era = y.div_euclid(400);
    let of_era = y.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    Some(days * 86_400 + h * 3600 + m * 60 + s)
}

/// A `package.json` as the first member.
fn first_member() -> Vec<u8> {
    let text = br#"{"name":"fixture","version":"1"}"#;
    let mut header = tar::Header::new_gnu();
    header.set_path("package.json").unwrap();
    header.set_mode(0o644);
    header.set_size(text.len() as u64);
    header.set_cksum();
    let mut out = header.as_bytes().to_vec();
    out.extend_from_slice(text);
    out.resize(1024, 0);
    out
}

fn package_tree(package: &Package) -> Tree {
    let mut tree = Tree::new();
    let mut todo = vec![(EntryId::ROOT, String::new())];
    while let Some((dir, at)) = todo.pop() {
        for child in package.children(dir).unwrap() {
            let child = child.unwrap();
            let path = format!("{at}{}", String::from_utf8_lossy(child.name));
            if child.kind == EntryKind::Directory {
                todo.push((child.id, format!("{path}/")));
            }
            let size = if child.kind == EntryKind::File {
                child.size
            } else {
                0
            };
            let target = String::from_utf8_lossy(child.link_target.unwrap_or_default());
            let line = (
                child.kind,
                size,
                child.mode & 0o7777,
                child.mtime,
                target.into_owned(),
            );
            tree.insert(path, line);
        }
    }
    tree.remove("package.json");
    tree
}

/// Directories are made searchable, and links have no permissions.
fn comparable(tree: Tree) -> Tree {
    tree.into_iter()
        .map(|(path, mut line)| {
            if line.0 != EntryKind::File {
                line.2 = 0;
            }
            (path, line)
        })
        .collect()
}

/// Packs one archive and says what happened.
fn outcome(name: &str, bytes: &[u8], scratch: &Path) -> String {
    let original = scratch.join("original");
    fs::write(&original, bytes).unwrap();
    // Compressed archives are opened up, so that a `package.json` can be put in front.
    let plain = match bytes {
        // gzip reads the old `compress` format as well.
        [0x1f, 0x8b | 0x9d, ..] => {
            Command::new("gzip")
                .arg("-dcq")
                .arg(&original)
                .output()
                .unwrap()
                .stdout
        }
        _ => bytes.to_vec(),
    };
    let input = scratch.join("input");
    fs::write(&original, &plain).unwrap();
    fs::write(&input, [first_member(), plain].concat()).unwrap();
    let output = scratch.join("output");
    let _ = fs::remove_file(&output);
    let options = PackOptions {
        owner: None,
        drop_native: true,
        ..PackOptions::default()
    };
    if let Err(e) = pack(&input, &output, &options) {
        assert!(!output.exists());
        if matches!(e, PackError::Io { .. } | PackError::NoPackageJson) {
            panic!("{name}: {e}");
        }
        let debug = format!("{e:?}");
        let kind = debug.split([' ', '(']).next().unwrap_or_default();
        return format!("refused {kind}");
    }
    assert!(aospkg_format::verify(&output).unwrap().is_whole(), "{name}");
    let package = Package::open(&output, None).unwrap();
    let ours = comparable(package_tree(&package));
    let Some(listed) = gnu_list(&original) else {
        return format!(
            "packs {} entries that GNU tar has objections to",
            ours.len()
        );
    };
    let count = listed.len();
    let mut theirs: Tree = listed
        .into_iter()
        .filter(|(path, _)| !path.is_empty())
        .collect();
    // Directories that the archive does not have.
    for path in ours.keys() {
        if !theirs.contains_key(path) && ours[path].0 == EntryKind::Directory && ours[path].3 == 0 {
            theirs.insert(path.clone(), ours[path].clone());
        }
    }
    assert_eq!(ours, comparable(theirs), "{name}: not what GNU tar lists");
    format!("packs {count} entries as GNU tar lists them")
}

#[test]
fn fixtures_are_refused_or_packed_as_listed() {
    let tarball = debian::upstream_tarball("libarchive");
    let scratch = tempfile::tempdir().unwrap();
    let status = Command::new("tar")
        .args(["--extract", "--wildcards", "--file"])
        .arg(&tarball)
        .arg("--directory")
        .arg(scratch.path())
        .args(["--strip-components=3", "*/libarchive/test/*.uu"])
        .status()
        .unwrap();
    assert!(status.success());
    let mut actual = String::new();
    let mut fixtures: Vec<_> = fs::read_dir(scratch.path()).unwrap().flatten().collect();
    fixtures.sort_by_key(|entry| entry.file_name());
    let mut tars = 0;
    for entry in fixtures {
        let name = entry.file_name().into_string().unwrap();
        let Some(stem) = name.strip_suffix(".uu") else {
            continue;
        };
        let bytes = uudecode(&fs::read(entry.path()).unwrap());
        let outcome = outcome(stem, &bytes, scratch.path());
        // Other archives, and tars compressed in ways that the packer does not read, say nothing.
        let tar = [".tar", ".tgz", ".pax"]
            .iter()
            .any(|part| stem.contains(part));
        let other = [
            "lz4", "lzo", "lrz", "grz", "zst", "xz", "bz2", "rar", "iso", "zip", "cpio", "7z",
        ];
        let other = other.iter().any(|part| stem.ends_with(part));
        if tar && !other {
            tars += 1;
            actual += &format!("{stem}: {outcome}\n");
        }
    }
    assert!(tars > 40, "{tars} archives");
    let expected = include_str!("libarchive.expect");
    if std::env::var_os("AOS_UPDATE_EXPECT").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/libarchive.expect");
        fs::write(path, actual).unwrap();
        return;
    }
    let expected: Vec<&str> = expected
        .lines()
        .filter(|line| !line.starts_with('#'))
        .collect();
    assert_eq!(actual.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn uudecode_and_calendar() {
    assert_eq!(uudecode(b"begin 644 x\n#0V%T\n`\nend\n"), b"Cat");
    assert_eq!(seconds("1970-01-01", "00:00:00"), Some(0));
    assert_eq!(seconds("2000-03-01", "12:00:01"), Some(951_912_001));
    assert_eq!(seconds("1969-12-31", "23:59:59"), Some(-1));
    assert_eq!(mode("-rwsr-xr-T"), 0o5754);
}
