//! Handles on shared words that keep alive the memory that the words are in.

use std::fmt;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

/// A shared value, in memory that lives as long as its holder does: an `Arc`, or a mapping.
pub struct Held<T> {
    at: NonNull<T>,
    hold: Arc<dyn Send + Sync>,
}

// SAFETY: it gives away nothing but a shared reference, and keeps its memory alive.
unsafe impl<T: Sync> Send for Held<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Held<T> {}

impl<T> Held<T> {
    /// A handle on a value in memory that `hold` keeps alive.
    ///
    /// # Safety
    ///
    /// `at` must be valid for shared references for as long as `hold` lives.
    pub unsafe fn new(at: NonNull<T>, hold: Arc<dyn Send + Sync>) -> Held<T> {
        Held { at, hold }
    }
}

impl<T: Send + Sync + 'static> From<Arc<T>> for Held<T> {
    fn from(value: Arc<T>) -> Held<T> {
        // SAFETY: the value is where it is as long as the `Arc` that is held.
        unsafe { Held::new(NonNull::from(&*value), value) }
    }
}

impl<T> Clone for Held<T> {
    fn clone(&self) -> Held<T> {
        Held { at: self.at, hold: self.hold.clone() }
    }
}

impl<T> Deref for Held<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: valid while `hold` lives, by the promise of `new`.
        unsafe { self.at.as_ref() }
    }
}

impl<T: fmt::Debug> fmt::Debug for Held<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn a_handle_outlives_what_it_was_made_from() {
        let value = Arc::new(AtomicU32::new(7));
        let held = Held::from(value.clone());
        let other = held.clone();
        drop((value, held));
        assert_eq!(other.fetch_add(1, Ordering::Relaxed), 7);
        assert_eq!(other.load(Ordering::Relaxed), 8);
    }
}
