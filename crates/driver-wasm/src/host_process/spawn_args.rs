//! How guests pack what a spawn or exec takes: string lists and file actions.

use crate::abi;
use kernel::{Errno, FileAction, Result};

/// Most bytes of an argument list.
const MAX_ARGV: u32 = 1 << 20;
/// Most bytes of an environment.
const MAX_ENV: u32 = 1 << 20;
/// Most file actions of a spawn.
const MAX_ACTIONS: usize = 4096;
/// Most bytes of file actions.
const MAX_ACTION_BYTES: u32 = 1 << 20;
/// Bytes of a file action before its path.
const ACTION: usize = 24;

/// `E2BIG` for a list that is too long to look at.
pub(super) fn check_sizes(argv: u32, env: u32, actions: u32) -> Result<()> {
    if argv > MAX_ARGV || env > MAX_ENV || actions > MAX_ACTION_BYTES {
        return Err(Errno::E2BIG);
    }
    Ok(())
}

/// Strings that end in NUL; the last NUL may be missing.
pub(super) fn strings(bytes: &[u8]) -> Vec<Vec<u8>> {
    if bytes.is_empty() {
        return Vec::new();
    }
    let bytes = bytes.strip_suffix(&[0]).unwrap_or(bytes);
    bytes.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect()
}

/// An environment: strings without a name are left out, and a later one of the same name wins.
pub(super) fn environment(bytes: &[u8]) -> Vec<Vec<u8>> {
    fn name(entry: &[u8]) -> Option<&[u8]> {
        entry
            .split(|byte| *byte == b'=')
            .next()
            .filter(|name| name.len() < entry.len())
    }
    let mut seen = rustc_hash::FxHashSet::default();
    let entries: Vec<&[u8]> = bytes
        .split(|byte| *byte == 0)
        .filter(|entry| name(entry).is_some_and(|name| !name.is_empty()))
        .collect();
    let mut kept: Vec<Vec<u8>> = entries
        .iter()
        .rev()
        .filter(|entry| name(entry).is_some_and(|name| seen.insert(name)))
        .map(|entry| entry.to_vec())
        .collect();
    kept.reverse();
    kept
}

/// File actions, in order. A cut record or an unknown command is `EINVAL`, a negative descriptor
/// `EBADF`, too many of them `E2BIG`.
pub(super) fn file_actions(mut bytes: &[u8]) -> Result<Vec<FileAction>> {
    let mut actions = Vec::new();
    while !bytes.is_empty() {
        if actions.len() == MAX_ACTIONS {
            return Err(Errno::E2BIG);
        }
        let (record, rest) = bytes.split_at_checked(ACTION).ok_or(Errno::EINVAL)?;
        let word = |at: usize| {
            u32::from_le_bytes([record[at], record[at + 1], record[at + 2], record[at + 3]])
        };
        let (path, rest) = rest
            .split_at_checked(word(20) as usize)
            .ok_or(Errno::EINVAL)?;
        bytes = rest;
        let descriptor = |word: u32| i32::try_from(word).map_err(|_| Errno::EBADF);
        let named = || {
            if path.contains(&0) {
                Err(Errno::EINVAL)
            } else {
                Ok(path.to_vec())
            }
        };
        actions.push(match word(0) {
            1 => FileAction::Close(descriptor(word(4))?),
            2 => FileAction::Dup2 {
                from: descriptor(word(8))?,
                to: descriptor(word(4))?,
            },
            3 => FileAction::Open {
                fd: descriptor(word(4))?,
                path: named()?,
                flags: abi::libc_open_flags(word(12)),
                perm: word(16) & 0o7777,
            },
            4 => FileAction::Chdir(named()?),
            5 => FileAction::Fchdir(descriptor(word(4))?),
            6 => FileAction::CloseFrom(descriptor(word(4))?),
            _ => return Err(Errno::EINVAL),
        });
    }
    Ok(actions)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(list: &[&str]) -> Vec<Vec<u8>> {
        list.iter().map(|s| s.as_bytes().to_vec()).collect()
    }

    #[test]
    fn argument_lists() {
        assert_eq!(strings(b""), owned(&[]));
        assert_eq!(strings(b"\0"), owned(&[""]));
        assert_eq!(strings(b"a\0\0b\0"), owned(&["a", "", "b"]));
        assert_eq!(strings(b"a\0b"), owned(&["a", "b"]));
    }

    #[test]
    fn environments() {
        assert_eq!(
            environment(b"A=1\0novalue\0=x\0B=2\0A=3\0C=\0"),
            owned(&["B=2", "A=3", "C="])
        );
    }

    #[test]
    fn damaged_actions_are_refused() {
        let record = |words: [u32; 6], path: &[u8]| {
            let mut bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
            bytes.extend_from_slice(path);
            bytes
        };
        let open = record([3, 5, 0, 0x0400_0000, 0, 3], b"a/b");
        assert!(matches!(
            &file_actions(&open).unwrap()[..],
            [FileAction::Open { fd: 5, path, .. }] if path == b"a/b"
        ));
        assert_eq!(
            file_actions(&open[..open.len() - 1]).err(),
            Some(Errno::EINVAL)
        );
        assert_eq!(file_actions(&open[..20]).err(), Some(Errno::EINVAL));
        assert_eq!(
            file_actions(&record([9, 0, 0, 0, 0, 0], b"")).err(),
            Some(Errno::EINVAL)
        );
        let negative = record([2, 1, u32::MAX, 0, 0, 0], b"");
        assert_eq!(file_actions(&negative).err(), Some(Errno::EBADF));
        let many = record([1, 3, 0, 0, 0, 0], b"").repeat(MAX_ACTIONS + 1);
        assert_eq!(file_actions(&many).err(), Some(Errno::E2BIG));
    }
}
