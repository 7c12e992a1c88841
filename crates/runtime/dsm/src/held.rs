//! Locks that are held while something is done, and released whatever becomes of it.

use farside_fabric::Result;

use crate::dsm::Dsm;

impl Dsm<'_> {
    /// Does something with a lock.
    ///
    /// ```
    /// # use farside::dsm::{Config, Dsm};
    /// # farside::local(3, |world| {
    /// # let mut dsm = Dsm::new(world, Config::new(1 << 16))?;
    /// let sum = dsm.alloc::<u64>(1)?;
    /// dsm.locked(7, |dsm| dsm.set(sum, 0, dsm.get(sum, 0)? + 1))?;
    /// dsm.barrier()?;
    /// assert_eq!(dsm.get(sum, 0)?, 3);
    /// # dsm.close() }).unwrap();
    /// ```
    #[track_caller]
    pub fn locked<R>(&mut self, lock: u32, body: impl FnOnce(&mut Self) -> Result<R>) -> Result<R> {
        self.lock(lock)?;
        let mut held = HeldLock { dsm: self, lock, is_over: false };
        let result = body(held.dsm);
        held.is_over = true;
        let unlocked = held.dsm.unlock(lock);
        // Why the body has failed says more than why the lock cannot be released.
        result.and_then(|result| unlocked.map(|()| result))
    }
}

/// A lock that is released also if what is done with it panics: others wait for it.
struct HeldLock<'a, 'w> {
    dsm: &'a mut Dsm<'w>,
    lock: u32,
    is_over: bool,
}

impl Drop for HeldLock<'_, '_> {
    fn drop(&mut self) {
        if !self.is_over {
            // The panic says more.
            let _ = self.dsm.unlock(self.lock);
        }
    }
}
