//! Users and groups, read from `/etc/passwd` and `/etc/group` of the VM.
//!
//! The files are the only source of truth: a guest with the rights to edit them changes what the
//! next call answers. Malformed lines are skipped, as the C library skips them.

/// One line of `/etc/passwd`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Login name.
    pub name: Vec<u8>,
    /// User id.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// Comment field.
    pub gecos: Vec<u8>,
    /// Home directory.
    pub home: Vec<u8>,
    /// Login shell.
    pub shell: Vec<u8>,
}

impl User {
    /// The record as one line without a newline, the password field as `x`.
    pub fn record(&self) -> Vec<u8> {
        let (uid, gid) = (self.uid.to_string(), self.gid.to_string());
        [
            &self.name[..],
            b"x",
            uid.as_bytes(),
            gid.as_bytes(),
            &self.gecos,
            &self.home,
            &self.shell,
        ]
        .join(&b':')
    }
}

/// One line of `/etc/group`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Group name.
    pub name: Vec<u8>,
    /// Group id.
    pub gid: u32,
    /// Names of members.
    pub members: Vec<Vec<u8>>,
}

impl Group {
    /// The record as one line without a newline, the password field as `x`.
    pub fn record(&self) -> Vec<u8> {
        let gid = self.gid.to_string();
        let members = self.members.join(&b',');
        [&self.name[..], b"x", gid.as_bytes(), &members].join(&b':')
    }
}

fn number(field: &[u8]) -> Option<u32> {
    if field.is_empty() || !field.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(field).ok()?.parse().ok()
}

/// The users of a passwd file, in its order.
pub fn parse_passwd(text: &[u8]) -> Vec<User> {
    text.split(|&b| b == b'\n')
        .filter_map(|line| {
            let mut fields = line.split(|&b| b == b':');
            let name = fields
                .next()
                .filter(|n| !n.is_empty() && n[0] != b'#')?
                .to_vec();
            let _password = fields.next()?;
            let uid = number(fields.next()?)?;
            let gid = number(fields.next()?)?;
            let mut rest = || fields.next().unwrap_or_default().to_vec();
            Some(User {
                name,
                uid,
                gid,
                gecos: rest(),
                home: rest(),
                shell: rest(),
            })
        })
        .collect()
}

/// The groups of a group file, in its order.
pub fn parse_group(text: &[u8]) -> Vec<Group> {
    text.split(|&b| b == b'\n')
        .filter_map(|line| {
            let mut fields = line.split(|&b| b == b':');
            let name = fields
                .next()
                .filter(|n| !n.is_empty() && n[0] != b'#')?
                .to_vec();
            let _password = fields.next()?;
            let gid = number(fields.next()?)?;
            let members = fields
                .next()
                .unwrap_or_default()
                .split(|&b| b == b',')
                .filter(|m| !m.is_empty())
                .map(<[u8]>::to_vec)
                .collect();
            Some(Group { name, gid, members })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_survive_a_round_trip_and_bad_lines_do_not() {
        let text =
            b"root:x:0:0:root:/root:/bin/sh\n\n#c:x:1:1:::\nbad\nnouid:x::0:::\nu:x:7:8:::/bin/sh";
        let users = parse_passwd(text);
        assert_eq!(users.len(), 2);
        assert_eq!(users[0].record(), b"root:x:0:0:root:/root:/bin/sh");
        assert_eq!(users[1].record(), b"u:x:7:8:::/bin/sh");
        let groups = parse_group(b"root:x:0:\nwheel:x:10:a,b\nx:x:-1:\n");
        assert_eq!(groups.len(), 2);
        assert_eq!(groups[1].record(), b"wheel:x:10:a,b");
        assert_eq!(groups[0].record(), b"root:x:0:");
    }
}
