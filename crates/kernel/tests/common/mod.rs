//! A driver whose programs are Rust closures, so that everything but guest code is real.
//!
//! A program is a file with the kernel's runtime header and a name; the name picks the closure.

#![allow(dead_code, reason = "each test file uses its part")]

use kernel::binfmt::{Handler, runtime_file};
use kernel::vfs_core::errno::{Errno, Result};
use kernel::{
    Capture, Child, Driver, Image, Interrupt, Outcome, Output, Program, Signal, SpawnRequest, Task,
    Vm, VmConfig,
};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

/// A guest program.
pub(crate) type Main = dyn Fn(&Rc<Task>) -> Outcome + Send + Sync;

/// Programs by name.
#[derive(Default)]
pub(crate) struct Closures {
    programs: Mutex<HashMap<String, Arc<Main>>>,
}

impl Driver for Closures {
    fn name(&self) -> &'static str {
        "closure"
    }

    fn handles(&self, handler: &Handler<'_>) -> bool {
        matches!(handler, Handler::Runtime(_))
    }

    fn load(&self, image: &Image) -> Result<Box<dyn Program>> {
        let mut header = Vec::new();
        image.content.with(&mut |bytes| header = bytes.to_vec())?;
        let Ok(Handler::Runtime(name)) = kernel::binfmt::parse(&header) else {
            return Err(Errno::ENOEXEC);
        };
        let main = self
            .programs
            .lock()
            .unwrap()
            .get(name)
            .cloned()
            .ok_or(Errno::ENOEXEC)?;
        Ok(Box::new(Closure(main)))
    }
}

struct Closure(Arc<Main>);

impl Program for Closure {
    fn run(self: Box<Self>, task: &Rc<Task>) -> Outcome {
        (self.0)(task)
    }
}

/// A VM with the closure driver.
pub(crate) struct Machine {
    pub(crate) vm: Vm,
    pub(crate) programs: Arc<Closures>,
    dispose: bool,
}

impl Machine {
    pub(crate) fn new() -> Machine {
        Machine::with(VmConfig::default())
    }

    pub(crate) fn with(config: VmConfig) -> Machine {
        let programs = Arc::new(Closures::default());
        let vm = Vm::new(VmConfig {
            drivers: vec![programs.clone()],
            ..config
        })
        .unwrap();
        let machine = Machine {
            vm,
            programs,
            dispose: true,
        };
        for (name, main) in standard() {
            machine.install(name, main);
        }
        machine
    }

    /// A VM that nobody disposes of.
    pub(crate) fn undisposed() -> Vm {
        let mut machine = Machine::new();
        machine.dispose = false;
        machine.vm.clone()
    }

    /// Puts a program into `/usr/local/bin`.
    pub(crate) fn program(
        &self,
        name: &str,
        main: impl Fn(&Rc<Task>) -> Outcome + Send + Sync + 'static,
    ) {
        self.install(name, Arc::new(main));
    }

    fn install(&self, name: &str, main: Arc<Main>) {
        self.programs
            .programs
            .lock()
            .unwrap()
            .insert(name.to_owned(), main);
        let path = format!("/usr/local/bin/{name}");
        self.vm
            .write_file(path.as_bytes(), &runtime_file(name).unwrap(), 0o755)
            .unwrap();
    }

    /// Puts a script anywhere.
    pub(crate) fn script(&self, path: &str, text: &str) {
        self.vm
            .write_file(path.as_bytes(), text.as_bytes(), 0o755)
            .unwrap();
        self.vm.chmod(path.as_bytes(), 0o755).unwrap();
    }

    pub(crate) fn spawn(&self, command: &str, args: &[&str]) -> Child {
        self.vm.spawn(&request(command, args)).unwrap()
    }

    pub(crate) fn output(&self, command: &str, args: &[&str]) -> Output {
        self.vm
            .output(&request(command, args), &Capture::default())
            .unwrap()
    }

    /// Runs a closure as a process and gives what it printed.
    pub(crate) fn run(
        &self,
        main: impl Fn(&Rc<Task>) -> Outcome + Send + Sync + 'static,
    ) -> Output {
        self.program("test-main", main);
        self.output("test-main", &[])
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if !self.dispose {
            return;
        }
        let disposed = self.vm.dispose();
        if !std::thread::panicking() {
            disposed.unwrap();
        }
    }
}

pub(crate) fn request(command: &str, args: &[&str]) -> SpawnRequest {
    SpawnRequest::new(command, args.iter().copied())
}

/// `printf` to descriptor 1.
#[macro_export]
macro_rules! print {
    ($task:expr, $($format:tt)*) => {
        $crate::common::write_all($task, 1, format!($($format)*).as_bytes())
    };
}

pub(crate) fn write_all(task: &Task, fd: i32, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match task.write(fd, bytes) {
            Ok(n) => bytes = &bytes[n..],
            Err(_) => return,
        }
    }
}

/// Reads a descriptor to its end.
pub(crate) fn read_all(task: &Task, fd: i32) -> Result<Vec<u8>> {
    let mut all = Vec::new();
    let mut buf = [0; 4096];
    loop {
        match task.read(fd, &mut buf)? {
            0 => return Ok(all),
            n => all.extend_from_slice(&buf[..n]),
        }
    }
}

/// Content of a file.
pub(crate) fn read_path(task: &Task, path: &str) -> Result<String> {
    let fd = task.openat(
        kernel::Dir::Cwd,
        path.as_bytes(),
        kernel::OpenFlags::empty(),
        0,
    )?;
    let all = read_all(task, fd);
    task.close(fd)?;
    Ok(String::from_utf8_lossy(&all?).into_owned())
}

pub(crate) fn strings(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|t| t.as_bytes().to_vec()).collect()
}

/// How a guest that has no handlers ends when a signal says so.
pub(crate) fn died(task: &Task) -> Outcome {
    match task.checkpoint() {
        Err(Interrupt::Die(signal)) => Outcome::Killed(signal),
        Ok(()) => Outcome::Exit(99),
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Small versions of well-known commands.
fn standard() -> Vec<(&'static str, Arc<Main>)> {
    fn main(f: impl Fn(&Rc<Task>) -> Outcome + Send + Sync + 'static) -> Arc<Main> {
        Arc::new(f)
    }
    vec![
        ("true", main(|_| Outcome::Exit(0))),
        ("false", main(|_| Outcome::Exit(1))),
        (
            "exit",
            main(|task| Outcome::Exit(text(&task.argv()[1]).parse().unwrap())),
        ),
        (
            "echo",
            main(|task| {
                let argv = task.argv();
                write_all(task, 1, &[&argv[1..].join(&b' ')[..], b"\n"].concat());
                Outcome::Exit(0)
            }),
        ),
        (
            "args",
            main(|task| {
                for arg in task.argv().iter() {
                    write_all(task, 1, &[&b"["[..], arg, b"]"].concat());
                }
                Outcome::Exit(0)
            }),
        ),
        (
            "cat",
            main(|task| {
                let mut buf = [0; 65536];
                loop {
                    let done = task.read(0, &mut buf);
                    if let Err(Interrupt::Die(signal)) = task.checkpoint() {
                        return Outcome::Killed(signal);
                    }
                    match done {
                        Ok(0) => return Outcome::Exit(0),
                        Ok(n) => write_all(task, 1, &buf[..n]),
                        Err(_) => return Outcome::Exit(1),
                    }
                }
            }),
        ),
        (
            "yes",
            main(|task| {
                loop {
                    if task.write(1, b"y\n").is_err() {
                        return died(task);
                    }
                    if let Err(Interrupt::Die(signal)) = task.checkpoint() {
                        return Outcome::Killed(signal);
                    }
                }
            }),
        ),
        (
            "sleep",
            main(|task| {
                let ms: u64 = text(&task.argv()[1]).parse().unwrap();
                match task.nanosleep(std::time::Duration::from_millis(ms)) {
                    Ok(()) => Outcome::Exit(0),
                    Err(_) => died(task),
                }
            }),
        ),
        (
            "spin",
            main(|task| {
                // Computes until the interrupter says that there is something to look at.
                let flag = Arc::new(std::sync::atomic::AtomicBool::new(false));
                let seen = flag.clone();
                task.set_interrupter(Arc::new(move || {
                    seen.store(true, std::sync::atomic::Ordering::Relaxed)
                }));
                loop {
                    if flag.swap(false, std::sync::atomic::Ordering::Relaxed)
                        && let Err(Interrupt::Die(signal)) = task.checkpoint()
                    {
                        return Outcome::Killed(signal);
                    }
                    std::hint::spin_loop();
                }
            }),
        ),
        ("panic", main(|_| panic!("as a broken driver would"))),
        (
            "env",
            main(|task| {
                for entry in task.environ().iter() {
                    write_all(task, 1, &[&entry[..], b"\n"].concat());
                }
                Outcome::Exit(0)
            }),
        ),
        (
            "kill-self",
            main(|task| {
                task.kill(task.pid() as i32, Signal::TERM.number().into())
                    .unwrap();
                died(task)
            }),
        ),
    ]
}
