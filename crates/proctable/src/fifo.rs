//! Named pipes: one pipe per inode while somebody has it open (`fifo_open`, fifo(7)).
//!
//! Opening takes two steps, because an open that must wait for the other side has to be known to
//! that side while it waits. [`FifoTable::open`] adds the end and never blocks;
//! [`complete_open`] then waits where a blocking open waits. Dropping the open file in between,
//! as after `EINTR`, takes the end away again.

use crate::block::block_on;
use crate::pipe::{Pipe, PipeEnd, PipeLimits};
use crate::process::Process;
use crate::sync::lock;
use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex, Weak};
use vfs_core::errno::{Errno, Result};
use vfs_core::file::OpenFile;
use vfs_core::types::{Cred, OpenFlags};
use vfs_core::wait::PollEvents;

/// The fifos of one VM that are open, by device and inode number.
#[derive(Default)]
pub struct FifoTable {
    open: Mutex<Fifos>,
}

/// Guarded by `FifoTable::open`.
#[derive(Default)]
struct Fifos {
    map: FxHashMap<(u64, u64), Weak<Pipe>>,
    /// Size at which dead entries are swept out.
    sweep_at: usize,
}

impl FifoTable {
    /// No fifo is open.
    pub fn new() -> FifoTable {
        FifoTable::default()
    }

    /// Opens the fifo of inode `ino` on device `dev` for the access mode in `flags`, without
    /// blocking: `ENXIO` for writing only with `O_NONBLOCK` when nobody reads, `ENFILE` at the
    /// limit of pipes. The permission of the inode was checked.
    pub fn open(
        &self,
        limits: &PipeLimits,
        (dev, ino): (u64, u64),
        flags: OpenFlags,
        cred: &Cred,
    ) -> Result<Arc<PipeEnd>> {
        let mut fifos = lock(&self.open);
        // A pipe whose ends are all closed is over, even while somebody still has a hand on it.
        let alive = fifos
            .map
            .get(&(dev, ino))
            .and_then(Weak::upgrade)
            .filter(|pipe| pipe.readers() + pipe.writers() > 0);
        let write_only = flags.writable() && !flags.readable();
        let no_reader = alive.as_ref().is_none_or(|pipe| pipe.readers() == 0);
        if write_only && flags.contains(OpenFlags::NONBLOCK) && no_reader {
            return Err(Errno::ENXIO);
        }
        let pipe = match alive {
            Some(pipe) => pipe,
            None => {
                let pipe = Pipe::new(limits, cred)?;
                if fifos.map.len() >= fifos.sweep_at {
                    fifos.map.retain(|_, pipe| pipe.strong_count() > 0);
                    fifos.sweep_at = (fifos.map.len() * 2).max(16);
                }
                fifos.map.insert((dev, ino), Arc::downgrade(&pipe));
                pipe
            }
        };
        // Under the table's lock, so that the pipe is not taken for over meanwhile.
        Ok(Arc::new(pipe.open_end(flags)))
    }
}

/// Finishes opening `file`: if it is a fifo opened for one direction without `O_NONBLOCK`, waits
/// until the other side has been opened too. `EINTR` when a signal can be delivered. Every other
/// file is open already.
pub fn complete_open(process: &Process, file: &OpenFile) -> Result<()> {
    let Some(end) = PipeEnd::of(file) else {
        return Ok(());
    };
    if file.flags().contains(OpenFlags::NONBLOCK) {
        return Ok(());
    }
    let queues = [(end.pipe().wait_queue(), PollEvents::all())];
    block_on(process, &queues, None, || {
        if end.met_partner() {
            Ok(())
        } else {
            Err(Errno::EAGAIN)
        }
    })
}
