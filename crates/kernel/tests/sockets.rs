//! Socket pairs and what is passed over them.

mod common;

use common::{Machine, read_all, text};
use kernel::{
    Dir, Errno, ExitStatus, FdKind, MsgFlags, OpenFlags, Outcome, Shutdown, SigAction, Signal,
    SocketKind,
};

#[test]
fn a_pair_carries_bytes_both_ways_and_descriptors() {
    let machine = Machine::new();
    let output = machine.run(|task| {
        let (a, b) = task
            .socketpair(SocketKind::Stream, OpenFlags::CLOEXEC)
            .unwrap();
        assert!(task.getfd(a).unwrap());
        assert_eq!(task.fd_kind(a), Ok(FdKind::Socket { stream: true }));
        task.write(a, b"plain").unwrap();
        let mut buf = [0; 16];
        assert_eq!(task.read(b, &mut buf), Ok(5));
        let file = task
            .openat(Dir::Cwd, b"/etc/hostname", OpenFlags::empty(), 0)
            .unwrap();
        assert_eq!(
            task.sendmsg(b, b"with", &[file, 77], MsgFlags::default()),
            Err(Errno::EBADF)
        );
        task.sendmsg(b, b"with", &[file], MsgFlags::default())
            .unwrap();
        task.close(file).unwrap();
        let received = task
            .recvmsg(a, &mut buf, 4, true, MsgFlags::default())
            .unwrap();
        assert_eq!(
            (received.bytes, received.rights.len(), received.truncated()),
            (4, 1, false)
        );
        assert!(task.getfd(received.rights[0]).unwrap());
        common::write_all(task, 1, &read_all(task, received.rights[0]).unwrap());
        task.shutdown(a, Shutdown::Write).unwrap();
        assert_eq!(task.recv(b, &mut buf, MsgFlags::default()), Ok(0));
        task.close(a).unwrap();
        task.sigaction(Signal::PIPE, Some(SigAction::IGNORE))
            .unwrap();
        assert_eq!(task.send(b, b"x", MsgFlags::default()), Err(Errno::EPIPE));
        assert_eq!(
            task.send(0, b"x", MsgFlags::default()),
            Err(Errno::ENOTSOCK)
        );
        assert_eq!(task.shutdown(1, Shutdown::Both), Err(Errno::ENOTSOCK));
        Outcome::Exit(0)
    });
    assert_eq!(output.status, ExitStatus::Code(0));
    assert_eq!(text(&output.stdout.bytes), "agentos\n");
}

#[test]
fn there_is_no_network() {
    let machine = Machine::new();
    let output = machine.run(|task| {
        assert_eq!(task.socket(2), Err(Errno::EACCES));
        Outcome::Exit(0)
    });
    assert_eq!(output.status, ExitStatus::Code(0));
}
