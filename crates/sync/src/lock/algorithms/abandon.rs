//! Leaving the queue of `d_mcs` before the turn has come: a waiter with a time limit abandons its
//! node, and the rank that passes the lock skips it.
//!
//! Paper:     M. L. Scott and W. N. Scherer, "Scalable queue-based spin locks with timeout" (2001);
//!            M. L. Scott, "Non-blocking timeout in scalable queue-based spin locks" (2002).
//! Differs:   a waiter that gives up changes its own status alone and takes no part in unlinking
//!            its node, so it leaves at once; the node stays in the queue until the holder skips
//!            it, and its owner may wait at the old place again until then.
//! State:     3 more statuses of a node; a link says whether its node may be abandoned.
//! Invariant: a node is abandoned, resumed, skipped or granted by one compare-swap on its status;
//!            its owner does not use it again before it is skipped.
//! Ordering:  a place is given up in one step (lock/d-mcs-gives-up-in-two-steps), and an abandoned
//!            one is skipped (lock/d-mcs-without-skipping).
//! Cost:      giving up 1 atomic on itself; a grant to a waiter with a limit 1 atomic instead of
//!            the signal; a node that is skipped 3 atomics and 1 signal.
//! Checked:   as part of the locks that use the queue: `lock/d-mcs-gives-up`, `-walks-away`,
//!            `-tries`, and those of `rma-mcs` and `default`.

use farside_fabric::{Rank, Result};
use farside_rma::Context;

use super::d_mcs::{Entry, FIRST_IN_LINE, GRANTED, NEXT, Queue, STATUS, WAITING, status_of};
use crate::lock::frame::{LockWords, TimeLimit};
use crate::lock::steps;

/// The owner has given up, and may come back.
const ABANDONED: u64 = 2;
/// The holder is skipping the node: the owner must not come back now.
const SKIPPING: u64 = 3;
/// The node is out of the queue.
const SKIPPED: u64 = 4;

impl Queue {
    /// Gives up the place, unless the lock is granted at that moment: then returns the grant.
    pub(super) fn give_up(&self, lock: &LockWords, context: &Context) -> Result<Option<u64>> {
        let status = lock.at(context.rank(), self.base + STATUS);
        let mut held = WAITING;
        loop {
            let seen = if context.omits(steps::GIVE_UP_AT_ONCE) {
                let seen = context.load(status)?;
                context.store(status, ABANDONED)?;
                seen
            } else {
                context.compare_swap(status, held, ABANDONED)?
            };
            if status_of(seen) == GRANTED {
                return Ok(Some(seen));
            }
            if seen == held {
                self.abandoned.set(true);
                return Ok(None);
            }
            held = seen;
        }
    }

    /// Waits again at a place that this rank has abandoned. Returns `None` if it has none, so that
    /// it must take a new one.
    pub(super) fn reenter(
        &self,
        lock: &LockWords,
        context: &Context,
        limit: TimeLimit,
    ) -> Result<Option<Entry>> {
        if !self.abandoned.get() || self.is_skipped(lock, context, limit)? {
            return Ok(None);
        }
        match limit {
            TimeLimit::DoNotWait => Ok(Some(Entry::GaveUp)),
            _ => self.await_turn(lock, context, limit).map(Some),
        }
    }

    /// Returns whether an abandoned node is out of the queue. If it is not, it waits again at its
    /// old place, unless the request does not wait.
    fn is_skipped(&self, lock: &LockWords, context: &Context, limit: TimeLimit) -> Result<bool> {
        let status = lock.at(context.rank(), self.base + STATUS);
        let mut held = if limit == TimeLimit::DoNotWait {
            context.load(status)?
        } else {
            context.compare_swap(status, ABANDONED, WAITING)?
        };
        if held == SKIPPING {
            held = lock.wait(context, self.base + STATUS, |status| status == SKIPPED)?;
        }
        let is_skipped = held == SKIPPED;
        if is_skipped {
            context.store(lock.at(context.rank(), self.base + NEXT), 0)?;
            context.store(status, WAITING)?;
        }
        self.abandoned.set(!is_skipped && limit == TimeLimit::DoNotWait);
        Ok(is_skipped)
    }

    /// As the holder: grants the lock to a rank that may have abandoned its node. Returns false if
    /// it has.
    pub(super) fn grant_unless_abandoned(
        &self,
        lock: &LockWords,
        context: &Context,
        rank: Rank,
        granted: u64,
    ) -> Result<bool> {
        let status = lock.at(rank, self.base + STATUS);
        let held = context.compare_swap(status, WAITING, granted)?;
        Ok(held == WAITING
            || (held == FIRST_IN_LINE
                && context.compare_swap(status, FIRST_IN_LINE, granted)? == FIRST_IN_LINE))
    }

    /// As the holder: keeps the owner of an abandoned node from coming back. Returns false if it
    /// has come back.
    pub(super) fn begin_to_skip(
        &self,
        lock: &LockWords,
        context: &Context,
        rank: Rank,
    ) -> Result<bool> {
        let status = lock.at(rank, self.base + STATUS);
        Ok(context.compare_swap(status, ABANDONED, SKIPPING)? == ABANDONED)
    }

    /// As the holder: takes a node out of the queue, which stands in it with the link `link`, and
    /// returns the link of the node behind it; zero if there is none.
    pub(super) fn skip(
        &self,
        lock: &LockWords,
        context: &Context,
        rank: Rank,
        link: u64,
    ) -> Result<u64> {
        let mut next = context.load(lock.at(rank, self.base + NEXT))?;
        if next == 0 {
            next = self.next_or_none(lock, context, rank, link)?;
        }
        context.signal(lock.at(rank, self.base + STATUS), SKIPPED)?;
        Ok(next)
    }
}
