//! Replacing the program of a process (`execve(2)`, from the point of no return on).

use crate::process::{Image, Process};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vfs_core::types::Cred;

/// The new program.
pub struct ExecImage {
    /// Program, arguments and environment.
    pub image: Image,
    /// Credentials, if the file's mode changes them.
    pub cred: Option<Arc<Cred>>,
    /// Descriptors to close besides those marked `CLOEXEC`; numbers not open are passed over.
    pub close: Vec<i32>,
}

impl Process {
    /// Commits an `exec`: descriptors marked `CLOEXEC` close, handlers become default while
    /// ignored signals stay so, and the image is replaced. Pid, parent, group, session,
    /// directories, mask of files and of signals, pending signals, timers and every other
    /// descriptor stay. Everything that can fail must have succeeded before.
    pub fn exec_commit(&self, new: ExecImage) {
        self.execed.store(true, Ordering::Relaxed);
        if let Some(cred) = new.cred {
            self.set_cred(cred);
        }
        self.replace_image(new.image);
        self.signals().exec_reset();
        for fd in new.close {
            // A number that is not open needs no closing.
            let _ = self.fds().remove(fd);
        }
        self.fds().close_on_exec();
    }
}
