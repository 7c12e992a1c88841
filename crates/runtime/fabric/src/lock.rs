//! Locking a mutex although a thread may have panicked under it.

use std::sync::{Mutex, MutexGuard};

/// Locks a mutex that guards something which is consistent at all times: nothing that is done with
/// it can panic half-way.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
