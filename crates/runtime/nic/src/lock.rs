//! Locking a mutex although a thread may have panicked under it.

use std::sync::{Mutex, MutexGuard};

/// Locks a mutex. Nothing done under the locks of this crate can panic half-way, so what a
/// poisoned one guards is consistent.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
