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
//! Checked:   `farside check 'lock/d-mcs-packed*'`: all schedules of small jobs.

use farside_fabric::{Error, Rank, Result};
use farside_rma::{Context, Place, WaitOptions};

use super::Kind;
use crate::lock::frame::{Algorithm, LockWords, Standing};
use crate::lock::registry::{Entry, Made, Maker};
use crate::lock::steps;

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

/// Takes the lock; returns whether it had to queue. \[RMALOCK16 listing 2\]
pub fn acquire(lock: &impl Halves) -> Result<bool> {
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
    lock.with(|context| {
        if context.omits(steps::KEEP_LINK) {
            return context.store(own, node & !GRANTED);
        }
        context.fetch_and(own, !GRANTED).map(drop)
    })?;
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
pub fn release(lock: &impl Halves) -> Result<Option<Rank>> {
    let own = lock.half(lock.me(), Half::Node);
    let mut next = lock.with(|context| context.load(own))?;
    if next == 0 {
        let (mine, tail) = (lock.me().0 + 1, lock.half(lock.home(), Half::Tail));
        let (held, looks_again) = lock.with(|context| {
            Ok((context.compare_swap(tail, mine, 0)?, !context.omits(steps::LOOK_AGAIN)))
        })?;
        if held == mine || !looks_again {
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

struct Packed;

pub(super) fn make(maker: &Maker<'_>) -> Result<Made<dyn Algorithm>> {
    Ok(Made { words: maker.words(1)?, algorithm: Box::new(Packed) })
}

impl Algorithm for Packed {
    fn attempt(&self, lock: &LockWords, context: &Context) -> Result<bool> {
        attempt(&Own { lock, context })
    }

    fn acquire(&self, lock: &LockWords, context: &Context) -> Result<()> {
        if acquire(&Own { lock, context })? {
            lock.statistics.queued(1);
        }
        Ok(())
    }

    fn release(&self, lock: &LockWords, context: &Context) -> Result<()> {
        let published = lock.publish(context);
        if let Some(next) = release(&Own { lock, context })? {
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
}];
