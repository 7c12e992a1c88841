//! A tree of queues: one queue for each element of the topology. Who is first in the queue of its own element goes on to the next wider
//! one, and passes what it has got within its element for a while before the others get their turn.
//!
//! Paper:     [RMALOCK16] sections 3.2.2 and 3.2.3, listings 4 and 5; the queue is that of [ARMCI03] section 3.2.2.
//! Differs:   a rank that was passed the lock inside its element has no node in the wider queues: the nodes there are those of whoever climbed.
//!            So the first who passes the lock inside an element writes down who climbed, and who releases the wider queue looks it up. The status
//!            that is passed is 0 for *what lies above is yours to get* and otherwise the count, so one value serves all levels. A request that
//!            may give up stands in no queue: it goes up only where nobody is ahead of it.
//! State:     for each level 4 words on every rank: the queue's 3, and who climbed.
//! Invariant: of an element, at most one rank has a node in the next wider queue; its node is out of that queue before another one of the element goes there.
//! Ordering:  the wider queue is left before the own (`a_tree_that_climbs_too_early_is_caught`).
//! Cost:      enter: that of the queue, for each level that is not passed on; leave: the same, and 1 load for each level that another rank has entered,
//!            1 store for each level entered when the lock is passed inside the element for the first time.
//! Checked:   as part of the locks that use it.

use std::cell::Cell;

use farside_fabric::{Rank, Result, Topology};
use farside_rma::Context;

use super::frame::Tally;
use crate::lock::frame::{Patience, Site, Variant};
use crate::lock::queue::{self, Entry, Queue};

/// How many words of every rank a level takes.
const WORDS_PER_LEVEL: usize = queue::WORDS + 1;
/// Who stands in the next wider queue for this element, and with which count.
const CLIMBED: usize = queue::WORDS;
const COUNT_BITS: u32 = 32;

/// The tree, as one rank uses it: the queues of the elements that the rank is in, the widest first.
pub(super) struct Tree {
    levels: Vec<Level>,
}

struct Level {
    queue: Queue,
    base: usize,
    /// In whose memory what the element shares lies.
    leader: Rank,
    /// How many of an element may have the lock one after the other.
    t_l: u64,
    /// The count that came with this rank's place, while it has one that it has taken itself.
    entered: Cell<Option<u64>>,
}

/// What a rank has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reached {
    /// Everything: it was passed the lock.
    All,
    /// The widest queue. What lies above is its to get.
    Root,
}

/// Gives back what lies above the tree, because the lock goes no further among those who queue.
type GiveBack<'a> = &'a dyn Fn() -> Result<()>;

impl Tree {
    /// How many words of every rank the tree takes.
    pub(super) fn words(topology: &Topology, members: &[Rank]) -> usize {
        levels(topology, members).len() * WORDS_PER_LEVEL
    }

    /// The tree over words from `base` on. `t_l` is the threshold of each level, the widest first; the last one holds for all narrower levels.
    pub(super) fn new(base: usize, context: &Context, home: Rank, members: &[Rank], t_l: &[u32]) -> Tree {
        let topology = context.topology();
        let level = |(at, element_of): (usize, Vec<u32>)| {
            let mine = element_of[context.rank().index()];
            let first = members.iter().find(|rank| element_of[rank.index()] == mine);
            let leader = if at == 0 { home } else { *first.unwrap_or(&home) };
            let base = base + at * WORDS_PER_LEVEL;
            let t_l = t_l.get(at).or(t_l.last()).map_or(1, |&t_l| t_l.max(1));
            Level { queue: Queue::new(base, leader), base, leader, t_l: t_l.into(), entered: Cell::new(None) }
        };
        Tree { levels: levels(topology, members).into_iter().enumerate().map(level).collect() }
    }

    /// Whether nobody stands in the widest queue, or is inside.
    pub(super) fn is_idle(&self, site: &Site, context: &Context) -> Result<bool> {
        self.levels[0].queue.is_empty(site, context)
    }

    /// Waits for this rank's turn.
    pub(super) fn enter<V: Variant>(&self, site: &Site, context: &Context, tally: &Tally) -> Result<Reached> {
        let mut is_queued = false;
        for level in self.levels.iter().rev() {
            let entry = level.queue.enter::<V>(site, context, Patience::Forever)?;
            is_queued |= matches!(entry, Entry::Passed(_));
            let count = if let Entry::Passed(count) = entry { count } else { 0 };
            level.entered.set(Some(count));
            if count > 0 {
                tally.note(|tally| &tally.writes_queued);
                return Ok(Reached::All);
            }
        }
        if is_queued {
            tally.note(|tally| &tally.writes_queued);
        }
        Ok(Reached::Root)
    }

    /// Takes the widest queue if nobody is ahead at any level.
    pub(super) fn try_enter<V: Variant>(&self, site: &Site, context: &Context) -> Result<bool> {
        for (at, level) in self.levels.iter().enumerate().rev() {
            if level.queue.enter::<V>(site, context, Patience::Never)? == Entry::GaveUp {
                return self.abandon::<V>(at + 1, site, context).map(|()| false);
            }
            level.entered.set(Some(0));
        }
        Ok(true)
    }

    /// Leaves the queues from level `at` on, the widest first, with nothing to pass on.
    pub(super) fn abandon<V: Variant>(&self, at: usize, site: &Site, context: &Context) -> Result<()> {
        for level in &self.levels[at..] {
            level.entered.set(None);
            level.queue.leave_as::<V>(site, context, Queue::patient_node(context.rank())?, |_| Ok(0))?;
        }
        Ok(())
    }

    /// Passes the lock on: within the own element while its threshold allows, else to the next wider one.
    pub(super) fn leave<V: Variant>(
        &self,
        site: &Site,
        context: &Context,
        tally: &Tally,
        give_back: GiveBack<'_>,
    ) -> Result<()> {
        let left = self.leave_level::<V>(self.levels.len() - 1, site, context, tally, give_back);
        self.levels.iter().for_each(|level| level.entered.set(None));
        left
    }

    fn leave_level<V: Variant>(
        &self,
        at: usize,
        site: &Site,
        context: &Context,
        tally: &Tally,
        give_back: GiveBack<'_>,
    ) -> Result<()> {
        let level = &self.levels[at];
        let (node, count) = self.place(at, site, context, tally)?;
        if count + 1 < level.t_l && level.queue.has_next(site, context, node)? {
            self.write_down(at, site, context)?;
            if let Some(next) =
                level.queue.leave_as::<V>(site, context, Queue::patient_node(node)?, |_| Ok(count + 1))?
            {
                tally.note(|tally| if at == 0 { &tally.passed_across } else { &tally.passed_within });
                tally.passed(context, next);
            }
            return Ok(());
        }
        let climb =
            || if at == 0 { give_back() } else { self.leave_level::<V>(at - 1, site, context, tally, give_back) };
        if V::CLIMBS_LAST {
            climb()?;
        }
        let next = level.queue.leave_as::<V>(site, context, Queue::patient_node(node)?, |_| Ok(0))?;
        if at == 0 && next.is_some() {
            tally.note(|tally| &tally.yielded);
        }
        if let Some(next) = next {
            tally.passed(context, next);
        }
        if V::CLIMBS_LAST { Ok(()) } else { climb() }
    }

    /// Whose node stands for this rank at a level, and with which count.
    fn place(&self, at: usize, site: &Site, context: &Context, tally: &Tally) -> Result<(Rank, u64)> {
        if let Some(count) = self.levels[at].entered.get() {
            return Ok((context.rank(), count));
        }
        let narrower = &self.levels[at + 1];
        let climbed = context.load(site.at(narrower.leader, narrower.base + CLIMBED))?;
        tally.note(|tally| &tally.left_for_another);
        Ok((Rank((climbed >> COUNT_BITS) as u32), climbed & ((1 << COUNT_BITS) - 1)))
    }

    /// Tells those of this rank's element who come after it where it stands in the wider queues, at levels up to `at`.
    fn write_down(&self, at: usize, site: &Site, context: &Context) -> Result<()> {
        for pair in self.levels[..=at].windows(2) {
            if let Some(count) = pair[0].entered.get() {
                let climbed = (u64::from(context.rank().0) << COUNT_BITS) | count;
                context.store(site.at(pair[1].leader, pair[1].base + CLIMBED), climbed)?;
            }
        }
        Ok(())
    }
}

/// The elements of each level that matter: levels that tell no members apart that the next wider one does not, and levels whose
/// elements hold one member each, are left out.
fn levels(topology: &Topology, members: &[Rank]) -> Vec<Vec<u32>> {
    let mut kept: Vec<Vec<u32>> = Vec::new();
    let mut elements_before = 0;
    for level in topology.levels() {
        let mut elements: Vec<u32> = members.iter().map(|rank| level.element_of[rank.index()]).collect();
        elements.sort_unstable();
        elements.dedup();
        let is_new = elements.len() > elements_before;
        if kept.is_empty() || (is_new && elements.len() < members.len()) {
            elements_before = elements.len();
            kept.push(level.element_of.clone());
        }
    }
    kept
}
