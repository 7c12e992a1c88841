//! The locks that exclude accumulates on mapped memory from each other.

use std::sync::atomic::{AtomicU32, Ordering};

use super::copy::full_fence;
use crate::address::Rank;

/// Locks for accumulates, each for every 64th stripe of 4 KiB: zero, or one more than the rank that
/// holds it.
#[repr(C, align(128))]
pub struct Stripes(pub(super) [AtomicU32; STRIPES as usize]);

impl Default for Stripes {
    fn default() -> Stripes {
        Stripes(std::array::from_fn(|_| AtomicU32::new(0)))
    }
}

/// How many locks there are.
pub(super) const STRIPES: u64 = 64;

/// The length of a stripe.
pub(super) const STRIPE_BYTES: u64 = 4096;

/// The most stripes that an accumulate locks at once. An atomic instruction waits until all stores
/// before it have reached the caches: one for every few microseconds of a long accumulate does not
/// count, and one for each stripe takes a quarter of its time.
pub(super) const STRIPES_AT_ONCE: u64 = 16;

/// A rank that takes the locks of accumulates.
pub struct Contender<'a> {
    /// The rank that holds the locks meanwhile.
    pub me: Rank,
    /// Is called with the holder of a lock while `me` waits for it: lets others run, and returns
    /// whether the holder is lost. Then the lock is taken over.
    pub holder_is_lost: &'a mut dyn FnMut(Rank) -> bool,
}

#[inline]
pub(super) fn acquire(lock: &AtomicU32, contender: &mut Contender<'_>) {
    let mine = contender.me.0 + 1;
    if lock.compare_exchange(0, mine, Ordering::Acquire, Ordering::Relaxed).is_err() {
        await_lock(lock, contender);
    }
}

#[cold]
fn await_lock(lock: &AtomicU32, Contender { me, holder_is_lost }: &mut Contender<'_>) {
    let mut expected = 0;
    while let Err(held) =
        lock.compare_exchange(expected, me.0 + 1, Ordering::Acquire, Ordering::Relaxed)
    {
        // A holder that was lost in the middle of an accumulate leaves some of its elements
        // combined, and the lock to the next rank.
        expected = if held != 0 && holder_is_lost(Rank(held - 1)) { held } else { 0 };
    }
}

/// Frees a lock, unless it has been taken over because `me` counts as lost. Only a rank that counts
/// as lost and is not could be overtaken between the two instructions; a third that excludes that
/// would cost every accumulate of every rank as much as the acquisition.
#[inline]
fn release(lock: &AtomicU32, me: Rank) {
    if lock.load(Ordering::Relaxed) == me.0 + 1 {
        lock.store(0, Ordering::Release);
    }
}

/// Ends an accumulate under a lock, if there is one: visibly to all if it fetches.
#[inline(always)]
pub(super) fn release_as(lock: Option<&AtomicU32>, me: Rank, fetches: bool) {
    match lock {
        Some(lock) if fetches => release_visibly(lock, me),
        Some(lock) => release(lock, me),
        None if fetches => full_fence(),
        None => {}
    }
}

/// Ends an accumulate under all of these locks likewise.
#[inline(always)]
pub(super) fn release_all_as(locks: &[AtomicU32], me: Rank, fetches: bool) {
    let last = locks.split_last().map(|(last, others)| {
        others.iter().for_each(|lock| release(lock, me));
        last
    });
    release_as(last, me, fetches);
}

/// Frees a lock likewise, by an instruction that makes visible what was stored before.
#[inline]
fn release_visibly(lock: &AtomicU32, me: Rank) {
    // If it was taken over, it is another's.
    let _ = lock.compare_exchange(me.0 + 1, 0, Ordering::SeqCst, Ordering::Relaxed);
    #[cfg(not(target_arch = "x86_64"))]
    full_fence();
}
