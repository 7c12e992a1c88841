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

use farside_fabric::{Link, Rank, Result};
use farside_rma::Context;

use super::waiting::FIRST_IN_LINE;
use super::{Entry, GRANTED, NEXT, Queue, STATUS, WAIT, status_of};
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
        let mut held = WAIT;
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
            context.compare_swap(status, ABANDONED, WAIT)?
        };
        if held == SKIPPING {
            held = lock.wait(context, self.base + STATUS, |status| status == SKIPPED)?;
        }
        let is_skipped = held == SKIPPED;
        if is_skipped {
            context.store(lock.at(context.rank(), self.base + NEXT), 0)?;
            context.store(status, WAIT)?;
        }
        self.abandoned.set(!is_skipped && limit == TimeLimit::DoNotWait);
        Ok(is_skipped)
    }

    /// As the holder: grants the lock to a rank that may have abandoned its node, which stands in
    /// the queue with the link `succ`. `None` if it was granted; else the link of the node that is
    /// to be granted then. `value` is told of a node that is skipped.
    pub(super) fn grant_or_skip(
        &self,
        lock: &LockWords,
        context: &Context,
        succ: u64,
        granted: u64,
        value: &mut impl FnMut(Option<Rank>) -> Result<u64>,
    ) -> Result<Option<u64>> {
        let Some((rank, _)) = Link::from_bits(succ).target() else {
            return Ok(None);
        };
        let status = lock.at(rank, self.base + STATUS);
        let held = context.compare_swap(status, WAIT, granted)?;
        let is_granted = held == WAIT
            || (held == FIRST_IN_LINE
                && context.compare_swap(status, FIRST_IN_LINE, granted)? == FIRST_IN_LINE);
        if is_granted {
            return Ok(None);
        }
        // The owner may have come back: then it is granted the lock after all.
        if context.compare_swap(status, ABANDONED, SKIPPING)? != ABANDONED {
            return Ok(Some(succ));
        }
        value(None)?;
        let next = self.successor(lock, context, rank, succ)?;
        context.signal(status, SKIPPED)?;
        Ok(Some(next))
    }
}
