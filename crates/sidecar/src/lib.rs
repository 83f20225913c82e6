//! Assembles a virtual machine out of the crates below it, and fetches what it is made of.
//!
//! The `aos` command, the tests and the benches are thin callers of this library:
//!
//! - [`cache`] says where things that can be made again are kept;
//! - [`hostio`] lends the host's standard streams to a guest;
//! - [`npm`] turns `npm:NAME@VERSION` into package files in that cache, [`pack`] a directory into a
//!   package in memory;
//! - [`software`] opens packages and puts them together;
//! - [`vm`] makes a VM of them.
//!
//! No module here knows how a system call works, and nothing here is reachable by a guest.
#![deny(missing_docs)]

pub mod cache;
pub mod hostio;
pub mod npm;
pub mod pack;
pub mod software;
pub mod vm;
