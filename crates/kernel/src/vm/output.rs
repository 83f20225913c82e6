//! Running a process to its end and keeping a bounded part of what it prints.

use super::{Child, HostReader, HostWriter, SpawnError, SpawnRequest, Stdio, Vm};
use proctable::ExitStatus;
use proctable::pipe::PipeEnd;
use std::time::{Duration, Instant};
use vfs_core::errno::Errno;
use vfs_core::wait::{PollEvents, Waiter};

/// What to keep of a process's output, and how long to wait.
#[derive(Clone, Debug, Default)]
pub struct Capture {
    /// Bytes of standard output to keep; `output.bytes` if not given. More is read and dropped, so
    /// that the process neither blocks nor fills the host's memory.
    pub stdout_bytes: Option<u64>,
    /// Bytes of standard error to keep; the two do not share.
    pub stderr_bytes: Option<u64>,
    /// What to write to standard input, which ends after it.
    pub stdin: Option<Vec<u8>>,
    /// After this time the process and all it has started are killed.
    pub timeout: Option<Duration>,
    /// Whether to return when the process has ended although others still hold its output open.
    pub until_exit: bool,
}

/// What was kept of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// The first bytes.
    pub bytes: Vec<u8>,
    /// How many bytes came after them and were dropped.
    pub dropped: u64,
}

impl Captured {
    /// Whether anything was dropped.
    pub fn truncated(&self) -> bool {
        self.dropped > 0
    }

    fn take(&mut self, bytes: &[u8], cap: u64) {
        let room = cap.saturating_sub(self.bytes.len() as u64);
        let kept = usize::try_from(room).unwrap_or(usize::MAX).min(bytes.len());
        self.bytes.extend_from_slice(&bytes[..kept]);
        self.dropped += (bytes.len() - kept) as u64;
    }
}

/// How a captured process went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: Captured,
    /// Its standard error.
    pub stderr: Captured,
    /// Whether it was killed because its time was up; what it had printed is kept.
    pub timed_out: bool,
}

/// One stream being read.
struct Stream {
    end: Option<HostReader>,
    kept: Captured,
    cap: u64,
}

impl Stream {
    fn new(end: Option<HostReader>, cap: u64) -> Stream {
        Stream {
            end,
            kept: Captured::default(),
            cap,
        }
    }

    /// Reads what is there, at most a round's share so that no stream starves another; returns
    /// whether anything came.
    fn drain(&mut self, buf: &mut [u8]) -> bool {
        let Some(end) = &mut self.end else {
            return false;
        };
        match end.try_read(buf) {
            Ok(0) => self.end = None,
            Ok(n) => {
                self.kept.take(&buf[..n], self.cap);
                return true;
            }
            Err(Errno::EAGAIN) => {}
            Err(_) => self.end = None,
        }
        false
    }
}

/// The rest of the input.
struct Feed {
    end: Option<HostWriter>,
    bytes: Vec<u8>,
    at: usize,
}

impl Feed {
    fn push(&mut self) -> bool {
        let Some(end) = &mut self.end else {
            return false;
        };
        if self.at >= self.bytes.len() {
            self.end = None;
            return false;
        }
        match end.try_write(&self.bytes[self.at..]) {
            Ok(n) => {
                self.at += n;
                true
            }
            Err(Errno::EAGAIN) => false,
            // Nobody reads: as for a shell, what is left has nowhere to go.
            Err(_) => {
                self.end = None;
                false
            }
        }
    }
}

impl Vm {
    /// Starts a process, waits for its end and keeps what it prints. The streams of `request` are
    /// not used: input is what `capture` gives, or nothing, and both outputs are kept.
    pub fn output(&self, request: &SpawnRequest, capture: &Capture) -> Result<Output, SpawnError> {
        let stdin = if capture.stdin.is_some() {
            Stdio::Pipe
        } else {
            Stdio::Null
        };
        let request = SpawnRequest {
            stdio: [stdin, Stdio::Pipe, Stdio::Pipe],
            ..request.clone()
        };
        let child = self.spawn(&request)?;
        let default = self.inner.limits.output_bytes;
        let caps = [
            capture.stdout_bytes.unwrap_or(default),
            capture.stderr_bytes.unwrap_or(default),
        ];
        Ok(collect(child, capture, caps))
    }
}

fn collect(mut child: Child, capture: &Capture, [out_cap, err_cap]: [u64; 2]) -> Output {
    let waiter = Waiter::new();
    let process = child.process().clone();
    let _exit = process.exit_events().register(&waiter, PollEvents::all());
    let mut feed = Feed {
        end: child.stdin.take(),
        bytes: capture.stdin.clone().unwrap_or_default(),
        at: 0,
    };
    let mut out = Stream::new(child.stdout.take(), out_cap);
    let mut err = Stream::new(child.stderr.take(), err_cap);
    // Registered with the pipes, not with the ends: those are let go of as the streams end.
    let pipes = [
        (feed.end.as_ref().map(HostWriter::file), PollEvents::OUT),
        (out.end.as_ref().map(HostReader::file), PollEvents::IN),
        (err.end.as_ref().map(HostReader::file), PollEvents::IN),
    ]
    .map(|(file, events)| {
        (
            file.and_then(|file| PipeEnd::of(file))
                .map(|end| end.pipe().clone()),
            events,
        )
    });
    let _places = pipes.each_ref().map(|(pipe, events)| {
        pipe.as_ref()
            .map(|pipe| pipe.wait_queue().register(&waiter, *events))
    });
    let mut deadline = capture
        .timeout
        .and_then(|timeout| Instant::now().checked_add(timeout));
    let mut timed_out = false;
    let mut buf = vec![0; 64 << 10];
    loop {
        let status = process.exit_status();
        let moved = [feed.push(), out.drain(&mut buf), err.drain(&mut buf)];
        let late = deadline.is_some_and(|deadline| Instant::now() >= deadline);
        if late {
            child.kill_tree();
            timed_out = true;
            deadline = None;
        } else if moved.contains(&true) {
            continue;
        } else if let Some(status) = status
            && (capture.until_exit || timed_out || (out.end.is_none() && err.end.is_none()))
        {
            return Output {
                status,
                stdout: out.kept,
                stderr: err.kept,
                timed_out,
            };
        } else {
            waiter.wait(deadline);
        }
    }
}
