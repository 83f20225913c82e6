//! Which names may become directory entries and which may become commands.

use crate::limits::{MAX_LINK_TARGET, MAX_NAME};

/// Why a name is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// The name has no bytes.
    #[error("the name is empty")]
    Empty,
    /// The name is `.` or `..`.
    #[error("`.` and `..` are not names")]
    Dots,
    /// The name holds a slash.
    #[error("the name contains `/`")]
    Slash,
    /// The name holds a NUL byte.
    #[error("the name contains a NUL byte")]
    Nul,
    /// The name holds a control character (below U+0020, U+007F, or U+0080 to U+009F).
    #[error("the name contains a control character")]
    Control,
    /// The name is longer than 255 bytes.
    #[error("the name is longer than {MAX_NAME} bytes")]
    TooLong,
}

/// A name that a directory on Linux can hold: not empty, not `.` or `..`, no slash, no NUL, at
/// most 255 bytes.
pub fn check_component(name: &[u8]) -> Result<(), NameError> {
    match name {
        [] => return Err(NameError::Empty),
        b"." | b".." => return Err(NameError::Dots),
        _ if name.len() > MAX_NAME => return Err(NameError::TooLong),
        _ => {}
    }
    // Names are checked whenever they are read from an untrusted index, so this looks at eight
    // bytes at a time and at single ones only when it has found something.
    let (words, rest) = name.as_chunks::<8>();
    let suspicious = words.iter().any(|word| {
        let word = u64::from_ne_bytes(*word);
        has_zero_byte(word) || has_zero_byte(word ^ u64::from_ne_bytes([b'/'; 8]))
    });
    if !suspicious && !rest.iter().any(|&byte| byte == b'/' || byte == 0) {
        return Ok(());
    }
    match name.iter().find(|&&byte| byte == b'/' || byte == 0) {
        Some(b'/') => Err(NameError::Slash),
        Some(_) => Err(NameError::Nul),
        None => Ok(()),
    }
}

/// Whether one of the eight bytes is zero.
const fn has_zero_byte(word: u64) -> bool {
    const LOW: u64 = u64::from_ne_bytes([0x01; 8]);
    const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);
    word.wrapping_sub(LOW) & !word & HIGH != 0
}

/// The rule for command names, which become links in a directory on `$PATH`.
///
/// A command name is a directory entry name (see [`check_component`]) without control characters,
/// those of C1 included when the name is UTF-8. Everything else is allowed, as it is on Linux: a
/// leading dash (`-rf`), a leading dot, spaces and any letter (`ünï`).
pub fn check_command(name: &[u8]) -> Result<(), NameError> {
    check_component(name)?;
    let ascii = name.iter().any(|&b| b < 0x20 || b == 0x7f);
    let c1 = std::str::from_utf8(name).is_ok_and(|text| text.chars().any(char::is_control));
    if ascii || c1 {
        return Err(NameError::Control);
    }
    Ok(())
}

/// Whether a symbolic link's target can be one: not empty, no NUL, at most 4095 bytes.
pub(crate) fn valid_link_target(target: &[u8]) -> bool {
    !target.is_empty() && target.len() <= MAX_LINK_TARGET && !target.contains(&0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_looked_at() {
        for len in 1..40 {
            let good = vec![b'x'; len];
            assert_eq!(check_component(&good), Ok(()));
            for at in 0..len {
                for (byte, expected) in [
                    (b'/', Err(NameError::Slash)),
                    (0, Err(NameError::Nul)),
                    (0x80, Ok(())),
                    (0x01, Ok(())),
                    (0xaf, Ok(())),
                    (0xff, Ok(())),
                ] {
                    let mut name = good.clone();
                    name[at] = byte;
                    assert_eq!(
                        check_component(&name),
                        expected,
                        "{byte:#x} at {at} of {len}"
                    );
                }
            }
        }
    }

    #[test]
    fn commands() {
        for good in ["ls", "-rf", "ünï", ".hidden", "a b", "[", "..."] {
            assert_eq!(check_command(good.as_bytes()), Ok(()), "{good}");
        }
        let long = "x".repeat(256);
        for (bad, why) in [
            ("", NameError::Empty),
            (".", NameError::Dots),
            ("..", NameError::Dots),
            ("a/b", NameError::Slash),
            ("a\0", NameError::Nul),
            ("a\nb", NameError::Control),
            ("a\x7f", NameError::Control),
            ("a\u{85}", NameError::Control),
            (&long, NameError::TooLong),
        ] {
            assert_eq!(check_command(bad.as_bytes()), Err(why), "{bad:?}");
        }
        assert_eq!(check_command("x".repeat(255).as_bytes()), Ok(()));
    }
}
