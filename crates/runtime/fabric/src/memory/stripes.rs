//! The locks that exclude accumulates on mapped memory from each other.

use std::sync::atomic::{AtomicU32, Ordering};

use super::Mapped;
use super::copy::full_fence;
use crate::address::{Piece, Shape};
use crate::names::Rank;

/// Locks for accumulates, each for every 64th stripe of 4 KiB: zero, or one more than the rank that
/// holds it.
#[repr(C, align(128))]
pub struct Stripes(pub(super) [AtomicU32; STRIPES as usize]);

impl Default for Stripes {
    fn default() -> Stripes {
        Stripes(std::array::from_fn(|_| AtomicU32::new(0)))
    }
}

pub(super) const STRIPES: u64 = 64;

pub(super) const STRIPE_BYTES: u64 = 4096;

/// The most stripes that an accumulate locks at once. An atomic instruction waits until all stores
/// before it have reached the caches: one for every few microseconds of a long accumulate does not
/// count, and one for each stripe takes a quarter of its time.
pub(super) const STRIPES_AT_ONCE: u64 = 16;

/// The bit that tells the agent in a rank's process from the rank itself.
const AGENT: u32 = 1 << 31;
/// The rank in whose process an agent is that outlives all ranks: none.
const NO_RANK: u32 = AGENT - 2;

/// A rank that takes the locks of accumulates, or an agent.
pub struct Contender<'a> {
    /// The rank that holds the locks meanwhile, or [`agent_of`] one.
    pub me: Rank,
    /// Is called with the holder of a lock while `me` waits for it: lets others run, and returns
    /// whether the holder is lost. Then the lock is taken over.
    pub holder_is_lost: &'a mut dyn FnMut(Rank) -> bool,
}

impl Mapped {
    /// Returns the locks that an accumulate on memory of this shape takes, as bits. The shape must
    /// have been checked: see [`Region::check`](crate::Region::check).
    pub fn stripes_of(&self, shape: &Shape<'_>) -> u64 {
        let mut bits = 0;
        shape.for_each(|Piece { offset, bytes }| {
            let start = self.salt.wrapping_add(offset);
            let stripes = (start % STRIPE_BYTES).saturating_add(bytes).div_ceil(STRIPE_BYTES);
            let run = if stripes >= STRIPES { u64::MAX } else { (1 << stripes) - 1 };
            bits |= run.rotate_left((start / STRIPE_BYTES % STRIPES) as u32);
        });
        bits
    }

    /// Takes these locks, or none of them, without waiting: for agents, which have others to serve
    /// while a rank that holds one is stopped. Returns whether it did; then [`Mapped::unlock`]
    /// frees them. Meanwhile [`Mapped::without_locks`] is this memory for the holder.
    #[must_use]
    pub fn try_lock(&self, stripes: u64, contender: &mut Contender<'_>) -> bool {
        let Some(locks) = self.stripes() else { return true };
        let mut taken = 0;
        for at in set_bits(stripes) {
            if !try_acquire(&locks.0[at], contender) {
                self.unlock(taken, contender.me);
                return false;
            }
            taken |= 1 << at;
        }
        true
    }

    /// Frees locks that `me` has taken.
    pub fn unlock(&self, stripes: u64, me: Rank) {
        let locks = self.stripes().into_iter();
        locks.for_each(|locks| set_bits(stripes).for_each(|at| release(&locks.0[at], me)));
    }

    /// Returns the same memory for whoever holds the locks that its accumulates need.
    pub fn without_locks(&self) -> Mapped {
        Mapped { locks: None, ..self.clone() }
    }
}

fn set_bits(bits: u64) -> impl Iterator<Item = usize> {
    (0..STRIPES as usize).filter(move |at| bits >> at & 1 == 1)
}

/// Returns the number as which an agent holds locks that is a thread in the process of a rank, and
/// ends with it; or in that of a launcher.
pub fn agent_of(host: Option<Rank>) -> Rank {
    Rank(AGENT | host.map_or(NO_RANK, |rank| rank.0))
}

/// Returns the rank that must be lost before a lock that is held as this number is taken over.
fn responsible(holder: u32) -> Rank {
    Rank((holder - 1) & !AGENT)
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
        expected = if held != 0 && holder_is_lost(responsible(held)) { held } else { 0 };
    }
}

/// Takes a lock without waiting, if it is free or its holder is lost. Returns whether it did.
fn try_acquire(lock: &AtomicU32, Contender { me, holder_is_lost }: &mut Contender<'_>) -> bool {
    let take = |held| lock.compare_exchange(held, me.0 + 1, Ordering::Acquire, Ordering::Relaxed);
    match take(0) {
        Ok(_) => true,
        Err(held) => held != 0 && holder_is_lost(responsible(held)) && take(held).is_ok(),
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

#[cfg(test)]
mod tests {
    use super::super::tests::mapped;
    use super::*;
    use crate::accumulate::Accumulate;
    use crate::number::{Number, Op};

    #[test]
    fn the_lock_of_an_agent_is_taken_over_when_the_rank_is_lost_in_whose_process_it_was() {
        let (mapped, heap) = mapped(64);
        let piece = Piece { offset: 0, bytes: 8 };
        let sum = Accumulate::new(Number::U64, Op::Sum).unwrap();
        heap.locks.0[0].store(agent_of(Some(Rank(7))).0 + 1, Ordering::Relaxed);
        let mut asked = Vec::new();
        let mut holder_is_lost = |holder| {
            asked.push(holder);
            asked.len() == 3
        };
        let mut contender = Contender { me: Rank(5), holder_is_lost: &mut holder_is_lost };
        assert!(mapped.accumulate(piece, &sum, &[1; 8], None, &mut contender));
        assert_eq!(asked, [Rank(7); 3]);
        // That of a launcher's agent belongs to no rank of any job.
        assert!(responsible(agent_of(None).0 + 1).0 > 1 << 30);
    }

    #[test]
    fn an_agent_takes_all_locks_or_none() {
        let (mapped, heap) = mapped(4 * STRIPE_BYTES as usize);
        let held = |at: usize| heap.locks.0[at].load(Ordering::Relaxed);
        let (me, pieces) = (agent_of(None), Piece { offset: 8, bytes: 2 * STRIPE_BYTES });
        let stripes = mapped.stripes_of(&Shape::Block(pieces));
        assert_eq!(stripes, 0b111);
        heap.locks.0[2].store(8, Ordering::Relaxed);
        let mut is_lost = |_| false;
        let mut contender = Contender { me, holder_is_lost: &mut is_lost };
        assert!(!mapped.try_lock(stripes, &mut contender));
        assert_eq!([held(0), held(1), held(2)], [0, 0, 8]);
        heap.locks.0[2].store(0, Ordering::Relaxed);
        assert!(mapped.try_lock(stripes, &mut contender));
        assert_eq!([held(0), held(1), held(2), held(3)], [me.0 + 1, me.0 + 1, me.0 + 1, 0]);
        // The holder needs no locks any more, and frees them all at the end.
        let sum = Accumulate::new(Number::U64, Op::Sum).unwrap();
        let one = Piece { offset: 8, bytes: 8 };
        assert!(mapped.without_locks().accumulate(one, &sum, &[1; 8], None, &mut contender));
        mapped.unlock(stripes, me);
        assert_eq!([held(0), held(1), held(2)], [0; 3]);
    }

    #[test]
    fn stripes_go_round() {
        let (mapped, _heap) = mapped(64);
        let last = Piece { offset: (STRIPES - 1) * STRIPE_BYTES, bytes: STRIPE_BYTES + 1 };
        assert_eq!(mapped.stripes_of(&Shape::Block(last)), 1 << 63 | 1);
        let all = Piece { offset: 5, bytes: STRIPES * STRIPE_BYTES };
        assert_eq!(mapped.stripes_of(&Shape::Block(all)), u64::MAX);
    }
}
