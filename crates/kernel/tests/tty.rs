//! Terminals: a person's side held by the host, programs on the other.

mod common;

use common::{Machine, died, read_path, request, text};
use kernel::pty::termios::{Lflag, When};
use kernel::{
    Dir, Errno, ExitStatus, HostReader, HostTerminal, Interrupt, OpenFlags, Outcome, Program,
    SigAction, Signal, SpawnRequest, Task, WaitOptions, WaitTarget, Winsize,
};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const SIZE: Winsize = Winsize {
    rows: 24,
    cols: 80,
    xpixel: 0,
    ypixel: 0,
};

fn sit(machine: &Machine, command: &str) -> (Arc<HostTerminal>, kernel::Child, HostReader) {
    let terminal = Arc::new(machine.vm.open_terminal(SIZE).unwrap());
    let child = machine
        .vm
        .spawn(&SpawnRequest {
            terminal: Some(terminal.clone()),
            ..request(command, &[])
        })
        .unwrap();
    let reader = terminal.reader();
    (terminal, child, reader)
}

/// Reads until what came ends with `wanted`.
fn expect(reader: &mut HostReader, wanted: &str) -> String {
    let mut all = String::new();
    let mut buf = [0; 256];
    while !all.ends_with(wanted) {
        match reader.read_timeout(&mut buf, Duration::from_secs(20)) {
            Ok(n @ 1..) => all.push_str(&text(&buf[..n])),
            other => panic!("{other:?} after {all:?}, waiting for {wanted:?}"),
        }
    }
    all
}

#[test]
fn lines_are_edited_echoed_and_read() {
    let machine = Machine::new();
    let (terminal, child, mut screen) = sit(&machine, "cat");
    let mut keys = terminal.writer();
    keys.write_all(b"helx\x7flo\r").unwrap();
    assert_eq!(
        expect(&mut screen, "\r\nhello\r\n"),
        "helx\u{8} \u{8}lo\r\nhello\r\n"
    );
    keys.write_all(b"\x04").unwrap();
    assert_eq!(child.wait(), ExitStatus::Code(0));
    assert_eq!(screen.read(&mut [0; 10]), Err(Errno::EIO));
}

#[test]
fn typed_signals_reach_the_foreground() {
    let machine = Machine::new();
    let (terminal, child, mut screen) = sit(&machine, "cat");
    terminal.writer().write_all(b"\x03").unwrap();
    assert_eq!(
        child.wait(),
        ExitStatus::Signal {
            signal: Signal::INT,
            core: false
        }
    );
    assert_eq!(expect(&mut screen, "^C"), "^C");
}

#[test]
fn a_program_sees_its_terminal() {
    let machine = Machine::new();
    machine.program("look", |task| {
        let size = task.tcgetwinsize(0).unwrap();
        let link = text(&task.readlinkat(Dir::Cwd, b"/proc/self/fd/0").unwrap());
        let stat = read_path(task, "/proc/self/stat").unwrap();
        let fields: Vec<_> = stat.split(' ').collect();
        let tty = task
            .openat(Dir::Cwd, b"/dev/tty", OpenFlags::RDWR, 0)
            .unwrap();
        assert!(task.isatty(tty).unwrap() && task.isatty(0).unwrap());
        assert_eq!(task.tcgetpgrp(0), Ok(task.pid()));
        assert_eq!(task.tcgetsid(tty), Ok(task.pid()));
        assert_eq!(task.tcgetattr(77), Err(Errno::EBADF));
        print!(
            task,
            "{} {} {link} {} {}\n",
            size.rows,
            size.cols,
            fields[6],
            fields[7] == fields[0]
        );
        Outcome::Exit(0)
    });
    let (_terminal, child, mut screen) = sit(&machine, "look");
    let shown = expect(&mut screen, "\n");
    assert_eq!(shown, format!("24 80 /dev/pts/0 {} true\r\n", 136 << 8));
    assert_eq!(child.wait(), ExitStatus::Code(0));
}

#[test]
fn resizing_tells_the_foreground_once() {
    let machine = Machine::new();
    machine.program("winch", |task| {
        let handler = SigAction {
            disposition: kernel::Disposition::Handler,
            ..SigAction::DEFAULT
        };
        task.sigaction(Signal::WINCH, Some(handler)).unwrap();
        print!(task, "ready\n");
        let mut seen = 0;
        while task
            .nanosleep(Duration::from_millis(if seen == 0 { 20_000 } else { 50 }))
            .is_err()
        {
            if let Err(Interrupt::Die(signal)) = task.checkpoint() {
                return Outcome::Killed(signal);
            }
            while let Some(call) = task.next_handler() {
                seen += 1;
                task.end_handler(call);
            }
        }
        print!(task, "{seen} {}\n", task.tcgetwinsize(0).unwrap().cols);
        Outcome::Exit(0)
    });
    let (terminal, child, mut screen) = sit(&machine, "winch");
    expect(&mut screen, "ready\r\n");
    terminal.resize(Winsize { cols: 100, ..SIZE });
    terminal.resize(Winsize { cols: 100, ..SIZE });
    assert_eq!(expect(&mut screen, "\n"), "1 100\r\n");
    assert_eq!(child.wait(), ExitStatus::Code(0));
}

#[test]
fn closing_the_terminal_hangs_up() {
    let machine = Machine::new();
    let (terminal, child, screen) = sit(&machine, "cat");
    drop(screen);
    drop(terminal);
    assert_eq!(
        child.wait(),
        ExitStatus::Signal {
            signal: Signal::HUP,
            core: false
        }
    );
}

#[test]
fn raw_mode_ends_with_the_process() {
    let machine = Machine::new();
    machine.program("raw", |task| {
        task.set_raw_mode(0, true).unwrap();
        print!(task, "raw");
        let mut byte = [0];
        task.read(0, &mut byte).unwrap();
        print!(task, "{}", byte[0]);
        Outcome::Exit(0)
    });
    let (terminal, child, mut screen) = sit(&machine, "raw");
    expect(&mut screen, "raw");
    assert!(!terminal.terminal().termios().lflag.contains(Lflag::ICANON));
    terminal.writer().write_all(b"\r").unwrap();
    expect(&mut screen, "13");
    child.wait();
    assert_eq!(terminal.terminal().termios(), kernel::Termios::default());
}

#[test]
fn guests_make_terminals_of_their_own() {
    let machine = Machine::new();
    let output = machine.run(|task| {
        let (master, slave) = task.openpty().unwrap();
        let number = task.pty_number(master).unwrap();
        let mut modes = task.tcgetattr(slave).unwrap();
        modes.lflag.remove(Lflag::ECHO);
        task.tcsetattr(slave, &modes, When::Now).unwrap();
        task.write(master, b"typed\n").unwrap();
        let mut buf = [0; 64];
        let n = task.read(slave, &mut buf).unwrap();
        task.write(slave, b"shown\n").unwrap();
        let m = task.read(master, &mut buf[n..]).unwrap();
        print!(task, "{number} {:?}", text(&buf[..n + m]));
        let by_name = task.openat(
            Dir::Cwd,
            format!("/dev/pts/{number}").as_bytes(),
            OpenFlags::RDWR | OpenFlags::NOCTTY,
            0,
        );
        assert!(by_name.is_ok());
        assert_eq!(
            task.openat(Dir::Cwd, b"/dev/tty", OpenFlags::RDWR, 0),
            Err(Errno::ENXIO)
        );
        let raw = task
            .openat(Dir::Cwd, b"/dev/ptmx", OpenFlags::RDWR, 0)
            .unwrap();
        let locked = format!("/dev/pts/{}", task.pty_number(raw).unwrap());
        assert_eq!(
            task.openat(Dir::Cwd, locked.as_bytes(), OpenFlags::RDWR, 0),
            Err(Errno::EIO)
        );
        Outcome::Exit(0)
    });
    assert_eq!(text(&output.stdout.bytes), "0 \"typed\\nshown\\r\\n\"");
    assert_eq!(output.status, ExitStatus::Code(0));
}

struct Rest(u32);

impl Program for Rest {
    fn run(self: Box<Self>, task: &Rc<Task>) -> Outcome {
        print!(
            task,
            "child of {} {} {:?}\n",
            task.ppid() == self.0,
            text(&task.argv()[0]),
            task.sigmask()
        );
        Outcome::Exit(5)
    }
}

#[test]
fn a_fork_goes_on_with_what_its_parent_has() {
    let machine = Machine::new();
    let output = machine.run(|task| {
        task.sigprocmask(
            kernel::MaskHow::Block,
            kernel::SigSet::EMPTY.with(Signal::USR1),
        );
        assert!(matches!(
            task.reserve_memory(u64::MAX),
            Err(kernel::Errno::ENOMEM)
        ));
        let memory = task.reserve_memory(1 << 20).unwrap();
        let pid = task.fork(Box::new(Rest(task.pid())), memory).unwrap();
        let event = task
            .wait(WaitTarget::Pid(pid), WaitOptions::empty())
            .unwrap()
            .unwrap();
        print!(task, "{:?}", event.status);
        if task.needs_checkpoint() {
            died(task)
        } else {
            Outcome::Exit(0)
        }
    });
    assert_eq!(
        text(&output.stdout.bytes),
        "child of true test-main {SIGUSR1}\nExited(Code(5))"
    );
}
