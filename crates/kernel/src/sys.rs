//! The few calls to the host that have no safe wrapper elsewhere. The kernel crate's only
//! `unsafe` code.

use std::time::Duration;
use vfs_core::errno::{Errno, Result};

/// Fills `buf` with random bytes from the host's generator.
pub(crate) fn getrandom(buf: &mut [u8]) -> Result<()> {
    let mut filled = 0;
    while filled < buf.len() {
        let rest = &mut buf[filled..];
        // SAFETY: the pointer and the length describe `rest`, which is exclusively ours.
        let n = unsafe { libc::getrandom(rest.as_mut_ptr().cast(), rest.len(), 0) };
        match usize::try_from(n) {
            Ok(n) => filled += n,
            Err(_) => {
                let error = std::io::Error::last_os_error();
                if error.kind() != std::io::ErrorKind::Interrupted {
                    return Err(Errno::from_host(&error));
                }
            }
        }
    }
    Ok(())
}

/// 128 random bits; zero if the host's generator fails, which it does not once it is seeded.
pub(crate) fn random_u128() -> u128 {
    let mut bytes = [0; 16];
    match getrandom(&mut bytes) {
        Ok(()) => u128::from_le_bytes(bytes),
        Err(_) => 0,
    }
}

/// The CPU-time clock of one host thread, readable from every thread of the host process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ThreadClock(libc::clockid_t);

impl ThreadClock {
    /// The clock of the calling thread.
    pub(crate) fn current() -> ThreadClock {
        // SAFETY: takes no argument and can't fail.
        let tid = unsafe { libc::gettid() };
        // The kernel's own encoding of "CPU time of thread `tid`" (`CPUCLOCK_PERTHREAD_MASK |
        // CPUCLOCK_SCHED`), which `pthread_getcpuclockid` makes too but only from a `pthread_t`
        // that has to be alive.
        ThreadClock((!tid << 3) | 6)
    }

    /// CPU time the thread has used since it began; `None` once it has ended.
    pub(crate) fn now(self) -> Option<Duration> {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: `time` is a valid place for the result; an unknown clock is an error.
        let done = unsafe { libc::clock_gettime(self.0, &mut time) };
        (done == 0).then(|| Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_bytes_fill_the_whole_buffer() {
        let mut buf = vec![0u8; 1 << 16];
        getrandom(&mut buf).unwrap();
        assert!(buf.chunks(64).all(|chunk| chunk.iter().any(|&b| b != 0)));
    }

    #[test]
    fn a_threads_cpu_clock_is_read_from_another_thread() {
        let (send, receive) = std::sync::mpsc::channel();
        let (done, wait) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let clock = ThreadClock::current();
            while clock.now().unwrap() < Duration::from_millis(3) {}
            send.send(clock).unwrap();
            let _ = wait.recv();
        });
        let clock = receive.recv().unwrap();
        assert!(clock.now().unwrap() >= Duration::from_millis(3));
        drop(done);
        thread.join().unwrap();
    }
}
