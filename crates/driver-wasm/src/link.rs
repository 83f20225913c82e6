//! Which import means which function.
//!
//! One linker has every function of the ABI in its present form and serves nearly every module.
//! The first published generation of guests imports three of them under the same names with other
//! types; a module that does gets a linker of its own in which those are replaced.

use crate::aos_process::CloneExports;
use crate::engine::Engine;
use crate::guest::Guest;
use crate::{
    aos_process, host_fs, host_net, host_process, host_system, host_tty, host_user, preview1,
};
use wasmtime::{
    ExternType, FuncType, InstancePre, Linker, Module, ModuleExport, UnknownImportError,
};

/// Name of the function that a program starts in.
const START: &str = "_start";
/// Name of the memory.
const MEMORY: &str = "memory";
/// Name of the function that runs a signal handler of the guest.
const TRAMPOLINE: &str = "__wasi_signal_trampoline";
/// Name of the function that tells the guest the signal mask it inherited.
const INITIAL_MASK: &str = "__agentos_set_initial_sigmask";

/// Why a module cannot run here.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LinkError {
    /// It imports something that does not exist.
    #[error("unknown import {module:?} {name:?}")]
    UnknownImport {
        /// The imported module.
        module: String,
        /// The imported name.
        name: String,
    },
    /// It imports something as a type that it never had.
    #[error("incompatible import: {0}")]
    ImportType(String),
    /// It has no `_start`, so it is a library.
    #[error("no function \"_start\" without parameters and results is exported")]
    NoStart,
    /// The functions of the ABI could not be defined.
    #[error("cannot define host functions: {0}")]
    Setup(String),
}

/// A compiled module with its imports resolved, ready to be instantiated for any process.
pub struct Linked {
    pre: InstancePre<Guest>,
    start: ModuleExport,
    memory: Option<ModuleExport>,
    trampoline: Option<ModuleExport>,
    initial_mask: Option<ModuleExport>,
    clone: Result<CloneExports, &'static str>,
}

impl Linked {
    /// What instances are made from.
    pub(crate) fn pre(&self) -> &InstancePre<Guest> {
        &self.pre
    }

    /// `_start`.
    pub(crate) fn start(&self) -> &ModuleExport {
        &self.start
    }

    /// The exported memory.
    pub(crate) fn memory(&self) -> Option<&ModuleExport> {
        self.memory.as_ref()
    }

    /// `__wasi_signal_trampoline`, if it has the right type.
    pub(crate) fn trampoline(&self) -> Option<&ModuleExport> {
        self.trampoline.as_ref()
    }

    /// `__agentos_set_initial_sigmask`, if it has the right type.
    pub(crate) fn initial_mask(&self) -> Option<&ModuleExport> {
        self.initial_mask.as_ref()
    }

    /// What clones are made with, or what the module lacks for it.
    pub(crate) fn clone_exports(&self) -> Result<&CloneExports, &'static str> {
        self.clone.as_ref().map_err(|lacking| *lacking)
    }

    /// Bytes of compiled code and data.
    pub fn code_bytes(&self) -> usize {
        let range = self.pre.module().image_range();
        range.end as usize - range.start as usize
    }
}

/// The linkers of an engine.
pub(crate) struct Linkers {
    present: Linker<Guest>,
}

impl Linkers {
    /// Defines every host function.
    pub(crate) fn new(engine: &Engine) -> Result<Linkers, LinkError> {
        let mut linker = Linker::new(engine.inner());
        let mut define = || -> wasmtime::Result<()> {
            preview1::link(&mut linker)?;
            host_process::link(&mut linker)?;
            host_fs::link(&mut linker)?;
            host_user::link(&mut linker)?;
            host_tty::link(&mut linker)?;
            host_system::link(&mut linker)?;
            host_net::link(&mut linker)?;
            aos_process::link(&mut linker)
        };
        define().map_err(setup)?;
        Ok(Linkers { present: linker })
    }

    /// Resolves the imports of a module.
    pub(crate) fn link(&self, module: &Module) -> Result<Linked, LinkError> {
        let first_generation: Vec<_> = module
            .imports()
            .filter(|import| is_first_generation(import))
            .collect();
        let pre = if first_generation.is_empty() {
            self.present.instantiate_pre(module)
        } else {
            let mut linker = self.present.clone();
            linker.allow_shadowing(true);
            for import in first_generation {
                match import.name() {
                    "proc_waitpid" => host_process::link_first_generation(&mut linker),
                    name => host_fs::link_first_generation(&mut linker, name),
                }
                .map_err(setup)?;
            }
            linker.instantiate_pre(module)
        };
        let pre = pre.map_err(|error| match error.downcast_ref::<UnknownImportError>() {
            Some(unknown) => LinkError::UnknownImport {
                module: unknown.module().into(),
                name: unknown.name().into(),
            },
            None => LinkError::ImportType(format!("{error:#}")),
        })?;
        let function = |name: &str, params: usize, results: usize| {
            let export = module.get_export_index(name)?;
            let ty = module.get_export(name)?;
            let ty: &FuncType = ty.func()?;
            let numbers = |mut types: Box<dyn Iterator<Item = wasmtime::ValType> + '_>| {
                types.all(|ty| ty.is_i32())
            };
            let fits = ty.params().len() == params
                && ty.results().len() == results
                && numbers(Box::new(ty.params()))
                && numbers(Box::new(ty.results()));
            fits.then_some(export)
        };
        let memory = match module.get_export(MEMORY) {
            Some(ExternType::Memory(_)) => module.get_export_index(MEMORY),
            _ => None,
        };
        Ok(Linked {
            start: function(START, 0, 0).ok_or(LinkError::NoStart)?,
            memory,
            trampoline: function(TRAMPOLINE, 1, 0),
            initial_mask: function(INITIAL_MASK, 2, 1),
            clone: CloneExports::find(module),
            pre,
        })
    }
}

fn setup(error: wasmtime::Error) -> LinkError {
    LinkError::Setup(format!("{error:#}"))
}

/// Whether an import is one of the three that the first generation has with three parameters.
fn is_first_generation(import: &wasmtime::ImportType<'_>) -> bool {
    let known = matches!(
        (import.module(), import.name()),
        ("host_process", "proc_waitpid") | ("host_fs", "path_mode" | "chmod")
    );
    known && matches!(import.ty(), ExternType::Func(ty) if ty.params().len() == 3)
}
