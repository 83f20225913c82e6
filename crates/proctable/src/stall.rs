//! When a full pipe will stay full.
//!
//! The published shell runs the stages of some pipelines one after the other, and waits for the
//! child of a `$(…)` before it reads what the child wrote. On a machine with bounded pipes such a
//! child never ends. So a writer that has been blocked for some milliseconds asks whether anybody
//! could still come to read: if every process that holds the read end is the writer itself or is
//! waiting for a child, nobody will, and the pipe is grown (up to `pipe.max_bytes`). In every
//! other case the writer waits, as it should.

use crate::pipe::{Pipe, PipeEnd};
use crate::process::Process;
use crate::table::ProcTable;
use std::collections::BTreeSet;
use std::sync::Arc;

impl ProcTable {
    /// Whether nobody but `writer` and processes that wait for children can read from `pipe`.
    ///
    /// A read end that is in no descriptor table (held by the host, or on its way through a
    /// socket) counts as somebody who may read.
    pub fn is_stalled(&self, pipe: &Pipe, writer: &Process) -> bool {
        let mut ends = BTreeSet::new();
        for process in self.list().iter().filter(|p| p.is_alive()) {
            let mut holds = false;
            process.fds().for_each(|file| {
                if let Some(end) = PipeEnd::of(file)
                    && end.reads()
                    && std::ptr::eq(Arc::as_ptr(end.pipe()), pipe)
                {
                    holds = true;
                    ends.insert(file.id());
                }
            });
            if holds && process.pid() != writer.pid() && !process.in_wait() {
                return false;
            }
        }
        let readers = pipe.readers();
        readers > 0 && ends.len() == readers
    }
}
