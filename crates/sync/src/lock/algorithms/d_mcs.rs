//! Queuing lock (D-MCS): each waiter waits on a word of its own memory, and one message passes the
//! lock. The queue is also part of other locks.
//!
//! Paper:     \[ARMCI03\] section 3.2.2, figures 5 and 6; \[RMALOCK16\] listings 2 and 3 (D-MCS).
//! Differs:   a link is one packed word, so no pair atomics are needed; a node at rest is all zero,
//!            so nothing is prepared before the swap; a status carries a value from the rank that
//!            passes the lock. Waiters with a time limit can leave: see `abandon`.
//! State:     1 word (tail) at one rank, 2 words (next, status) on every rank.
//! Invariant: at most one rank between `enter` and `leave`; entry in the order of the swaps on the
//!            tail.
//! Ordering:  release flushes first (lock/d-mcs-without-flush); a successor that has swapped the
//!            tail and not yet linked itself is waited for (lock/d-mcs-without-second-look).
//! Cost:      acquire 1 atomic, +1 signal and 1 store to itself if queued; release 1 load and 1
//!            atomic alone, else 1 load, 1 store to itself and 1 signal.
//! Checked:   `farside check 'lock/d-mcs*'`: all schedules of small jobs; 8 and 16 ranks
//!            on three levels, some with time limits, PCT depth 3; 64 and 256 ranks.

use std::cell::Cell;
use std::time::Duration;

use farside_fabric::{Link, Rank, Result};
use farside_rma::Context;

use super::Kind;
use crate::lock::frame::{Algorithm, LockWords, Standing, TimeLimit};
use crate::lock::registry::{Entry as Row, Made, Maker};
use crate::lock::steps;

/// How many words of every rank a queue takes.
pub const WORDS: usize = 3;
const TAIL: usize = 0;
pub(super) const NEXT: usize = 1;
pub(super) const STATUS: usize = 2;

/// The statuses of a node, in the lowest bits of its word; the rest is the value that was passed.
/// `abandon` has further ones.
pub(super) const WAITING: u64 = 0;
pub(super) const GRANTED: u64 = 1;
/// The node waits, and only the holder is before it.
pub(super) const FIRST_IN_LINE: u64 = 5;
const STATUS_BITS: u32 = 3;

/// The offset part of a link: whether its node may be abandoned.
const STAYS: u64 = 0;
const MAY_LEAVE: u64 = 1;

/// One queue, as one rank uses it.
pub struct Queue {
    /// Where its words begin.
    pub(super) base: usize,
    /// The rank whose memory holds the tail.
    tail: Rank,
    /// The link with which this rank's node stands in the queue.
    link: Cell<Link>,
    /// Whether this rank's node was abandoned and may still stand in the queue.
    pub(super) abandoned: Cell<bool>,
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
    pub fn new(base: usize, tail: Rank) -> Queue {
        Queue {
            base,
            tail,
            link: Cell::new(Link::NULL),
            abandoned: Cell::new(false),
            parks: false,
            level: 0,
        }
    }

    /// The queue of an element of this level of the topology.
    pub(super) fn of_level(self, level: usize) -> Queue {
        Queue { level, ..self }
    }

    /// Waiters park at once, until [`Queue::tell_first_in_line`] or a grant: for crowded nodes.
    pub(super) fn parking(self, parks: bool) -> Queue {
        Queue { parks, ..self }
    }

    /// Takes a place at the tail and waits for the turn. [RMALOCK16 listing 2]
    pub fn enter(&self, lock: &LockWords, context: &Context, limit: TimeLimit) -> Result<Entry> {
        if let Some(entry) = self.reenter(lock, context, limit)? {
            return Ok(entry);
        }
        let leaves = if limit.may_give_up() { MAY_LEAVE } else { STAYS };
        let mine = Link::new(context.rank(), leaves)?;
        self.link.set(mine);
        let tail = lock.at(self.tail, self.base + TAIL);
        if limit == TimeLimit::DoNotWait {
            let pred = context.compare_swap(tail, 0, mine.bits())?;
            return Ok(if pred == 0 { Entry::First } else { Entry::GaveUp });
        }
        let pred = Link::from_bits(context.swap(tail, mine.bits())?);
        lock.waits(context, Standing::Queued(self.level))?;
        let Some((pred, _)) = pred.target() else {
            return Ok(Entry::First);
        };
        context.signal(lock.at(pred, self.base + NEXT), mine.bits())?;
        self.await_turn(lock, context, limit)
    }

    /// Waits until the predecessor has granted the lock, or gives up.
    pub(super) fn await_turn(
        &self,
        lock: &LockWords,
        context: &Context,
        limit: TimeLimit,
    ) -> Result<Entry> {
        let status = self.base + STATUS;
        let is_granted = |status: u64| status_of(status) == GRANTED;
        if self.parks && limit == TimeLimit::Unlimited {
            let is_told = |status: u64| status == FIRST_IN_LINE || is_granted(status);
            lock.park(context, status, is_told)?;
        }
        let granted = match lock.wait_within(context, limit, status, is_granted)? {
            Some(granted) => granted,
            None => match self.give_up(lock, context)? {
                None => return Ok(Entry::GaveUp),
                Some(granted) => granted,
            },
        };
        context.store(lock.at(context.rank(), status), WAITING)?;
        Ok(Entry::Passed(granted >> STATUS_BITS))
    }

    /// Leaves with this rank's own node. See `leave_as`.
    pub fn leave(&self, lock: &LockWords, context: &Context, value: u64) -> Result<Option<Rank>> {
        self.leave_as(lock, context, self.link.get(), |_| Ok(value))
    }

    /// Leaves with this rank's own node. `value` may prepare for each rank that may be the next;
    /// `None` says that it was passed over.
    pub(super) fn leave_with(
        &self,
        lock: &LockWords,
        context: &Context,
        value: impl FnMut(Option<Rank>) -> Result<u64>,
    ) -> Result<Option<Rank>> {
        self.leave_as(lock, context, self.link.get(), value)
    }

    /// Leaves with the node that `mine` names, and passes a value to the next in the queue; returns
    /// the rank that it was passed to. [RMALOCK16 listing 3]
    pub(super) fn leave_as(
        &self,
        lock: &LockWords,
        context: &Context,
        mine: Link,
        mut value: impl FnMut(Option<Rank>) -> Result<u64>,
    ) -> Result<Option<Rank>> {
        let Some((node, _)) = mine.target() else {
            return Ok(None);
        };
        let own_next = lock.at(node, self.base + NEXT);
        let mut next = context.load(own_next)?;
        if next == 0 {
            next = self.next_or_none(lock, context, node, mine.bits())?;
        }
        if next == 0 {
            return Ok(None);
        }
        context.store(own_next, 0)?;
        while let Some((rank, leaves)) = Link::from_bits(next).target() {
            let granted = (value(Some(rank))? << STATUS_BITS) | GRANTED;
            if leaves == STAYS || context.omits(steps::SKIP) {
                context.signal(lock.at(rank, self.base + STATUS), granted)?;
                return Ok(Some(rank));
            }
            if self.grant_unless_abandoned(lock, context, rank, granted)? {
                return Ok(Some(rank));
            }
            // The owner may have come back: then it is granted the lock after all.
            if self.begin_to_skip(lock, context, rank)? {
                value(None)?;
                next = self.skip(lock, context, rank, next)?;
            }
        }
        Ok(None)
    }

    /// Returns the link of the node behind `node`, which has none that is known; zero if there is
    /// none, and then the queue is empty.
    pub(super) fn next_or_none(
        &self,
        lock: &LockWords,
        context: &Context,
        node: Rank,
        mine: u64,
    ) -> Result<u64> {
        let tail = lock.at(self.tail, self.base + TAIL);
        if context.compare_swap(tail, mine, 0)? == mine {
            return Ok(0);
        }
        if context.omits(steps::LOOK_AGAIN) {
            return context.load(lock.at(node, self.base + NEXT));
        }
        lock.watch(context, node, self.base + NEXT, |next| next != 0)
    }

    /// Tells the next in a queue whose waiters park, if it is known and near, that only this rank
    /// is before it.
    pub(super) fn tell_first_in_line(&self, lock: &LockWords, context: &Context) -> Result<()> {
        if !self.parks {
            return Ok(());
        }
        let next = Link::from_bits(context.load(lock.at(context.rank(), self.base + NEXT))?);
        if let Some((rank, _)) =
            next.target().filter(|&(rank, _)| context.topology().same_node(rank, context.rank()))
        {
            context.compare_swap(lock.at(rank, self.base + STATUS), WAITING, FIRST_IN_LINE)?;
        }
        Ok(())
    }

    /// Returns the link of this rank's node, for a rank that is to leave in its stead.
    pub(super) fn link(&self) -> Link {
        self.link.get()
    }

    /// Returns whether a node is known to have a successor.
    pub(super) fn has_next(&self, lock: &LockWords, context: &Context, node: Rank) -> Result<bool> {
        Ok(context.load(lock.at(node, self.base + NEXT))? != 0)
    }

    /// Returns whether the queue is empty.
    pub(super) fn is_empty(&self, lock: &LockWords, context: &Context) -> Result<bool> {
        Ok(context.load(lock.at(self.tail, self.base + TAIL))? == 0)
    }
}

/// Returns a status without the value that was passed with it.
pub(super) fn status_of(word: u64) -> u64 {
    word & ((1 << STATUS_BITS) - 1)
}

/// The lock that is nothing but a queue.
struct DMcs {
    queue: Queue,
}

pub(super) fn make(maker: &Maker<'_>) -> Result<Made<dyn Algorithm>> {
    let algorithm = Box::new(DMcs { queue: Queue::new(0, maker.home) });
    Ok(Made { words: maker.words(WORDS)?, algorithm })
}

impl DMcs {
    fn enter(&self, lock: &LockWords, context: &Context, limit: TimeLimit) -> Result<bool> {
        let entry = self.queue.enter(lock, context, limit)?;
        if matches!(entry, Entry::Passed(_)) {
            lock.statistics.queued(1);
        }
        Ok(entry != Entry::GaveUp)
    }
}

impl Algorithm for DMcs {
    fn attempt(&self, lock: &LockWords, context: &Context) -> Result<bool> {
        self.enter(lock, context, TimeLimit::DoNotWait)
    }

    fn acquire(&self, lock: &LockWords, context: &Context) -> Result<()> {
        self.enter(lock, context, TimeLimit::Unlimited).map(drop)
    }

    fn acquire_within(&self, lock: &LockWords, context: &Context, time: Duration) -> Result<bool> {
        self.enter(lock, context, TimeLimit::AtMost(time))
    }

    fn release(&self, lock: &LockWords, context: &Context) -> Result<()> {
        let published = lock.publish(context);
        if let Some(next) = self.queue.leave(lock, context, 0)? {
            lock.statistics.passed(context, next);
        }
        published
    }

    fn reset(&mut self, lock: &LockWords, _context: &Context) -> Result<()> {
        self.queue = Queue::new(0, lock.home());
        Ok(())
    }
}

pub(super) const ENTRIES: &[Row] = &[Row {
    name: "d-mcs",
    about: "a queue in which each waiter waits on its own word",
    kind: || Kind::Mcs,
    needs_agent: false,
}];
