//! Guards: a lock is held until its guard is dropped.

/// Declares the guard of a lock. `$release` is called with the lock and the context.
macro_rules! guard {
    ($(#[$doc:meta])* $name:ident of $lock:ident, $release:expr) => {
        $(#[$doc])*
        #[must_use = "the lock is released as soon as its guard is dropped"]
        pub struct $name<'a> {
            lock: &'a $lock,
            context: &'a Context,
        }

        impl $name<'_> {
            /// Releases the lock, and tells what dropping the guard could not: that something
            /// written under the lock was lost, or that the lock is poisoned.
            #[inline]
            pub fn unlock(self) -> Result<()> {
                let (lock, context) = (self.lock, self.context);
                std::mem::forget(self);
                $release(lock, context)
            }

            /// Returns the lock.
            pub fn lock(&self) -> &$lock {
                self.lock
            }
        }

        impl Drop for $name<'_> {
            #[inline]
            fn drop(&mut self) {
                // An error here comes again with the next request.
                let _ = $release(self.lock, self.context);
            }
        }
    };
}
pub(crate) use guard;
