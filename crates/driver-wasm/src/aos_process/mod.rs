//! `aos_process`: what this system adds to the guest ABI for shells, `clone`.
//!
//! WebAssembly has no `fork`: the native stack of a guest cannot be copied. What can be copied is
//! everything a guest keeps in its memory, and a shell needs no more, for its subshells begin at a
//! function of its own. So `clone` makes a second process with a copy of the caller's memory and
//! globals that begins at an exported entry with a function pointer and an argument out of that
//! memory. `docs/abi.md` has the contract.
//!
//! The parent makes the child's instance, on its own thread and before the process exists, so
//! that whatever is lacking is an error of the call and there never was a child; then the store
//! goes to the child's thread ([`child`]). The image of the module is in the new instance
//! already, shared copy-on-write, so only the pages that the parent has written are copied
//! ([`pages`]).

mod child;
mod pages;

use crate::call;
use crate::guest::{Done, Guest, Phase, view};
use crate::limits::Accounted;
use crate::run::Exports;
use child::{Child, Parcel};
use kernel::Errno;
use wasmtime::{
    Caller, Extern, ExternType, Instance, Linker, Module, ModuleExport, Mutability,
    PoolConcurrencyLimitError, Store, Trap, ValType,
};

/// Name of the memory.
const MEMORY: &str = "memory";
/// Name of the global that holds the stack pointer.
const STACK_POINTER: &str = "__stack_pointer";
/// Name of the function that a clone begins in.
const ENTRY: &str = "__aos_clone_entry";

/// What a module exports for [`clone`].
pub(crate) struct CloneExports {
    memory: ModuleExport,
    /// Every exported global that can change.
    globals: Vec<ModuleExport>,
    entry: ModuleExport,
    /// Whether the entry returns an exit status.
    has_status: bool,
}

impl CloneExports {
    /// Looks for them; an error says what is missing.
    pub(crate) fn find(module: &Module) -> Result<CloneExports, &'static str> {
        let export = |name: &str, lacking| module.get_export_index(name).ok_or(lacking);
        let Some(ExternType::Memory(_)) = module.get_export(MEMORY) else {
            return Err("no memory is exported as \"memory\"");
        };
        match module.get_export(STACK_POINTER) {
            Some(ExternType::Global(ty))
                if ty.mutability() == Mutability::Var && ty.content().is_i32() => {}
            _ => return Err("no mutable i32 is exported as \"__stack_pointer\""),
        }
        const NO_ENTRY: &str = "no function (i32, i32) or (i32, i32) -> i32 is exported as \
                                \"__aos_clone_entry\"";
        let Some(ExternType::Func(entry)) = module.get_export(ENTRY) else {
            return Err(NO_ENTRY);
        };
        let numbers = entry.params().chain(entry.results()).all(|ty| ty.is_i32());
        if !numbers || entry.params().len() != 2 || entry.results().len() > 1 {
            return Err(NO_ENTRY);
        }
        let mut globals = Vec::new();
        for item in module.exports() {
            if let ExternType::Global(ty) = item.ty()
                && ty.mutability() == Mutability::Var
            {
                if matches!(ty.content(), ValType::Ref(_)) {
                    return Err("an exported mutable global is a reference");
                }
                globals.push(export(item.name(), STACK_POINTER)?);
            }
        }
        Ok(CloneExports {
            memory: export(MEMORY, MEMORY)?,
            globals,
            entry: export(ENTRY, NO_ENTRY)?,
            has_status: entry.results().len() == 1,
        })
    }
}

/// Defines every function of the module.
pub(crate) fn link(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    linker.func_wrap(
        "aos_process",
        "clone",
        |mut caller: Caller<'_, Guest>, entry: u32, arg: u32, flags: u32, out: u32| {
            call::whole(&mut caller, |caller| clone(caller, entry, arg, flags, out))
        },
    )?;
    Ok(())
}

/// `clone(entry, arg, flags, pid*)`.
fn clone(caller: &mut Caller<'_, Guest>, entry: u32, arg: u32, flags: u32, out: u32) -> Done {
    // None are defined; a guest that asks for one must not get something else.
    if flags != 0 {
        return Err(Errno::EINVAL.into());
    }
    view(caller).memory.check(out, 4)?;
    let guest = caller.data();
    let task = guest.task.clone();
    let linked = guest.linked.clone();
    let exports = match (linked.clone_exports(), guest.phase) {
        (Ok(exports), Phase::Plain) => exports,
        (lacking, _) => {
            let lacking = lacking.err().unwrap_or("the module has a start function");
            tracing::debug!(pid = task.pid(), lacking, "cannot clone this program");
            return Err(Errno::ENOEXEC.into());
        }
    };
    let Some(Extern::Memory(memory)) = caller.get_module_export(&exports.memory) else {
        return Err(Errno::ENOEXEC.into());
    };
    // Before there is any: a guest at its limit must not take as much again for a while.
    let reserved = task.reserve_memory(memory.data_size(&*caller) as u64)?;
    let (store, instance) = copy(caller, exports)?;
    let child = Child {
        parcel: Parcel::pack(store),
        instance,
        entry,
        arg,
    };
    let pid = task.fork(Box::new(child), reserved)?;
    Ok(view(caller).memory.put_u32(out, pid)?)
}

/// Makes a second instance with the state of the caller's.
fn copy(
    caller: &mut Caller<'_, Guest>,
    exports: &CloneExports,
) -> kernel::Result<(Store<Guest>, Instance)> {
    let not_counted = Accounted::suspend();
    let guest = caller.data().for_clone();
    let linked = guest.linked.clone();
    let mut store = Store::new(caller.engine(), guest);
    store.limiter(|guest| &mut guest.limits);
    // No guest code runs here: this thread's stack may be nearly used up, and Wasmtime would give
    // the new store another full measure of it. There is none to run, and if there were, it would
    // trap at once.
    store.set_epoch_deadline(0);
    let instance = linked.pre().instantiate(&mut store).map_err(refusal)?;
    let exported = Exports {
        instance,
        linked: &linked,
    };
    exported.tell(&mut store).map_err(refusal)?;
    let (Some(Extern::Memory(from)), Some(Extern::Memory(to))) = (
        caller.get_module_export(&exports.memory),
        instance.get_module_export(&mut store, &exports.memory),
    ) else {
        return Err(Errno::ENOEXEC);
    };
    let more = from.size(&*caller).saturating_sub(to.size(&store));
    to.grow(&mut store, more).map_err(refusal)?;
    pages::copy(from.data(&*caller), to.data_mut(&mut store));
    for export in &exports.globals {
        let (Some(Extern::Global(from)), Some(Extern::Global(to))) = (
            caller.get_module_export(export),
            instance.get_module_export(&mut store, export),
        ) else {
            return Err(Errno::ENOEXEC);
        };
        let value = from.get(&mut *caller);
        to.set(&mut store, value).map_err(refusal)?;
    }
    drop(not_counted);
    Ok((store, instance))
}

/// The error number for what Wasmtime says when an instance cannot be had.
fn refusal(error: wasmtime::Error) -> Errno {
    if error.is::<PoolConcurrencyLimitError>() {
        Errno::EAGAIN
    } else if error.is::<Trap>() {
        Errno::ENOEXEC
    } else {
        tracing::debug!("no instance for a clone: {error:#}");
        Errno::ENOMEM
    }
}
