//! What a runtime implements: one [`Driver`] per kind of program, one [`Program`] per process
//! image.
//!
//! A driver never touches a process table, a file system or a pipe. It is given a resolved
//! [`Image`], makes a [`Program`] of it without running anything, and later runs the program on
//! the process's thread against the one [`Task`] handle it is handed.

use crate::task::Task;
use binfmt::Handler;
use proctable::Signal;
use std::rc::Rc;
use std::sync::Arc;
use vfs_core::errno::Result;
use vfs_core::inode::Content;

/// A runtime: it turns an image into a program. One value serves every VM it was given to.
pub trait Driver: Send + Sync {
    /// Name as the process tree shows it: `"wasm"`.
    fn name(&self) -> &'static str;

    /// Whether programs of this binary format are its own.
    fn handles(&self, handler: &Handler) -> bool;

    /// Makes the image ready to run. No guest code may run here: the process that will run it
    /// does not exist yet, or, for `exec`, still runs its old image. `ENOEXEC` if the bytes are
    /// not a program after all.
    fn load(&self, image: &Image) -> Result<Box<dyn Program>>;
}

/// A file that is to become a process image. Interpreters were already followed: this is the
/// file whose header chose the driver.
pub struct Image {
    /// The bytes.
    pub content: Arc<dyn Content>,
    /// Identity of the bytes if the file system knows one: equal ids mean equal bytes, so that
    /// compiled code can be found without reading the file.
    pub content_id: Option<[u8; 32]>,
    /// Size in bytes.
    pub size: u64,
    /// Path in the guest, for messages only.
    pub path: Vec<u8>,
}

/// A process image ready to run.
pub trait Program: Send {
    /// Runs to the end on the calling thread, which belongs to the process. The `Rc` may be
    /// cloned into the runtime's own state (its host functions need it there); every clone must
    /// be gone when `run` returns. A panic ends the process as if by `SIGABRT`, nothing else.
    fn run(self: Box<Self>, task: &Rc<Task>) -> Outcome;
}

/// How a program came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// `exit`; the low eight bits reach the parent.
    Exit(i32),
    /// A signal ended it: one that [`Task::checkpoint`] reported, or the one that stands for a
    /// trap of the program.
    Killed(Signal),
    /// `exec` was committed: the task holds the next program, which runs on this same thread.
    Exec,
}

/// Why a program must stop what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// A signal ends the process: unwind and return [`Outcome::Killed`] with it.
    Die(Signal),
}

/// Content that was read into memory because its file system can't lend it.
pub(crate) struct OwnedContent(pub(crate) Vec<u8>);

impl Content for OwnedContent {
    fn with(&self, f: &mut dyn FnMut(&[u8])) -> Result<()> {
        f(&self.0);
        Ok(())
    }
}
