//! The directory of a process, in Linux's formats (`Documentation/filesystems/proc.rst`).

use super::system::HZ;
use crate::vm::VmInner;
use proctable::rlimit::Resource;
use proctable::{Process, State};
use std::fmt::Write as _;
use std::sync::Arc;
use vfs_core::errno::{Errno, Result};
use vfs_core::file::Whence;
use vfs_core::mount::{MountFlags, MountInfo};
use vfs_core::types::FileType;

macro_rules! entries {
    ($($variant:ident $name:literal $kind:ident $mode:literal)*) => {
        /// An entry of the directory of a process.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub(super) enum Entry { $($variant),* }

        impl Entry {
            pub(super) const ALL: &'static [Entry] = &[$(Entry::$variant),*];

            pub(super) fn name(self) -> &'static [u8] {
                match self { $(Entry::$variant => $name),* }
            }

            pub(super) fn file_type(self) -> FileType {
                match self { $(Entry::$variant => FileType::$kind),* }
            }

            pub(super) fn mode(self) -> u32 {
                match self { $(Entry::$variant => $mode),* }
            }
        }
    };
}

entries! {
    Status b"status" Regular 0o444
    Stat b"stat" Regular 0o444
    Statm b"statm" Regular 0o444
    Cmdline b"cmdline" Regular 0o444
    Comm b"comm" Regular 0o444
    Environ b"environ" Regular 0o400
    Limits b"limits" Regular 0o444
    Mounts b"mounts" Regular 0o444
    MountInfo b"mountinfo" Regular 0o444
    Io b"io" Regular 0o400
    Maps b"maps" Regular 0o444
    Cgroup b"cgroup" Regular 0o444
    Cwd b"cwd" Symlink 0o777
    Exe b"exe" Symlink 0o777
    Root b"root" Symlink 0o777
    Fd b"fd" Directory 0o500
    FdInfo b"fdinfo" Directory 0o500
    Task b"task" Directory 0o555
}

impl Entry {
    pub(super) fn named(name: &[u8]) -> Option<Entry> {
        Entry::ALL
            .iter()
            .copied()
            .find(|entry| entry.name() == name)
    }

    /// Whether it is for those alone who may look into the process, whatever its mode says.
    pub(super) fn is_private(self) -> bool {
        matches!(self, Entry::Environ | Entry::Io | Entry::Maps)
    }
}

/// Content of a file.
pub(super) fn content(vm: &VmInner, process: &Arc<Process>, entry: Entry) -> Result<Vec<u8>> {
    vm.running.count_cpu(process.pid());
    Ok(match entry {
        Entry::Status => status(vm, process),
        Entry::Stat => stat(vm, process),
        Entry::Statm => {
            let pages = vm.running.memory(process.pid()) / 4096;
            format!("{pages} {pages} 0 0 0 {pages} 0\n").into_bytes()
        }
        Entry::Cmdline if process.is_alive() => joined(&process.argv()),
        Entry::Environ if process.is_alive() => joined(&process.env()),
        Entry::Cmdline | Entry::Environ => Vec::new(),
        Entry::Comm => [&process.comm()[..], b"\n"].concat(),
        Entry::Limits => limits(process),
        Entry::Mounts => mounts(vm, process),
        Entry::MountInfo => mountinfo(vm, process),
        Entry::Io => io(),
        // A guest's memory is not mapped from files and has no addresses of the host's kind.
        Entry::Maps => Vec::new(),
        Entry::Cgroup => b"0::/\n".to_vec(),
        Entry::Cwd | Entry::Exe | Entry::Root | Entry::Fd | Entry::FdInfo | Entry::Task => {
            return Err(Errno::EINVAL);
        }
    })
}

/// Each text and a NUL.
fn joined(texts: &[Vec<u8>]) -> Vec<u8> {
    texts
        .iter()
        .flat_map(|text| text.iter().copied().chain([0]))
        .collect()
}

fn state_name(state: State) -> &'static str {
    match state {
        State::Running => "running",
        State::Sleeping => "sleeping",
        State::Stopped => "stopped",
        State::Zombie => "zombie",
        State::Dead => "dead",
    }
}

fn status(vm: &VmInner, process: &Process) -> Vec<u8> {
    let cred = process.cred();
    let signals = process.signals();
    let state = process.state();
    let (pid, pgid, sid) = (process.pid(), process.pgid(), process.sid());
    let kb = vm.running.memory(pid) >> 10;
    let mut text = String::new();
    let _ = writeln!(text, "Name:\t{}", escape_name(&process.comm()));
    let _ = writeln!(text, "Umask:\t{:04o}", process.umask());
    let _ = writeln!(text, "State:\t{} ({})", state.letter(), state_name(state));
    let _ = writeln!(
        text,
        "Tgid:\t{pid}\nNgid:\t0\nPid:\t{pid}\nPPid:\t{}\nTracerPid:\t0",
        process.ppid()
    );
    let _ = writeln!(
        text,
        "Uid:\t{}\t{}\t{}\t{}",
        cred.uid, cred.euid, cred.suid, cred.euid
    );
    let _ = writeln!(
        text,
        "Gid:\t{}\t{}\t{}\t{}",
        cred.gid, cred.egid, cred.sgid, cred.egid
    );
    let _ = writeln!(
        text,
        "FDSize:\t{}",
        process.fds().len().next_power_of_two().max(64)
    );
    let groups: Vec<String> = cred.groups.iter().map(u32::to_string).collect();
    let _ = writeln!(text, "Groups:\t{} ", groups.join(" "));
    let _ = writeln!(
        text,
        "NStgid:\t{pid}\nNSpid:\t{pid}\nNSpgid:\t{pgid}\nNSsid:\t{sid}"
    );
    if process.is_alive() {
        for name in ["VmPeak", "VmSize", "VmHWM", "VmRSS", "RssAnon", "VmData"] {
            let _ = writeln!(text, "{name}:\t{kb:>8} kB");
        }
    }
    let _ = writeln!(text, "Threads:\t1");
    let pending = signals.pending_all().bits();
    let queue = process.rlimit(Resource::Sigpending).soft;
    let _ = writeln!(text, "SigQ:\t{}/{queue}", pending.count_ones());
    for (name, set) in [
        ("SigPnd", 0),
        ("ShdPnd", pending),
        ("SigBlk", signals.mask().bits()),
        ("SigIgn", signals.ignored().bits()),
        ("SigCgt", signals.caught().bits()),
    ] {
        let _ = writeln!(text, "{name}:\t{set:016x}");
    }
    let all: u64 = if cred.is_root() { 0x1ff_ffff_ffff } else { 0 };
    for (name, set) in [
        ("CapInh", 0),
        ("CapPrm", all),
        ("CapEff", all),
        ("CapBnd", 0x1ff_ffff_ffff),
        ("CapAmb", 0),
    ] {
        let _ = writeln!(text, "{name}:\t{set:016x}");
    }
    text.push_str("NoNewPrivs:\t0\nSeccomp:\t0\nCpus_allowed:\t1\nCpus_allowed_list:\t0\n");
    text.push_str("voluntary_ctxt_switches:\t0\nnonvoluntary_ctxt_switches:\t0\n");
    text.into_bytes()
}

/// A name as `status` shows it: newline and backslash escaped.
fn escape_name(name: &[u8]) -> String {
    String::from_utf8_lossy(name)
        .replace('\\', "\\\\")
        .replace('\n', "\\n")
}

fn stat(vm: &VmInner, process: &Process) -> Vec<u8> {
    let ticks = |time: std::time::Duration| time.as_nanos() * HZ / 1_000_000_000;
    let (own, children) = process.rusage();
    let signals = process.signals();
    let memory = vm.running.memory(process.pid());
    let start = process.started().saturating_duration_since(vm.booted);
    let exit_code = process
        .exit_status()
        .map_or(0, proctable::ExitStatus::wait_status);
    let terminal = vm.table.terminal(process.sid());
    let terminal = terminal
        .as_ref()
        .and_then(|tty| tty.as_any().downcast_ref::<pty::Terminal>());
    let tty = terminal.map_or(0, |terminal| pty::devpts::slave_rdev(terminal.index()));
    let foreground = terminal.map_or(-1, |terminal| terminal.foreground().map_or(-1, i64::from));
    let mut text = format!("{} (", process.pid()).into_bytes();
    text.extend_from_slice(&process.comm());
    let rest = format!(
        ") {} {} {} {} {tty} {foreground} 4194304 0 0 0 0 {} {} {} {} 20 0 1 0 {} {memory} {} {} 0 0 0 0 0 {} {} {} {} 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 {exit_code}\n",
        process.state().letter(),
        process.ppid(),
        process.pgid(),
        process.sid(),
        ticks(own.user),
        ticks(own.system),
        ticks(children.user),
        ticks(children.system),
        ticks(start),
        memory / 4096,
        process.rlimit(Resource::Rss).soft,
        signals.pending_all().bits() & 0x7fff_ffff,
        signals.mask().bits() & 0x7fff_ffff,
        signals.ignored().bits() & 0x7fff_ffff,
        signals.caught().bits() & 0x7fff_ffff,
    );
    text.extend_from_slice(rest.as_bytes());
    text
}

fn limits(process: &Process) -> Vec<u8> {
    let mut text = format!(
        "{:<25} {:<20} {:<20} {:<10}\n",
        "Limit", "Soft Limit", "Hard Limit", "Units"
    );
    for (name, resource, unit) in [
        ("Max cpu time", Resource::Cpu, "seconds"),
        ("Max file size", Resource::Fsize, "bytes"),
        ("Max data size", Resource::Data, "bytes"),
        ("Max stack size", Resource::Stack, "bytes"),
        ("Max core file size", Resource::Core, "bytes"),
        ("Max resident set", Resource::Rss, "bytes"),
        ("Max processes", Resource::Nproc, "processes"),
        ("Max open files", Resource::Nofile, "files"),
        ("Max locked memory", Resource::Memlock, "bytes"),
        ("Max address space", Resource::As, "bytes"),
        ("Max file locks", Resource::Locks, "locks"),
        ("Max pending signals", Resource::Sigpending, "signals"),
        ("Max msgqueue size", Resource::Msgqueue, "bytes"),
        ("Max nice priority", Resource::Nice, ""),
        ("Max realtime priority", Resource::Rtprio, ""),
        ("Max realtime timeout", Resource::Rttime, "us"),
    ] {
        let show = |value: u64| {
            if value == u64::MAX {
                "unlimited".to_owned()
            } else {
                value.to_string()
            }
        };
        let limit = process.rlimit(resource);
        let _ = write!(
            text,
            "{name:<25} {:<20} {:<20} ",
            show(limit.soft),
            show(limit.hard)
        );
        let _ = if unit.is_empty() {
            writeln!(text)
        } else {
            writeln!(text, "{unit:<10}")
        };
    }
    text.into_bytes()
}

/// Options of a mount as the mount tables show them.
fn options(flags: MountFlags) -> String {
    let mut text = String::from(if flags.contains(MountFlags::RDONLY) {
        "ro"
    } else {
        "rw"
    });
    for (flag, name) in [
        (MountFlags::NOSUID, ",nosuid"),
        (MountFlags::NODEV, ",nodev"),
        (MountFlags::NOEXEC, ",noexec"),
        (MountFlags::NOATIME, ",noatime"),
    ] {
        if flags.contains(flag) {
            text.push_str(name);
        }
    }
    if !flags.contains(MountFlags::NOATIME) {
        text.push_str(",relatime");
    }
    text
}

/// A name in a mount table: blanks, newlines, backslashes and `#` in octal (`mangle`).
fn mangle(name: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len());
    for &byte in name {
        if b" \t\n\\#".contains(&byte) {
            out.extend_from_slice(format!("\\{byte:03o}").as_bytes());
        } else {
            out.push(byte);
        }
    }
    out
}

/// The mounts that the process can reach from its root.
fn visible(vm: &VmInner, process: &Process) -> Vec<MountInfo> {
    let mounts = vm.ns.mounts();
    let Some(root) = process.root() else {
        return mounts;
    };
    let prefix = vm.ns.absolute(&root, &vm.ns.root()).bytes;
    if prefix == b"/" {
        return mounts;
    }
    mounts
        .into_iter()
        .filter_map(|mut mount| {
            let rest = mount.mountpoint.strip_prefix(&prefix[..])?;
            mount.mountpoint = match rest {
                b"" => b"/".to_vec(),
                [b'/', ..] => rest.to_vec(),
                _ => return None,
            };
            Some(mount)
        })
        .collect()
}

fn mounts(vm: &VmInner, process: &Process) -> Vec<u8> {
    let mut text = Vec::new();
    for mount in visible(vm, process) {
        text.extend_from_slice(&mangle(mount.source.as_bytes()));
        text.push(b' ');
        text.extend_from_slice(&mangle(&mount.mountpoint));
        text.extend_from_slice(
            format!(" {} {} 0 0\n", mount.fs_type, options(mount.flags)).as_bytes(),
        );
    }
    text
}

fn mountinfo(vm: &VmInner, process: &Process) -> Vec<u8> {
    let mut text = Vec::new();
    for mount in visible(vm, process) {
        text.extend_from_slice(format!("{} {} 0:{} ", mount.id, mount.parent, mount.id).as_bytes());
        text.extend_from_slice(&mangle(&mount.root));
        text.push(b' ');
        text.extend_from_slice(&mangle(&mount.mountpoint));
        text.extend_from_slice(
            format!(" {} - {} ", options(mount.flags), mount.fs_type).as_bytes(),
        );
        text.extend_from_slice(&mangle(mount.source.as_bytes()));
        let read_only = mount.flags.contains(MountFlags::RDONLY);
        text.extend_from_slice(if read_only { b" ro\n" } else { b" rw\n" });
    }
    text
}

/// Traffic is not counted.
fn io() -> Vec<u8> {
    [
        "rchar",
        "wchar",
        "syscr",
        "syscw",
        "read_bytes",
        "write_bytes",
        "cancelled_write_bytes",
    ]
    .iter()
    .fold(String::new(), |text, name| text + name + ": 0\n")
    .into_bytes()
}

/// Content of `fdinfo/N`.
pub(super) fn fdinfo(process: &Process, fd: i32) -> Result<Vec<u8>> {
    let file = process.fds().get(fd).map_err(|_| Errno::ENOENT)?;
    let pos = file.seek(0, Whence::Current).unwrap_or(0);
    let mut flags = file.flags().bits();
    if process.fds().cloexec(fd).unwrap_or(false) {
        flags |= vfs_core::types::OpenFlags::CLOEXEC.bits();
    }
    let mount = file.path().map_or(0, |path| path.mount().id());
    let ino = file.stat().map_or(0, |stat| stat.ino);
    Ok(format!("pos:\t{pos}\nflags:\t0{flags:o}\nmnt_id:\t{mount}\nino:\t{ino}\n").into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_mount_tables_have_no_blanks() {
        assert_eq!(mangle(b"/a b\\c\n#"), b"/a\\040b\\134c\\012\\043");
        assert_eq!(
            options(MountFlags::RDONLY | MountFlags::NOEXEC),
            "ro,noexec,relatime"
        );
        assert_eq!(options(MountFlags::NOATIME), "rw,noatime");
    }
}
