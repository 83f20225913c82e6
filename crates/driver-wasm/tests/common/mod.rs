//! What the tests share: a virtual machine with the driver in it, and guests made for the occasion.
#![allow(dead_code, unreachable_pub, reason = "not every test uses everything")]

pub mod files;
pub mod published;
pub mod script;
pub mod signatures;

use driver_wasm::WasmDriver;
use kernel::proctable::ExitStatus;
use kernel::{Capture, Child, Cred, Limits, Output, SpawnRequest, Stdio, Vm, VmConfig};
use script::{Script, Shown};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long a test waits for what must happen soon.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A virtual machine with the driver, the superuser and `/work` as working directory.
pub struct Machine {
    /// The machine.
    pub vm: Vm,
}

impl Machine {
    /// With the usual limits.
    pub fn new() -> Machine {
        Machine::with_limits(Limits::default())
    }

    /// With other limits.
    pub fn with_limits(limits: Limits) -> Machine {
        let driver = WasmDriver::new().expect("the driver works here");
        // So that large programs are compiled in the first run only.
        let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compiled");
        driver
            .use_cache_directory(&cache)
            .expect("a private directory");
        let vm = Vm::new(VmConfig {
            drivers: vec![Arc::new(driver)],
            cred: Cred::root(),
            cwd: Some(b"/work".to_vec()),
            limits,
            ..VmConfig::default()
        })
        .expect("a machine");
        vm.mkdir_all(b"/work", 0o777).unwrap();
        vm.mkdir_all(b"/opt/agentos/bin", 0o755).unwrap();
        Machine { vm }
    }

    /// Installs a program.
    pub fn install(&self, name: &str, module: &[u8]) {
        let path = format!("/opt/agentos/bin/{name}");
        self.vm.write_file(path.as_bytes(), module, 0o755).unwrap();
    }

    /// Installs a program given in the text format.
    pub fn install_wat(&self, name: &str, wat: &str) {
        self.install(name, &wat::parse_str(wat).unwrap());
    }

    /// Runs a command to its end.
    pub fn run(&self, command: &str, args: &[&str]) -> Output {
        self.run_with(&request(command, args), b"")
    }

    /// Runs a request to its end with this input.
    pub fn run_with(&self, request: &SpawnRequest, stdin: &[u8]) -> Output {
        let capture = Capture {
            stdin: Some(stdin.to_vec()),
            timeout: Some(PATIENCE),
            ..Capture::default()
        };
        let output = self.vm.output(request, &capture).expect("it starts");
        assert!(
            !output.timed_out,
            "{:?} hangs",
            String::from_utf8_lossy(&request.command)
        );
        output
    }

    /// Starts a command whose output nobody sees.
    pub fn start(&self, command: &str, args: &[&str]) -> Child {
        self.vm.spawn(&request(command, args)).expect("it starts")
    }

    /// Starts a command with pipes.
    pub fn start_piped(&self, command: &str, args: &[&str]) -> Child {
        let mut request = request(command, args);
        request.stdio = [Stdio::Pipe, Stdio::Pipe, Stdio::Pipe];
        self.vm.spawn(&request).expect("it starts")
    }

    /// Runs a script of host calls to its end.
    pub fn script(&self, script: &Script) -> Shown {
        self.script_as(&request("script", &[]), script)
    }

    /// The same as somebody else, or with another environment.
    pub fn script_as(&self, request: &SpawnRequest, script: &Script) -> Shown {
        self.install("script", &script.wasm());
        let output = self.run_with(request, b"standard input\n");
        assert_eq!(
            (
                output.status,
                String::from_utf8_lossy(&output.stderr.bytes).as_ref()
            ),
            (ExitStatus::Code(0), ""),
        );
        script.read(&output.stdout.bytes)
    }
}

/// A request for a command.
pub fn request(command: &str, args: &[&str]) -> SpawnRequest {
    SpawnRequest::new(command, args.iter().copied())
}

/// Text of an output.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
