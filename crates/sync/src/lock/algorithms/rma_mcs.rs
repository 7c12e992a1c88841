//! Tree of queues (RMA-MCS): a queue for each element of the topology, so that the lock stays close
//! for a while before it goes far.
//!
//! Paper:     [RMALOCK16] sections 3.2.2, 3.2.3 and 3.5, listings 4 and 5.
//! Differs:   the rank that passes the lock says whose node stands in the level above: as printed,
//!            a rank releases that level with a node that never stood there. Levels that divide
//!            nothing are left out; waiters can give up at any level (`README.md`).
//! State:     for each level, 1 word (tail) at the first rank of the element (at the home for the
//!            widest), and 3 words on every rank.
//! Invariant: a node of each of the holder's elements stands in the queue around it; at most `t_l`
//!            ranks of an element have it in a row while another waits (lock/rma-mcs-without-t-l).
//! Ordering:  release flushes first (lock/rma-mcs-without-flush); the level above is released
//!            before the own element's next goes there (lock/rma-mcs-leaf-first).
//! Cost:      for each level entered that of a queue, above the first +1 store to itself; release:
//!            inside the element that of a queue and 1 load; each level above 2 loads more.
//! Checked:   `farside check 'lock/rma-mcs*'`: all schedules of small jobs with
//!            thresholds of 1, 2 and 32; T_L itself; 8 to 256 ranks, PCT depth 3.

use std::cell::Cell;
use std::time::Duration;

use farside_fabric::{Link, Rank, Result};
use farside_rma::Context;

use super::Kind;
use super::d_mcs::{self, Entry, Queue};
use crate::lock::frame::{Algorithm, LockWords, TimeLimit};
use crate::lock::registry::{Entry as Row, Made, Maker};
use crate::lock::steps;

/// Words for each level: those of a queue, and what is known of the node.
const WORDS: usize = d_mcs::WORDS + 1;
const KNOWN: usize = d_mcs::WORDS;

/// The usual locality threshold.
const T_L: u32 = 32;

/// Told to the next of an element when the level above was released.
const CLIMB: u64 = 0;

pub(crate) struct RmaMcs {
    /// The narrowest first.
    levels: Vec<Level>,
    thresholds: Vec<u32>,
    /// How many may follow each other at the widest level, if what lies above it is given back
    /// then.
    widest: Option<u32>,
    /// What became of the last release.
    descent: Cell<Descent>,
    /// What is known of this rank's node in the first level.
    leaf: Cell<Known>,
}

struct Level {
    base: usize,
    queue: Queue,
    t_l: u64,
}

/// How far a request has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reached {
    /// It was passed the lock.
    All,
    /// It has the widest queue. If something lies above, that is its to get.
    Root,
    /// Not its turn within the time given.
    GaveUp,
}

/// What became of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Descent {
    /// The level inside whose element the lock was passed, the narrowest being 0.
    pub(crate) passed_at: Option<usize>,
    /// Whether a rank waited in the widest queue when what lies above was given back.
    pub(crate) yielded: bool,
    /// Whether a queue was left that another rank had entered.
    pub(crate) for_another: bool,
    /// The rank to which the lock was passed.
    pub(crate) next: Option<Rank>,
}

/// A queue that was left.
struct Left {
    /// The number of its level.
    number: usize,
    /// The rank whose node stood in it.
    owner: Rank,
    /// The next in the queue.
    next: Option<Rank>,
    /// Whether the lock has left the element.
    has_left: bool,
}

/// Gives back what lies above the widest queue.
type GiveBack<'a> = &'a dyn Fn() -> Result<()>;

/// What the holder of a queue must know to release it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    /// How often in a row the lock was passed inside the element, from 1.
    count: u64,
    /// The node that stands for the element in the level above.
    above: Link,
}

impl Known {
    const NOTHING: Known = Known { count: 1, above: Link::NULL };

    fn pack(self) -> u64 {
        let above =
            self.above.target().map_or(0, |(rank, leaves)| (u64::from(rank.0) << 2) | (leaves + 1));
        (self.count << 26) | above
    }

    fn unpack(bits: u64) -> Result<Known> {
        let (rank, leaves) = (Rank(((bits >> 2) & 0xff_ffff) as u32), bits & 3);
        let above = if leaves == 0 { Link::NULL } else { Link::new(rank, leaves - 1)? };
        Ok(Known { count: bits >> 26, above })
    }
}

/// How many words of every member the lock takes.
pub(crate) fn words(context: &Context, members: &[Rank]) -> usize {
    elements(context, members).len() * WORDS
}

/// For each level that divides the members, the narrowest first, the element of each rank of the
/// job. The last has one element.
fn elements(context: &Context, members: &[Rank]) -> Vec<Vec<u32>> {
    let mut kept: Vec<Vec<u32>> = Vec::new();
    let mut count = 0;
    for level in context.topology().levels() {
        let mut seen: Vec<u32> =
            members.iter().map(|rank| level.element_of[rank.index()]).collect();
        seen.sort_unstable();
        seen.dedup();
        // A level of single ranks would be a queue of one.
        let is_new = seen.len() > count && (seen.len() < members.len() || count == 0);
        if is_new {
            count = seen.len();
            kept.push(level.element_of.clone());
        }
    }
    kept.reverse();
    kept
}

pub(super) fn make(maker: &Maker<'_>, thresholds: &[u32]) -> Result<Made<dyn Algorithm>> {
    let words = maker.words(words(maker.context(), maker.team.members()))?;
    let tree = RmaMcs::below(&words, maker.context(), None, thresholds);
    Ok(Made { words, algorithm: Box::new(tree) })
}

impl RmaMcs {
    /// Makes a tree with something above it, which is given back after `widest` ranks at the widest
    /// level. `thresholds` are for the levels below the widest, the widest first; the last of them
    /// also for all that follow.
    pub(crate) fn below(
        lock: &LockWords,
        context: &Context,
        widest: Option<u32>,
        thresholds: &[u32],
    ) -> RmaMcs {
        let mut tree = RmaMcs {
            levels: Vec::new(),
            thresholds: thresholds.to_vec(),
            widest,
            descent: Cell::default(),
            leaf: Cell::new(Known::NOTHING),
        };
        tree.arrange(lock, context);
        tree
    }

    pub(crate) fn arrange(&mut self, lock: &LockWords, context: &Context) {
        let elements = elements(context, lock.members());
        let depth = elements.len();
        let level = |(number, element_of): (usize, Vec<u32>)| {
            let mine = element_of[context.rank().index()];
            let first = lock.members().iter().find(|rank| element_of[rank.index()] == mine);
            let is_widest = number + 1 == depth;
            let tail = first.copied().filter(|_| !is_widest).unwrap_or(lock.home());
            let limit = self.widest.filter(|_| is_widest);
            let named =
                self.thresholds.get((depth - number).saturating_sub(2)).or(self.thresholds.last());
            let base = number * WORDS;
            Level {
                base,
                queue: Queue::new(base, tail).of_level(number),
                t_l: limit.or(named.copied()).unwrap_or(T_L).into(),
            }
        };
        self.levels = elements.into_iter().enumerate().map(level).collect();
    }

    fn note(&self, lock: &LockWords, context: &Context, level: usize, known: Known) -> Result<()> {
        if level == 0 {
            self.leaf.set(known);
            return Ok(());
        }
        context.store(lock.at(context.rank(), self.levels[level].base + KNOWN), known.pack())
    }

    /// Enters the queues from the narrowest on, until the lock is passed or the widest is entered.
    /// [RMALOCK16 listing 4]
    pub(crate) fn climb(
        &self,
        lock: &LockWords,
        context: &Context,
        limit: TimeLimit,
    ) -> Result<Reached> {
        for (number, level) in self.levels.iter().enumerate() {
            let entry = level.queue.acquire(lock, context, limit)?;
            if entry == Entry::GaveUp {
                self.step_back(lock, context, number)?;
                return Ok(Reached::GaveUp);
            }
            if let (Some(below), Some(_)) = (number.checked_sub(1), level.queue.link().target()) {
                self.note(lock, context, below, Known { count: 1, above: level.queue.link() })?;
            }
            if entry != Entry::First {
                lock.statistics.queued(1);
            }
            match entry {
                Entry::Passed(passed) if passed != CLIMB => {
                    self.note(lock, context, number, Known::unpack(passed)?)?;
                    return Ok(Reached::All);
                }
                _ => {}
            }
        }
        let widest = self.levels.len() - 1;
        self.note(lock, context, widest, Known::NOTHING)?;
        Ok(Reached::Root)
    }

    /// Leaves all queues without having got what lies above.
    pub(crate) fn turn_back(&self, lock: &LockWords, context: &Context) -> Result<()> {
        self.step_back(lock, context, self.levels.len())
    }

    /// Passes the lock on; gives back what lies above if it goes no further in the tree.
    pub(crate) fn descend(
        &self,
        lock: &LockWords,
        context: &Context,
        give_back: GiveBack<'_>,
    ) -> Result<Descent> {
        self.descent.set(Descent::default());
        self.release_level(lock, context, 0, self.levels[0].queue.link(), give_back)?;
        Ok(self.descent.get())
    }

    /// Returns whether a level is the widest.
    pub(crate) fn is_widest(&self, number: usize) -> bool {
        number + 1 == self.levels.len()
    }

    /// Returns whether no rank is in the widest queue, or inside.
    pub(crate) fn is_idle(&self, lock: &LockWords, context: &Context) -> Result<bool> {
        match self.levels.last() {
            Some(widest) => widest.queue.is_empty(lock, context),
            None => Ok(true),
        }
    }

    /// Gives up the queues below a level that was not entered.
    fn step_back(&self, lock: &LockWords, context: &Context, entered: usize) -> Result<()> {
        for level in self.levels[..entered].iter().rev() {
            level.queue.release(lock, context, CLIMB)?;
        }
        Ok(())
    }

    /// Releases a level with the node that stands there, and those above if the lock leaves the
    /// element. [RMALOCK16 listing 5]
    fn release_level(
        &self,
        lock: &LockWords,
        context: &Context,
        number: usize,
        node: Link,
        give_back: GiveBack<'_>,
    ) -> Result<()> {
        let level = &self.levels[number];
        let Some((owner, _)) = node.target() else {
            return Ok(());
        };
        let known = if number == 0 {
            self.leaf.get()
        } else {
            Known::unpack(context.load(lock.at(owner, level.base + KNOWN))?)?
        };
        let is_widest = self.is_widest(number);
        let has_above = !is_widest || self.widest.is_some();
        // At the widest level the threshold is about readers: the product of all is T_W.
        let threshold = if is_widest { steps::KEEP_T_W } else { steps::KEEP_T_L };
        let may_stay = known.count < level.t_l || context.omits(threshold);
        let stays = !has_above || (may_stay && level.queue.has_next(lock, context, owner)?);
        let has_left = Cell::new(!stays);
        let release_above = || {
            if is_widest {
                give_back()
            } else {
                self.release_level(lock, context, number + 1, known.above, give_back)
            }
        };
        let climbs_last = !context.omits(steps::CLIMB_LAST);
        if !stays && climbs_last {
            release_above()?;
        }
        let next = level.queue.release_node(lock, context, node, |candidate| {
            if candidate.is_none() && has_above && !has_left.replace(true) {
                release_above()?;
            }
            let passed = Known { count: known.count + 1, above: known.above };
            Ok(if has_left.get() { CLIMB } else { passed.pack() })
        })?;
        if !stays && !climbs_last {
            release_above()?;
        }
        self.note_descent(lock, context, Left { number, owner, next, has_left: has_left.get() });
        Ok(())
    }

    fn note_descent(&self, lock: &LockWords, context: &Context, left: Left) {
        let Left { number, owner, next, has_left } = left;
        let mut descent = self.descent.get();
        descent.for_another |= owner != context.rank();
        match next {
            Some(next) if !has_left => {
                lock.statistics.passed(context, next);
                (descent.passed_at, descent.next) = (Some(number), Some(next));
            }
            Some(_) => descent.yielded |= self.is_widest(number),
            None => {}
        }
        self.descent.set(descent);
    }
}

impl Algorithm for RmaMcs {
    fn attempt(&self, lock: &LockWords, context: &Context) -> Result<bool> {
        Ok(self.climb(lock, context, TimeLimit::DoNotWait)? != Reached::GaveUp)
    }

    fn acquire(&self, lock: &LockWords, context: &Context) -> Result<()> {
        self.climb(lock, context, TimeLimit::Unlimited).map(drop)
    }

    fn acquire_within(&self, lock: &LockWords, context: &Context, time: Duration) -> Result<bool> {
        Ok(self.climb(lock, context, TimeLimit::AtMost(time))? != Reached::GaveUp)
    }

    fn release(&self, lock: &LockWords, context: &Context) -> Result<()> {
        let published = lock.publish(context);
        self.descend(lock, context, &|| Ok(()))?;
        published
    }

    fn reset(&mut self, lock: &LockWords, context: &Context) -> Result<()> {
        self.arrange(lock, context);
        Ok(())
    }
}

pub(super) const ENTRIES: &[Row] = &[Row {
    name: "rma-mcs",
    about: "a queue for each element of the topology",
    kind: || Kind::RmaMcs { thresholds: Vec::new() },
    needs_agent: false,
}];
