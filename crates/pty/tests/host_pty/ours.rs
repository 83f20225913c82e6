//! Our terminal, driven the same way.

use super::sequence::Op;
use proctable::limits::Meter;
use proctable::{
    Disposition, FdTable, Image, NewGroup, NewProcess, NoEvents, ProcLimits, ProcTable, Process,
    SigAction, SigSet, Signal,
};
use pty::{Master, PtyTable, Slave, Winsize};
use std::fmt::Write as _;
use std::sync::Arc;
use vfs_core::errno::Errno;
use vfs_core::file::{FileOps, OpenFile};
use vfs_core::types::{Cred, OpenFlags};

const TYPED: [Signal; 4] = [Signal::INT, Signal::QUIT, Signal::TSTP, Signal::WINCH];

struct World {
    _procs: Arc<ProcTable>,
    process: Arc<Process>,
    master: Arc<OpenFile>,
    slave: Arc<OpenFile>,
}

impl World {
    fn new() -> World {
        let procs = ProcTable::new(ProcLimits::default(), Arc::new(NoEvents));
        let mut new = NewProcess::new(Image::default(), FdTable::new());
        new.group = NewGroup::Session;
        new.sigmask = Some(TYPED.into_iter().collect::<SigSet>());
        let process = procs.create(procs.init(), new).expect("a process");
        // Kept pending although its default is to be ignored, as the host keeps blocked signals.
        let handler = SigAction {
            disposition: Disposition::Handler,
            ..SigAction::DEFAULT
        };
        process
            .signals()
            .set_action(Signal::WINCH, handler)
            .expect("sigaction");
        let meter = Meter::new("ptys", 4, Arc::new(NoEvents)).expect("the limit");
        let table = PtyTable::new(&procs, meter);
        let master = table.open_master(&Cred::root()).expect("a master");
        master.terminal().set_locked(false);
        let slave = table.open_slave(0).expect("a slave");
        slave
            .terminal()
            .set_controlling(&process, false)
            .expect("TIOCSCTTY");
        let flags = OpenFlags::RDWR | OpenFlags::NONBLOCK;
        World {
            _procs: procs,
            process,
            master: OpenFile::anonymous(Arc::new(master), flags),
            slave: OpenFile::anonymous(Arc::new(slave), flags),
        }
    }
}

/// Runs a sequence; gives what was seen after each step.
pub(crate) fn run(ops: &[Op]) -> Vec<String> {
    let world = World::new();
    ops.iter().map(|op| step(&world, op)).collect()
}

fn step(world: &World, op: &Op) -> String {
    let slave = Slave::of(&world.slave).expect("a slave");
    let terminal = slave.terminal();
    let process = &*world.process;
    let none = |()| String::new();
    let result = match op {
        Op::Type(bytes) => world.master.write(bytes).map(|n| n.to_string()),
        Op::Write(bytes) => pty::write(process, &world.slave, bytes)
            .expect("a slave")
            .map(|n| n.to_string()),
        Op::Read(n) => {
            let mut buf = vec![0; *n];
            pty::read(process, &world.slave, &mut buf)
                .expect("a slave")
                .map(|n| {
                    String::from_utf8_lossy(&buf[..n])
                        .escape_debug()
                        .to_string()
                })
        }
        Op::Modes(modes, when) => terminal.set_termios(Some(process), modes, *when).map(none),
        Op::Flush(queue) => terminal.flush(Some(process), *queue).map(none),
        Op::Rows(rows) => {
            terminal.set_winsize(Winsize {
                rows: *rows,
                cols: 80,
                ..Winsize::default()
            });
            Ok(String::new())
        }
    };
    let mut seen = match result {
        Ok(text) => format!("ok [{text}]"),
        Err(error) => format!("{error:?}"),
    };
    let master = Master::of(&world.master).expect("a master");
    let mut screen = Vec::new();
    let mut buf = vec![0; 65536];
    loop {
        match master.terminal().master_read(&mut buf) {
            Ok(n) => screen.extend_from_slice(&buf[..n]),
            Err(Errno::EAGAIN) => break,
            Err(error) => panic!("reading the master: {error:?}"),
        }
    }
    let readable = slave.readable_bytes().expect("FIONREAD");
    let pending = process.signals().pending();
    let signals: Vec<i32> = TYPED
        .into_iter()
        .filter(|s| pending.contains(*s))
        .map(|s| i32::from(s.number()))
        .collect();
    for signal in TYPED {
        let old = process.signals().action(signal);
        let ignore = SigAction {
            disposition: Disposition::Ignore,
            ..SigAction::DEFAULT
        };
        process
            .signals()
            .set_action(signal, ignore)
            .expect("sigaction");
        process
            .signals()
            .set_action(signal, old)
            .expect("sigaction");
    }
    write!(
        seen,
        " screen [{}] readable {readable} signals {signals:?}",
        String::from_utf8_lossy(&screen).escape_debug()
    )
    .expect("writing to a string");
    seen
}
