//! Queuing lock (D-MCS): each waiter waits on a word of its own memory, and one message passes the
//! lock. The queue is also part of other locks.
//!
//! Paper:     \[ARMCI03\] section 3.2.2, figures 5 and 6; \[RMALOCK16\] listings 2 and 3 (D-MCS).
//! Differs:   a link is one packed word, so no pair atomics are needed; a node at rest is all zero,
//!            so nothing is prepared before the swap; a status carries a value from the rank that
//!            passes the lock. Waiters may park (`waiting`) and leave (`abandon`).
//! State:     1 word (tail) at one rank, 2 words (next, status) on every rank.
//! Invariant: at most one rank between acquire and release; entry in the order of the swaps on the
//!            tail.
//! Ordering:  release flushes first (lock/d-mcs-without-flush); a successor that has swapped the
//!            tail and not yet linked itself is waited for (lock/d-mcs-without-second-look).
//! Cost:      acquire 1 atomic, +1 signal and 1 store to itself if queued; release 1 load and 1
//!            atomic alone, else 1 load, 1 store to itself and 1 signal.
//! Checked:   `farside check 'lock/d-mcs*'`: all schedules of small jobs; 8 and 16 ranks
//!            on three levels, some with time limits, PCT depth 3; 64 and 256 ranks.

mod abandon;
mod lock;
mod waiting;

use std::cell::Cell;

use farside_fabric::{Link, Rank, Result};
use farside_rma::Context;

use crate::lock::frame::{LockWords, Standing, TimeLimit};
use crate::lock::steps;

pub(super) use lock::{ENTRIES, make};

/// How many words of every rank a queue takes.
pub const WORDS: usize = 3;
const TAIL: usize = 0;
const NEXT: usize = 1;
const STATUS: usize = 2;

/// The statuses of a node, in the lowest bits of its word; the rest is the value that was passed.
/// `waiting` and `abandon` have further ones.
const WAIT: u64 = 0;
const GRANTED: u64 = 1;
const STATUS_BITS: u32 = 3;

/// The offset part of a link: whether its node may be abandoned.
const STAYS: u64 = 0;
const MAY_LEAVE: u64 = 1;

/// One queue, as one rank uses it.
pub struct Queue {
    base: usize,
    tail_rank: Rank,
    /// The link with which this rank's node stands in the queue.
    link: Cell<Link>,
    /// Whether this rank's node was abandoned and may still stand in the queue.
    abandoned: Cell<bool>,
    /// Whether waiters park at once, until they are the first in line or have the lock.
    parks: bool,
    /// The level of the topology that it belongs to, the narrowest being 0.
    level: usize,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// The queue was empty.
    First,
    /// The predecessor has passed the lock, and this value.
    Passed(u64),
    /// The time limit was over first.
    GaveUp,
}

impl Queue {
    /// Makes an empty queue whose words begin at `base`, with its tail at a rank.
    pub fn new(base: usize, tail_rank: Rank) -> Queue {
        let (link, abandoned) = (Cell::new(Link::NULL), Cell::new(false));
        Queue { base, tail_rank, link, abandoned, parks: false, level: 0 }
    }

    pub(super) fn of_level(self, level: usize) -> Queue {
        Queue { level, ..self }
    }

    /// Takes a place at the tail and waits for the turn. [RMALOCK16 listing 2]
    pub fn acquire(&self, lock: &LockWords, context: &Context, limit: TimeLimit) -> Result<Entry> {
        if let Some(entry) = self.reenter(lock, context, limit)? {
            return Ok(entry);
        }
        let leaves = if limit.may_give_up() { MAY_LEAVE } else { STAYS };
        let p = Link::new(context.rank(), leaves)?;
        self.link.set(p);
        let tail = lock.at(self.tail_rank, self.base + TAIL);
        if limit == TimeLimit::DoNotWait {
            let pred = context.compare_swap(tail, 0, p.bits())?;
            return Ok(if pred == 0 { Entry::First } else { Entry::GaveUp });
        }
        let pred = Link::from_bits(context.swap(tail, p.bits())?);
        lock.waits(context, Standing::Queued(self.level))?;
        let Some((pred, _)) = pred.target() else {
            return Ok(Entry::First);
        };
        context.signal(lock.at(pred, self.base + NEXT), p.bits())?;
        self.await_turn(lock, context, limit)
    }

    /// Passes the lock and a value on with this rank's own node. Returns the rank that they were
    /// passed to.
    pub fn release(&self, lock: &LockWords, context: &Context, value: u64) -> Result<Option<Rank>> {
        self.release_node(lock, context, self.link.get(), |_| Ok(value))
    }

    /// The same with the node that `p` names. `value` may prepare for each rank that may be the
    /// next; `None` says that it was skipped. [RMALOCK16 listing 3]
    pub(super) fn release_node(
        &self,
        lock: &LockWords,
        context: &Context,
        p: Link,
        mut value: impl FnMut(Option<Rank>) -> Result<u64>,
    ) -> Result<Option<Rank>> {
        let Some((node, _)) = p.target() else {
            return Ok(None);
        };
        let mut succ = self.successor(lock, context, node, p.bits())?;
        if succ == 0 {
            return Ok(None);
        }
        context.store(lock.at(node, self.base + NEXT), 0)?;
        while let Some((rank, leaves)) = Link::from_bits(succ).target() {
            let granted = (value(Some(rank))? << STATUS_BITS) | GRANTED;
            if leaves == STAYS || context.omits(steps::SKIP) {
                context.signal(lock.at(rank, self.base + STATUS), granted)?;
                return Ok(Some(rank));
            }
            match self.grant_or_skip(lock, context, succ, granted, &mut value)? {
                None => return Ok(Some(rank)),
                Some(next) => succ = next,
            }
        }
        Ok(None)
    }

    /// Returns the link of the node behind `node`, which stands in the queue with the link `p`;
    /// zero if there is none, and then the queue is empty. [RMALOCK16 listing 3, lines 2 to 12]
    fn successor(&self, lock: &LockWords, context: &Context, node: Rank, p: u64) -> Result<u64> {
        let next = lock.at(node, self.base + NEXT);
        let succ = context.load(next)?;
        if succ != 0 {
            return Ok(succ);
        }
        let tail = lock.at(self.tail_rank, self.base + TAIL);
        if context.compare_swap(tail, p, 0)? == p {
            return Ok(0);
        }
        if context.omits(steps::LOOK_AGAIN) {
            return context.load(next);
        }
        lock.watch(context, node, self.base + NEXT, |succ| succ != 0)
    }

    /// Returns the link of this rank's node, for a rank that is to release it.
    pub(super) fn link(&self) -> Link {
        self.link.get()
    }

    /// Returns whether a node is known to have a successor.
    pub(super) fn has_next(&self, lock: &LockWords, context: &Context, node: Rank) -> Result<bool> {
        Ok(context.load(lock.at(node, self.base + NEXT))? != 0)
    }

    pub(super) fn is_empty(&self, lock: &LockWords, context: &Context) -> Result<bool> {
        Ok(context.load(lock.at(self.tail_rank, self.base + TAIL))? == 0)
    }
}

/// Returns a status without the value that was passed with it.
fn status_of(word: u64) -> u64 {
    word & ((1 << STATUS_BITS) - 1)
}
