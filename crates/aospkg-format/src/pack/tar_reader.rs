//! Reading a tar member by member, strictly and in bounded memory.
//!
//! The `tar` crate decodes the header fields; the framing is our own, for two reasons. Long names
//! and PAX records are read whole by that crate whatever length they claim, and a member's length
//! may come from a PAX record, which only a reader that knows all records can follow. And where
//! tar programs differ on what an archive means, a package must not depend on which of them one
//! thinks of: such archives are refused.

use std::io::{self, Read};

use crate::limits::{MAX_TAR_EXTENSION, TAR_BLOCK};
use crate::mount::EntryKind;
use crate::pack::PackError;

const BLOCK: usize = TAR_BLOCK as usize;

/// Bytes that may follow the end of the archive, which some programs pad a good deal.
const MAX_AFTER_END: u64 = 64 << 20;

/// A member of an archive, its names not yet checked.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) name: Vec<u8>,
    pub(crate) kind: EntryKind,
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) mtime: i64,
    pub(crate) size: u64,
    pub(crate) link: Vec<u8>,
    /// Extended attributes or access control lists were given.
    pub(crate) attributes: bool,
}

/// What extension members say of the member after them.
#[derive(Debug, Default)]
struct Extensions {
    any: bool,
    gnu_name: Option<Vec<u8>>,
    gnu_link: Option<Vec<u8>>,
    name: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
    mtime: Option<i64>,
    uid: Option<u64>,
    gid: Option<u64>,
    attributes: bool,
    /// The record that makes the file a sparse one.
    sparse: bool,
}

/// Reads members from a stream.
pub(crate) struct TarReader<R> {
    input: R,
    at: u64,
    /// Bytes of the current member's content that were not read.
    left: u64,
    /// Zeros that fill the current member's last block.
    padding: u64,
    done: bool,
    /// Whether something else than zeros follows the end.
    trailing: bool,
}

/// Takes bytes and remembers whether all were zeros.
struct OnlyZeros(bool);

impl io::Write for OnlyZeros {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 &= bytes.iter().all(|&byte| byte == 0);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<R: Read> TarReader<R> {
    pub(crate) fn new(input: R) -> Self {
        TarReader {
            input,
            at: 0,
            left: 0,
            padding: 0,
            done: false,
            trailing: false,
        }
    }

    /// Whether, at the end, something else than zeros followed it.
    pub(crate) fn trailing(&self) -> bool {
        self.trailing
    }

    /// Bytes read so far: after [`TarReader::next`], where the member's content begins.
    pub(crate) fn position(&self) -> u64 {
        self.at
    }

    fn bad(&self, what: impl Into<String>) -> PackError {
        PackError::BadArchive {
            at: self.at,
            what: what.into(),
        }
    }

    fn io(&self, e: io::Error) -> PackError {
        match e.kind() {
            io::ErrorKind::UnexpectedEof => self.bad("the archive ends in the middle"),
            // What the decompressor says of damaged input.
            io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => self.bad(e.to_string()),
            _ => PackError::io("reading the archive".into(), e),
        }
    }

    /// The next member. Its content is read through the reader itself; what is left of it is passed
    /// over.
    pub(crate) fn next(&mut self) -> Result<Option<Member>, PackError> {
        if self.done {
            return Ok(None);
        }
        self.skip()?;
        let mut extensions = Extensions::default();
        loop {
            let Some(block) = self.block()? else {
                self.done = true;
                if extensions.any {
                    return Err(self.bad("a long name or PAX header without its member"));
                }
                return Ok(None);
            };
            if block.iter().all(|&byte| byte == 0) {
                if extensions.any {
                    return Err(self.bad("a long name or PAX header without its member"));
                }
                self.end()?;
                return Ok(None);
            }
            let header = tar::Header::from_byte_slice(&block);
            self.check_sum(header)?;
            let size = self.number(&header.as_old().size, "size")?;
            let size = u64::try_from(size).map_err(|_| self.bad("negative size"))?;
            let kind = header.as_old().linkflag[0];
            match kind {
                b'L' => extensions.gnu_name = Some(self.long_name(size)?),
                b'K' => extensions.gnu_link = Some(self.long_name(size)?),
                b'x' => self.pax(size, &mut extensions)?,
                b'g' => self.pax_global(size)?,
                _ => return self.member(header, kind, size, extensions).map(Some),
            }
            extensions.any |= kind != b'g';
        }
    }

    fn member(
        &mut self,
        header: &tar::Header,
        kind: u8,
        size: u64,
        extensions: Extensions,
    ) -> Result<Member, PackError> {
        let old = header.as_old();
        let long = |gnu: Option<Vec<u8>>, pax: Option<Vec<u8>>| match (gnu, pax) {
            (Some(gnu), Some(pax)) if gnu != pax => Err(self.bad("two different long names")),
            (gnu, pax) => Ok(gnu.or(pax)),
        };
        let name = match long(extensions.gnu_name, extensions.name)? {
            Some(name) => name,
            None => header_name(header),
        };
        let link = match long(extensions.gnu_link, extensions.link)? {
            Some(link) => link,
            None => until_nul(&old.linkname).to_vec(),
        };
        let shown = || String::from_utf8_lossy(&name).into_owned();
        let unsupported = |kind: &str| PackError::Unsupported {
            entry: shown(),
            kind: kind.to_owned(),
        };
        if extensions.sparse {
            return Err(unsupported("a sparse file"));
        }
        let size = extensions.size.unwrap_or(size);
        let kind = match kind {
            // Before there was a type for directories, a slash at the end of the name was it.
            b'0' | 0 if name.ends_with(b"/") => EntryKind::Directory,
            b'0' | 0 | b'7' => EntryKind::File,
            b'1' => {
                return Err(PackError::HardLink {
                    entry: shown(),
                    target: String::from_utf8_lossy(&link).into_owned(),
                });
            }
            b'2' => EntryKind::Symlink,
            b'3' => return Err(unsupported("a character device")),
            b'4' => return Err(unsupported("a block device")),
            b'5' => EntryKind::Directory,
            b'6' => return Err(unsupported("a named pipe")),
            b'S' => return Err(unsupported("a sparse file")),
            b'M' => return Err(unsupported("a part of a file from another volume")),
            b'D' => return Err(unsupported("an incremental dump's directory")),
            b'V' => return Err(unsupported("a volume label")),
            b'N' => return Err(unsupported("an old long name")),
            other => {
                return Err(unsupported(&format!(
                    "a member of type {:?}",
                    char::from(other)
                )));
            }
        };
        if kind != EntryKind::File && size != 0 {
            // Programs disagree on whether content follows.
            return Err(unsupported("a directory or link with content"));
        }
        let own = |extension: Option<u64>, field: &[u8], what| match extension {
            Some(number) => Ok(number),
            None => self.number(field, what).map(|number| number.max(0) as u64),
        };
        let uid = own(extensions.uid, &old.uid, "uid")?;
        let gid = own(extensions.gid, &old.gid, "gid")?;
        let id = |number: u64, what| {
            u32::try_from(number).map_err(|_| self.bad(format!("{what} {number} is too large")))
        };
        let member = Member {
            kind,
            mode: (self.number(&old.mode, "mode")? & 0o7777) as u32,
            uid: id(uid, "uid")?,
            gid: id(gid, "gid")?,
            mtime: match extensions.mtime {
                Some(mtime) => mtime,
                None => self.number(&old.mtime, "mtime")?,
            },
            size,
            link: if kind == EntryKind::Symlink {
                link
            } else {
                Vec::new()
            },
            attributes: extensions.attributes,
            name,
        };
        self.begin(size)?;
        Ok(member)
    }

    /// Notes that `size` bytes of content follow.
    fn begin(&mut self, size: u64) -> Result<(), PackError> {
        let whole = size
            .checked_next_multiple_of(TAR_BLOCK)
            .ok_or_else(|| self.bad("size out of range"))?;
        self.left = size;
        self.padding = whole - size;
        Ok(())
    }

    /// Passes over what is left of the current member.
    fn skip(&mut self) -> Result<(), PackError> {
        let left = self.left + self.padding;
        let skipped =
            io::copy(&mut (&mut self.input).take(left), &mut io::sink()).map_err(|e| self.io(e))?;
        self.at += skipped;
        if skipped < left {
            return Err(self.bad("the archive ends in the middle"));
        }
        (self.left, self.padding) = (0, 0);
        Ok(())
    }

    /// The next header block; `None` when the stream ends before it.
    fn block(&mut self) -> Result<Option<[u8; BLOCK]>, PackError> {
        let mut block = [0; BLOCK];
        let mut have = 0;
        while have < BLOCK {
            match self.input.read(&mut block[have..]) {
                Ok(0) if have == 0 => return Ok(None),
                Ok(0) => return Err(self.bad("the archive ends in the middle")),
                Ok(n) => have += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.io(e)),
            }
        }
        self.at += TAR_BLOCK;
        Ok(Some(block))
    }

    /// Reads on to the end of the stream, so that a checksum behind the archive is looked at.
    fn end(&mut self) -> Result<(), PackError> {
        self.done = true;
        if let Some(block) = self.block()?
            && block.iter().any(|&byte| byte != 0)
        {
            return Err(self.bad("a lone block of zeros between members"));
        }
        let mut rest = (&mut self.input).take(MAX_AFTER_END + 1);
        let mut zeros = OnlyZeros(true);
        let after = io::copy(&mut rest, &mut zeros).map_err(|e| self.io(e))?;
        self.trailing = !zeros.0;
        if after > MAX_AFTER_END {
            return Err(self.bad("too much after the end of the archive"));
        }
        Ok(())
    }

    fn check_sum(&self, header: &tar::Header) -> Result<(), PackError> {
        let field = 148..156;
        let bytes = header.as_bytes();
        let stated = self.number(&header.as_old().cksum, "checksum")?;
        let blanked = |i: usize, byte: u8| if field.contains(&i) { b' ' } else { byte };
        let unsigned: i64 = (0..)
            .zip(bytes)
            .map(|(i, &b)| i64::from(blanked(i, b)))
            .sum();
        // Some old programs summed signed bytes.
        let signed: i64 = (0..)
            .zip(bytes)
            .map(|(i, &b)| i64::from(blanked(i, b) as i8))
            .sum();
        if stated != unsigned && stated != signed {
            return Err(self.bad("header checksum does not match"));
        }
        Ok(())
    }

    /// A number field: octal text, or base 256 when the first bit is set. Blank is 0.
    fn number(&self, field: &[u8], what: &str) -> Result<i64, PackError> {
        let wrong = || self.bad(format!("{what} is not a number"));
        match field {
            [first, ..] if first & 0x80 != 0 => {
                // Sign-extended: the bit after the marker is the sign.
                let negative = first & 0x40 != 0;
                let mut value: i128 = if negative { -1 } else { 0 };
                for (i, &byte) in field.iter().enumerate() {
                    let byte = match i {
                        0 if negative => byte,
                        0 => byte & 0x7f,
                        _ => byte,
                    };
                    value = value.checked_mul(256).ok_or_else(wrong)? | i128::from(byte);
                }
                i64::try_from(value).map_err(|_| wrong())
            }
            _ => {
                let text = field.trim_ascii_start();
                let end = text
                    .iter()
                    .position(|&b| b == 0 || b == b' ')
                    .unwrap_or(text.len());
                text[..end]
                    .iter()
                    .try_fold(0i64, |value, &digit| match digit {
                        b'0'..=b'7' => value
                            .checked_mul(8)
                            .and_then(|value| value.checked_add((digit - b'0').into()))
                            .ok_or_else(wrong),
                        _ => Err(wrong()),
                    })
            }
        }
    }

    /// The whole content of an extension member.
    fn extension(&mut self, size: u64) -> Result<Vec<u8>, PackError> {
        if size > MAX_TAR_EXTENSION {
            return Err(self.bad(format!(
                "a long name or PAX header of {size} bytes, the limit MAX_TAR_EXTENSION is {MAX_TAR_EXTENSION}"
            )));
        }
        self.begin(size)?;
        let mut bytes = vec![0; size as usize];
        self.input.read_exact(&mut bytes).map_err(|e| self.io(e))?;
        self.at += size;
        self.left = 0;
        self.skip()?;
        Ok(bytes)
    }

    fn long_name(&mut self, size: u64) -> Result<Vec<u8>, PackError> {
        let bytes = self.extension(size)?;
        Ok(until_nul(&bytes).to_vec())
    }

    /// A PAX header for the next member.
    fn pax(&mut self, size: u64, extensions: &mut Extensions) -> Result<(), PackError> {
        let bytes = self.extension(size)?;
        for (key, value) in records(&bytes).map_err(|what| self.bad(what))? {
            let number = || {
                std::str::from_utf8(value)
                    .ok()
                    .and_then(|text| text.parse::<u64>().ok())
                    .ok_or_else(|| self.bad(format!("PAX {}", String::from_utf8_lossy(key))))
            };
            match key {
                // An empty value takes an earlier record back.
                b"path" => extensions.name = Some(value.to_vec()).filter(|v| !v.is_empty()),
                b"linkpath" => extensions.link = Some(value.to_vec()).filter(|v| !v.is_empty()),
                b"size" => extensions.size = Some(number()?),
                b"uid" => extensions.uid = Some(number()?),
                b"gid" => extensions.gid = Some(number()?),
                b"mtime" => {
                    let seconds = seconds(value).ok_or_else(|| self.bad("PAX mtime"))?;
                    extensions.mtime = Some(seconds);
                }
                b"SUN.holesdata" | b"SCHILY.realsize" => extensions.sparse = true,
                _ if key.starts_with(b"GNU.sparse.") => extensions.sparse = true,
                _ if is_attribute(key) => extensions.attributes = true,
                _ => {}
            }
        }
        Ok(())
    }

    /// A PAX header for all members that follow. Comments are what these are used for; one that
    /// changes what members mean is refused, because half the programs ignore it.
    fn pax_global(&mut self, size: u64) -> Result<(), PackError> {
        let bytes = self.extension(size)?;
        for (key, _) in records(&bytes).map_err(|what| self.bad(what))? {
            let changes = matches!(
                key,
                b"path" | b"linkpath" | b"size" | b"mtime" | b"uid" | b"gid" | b"SUN.holesdata"
            );
            if changes || key.starts_with(b"GNU.sparse.") {
                return Err(self.bad(format!(
                    "a global PAX header sets {}",
                    String::from_utf8_lossy(key)
                )));
            }
        }
        Ok(())
    }
}

/// Reads the current member's content.
impl<R: Read> Read for TarReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let want = self.left.min(buffer.len() as u64) as usize;
        if want == 0 {
            return Ok(0);
        }
        let n = self.input.read(&mut buffer[..want])?;
        self.at += n as u64;
        self.left -= n as u64;
        Ok(n)
    }
}

/// Records that hold extended attributes or access control lists.
fn is_attribute(key: &[u8]) -> bool {
    [
        &b"SCHILY.xattr."[..],
        b"LIBARCHIVE.xattr.",
        b"SCHILY.acl.",
        b"SCHILY.fflags",
        b"RHT.security.selinux",
    ]
    .iter()
    .any(|prefix| key.starts_with(prefix))
}

fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|&b| b == 0).next().unwrap_or_default()
}

/// The name in a header, with the prefix of POSIX headers.
fn header_name(header: &tar::Header) -> Vec<u8> {
    let name = until_nul(&header.as_old().name);
    let Some(ustar) = header.as_ustar() else {
        return name.to_vec();
    };
    // `star` keeps times in the last bytes of the field and marks its headers so.
    let star = header.as_bytes()[508..].starts_with(b"tar\0");
    let field = if star {
        &ustar.prefix[..131]
    } else {
        &ustar.prefix[..]
    };
    match until_nul(field) {
        [] => name.to_vec(),
        prefix => [prefix, name].join(&b'/'),
    }
}

/// Key and value of a PAX record.
type Record<'a> = (&'a [u8], &'a [u8]);

/// The records of a PAX header: `LEN KEY=VALUE\n`, where LEN counts the whole record.
fn records(mut bytes: &[u8]) -> Result<Vec<Record<'_>>, &'static str> {
    const BAD: &str = "malformed PAX record";
    let mut out = Vec::new();
    // GNU tar writes none, but some programs fill the last block with NULs inside the size.
    while !bytes.is_empty() && bytes.iter().any(|&b| b != 0) {
        let space = bytes.iter().position(|&b| b == b' ').ok_or(BAD)?;
        let len = std::str::from_utf8(&bytes[..space])
            .ok()
            .filter(|text| text.bytes().all(|b| b.is_ascii_digit()))
            .and_then(|text| text.parse::<usize>().ok())
            .ok_or(BAD)?;
        if len <= space + 1 {
            return Err(BAD);
        }
        let record = bytes.get(space + 1..len).ok_or(BAD)?;
        let record = record.strip_suffix(b"\n").ok_or(BAD)?;
        let equals = record.iter().position(|&b| b == b'=').ok_or(BAD)?;
        out.push((&record[..equals], &record[equals + 1..]));
        bytes = &bytes[len..];
    }
    Ok(out)
}

/// Whole seconds of a PAX time, rounded down.
fn seconds(value: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(value).ok()?;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let seconds: i64 = whole.parse().ok()?;
    let down = whole.starts_with('-') && fraction.bytes().any(|b| b != b'0');
    seconds.checked_sub(down.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        let reader = TarReader::new(io::empty());
        let number = |field: &[u8]| reader.number(field, "field").ok();
        assert_eq!(number(b"0000644\0"), Some(0o644));
        assert_eq!(number(b"   644 \0"), Some(0o644));
        assert_eq!(number(b"\0\0\0\0\0\0\0\0"), Some(0));
        assert_eq!(number(b"00008 \0\0"), None);
        assert_eq!(number(b"\x80\0\0\0\0\0\x01\0"), Some(256));
        assert_eq!(
            number(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
            Some(-1)
        );
        assert_eq!(
            number(b"\x80\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
            None
        );
    }

    #[test]
    fn pax_records() {
        assert_eq!(
            records(b"10 path=a\n12 mtime=12\n").unwrap(),
            [(&b"path"[..], &b"a"[..]), (b"mtime", b"12")]
        );
        for bad in [
            &b"10 path=a"[..],
            b"3 a=b\n",
            b"path=a\n",
            b"99 path=a\n",
            b"7 path\n\n",
        ] {
            assert!(records(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn times_round_down() {
        assert_eq!(seconds(b"12.9"), Some(12));
        assert_eq!(seconds(b"-12.0"), Some(-12));
        assert_eq!(seconds(b"-12.5"), Some(-13));
        assert_eq!(seconds(b"-0.5"), Some(-1));
        assert_eq!(seconds(b"x"), None);
    }
}
