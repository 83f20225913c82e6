//! Files that tell of the system as a whole.

use crate::vm::VmInner;
use proctable::State;
use std::fmt::Write as _;

/// Clock ticks per second in `/proc` (`USER_HZ`).
pub(super) const HZ: u128 = 100;

fn number(n: u64) -> Vec<u8> {
    format!("{n}\n").into_bytes()
}

/// The VM's memory is what its processes may have together; none of the host's figures appear.
pub(super) fn meminfo(vm: &VmInner) -> Vec<u8> {
    let kb = |bytes: u64| bytes.min(1 << 60) >> 10;
    let total = kb(vm.memory.limit());
    let free = total.saturating_sub(kb(vm.memory.used()));
    let mut text = String::new();
    for (name, value) in [
        ("MemTotal:", total),
        ("MemFree:", free),
        ("MemAvailable:", free),
        ("Buffers:", 0),
        ("Cached:", 0),
        ("SwapCached:", 0),
        ("Active:", total - free),
        ("Inactive:", 0),
        ("SwapTotal:", 0),
        ("SwapFree:", 0),
        ("Dirty:", 0),
        ("Writeback:", 0),
        ("AnonPages:", total - free),
        ("Mapped:", 0),
        ("Shmem:", 0),
    ] {
        let _ = writeln!(text, "{name:<15} {value:>8} kB");
    }
    text.into_bytes()
}

pub(super) fn uptime(vm: &VmInner) -> Vec<u8> {
    let up = vm.booted.elapsed();
    let busy: u128 = vm
        .table
        .list()
        .iter()
        .map(|process| process.cpu_time().as_nanos())
        .sum();
    let idle = up.as_nanos().saturating_sub(busy) / 10_000_000;
    format!(
        "{}.{:02} {}.{:02}\n",
        up.as_secs(),
        up.subsec_millis() / 10,
        idle / 100,
        idle % 100
    )
    .into_bytes()
}

/// One processor, as the published commands report it; nothing of the host's.
pub(super) fn cpuinfo(_vm: &VmInner) -> Vec<u8> {
    let mut text = String::new();
    for (name, value) in [
        ("processor\t", "0"),
        ("vendor_id\t", "agentOS"),
        ("model name\t", crate::MACHINE),
        ("physical id\t", "0"),
        ("siblings\t", "1"),
        ("core id\t\t", "0"),
        ("cpu cores\t", "1"),
    ] {
        let _ = writeln!(text, "{name}: {value}");
    }
    text.push('\n');
    text.into_bytes()
}

/// The averages are the processes that run at this moment: nothing samples them over time.
pub(super) fn loadavg(vm: &VmInner) -> Vec<u8> {
    let all = vm.table.list();
    let running = all
        .iter()
        .filter(|p| p.pid() != proctable::INIT_PID && p.state() == State::Running)
        .count();
    let (total, last) = (all.len(), vm.table.last_pid());
    format!("{running}.00 {running}.00 {running}.00 {running}/{total} {last}\n").into_bytes()
}

pub(super) fn version(_vm: &VmInner) -> Vec<u8> {
    format!(
        "{} version {} (agentos@agentos) {}\n",
        crate::SYSNAME,
        crate::RELEASE,
        crate::VERSION
    )
    .into_bytes()
}

pub(super) fn filesystems(_vm: &VmInner) -> Vec<u8> {
    ["proc", "tmpfs", "devpts", "overlay"]
        .iter()
        .fold(String::new(), |text, name| text + "nodev\t" + name + "\n")
        .into_bytes()
}

pub(super) fn stat(vm: &VmInner) -> Vec<u8> {
    let all = vm.table.list();
    let ticks = |nanos: u128| nanos * HZ / 1_000_000_000;
    let busy: u128 = all
        .iter()
        .map(|process| process.cpu_time().as_nanos())
        .sum();
    let idle = vm.booted.elapsed().as_nanos().saturating_sub(busy);
    let running = all
        .iter()
        .filter(|p| p.pid() != proctable::INIT_PID && p.state() == State::Running)
        .count();
    let mut text = String::new();
    for cpu in ["cpu ", "cpu0"] {
        let _ = writeln!(
            text,
            "{cpu} {} 0 0 {} 0 0 0 0 0 0",
            ticks(busy),
            ticks(idle)
        );
    }
    let _ = write!(
        text,
        "intr 0\nctxt 0\nbtime {}\nprocesses {}\nprocs_running {running}\nprocs_blocked 0\n",
        vm.booted_at.sec,
        vm.table.last_pid(),
    );
    text.into_bytes()
}

pub(super) fn hostname(vm: &VmInner) -> Vec<u8> {
    [&vm.hostname[..], b"\n"].concat()
}

pub(super) fn pid_max(vm: &VmInner) -> Vec<u8> {
    number(vm.limits.processes.pid_max)
}

pub(super) fn threads_max(vm: &VmInner) -> Vec<u8> {
    number(vm.limits.processes.processes)
}

pub(super) fn ngroups_max(_vm: &VmInner) -> Vec<u8> {
    number(crate::task::MAX_GROUPS as u64)
}

pub(super) fn file_max(vm: &VmInner) -> Vec<u8> {
    number(vm.limits.processes.descriptors_total)
}

pub(super) fn nr_open(vm: &VmInner) -> Vec<u8> {
    number(vm.limits.processes.descriptors)
}

pub(super) fn pipe_max_size(vm: &VmInner) -> Vec<u8> {
    number(vm.limits.processes.pipe_max_bytes)
}

pub(super) fn boot_id(vm: &VmInner) -> Vec<u8> {
    format_uuid(vm.boot_id)
}

/// Another one each time it is read.
pub(super) fn uuid(_vm: &VmInner) -> Vec<u8> {
    format_uuid(crate::sys::random_u128())
}

/// A random (version 4) UUID from 128 random bits.
fn format_uuid(bits: u128) -> Vec<u8> {
    let bits = bits & !(0xf << 76 | 0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let hex = format!("{bits:032x}");
    let parts = [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ];
    (parts.join("-") + "\n").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_have_version_and_variant() {
        for bits in [0, u128::MAX, 0x1234_5678_9abc_def0_1122_3344_5566_7788] {
            let text = String::from_utf8(format_uuid(bits)).unwrap();
            assert_eq!(text.len(), 37);
            assert_eq!(&text[14..15], "4");
            assert!("89ab".contains(&text[19..20]));
        }
    }
}
