//! The limits of a VM: every table and buffer has one, each with a name, a default and a typed
//! error that names it.
//!
//! The names here are those of `--limit NAME=VALUE`, of the events
//! [`LimitWarning`](crate::Event::LimitWarning) (at 80 %) and
//! [`LimitReached`](crate::Event::LimitReached), and of `docs/limits.md`, which is
//! [`markdown`]'s output. What the process table counts is defined there
//! ([`proctable::limits::LIMITS`]); the rest, and the way to set any of them, is here.

use proctable::limits::{LIMITS as PROC_LIMITS, ProcLimits, Scope, Unit as ProcUnit};
use std::fmt::Write as _;
use vfs_core::errno::Errno;

/// What a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things.
    Count,
    /// Bytes.
    Bytes,
    /// Seconds.
    Seconds,
}

/// One row of the table of limits.
#[derive(Clone, Copy, Debug)]
pub struct LimitInfo {
    /// Name.
    pub name: &'static str,
    /// Default; `u64::MAX` is "none".
    pub default: u64,
    /// Smallest value that may be set.
    pub min: u64,
    /// Largest value that may be set.
    pub max: u64,
    /// Unit.
    pub unit: Unit,
    /// Over what it is counted: `"VM"`, `"process"`, `"object"`.
    pub scope: &'static str,
    /// What the guest sees at the limit.
    pub result: Outcome,
    /// What it protects from.
    pub stops: &'static str,
}

/// What happens at a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The call fails with this error.
    Error(Errno),
    /// Something else, in words.
    Text(&'static str),
}

impl LimitInfo {
    /// Whether it may be set; the rest are fixed as Linux fixes them.
    pub fn settable(&self) -> bool {
        self.min < self.max
    }
}

/// A limit that could not be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// There is no limit of that name.
    #[error("no limit is called {name:?}; see docs/limits.md")]
    Unknown {
        /// The name asked for.
        name: String,
    },
    /// The limit is fixed.
    #[error("limit {name} is fixed at {value}, as on Linux")]
    Fixed {
        /// The limit.
        name: &'static str,
        /// Its value.
        value: u64,
    },
    /// The value is not possible.
    #[error("limit {name}: {value} is not between {min} and {max}")]
    Range {
        /// The limit.
        name: &'static str,
        /// The value asked for.
        value: u64,
        /// Smallest possible.
        min: u64,
        /// Largest possible.
        max: u64,
    },
    /// The text is no `NAME=VALUE` with a whole number, `unlimited`, or a number with one of the
    /// suffixes `K`, `M`, `G`.
    #[error("{text:?} is not NAME=VALUE (a number, a number with K, M or G, or \"unlimited\")")]
    Syntax {
        /// The text.
        text: String,
    },
}

macro_rules! limits {
    ($( $field:ident $name:literal $default:expr, $min:expr, $max:expr, $unit:ident, $scope:literal, $result:expr, $stops:literal; )*) => {
        /// The limits of one VM.
        ///
        /// ```
        /// use kernel::Limits;
        /// let mut limits = Limits::default();
        /// limits.set_text("processes=64").unwrap();
        /// assert_eq!(limits.get("processes"), Some(64));
        /// assert!(limits.set_text("path.symlinks=50").unwrap_err().to_string().contains("fixed"));
        /// ```
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Limits {
            /// What the process table counts.
            pub processes: ProcLimits,
            $( #[doc = concat!("`", $name, "`: ", $stops, ".")] pub $field: u64, )*
        }

        impl Default for Limits {
            fn default() -> Limits {
                Limits { processes: ProcLimits::default(), $( $field: $default, )* }
            }
        }

        impl Limits {
            /// The limit called `name`.
            pub fn get(&self, name: &str) -> Option<u64> {
                match name {
                    $( $name => Some(self.$field), )*
                    _ => self.processes.get(name).or_else(|| {
                        FIXED.iter().find(|info| info.name == name).map(|info| info.default)
                    }),
                }
            }

            fn assign(&mut self, name: &str, value: u64) -> bool {
                match name {
                    $( $name => self.$field = value, )*
                    _ => return self.processes.set(name, value),
                }
                true
            }
        }

        /// The settable limits of this crate.
        static OWN: &[LimitInfo] = &[
            $( LimitInfo {
                name: $name, default: $default, min: $min, max: $max, unit: Unit::$unit,
                scope: $scope, result: $result, stops: $stops,
            }, )*
        ];
    };
}

use Outcome::{Error, Text};

limits! {
    cpu_seconds "process.cpu_seconds" u64::MAX, 1, u64::MAX, Seconds, "process",
        Text("`SIGXCPU`, five seconds later `SIGKILL`"),
        "programs that compute for ever; RLIMIT_CPU";
    memory_bytes "process.memory_bytes" 2 << 30, 1 << 16, u64::MAX, Bytes, "process",
        Text("the guest's allocation fails"),
        "one program taking the host's memory; RLIMIT_AS, guest memory only";
    file_bytes "process.file_bytes" u64::MAX, 0, u64::MAX, Bytes, "process",
        Text("`SIGXFSZ`, or `EFBIG` if that is caught"),
        "one file growing without end; RLIMIT_FSIZE";
    vm_memory_bytes "vm.memory_bytes" 8 << 30, 1 << 16, u64::MAX, Bytes, "VM",
        Text("the guest's allocation fails"),
        "many programs together taking the host's memory";
    arg_bytes "exec.arg_bytes" 2 << 20, 4096, 1 << 30, Bytes, "process", Error(Errno::E2BIG),
        "huge argument lists and environments; counted with eight bytes per pointer as Linux does";
    program_bytes "exec.program_bytes" 256 << 20, 4096, 4 << 30, Bytes, "object", Error(Errno::ENOMEM),
        "huge program files that have to be read into memory to be run";
    fs_bytes "fs.bytes" 4 << 30, 1 << 16, u64::MAX, Bytes, "VM", Error(Errno::ENOSPC),
        "the writable layer of the root taking the host's memory";
    fs_inodes "fs.inodes" 1 << 20, 64, u64::MAX, Count, "VM", Error(Errno::ENOSPC),
        "floods of small files";
    file_locks "fs.locks" 4096, 1, 1 << 24, Count, "VM", Error(Errno::ENOLCK),
        "tables of file locks growing without end";
    dev_bytes "dev.bytes" 64 << 20, 1 << 16, u64::MAX, Bytes, "VM", Error(Errno::ENOSPC),
        "files in /dev and /dev/shm taking the host's memory";
    dev_inodes "dev.inodes" 65_536, 64, u64::MAX, Count, "VM", Error(Errno::ENOSPC),
        "floods of small files in /dev and /dev/shm";
    packages "packages.count" 128, 0, 65_535, Count, "VM",
        Text("the VM is not made; a typed error names the limit"),
        "long lists of packages; taken by whoever projects them";
    package_links "packages.links" 4096, 0, 1 << 24, Count, "VM",
        Text("the VM is not made; a typed error names the limit"),
        "packages with floods of commands; taken by whoever projects them";
    output_bytes "output.bytes" 16 << 20, 0, 1 << 40, Bytes, "object",
        Text("the rest is read, dropped and counted"),
        "captured output filling the host's memory; stdout and stderr each";
}

/// Limits that are as Linux has them and can't be set.
static FIXED: &[LimitInfo] = &[
    fixed(
        "path.bytes",
        4096,
        Unit::Bytes,
        Errno::ENAMETOOLONG,
        "long paths, the NUL counted (PATH_MAX)",
    ),
    fixed(
        "path.name_bytes",
        255,
        Unit::Bytes,
        Errno::ENAMETOOLONG,
        "long names (NAME_MAX)",
    ),
    fixed(
        "path.symlinks",
        40,
        Unit::Count,
        Errno::ELOOP,
        "loops of symbolic links (MAXSYMLINKS)",
    ),
    fixed(
        "exec.header_bytes",
        256,
        Unit::Bytes,
        Errno::ENOEXEC,
        "interpreter paths that do not end in the header (BINPRM_BUF_SIZE)",
    ),
    fixed(
        "exec.script_depth",
        5,
        Unit::Count,
        Errno::ELOOP,
        "scripts that are each other's interpreters",
    ),
    fixed(
        "exec.string_bytes",
        131_072,
        Unit::Bytes,
        Errno::E2BIG,
        "one long argument or variable, the NUL counted (MAX_ARG_STRLEN)",
    ),
    fixed(
        "process.groups",
        64,
        Unit::Count,
        Errno::EINVAL,
        "long lists of supplementary groups",
    ),
];

const fn fixed(
    name: &'static str,
    value: u64,
    unit: Unit,
    error: Errno,
    stops: &'static str,
) -> LimitInfo {
    LimitInfo {
        name,
        default: value,
        min: value,
        max: value,
        unit,
        scope: "process",
        result: Outcome::Error(error),
        stops,
    }
}

/// Every limit, the settable ones first.
pub fn table() -> impl Iterator<Item = LimitInfo> {
    let process_table = PROC_LIMITS.iter().map(|spec| LimitInfo {
        name: spec.name,
        default: spec.default,
        min: 1,
        max: u64::MAX,
        unit: match spec.unit {
            ProcUnit::Count => Unit::Count,
            ProcUnit::Bytes => Unit::Bytes,
        },
        scope: match spec.scope {
            Scope::Vm => "VM",
            Scope::Process => "process",
            Scope::Object => "object",
        },
        result: Outcome::Error(spec.error),
        stops: spec.stops,
    });
    process_table
        .chain(OWN.iter().copied())
        .chain(FIXED.iter().copied())
}

impl Limits {
    /// Sets the limit called `name`.
    pub fn set(&mut self, name: &str, value: u64) -> Result<(), LimitError> {
        let Some(info) = table().find(|info| info.name == name) else {
            return Err(LimitError::Unknown { name: name.into() });
        };
        let LimitInfo { name, min, max, .. } = info;
        if !info.settable() {
            return Err(LimitError::Fixed {
                name,
                value: info.default,
            });
        }
        if !(min..=max).contains(&value) || !self.assign(name, value) {
            return Err(LimitError::Range {
                name,
                value,
                min,
                max,
            });
        }
        Ok(())
    }

    /// Sets a limit from `NAME=VALUE`. The value is a whole number, or one with a suffix `K`, `M`
    /// or `G` (powers of 1,024), or `unlimited`.
    pub fn set_text(&mut self, text: &str) -> Result<(), LimitError> {
        let syntax = || LimitError::Syntax { text: text.into() };
        let (name, value) = text.split_once('=').ok_or_else(syntax)?;
        let value = parse(value).ok_or_else(syntax)?;
        self.set(name, value)
    }
}

fn parse(text: &str) -> Option<u64> {
    if text == "unlimited" {
        return Some(u64::MAX);
    }
    let shift = match text.chars().last()? {
        'K' | 'k' => 10,
        'M' | 'm' => 20,
        'G' | 'g' => 30,
        _ => 0,
    };
    let digits = if shift == 0 {
        text
    } else {
        &text[..text.len() - 1]
    };
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// The text of `docs/limits.md`.
pub fn markdown() -> String {
    let mut text = String::from(
        "# Limits\n\n\
         <!-- Written by `kernel::limits::markdown`; a test of the kernel crate compares it. To\n     \
         renew it: UPDATE_DOCS=1 cargo test -p kernel --test limits_doc -->\n\n\
         Every table and buffer of a VM has a limit with a name. `aos run --limit NAME=VALUE` and\n\
         `Limits::set` set one. At 80 % of a limit the VM sends a `LimitWarning` event that names it,\n\
         and when something is refused for it a `LimitReached` event; the guest gets the error\n\
         below.\n\n\
         | name | default | over | at the limit | stops |
|---|---:|---|---|---|
",
    );
    let row = |text: &mut String, info: &LimitInfo| {
        let result = match info.result {
            Outcome::Error(errno) => format!("`{}`", errno.name()),
            Outcome::Text(words) => words.to_owned(),
        };
        let (name, scope, stops) = (info.name, info.scope, info.stops);
        let _ = writeln!(
            text,
            "| `{name}` | {} | {scope} | {result} | {stops} |",
            show(info)
        );
    };
    for info in table().filter(LimitInfo::settable) {
        row(&mut text, &info);
    }
    text.push_str(
        "
Fixed, as on Linux:

| name | value | over | at the limit | stops |
|---|---:|---|---|---|
",
    );
    for info in table().filter(|info| !info.settable()) {
        row(&mut text, &info);
    }
    text
}

fn show(info: &LimitInfo) -> String {
    let value = info.default;
    if value == u64::MAX {
        return "none".into();
    }
    let (scaled, suffix) = match info.unit {
        Unit::Bytes if value >= 1 << 30 && value.is_multiple_of(1 << 30) => (value >> 30, " GiB"),
        Unit::Bytes if value >= 1 << 20 && value.is_multiple_of(1 << 20) => (value >> 20, " MiB"),
        Unit::Bytes if value >= 1 << 10 && value.is_multiple_of(1 << 10) => (value >> 10, " KiB"),
        Unit::Bytes => (value, " B"),
        Unit::Seconds => (value, " s"),
        Unit::Count => (value, ""),
    };
    let digits = scaled.to_string();
    let mut grouped = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + suffix
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_sets_what_it_names() {
        let mut limits = Limits::default();
        limits.set_text("fs.bytes=3M").unwrap();
        assert_eq!(limits.get("fs.bytes"), Some(3 << 20));
        limits.set_text("process.cpu_seconds=unlimited").unwrap();
        for bad in [
            "",
            "fs.bytes",
            "fs.bytes=",
            "fs.bytes=K",
            "fs.bytes=-1",
            "fs.bytes=1x",
            "fs.bytes=99999999999999999999",
        ] {
            assert!(
                matches!(limits.set_text(bad), Err(LimitError::Syntax { .. })),
                "{bad}"
            );
        }
        assert!(matches!(
            limits.set_text("no.such=1"),
            Err(LimitError::Unknown { .. })
        ));
        assert!(matches!(
            limits.set_text("processes=0"),
            Err(LimitError::Range { .. })
        ));
        assert!(matches!(
            limits.set_text("path.symlinks=1"),
            Err(LimitError::Fixed { .. })
        ));
    }

    #[test]
    fn every_default_is_within_its_bounds_and_names_are_unique() {
        let mut names: Vec<_> = table().map(|i| i.name).collect();
        for info in table() {
            assert!(
                (info.min..=info.max).contains(&info.default),
                "{}",
                info.name
            );
            assert_eq!(Limits::default().get(info.name), Some(info.default));
        }
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
