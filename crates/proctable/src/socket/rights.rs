//! Descriptors on their way from one process to another.

use crate::limits::Meter;
use std::cell::RefCell;
use std::sync::Arc;
use vfs_core::errno::Result;
use vfs_core::file::OpenFile;

/// Descriptors on their way; given back to the meter when they arrive or are dropped.
pub(super) struct Rights {
    pub(super) files: Vec<Arc<OpenFile>>,
    counted: u64,
    meter: Option<Arc<Meter>>,
}

impl Rights {
    pub(super) const NONE: Rights = Rights {
        files: Vec::new(),
        counted: 0,
        meter: None,
    };

    pub(super) fn take(files: Vec<Arc<OpenFile>>, meter: &Arc<Meter>) -> Result<Rights> {
        if files.is_empty() {
            return Ok(Rights::NONE);
        }
        let counted = files.len() as u64;
        meter.acquire(counted)?;
        Ok(Rights {
            files,
            counted,
            meter: Some(meter.clone()),
        })
    }

    pub(super) fn arrive(mut self) -> Vec<Arc<OpenFile>> {
        std::mem::take(&mut self.files)
    }
}

impl Drop for Rights {
    fn drop(&mut self) {
        if let Some(meter) = &self.meter {
            meter.release(self.counted);
        }
        bury(std::mem::take(&mut self.files));
    }
}

thread_local! {
    /// Files to let go of, while a thread is letting go of files.
    static GRAVE: RefCell<Option<Vec<Arc<OpenFile>>>> = const { RefCell::new(None) };
}

/// Lets go of files that were on their way. A socket among them may hold messages with sockets
/// that hold messages; these are taken in turn, not one inside the other, so that a long chain
/// does not use up the stack.
pub(super) fn bury(files: Vec<Arc<OpenFile>>) {
    if files.is_empty() {
        return;
    }
    let nested = GRAVE.with_borrow_mut(|grave| match grave {
        Some(waiting) => {
            waiting.extend(files);
            true
        }
        None => {
            *grave = Some(files);
            false
        }
    });
    if nested {
        return;
    }
    while let Some(file) = GRAVE.with_borrow_mut(|grave| grave.as_mut().and_then(Vec::pop)) {
        drop(file);
    }
    GRAVE.set(None);
}
