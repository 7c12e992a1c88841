//! RMA-RW: readers count themselves in counters that are spread over the topology, writers queue in a tree that follows it.
//!
//! Paper:     [RMALOCK16] section 3, listings 4 to 10.
//! Differs:   as printed it is not correct; what was changed in the counters, and why, stands in `counters`, and what was changed in the tree in `tree`.
//!            The count at the widest level is compared with T_L,1 and not with T_W: so T_W, the product of all T_L,i, is what bounds the writers in a
//!            row. A writer that may give up stands in no queue, and opens the counters again if their readers stay too long.
//! State:     4 words for each level of the topology and 3 for the counters, on every rank.
//! Invariant: a writer is inside only if it holds the widest queue, by itself or for its element, and all counters are closed and drained. At most T_W writers are
//!            inside one after the other before readers that wait get in.
//! Ordering:  release flushes first (`a_tree_for_writers_without_flush_is_caught`); see also `counters` and `tree`.
//! Cost:      read 1 atomic, end of read 1 atomic, +1 if a writer waits. Write alone, with N levels and C counters: N + C atomics; end of write: 2 N loads, N + C atomics.
//! Checked:   1 writer + 2 readers and 2 writers + 1 reader x 1 round, 1 writer + 1 reader x 2 rounds exhaustively, with one counter and with one for each rank, T_R = 1,
//!            T_L = 1 and 2, on one node and on two; every branch is reached. 8 and 16 ranks on three levels at random.

use std::cell::Cell;
use std::marker::PhantomData;

use farside_fabric::{Rank, Result};
use farside_rma::{Context, Team};

use super::counters::{self, Counters, Writers};
use super::frame::{Algorithm, Tally};
use super::tree::{Reached, Tree};
use crate::lock::frame::{Patience, Site, Variant};

/// The thresholds.
#[derive(Debug, Clone)]
pub(super) struct Thresholds {
    pub(super) t_dc: Option<u32>,
    pub(super) t_l: Vec<u32>,
    pub(super) t_r: u32,
}

pub(super) struct RmaRw<V> {
    site: Site,
    tally: Tally,
    thresholds: Thresholds,
    counters: Counters,
    tree: Tree,
    variant: PhantomData<V>,
}

/// How many words of every rank it takes.
pub(super) fn words(team: &Team<'_>) -> usize {
    counters::WORDS + Tree::words(team.context().topology(), team.members())
}

impl<V: Variant> RmaRw<V> {
    pub(super) fn new(site: Site, context: &Context, thresholds: Thresholds) -> RmaRw<V> {
        let (counters, tree) = structures(&site, context, &thresholds);
        RmaRw { site, tally: Tally::default(), thresholds, counters, tree, variant: PhantomData }
    }

    /// Goes in if nobody is ahead, and the readers inside leave in time.
    fn try_write(&self, context: &Context, patience: Patience, is_late: &Cell<bool>) -> Result<bool> {
        if !self.tree.try_enter::<V>(&self.site, context)? {
            return Ok(false);
        }
        let is_closed = self.counters.close::<V>(&self.site, context, patience, &self.tally)?;
        if !is_closed {
            is_late.set(true);
            self.tree.abandon::<V>(0, &self.site, context)?;
        }
        Ok(true)
    }
}

impl<V: Variant> Algorithm for RmaRw<V> {
    fn name(&self) -> &'static str {
        "rma-rw"
    }

    fn site(&self) -> &Site {
        &self.site
    }

    fn tally(&self) -> &Tally {
        &self.tally
    }

    fn read(&self, context: &Context, patience: Patience) -> Result<bool> {
        let writers = Root { site: &self.site, tree: &self.tree, context };
        self.counters.arrive::<V>(&self.site, context, patience, (&self.tally, &writers))
    }

    fn end_read(&self, context: &Context) -> Result<()> {
        let published = self.site.publish::<V>(context);
        self.counters.depart::<V>(&self.site, context)?;
        published
    }

    fn write(&self, context: &Context, patience: Patience) -> Result<bool> {
        if patience == Patience::Forever {
            if self.tree.enter::<V>(&self.site, context, &self.tally)? == Reached::Root {
                self.counters.close::<V>(&self.site, context, patience, &self.tally)?;
            }
            return Ok(true);
        }
        let is_late = Cell::new(false);
        let attempt = || self.try_write(context, patience, &is_late);
        Ok(self.site.poll(context, counters::PAUSE, patience, attempt)? && !is_late.get())
    }

    fn end_write(&self, context: &Context) -> Result<()> {
        let published = self.site.publish::<V>(context);
        let open = || self.counters.open(&self.site, context, &self.tally);
        self.tree.leave::<V>(&self.site, context, &self.tally, &open)?;
        self.counters.pass_on();
        published
    }

    fn reset(&mut self, context: &Context, home: Rank, members: &[Rank]) -> Result<()> {
        self.site.change(home, members);
        (self.counters, self.tree) = structures(&self.site, context, &self.thresholds);
        Ok(())
    }

    fn free(self: Box<Self>, team: &Team<'_>) -> Result<()> {
        self.site.into_words().free(team)
    }
}

fn structures(site: &Site, context: &Context, thresholds: &Thresholds) -> (Counters, Tree) {
    let members = site.members();
    let counters = Counters::new(0, context, members, thresholds.t_dc, thresholds.t_r);
    (counters, Tree::new(counters::WORDS, context, site.home(), members, &thresholds.t_l))
}

/// The widest queue, as readers see it.
struct Root<'a> {
    site: &'a Site,
    tree: &'a Tree,
    context: &'a Context,
}

impl Writers for Root<'_> {
    fn are_there(&self) -> Result<bool> {
        self.tree.is_idle(self.site, self.context).map(|is_idle| !is_idle)
    }
}
