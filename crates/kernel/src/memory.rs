//! Guest memory of a whole VM, counted against the limit `vm.memory_bytes`.

use crate::events::{Event, Events};
use proctable::limits::Watermark;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const NAME: &str = "vm.memory_bytes";

/// A running count of guest memory.
pub(crate) struct Memory {
    limit: u64,
    used: AtomicU64,
    watermark: Watermark,
    events: Option<Arc<dyn Events>>,
}

impl Memory {
    pub(crate) fn new(limit: u64, events: Option<Arc<dyn Events>>) -> Memory {
        Memory {
            limit,
            used: AtomicU64::new(0),
            watermark: Watermark::default(),
            events,
        }
    }

    /// Takes `bytes` more for process `pid`; `false` if that is beyond the limit.
    pub(crate) fn grow(&self, bytes: u64, pid: u32) -> bool {
        let taken = self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(bytes).filter(|sum| *sum <= self.limit)
            });
        match taken {
            Ok(before) => {
                let used = before + bytes;
                if self.watermark.rise(used, self.limit) {
                    self.send(Event::LimitWarning {
                        name: NAME,
                        used,
                        limit: self.limit,
                    });
                }
                true
            }
            Err(_) => {
                self.send(Event::LimitReached {
                    name: NAME,
                    limit: self.limit,
                    pid,
                });
                false
            }
        }
    }

    /// Gives `bytes` back.
    pub(crate) fn shrink(&self, bytes: u64) {
        if bytes > 0 {
            let before = self.used.fetch_sub(bytes, Ordering::Relaxed);
            self.watermark
                .fall(before.saturating_sub(bytes), self.limit);
        }
    }

    /// In use now.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// The limit.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    fn send(&self, event: Event) {
        if let Some(events) = &self.events {
            events.event(event);
        }
    }
}
