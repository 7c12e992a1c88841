//! The tree: a queue for each element of the topology, and what is known of the nodes in it.

use std::cell::Cell;

use farside_fabric::{Link, Rank, Result};
use farside_rma::Context;

use super::RmaMcs;
use crate::lock::algorithms::d_mcs::{self, Queue};
use crate::lock::frame::LockWords;

/// Words for each level: those of a queue, and what is known of the node.
const WORDS: usize = d_mcs::WORDS + 1;
const KNOWN: usize = d_mcs::WORDS;

/// The usual locality threshold.
const T_L: u32 = 32;

pub(super) struct Level {
    base: usize,
    pub(super) queue: Queue,
    pub(super) t_l: u64,
}

/// What the holder of a queue must know to release it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Known {
    /// How often in a row the lock was passed inside the element, from 1.
    pub(super) count: u64,
    /// The node that stands for the element in the level above.
    pub(super) above: Link,
}

impl Known {
    pub(super) const NOTHING: Known = Known { count: 1, above: Link::NULL };

    pub(super) fn pack(self) -> u64 {
        let above =
            self.above.target().map_or(0, |(rank, leaves)| (u64::from(rank.0) << 2) | (leaves + 1));
        (self.count << 26) | above
    }

    pub(super) fn unpack(bits: u64) -> Result<Known> {
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

    pub(super) fn note(
        &self,
        lock: &LockWords,
        context: &Context,
        i: usize,
        known: Known,
    ) -> Result<()> {
        if i == 0 {
            self.leaf.set(known);
            return Ok(());
        }
        context.store(lock.at(context.rank(), self.levels[i].base + KNOWN), known.pack())
    }

    /// Returns what the holder of level `i` has noted of its node there.
    pub(super) fn known(
        &self,
        lock: &LockWords,
        context: &Context,
        i: usize,
        owner: Rank,
    ) -> Result<Known> {
        if i == 0 {
            return Ok(self.leaf.get());
        }
        Known::unpack(context.load(lock.at(owner, self.levels[i].base + KNOWN))?)
    }

    pub(crate) fn is_widest(&self, i: usize) -> bool {
        i + 1 == self.levels.len()
    }

    /// Returns whether no rank is in the widest queue, or inside.
    pub(crate) fn is_idle(&self, lock: &LockWords, context: &Context) -> Result<bool> {
        match self.levels.last() {
            Some(widest) => widest.queue.is_empty(lock, context),
            None => Ok(true),
        }
    }
}
