//! What every subcommand does with its result.

use anyhow::Result;
use std::io::{self, BufWriter, StdoutLock, Write};
use std::process::ExitCode;

/// Status of a program that wrote to a pipe nobody reads: 128 and SIGPIPE's number.
const BROKEN_PIPE: u8 = 141;

/// Buffered standard output.
pub(crate) fn stdout() -> BufWriter<StdoutLock<'static>> {
    BufWriter::with_capacity(64 << 10, io::stdout().lock())
}

/// Reports an error as one sentence.
pub(crate) fn finish(result: Result<ExitCode>) -> ExitCode {
    match result {
        Ok(code) => code,
        Err(error) if broken_pipe(&error) => ExitCode::from(BROKEN_PIPE),
        Err(error) => {
            complain(&error);
            ExitCode::FAILURE
        }
    }
}

/// Prints an error with what caused it.
pub(crate) fn complain(error: &anyhow::Error) {
    say(&sentence(error));
}

/// An error with what caused it, as one sentence.
pub(crate) fn sentence(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1) {
        let cause = cause.to_string();
        // Some errors repeat their cause in their own words.
        if !text.ends_with(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

/// Prints a line to stderr after the program's name.
pub(crate) fn say(text: &str) {
    // There is nobody left to tell when stderr is gone.
    let _ = writeln!(io::stderr(), "aos: {text}");
}

fn broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<io::Error>()
            .is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
    })
}

/// A name as text on one line: control characters, backslashes and bytes that are not UTF-8 are
/// escaped as C does it, so that no name can forge another line or drive a terminal.
pub(crate) fn escaped(name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => text.push_str("\\\\"),
                '\n' => text.push_str("\\n"),
                '\t' => text.push_str("\\t"),
                '\r' => text.push_str("\\r"),
                // C1 controls and the marks that turn the direction of text are no less able to
                // deceive than C0.
                c if c.is_control()
                    || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') =>
                {
                    let mut bytes = [0; 4];
                    for byte in c.encode_utf8(&mut bytes).bytes() {
                        text.push_str(&format!("\\{byte:03o}"));
                    }
                }
                c => text.push(c),
            }
        }
        for byte in chunk.invalid() {
            text.push_str(&format!("\\{byte:03o}"));
        }
    }
    text
}

/// A number of bytes for people.
pub(crate) fn bytes(n: u64) -> String {
    let mut value = n as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1024.0 || unit == "GiB" {
            return if unit == "B" {
                format!("{n} B")
            } else {
                format!("{value:.1} {unit}")
            };
        }
        value /= 1024.0;
    }
    unreachable!("the last unit ends the loop")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_on_one_line() {
        assert_eq!(escaped(b"plain-\xc3\xbc"), "plain-\u{fc}");
        assert_eq!(escaped(b"a\nb\\c\x1b[31m\xff"), "a\\nb\\\\c\\033[31m\\377");
        assert_eq!(escaped("\u{202e}gpj".as_bytes()), "\\342\\200\\256gpj");
    }

    #[test]
    fn sizes_read_well() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(5 << 40), "5120.0 GiB");
    }
}
