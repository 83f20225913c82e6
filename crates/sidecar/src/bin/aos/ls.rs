//! `aos ls`: the files of a package, as they will be seen mounted.

use crate::{open, output};
use anyhow::Result;
use aospkg_format::{Entry, EntryId, EntryKind, Package};
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::ExitCode;

/// List files of a package
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  aos ls coreutils.aospkg /bin\n  aos ls -lR pi.aospkg")]
pub(crate) struct Arguments {
    /// Package file, or npm:NAME@VERSION
    package: PathBuf,
    /// Path inside the package
    #[arg(default_value = "/")]
    path: OsString,
    /// With mode, owner, size and modification time
    #[arg(short)]
    long: bool,
    /// With everything below, as paths from the package root
    #[arg(short = 'R', long)]
    recursive: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let package = open::package(&arguments.package)?;
    let id = open::find(&package, arguments.path.as_bytes(), !arguments.long)?;
    let mut out = output::stdout();
    let entry = package.entry(id)?;
    if entry.kind == EntryKind::Directory {
        list(&package, id, arguments, &mut out)?;
    } else {
        line(&entry, arguments.path.as_bytes(), arguments.long, &mut out)?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn list(package: &Package, top: EntryId, arguments: &Arguments, out: &mut dyn Write) -> Result<()> {
    // A stack of directories rather than recursion: depth is the package's to choose.
    let mut stack = vec![(
        package.children(top)?,
        if arguments.recursive {
            let mut path = package.path_of(top)?;
            if !path.is_empty() {
                path.push(b'/');
            }
            path
        } else {
            Vec::new()
        },
    )];
    while let Some((children, prefix)) = stack.last_mut() {
        let Some(entry) = children.next() else {
            stack.pop();
            continue;
        };
        let entry = entry?;
        let mut path = prefix.clone();
        path.extend_from_slice(entry.name);
        line(&entry, &path, arguments.long, out)?;
        if arguments.recursive && entry.kind == EntryKind::Directory {
            path.push(b'/');
            stack.push((package.children(entry.id)?, path));
        }
    }
    Ok(())
}

fn line(entry: &Entry<'_>, path: &[u8], long: bool, out: &mut dyn Write) -> Result<()> {
    if long {
        write!(
            out,
            "{} {:>5} {:>5} {:>10} {} ",
            mode(entry),
            entry.uid,
            entry.gid,
            entry.size,
            time(entry.mtime)
        )?;
    }
    write!(out, "{}", output::escaped(path))?;
    if let (true, Some(target)) = (long, entry.link_target) {
        write!(out, " -> {}", output::escaped(target))?;
    }
    writeln!(out)?;
    Ok(())
}

/// The mode as `ls -l` shows it.
fn mode(entry: &Entry<'_>) -> String {
    let mut text = String::with_capacity(10);
    text.push(match entry.kind {
        EntryKind::File => '-',
        EntryKind::Directory => 'd',
        EntryKind::Symlink => 'l',
    });
    for (shift, special, letter) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = entry.mode >> shift;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (bits & 1 != 0, entry.mode & special != 0) {
            (true, true) => letter,
            (false, true) => letter.to_ascii_uppercase(),
            (true, false) => 'x',
            (false, false) => '-',
        });
    }
    text
}

/// A time in UTC, to the second.
fn time(seconds: i64) -> String {
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Days since 0000-03-01 in eras of 400 years, so that the leap day ends a year.
    let days = days.saturating_add(719_468);
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    let year = era * 400 + year + carry;
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}",
        second / 3_600,
        second / 60 % 60,
        second % 60
    )
}

#[cfg(test)]
mod tests {
    use super::time;

    #[test]
    fn times_are_those_of_date() {
        assert_eq!(time(0), "1970-01-01 00:00:00");
        assert_eq!(time(951_782_400), "2000-02-29 00:00:00");
        assert_eq!(time(1_767_225_599), "2025-12-31 23:59:59");
        assert_eq!(time(-1), "1969-12-31 23:59:59");
        assert_eq!(time(4_107_542_400), "2100-03-01 00:00:00");
    }
}
