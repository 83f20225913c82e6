//! Error numbers: the kernel speaks Linux's, a guest expects WASI's.

use kernel::Errno;

/// What a guest is told when no number fits (`__WASI_ERRNO_IO`).
pub(crate) const IO: u16 = 29;
/// Success.
pub(crate) const SUCCESS: u16 = 0;

macro_rules! table {
    ($($linux:ident $wasi:literal)*) => {
        /// The WASI number of a Linux error; what WASI has no number for becomes [`IO`].
        pub(crate) fn wasi(errno: Errno) -> u16 {
            match errno { $(Errno::$linux => $wasi,)* _ => IO }
        }

        #[cfg(test)]
        const TABLE: &[(Errno, u16)] = &[$((Errno::$linux, $wasi)),*];
    };
}

// The numbers of `typenames.witx`. ENODATA is an extension: the published guests know it as 78.
table! {
    E2BIG 1
    EACCES 2
    EADDRINUSE 3
    EADDRNOTAVAIL 4
    EAFNOSUPPORT 5
    EAGAIN 6
    EALREADY 7
    EBADF 8
    EBUSY 10
    ECHILD 12
    ECONNABORTED 13
    ECONNREFUSED 14
    ECONNRESET 15
    EDEADLK 16
    EDESTADDRREQ 17
    EDOM 18
    EDQUOT 19
    EEXIST 20
    EFAULT 21
    EFBIG 22
    EHOSTUNREACH 23
    EILSEQ 25
    EINPROGRESS 26
    EINTR 27
    EINVAL 28
    EIO 29
    EISCONN 30
    EISDIR 31
    ELOOP 32
    EMFILE 33
    EMLINK 34
    EMSGSIZE 35
    ENAMETOOLONG 37
    ENETUNREACH 40
    ENFILE 41
    ENOBUFS 42
    ENODEV 43
    ENOENT 44
    ENOEXEC 45
    ENOLCK 46
    ENOMEM 48
    ENOPROTOOPT 50
    ENOSPC 51
    ENOSYS 52
    ENOTCONN 53
    ENOTDIR 54
    ENOTEMPTY 55
    ENOTSOCK 57
    EOPNOTSUPP 58
    ENOTTY 59
    ENXIO 60
    EOVERFLOW 61
    EPERM 63
    EPIPE 64
    EPROTONOSUPPORT 66
    EPROTOTYPE 67
    ERANGE 68
    EROFS 69
    ESPIPE 70
    ESRCH 71
    ESTALE 72
    ETIMEDOUT 73
    ETXTBSY 74
    EXDEV 75
    ENODATA 78
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_linux_errors_share_a_wasi_number() {
        let mut seen = std::collections::BTreeMap::new();
        for (errno, number) in TABLE {
            assert_eq!(seen.insert(*number, *errno), None, "{errno:?}");
            assert_eq!(wasi(*errno), *number);
        }
    }

    #[test]
    fn every_error_of_the_kernel_has_a_number() {
        // What WASI lacks.
        let lacking: Vec<_> = Errno::ALL
            .iter()
            .filter(|e| wasi(**e) == IO && **e != Errno::EIO)
            .collect();
        assert_eq!(lacking, [&Errno::ENOTBLK, &Errno::ETOOMANYREFS]);
    }
}
