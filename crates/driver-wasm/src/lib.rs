//! Runs WebAssembly programs against the kernel's system calls on Wasmtime.
