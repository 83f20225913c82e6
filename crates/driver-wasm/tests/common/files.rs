//! Opening, reading and writing files in test programs.

use super::script::{Place, Script, Shown};
use crate::args;

pub const CWD: u32 = 0x4000_0003;
pub const ROOT: u32 = 0x4000_0004;
pub const READ: u64 = 0x0fbf_febe;
pub const WRITE: u64 = 0x0fff_bffd;
pub const RDWR: u64 = 0x0fff_ffff;

/// Adds a `path_open` relative to the working directory; the descriptor is at the place.
pub fn open(s: &mut Script, path: &str, oflags: u32, rights: u64, fdflags: u32) -> Place {
    let name = s.bytes(path);
    let fd = s.room(4);
    s.call(
        "wasi.path_open",
        args![
            CWD, 1, name.ptr, name.len, oflags, rights, RDWR, fdflags, fd.ptr
        ],
    );
    fd
}

pub fn write(s: &mut Script, fd: Place, bytes: &str) -> Place {
    let buf = s.bytes(bytes);
    let iov = s.iovec(buf);
    let n = s.room(4);
    s.call(
        "wasi.fd_write",
        &[fd.load(), iov.ptr.into(), 1.into(), n.ptr.into()],
    );
    n
}

pub fn read(s: &mut Script, fd: Place, len: u32) -> (Place, Place) {
    let buf = s.room(len);
    let iov = s.iovec(buf);
    let n = s.room(4);
    s.call(
        "wasi.fd_read",
        &[fd.load(), iov.ptr.into(), 1.into(), n.ptr.into()],
    );
    (buf, n)
}

pub fn seen(shown: &Shown, (buf, n): (Place, Place)) -> &[u8] {
    &shown.bytes(buf)[..shown.u32(n) as usize]
}
