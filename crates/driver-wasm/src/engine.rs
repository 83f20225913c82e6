//! The one Wasmtime engine of the host process, and how it is tuned.
//!
//! All virtual machines of a process share an engine, so a module is compiled once and its code
//! and its pool of instances serve everyone. The settings are chosen for two things: a spawn that
//! costs little (pooling allocator, copy-on-write memory, no back traces) and a guest that cannot
//! take anything with it (epochs, a bounded stack, guard pages).

use std::hash::{Hash, Hasher};
use std::sync::OnceLock;
use wasmtime::{
    Config, Enabled, InstanceAllocationStrategy, OptLevel, PoolingAllocationConfig, Strategy,
};

/// Stack a guest may use, in bytes of native stack. Beyond it the guest traps and dies of
/// `SIGSEGV`. The threads that run guests must have this much and [`HOST_STACK`] more.
pub const MAX_WASM_STACK: usize = 4 << 20;

/// Native stack that must be left for the host calls of a guest that stands at its own limit.
pub const HOST_STACK: usize = 1 << 20;

/// Instances that may live at once in one host process.
pub const MAX_INSTANCES: u32 = 4096;

/// Address space of one linear memory: all that 32 bits reach, so that compiled code needs no
/// bounds check; the guard behind it catches what a constant offset adds.
const MEMORY_RESERVATION: u64 = 4 << 30;

/// Pages of a linear memory (its dirty ones first) that are reset by copying instead of being
/// given back to the host, which makes the next spawn in that slot free of page faults. A page
/// costs ten times as much to get as to copy, so what a shell's clone may have (2 MiB of live
/// state, and its stack) fits in.
const MEMORY_KEEP_RESIDENT: usize = 5 << 19;

/// The same for tables.
const TABLE_KEEP_RESIDENT: usize = 32 << 10;

/// Idle slots that keep a program's memory image mapped.
const WARM_SLOTS: u32 = 256;

/// Most elements of a table; the largest published program has 1,937.
const TABLE_ELEMENTS: usize = 100_000;

/// Why there is no engine.
#[derive(Clone, Debug, thiserror::Error)]
#[error("cannot set up the WebAssembly engine: {0}")]
pub struct EngineError(String);

/// The engine and the identity of the code it makes.
pub struct Engine {
    inner: wasmtime::Engine,
    tag: [u8; 32],
}

impl Engine {
    /// The engine of this process, made at first use.
    pub fn shared() -> Result<&'static Engine, EngineError> {
        static ENGINE: OnceLock<Result<Engine, EngineError>> = OnceLock::new();
        ENGINE
            .get_or_init(Engine::new)
            .as_ref()
            .map_err(Clone::clone)
    }

    fn new() -> Result<Engine, EngineError> {
        // A host with little address space (a container with RLIMIT_AS, say) cannot hold the full
        // pool. Fewer slots come next; without any pool spawns are slower, but work.
        let mut last = None;
        for slots in [MAX_INSTANCES, MAX_INSTANCES / 8, 0] {
            match wasmtime::Engine::new(&config(slots)) {
                Ok(inner) => {
                    if slots < MAX_INSTANCES {
                        tracing::warn!(slots, "little address space: smaller pool of instances");
                    }
                    let tag = compatibility(&inner);
                    return Ok(Engine { inner, tag });
                }
                Err(error) => last = Some(format!("{error:#}")),
            }
        }
        Err(EngineError(last.unwrap_or_default()))
    }

    /// The Wasmtime engine.
    pub fn inner(&self) -> &wasmtime::Engine {
        &self.inner
    }

    /// Names the compiler, its version and all settings that compiled code depends on. Code of an
    /// engine with another tag must not be loaded.
    pub fn tag(&self) -> &[u8; 32] {
        &self.tag
    }

    /// Makes every running guest look at its signals soon, even one that makes no calls. The
    /// guests that have none go on; nothing ticks while nobody asks.
    pub fn interrupt(&self) {
        self.inner.increment_epoch();
    }
}

fn config(slots: u32) -> Config {
    let mut config = Config::new();
    config
        .strategy(Strategy::Cranelift)
        .cranelift_opt_level(OptLevel::Speed)
        .parallel_compilation(true)
        .epoch_interruption(true)
        .max_wasm_stack(MAX_WASM_STACK)
        // Nothing runs on such stacks here, but Wasmtime insists that a guest would fit.
        .async_stack_size(MAX_WASM_STACK + HOST_STACK)
        .memory_reservation(MEMORY_RESERVATION)
        .memory_init_cow(true)
        // A guest's back trace would be of no use without names, and makes every trap dear.
        .wasm_backtrace_max_frames(None)
        .native_unwind_info(false)
        .generate_address_map(false)
        // On by default, and not part of the guest ABI.
        .wasm_multi_memory(false)
        .wasm_memory64(false)
        .wasm_tail_call(false)
        .wasm_relaxed_simd(false)
        .wasm_simd(true)
        .wasm_bulk_memory(true)
        .wasm_multi_value(true);
    if slots == 0 {
        config.allocation_strategy(InstanceAllocationStrategy::OnDemand);
        return config;
    }
    let mut pool = PoolingAllocationConfig::new();
    pool.total_core_instances(slots)
        .total_memories(slots)
        .total_tables(slots)
        .max_memories_per_module(1)
        .max_tables_per_module(1)
        .max_memory_size(MEMORY_RESERVATION as usize)
        .table_elements(TABLE_ELEMENTS)
        .max_core_instance_size(1 << 20)
        .max_unused_warm_slots(WARM_SLOTS)
        .linear_memory_keep_resident(MEMORY_KEEP_RESIDENT)
        .table_keep_resident(TABLE_KEEP_RESIDENT)
        .pagemap_scan(Enabled::Auto);
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    config
}

/// A digest over everything Wasmtime says compiled code depends on.
fn compatibility(engine: &wasmtime::Engine) -> [u8; 32] {
    struct Digest(blake3::Hasher);
    impl Hasher for Digest {
        fn write(&mut self, bytes: &[u8]) {
            self.0.update(bytes);
        }
        fn finish(&self) -> u64 {
            0
        }
    }
    let mut digest = Digest(blake3::Hasher::new());
    engine.precompile_compatibility_hash().hash(&mut digest);
    std::env::consts::ARCH.hash(&mut digest);
    digest.0.finalize().into()
}
