//! How a rank sleeps until somebody changes its memory.
//!
//! A sleeper notes how often the bell has rung, announces in `watched` which words it waits for
//! (two bits each), looks at its condition once more, and sleeps until the bell has rung again. A
//! waker changes the memory, looks at `watched`, and if the word's bits are there, clears all bits
//! and rings. All these accesses are sequentially consistent, so at least one of the two sees the
//! other: either the sleeper finds its condition true, or the waker finds the bits. A ring wakes
//! all sleepers of the rank, and each announces itself anew; that is why bits need no counts, and
//! why the rings are read *before* the announcement: bits that a waker has cleared are bits of
//! sleepers that its ring will wake.
//!
//! `tests/loom_bell.rs` tries every interleaving, and fails when the rings are read after the
//! announcement, or when the condition is not looked at again.

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// One rank's bell, in shared memory. Fresh, zeroed memory is a bell that never rang.
#[repr(C)]
pub(crate) struct Bell {
    watched: AtomicU64,
    rings: AtomicU32,
    #[cfg(loom)]
    sleepers: (loom::sync::Mutex<()>, loom::sync::Condvar),
}

/// All bits: whatever changes, the sleeper wants to know.
pub(crate) const ANYTHING: u64 = u64::MAX;

impl Bell {
    /// The bits of the words that sleepers wait for, to be looked at by those who change memory
    /// directly.
    pub(crate) fn watched(&self) -> &AtomicU64 {
        &self.watched
    }

    /// Wakes all sleepers, now.
    pub(crate) fn ring(&self) {
        self.watched.swap(0, Ordering::SeqCst);
        self.rings.fetch_add(1, Ordering::SeqCst);
        futex::wake_all(self);
    }

    /// Wakes all sleepers if there is one that waits for any of `bits`. To be called after the
    /// memory was changed.
    #[inline]
    pub(crate) fn ring_if_watched(&self, bits: u64) {
        self.ring_if(|watched| watched & bits != 0);
    }

    /// Likewise, if the bits of the words that sleepers wait for satisfy `is_watched`.
    #[inline]
    pub(crate) fn ring_if(&self, is_watched: impl FnOnce(u64) -> bool) {
        seen_in_one_order();
        if is_watched(self.watched.load(Ordering::SeqCst)) {
            self.ring();
        }
    }

    /// Sleeps until the bell rings, unless `ready` holds once the sleep was announced. May return
    /// for no reason.
    pub(crate) fn park(&self, bits: u64, ready: impl FnOnce() -> bool, timeout: Option<Duration>) {
        let rings = self.rings.load(Ordering::SeqCst);
        self.watched.fetch_or(bits, Ordering::SeqCst);
        seen_in_one_order();
        if !ready() {
            futex::wait(self, rings, timeout);
        }
    }
}

/// The model treats sequentially consistent accesses as acquire and release only, so it needs a
/// fence where the real code has none: there a read-modify-write stands before every such place.
#[inline]
fn seen_in_one_order() {
    #[cfg(loom)]
    fence(Ordering::SeqCst);
}

#[cfg(not(loom))]
mod futex {
    use std::time::Duration;

    use rustix::thread::futex::{self, Flags, Timespec};

    use super::Bell;

    /// The longest sleep. A waker that is stopped between clearing the bits and its ring has taken
    /// the announcement away, and no other waker rings until it goes on. Long enough that a word
    /// which is only put to is found as a mistake.
    const LONGEST_SLEEP: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 10 });

    /// Sleeps while the bell has rung `rings` times. The flag PRIVATE must not be set: the waker
    /// may be another process.
    pub(super) fn wait(bell: &Bell, rings: u32, timeout: Option<Duration>) {
        let time = timeout.map_or(LONGEST_SLEEP, |timeout| timeout.min(LONGEST_SLEEP));
        let timeout =
            Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
        // Every error (changed already, interrupted, timed out) means the same here: look again.
        let _ = futex::wait(&bell.rings, Flags::empty(), rings, Some(&timeout));
    }

    pub(super) fn wake_all(bell: &Bell) {
        // Waking cannot fail for a word that is mapped.
        let _ = futex::wake(&bell.rings, Flags::empty(), i32::MAX as u32);
    }
}

#[cfg(loom)]
mod futex {
    //! A futex for the model. A sleeper that nobody wakes is a deadlock, which the model reports.
    use std::time::Duration;

    use loom::sync::atomic::Ordering;

    use super::Bell;

    pub(super) fn wait(bell: &Bell, rings: u32, _timeout: Option<Duration>) {
        let mut guard = bell.sleepers.0.lock().unwrap();
        while bell.rings.load(Ordering::SeqCst) == rings {
            guard = bell.sleepers.1.wait(guard).unwrap();
        }
    }

    pub(super) fn wake_all(bell: &Bell) {
        let _guard = bell.sleepers.0.lock().unwrap();
        bell.sleepers.1.notify_all();
    }
}

#[cfg(loom)]
impl Bell {
    /// A bell for the model.
    pub(crate) fn new() -> Bell {
        let sleepers = (loom::sync::Mutex::new(()), loom::sync::Condvar::new());
        Bell { watched: AtomicU64::new(0), rings: AtomicU32::new(0), sleepers }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_waker_that_is_stopped_keeps_no_other_waker_from_being_heard() {
        let bell = Bell { watched: AtomicU64::new(0), rings: AtomicU32::new(0) };
        let word = AtomicU64::new(0);
        std::thread::scope(|threads| {
            let sleeper = threads.spawn(|| {
                while word.load(Ordering::SeqCst) == 0 {
                    bell.park(1, || word.load(Ordering::SeqCst) != 0, None);
                }
            });
            while bell.watched.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            // One waker gets so far, and no further. Another one finds nobody to wake.
            bell.watched.swap(0, Ordering::SeqCst);
            word.store(1, Ordering::SeqCst);
            bell.ring_if_watched(1);
            sleeper.join().expect("it wakes up");
        });
    }

    /// What the model cannot see, miri does (`cargo xtask test --only miri`): the real futex, on
    /// real threads.
    #[test]
    fn sleepers_are_woken_by_every_change() {
        let bell = Bell { watched: AtomicU64::new(0), rings: AtomicU32::new(0) };
        let word = AtomicU64::new(0);
        let rounds = if cfg!(miri) { 10 } else { 1000 };
        std::thread::scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| {
                    for round in 1..=rounds {
                        while word.load(Ordering::SeqCst) < round {
                            bell.park(1, || word.load(Ordering::SeqCst) >= round, None);
                        }
                    }
                });
            }
            for _ in 0..rounds {
                word.fetch_add(1, Ordering::SeqCst);
                bell.ring_if_watched(1);
            }
        });
        assert_eq!(word.load(Ordering::SeqCst), rounds);
    }
}
