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
//! Checked:   `farside check 'lock/d-mcs-token*'`: all schedules of the jobs in `ENTRIES`, with
//!            places of 2 bits too; 8 and 16 ranks on three levels, some with time limits, PCT
//!            depth 3.

use std::cell::Cell;
use std::marker::PhantomData;

use farside_fabric::{Link, Result};
use farside_rma::{Context, Place};

use super::{Kind, QUICK};
use crate::lock::frame::{Algorithm, LockWords, Right, Standing, variants};
use crate::lock::registry::{
    Case, Cost, Entry, Explored, Job, Made, Maker, Operations, Promise, Style, Trial, without_flush,
};

const WORDS: usize = 4;
const TAIL: usize = 0;
/// The next of the first node; that of the second follows.
const NEXT: usize = 1;
const STATUS: usize = 3;

/// In a node's next: its owner has released the lock. No link has this value.
const RELEASED: u64 = u64::MAX;
const GRANTED: u64 = 1;

/// The steps and the packed fields of a token lock.
trait Variant: Send + 'static {
    /// Makes what was written under the lock visible before the lock is passed on.
    const FLUSHES: bool = true;
    /// Uses two nodes in turn.
    const ALTERNATES: bool = true;
    /// Bits of the number of a place in the queue. A rank that asks without waiting must not sleep
    /// through so many places of one other rank between two of its steps.
    const PLACE_BITS: u32 = 38;
}

impl Variant for Right {}

variants! {
    WithoutFlush { Variant { FLUSHES: bool = false } }
    WithOneNode { Variant { ALTERNATES: bool = false } }
    WithoutNumbers { Variant { PLACE_BITS: u32 = 1 } }
    Narrow { Variant { PLACE_BITS: u32 = 2 } }
}

struct Token<V> {
    /// The number of this rank's last place. Numbers differ in their links, so that a tail that is
    /// as it was is one that did not change; the last bit says which node is used.
    place: Cell<u64>,
    variant: PhantomData<V>,
}

pub(super) fn make(maker: &Maker<'_>) -> Result<Made<dyn Algorithm>> {
    build::<Right>(maker)
}

fn build<V: Variant>(maker: &Maker<'_>) -> Result<Made<dyn Algorithm>> {
    let algorithm = Box::new(Token::<V> { place: Cell::new(0), variant: PhantomData });
    Ok(Made { words: maker.words(WORDS)?, algorithm })
}

impl<V: Variant> Token<V> {
    /// Returns the number of the next place.
    fn next_place(&self) -> u64 {
        (self.place.get() + 1) % (1 << V::PLACE_BITS)
    }

    /// Returns the next of the node that a link names.
    fn next_of<'l>(&self, lock: &'l LockWords, link: Link) -> Option<Place<'l, u64>> {
        link.target().map(|(rank, place)| lock.at(rank, NEXT + node_of::<V>(place)))
    }

    /// Takes the lock after a node that was at the tail; false if its owner still has it.
    fn follow(&self, lock: &LockWords, context: &Context, pred: Link, mine: Link) -> Result<bool> {
        match (pred.target(), self.next_of(lock, pred)) {
            // No rank ever had it, or this rank had it last: then it has released it.
            (None, _) | (_, None) => Ok(true),
            (Some((rank, _)), _) if rank == context.rank() => Ok(true),
            (_, Some(next)) => Ok(context.swap(next, mine.bits())? == RELEASED),
        }
    }
}

impl<V: Variant> Algorithm for Token<V> {
    /// Takes a place only if the lock is free.
    fn attempt(&self, lock: &LockWords, context: &Context) -> Result<bool> {
        let (tail, place) = (lock.shared(TAIL), self.next_place());
        let pred = Link::from_bits(context.load(tail)?);
        let is_free = match self.next_of(lock, pred) {
            None => true,
            Some(next) => context.load(next)? == RELEASED,
        };
        if !is_free {
            return Ok(false);
        }
        let mine = Link::new(context.rank(), place)?;
        context.store(lock.at(context.rank(), NEXT + node_of::<V>(place)), 0)?;
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
        context.store(lock.at(me, NEXT + node_of::<V>(place)), 0)?;
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
        let published = lock.publish(context, V::FLUSHES);
        let own = lock.at(context.rank(), NEXT + node_of::<V>(self.place.get()));
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
fn node_of<V: Variant>(place: u64) -> usize {
    if V::ALTERNATES { (place % 2) as usize } else { 0 }
}

pub(super) const ENTRIES: &[Entry] = &[Entry {
    name: "d-mcs-token",
    about: "a queue whose release sends nothing while no rank waits",
    kind: || Kind::Token,
    needs_agent: false,
    explored: &[Explored {
        name: "d-mcs-token",
        kind: || Kind::Token,
        is_fifo: true,
        near: Job::new(3).rounds(2),
        deaths: Job::new(3),
        limits: Job::new(2).rounds(3),
        ..QUICK
    }],
    costs: &[
        Cost::of("node:1", Case::Alone, Operations::atomics(2), Operations::atomics(1)),
        Cost::of("node:1", Case::Passed, Operations::atomics(4), Operations::and_signal(1)),
    ],
    variants: &[
        without_flush(build::<WithoutFlush>),
        super::Variant {
            name: "with-one-node",
            about: "uses the node again that it has just released the lock with",
            build: build::<WithOneNode>,
            trial: Some(Trial {
                job: Job::new(2).rounds(2),
                ..Trial::caught(Style::Wait, Promise::Progress, "deadlock")
            }),
        },
        super::Variant {
            name: "without-numbers",
            about: "takes a tail that is as it was for one that did not change",
            build: build::<WithoutNumbers>,
            trial: Some(Trial {
                job: Job::new(2).rounds(3),
                ..Trial::caught(Style::Try, Promise::Visibility, "was lost")
            }),
        },
        super::Variant {
            name: "narrow",
            about: "places in the queue are numbered with two bits",
            build: build::<Narrow>,
            trial: Some(Trial::passes(Style::Wait, Job::new(2).rounds(5))),
        },
    ],
}];
