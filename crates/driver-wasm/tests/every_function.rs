//! Every documented function exists with its documented type, and none can be hurt by arguments.

mod common;

use common::Machine;
use common::signatures::{SIGNATURES, wat_type};
use driver_wasm::{LinkError, LoadError, WasmDriver};
use kernel::proctable::ExitStatus;
use std::fmt::Write;

fn module(imports: &[(&str, &str, &str)]) -> Vec<u8> {
    let mut wat = String::from("(module\n");
    for (index, (module, name, ty)) in imports.iter().enumerate() {
        writeln!(
            wat,
            "(import {module:?} {name:?} (func $f{index} {}))",
            wat_type(ty)
        )
        .unwrap();
    }
    wat += "(memory (export \"memory\") 1) (func (export \"_start\")))";
    wat::parse_str(wat).unwrap()
}

#[test]
fn all_of_them_link() {
    let count = |name: &str| {
        SIGNATURES
            .iter()
            .filter(|(module, ..)| *module == name)
            .count()
    };
    assert_eq!(count("wasi_snapshot_preview1"), 40);
    assert_eq!(count("host_fs"), 38);
    let driver = WasmDriver::new().unwrap();
    driver.warm(&module(SIGNATURES)).unwrap();
    let unstable: Vec<_> = SIGNATURES
        .iter()
        .filter(|(module, ..)| *module == "wasi_snapshot_preview1")
        .map(|(_, name, ty)| ("wasi_unstable", *name, *ty))
        .collect();
    driver.warm(&module(&unstable)).unwrap();
}

#[test]
fn the_first_generation_links() {
    let driver = WasmDriver::new().unwrap();
    let old = [
        ("host_fs", "chmod", "iii:i"),
        ("host_fs", "path_mode", "iii:i"),
        ("host_process", "proc_waitpid", "iii:i"),
        ("host_process", "proc_spawn", "iiiiiiiiii:i"),
    ];
    driver.warm(&module(&old)).unwrap();
    // Each for itself, beside the others as they are now.
    for function in &old[..3] {
        let mut mixed: Vec<_> = SIGNATURES
            .iter()
            .copied()
            .filter(|(module, name, _)| (*module, *name) != (function.0, function.1))
            .collect();
        mixed.push(*function);
        driver.warm(&module(&mixed)).unwrap();
    }
}

#[test]
fn unknown_imports_are_refused_by_name() {
    let driver = WasmDriver::new().unwrap();
    let refused = driver
        .warm(&module(&[("host_process", "proc_fork", ":i")]))
        .unwrap_err();
    assert!(
        matches!(&refused, LoadError::Link(LinkError::UnknownImport { module, name })
            if module == "host_process" && name == "proc_fork"),
        "{refused}"
    );
    let refused = driver
        .warm(&module(&[("host_user", "getuid", "ii:i")]))
        .unwrap_err();
    assert!(
        matches!(refused, LoadError::Link(LinkError::ImportType(_))),
        "{refused}"
    );
    for wat in [
        "(module)",
        "(module (func (export \"_start\") (param i32)))",
        "(module (memory (export \"_start\") 1))",
    ] {
        let refused = driver.warm(&wat::parse_str(wat).unwrap()).unwrap_err();
        assert!(
            matches!(refused, LoadError::Link(LinkError::NoStart)),
            "{wat}: {refused}"
        );
    }
    let refused = driver.warm(b"\0asm\x0d\0\x01\0").unwrap_err();
    assert!(matches!(refused, LoadError::NotAModule), "{refused}");
    let refused = driver.warm(b"\0asm\x01\0\0\0\xff\xff").unwrap_err();
    assert!(matches!(refused, LoadError::Invalid(_)), "{refused}");
}

/// Numbers that are at the edge of something.
const EDGES: &[i64] = &[
    0,
    1,
    2,
    3,
    5,
    7,
    64,
    255,
    1023,
    1024,
    4096,
    65_530,
    65_535,
    65_536,
    131_072,
    0x4000_0003,
    0x4000_0004,
    0x7fff_ffff,
    -1,
    -2,
    -100,
    i32::MIN as i64,
    i64::MAX,
    i64::MIN,
];

/// Calls every function a few hundred times with arguments at random from [`EDGES`]. Each call may
/// answer what it likes; the process must come to an end by itself and the host must live.
#[test]
fn no_arguments_hurt_the_host() {
    // They wait for ever when asked to, end the program, or take the descriptors away that the
    // test writes to; spawning and exec only find an empty name.
    let left_out = [
        "proc_exit",
        "sleep_ms",
        "proc_closefrom",
        "proc_kill",
        "poll_oneoff",
        "proc_ppoll_v1",
        "net_poll",
        "read",
        "proc_itimer_real",
        "proc_setrlimit",
    ];
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let machine = Machine::new();
    for round in 0..40 {
        let mut wat = String::from("(module\n");
        let mut calls = String::new();
        for (index, (module, name, ty)) in SIGNATURES.iter().enumerate() {
            writeln!(
                wat,
                "(import {module:?} {name:?} (func $f{index} {}))",
                wat_type(ty)
            )
            .unwrap();
            if left_out.contains(name) {
                continue;
            }
            for _ in 0..4 {
                let (params, result) = ty.split_once(':').unwrap();
                let mut call = format!("(call $f{index}");
                for param in params.chars() {
                    let number = EDGES[(random() >> 20) as usize % EDGES.len()];
                    match param {
                        'I' => write!(call, " (i64.const {number})"),
                        _ => write!(call, " (i32.const {})", number as i32),
                    }
                    .unwrap();
                }
                let drop = if result.is_empty() { "" } else { "drop" };
                writeln!(calls, "({drop} {call}))").unwrap();
            }
        }
        writeln!(
            wat,
            "(memory (export \"memory\") 2)
             (data (i32.const 3) \"a/../b\\00c=d\\00\\ff\\ff\")
             (func (export \"_start\") {calls}))"
        )
        .unwrap();
        machine.install_wat("random", &wat);
        let output = machine.run("random", &[]);
        assert_eq!(output.status, ExitStatus::Code(0), "round {round}");
    }
}
