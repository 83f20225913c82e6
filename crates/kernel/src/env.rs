//! Environments that cross the trust boundary.
//!
//! A guest's own children get exactly what the guest gives them. What comes from the host, and
//! what a program gets that runs with other rights than its caller's (a set-user-ID file), loses
//! the variables that choose code: as glibc drops them under `AT_SECURE`.

/// Whether a variable of this name chooses what code runs or where it is found.
///
/// ```
/// use kernel::env::is_dangerous;
/// assert!(is_dangerous(b"LD_PRELOAD") && is_dangerous(b"NODE_OPTIONS") && is_dangerous(b"PATH"));
/// assert!(!is_dangerous(b"HOME"));
/// ```
pub fn is_dangerous(name: &[u8]) -> bool {
    const EXACT: [&[u8]; 17] = [
        b"PATH",
        b"NODE_OPTIONS",
        b"NODE_PATH",
        b"BASH_ENV",
        b"ENV",
        b"PYTHONPATH",
        b"PYTHONHOME",
        b"PYTHONSTARTUP",
        b"PERL5LIB",
        b"PERL5OPT",
        b"RUBYLIB",
        b"RUBYOPT",
        b"IFS",
        b"SHELLOPTS",
        b"BASHOPTS",
        b"GCONV_PATH",
        b"LOCPATH",
    ];
    EXACT.contains(&name)
        || name.starts_with(b"LD_")
        || name.starts_with(b"DYLD_")
        || name.starts_with(b"BASH_FUNC_")
        || name.ends_with(b"PRELOAD")
        || name.ends_with(b"PRELOAD_PATH")
}

/// The variables of `env` (`KEY=VALUE` each) that may cross the boundary. Entries without a name
/// are dropped too.
pub fn sanitize<I>(env: I) -> Vec<Vec<u8>>
where
    I: IntoIterator<Item = Vec<u8>>,
{
    env.into_iter()
        .filter(|entry| match entry.iter().position(|&b| b == b'=') {
            None | Some(0) => false,
            Some(at) => !is_dangerous(&entry[..at]),
        })
        .collect()
}

/// The value of `name` in `env`; the last one wins, as for the guest's libc an earlier
/// duplicate is never seen.
pub fn get<'e>(env: &'e [Vec<u8>], name: &[u8]) -> Option<&'e [u8]> {
    env.iter()
        .rev()
        .find_map(|entry| entry.strip_prefix(name)?.strip_prefix(b"="))
}

/// Sets `name` in `env` if it is not there.
pub fn set_default(env: &mut Vec<Vec<u8>>, name: &str, value: &[u8]) {
    if get(env, name.as_bytes()).is_none() {
        let mut entry = Vec::with_capacity(name.len() + 1 + value.len());
        entry.extend_from_slice(name.as_bytes());
        entry.push(b'=');
        entry.extend_from_slice(value);
        env.push(entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_chooses_code_does_not_cross() {
        let kept = sanitize(
            [
                "HOME=/h",
                "LD_PRELOAD=x",
                "LD_LIBRARY_PATH=x",
                "DYLD_INSERT_LIBRARIES=x",
                "=x",
                "NODE_OPTIONS=--require x",
                "PATH=/evil",
                "BASH_ENV=x",
                "MY_PRELOAD=x",
                "TERM=dumb",
                "novalue",
                "BASH_FUNC_ls%%=() { :; }",
                "PATHS=ok",
            ]
            .map(|s| s.as_bytes().to_vec()),
        );
        assert_eq!(
            kept,
            ["HOME=/h", "TERM=dumb", "PATHS=ok"].map(|s| s.as_bytes().to_vec())
        );
    }

    #[test]
    fn the_last_duplicate_wins() {
        let env = ["A=1", "AB=3", "A=2"].map(|s| s.as_bytes().to_vec());
        assert_eq!(get(&env, b"A"), Some(&b"2"[..]));
        assert_eq!(get(&env, b"B"), None);
    }
}
