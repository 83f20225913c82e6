//! Sessions, foreground groups and who gets which signal.

use proctable::limits::Meter;
use proctable::{
    Disposition, ExitStatus, FdTable, Image, NewGroup, NewProcess, NoEvents, ProcLimits, ProcTable,
    Process, SigAction, SigSet, Signal,
};
use pty::{PtyTable, Terminal, Termios, When, Winsize};
use std::sync::Arc;
use vfs_core::errno::Errno;
use vfs_core::file::{FileOps, OpenFile};
use vfs_core::types::{Cred, OpenFlags};
use vfs_core::wait::PollEvents;

struct World {
    procs: Arc<ProcTable>,
    table: Arc<PtyTable>,
}

impl World {
    fn new() -> World {
        let procs = ProcTable::new(ProcLimits::default(), Arc::new(NoEvents));
        let meter = Meter::new("ptys", 2, Arc::new(NoEvents)).unwrap();
        let table = PtyTable::new(&procs, meter);
        World { procs, table }
    }

    /// A process with every signal blocked, so that what it was sent can be seen.
    fn process(&self, parent: &Arc<Process>, group: NewGroup) -> Arc<Process> {
        let mut new = NewProcess::new(Image::default(), FdTable::new());
        new.group = group;
        new.sigmask = Some(Signal::all().collect::<SigSet>());
        self.procs.create(parent, new).unwrap()
    }

    /// A terminal with its two sides.
    fn terminal(&self) -> (Arc<OpenFile>, Arc<OpenFile>, Arc<Terminal>) {
        let master = self.table.open_master(&Cred::root()).unwrap();
        let terminal = master.terminal().clone();
        terminal.set_locked(false);
        let slave = self.table.open_slave(terminal.index()).unwrap();
        let open = |ops: Arc<dyn FileOps>| OpenFile::anonymous(ops, OpenFlags::RDWR);
        (open(Arc::new(master)), open(Arc::new(slave)), terminal)
    }
}

fn got(process: &Process, signal: Signal) -> bool {
    process.signals().pending().contains(signal)
}

fn handle(process: &Process, signal: Signal) {
    let action = SigAction {
        disposition: Disposition::Handler,
        ..SigAction::DEFAULT
    };
    process.signals().set_action(signal, action).unwrap();
}

#[test]
fn typed_signals_go_to_the_foreground_group_alone() {
    let world = World::new();
    let (_master, _slave, terminal) = world.terminal();
    let leader = world.process(world.procs.init(), NewGroup::Session);
    terminal.set_controlling(&leader, false).unwrap();
    let job = world.process(&leader, NewGroup::Lead);
    terminal.master_write(b"\x03").unwrap();
    assert!(got(&leader, Signal::INT) && !got(&job, Signal::INT));
    terminal.set_foreground(&leader, job.pid() as i32).unwrap();
    terminal.master_write(b"\x1c\x1a").unwrap();
    assert!(got(&job, Signal::QUIT) && got(&job, Signal::TSTP));
    assert!(!got(&leader, Signal::QUIT));
}

#[test]
fn a_spared_leader_lives_through_what_is_typed() {
    let world = World::new();
    let (_master, _slave, terminal) = world.terminal();
    let leader = world.process(world.procs.init(), NewGroup::Session);
    terminal.set_controlling(&leader, false).unwrap();
    let child = world.process(&leader, NewGroup::Inherit);
    terminal.spare_leader(true);
    terminal.master_write(b"\x03").unwrap();
    assert!(got(&child, Signal::INT) && !got(&leader, Signal::INT));
    handle(&leader, Signal::QUIT);
    terminal.master_write(b"\x1c").unwrap();
    assert!(
        got(&leader, Signal::QUIT),
        "a leader with a handler is told"
    );
}

#[test]
fn winch_comes_once_for_a_change_and_never_without_one() {
    let world = World::new();
    let (_master, _slave, terminal) = world.terminal();
    let leader = world.process(world.procs.init(), NewGroup::Session);
    handle(&leader, Signal::WINCH);
    terminal.set_controlling(&leader, false).unwrap();
    let size = Winsize {
        rows: 40,
        cols: 100,
        ..Winsize::default()
    };
    terminal.set_winsize(terminal.winsize());
    assert!(!got(&leader, Signal::WINCH));
    terminal.set_winsize(size);
    assert!(got(&leader, Signal::WINCH));
    assert_eq!(terminal.winsize(), size);
}

#[test]
fn one_session_one_terminal() {
    let world = World::new();
    let (_m1, _s1, first) = world.terminal();
    let (_m2, _s2, second) = world.terminal();
    let a = world.process(world.procs.init(), NewGroup::Session);
    let b = world.process(world.procs.init(), NewGroup::Session);
    let member = world.process(&a, NewGroup::Inherit);
    first.set_controlling(&a, false).unwrap();
    first.set_controlling(&a, false).unwrap();
    assert_eq!(
        second.set_controlling(&a, false),
        Err(Errno::EPERM),
        "has one"
    );
    assert_eq!(
        first.set_controlling(&b, false),
        Err(Errno::EPERM),
        "is another's"
    );
    assert_eq!(
        first.set_controlling(&member, false),
        Err(Errno::EPERM),
        "leads nothing"
    );
    first.set_controlling(&b, true).unwrap();
    assert_eq!(first.session(), Some(b.sid()), "the superuser may steal it");
    assert_eq!(world.table.open_controlling(&a).err(), Some(Errno::ENXIO));
    assert!(world.table.open_controlling(&b).is_ok());
    second.set_controlling(&a, false).unwrap();
}

#[test]
fn the_foreground_group_must_be_of_the_session() {
    let world = World::new();
    let (_master, _slave, terminal) = world.terminal();
    let leader = world.process(world.procs.init(), NewGroup::Session);
    let stranger = world.process(world.procs.init(), NewGroup::Session);
    terminal.set_controlling(&leader, false).unwrap();
    let set = |caller: &Process, pgid: i32| terminal.set_foreground(caller, pgid);
    assert_eq!(set(&leader, stranger.pid() as i32), Err(Errno::EPERM));
    assert_eq!(set(&leader, 30_000), Err(Errno::ESRCH));
    assert_eq!(set(&leader, -1), Err(Errno::EINVAL));
    assert_eq!(set(&stranger, leader.pid() as i32), Err(Errno::ENOTTY));
    assert_eq!(terminal.get_foreground(&leader), Ok(leader.pid()));
    assert_eq!(terminal.get_session(&stranger), Err(Errno::ENOTTY));
}

#[test]
fn a_background_reader_is_stopped_and_an_orphan_refused() {
    let world = World::new();
    let (_master, slave, terminal) = world.terminal();
    let leader = world.process(world.procs.init(), NewGroup::Session);
    terminal.set_controlling(&leader, false).unwrap();
    let job = world.process(&leader, NewGroup::Lead);
    terminal.master_write(b"line\n").unwrap();
    let mut buf = [0; 16];
    let mut read = |process: &Process| pty::read(process, &slave, &mut buf).unwrap();
    // Blocked signals count as ignored.
    assert_eq!(read(&job), Err(Errno::EIO));
    job.signals()
        .change_mask(proctable::MaskHow::Set, SigSet::EMPTY);
    handle(&job, Signal::TTIN);
    assert_eq!(read(&job), Err(Errno::EINTR));
    assert!(job.signals().interrupted());
    world.procs.exit(&leader, ExitStatus::Code(0));
    assert_eq!(read(&job), Ok(0), "its line was hung up with the session");
}

#[test]
fn a_background_writer_is_stopped_under_tostop_only() {
    let world = World::new();
    let (_master, slave, terminal) = world.terminal();
    let leader = world.process(world.procs.init(), NewGroup::Session);
    terminal.set_controlling(&leader, false).unwrap();
    let job = world.process(&leader, NewGroup::Lead);
    job.signals()
        .change_mask(proctable::MaskHow::Set, SigSet::EMPTY);
    handle(&job, Signal::TTOU);
    assert_eq!(pty::write(&job, &slave, b"x").unwrap(), Ok(1));
    let mut modes = Termios::default();
    assert_eq!(
        terminal.set_termios(Some(&job), &modes, When::Now),
        Err(Errno::EINTR),
        "changing the modes stops whatever the modes are"
    );
    modes.lflag |= pty::termios::Lflag::TOSTOP;
    terminal
        .set_termios(Some(&leader), &modes, When::Now)
        .unwrap();
    assert_eq!(pty::write(&job, &slave, b"x").unwrap(), Err(Errno::EINTR));
    assert_eq!(pty::write(&leader, &slave, b"x").unwrap(), Ok(1));
}

#[test]
fn closing_the_master_hangs_up() {
    let world = World::new();
    let (master, slave, terminal) = world.terminal();
    let leader = world.process(world.procs.init(), NewGroup::Session);
    terminal.set_controlling(&leader, false).unwrap();
    drop(master);
    assert!(got(&leader, Signal::HUP) && got(&leader, Signal::CONT));
    let mut buf = [0; 4];
    assert_eq!(pty::read(&leader, &slave, &mut buf).unwrap(), Ok(0));
    assert_eq!(pty::write(&leader, &slave, b"x").unwrap(), Err(Errno::EIO));
    assert!(
        slave
            .poll()
            .contains(PollEvents::HUP | PollEvents::IN | PollEvents::OUT)
    );
    assert_eq!(
        world.table.open_slave(terminal.index()).err(),
        Some(Errno::EIO)
    );
    assert_eq!(
        world.table.open_controlling(&leader).err(),
        Some(Errno::ENXIO)
    );
}

#[test]
fn the_last_slave_ends_the_master() {
    let world = World::new();
    let (master, slave, terminal) = world.terminal();
    let mut buf = [0; 16];
    assert_eq!(master.read(&mut buf), Err(Errno::EAGAIN));
    slave.write(b"bye\n").unwrap();
    drop(slave);
    assert!(master.poll().contains(PollEvents::HUP | PollEvents::IN));
    assert_eq!(master.read(&mut buf), Ok(5));
    assert_eq!(master.read(&mut buf), Err(Errno::EIO));
    let _again = world.table.open_slave(terminal.index()).unwrap();
    assert_eq!(
        master.read(&mut buf),
        Err(Errno::EAGAIN),
        "a new slave, a new line"
    );
}

#[test]
fn the_limit_is_named_and_numbers_come_back() {
    let world = World::new();
    let (m0, s0, t0) = world.terminal();
    let (_m1, _s1, t1) = world.terminal();
    assert_eq!((t0.index(), t1.index()), (0, 1));
    assert_eq!(
        world.table.open_master(&Cred::root()).err(),
        Some(Errno::ENOSPC)
    );
    drop((m0, s0, t0));
    let (_m, _s, again) = world.terminal();
    assert_eq!(again.index(), 0);
    assert_eq!(world.table.list(), [0, 1]);
}

#[test]
fn a_blocked_reader_wakes_for_a_line_and_for_a_signal() {
    let world = World::new();
    let (_master, slave, terminal) = world.terminal();
    let leader = world.process(world.procs.init(), NewGroup::Session);
    leader
        .signals()
        .change_mask(proctable::MaskHow::Set, SigSet::EMPTY);
    handle(&leader, Signal::INT);
    terminal.set_controlling(&leader, false).unwrap();
    let read = || {
        let (leader, slave) = (leader.clone(), slave.clone());
        std::thread::spawn(move || {
            let mut buf = [0; 16];
            pty::read(&leader, &slave, &mut buf)
                .unwrap()
                .map(|n| buf[..n].to_vec())
        })
    };
    let reader = read();
    terminal.master_write(b"par").unwrap();
    terminal.master_write(b"tial\r").unwrap();
    assert_eq!(reader.join().unwrap(), Ok(b"partial\n".to_vec()));
    let reader = read();
    terminal.master_write(b"gone\x03").unwrap();
    assert_eq!(reader.join().unwrap(), Err(Errno::EINTR));
}

#[test]
fn raw_reads_end_by_count_and_by_time() {
    let world = World::new();
    let (_master, slave, terminal) = world.terminal();
    let leader = world.process(world.procs.init(), NewGroup::Session);
    leader
        .signals()
        .change_mask(proctable::MaskHow::Set, SigSet::EMPTY);
    let mut modes = Termios::default();
    modes.make_raw();
    let mut with = |min, time| {
        modes.cc[pty::termios::VMIN] = min;
        modes.cc[pty::termios::VTIME] = time;
        terminal.set_termios(None, &modes, When::Now).unwrap();
    };
    let mut buf = [0; 16];
    let mut read = || pty::read(&leader, &slave, &mut buf).unwrap();
    with(0, 1);
    assert_eq!(read(), Ok(0), "no byte came in time");
    with(5, 1);
    terminal.master_write(b"abc").unwrap();
    assert_eq!(read(), Ok(3), "no further byte came in time");
    with(0, 0);
    assert_eq!(read(), Ok(0));
    with(2, 0);
    terminal.master_write(b"abc").unwrap();
    assert_eq!(read(), Ok(3));
}

#[test]
fn the_terminal_answers_for_a_cursor_nobody_has() {
    let world = World::new();
    let (_master, slave, terminal) = world.terminal();
    let mut modes = Termios::default();
    modes.make_raw();
    terminal.set_termios(None, &modes, When::Now).unwrap();
    let mut buf = [0; 32];
    slave.write(b"\x1b[6n").unwrap();
    assert_eq!(slave.read(&mut buf), Err(Errno::EAGAIN), "only if asked to");
    terminal.answer_cursor_reports();
    slave.write(b"text \x1b\x1b[").unwrap();
    slave.write(b"6n").unwrap();
    let n = slave.read(&mut buf).unwrap();
    assert_eq!(&buf[..n], b"\x1b[1;1R");
}
