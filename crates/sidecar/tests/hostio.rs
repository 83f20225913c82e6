//! The host's streams as a guest sees them, and what the host sees afterwards.

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use sidecar::hostio::{self, Direction};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};
use vfs_core::errno::{Errno, Result};
use vfs_core::file::{OpenFile, Whence};
use vfs_core::types::FileType;
use vfs_core::wait::{PollEvents, Waiter};

fn input(fd: impl Into<OwnedFd>) -> Arc<OpenFile> {
    hostio::open(fd.into(), Direction::Input).unwrap()
}

fn output(fd: impl Into<OwnedFd>) -> Arc<OpenFile> {
    hostio::open(fd.into(), Direction::Output).unwrap()
}

/// Tries until it does not say `EAGAIN`, sleeping as a kernel would: registered first.
fn blocking<T>(
    file: &OpenFile,
    events: PollEvents,
    mut attempt: impl FnMut() -> Result<T>,
) -> Result<T> {
    let Some(queue) = file.ops().wait_queue() else {
        return attempt();
    };
    let waiter = Waiter::new();
    let _registered = queue.register(&waiter, events);
    loop {
        match attempt() {
            Err(Errno::EAGAIN) => {
                // The limit only turns a hang into a failure.
                let woken = waiter.wait(Some(Instant::now() + Duration::from_secs(20)));
                assert!(woken, "nobody woke the sleeper");
            }
            result => return result,
        }
    }
}

fn read(file: &OpenFile, buffer: &mut [u8]) -> Result<usize> {
    blocking(file, PollEvents::IN, || file.read(buffer))
}

fn temporary(content: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(content).unwrap();
    file.rewind().unwrap();
    file
}

#[test]
fn a_file_is_read_from_where_the_host_left_it_and_left_where_the_guest_did() {
    let mut host = temporary(b"0123456789");
    host.seek(SeekFrom::Start(2)).unwrap();
    let guest = input(host.try_clone().unwrap());
    let mut buffer = [0; 3];
    assert_eq!(guest.read(&mut buffer), Ok(3));
    assert_eq!(&buffer, b"234");
    assert_eq!(host.stream_position().unwrap(), 5);
    assert_eq!(guest.seek(0, Whence::Current), Ok(5));
    assert_eq!(guest.seek(-1, Whence::End), Ok(9));
    assert_eq!(guest.read(&mut buffer), Ok(1));
    assert_eq!(guest.read(&mut buffer), Ok(0));
    assert_eq!(guest.stat().unwrap().size, 10);
    assert_eq!(guest.stat().unwrap().file_type(), FileType::Regular);
    assert_eq!(guest.write(b"x"), Err(Errno::EBADF));
}

#[test]
fn two_writers_of_one_file_do_not_overwrite_each_other() {
    let mut host = temporary(b"");
    let (out, err) = (
        output(host.try_clone().unwrap()),
        output(host.try_clone().unwrap()),
    );
    for (file, text) in [(&out, "a\n"), (&err, "b\n"), (&out, "c\n")] {
        assert_eq!(file.write(text.as_bytes()), Ok(2));
    }
    host.write_all(b"d\n").unwrap();
    let mut text = String::new();
    host.rewind().unwrap();
    host.read_to_string(&mut text).unwrap();
    assert_eq!(text, "a\nb\nc\nd\n");
}

#[test]
fn of_a_pipe_no_more_is_taken_than_was_asked_for() {
    let (mut reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(b"first\nsecond\n").unwrap();
    let guest = input(reader.try_clone().unwrap());
    let mut buffer = [0; 6];
    assert_eq!(read(&guest, &mut buffer), Ok(6));
    drop(guest);
    drop(writer);
    let mut rest = String::new();
    reader.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "second\n");
}

#[test]
fn a_reader_sleeps_until_something_comes_and_sees_the_end() {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let guest = input(reader);
    assert_eq!(guest.read(&mut [0; 1]), Err(Errno::EAGAIN));
    assert!(!guest.poll().contains(PollEvents::IN));
    let sender = std::thread::spawn(move || {
        for _ in 0..100 {
            writer.write_all(b"x").unwrap();
            std::thread::yield_now();
        }
    });
    let mut seen = 0;
    loop {
        match read(&guest, &mut [0; 7]).unwrap() {
            0 => break,
            n => seen += n,
        }
    }
    sender.join().unwrap();
    assert_eq!(seen, 100);
    assert!(guest.poll().contains(PollEvents::HUP));
}

#[test]
fn the_flags_that_others_share_are_not_touched() {
    let (reader, writer) = std::io::pipe().unwrap();
    let (r, w) = (
        input(reader.try_clone().unwrap()),
        output(writer.try_clone().unwrap()),
    );
    assert_eq!(r.read(&mut [0; 1]), Err(Errno::EAGAIN));
    assert_eq!(w.write(b"x"), Ok(1));
    for fd in [reader.as_fd(), writer.as_fd()] {
        let flags = OFlag::from_bits_retain(fcntl(fd, FcntlArg::F_GETFL).unwrap());
        assert!(!flags.contains(OFlag::O_NONBLOCK));
    }
}

#[test]
fn a_writer_feels_the_reader_s_pace_and_nothing_is_lost() {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let guest = output(writer);
    let total = 1_000_000;
    let collector = std::thread::spawn(move || {
        let mut all = Vec::new();
        reader.read_to_end(&mut all).unwrap();
        all
    });
    let data: Vec<u8> = (0..total).map(|i| i as u8).collect();
    let mut sent = 0;
    while sent < total {
        sent += blocking(&guest, PollEvents::OUT, || guest.write(&data[sent..])).unwrap();
    }
    drop(guest);
    assert!(collector.join().unwrap() == data);
}

#[test]
fn a_pipe_without_a_reader_is_broken() {
    let (reader, writer) = std::io::pipe().unwrap();
    let guest = output(writer);
    drop(reader);
    assert_eq!(guest.write(b"x"), Err(Errno::EPIPE));
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    // Nor does opening one that is broken already hang or fail.
    assert_eq!(output(writer).write(b"x"), Err(Errno::EPIPE));
}

#[test]
fn dropping_the_guest_s_end_is_seen_by_the_host() {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let guest = output(writer);
    guest.write(b"x").unwrap();
    drop(guest);
    let mut all = Vec::new();
    assert_eq!(reader.read_to_end(&mut all).unwrap(), 1);
}

#[test]
fn a_socket_is_a_stream_in_both_directions() {
    let (host, guest) = UnixStream::pair().unwrap();
    let (r, w) = (input(guest.try_clone().unwrap()), output(guest));
    assert_eq!(r.read(&mut [0; 1]), Err(Errno::EAGAIN));
    (&host).write_all(b"in").unwrap();
    let mut buffer = [0; 8];
    assert_eq!(read(&r, &mut buffer), Ok(2));
    assert_eq!(w.write(b"out"), Ok(3));
    assert_eq!((&host).read(&mut buffer).unwrap(), 3);
    assert_eq!(r.stat().unwrap().file_type(), FileType::Fifo);
    drop(host);
    assert_eq!(read(&r, &mut buffer), Ok(0));
    assert_eq!(w.write(b"x"), Err(Errno::EPIPE));
}

#[test]
fn memory_devices_answer_at_once() {
    let null = File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
        .unwrap();
    let guest = input(null);
    assert_eq!(guest.read(&mut [0; 4]), Ok(0));
    assert_eq!(guest.write(b"gone"), Ok(4));
    assert_eq!(guest.stat().unwrap().file_type(), FileType::CharDevice);
    assert!(guest.ops().wait_queue().is_none());
    let full = File::options().write(true).open("/dev/full").unwrap();
    assert_eq!(output(full).write(b"x"), Err(Errno::ENOSPC));
}

#[test]
fn a_descriptor_keeps_its_direction() {
    let (reader, writer) = std::io::pipe().unwrap();
    assert_eq!(output(reader).write(b"x"), Err(Errno::EBADF));
    assert_eq!(input(writer).read(&mut [0; 1]), Err(Errno::EBADF));
}
