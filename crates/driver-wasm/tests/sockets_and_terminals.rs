//! Socket pairs, and both sides of a terminal, as guests have them.

mod common;

use common::Machine;
use common::script::{Arg, Place, Script};

const DONTWAIT: u32 = 0x40;
const PEEK: u32 = 2;
const TRUNC: u32 = 0x20;

fn pair(s: &mut Script, kind: u32, nonblock: u32, cloexec: u32) -> (Place, Place) {
    let (a, b) = (s.room(4), s.room(4));
    s.call(
        "host_process.fd_socketpair",
        args![kind, nonblock, cloexec, a.ptr, b.ptr],
    );
    (a, b)
}

fn send(s: &mut Script, fd: Place, bytes: &str, flags: u32) -> Place {
    let (buf, n) = (s.bytes(bytes), s.room(4));
    s.call(
        "host_net.net_send",
        &[
            fd.load(),
            buf.ptr.into(),
            buf.len.into(),
            flags.into(),
            n.ptr.into(),
        ],
    );
    n
}

fn recv(s: &mut Script, fd: Place, len: u32, flags: u32) -> (Place, Place) {
    let (buf, n) = (s.room(len), s.room(4));
    s.call(
        "host_net.net_recv",
        &[
            fd.load(),
            buf.ptr.into(),
            len.into(),
            flags.into(),
            n.ptr.into(),
        ],
    );
    (buf, n)
}

#[test]
fn pairs_carry_bytes_or_messages() {
    let machine = Machine::new();
    let mut s = Script::new();
    let (a, b) = pair(&mut s, 1, 0, 1);
    let stat = s.room(24);
    s.call("wasi.fd_fdstat_get", &[a.load(), stat.ptr.into()]);
    let flag = s.room(4);
    s.call("host_process.fd_getfd", &[b.load(), flag.ptr.into()]);
    send(&mut s, a, "one", 0);
    send(&mut s, a, "two", 0);
    let peeked = recv(&mut s, b, 4, PEEK);
    let all = recv(&mut s, b, 10, 0);
    recv(&mut s, b, 1, DONTWAIT);
    s.call("wasi.sock_shutdown", &[a.load(), 2.into()]);
    let end = recv(&mut s, b, 1, 0);
    send(&mut s, a, "no", 0x4000);
    let (c, d) = pair(&mut s, 2, 1, 0);
    let dstat = s.room(24);
    s.call("wasi.fd_fdstat_get", &[c.load(), dstat.ptr.into()]);
    send(&mut s, c, "message", 0);
    let cut = recv(&mut s, d, 3, TRUNC);
    recv(&mut s, d, 3, 0);
    for kind in [0, 4, 5, 6] {
        pair(&mut s, kind, 0, 0);
    }
    let shown = machine.script(&s);
    assert_eq!(
        shown.results,
        [
            0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 64, 0, 0, 0, 0, 6, 28, 28, 28, 28
        ]
    );
    assert_eq!(
        (
            shown.bytes(stat)[0],
            shown.bytes(dstat)[0],
            shown.bytes(dstat)[2]
        ),
        (6, 5, 4)
    );
    assert_eq!(shown.u32(flag), 1);
    assert_eq!(
        (shown.bytes(peeked.0), shown.u32(peeked.1)),
        (&b"onet"[..], 4)
    );
    assert_eq!(
        (&shown.bytes(all.0)[..6], shown.u32(all.1)),
        (&b"onetwo"[..], 6)
    );
    assert_eq!(shown.u32(end.1), 0);
    assert_eq!((shown.bytes(cut.0), shown.u32(cut.1)), (&b"mes"[..], 7));
}

#[test]
fn descriptors_travel() {
    let machine = Machine::new();
    let mut s = Script::new();
    let (a, b) = pair(&mut s, 3, 0, 0);
    let data = s.bytes("with");
    let rights = s.bytes([0u32.to_le_bytes(), 1u32.to_le_bytes()].concat());
    let n = s.room(4);
    s.call(
        "host_process.fd_sendmsg_rights",
        &[
            a.load(),
            data.ptr.into(),
            4.into(),
            rights.ptr.into(),
            2.into(),
            0.into(),
            n.ptr.into(),
        ],
    );
    let (buf, got, len, count, flags) = (s.room(8), s.room(8), s.room(4), s.room(4), s.room(4));
    let receive = |s: &mut Script, cap: u32, room: u32, flag: u32| {
        s.call(
            "host_process.fd_recvmsg_rights",
            &[
                b.load(),
                buf.ptr.into(),
                cap.into(),
                got.ptr.into(),
                room.into(),
                flag.into(),
                len.ptr.into(),
                count.ptr.into(),
                flags.ptr.into(),
            ],
        )
    };
    receive(&mut s, 3, 1, 0x4000_0000);
    let flag = s.room(4);
    s.call("host_process.fd_getfd", &[got.load(), flag.ptr.into()]);
    let bad = s.bytes(99u32.to_le_bytes());
    s.call(
        "host_process.fd_sendmsg_rights",
        &[
            a.load(),
            data.ptr.into(),
            4.into(),
            bad.ptr.into(),
            1.into(),
            0.into(),
            n.ptr.into(),
        ],
    );
    s.call(
        "host_process.fd_sendmsg_rights",
        &[
            a.load(),
            data.ptr.into(),
            4.into(),
            0.into(),
            254.into(),
            0.into(),
            n.ptr.into(),
        ],
    );
    s.call(
        "host_process.fd_sendmsg_rights",
        args![1, data.ptr, 4, 0, 0, 0, n.ptr],
    );
    s.call(
        "host_process.fd_recvmsg_rights",
        args![
            0,
            buf.ptr,
            4,
            0,
            0,
            0,
            len.ptr + 64,
            count.ptr + 64,
            flags.ptr + 64
        ],
    );
    let _room = s.room(96);
    let shown = machine.script(&s);
    assert_eq!(shown.results, [0, 0, 0, 0, 8, 28, 57, 57]);
    assert_eq!((shown.u32(n), shown.u32(len), shown.u32(count)), (4, 3, 1));
    // Payload cut, descriptors cut, four bytes in all.
    assert_eq!(shown.u32(flags), 1 | 2 | 4 << 2);
    assert_eq!((shown.u32(got), shown.u32(flag)), (5, 1));
}

#[test]
fn socket_calls_on_a_pair() {
    let machine = Machine::new();
    let mut s = Script::new();
    let (a, _) = pair(&mut s, 1, 0, 0);
    let addr = s.bytes("unix:/x");
    let (buf, len, option) = (s.room(16), s.bytes(16u32.to_le_bytes()), s.room(8));
    let mut expected = vec![0];
    let mut call = |s: &mut Script, function: &str, rest: &[Arg], errno: u64| {
        let mut args = vec![a.load()];
        args.extend_from_slice(rest);
        s.call(&format!("host_net.{function}"), &args);
        expected.push(errno);
    };
    call(&mut s, "net_validate_socket", &[], 0);
    call(&mut s, "net_validate_accept", &[], 28);
    call(&mut s, "net_connect", args![addr.ptr, addr.len], 30);
    call(&mut s, "net_bind", args![addr.ptr, addr.len], 58);
    call(&mut s, "net_listen", args![1], 28);
    call(&mut s, "net_getsockname", args![buf.ptr, len.ptr], 0);
    call(&mut s, "net_getpeername", args![buf.ptr, -1], 21);
    call(&mut s, "net_setsockopt", args![1, 2, option.ptr, 4], 0);
    call(
        &mut s,
        "net_setsockopt",
        args![0x7fff_ffff, 13, option.ptr, 4],
        28,
    );
    call(&mut s, "net_setsockopt", args![6, 1, option.ptr, 4], 0);
    call(&mut s, "net_setsockopt", args![1, 99, option.ptr, 4], 28);
    call(
        &mut s,
        "net_getsockopt",
        args![1, 4, option.ptr, len.ptr],
        0,
    );
    call(&mut s, "net_set_nonblock", args![1], 0);
    call(&mut s, "net_recv", args![buf.ptr, 4, 0, option.ptr], 6);
    call(
        &mut s,
        "net_sendto",
        args![buf.ptr, 4, 0, addr.ptr, addr.len, option.ptr],
        30,
    );
    call(&mut s, "net_tls_connect", args![addr.ptr, addr.len], 58);
    call(&mut s, "net_close", &[], 0);
    call(&mut s, "net_close", &[], 8);
    let shown = machine.script(&s);
    assert_eq!(shown.results, expected);
    assert_eq!(&shown.bytes(buf)[..12], b"unix-unnamed");
}

fn write(s: &mut Script, fd: Place, bytes: &str) {
    let buf = s.bytes(bytes);
    let (iov, n) = (s.iovec(buf), s.room(4));
    s.call(
        "wasi.fd_write",
        &[fd.load(), iov.ptr.into(), 1.into(), n.ptr.into()],
    );
}

fn read(s: &mut Script, fd: Place, len: u32) -> (Place, Place) {
    let buf = s.room(len);
    let (iov, n) = (s.iovec(buf), s.room(4));
    s.call(
        "wasi.fd_read",
        &[fd.load(), iov.ptr.into(), 1.into(), n.ptr.into()],
    );
    (buf, n)
}

#[test]
fn a_terminal_of_a_guest() {
    let machine = Machine::new();
    let mut s = Script::new();
    let (master, slave, tty, stat) = (s.room(4), s.room(4), s.room(4), s.room(24));
    s.call("host_process.pty_open", args![master.ptr, slave.ptr]);
    s.call("host_user.isatty", &[slave.load(), tty.ptr.into()]);
    s.call("host_tty.isatty", &[slave.load()]);
    s.call("wasi.fd_fdstat_get", &[slave.load(), stat.ptr.into()]);
    let (cols, rows) = (s.room(2), s.room(2));
    s.call("host_tty.set_size", &[slave.load(), 132.into(), 43.into()]);
    s.call(
        "host_tty.get_size",
        &[slave.load(), cols.ptr.into(), rows.ptr.into()],
    );
    let (modes, control) = (s.room(4), s.room(7));
    s.call(
        "host_tty.get_attr",
        &[slave.load(), modes.ptr.into(), control.ptr.into()],
    );
    // A line as it is typed and echoed.
    write(&mut s, master, "hello\r");
    let line = read(&mut s, slave, 32);
    let echo = read(&mut s, master, 32);
    // Without ICANON, ECHO and ICRNL bytes go through as they are.
    let changed = s.bytes([1, 2, 3, 4, 5, 6, 7]);
    s.call(
        "host_tty.set_attr",
        &[slave.load(), 0b100110.into(), changed.ptr.into()],
    );
    let (modes_after, control_after) = (s.room(4), s.room(7));
    s.call(
        "host_tty.get_attr",
        &[
            slave.load(),
            modes_after.ptr.into(),
            control_after.ptr.into(),
        ],
    );
    write(&mut s, master, "k\r");
    let keys = read(&mut s, slave, 32);
    // Standard input on the terminal: raw mode and reading with a time limit.
    s.call("host_process.fd_dup2", &[slave.load(), 0.into()]);
    s.call("host_tty.set_raw_mode", args![1]);
    let (modes_raw, key) = (s.room(4), s.room(4));
    s.call(
        "host_tty.get_attr",
        &[slave.load(), modes_raw.ptr.into(), control_after.ptr.into()],
    );
    s.call("host_tty.read", args![key.ptr, 1, 0]);
    write(&mut s, master, "\u{3}");
    s.call("host_tty.read", args![key.ptr, 4, 0xffff_ffffu32]);
    s.call("host_tty.set_raw_mode", args![0]);
    let modes_cooked = s.room(4);
    s.call(
        "host_tty.get_attr",
        &[
            slave.load(),
            modes_cooked.ptr.into(),
            control_after.ptr.into(),
        ],
    );
    let shown = machine.script(&s);
    assert_eq!(
        shown.results,
        [
            0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0
        ]
    );
    let half = |place: Place| u16::from_le_bytes(shown.bytes(place).try_into().unwrap());
    assert_eq!((shown.u32(tty), half(cols), half(rows)), (1, 132, 43));
    // A character device that cannot seek.
    assert_eq!((shown.bytes(stat)[0], shown.bytes(stat)[8] & 0x24), (2, 0));
    assert_eq!(shown.u32(modes), 0b111111);
    assert_eq!(
        shown.bytes(control),
        [0x03, 0x1c, 0x1a, 0x04, 0x7f, 0x15, 0x17]
    );
    assert_eq!(
        &shown.bytes(line.0)[..shown.u32(line.1) as usize],
        b"hello\n"
    );
    assert_eq!(
        &shown.bytes(echo.0)[..shown.u32(echo.1) as usize],
        b"hello\r\n"
    );
    assert_eq!(shown.u32(modes_after), 0b100110);
    assert_eq!(&shown.bytes(keys.0)[..shown.u32(keys.1) as usize], b"k\r");
    assert_eq!(shown.u32(modes_raw) & 0b111011, 0);
    assert_eq!(shown.bytes(key)[0], 3);
    assert_eq!(shown.u32(modes_cooked), 0b100110);
}
