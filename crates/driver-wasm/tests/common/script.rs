//! Guests that make a list of host calls and show what came of it.
//!
//! A [`Script`] is turned into a module whose `_start` makes the calls in order, keeps each
//! result, and in the end writes the results and its first page of memory to standard output.

use super::signatures::{signature, wat_type};
use std::collections::BTreeSet;
use std::fmt::Write;

/// Where results are kept: the second page.
const RESULTS: u32 = 65_536;
/// The iovec of the final write: the third page.
const IOVEC: u32 = 131_072;

/// An argument of a call.
#[derive(Clone, Copy, Debug)]
pub enum Arg {
    /// A number.
    I32(u32),
    /// A long number.
    I64(i64),
    /// The `i32` in memory at the time of the call, such as a descriptor that came out of another.
    Load(u32),
}

impl From<u32> for Arg {
    fn from(n: u32) -> Arg {
        Arg::I32(n)
    }
}

impl From<i32> for Arg {
    fn from(n: i32) -> Arg {
        Arg::I32(n as u32)
    }
}

impl From<i64> for Arg {
    fn from(n: i64) -> Arg {
        Arg::I64(n)
    }
}

impl From<u64> for Arg {
    fn from(n: u64) -> Arg {
        Arg::I64(n as i64)
    }
}

/// Arguments of a call: numbers, or `&var` for what is in memory.
#[macro_export]
macro_rules! args {
    ($($arg:expr),* $(,)?) => { &[$($crate::common::script::Arg::from($arg)),*] };
}

/// A piece of memory.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Address.
    pub ptr: u32,
    /// Length.
    pub len: u32,
}

impl Place {
    /// The `i32` there, as an argument.
    pub fn load(self) -> Arg {
        Arg::Load(self.ptr)
    }
}

/// A list of host calls.
#[derive(Default)]
pub struct Script {
    calls: Vec<(String, String, Vec<Arg>)>,
    data: Vec<(u32, Vec<u8>)>,
    used: u32,
    exports: String,
}

impl Script {
    /// An empty list.
    pub fn new() -> Script {
        Script {
            used: 16,
            ..Script::default()
        }
    }

    /// Room of `len` zero bytes.
    pub fn room(&mut self, len: u32) -> Place {
        let ptr = self.used;
        self.used = (self.used + len + 7) & !7;
        assert!(self.used < RESULTS, "a script has one page for its data");
        Place { ptr, len }
    }

    /// Bytes that are there from the start.
    pub fn bytes(&mut self, bytes: impl AsRef<[u8]>) -> Place {
        let bytes = bytes.as_ref();
        let place = self.room(bytes.len() as u32);
        self.data.push((place.ptr, bytes.to_vec()));
        place
    }

    /// One iovec for a place.
    pub fn iovec(&mut self, place: Place) -> Place {
        self.bytes([place.ptr.to_le_bytes(), place.len.to_le_bytes()].concat())
    }

    /// Adds a call; gives the number of its result.
    pub fn call(&mut self, function: &str, args: &[Arg]) -> usize {
        let (module, name) = function.split_once('.').expect("module.name");
        let module = if module == "wasi" {
            "wasi_snapshot_preview1"
        } else {
            module
        };
        let wanted = signature(module, name).split(':').next().unwrap();
        let given: String = args
            .iter()
            .map(|arg| if matches!(arg, Arg::I64(_)) { 'I' } else { 'i' })
            .collect();
        assert_eq!(given, wanted, "arguments of {function}");
        self.calls.push((module.into(), name.into(), args.to_vec()));
        self.calls.len() - 1
    }

    /// Adds functions and exports in the text format.
    pub fn export(&mut self, wat: &str) {
        self.exports += wat;
    }

    /// The module.
    pub fn wasm(&self) -> Vec<u8> {
        wat::parse_str(self.wat()).unwrap()
    }

    fn wat(&self) -> String {
        let mut wat = String::from("(module\n");
        let mut imported = BTreeSet::from([("wasi_snapshot_preview1", "fd_write")]);
        imported.extend(self.calls.iter().map(|(m, n, _)| (m.as_str(), n.as_str())));
        for (module, name) in imported {
            let ty = wat_type(signature(module, name));
            writeln!(
                wat,
                "(import {module:?} {name:?} (func ${module}.{name} {ty}))"
            )
            .unwrap();
        }
        wat += "(memory (export \"memory\") 3)\n";
        for (ptr, bytes) in &self.data {
            let text: String = bytes.iter().map(|byte| format!("\\{byte:02x}")).collect();
            writeln!(wat, "(data (i32.const {ptr}) \"{text}\")").unwrap();
        }
        wat += &self.exports;
        wat += "(func (export \"_start\")\n";
        for (index, (module, name, args)) in self.calls.iter().enumerate() {
            let mut call = format!("(call ${module}.{name}");
            for arg in args {
                match arg {
                    Arg::I32(n) => write!(call, " (i32.const {})", *n as i32),
                    Arg::I64(n) => write!(call, " (i64.const {n})"),
                    Arg::Load(ptr) => write!(call, " (i32.load (i32.const {ptr}))"),
                }
                .unwrap();
            }
            call += ")";
            let at = RESULTS + index as u32 * 8;
            match signature(module, name).split(':').nth(1).unwrap() {
                "" => writeln!(wat, "{call}"),
                "I" => writeln!(wat, "(i64.store (i32.const {at}) {call})"),
                _ => writeln!(
                    wat,
                    "(i64.store (i32.const {at}) (i64.extend_i32_u {call}))"
                ),
            }
            .unwrap();
        }
        let len = RESULTS + self.calls.len() as u32 * 8;
        writeln!(
            wat,
            "(i32.store (i32.const {IOVEC}) (i32.const 0))
             (i32.store (i32.const {}) (i32.const {len}))
             (drop (call $wasi_snapshot_preview1.fd_write
               (i32.const 1) (i32.const {IOVEC}) (i32.const 1) (i32.const {}))))\n)",
            IOVEC + 4,
            IOVEC + 8
        )
        .unwrap();
        wat
    }

    /// Reads what the module wrote.
    pub fn read(&self, stdout: &[u8]) -> Shown {
        let len = RESULTS as usize + self.calls.len() * 8;
        assert_eq!(stdout.len(), len, "the script did not come to its end");
        let (memory, results) = stdout.split_at(RESULTS as usize);
        let results = results
            .chunks(8)
            .map(|b| u64::from_le_bytes(b.try_into().unwrap()))
            .collect();
        Shown {
            results,
            memory: memory.to_vec(),
        }
    }
}

/// What a script showed in the end.
pub struct Shown {
    /// The result of each call.
    pub results: Vec<u64>,
    memory: Vec<u8>,
}

impl Shown {
    /// The bytes of a place.
    pub fn bytes(&self, place: Place) -> &[u8] {
        &self.memory[place.ptr as usize..][..place.len as usize]
    }

    /// The `u32` at a place.
    pub fn u32(&self, place: Place) -> u32 {
        u32::from_le_bytes(self.memory[place.ptr as usize..][..4].try_into().unwrap())
    }

    /// The `u64` at a place.
    pub fn u64(&self, place: Place) -> u64 {
        u64::from_le_bytes(self.memory[place.ptr as usize..][..8].try_into().unwrap())
    }
}
