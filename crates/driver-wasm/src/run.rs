//! Running a program: instance, entry, and how its end becomes a process's end.

use crate::engine::Engine;
use crate::guest::{End, Guest, Phase, Strings, TaskSlot};
use crate::limits::{Accounted, MemoryLimits};
use crate::link::Linked;
use kernel::proctable::Signal;
use kernel::{Dir, Interrupt, Lookup, Outcome, Program, Task};
use std::rc::Rc;
use std::sync::Arc;
use wasmtime::{Extern, Instance, Store, StoreContextMut, Trap, UpdateDeadline};

/// Standard error, where a trap is reported.
const STDERR: i32 = 2;

/// One process image: a program that has not started.
pub(crate) struct WasmProgram {
    /// The engine.
    pub(crate) engine: &'static Engine,
    /// The compiled module.
    pub(crate) linked: Arc<Linked>,
}

impl Program for WasmProgram {
    fn run(self: Box<Self>, task: &Rc<Task>) -> Outcome {
        let engine = self.engine;
        let accounted = Accounted::new(task);
        task.set_interrupter(interrupter(engine));
        let end = start(engine, self.linked, task);
        drop(accounted);
        match end {
            Ok(()) => Outcome::Exit(0),
            Err(error) => outcome(task, &error),
        }
    }
}

/// What the kernel calls to make a guest look at its signals: one for all, as all share an engine.
pub(crate) fn interrupter(engine: &'static Engine) -> Arc<dyn Fn() + Send + Sync> {
    use std::sync::OnceLock;
    static INTERRUPTER: OnceLock<Arc<dyn Fn() + Send + Sync>> = OnceLock::new();
    INTERRUPTER
        .get_or_init(|| Arc::new(|| engine.interrupt()))
        .clone()
}

/// Instantiates the program and runs it until it ends, by whatever way.
fn start(engine: &'static Engine, linked: Arc<Linked>, task: &Rc<Task>) -> wasmtime::Result<()> {
    let (strings, preopens) = surroundings(task);
    let guest = Guest {
        task: TaskSlot::of(task),
        engine,
        linked: linked.clone(),
        strings: Arc::new(strings),
        preopens: preopens.into(),
        open_mode: None,
        open_direct: false,
        plain_preopens: false,
        limits: MemoryLimits,
        phase: Phase::Making,
        memory: None,
        trampoline: None,
    };
    let mut store = Store::new(engine.inner(), guest);
    store.limiter(|guest| &mut guest.limits);
    // A deadline that has passed already: the first function that runs, if one does before the
    // instance is complete, is the module's start function, and comes by the callback.
    store.set_epoch_deadline(0);
    store.epoch_deadline_callback(on_interrupt);
    let instance = linked.pre().instantiate(&mut store)?;
    let exports = Exports {
        instance,
        linked: &linked,
    };
    exports.tell(&mut store)?;
    store.set_epoch_deadline(1);
    // A signal that came before the deadline was set has made no epoch of ours pass.
    task.checkpoint().map_err(End::from)?;
    exports.tell_initial_mask(&mut store)?;
    exports.start(&mut store)
}

/// Called in the midst of guest code after [`Engine::interrupt`]. Handlers wait for the next host
/// call, for guests do not expect them anywhere else.
pub(crate) fn on_interrupt(
    mut context: StoreContextMut<'_, Guest>,
) -> wasmtime::Result<UpdateDeadline> {
    let guest = context.data_mut();
    if guest.phase == Phase::Making {
        guest.phase = Phase::Starting;
    }
    guest.task.checkpoint().map_err(End::from)?;
    Ok(UpdateDeadline::Continue(1))
}

/// The exports of an instance that the host uses.
pub(crate) struct Exports<'l> {
    pub(crate) instance: Instance,
    pub(crate) linked: &'l Linked,
}

impl Exports<'_> {
    /// Completes the guest's state once there is an instance.
    pub(crate) fn tell(&self, store: &mut Store<Guest>) -> wasmtime::Result<()> {
        let memory = self.memory(store);
        let trampoline = self.trampoline(store)?;
        let guest = store.data_mut();
        guest.phase = guest.phase.complete();
        guest.memory = memory;
        guest.trampoline = trampoline;
        Ok(())
    }

    fn memory(&self, store: &mut Store<Guest>) -> Option<wasmtime::Memory> {
        match self
            .instance
            .get_module_export(store, self.linked.memory()?)
        {
            Some(Extern::Memory(memory)) => Some(memory),
            _ => None,
        }
    }

    pub(crate) fn function(
        &self,
        store: &mut Store<Guest>,
        export: &wasmtime::ModuleExport,
    ) -> Option<wasmtime::Func> {
        self.instance.get_module_export(store, export)?.into_func()
    }

    fn trampoline(
        &self,
        store: &mut Store<Guest>,
    ) -> wasmtime::Result<Option<wasmtime::TypedFunc<u32, ()>>> {
        let Some(export) = self.linked.trampoline() else {
            return Ok(None);
        };
        let Some(function) = self.function(store, export) else {
            return Ok(None);
        };
        Ok(Some(function.typed(&*store)?))
    }

    /// Tells a guest that keeps a mask of its own which signals it starts with blocked.
    fn tell_initial_mask(&self, store: &mut Store<Guest>) -> wasmtime::Result<()> {
        let mask = store.data().task.sigmask();
        let Some(export) = self.linked.initial_mask().filter(|_| !mask.is_empty()) else {
            return Ok(());
        };
        let Some(function) = self.function(store, export) else {
            return Ok(());
        };
        let function = function.typed::<(u32, u32), u32>(&*store)?;
        // The guest's answer is its own affair: it runs without knowing its mask then.
        function
            .call(store, (mask.bits() as u32, (mask.bits() >> 32) as u32))
            .map(drop)
    }

    fn start(&self, store: &mut Store<Guest>) -> wasmtime::Result<()> {
        let Some(function) = self.function(store, self.linked.start()) else {
            return Ok(());
        };
        function.typed::<(), ()>(&*store)?.call(store, ())
    }
}

/// Arguments, environment and directories as the guest will see them.
///
/// A guest knows its working directory from `PWD` alone, so `PWD` must name it. A name that leads
/// there over symbolic links is as good and is kept, as shells keep it.
fn surroundings(task: &Task) -> (Strings, Vec<Vec<u8>>) {
    const PWD: &[u8] = b"PWD=";
    let cwd = task.cwd();
    let mut env: Vec<Vec<u8>> = task.environ().to_vec();
    let position = env.iter().rposition(|entry| entry.starts_with(PWD));
    let kept = position
        .and_then(|at| env.get(at)?.get(PWD.len()..))
        .filter(|pwd| pwd.starts_with(b"/") && (**pwd == *cwd || same_place(task, pwd)))
        .map(<[u8]>::to_vec);
    let name = match kept {
        Some(name) => name,
        None => {
            let entry = [PWD, &cwd].concat();
            match position.and_then(|at| env.get_mut(at)) {
                Some(slot) => *slot = entry,
                None => env.push(entry),
            }
            cwd
        }
    };
    let root = || b"/".to_vec();
    let preopens = if name == b"/" {
        vec![root()]
    } else {
        vec![name, root()]
    };
    (
        Strings {
            argv: task.argv(),
            env,
        },
        preopens,
    )
}

/// Whether a path leads to the working directory.
fn same_place(task: &Task, path: &[u8]) -> bool {
    let here = task.fstatat(Dir::Cwd, b".", Lookup::FOLLOW);
    let there = task.fstatat(Dir::Cwd, path, Lookup::FOLLOW);
    matches!((here, there), (Ok(a), Ok(b)) if (a.dev, a.ino) == (b.dev, b.ino))
}

/// What became of a guest that did not return from its entry.
pub(crate) fn outcome(task: &Task, error: &wasmtime::Error) -> Outcome {
    if let Some(end) = error.downcast_ref::<End>() {
        return match end {
            End::Exit(status) => Outcome::Exit(*status),
            End::Exec => Outcome::Exec,
            End::Killed(signal) => Outcome::Killed(*signal),
        };
    }
    let (signal, reason) = match error.downcast_ref::<Trap>() {
        Some(trap) => (signal_of(*trap), format!("wasm trap: {trap}")),
        // No room for its memory or tables: what execve(2) kills a process for once it is too
        // late to fail.
        None => (Signal::KILL, format!("cannot start: {error:#}")),
    };
    let message = format!("{}: {reason}", String::from_utf8_lossy(comm(&task.argv())));
    task.fault(&message);
    // A guest that cannot be told, because it has closed the stream or nobody reads it, dies all
    // the same. A signal that arrives while the stream is full may name another cause of death.
    let _ = task.write(STDERR, format!("{message}\n").as_bytes());
    match task.checkpoint() {
        Err(Interrupt::Die(Signal::KILL)) => Outcome::Killed(Signal::KILL),
        _ => Outcome::Killed(signal),
    }
}

/// The name that messages about a process begin with.
fn comm(argv: &[Vec<u8>]) -> &[u8] {
    argv.first()
        .and_then(|name| name.rsplit(|byte| *byte == b'/').next())
        .unwrap_or(b"wasm")
}

/// The signal a processor's fault of that kind would raise.
fn signal_of(trap: Trap) -> Signal {
    match trap {
        Trap::UnreachableCodeReached => Signal::ABRT,
        Trap::IntegerDivisionByZero | Trap::IntegerOverflow | Trap::BadConversionToInteger => {
            Signal::FPE
        }
        Trap::StackOverflow | Trap::MemoryOutOfBounds => Signal::SEGV,
        Trap::HeapMisaligned => Signal::BUS,
        // Calls through a table that lead nowhere, and whatever kinds are still to come.
        _ => Signal::ILL,
    }
}
