//! Error numbers as a guest sees them.
//!
//! The numbers are those of Linux on x86-64 (`include/uapi/asm-generic/errno*.h`). They are our
//! own table and do not come from the machine we run on; a test compares them with the host's.

use std::fmt;

/// A Linux error number, never zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Errno(u16);

/// What a system call gives: a value, or the error number the guest sees.
pub type Result<T> = std::result::Result<T, Errno>;

macro_rules! errnos {
    ($($name:ident $number:literal $text:literal)*) => {
        impl Errno {
            $(#[doc = concat!($text, " (", $number, ").")] pub const $name: Errno = Errno($number);)*

            /// Every error number in the table, in rising order.
            pub const ALL: &'static [Errno] = &[$(Errno::$name),*];

            /// The symbolic name, `"ENOENT"`.
            pub fn name(self) -> &'static str {
                match self.0 { $($number => stringify!($name),)* _ => "E?" }
            }

            /// The sentence of `strerror(3)` in the C locale, as glibc words it.
            pub fn message(self) -> &'static str {
                match self.0 { $($number => $text,)* _ => "Unknown error" }
            }

            /// The error of this number, if the table has it.
            pub fn from_number(number: i32) -> Option<Errno> {
                match number { $($number => Some(Errno::$name),)* _ => None }
            }
        }
    };
}

errnos! {
    EPERM 1 "Operation not permitted"
    ENOENT 2 "No such file or directory"
    ESRCH 3 "No such process"
    EINTR 4 "Interrupted system call"
    EIO 5 "Input/output error"
    ENXIO 6 "No such device or address"
    E2BIG 7 "Argument list too long"
    ENOEXEC 8 "Exec format error"
    EBADF 9 "Bad file descriptor"
    ECHILD 10 "No child processes"
    EAGAIN 11 "Resource temporarily unavailable"
    ENOMEM 12 "Cannot allocate memory"
    EACCES 13 "Permission denied"
    EFAULT 14 "Bad address"
    ENOTBLK 15 "Block device required"
    EBUSY 16 "Device or resource busy"
    EEXIST 17 "File exists"
    EXDEV 18 "Invalid cross-device link"
    ENODEV 19 "No such device"
    ENOTDIR 20 "Not a directory"
    EISDIR 21 "Is a directory"
    EINVAL 22 "Invalid argument"
    ENFILE 23 "Too many open files in system"
    EMFILE 24 "Too many open files"
    ENOTTY 25 "Inappropriate ioctl for device"
    ETXTBSY 26 "Text file busy"
    EFBIG 27 "File too large"
    ENOSPC 28 "No space left on device"
    ESPIPE 29 "Illegal seek"
    EROFS 30 "Read-only file system"
    EMLINK 31 "Too many links"
    EPIPE 32 "Broken pipe"
    EDOM 33 "Numerical argument out of domain"
    ERANGE 34 "Numerical result out of range"
    EDEADLK 35 "Resource deadlock avoided"
    ENAMETOOLONG 36 "File name too long"
    ENOLCK 37 "No locks available"
    ENOSYS 38 "Function not implemented"
    ENOTEMPTY 39 "Directory not empty"
    ELOOP 40 "Too many levels of symbolic links"
    ENODATA 61 "No data available"
    EOVERFLOW 75 "Value too large for defined data type"
    EILSEQ 84 "Invalid or incomplete multibyte or wide character"
    ENOTSOCK 88 "Socket operation on non-socket"
    EDESTADDRREQ 89 "Destination address required"
    EMSGSIZE 90 "Message too long"
    EPROTOTYPE 91 "Protocol wrong type for socket"
    ENOPROTOOPT 92 "Protocol not available"
    EPROTONOSUPPORT 93 "Protocol not supported"
    EOPNOTSUPP 95 "Operation not supported"
    EAFNOSUPPORT 97 "Address family not supported by protocol"
    EADDRINUSE 98 "Address already in use"
    EADDRNOTAVAIL 99 "Cannot assign requested address"
    ENETUNREACH 101 "Network is unreachable"
    ECONNABORTED 103 "Software caused connection abort"
    ECONNRESET 104 "Connection reset by peer"
    ENOBUFS 105 "No buffer space available"
    EISCONN 106 "Transport endpoint is already connected"
    ENOTCONN 107 "Transport endpoint is not connected"
    ETOOMANYREFS 109 "Too many references: cannot splice"
    ETIMEDOUT 110 "Connection timed out"
    ECONNREFUSED 111 "Connection refused"
    EHOSTUNREACH 113 "No route to host"
    EALREADY 114 "Operation already in progress"
    EINPROGRESS 115 "Operation now in progress"
    ESTALE 116 "Stale file handle"
    EDQUOT 122 "Disk quota exceeded"
}

impl Errno {
    /// The operation would block; the same number as [`Errno::EAGAIN`].
    pub const EWOULDBLOCK: Errno = Errno::EAGAIN;
    /// Not supported; the same number as [`Errno::EOPNOTSUPP`].
    pub const ENOTSUP: Errno = Errno::EOPNOTSUPP;

    /// The number, positive.
    pub fn number(self) -> i32 {
        i32::from(self.0)
    }

    /// The guest's view of an error of the host. What the table lacks becomes `EIO`; the text of
    /// the host error, which may hold a host path, is dropped on purpose.
    pub fn from_host(error: &std::io::Error) -> Errno {
        error
            .raw_os_error()
            .and_then(Errno::from_number)
            .unwrap_or(Errno::EIO)
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl std::error::Error for Errno {}

impl From<nix::errno::Errno> for Errno {
    fn from(host: nix::errno::Errno) -> Errno {
        Errno::from_number(host as i32).unwrap_or(Errno::EIO)
    }
}
