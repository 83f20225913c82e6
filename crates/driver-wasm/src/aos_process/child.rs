//! The child's side of a clone: a store made on one thread and run on another.

use crate::guest::{Guest, Phase, TaskSlot};
use crate::limits::{Accounted, MemoryLimits};
use crate::run::{Exports, interrupter, on_interrupt, outcome};
use kernel::{Outcome, Program, Task};
use std::rc::Rc;
use wasmtime::{Instance, Store};

impl Guest {
    /// State for a clone of this guest: what it keeps across `fork`, and no task yet.
    pub(super) fn for_clone(&self) -> Guest {
        Guest {
            task: TaskSlot::EMPTY,
            engine: self.engine,
            linked: self.linked.clone(),
            strings: self.strings.clone(),
            preopens: self.preopens.clone(),
            open_mode: self.open_mode,
            open_direct: self.open_direct,
            plain_preopens: self.plain_preopens,
            limits: MemoryLimits,
            phase: Phase::Making,
            memory: None,
            trampoline: None,
        }
    }
}

/// A store on its way to the thread of its process.
pub(super) struct Parcel(Store<Guest>);

// SAFETY: a `Store<T>` may go to another thread if `T` may. The one part of `Guest` that may not
// is the task in its slot, and `pack` has emptied it; that all others may is checked by
// `only_the_task_is_bound`. Nothing outside can put a task in before `unpack` gives the store out
// on the thread it will stay on.
unsafe impl Send for Parcel {}

impl Parcel {
    /// Takes a store along without its task.
    pub(super) fn pack(mut store: Store<Guest>) -> Parcel {
        store.data_mut().task = TaskSlot::EMPTY;
        Parcel(store)
    }

    /// Gives the store to the task of this thread.
    fn unpack(self, task: &Rc<Task>) -> Store<Guest> {
        let mut store = self.0;
        store.data_mut().task = TaskSlot::of(task);
        store
    }
}

/// Does not compile when a part of [`Guest`] besides the task is bound to its thread.
#[expect(dead_code, reason = "compiling it is its use")]
fn only_the_task_is_bound(guest: Guest) {
    fn may_move<T: Send>(_: T) {}
    let Guest {
        task: _,
        engine,
        linked,
        strings,
        preopens,
        open_mode,
        open_direct,
        plain_preopens,
        limits,
        phase,
        memory,
        trampoline,
    } = guest;
    may_move((engine, linked, strings, preopens, open_mode, open_direct));
    may_move((plain_preopens, limits, phase, memory, trampoline));
}

/// The image of a process that was cloned, not started yet.
pub(super) struct Child {
    pub(super) parcel: Parcel,
    pub(super) instance: Instance,
    pub(super) entry: u32,
    pub(super) arg: u32,
}

impl Program for Child {
    fn run(self: Box<Self>, task: &Rc<Task>) -> Outcome {
        let accounted = Accounted::new(task);
        let end = self.enter(task);
        drop(accounted);
        match end {
            Ok(status) => Outcome::Exit(status),
            Err(error) => outcome(task, &error),
        }
    }
}

impl Child {
    /// Runs the clone to its end; gives its exit status if it returned.
    fn enter(self, task: &Rc<Task>) -> wasmtime::Result<i32> {
        let Child {
            parcel,
            instance,
            entry,
            arg,
        } = self;
        let mut store = parcel.unpack(task);
        task.set_interrupter(interrupter(store.data().engine));
        store.epoch_deadline_callback(on_interrupt);
        store.set_epoch_deadline(1);
        // A signal that came before the deadline was set has made no epoch of ours pass.
        task.checkpoint().map_err(crate::guest::End::from)?;
        let linked = store.data().linked.clone();
        let exported = Exports {
            instance,
            linked: &linked,
        };
        let Ok(exports) = linked.clone_exports() else {
            return Ok(0);
        };
        let Some(function) = exported.function(&mut store, &exports.entry) else {
            return Ok(0);
        };
        if exports.has_status {
            function
                .typed::<(u32, u32), i32>(&store)?
                .call(&mut store, (entry, arg))
        } else {
            function
                .typed::<(u32, u32), ()>(&store)?
                .call(&mut store, (entry, arg))?;
            Ok(0)
        }
    }
}
