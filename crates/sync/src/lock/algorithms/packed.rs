//! Queuing lock in one word of every rank, zero at rest: what OpenSHMEM's locks are, which programs
//! keep in a `long` of their own.
//!
//! Paper:     \[RMALOCK16\] listings 2 and 3 (D-MCS).
//! Differs:   one word of 64 bits a rank instead of three: its halves are the tail, which counts at
//!            one rank only, and the rank's node, which is the successor and a bit for a grant. A
//!            queued request cannot be given up: with a time limit, it polls.
//! State:     1 word on every rank.
//! Invariant: at most one rank between acquire and release; entry in the order of the swaps on the
//!            tail.
//! Ordering:  release flushes first (lock/d-mcs-packed-without-flush); a successor that is about to
//!            link itself is waited for (lock/d-mcs-packed-without-second-look); a grant is taken
//!            without touching a link (lock/d-mcs-packed-by-store).
//! Cost:      acquire 1 atomic, +1 posted and 1 to itself if queued; release 1 load and 1 atomic
//!            alone, else 1 load, 1 store to itself and 1 posted.
//! Checked:   `farside check 'lock/d-mcs-packed*'`: all schedules of the jobs in `ENTRIES`.

use std::marker::PhantomData;

use farside_fabric::{Error, Rank, Result};
use farside_rma::{Context, Place, WaitOptions};

use super::{Kind, QUICK};
use crate::lock::frame::{Algorithm, LockWords, Right, Standing, variants};
use crate::lock::registry::{
    Case, Cost, Entry, Explored, Job, Made, Maker, Operations, Promise, Style, Trial, without_flush,
};

/// The bit of a node to which the lock was passed; the others name its successor, counted from
/// one.
const GRANTED: u32 = 1 << 31;

/// The halves of a rank's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Half {
    /// The last rank of the queue, counted from one; used at the home only.
    Tail = 0,
    /// The rank's node.
    Node = 1,
}

/// A lock's words, and how a rank operates on them and waits.
pub trait Halves {
    /// Returns half of a rank's word.
    fn half(&self, rank: Rank, half: Half) -> Place<'_, u32>;
    /// Returns the rank at which the tail is.
    fn home(&self) -> Rank;
    /// Returns this rank.
    fn me(&self) -> Rank;
    /// Calls `act` with a context.
    fn with<R>(&self, act: impl FnOnce(&Context) -> Result<R>) -> Result<R>;
    /// Waits until this rank's own node satisfies `until`.
    fn wait(&self, until: impl Fn(u32) -> bool) -> Result<u32>;
    /// Says that a request has taken its place.
    fn has_queued(&self) -> Result<()> {
        Ok(())
    }
}

/// The steps of the lock.
pub trait Variant: Send + 'static {
    /// Makes what was written under the lock visible before the lock is passed on.
    const FLUSHES: bool = true;
    /// Waits for a successor that has taken its place and is about to link itself.
    const LOOKS_AGAIN: bool = true;
    /// Takes a grant so that a successor may link itself at the same time.
    const KEEPS_LINKS: bool = true;
}

impl Variant for Right {}

variants! {
    WithoutFlush { Variant { FLUSHES: bool = false } }
    WithoutSecondLook { Variant { LOOKS_AGAIN: bool = false } }
    ByStore { Variant { KEEPS_LINKS: bool = false } }
}

/// Takes the lock; returns whether it had to queue. \[RMALOCK16 listing 2\]
pub fn acquire<V: Variant>(lock: &impl Halves) -> Result<bool> {
    let (mine, tail) = (lock.me().0 + 1, lock.half(lock.home(), Half::Tail));
    let before = lock.with(|context| match context.swap(tail, mine)? {
        before if before > context.size() => Err(not_zero(before)),
        before => Ok(before),
    })?;
    lock.has_queued()?;
    if before == 0 {
        return Ok(false);
    }
    lock.with(|context| context.or(lock.half(Rank(before - 1), Half::Node), mine))?;
    let node = lock.wait(|node| node & GRANTED != 0)?;
    let own = lock.half(lock.me(), Half::Node);
    if V::KEEPS_LINKS {
        lock.with(|context| context.fetch_and(own, !GRANTED))?;
    } else {
        lock.with(|context| context.store(own, node & !GRANTED))?;
    }
    Ok(true)
}

#[cold]
fn not_zero(word: u32) -> Error {
    Error::InvalidState(format!(
        "the word of the lock held {word}, which no lock leaves there: it must be zero before its \
         first use, and nothing but the lock may write it"
    ))
}

/// Returns the rank that holds the lock, as far as its words tell at this moment.
pub fn holder(lock: &impl Halves) -> Result<Option<Rank>> {
    let ranks = lock.with(|context| Ok(context.ranks()))?;
    let load = |rank, half| lock.with(|context| context.load(lock.half(rank, half)));
    let mut behind = Vec::with_capacity(ranks.len());
    for rank in ranks {
        behind.push(load(rank, Half::Node)? & !GRANTED);
    }
    let mut first = load(lock.home(), Half::Tail)?;
    // From the last of the queue to the first, who is behind nobody; links may change meanwhile.
    for _ in 0..behind.len() {
        match behind.iter().position(|&successor| successor == first && first != 0) {
            Some(ahead) => first = ahead as u32 + 1,
            None => break,
        }
    }
    Ok(first.checked_sub(1).map(Rank))
}

/// Takes the lock if it is free.
pub fn attempt(lock: &impl Halves) -> Result<bool> {
    let (mine, tail) = (lock.me().0 + 1, lock.half(lock.home(), Half::Tail));
    Ok(lock.with(|context| context.compare_swap(tail, 0, mine))? == 0)
}

/// Passes the lock on; returns to whom. Fails if it is not held by anybody. \[RMALOCK16 listing 3\]
pub fn release<V: Variant>(lock: &impl Halves) -> Result<Option<Rank>> {
    let own = lock.half(lock.me(), Half::Node);
    let mut next = lock.with(|context| context.load(own))?;
    if next == 0 {
        let (mine, tail) = (lock.me().0 + 1, lock.half(lock.home(), Half::Tail));
        let held = lock.with(|context| context.compare_swap(tail, mine, 0))?;
        if held == mine || !V::LOOKS_AGAIN {
            return Ok(None);
        }
        if held == 0 {
            return Err(Error::InvalidState("the lock is released, and no rank holds it".into()));
        }
        next = lock.wait(|node| node != 0)?;
    }
    let successor = Rank(next - 1);
    lock.with(|context| {
        context.store(own, 0)?;
        context.or(lock.half(successor, Half::Node), GRANTED)
    })?;
    Ok(Some(successor))
}

/// A lock of this workspace's own kind, as one rank uses it.
struct Own<'l> {
    lock: &'l LockWords,
    context: &'l Context,
}

impl Halves for Own<'_> {
    fn half(&self, rank: Rank, half: Half) -> Place<'_, u32> {
        self.lock.at(rank, 0).cast::<u32>().skip(half as usize)
    }

    fn home(&self) -> Rank {
        self.lock.home()
    }

    fn me(&self) -> Rank {
        self.context.rank()
    }

    fn with<R>(&self, act: impl FnOnce(&Context) -> Result<R>) -> Result<R> {
        act(self.context)
    }

    fn wait(&self, until: impl Fn(u32) -> bool) -> Result<u32> {
        let own = self.half(self.me(), Half::Node);
        self.context.wait_among(self.lock.members(), own, until, WaitOptions::default())
    }

    fn has_queued(&self) -> Result<()> {
        self.lock.waits(self.context, Standing::Queued(0))
    }
}

struct Packed<V>(PhantomData<V>);

pub(super) fn make(maker: &Maker<'_>) -> Result<Made<dyn Algorithm>> {
    build::<Right>(maker)
}

fn build<V: Variant>(maker: &Maker<'_>) -> Result<Made<dyn Algorithm>> {
    Ok(Made { words: maker.words(1)?, algorithm: Box::new(Packed::<V>(PhantomData)) })
}

impl<V: Variant> Algorithm for Packed<V> {
    fn attempt(&self, lock: &LockWords, context: &Context) -> Result<bool> {
        attempt(&Own { lock, context })
    }

    fn acquire(&self, lock: &LockWords, context: &Context) -> Result<()> {
        if acquire::<V>(&Own { lock, context })? {
            lock.statistics.queued(1);
        }
        Ok(())
    }

    fn release(&self, lock: &LockWords, context: &Context) -> Result<()> {
        let published = lock.publish(context, V::FLUSHES);
        if let Some(next) = release::<V>(&Own { lock, context })? {
            lock.statistics.passed(context, next);
        }
        published
    }
}

pub(super) const ENTRIES: &[Entry] = &[Entry {
    name: "d-mcs-packed",
    about: "a queue in one word of every rank, as OpenSHMEM has it",
    kind: || Kind::Packed,
    needs_agent: false,
    explored: &[Explored { name: "d-mcs-packed", kind: || Kind::Packed, is_fifo: true, ..QUICK }],
    costs: &[
        Cost::of("node:1", Case::Alone, Operations::atomics(1), Operations::atomics(2)),
        Cost::of("node:1", Case::Passed, Operations::and_signal(2), Operations::and_signal(2)),
    ],
    variants: &[
        without_flush(build::<WithoutFlush>),
        super::Variant {
            name: "without-second-look",
            about: "does not wait for a successor that is about to link itself",
            build: build::<WithoutSecondLook>,
            trial: Some(Trial::caught(Style::Wait, Promise::Progress, "has already left")),
        },
        super::Variant {
            name: "by-store",
            about: "takes a grant by a store, over a link that comes at the same time",
            build: build::<ByStore>,
            trial: Some(Trial {
                job: Job::new(3),
                ..Trial::caught(Style::Wait, Promise::Progress, "deadlock")
            }),
        },
    ],
}];
