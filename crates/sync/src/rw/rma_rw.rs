//! RMA-RW: readers count themselves in counters that are spread over the topology, writers queue in
//! a tree that follows it.
//!
//! Paper:     [RMALOCK16] section 3, listings 4 to 10.
//! Differs:   as printed it is not correct; what was changed in the counters, and why, stands in
//!            `counters`, and what was changed in the tree in `lock::tree`. The count at the widest
//!            level is compared with T_L,1 and not with T_W: so T_W, the product of all T_L,i, is
//!            what bounds the writers in a row. A writer with a time limit that finds readers
//!            inside for too long opens the counters again, and tells the next to close them.
//! State:     for each level of the topology the 4 words of the tree, and 3 words for the counters,
//!            on every rank.
//! Invariant: a writer is inside only if it holds the widest queue, by itself or for its element,
//!            and all counters are closed and drained. At most T_W writers are inside one after the
//!            other before readers that wait get in (`writers_that_ignore_t_w_are_caught`); a
//!            reader waits for at most 2 T_W writers once it insists: at once, or where ranks
//!            outnumber processors when it has seen 64 openings. T_R: see `counters`
//!            (`readers_that_ignore_t_r_are_caught`).
//! Ordering:  release flushes first (`a_tree_for_writers_without_flush_is_caught`); the wider queue
//!            is left before the own (`a_tree_that_climbs_too_early_is_caught`); see also what
//!            stands in the files of counters and tree.
//! Cost:      read 1 atomic, end of read 1 atomic, +1 if a writer waits. Write alone, with N levels
//!            and C counters: N + C atomics and N - 1 stores to itself; its end 3 N - 1 loads and N
//!            + C atomics. Passed on inside an element: that of a queue, and 2 loads.
//! Checked:   `farside check 'rw/rma-rw*'`: 1 writer + 2 readers and 2 writers + 1 reader x 1
//!            round, 1 writer + 1 reader x 2 rounds exhaustively, with one counter and with one for
//!            each rank, T_R = 1, T_L = 1 and 2, on one node and on two; 1 writer + 1 reader with
//!            time limits, 1 writer + 2 readers with a death; every branch is reached; 8 and 16
//!            ranks on three levels, some with time limits, PCT depth 3.

use farside_fabric::{Rank, Result};
use farside_rma::{Context, Team};

use super::counters::{self, Arrival, Counters, Limits, Writers};
use super::frame::{Algorithm, Tally};
use super::slots;
use crate::lock::frame::{Algorithm as Exclusive, Patience, Site, Variant};
use crate::lock::tree::{self, Reached, Tree};

/// The thresholds.
#[derive(Debug, Clone)]
pub(super) struct Thresholds {
    /// What the lock is called: the default is this one where members are on several nodes.
    pub(super) name: &'static str,
    pub(super) t_dc: Option<u32>,
    pub(super) t_l: Vec<u32>,
    pub(super) t_r: u32,
}

pub(super) struct RmaRw<V> {
    tally: Tally,
    thresholds: Thresholds,
    counters: Counters,
    tree: Tree<V>,
}

/// How many words of every rank it takes.
pub(super) fn words(team: &Team<'_>) -> usize {
    tree::words(team.context(), team.members()) + counters::WORDS
}

impl<V: Variant> RmaRw<V> {
    pub(super) fn new(site: Site, context: &Context, thresholds: Thresholds) -> Result<RmaRw<V>> {
        let counters = counters(&site, context, &thresholds)?;
        let (widest, narrower) = match &*thresholds.t_l {
            [] => (1, &[][..]),
            [widest] => (*widest, &thresholds.t_l[..]),
            [widest, narrower @ ..] => (*widest, narrower),
        };
        let tree = Tree::below(site, context, Some(widest), narrower);
        Ok(RmaRw { tally: Tally::default(), thresholds, counters, tree })
    }
}

impl<V: Variant> Algorithm for RmaRw<V> {
    fn name(&self) -> &'static str {
        self.thresholds.name
    }

    fn site(&self) -> &Site {
        self.tree.site()
    }

    fn tally(&self) -> &Tally {
        &self.tally
    }

    fn read(&self, context: &Context, patience: Patience) -> Result<bool> {
        let writers = Root { tree: &self.tree, context };
        let arrival =
            self.counters.arrive::<V>(self.site(), context, patience, (&self.tally, &writers))?;
        Ok(arrival == Arrival::Inside)
    }

    fn end_read(&self, context: &Context) -> Result<()> {
        let published = self.site().publish::<V>(context);
        self.counters.depart::<V>(self.site(), context)?;
        published
    }

    fn write(&self, context: &Context, patience: Patience) -> Result<bool> {
        let queued = self.site().tally.read().queued;
        let reached = self.tree.climb(context, patience)?;
        if self.site().tally.read().queued != queued {
            self.tally.note(|tally| &tally.writes_queued);
        }
        match reached {
            Reached::GaveUp => Ok(false),
            Reached::All => Ok(true),
            Reached::Root => {
                let is_closed =
                    self.counters.close::<V>(self.site(), context, patience, &self.tally)?;
                if !is_closed {
                    self.tree.turn_back(context)?;
                }
                Ok(is_closed)
            }
        }
    }

    fn end_write(&self, context: &Context) -> Result<()> {
        let published = self.site().publish::<V>(context);
        let open = || self.counters.open::<V>(self.site(), context, &self.tally);
        let descent = self.tree.descend(context, &open)?;
        self.counters.pass_on();
        if let Some(next) = descent.next {
            self.tally.passed(context, next);
        }
        match descent.passed_at {
            Some(level) if self.tree.is_widest(level) => {
                self.tally.note(|tally| &tally.passed_across)
            }
            Some(_) => self.tally.note(|tally| &tally.passed_within),
            None => {}
        }
        if descent.yielded {
            self.tally.note(|tally| &tally.yielded);
        }
        if descent.for_another {
            self.tally.note(|tally| &tally.left_for_another);
        }
        published
    }

    fn reset(&mut self, context: &Context, home: Rank, members: &[Rank]) -> Result<()> {
        self.tree.reset(context, home, members)?;
        self.counters = counters(self.tree.site(), context, &self.thresholds)?;
        Ok(())
    }

    fn free(self: Box<Self>, team: &Team<'_>) -> Result<()> {
        Box::new(self.tree).into_words().free(team)
    }
}

/// The counters lie behind the tree, which may need fewer words after losses and never more.
/// Readers let writers pass for a while where ranks outnumber processors.
fn counters(site: &Site, context: &Context, thresholds: &Thresholds) -> Result<Counters> {
    let yields = if context.is_crowded(site.members()) { slots::YIELDS } else { 0 };
    let base = site.len() - counters::WORDS;
    let limits = Limits { t_dc: thresholds.t_dc, t_r: Some(thresholds.t_r), yields };
    Counters::new(base, context, site.members(), limits)
}

/// The widest queue, as readers see it.
struct Root<'a, V> {
    tree: &'a Tree<V>,
    context: &'a Context,
}

impl<V: Variant> Writers for Root<'_, V> {
    fn are_there(&self) -> Result<bool> {
        self.tree.is_idle(self.context).map(|is_idle| !is_idle)
    }
}
