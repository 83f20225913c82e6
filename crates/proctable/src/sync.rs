//! Locking without poisoning: a panic of one thread must not take the VM's tables with it.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks `mutex`, whatever happened to its last holder. Every critical section in this crate
/// leaves its data consistent at each point where it could unwind.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
