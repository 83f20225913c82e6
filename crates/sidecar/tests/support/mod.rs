//! What several test programs need: the runtime, the common commands, and VMs made of them.

#![allow(dead_code, reason = "each test program uses its own part")]

use kernel::{Capture, Output, SpawnRequest, Vm};
use sidecar::cache::Cache;
use sidecar::npm::pinned;
use sidecar::software::{Software, Source};
use sidecar::vm::{Runtime, VmBuilder};
use std::sync::LazyLock;
use std::time::Duration;

/// The engines and the cache of this test program.
pub(crate) fn runtime() -> &'static Runtime {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
        Runtime::new(Cache::from_env().expect("there is a cache")).expect("the engines work here")
    });
    &RUNTIME
}

/// The common commands.
pub(crate) fn common() -> &'static Software {
    static COMMON: LazyLock<Software> = LazyLock::new(|| {
        let source = Source::parse(pinned::COMMON.as_ref()).expect("it is well formed");
        Software::open(
            &[source],
            &Default::default(),
            runtime().cache(),
            &mut |_| {},
        )
        .expect("the common packages can be fetched")
    });
    &COMMON
}

/// The beginnings of a VM with the common commands and an empty `/workspace` to work in.
pub(crate) fn builder() -> VmBuilder {
    VmBuilder::new(runtime())
        .software(common())
        .cwd("/workspace")
}

/// A VM with the common commands.
pub(crate) fn vm() -> Vm {
    builder().build().expect("a VM can be made")
}

/// Runs a script with the guest's `sh`. No script may take longer than a minute; one that does is
/// killed, and says so in its status.
pub(crate) fn sh(vm: &Vm, script: &str) -> Output {
    run(vm, &["sh", "-c", script])
}

/// Runs a command.
pub(crate) fn run(vm: &Vm, words: &[&str]) -> Output {
    within(vm, words, Duration::from_secs(60))
}

/// Runs a command, and kills it after `limit`.
pub(crate) fn within(vm: &Vm, words: &[&str], limit: Duration) -> Output {
    let request = SpawnRequest::new(words[0], words[1..].iter().copied());
    let capture = Capture {
        timeout: Some(limit),
        ..Capture::default()
    };
    vm.output(&request, &capture)
        .expect("the command can be started")
}

/// Standard output as text.
pub(crate) fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout.bytes).into_owned()
}

/// Runs a script in a VM of its own and gives its output and its status as a shell shows it.
pub(crate) fn once(script: &str) -> (String, u8) {
    let output = sh(&vm(), script);
    (text(&output), output.status.shell_code())
}
