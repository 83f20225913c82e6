//! Bounds of what an instance may hold.
//!
//! The kernel counts guest memory per process and per virtual machine. Wasmtime asks its limiter
//! on the guest's own thread, but wants one that could move to another, which a task cannot; so
//! the limiter finds the task of its thread in a thread-local variable.

use kernel::Task;
use std::cell::RefCell;
use std::rc::Rc;
use wasmtime::ResourceLimiter;

/// Most elements the tables of a guest may grow to.
const MAX_TABLE_ELEMENTS: usize = 1_000_000;

thread_local! {
    static RUNNING: RefCell<Option<Rc<Task>>> = const { RefCell::new(None) };
}

/// Says whose memory is counted on this thread until it is dropped.
pub(crate) struct Accounted {
    before: Option<Rc<Task>>,
}

impl Accounted {
    /// Starts counting for `task`.
    pub(crate) fn new(task: &Rc<Task>) -> Accounted {
        Accounted {
            before: RUNNING.replace(Some(task.clone())),
        }
    }

    /// Counts nothing for now: what is made belongs to a process that does not exist yet, and is
    /// charged to it by whoever makes it.
    pub(crate) fn suspend() -> Accounted {
        Accounted {
            before: RUNNING.take(),
        }
    }
}

impl Drop for Accounted {
    fn drop(&mut self) {
        RUNNING.set(self.before.take());
    }
}

/// The memory a process may have. `memory.grow` beyond it answers -1, as a full machine would; a
/// module that needs more from the start does not start.
pub(crate) struct MemoryLimits;

impl ResourceLimiter for MemoryLimits {
    fn memory_growing(
        &mut self,
        _current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        // What the module itself forbids fails anyway and must not be charged.
        let possible = maximum.is_none_or(|maximum| desired <= maximum);
        Ok(possible
            && RUNNING.with_borrow(|task| {
                task.as_ref()
                    .is_none_or(|task| task.charge_memory(desired as u64))
            }))
    }

    fn table_growing(
        &mut self,
        _current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        Ok(desired <= MAX_TABLE_ELEMENTS)
    }

    fn memories(&self) -> usize {
        1
    }

    fn instances(&self) -> usize {
        1
    }

    fn tables(&self) -> usize {
        1
    }
}
