//! What one end has received and nobody has read.

use super::rights::Rights;
use std::collections::VecDeque;
use vfs_core::errno::Errno;

/// What a message counts beyond its bytes, so that empty ones do not pile up.
pub(super) const OVERHEAD: usize = 256;
/// A stream's bytes are kept in messages of at most this size, so that taking from the front
/// stays cheap.
const STREAM_CHUNK: usize = 32_768;

pub(super) struct Message {
    pub(super) data: Vec<u8>,
    /// Bytes of `data` already taken.
    pub(super) taken: usize,
    pub(super) rights: Rights,
}

impl Message {
    pub(super) fn left(&self) -> &[u8] {
        &self.data[self.taken..]
    }

    pub(super) fn cost(&self) -> usize {
        self.data.len() + OVERHEAD
    }
}

/// What one end has received, and how it stands. Guarded by `End::inbox`.
#[derive(Default)]
pub(super) struct Inbox {
    pub(super) messages: VecDeque<Message>,
    /// Bytes charged for `messages`.
    pub(super) used: usize,
    /// The owner has closed.
    pub(super) closed: bool,
    /// Nothing more will come: the owner or the other end has shut this direction.
    pub(super) no_more: bool,
    /// The owner may not send any more.
    pub(super) no_send: bool,
    /// A datagram socket has noticed that the other end is closed.
    pub(super) disconnected: bool,
    /// To be reported once.
    pub(super) error: Option<Errno>,
}

impl Inbox {
    pub(super) fn push(&mut self, data: &[u8], rights: Rights) {
        let message = Message {
            data: data.to_vec(),
            taken: 0,
            rights,
        };
        self.used += message.cost();
        self.messages.push_back(message);
    }

    /// Adds bytes of a stream: to the last message where they fit, so that single bytes cost
    /// little, then in messages of their own. Descriptors go with the first byte.
    pub(super) fn push_stream(&mut self, data: &[u8], rights: Rights) {
        let mut rest = data;
        if rights.files.is_empty()
            && let Some(last) = self.messages.back_mut()
            && last.rights.files.is_empty()
        {
            let more = rest.len().min(STREAM_CHUNK.saturating_sub(last.data.len()));
            last.data.extend_from_slice(&rest[..more]);
            self.used += more;
            rest = &rest[more..];
        }
        let mut rights = Some(rights);
        for chunk in rest.chunks(STREAM_CHUNK) {
            self.push(chunk, rights.take().unwrap_or(Rights::NONE));
        }
    }
}
