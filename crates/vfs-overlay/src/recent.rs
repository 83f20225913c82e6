//! The nodes found last, kept alive for a while.
//!
//! The path walk holds on to the names it is using and to no others, so without this a walk would
//! make the nodes of `/usr/bin` anew every time. First in, first out: a hit costs nothing.

use crate::lock;
use crate::node::Node;
use std::sync::{Arc, Mutex};

/// Most nodes kept per overlay, about 300 bytes each.
const CAPACITY: usize = 128;

/// See the module.
#[derive(Default)]
pub(crate) struct Recent {
    ring: Mutex<Ring>,
}

#[derive(Default)]
struct Ring {
    nodes: Vec<Option<Arc<Node>>>,
    next: usize,
    closed: bool,
}

impl Recent {
    /// Keeps `node` until [`CAPACITY`] others came.
    pub(crate) fn keep(&self, node: &Arc<Node>) {
        let mut ring = lock(&self.ring);
        if ring.closed {
            return;
        }
        let old = if ring.nodes.len() < CAPACITY {
            ring.nodes.push(Some(node.clone()));
            None
        } else {
            let next = ring.next;
            ring.next = (next + 1) % CAPACITY;
            ring.nodes
                .get_mut(next)
                .and_then(|slot| slot.replace(node.clone()))
        };
        drop(ring);
        drop(old);
    }

    /// Keeps `node` no longer.
    pub(crate) fn release(&self, node: &Node) {
        let mut ring = lock(&self.ring);
        let slots = ring.nodes.iter_mut();
        let held: Vec<_> = slots
            .filter(|slot| slot.as_deref().is_some_and(|kept| std::ptr::eq(kept, node)))
            .map(Option::take)
            .collect();
        drop(ring);
        drop(held);
    }

    /// Lets go of all nodes and keeps no more.
    pub(crate) fn close(&self) {
        let mut ring = lock(&self.ring);
        ring.closed = true;
        let held = std::mem::take(&mut ring.nodes);
        drop(ring);
        drop(held);
    }
}
