//! What the tests of this crate share.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test binary uses its own part"
)]

use proctable::{
    ExitStatus, FdTable, Image, LimitEvents, LimitExceeded, NewProcess, ProcLimits, ProcTable,
    Process,
};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use vfs_core::wait::PollEvents;

/// Longest any test waits for something that must happen.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A deadline no healthy run reaches.
pub fn patience() -> Option<Instant> {
    Some(Instant::now() + PATIENCE)
}

/// Waits until `condition` holds, or panics.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "never happened: {what}");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Remembers limit events.
#[derive(Default)]
pub struct Log(Mutex<Vec<String>>);

impl Log {
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl LimitEvents for Log {
    fn near(&self, name: &'static str, used: u64, limit: u64) {
        self.0
            .lock()
            .unwrap()
            .push(format!("near {name} {used}/{limit}"));
    }
    fn reached(&self, exceeded: &LimitExceeded) {
        self.0
            .lock()
            .unwrap()
            .push(format!("reached {}", exceeded.name));
    }
}

/// A table with its event log.
pub struct World {
    pub table: Arc<ProcTable>,
    pub log: Arc<Log>,
}

impl World {
    pub fn new() -> World {
        World::with(|_| {})
    }

    pub fn with(change: impl FnOnce(&mut ProcLimits)) -> World {
        let mut limits = ProcLimits::default();
        change(&mut limits);
        let log = Arc::new(Log::default());
        World {
            table: ProcTable::new(limits, log.clone()),
            log,
        }
    }

    /// A child of pid 1 in a session of its own, as the host starts them.
    pub fn shell(&self) -> Arc<Process> {
        let mut new = blank(FdTable::new());
        new.group = proctable::NewGroup::Session;
        self.table.create(self.table.init(), new).unwrap()
    }

    /// A child that goes on in its parent's image.
    pub fn fork(&self, parent: &Arc<Process>) -> Arc<Process> {
        let mut new = blank(parent.fds().fork());
        new.forked = true;
        self.table.create(parent, new).unwrap()
    }

    /// A child with a program of its own.
    pub fn spawn(&self, parent: &Arc<Process>) -> Arc<Process> {
        self.table
            .create(parent, blank(parent.fds().fork()))
            .unwrap()
    }

    /// A child that leads a group of its own, as shells start jobs.
    pub fn job(&self, parent: &Arc<Process>) -> Arc<Process> {
        let mut new = blank(parent.fds().fork());
        new.group = proctable::NewGroup::Lead;
        self.table.create(parent, new).unwrap()
    }

    pub fn exit(&self, process: &Arc<Process>, code: u8) {
        self.table.exit(process, ExitStatus::Code(code));
    }
}

/// A process to make, without a program worth mentioning.
pub fn blank(fds: FdTable) -> NewProcess {
    let image = Image {
        comm: b"test".to_vec(),
        driver: "test",
        ..Image::default()
    };
    NewProcess::new(image, fds)
}

/// What a descriptor of the host is ready for, of what the tests compare.
pub fn host_poll(file: &impl AsRawFd) -> u16 {
    let wanted = PollEvents::IN | PollEvents::OUT | PollEvents::RDNORM | PollEvents::WRNORM;
    let mut one = libc::pollfd {
        fd: file.as_raw_fd(),
        events: wanted.bits() as i16,
        revents: 0,
    };
    // SAFETY: one valid entry.
    unsafe { libc::poll(&raw mut one, 1, 0) };
    one.revents as u16
}

/// Bytes to read from a descriptor of the host.
pub fn host_available(file: &impl AsRawFd) -> i32 {
    let mut n = 0i32;
    // SAFETY: FIONREAD writes one int.
    unsafe { libc::ioctl(file.as_raw_fd(), libc::FIONREAD, &raw mut n) };
    n
}
