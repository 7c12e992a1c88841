//! Queuing lock that is released without a message: the last holder's node stays at the tail and
//! says that the lock is free.
//!
//! Paper:     [ARMCI03] sections 4.2 and 5 ask for a queuing lock whose uncontended release needs
//!            no compare-swap, and leave it open.
//! Differs:   from their lock: a release swaps a mark into its own node's next. A later rank gets
//!            that node from the tail, swaps its own link in, and finds the mark. Ranks use two
//!            nodes in turn; `README.md` says why, and why a place cannot be given up.
//! State:     1 word at the home rank, 3 words (next of either node, status) on every rank.
//! Invariant: at most one rank between acquire and release; entry in the order of the swaps on the
//!            tail; a next holds the mark only while no rank has taken the lock after its node.
//! Ordering:  release flushes first (lock/d-mcs-token-without-flush); nodes alternate
//!            (lock/d-mcs-token-with-one-node); an attempt compares the tail with a link that never
//!            comes back (lock/d-mcs-token-without-numbers).
//! Cost:      acquire 1 store to itself and 1 atomic, +1 atomic at the last holder unless that is
//!            this rank, +1 store to itself if queued; release 1 atomic on itself, +1 signal if a
//!            rank waits.
//! Checked:   `farside check 'lock/d-mcs-token*'`: all schedules of small jobs, with
//!            places of 2 bits too; 8 and 16 ranks on three levels, some with time limits, PCT
//!            depth 3.

use std::cell::Cell;

use farside_fabric::{Link, Result};
use farside_rma::{Context, Place};

use super::Kind;
use crate::lock::frame::{Algorithm, LockWords, Standing};
use crate::lock::registry::{Entry, Made, Maker};
use crate::lock::steps;

const WORDS: usize = 4;
const TAIL: usize = 0;
/// The next of the first node; that of the second follows.
const NEXT: usize = 1;
const STATUS: usize = 3;

/// In a node's next: its owner has released the lock. No link has this value.
const RELEASED: u64 = u64::MAX;
const GRANTED: u64 = 1;

/// Bits of the number of a place in the queue. A rank that asks without waiting must not sleep
/// through so many places of one other rank between two of its steps.
const PLACE_BITS: u32 = 38;

struct Token {
    /// The number of this rank's last place. Numbers differ in their links, so that a tail that is
    /// as it was is one that did not change; the last bit says which node is used.
    place: Cell<u64>,
    /// The largest number of a place: one less than a power of two.
    last_place: u64,
}

pub(super) fn make(maker: &Maker<'_>) -> Result<Made<dyn Algorithm>> {
    // One bit for the two nodes is no number.
    let is_numbered = !maker.context().omits(steps::NUMBER_PLACES);
    let bits = if is_numbered { maker.bits(PLACE_BITS, 2) } else { 1 };
    let algorithm = Box::new(Token { place: Cell::new(0), last_place: (1 << bits) - 1 });
    Ok(Made { words: maker.words(WORDS)?, algorithm })
}

impl Token {
    fn next_place(&self) -> u64 {
        (self.place.get() + 1) & self.last_place
    }

    fn next_of<'l>(
        &self,
        lock: &'l LockWords,
        context: &Context,
        link: Link,
    ) -> Option<Place<'l, u64>> {
        link.target().map(|(rank, place)| lock.at(rank, NEXT + node_of(context, place)))
    }

    /// Takes the lock after a node that was at the tail; false if its owner still has it.
    fn follow(&self, lock: &LockWords, context: &Context, pred: Link, mine: Link) -> Result<bool> {
        match (pred.target(), self.next_of(lock, context, pred)) {
            // No rank ever had it, or this rank had it last: then it has released it.
            (None, _) | (_, None) => Ok(true),
            (Some((rank, _)), _) if rank == context.rank() => Ok(true),
            (_, Some(next)) => Ok(context.swap(next, mine.bits())? == RELEASED),
        }
    }
}

impl Algorithm for Token {
    /// Takes a place only if the lock is free.
    fn attempt(&self, lock: &LockWords, context: &Context) -> Result<bool> {
        let (tail, place) = (lock.shared(TAIL), self.next_place());
        let pred = Link::from_bits(context.load(tail)?);
        let is_free = match self.next_of(lock, context, pred) {
            None => true,
            Some(next) => context.load(next)? == RELEASED,
        };
        if !is_free {
            return Ok(false);
        }
        let mine = Link::new(context.rank(), place)?;
        context.store(lock.at(context.rank(), NEXT + node_of(context, place)), 0)?;
        if context.compare_swap(tail, pred.bits(), mine.bits())? != pred.bits() {
            return Ok(false);
        }
        self.place.set(place);
        // The mark is still there: it is for the rank that follows the node at the tail, and the
        // tail has not changed.
        self.follow(lock, context, pred, mine)
    }

    fn acquire(&self, lock: &LockWords, context: &Context) -> Result<()> {
        let (me, place) = (context.rank(), self.next_place());
        let mine = Link::new(me, place)?;
        context.store(lock.at(me, NEXT + node_of(context, place)), 0)?;
        self.place.set(place);
        let pred = Link::from_bits(context.swap(lock.shared(TAIL), mine.bits())?);
        lock.waits(context, Standing::Queued(0))?;
        if !self.follow(lock, context, pred, mine)? {
            lock.statistics.queued(1);
            lock.wait(context, STATUS, |status| status == GRANTED)?;
            context.store(lock.at(me, STATUS), 0)?;
        }
        Ok(())
    }

    fn release(&self, lock: &LockWords, context: &Context) -> Result<()> {
        let published = lock.publish(context);
        let own = lock.at(context.rank(), NEXT + node_of(context, self.place.get()));
        let next = context.swap(own, RELEASED)?;
        if let Some((rank, _)) = Link::from_bits(next).target() {
            context.signal(lock.at(rank, STATUS), GRANTED)?;
            lock.statistics.passed(context, rank);
        }
        published
    }

    fn reset(&mut self, _lock: &LockWords, _context: &Context) -> Result<()> {
        self.place.set(0);
        Ok(())
    }
}

/// Returns which of a rank's nodes a place uses.
fn node_of(context: &Context, place: u64) -> usize {
    if context.omits(steps::ALTERNATE) { 0 } else { (place % 2) as usize }
}

pub(super) const ENTRIES: &[Entry] = &[Entry {
    name: "d-mcs-token",
    about: "a queue whose release sends nothing while no rank waits",
    kind: || Kind::Token,
    needs_agent: false,
}];
