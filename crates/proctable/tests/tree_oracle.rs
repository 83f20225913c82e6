//! Random families of processes, here and on the host: groups, sessions, stops, deaths, orphans
//! and waits must come out the same after every step.
//!
//! On the host a subreaper that ignores `SIGCHLD` plays pid 1. Its child and all descendants are
//! workers, which do what arrives on their pipe; the test itself sends the signals. Here the same
//! steps are made on a table, and each process takes its signals after every step.

mod common;

use common::World;
use proctable::{
    Delivery, ExitStatus, KillTarget, MaskHow, Process, SaFlags, SigAction, SigSet, Signal, State,
    WaitOptions, WaitTarget,
};
use proptest::prelude::*;
use std::cell::Cell;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};
use vfs_core::errno::Errno;

const SLOTS: usize = 8;

#[derive(Clone, Debug)]
enum Who {
    Zero,
    Slot(u8),
}

#[derive(Clone, Debug)]
enum Target {
    Any,
    OwnGroup,
    Pid(u8),
    Group(u8),
}

#[derive(Clone, Debug)]
enum Op {
    Fork(u8),
    Exit(u8, u8),
    Setpgid(u8, Who, Who),
    Setsid(u8),
    Getpgid(u8, u8),
    Getsid(u8, u8),
    Getppid(u8),
    Kill(u8, u8),
    KillGroup(u8, u8),
    Wait(u8, Target, u8),
    Action(u8, u8, u8),
    Mask(u8, u8, bool),
}

const SIGNALS: [Signal; 9] = [
    Signal::HUP,
    Signal::TERM,
    Signal::KILL,
    Signal::STOP,
    Signal::TSTP,
    Signal::CONT,
    Signal::USR1,
    Signal::USR2,
    Signal::CHLD,
];

fn signal(n: u8) -> Signal {
    SIGNALS[usize::from(n) % SIGNALS.len()]
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let s = || 0..SLOTS as u8;
    let who = || prop_oneof![Just(Who::Zero), s().prop_map(Who::Slot)];
    // Stopping and continuing is what is interesting, dying too soon is not.
    let sig = || prop_oneof![4 => 3u8..6, 1 => 0u8..9];
    let target = prop_oneof![
        4 => Just(Target::Any),
        1 => Just(Target::OwnGroup),
        2 => s().prop_map(Target::Pid),
        1 => s().prop_map(Target::Group),
    ];
    let op = prop_oneof![
        8 => s().prop_map(Op::Fork),
        2 => (s(), any::<u8>()).prop_map(|(a, c)| Op::Exit(a, c)),
        6 => (s(), who(), who()).prop_map(|(a, p, g)| Op::Setpgid(a, p, g)),
        1 => s().prop_map(Op::Setsid),
        1 => (s(), s()).prop_map(|(a, b)| Op::Getpgid(a, b)),
        1 => (s(), s()).prop_map(|(a, b)| Op::Getsid(a, b)),
        1 => s().prop_map(Op::Getppid),
        5 => (s(), sig()).prop_map(|(a, n)| Op::Kill(a, n)),
        4 => (s(), sig()).prop_map(|(a, n)| Op::KillGroup(a, n)),
        6 => (s(), target, 0u8..8).prop_map(|(a, t, o)| Op::Wait(a, t, o)),
        2 => (s(), 0u8..9, 0u8..4).prop_map(|(a, n, d)| Op::Action(a, n, d)),
        2 => (s(), 0u8..9, any::<bool>()).prop_map(|(a, n, b)| Op::Mask(a, n, b)),
    ];
    proptest::collection::vec(op, 10..45)
}

/// What both sides say about a step: a number or an error, and a second number.
type Answer = (i64, i64);

// ---------------------------------------------------------------------------------------------
// The table.

struct Ours {
    world: World,
    slots: Vec<Arc<Process>>,
}

impl Ours {
    fn new() -> Ours {
        let world = World::new();
        let first = world.shell();
        Ours {
            world,
            slots: vec![first],
        }
    }

    fn name(&self, pid: u32) -> i64 {
        self.slots
            .iter()
            .position(|p| p.pid() == pid)
            .map_or(if pid == 1 { -1 } else { -2 }, |s| s as i64)
    }

    /// Whether the worker can do anything now.
    fn able(&self, slot: usize) -> bool {
        self.slots
            .get(slot)
            .is_some_and(|p| matches!(p.state(), State::Running))
    }

    fn run(&mut self, op: &Op) -> Answer {
        let t = &self.world.table;
        let p = |s: &u8| &self.slots[usize::from(*s)];
        let pid_of = |s: &u8| {
            self.slots
                .get(usize::from(*s))
                .map_or(99_999, |p| p.pid() as i32)
        };
        let who = |w: &Who| match w {
            Who::Zero => 0,
            Who::Slot(s) => pid_of(s),
        };
        let done =
            |r: Result<(), Errno>| r.map_or_else(|e| (-i64::from(e.number()), 0), |()| (0, 0));
        let id = |r: Result<u32, Errno>| {
            r.map_or_else(|e| (-i64::from(e.number()), 0), |n| (1, self.name(n)))
        };
        let answer = match op {
            Op::Fork(s) => {
                let child = self.world.fork(p(s));
                self.slots.push(child);
                (1, self.slots.len() as i64 - 1)
            }
            Op::Exit(s, code) => {
                t.exit(p(s), ExitStatus::Code(*code));
                (0, 0)
            }
            Op::Setpgid(s, a, b) => done(t.setpgid(p(s), who(a), who(b))),
            Op::Setsid(s) => id(t.setsid(p(s))),
            Op::Getpgid(s, b) => id(t.getpgid(p(s), pid_of(b))),
            Op::Getsid(s, b) => id(t.getsid(p(s), pid_of(b))),
            Op::Getppid(s) => (1, self.name(p(s).ppid())),
            Op::Kill(s, n) => {
                done(t.kill(None, KillTarget::Pid(pid_of(s) as u32), Some(signal(*n))))
            }
            Op::KillGroup(s, n) => {
                done(t.kill(None, KillTarget::Group(pid_of(s) as u32), Some(signal(*n))))
            }
            Op::Wait(s, target, options) => {
                let parent = p(s);
                let target = match target {
                    Target::Any => WaitTarget::Any,
                    Target::OwnGroup => WaitTarget::Group(parent.pgid()),
                    Target::Pid(s) => WaitTarget::Pid(pid_of(s) as u32),
                    Target::Group(s) => WaitTarget::Group(pid_of(s) as u32),
                };
                let options = WaitOptions::from_bits_truncate(wait_options(*options) as u32);
                match t.waitid(parent, target, options) {
                    Ok(Some(event)) => (i64::from(event.status.raw()), self.name(event.pid)),
                    Ok(None) => (0, -3),
                    Err(e) => (-i64::from(e.number()), 0),
                }
            }
            Op::Action(s, n, d) => {
                let (ignore, flags) = disposition(*d);
                let base = if ignore {
                    SigAction::IGNORE
                } else {
                    SigAction::DEFAULT
                };
                let action = SigAction {
                    flags: SaFlags::from_bits_truncate(flags as u32),
                    ..base
                };
                done(p(s).signals().set_action(signal(*n), action).map(|_| ()))
            }
            Op::Mask(s, n, block) => {
                let how = if *block {
                    MaskHow::Block
                } else {
                    MaskHow::Unblock
                };
                p(s).signals()
                    .change_mask(how, SigSet::EMPTY.with(signal(*n)));
                (0, 0)
            }
        };
        self.settle();
        answer
    }

    /// Every process that can takes its signals, until nothing changes.
    fn settle(&self) {
        let mut changed = true;
        while std::mem::take(&mut changed) {
            for p in self.slots.iter().filter(|p| p.is_alive()) {
                if let Some(delivery) = p.take_signal() {
                    changed = true;
                    if let Delivery::Terminate { signal, core } = delivery {
                        self.world
                            .table
                            .exit(p, ExitStatus::Signal { signal, core });
                    }
                }
            }
        }
    }

    /// Each worker's state and what is pending for it.
    fn states(&self) -> String {
        let one = |p: &Arc<Process>| match p.state() {
            State::Running | State::Sleeping => format!("r{:x} ", p.signals().pending_all().bits()),
            State::Stopped => format!("T{:x} ", p.signals().pending_all().bits()),
            State::Zombie => "Z ".into(),
            State::Dead => "- ".into(),
        };
        self.slots.iter().map(one).collect()
    }
}

fn wait_options(n: u8) -> i32 {
    let mut options = libc::WNOHANG;
    if n & 1 != 0 {
        options |= libc::WUNTRACED;
    }
    if n & 2 != 0 {
        options |= libc::WCONTINUED;
    }
    // The host's side of the test calls waitid when it must not take the report.
    options |= libc::WEXITED | if n & 4 != 0 { libc::WNOWAIT } else { 0 };
    options
}

/// Whether to ignore, and flags.
fn disposition(n: u8) -> (bool, i32) {
    [
        (false, 0),
        (true, 0),
        (false, libc::SA_NOCLDWAIT),
        (false, libc::SA_NOCLDSTOP),
    ][usize::from(n) % 4]
}

// ---------------------------------------------------------------------------------------------
// The host.

/// What a worker is told: a number of the operation and three arguments.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Command(i32, i32, i32, i32);

/// What it answers: a value or a negative error, and a status.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Reply(i32, i32);

struct Pipes {
    commands: Vec<(OwnedFd, OwnedFd)>,
    replies: Vec<(OwnedFd, OwnedFd)>,
}

struct Host {
    pipes: Pipes,
    _life: OwnedFd,
    /// Workers whose last answer is still to come.
    owed: [Cell<bool>; SLOTS],
    reaper: i32,
    slots: Vec<i32>,
}

/// The life of a worker. Only functions that are safe after fork; never returns.
///
/// # Safety
///
/// Runs in a forked child.
unsafe fn work(commands: &[(i32, i32); SLOTS], mut slot: usize) -> ! {
    // SAFETY: plain system calls on memory of this frame.
    unsafe {
        loop {
            let mut command = Command::default();
            let n = libc::read(
                commands[slot].0,
                (&raw mut command).cast(),
                size_of::<Command>(),
            );
            if n != size_of::<Command>() as isize {
                libc::_exit(99);
            }
            let Command(op, a, b, c) = command;
            let mut status = 0;
            let value = match op {
                0 => {
                    let pid = libc::fork();
                    if pid == 0 {
                        slot = a as usize;
                        continue;
                    }
                    pid
                }
                1 => libc::_exit(a),
                2 => libc::setpgid(a, b),
                3 => libc::setsid(),
                4 => libc::getpgid(a),
                5 => libc::getsid(a),
                6 => libc::getppid(),
                7 if c & libc::WNOWAIT == 0 => {
                    libc::waitpid(a, &raw mut status, c & !libc::WEXITED)
                }
                7 => {
                    let (kind, id) = match a {
                        -1 => (libc::P_ALL, 0),
                        0 => (libc::P_PGID, libc::getpgid(0)),
                        a if a < 0 => (libc::P_PGID, -a),
                        a => (libc::P_PID, a),
                    };
                    let mut info: libc::siginfo_t = std::mem::zeroed();
                    let done = libc::waitid(kind, id as u32, &raw mut info, c);
                    if done == 0 && info.si_pid() != 0 {
                        let s = info.si_status();
                        status = match info.si_code {
                            libc::CLD_EXITED => (s & 0xff) << 8,
                            libc::CLD_KILLED => s,
                            libc::CLD_DUMPED => s | 0x80,
                            libc::CLD_STOPPED => s << 8 | 0x7f,
                            _ => 0xffff,
                        };
                        info.si_pid()
                    } else {
                        done
                    }
                }
                8 => {
                    let mut action: libc::sigaction = std::mem::zeroed();
                    action.sa_sigaction = if b != 0 { libc::SIG_IGN } else { libc::SIG_DFL };
                    action.sa_flags = c;
                    libc::sigaction(a, &raw const action, std::ptr::null_mut())
                }
                _ => {
                    let mut set: libc::sigset_t = std::mem::zeroed();
                    libc::sigaddset(&raw mut set, a);
                    let how = if b != 0 {
                        libc::SIG_BLOCK
                    } else {
                        libc::SIG_UNBLOCK
                    };
                    libc::sigprocmask(how, &raw const set, std::ptr::null_mut())
                }
            };
            let value = if value < 0 {
                -*libc::__errno_location()
            } else {
                value
            };
            let reply = Reply(value, status);
            libc::write(
                commands[slot].1,
                (&raw const reply).cast(),
                size_of::<Reply>(),
            );
        }
    }
}

fn pipe() -> (OwnedFd, OwnedFd) {
    nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).unwrap()
}

impl Host {
    fn new() -> Host {
        let pipes = Pipes {
            commands: (0..SLOTS).map(|_| pipe()).collect(),
            replies: (0..SLOTS).map(|_| pipe()).collect(),
        };
        let mut ends = [(0, 0); SLOTS];
        for (i, end) in ends.iter_mut().enumerate() {
            *end = (
                pipes.commands[i].0.as_raw_fd(),
                pipes.replies[i].1.as_raw_fd(),
            );
        }
        // The test's own ends, which the children close, so that they end with the test.
        let own: Vec<i32> = pipes.commands.iter().map(|p| p.1.as_raw_fd()).collect();
        let life = pipe();
        let (life_read, life_write) = (life.0.as_raw_fd(), life.1.as_raw_fd());
        // SAFETY: the children call only functions that are safe after fork and never return.
        let reaper = unsafe {
            match libc::fork() {
                0 => {
                    for fd in &own {
                        libc::close(*fd);
                    }
                    libc::close(life_write);
                    libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1);
                    let none = libc::rlimit {
                        rlim_cur: 0,
                        rlim_max: 0,
                    };
                    libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
                    // Whoever runs the tests may ignore or block signals (`nohup` does), and that
                    // is inherited.
                    for number in 1..=64 {
                        libc::signal(number, libc::SIG_DFL);
                    }
                    let mut empty: libc::sigset_t = std::mem::zeroed();
                    libc::sigemptyset(&raw mut empty);
                    libc::sigprocmask(libc::SIG_SETMASK, &raw const empty, std::ptr::null_mut());
                    libc::signal(libc::SIGCHLD, libc::SIG_IGN);
                    libc::setsid();
                    let pid = libc::fork();
                    if pid == 0 {
                        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
                        libc::setsid();
                        let ready = Reply(libc::getpid(), 0);
                        libc::write(ends[0].1, (&raw const ready).cast(), size_of::<Reply>());
                        work(&ends, 0);
                    }
                    let mut byte = 0u8;
                    libc::read(life_read, (&raw mut byte).cast(), 1);
                    libc::_exit(0);
                }
                pid => pid,
            }
        };
        assert!(reaper > 0);
        let mut host = Host {
            pipes,
            _life: life.1,
            owed: Default::default(),
            reaper,
            slots: Vec::new(),
        };
        let first = host.reply(0).0;
        host.slots.push(first);
        host
    }

    /// What the worker answers; `Reply(-9999, 0)` if it does not.
    fn reply(&self, slot: usize) -> Reply {
        let fd = self.pipes.replies[slot].0.as_raw_fd();
        let mut one = libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one valid entry.
        if unsafe { libc::poll(&raw mut one, 1, 10_000) } != 1 {
            return Reply(-9999, 0);
        }
        let mut file = std::fs::File::from(self.pipes.replies[slot].0.try_clone().unwrap());
        let mut bytes = [0; size_of::<Reply>()];
        file.read_exact(&mut bytes).unwrap();
        let at = |i: usize| i32::from_ne_bytes(bytes[i..i + 4].try_into().unwrap());
        Reply(at(0), at(4))
    }

    fn ask(&self, slot: u8, command: Command) -> Reply {
        if self.owed[usize::from(slot)].take() {
            self.reply(usize::from(slot));
        }
        self.tell(slot, command);
        self.reply(usize::from(slot))
    }

    fn tell(&self, slot: u8, Command(a, b, c, d): Command) {
        let file = self.pipes.commands[usize::from(slot)]
            .1
            .try_clone()
            .unwrap();
        let bytes: Vec<u8> = [a, b, c, d].iter().flat_map(|n| n.to_ne_bytes()).collect();
        std::fs::File::from(file).write_all(&bytes).unwrap();
    }

    fn name(&self, pid: i32) -> i64 {
        self.slots
            .iter()
            .position(|p| *p == pid)
            .map_or(if pid == self.reaper { -1 } else { -2 }, |s| s as i64)
    }

    /// Makes a step; `able` says whether the worker can still answer after it.
    fn run(&mut self, op: &Op, able: bool) -> Answer {
        let pid_of = |s: &u8| self.slots.get(usize::from(*s)).copied().unwrap_or(i32::MAX);
        let who = |w: &Who| match w {
            Who::Zero => 0,
            Who::Slot(s) => pid_of(s),
        };
        let id = |r: Reply| {
            if r.0 < 0 {
                (i64::from(r.0), 0)
            } else {
                (1, self.name(r.0))
            }
        };
        let done = |r: Reply| (i64::from(r.0), 0);
        let kill = |pid: i32, n: u8| {
            // SAFETY: a system call on the workers of this test, whose pids stay theirs: they are
            // reaped only by steps of the test, and pids are not used again so soon.
            match unsafe { libc::kill(pid, i32::from(signal(n).number())) } {
                0 => (0, 0),
                _ => (
                    -i64::from(std::io::Error::last_os_error().raw_os_error().unwrap()),
                    0,
                ),
            }
        };
        match op {
            Op::Fork(s) => {
                let slot = self.slots.len();
                let pid = self.ask(*s, Command(0, slot as i32, 0, 0)).0;
                if pid <= 0 {
                    return (i64::from(pid), 0);
                }
                self.slots.push(pid);
                (1, slot as i64)
            }
            Op::Exit(s, code) => {
                self.tell(*s, Command(1, i32::from(*code), 0, 0));
                (0, 0)
            }
            Op::Setpgid(s, a, b) => done(self.ask(*s, Command(2, who(a), who(b), 0))),
            Op::Setsid(s) => id(self.ask(*s, Command(3, 0, 0, 0))),
            Op::Getpgid(s, b) => id(self.ask(*s, Command(4, pid_of(b), 0, 0))),
            Op::Getsid(s, b) => id(self.ask(*s, Command(5, pid_of(b), 0, 0))),
            Op::Getppid(s) => id(self.ask(*s, Command(6, 0, 0, 0))),
            Op::Kill(s, n) => kill(pid_of(s), *n),
            Op::KillGroup(s, n) => kill(-pid_of(s), *n),
            Op::Wait(s, target, options) => {
                let pid = match target {
                    Target::Any => -1,
                    Target::OwnGroup => 0,
                    Target::Pid(s) => pid_of(s),
                    Target::Group(s) => -pid_of(s),
                };
                let r = self.ask(*s, Command(7, pid, 0, wait_options(*options)));
                match r.0 {
                    0 => (0, -3),
                    e if e < 0 => (i64::from(e), 0),
                    pid => (i64::from(r.1), self.name(pid)),
                }
            }
            Op::Action(s, n, d) => {
                let (ignore, flags) = disposition(*d);
                let number = i32::from(signal(*n).number());
                done(self.ask(*s, Command(8, number, i32::from(ignore), flags)))
            }
            Op::Mask(s, n, block) => {
                let number = i32::from(signal(*n).number());
                let command = Command(9, number, i32::from(*block), 0);
                if able {
                    return done(self.ask(*s, command));
                }
                // What it let in stopped or ended it, so the answer comes later or never.
                self.tell(*s, command);
                self.owed[usize::from(*s)].set(true);
                (0, 0)
            }
        }
    }

    fn states(&self) -> String {
        let one = |pid: &i32| {
            let Ok(status) = std::fs::read_to_string(format!("/proc/{pid}/status")) else {
                return "- ".into();
            };
            let field = |name: &str| {
                status
                    .lines()
                    .find_map(|l| l.strip_prefix(name))
                    .map_or("", str::trim)
            };
            let bits = |name| u64::from_str_radix(field(name), 16).unwrap_or(0);
            let pending = bits("SigPnd:") | bits("ShdPnd:");
            match field("State:").chars().next() {
                Some('T' | 't') => format!("T{pending:x} "),
                Some('Z') => "Z ".into(),
                // On its way out, and still found by kill.
                Some('X') => "x ".into(),
                None => "- ".into(),
                _ => format!("r{pending:x} "),
            }
        };
        self.slots.iter().map(one).collect()
    }

    /// The states once they are as `expected`, or as they are when patience ends.
    fn states_settled(&self, expected: &str) -> String {
        let deadline = Instant::now() + Duration::from_secs(3);
        loop {
            let states = self.states();
            if states == expected || Instant::now() > deadline {
                return states;
            }
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // SAFETY: the reaper is our child; the workers die with it or before, and are killed
        // first so that none is left to somebody else.
        unsafe {
            for _ in 0..2 {
                for pid in &self.slots {
                    // Only what still descends from the reaper is ours to kill.
                    if std::path::Path::new(&format!("/proc/{pid}")).exists() {
                        libc::kill(*pid, libc::SIGKILL);
                    }
                }
            }
            libc::kill(self.reaper, libc::SIGKILL);
            libc::waitpid(self.reaper, std::ptr::null_mut(), 0);
        }
    }
}

/// Makes a worker of `op` one that exists and can act; `None` if the step makes no sense now.
fn fit(op: &Op, ours: &Ours) -> Option<Op> {
    let actor = |s: u8| {
        let n = ours.slots.len();
        (0..n)
            .map(|i| (usize::from(s) + i) % n)
            .find(|i| ours.able(*i))
            .map(|i| i as u8)
    };
    Some(match op.clone() {
        Op::Fork(s) if ours.slots.len() < SLOTS => Op::Fork(actor(s)?),
        Op::Fork(_) => return None,
        Op::Exit(s, c) => Op::Exit(actor(s)?, c),
        Op::Setpgid(s, a, b) => Op::Setpgid(actor(s)?, a, b),
        Op::Setsid(s) => Op::Setsid(actor(s)?),
        Op::Getpgid(s, b) => Op::Getpgid(actor(s)?, b),
        Op::Getsid(s, b) => Op::Getsid(actor(s)?, b),
        Op::Getppid(s) => Op::Getppid(actor(s)?),
        Op::Wait(s, t, o) => Op::Wait(actor(s)?, t, o),
        Op::Action(s, n, d) => Op::Action(actor(s)?, n, d),
        Op::Mask(s, n, b) => Op::Mask(actor(s)?, n, b),
        kill @ (Op::Kill(..) | Op::KillGroup(..)) => kill,
    })
}

fn compare(ops: &[Op]) -> Result<(), TestCaseError> {
    let (mut ours, mut host) = (Ours::new(), Host::new());
    let mut log = Vec::new();
    for op in ops {
        let Some(op) = fit(op, &ours) else { continue };
        let a = ours.run(&op);
        let able = !matches!(op, Op::Mask(s, ..) if !ours.able(usize::from(s)));
        let b = host.run(&op, able);
        let expected = ours.states();
        let states = host.states_settled(&expected);
        log.push(format!("{op:?}: {a:?} {expected}"));
        prop_assert_eq!(
            (a, expected),
            (b, states),
            "here and on the host, at the end of {:#?}",
            log
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 150,
        failure_persistence: None,
        max_shrink_iters: 0,
        ..ProptestConfig::default()
    })]

    #[test]
    fn families_fare_as_on_the_host(ops in ops()) {
        compare(&ops)?;
    }
}

#[test]
fn a_job_that_outlives_its_shell_is_hung_up_as_on_the_host() {
    use Op::*;
    let ops = [
        Fork(0),
        Setpgid(0, Who::Slot(1), Who::Slot(1)),
        Fork(1),
        Kill(2, 4),
        Kill(1, 4),
        Wait(0, Target::Any, 1),
        Exit(0, 3),
        Getppid(1),
        Kill(2, 5),
    ];
    compare(&ops).unwrap();
}
