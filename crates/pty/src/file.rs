//! The two sides as open files.

use crate::terminal::Terminal;
use proctable::Process;
use std::any::Any;
use std::sync::Arc;
use vfs_core::errno::{Errno, Result};
use vfs_core::file::{FileOps, OpenFile};
use vfs_core::types::{OpenFlags, Stat, Timespec};
use vfs_core::wait::{PollEvents, WaitQueue};

/// The master's side: `/dev/ptmx` opened.
pub struct Master {
    terminal: Arc<Terminal>,
}

/// The slave's side: `/dev/pts/N` or `/dev/tty` opened.
pub struct Slave {
    terminal: Arc<Terminal>,
    /// The terminal's count of hang-ups when it was opened.
    generation: u64,
}

impl Master {
    pub(crate) fn new(terminal: Arc<Terminal>) -> Master {
        Master { terminal }
    }

    /// The master's side behind an open file, if it is one.
    pub fn of(file: &OpenFile) -> Option<&Master> {
        let ops: &dyn FileOps = &**file.ops();
        ops.as_any().downcast_ref()
    }

    /// The terminal.
    pub fn terminal(&self) -> &Arc<Terminal> {
        &self.terminal
    }
}

impl Slave {
    pub(crate) fn new(terminal: Arc<Terminal>, generation: u64) -> Slave {
        Slave {
            terminal,
            generation,
        }
    }

    /// The slave's side behind an open file, if it is one.
    pub fn of(file: &OpenFile) -> Option<&Slave> {
        let ops: &dyn FileOps = &**file.ops();
        ops.as_any().downcast_ref()
    }

    /// The terminal.
    pub fn terminal(&self) -> &Arc<Terminal> {
        &self.terminal
    }

    /// Whether the line was hung up since it was opened: reads give the end of the file, writes
    /// and requests `EIO`.
    pub fn hung_up(&self) -> bool {
        self.terminal.hung_up(self.generation)
    }
}

/// The terminal behind an open file of either side.
pub fn terminal_of(file: &OpenFile) -> Option<&Arc<Terminal>> {
    Slave::of(file)
        .map(Slave::terminal)
        .or_else(|| Master::of(file).map(Master::terminal))
}

/// Reads a slave as `process` does, with job control, `VMIN` and `VTIME`; blocks unless the file
/// is `O_NONBLOCK`. `None` if the file is no slave: other files are read by `proctable::io`.
pub fn read(process: &Process, file: &OpenFile, buf: &mut [u8]) -> Option<Result<usize>> {
    let slave = Slave::of(file)?;
    if !file.flags().readable() {
        return Some(Err(Errno::EBADF));
    }
    Some(
        slave
            .terminal
            .slave_read(Some(process), slave.generation, file.nonblocking(), buf),
    )
}

/// Writes to a slave as `process` does, with job control; blocks unless the file is `O_NONBLOCK`
/// until everything is taken. `None` if the file is no slave.
pub fn write(process: &Process, file: &OpenFile, buf: &[u8]) -> Option<Result<usize>> {
    let slave = Slave::of(file)?;
    if !file.flags().writable() {
        return Some(Err(Errno::EBADF));
    }
    Some(write_all(process, slave, file.nonblocking(), buf))
}

fn write_all(process: &Process, slave: &Slave, nonblocking: bool, buf: &[u8]) -> Result<usize> {
    let terminal = &slave.terminal;
    let mut done = 0;
    while done < buf.len() {
        let attempt = || terminal.slave_write(Some(process), slave.generation, &buf[done..]);
        let outcome = if nonblocking {
            attempt()
        } else {
            let events = PollEvents::OUT | PollEvents::WRNORM;
            proctable::block_on(process, &[(&terminal.slave_queue, events)], None, attempt)
        };
        match outcome {
            Ok(n) => done += n,
            Err(_) if done > 0 => break,
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// What `stat` shows of a side that has no node.
fn stat(terminal: &Terminal, rdev: u64) -> Stat {
    let (uid, gid) = terminal.owner();
    let created = terminal.created();
    Stat {
        dev: crate::devpts::DEVPTS_DEV,
        ino: u64::from(terminal.index()) + 3,
        mode: 0o020000 | terminal.perm(),
        nlink: 1,
        uid,
        gid,
        rdev,
        size: 0,
        blocks: 0,
        atime: created,
        mtime: created,
        ctime: created,
        btime: Timespec::default(),
    }
}

impl FileOps for Master {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn read_at(&self, buf: &mut [u8], _offset: u64) -> Result<usize> {
        self.terminal.master_read(buf)
    }

    fn write_at(&self, buf: &[u8], _offset: u64) -> Result<usize> {
        self.terminal.master_write(buf)
    }

    fn seekable(&self) -> bool {
        false
    }

    fn stat(&self) -> Result<Stat> {
        Ok(stat(&self.terminal, crate::devpts::PTMX_RDEV))
    }

    fn poll(&self) -> PollEvents {
        self.terminal.master_poll()
    }

    fn wait_queue(&self) -> Option<&WaitQueue> {
        Some(&self.terminal.master_queue)
    }

    fn readable_bytes(&self) -> Result<usize> {
        Ok(self.terminal.master_readable())
    }

    fn is_terminal(&self) -> bool {
        true
    }

    fn release(&self, _flags: OpenFlags) {
        self.terminal.close_master();
    }
}

impl FileOps for Slave {
    fn as_any(&self) -> &dyn Any {
        self
    }

    /// Without a process there is no job control, and nothing blocks.
    fn read_at(&self, buf: &mut [u8], _offset: u64) -> Result<usize> {
        self.terminal.slave_read(None, self.generation, true, buf)
    }

    fn write_at(&self, buf: &[u8], _offset: u64) -> Result<usize> {
        self.terminal.slave_write(None, self.generation, buf)
    }

    fn seekable(&self) -> bool {
        false
    }

    fn stat(&self) -> Result<Stat> {
        Ok(stat(
            &self.terminal,
            crate::devpts::slave_rdev(self.terminal.index()),
        ))
    }

    fn poll(&self) -> PollEvents {
        self.terminal.slave_poll(self.generation)
    }

    fn wait_queue(&self) -> Option<&WaitQueue> {
        Some(&self.terminal.slave_queue)
    }

    fn readable_bytes(&self) -> Result<usize> {
        Ok(self.terminal.slave_readable())
    }

    fn is_terminal(&self) -> bool {
        true
    }

    fn release(&self, _flags: OpenFlags) {
        self.terminal.close_slave(self.generation);
    }
}
