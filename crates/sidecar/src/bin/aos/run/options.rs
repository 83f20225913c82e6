//! The options of `aos run`, most of which `aos shell` has too.

use clap::builder::{OsStringValueParser, TypedValueParser};
use kernel::Limits;
use kernel::limits::{self, LimitError};
use pkg_projection::Options;
use sidecar::software::Source;
use sidecar::vm::HostMount;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::Duration;
use vfs_core::types::Cred;

/// Run a command in a fresh virtual machine
///
/// Standard input, output and error are the caller's. When the command has ended the machine and
/// everything still running in it is gone.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  aos run -- sh -c 'seq 1 1000000 | sort -rn | head -3'
  aos run --mount .:/workspace --cwd /workspace -- find . -name '*.rs'
  aos run --package tool.aospkg --env LEVEL=3 --timeout 10s -- tool --version
  aos run --limit processes=32 --mount /data:/data:ro -- sh script.sh

Without --package the machine has the common commands (coreutils, sed, grep, gawk, findutils,
diffutils, tar, gzip), fetched from npm at the first use.

Exit status: that of the command, 128 plus the number of the signal that ended it, 127 if it was
not found, 126 if it could not be run, 124 if its time was up, 125 if there was no machine, and 2
for a wrong command line. SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 are handed on to
the command's process group; a second SIGINT ends the machine.

With --tty the command gets a terminal of the machine's own, as in aos shell: see aos shell --help
for what then happens with keys, signals and the size. Status 1 if standard input is no terminal.")]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) machine: Machine,
    /// Give the command a terminal, shown on the caller's, instead of the caller's streams
    #[arg(long)]
    pub(crate) tty: bool,
    /// Let that terminal itself answer where its cursor is, if no emulator looks at the output
    #[arg(long, requires = "tty")]
    pub(crate) answer_cursor: bool,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

// What a machine is to be and how long it may last. (A doc comment would become the command's.)
#[derive(clap::Args)]
pub(crate) struct Machine {
    /// Mount a package: a file, a directory in the unpacked form, or npm:NAME@VERSION
    #[arg(long = "package", value_name = "PACKAGE", value_parser = OsStringValueParser::new().try_map(|text| Source::parse(&text)))]
    pub(crate) packages: Vec<Source>,
    /// Show a directory of the host; OPTIONS are ro and quota=SIZE
    #[arg(long = "mount", value_name = "HOST:GUEST[:OPTIONS]", value_parser = OsStringValueParser::new().try_map(mount))]
    pub(crate) mounts: Vec<HostMount>,
    /// Set a variable; nothing else of the caller's environment is seen
    #[arg(long = "env", value_name = "KEY=VALUE", value_parser = OsStringValueParser::new().try_map(variable))]
    pub(crate) env: Vec<Vec<u8>>,
    /// Start in this directory [default: the user's home]
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<OsString>,
    /// Run as this user and group [default: 1000:1000]
    #[arg(long, value_name = "UID[:GID]", value_parser = user)]
    pub(crate) user: Option<(u32, u32)>,
    /// Set a limit, such as processes=64 or fs.bytes=1G; docs/limits.md lists them
    #[arg(long = "limit", value_name = "NAME=VALUE")]
    pub(crate) limits: Vec<String>,
    /// Kill everything after this time: 10s, 500ms, 2m; a bare number counts seconds
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) timeout: Option<Duration>,
    /// Report how it went as one line of JSON, into FILE or else as the last line of stderr
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    pub(crate) json: Option<PathBuf>,
}

impl Machine {
    /// The limits of the VM and of its packages.
    pub(crate) fn limits(&self) -> Result<(Limits, Options), String> {
        let mut vm = Limits::default();
        for text in &self.limits {
            vm.set_text(text).map_err(|error| match &error {
                LimitError::Unknown { name } => match nearest(name) {
                    Some(near) => format!("{error}; did you mean {near}?"),
                    None => error.to_string(),
                },
                _ => error.to_string(),
            })?;
        }
        let mut packages = Options::default();
        for (name, limit) in [
            ("packages.count", &mut packages.max_packages),
            ("packages.links", &mut packages.max_links),
        ] {
            *limit = vm.get(name).unwrap_or(*limit);
        }
        Ok((vm, packages))
    }

    /// The credentials to run with, if they are not the default ones.
    pub(crate) fn cred(&self) -> Option<Cred> {
        self.user.map(|(uid, gid)| Cred::user(uid, gid))
    }
}

/// The name of a limit that differs least from `name`, if it differs little.
fn nearest(name: &str) -> Option<&'static str> {
    limits::table()
        .map(|info| (distance(name.as_bytes(), info.name.as_bytes()), info.name))
        .min()
        .filter(|&(distance, near)| distance <= near.len() / 3)
        .map(|(_, near)| near)
}

/// Insertions, deletions and replacements that make `b` of `a` (Levenshtein's distance).
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

/// Reads `HOST:GUEST[:OPTIONS]`. The host's part may hold colons: the guest's begins at the last
/// colon that a slash follows.
fn mount(text: OsString) -> Result<HostMount, String> {
    let bytes = text.as_bytes();
    let at = bytes
        .windows(2)
        .rposition(|pair| pair == b":/")
        .filter(|&at| at > 0)
        .ok_or("the form is HOST:GUEST[:OPTIONS], and GUEST is an absolute path")?;
    let (host, rest) = (&bytes[..at], &bytes[at + 1..]);
    let (guest, options) = match rest.iter().position(|&b| b == b':') {
        Some(colon) => (&rest[..colon], &rest[colon + 1..]),
        None => (rest, &b""[..]),
    };
    let mut mount = HostMount {
        host: PathBuf::from(OsString::from_vec(host.to_vec())),
        guest: guest.to_vec(),
        read_only: false,
        quota_bytes: None,
    };
    for option in options.split(|&b| b == b',').filter(|o| !o.is_empty()) {
        match std::str::from_utf8(option) {
            Ok("ro") => mount.read_only = true,
            Ok("rw") => mount.read_only = false,
            Ok(text) if text.starts_with("quota=") => {
                mount.quota_bytes =
                    Some(size(&text[6..]).ok_or("quota=SIZE is a number, or one with K, M or G")?);
            }
            _ => {
                let option = String::from_utf8_lossy(option);
                return Err(format!(
                    "{option:?} is no option of a mount; there are ro, rw and quota=SIZE"
                ));
            }
        }
    }
    Ok(mount)
}

fn size(text: &str) -> Option<u64> {
    let (digits, shift) = match text.as_bytes().last()?.to_ascii_uppercase() {
        b'K' => (&text[..text.len() - 1], 10),
        b'M' => (&text[..text.len() - 1], 20),
        b'G' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

fn variable(text: OsString) -> Result<Vec<u8>, &'static str> {
    let bytes = text.into_vec();
    match bytes.iter().position(|&b| b == b'=') {
        Some(at) if at > 0 => Ok(bytes),
        _ => Err("the form is KEY=VALUE"),
    }
}

fn user(text: &str) -> Result<(u32, u32), &'static str> {
    const FORM: &str = "the form is UID:GID, two numbers";
    let (uid, gid) = text.split_once(':').unwrap_or((text, text));
    // The largest number stands for "no change" in chown(2) and belongs to nobody.
    let id = |text: &str| {
        text.parse()
            .ok()
            .filter(|&id: &u32| id != u32::MAX)
            .ok_or(FORM)
    };
    Ok((id(uid)?, id(gid)?))
}

fn duration(text: &str) -> Result<Duration, &'static str> {
    const FORM: &str = "the form is a number with ms, s, m or h";
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(FORM),
    };
    let value: f64 = digits.parse().map_err(|_| FORM)?;
    Duration::try_from_secs_f64(value * unit).map_err(|_| FORM)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_read_from_the_right() {
        let parse = |text: &str| mount(text.into());
        let plain = parse(".:/w").unwrap();
        assert_eq!((plain.host, plain.guest), (".".into(), b"/w".to_vec()));
        let odd = parse("/a:b/c:/w x:ro,quota=10M").unwrap();
        assert_eq!((odd.host, odd.guest), ("/a:b/c".into(), b"/w x".to_vec()));
        assert!(odd.read_only);
        assert_eq!(odd.quota_bytes, Some(10 << 20));
        for bad in [
            "",
            "/a",
            ":/w",
            "/a:w",
            "/a:/w:rx",
            "/a:/w:quota=",
            "/a:/w:quota=x",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn times_users_and_variables() {
        assert_eq!(duration("1.5"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        for bad in ["", "s", "-1", "1d", "1 s", "inf", "nan"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
        assert_eq!(user("5:6"), Ok((5, 6)));
        assert_eq!(user("5"), Ok((5, 5)));
        for bad in ["", "root", "5:", "-1:0", "4294967295:0", "1:2:3"] {
            assert!(user(bad).is_err(), "{bad}");
        }
        assert!(variable("A=".into()).is_ok());
        assert!(variable("=A".into()).is_err() && variable("A".into()).is_err());
    }

    #[test]
    fn a_misspelt_limit_is_guessed() {
        assert_eq!(nearest("proceses"), Some("processes"));
        assert_eq!(nearest("zzz"), None);
    }
}
