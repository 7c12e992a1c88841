//! Barrier on a binomial spanning tree: arrivals are gathered up the tree, the release goes down.
//!
//! Paper:     [BST97] section 3: the parent of a rank is found by clearing the leftmost 1 bit of
//!            its number.
//! Differs:   signals instead of datagrams; the children of a rank signal words of their own.
//! State:     log2 N + 1 words on every rank.
//! Invariant: a rank tells its parent when all ranks below it have come; the release starts when
//!            the root knows of all.
//! Ordering:  a parent waits for every child (`a_tree_that_does_not_gather_is_caught`). One set of
//!            words is enough: a child signals again only after its parent has seen the last signal
//!            and released it.
//! Cost:      1 signal up and 1 down for each rank but the root: 2 (N - 1) in all, in 2 log2 N
//!            steps.
//! Checked:   3 ranks x 2 rounds exhaustively, and 4 ranks x 1 round.

use std::marker::PhantomData;

use farside_fabric::{Rank, Result};
use farside_rma::Context;

use super::Algorithm;
use super::crew::Crew;
use super::dissemination::phases;
use crate::variant::Variant;

pub(super) fn words(ranks: u32) -> usize {
    phases(ranks) as usize + 1
}

pub(super) struct Binomial<V> {
    crew: Crew,
    variant: PhantomData<V>,
}

impl<V> Binomial<V> {
    pub(super) fn new(crew: Crew) -> Binomial<V> {
        Binomial { crew, variant: PhantomData }
    }
}

impl<V: Variant> Algorithm for Binomial<V> {
    fn crew(&self) -> &Crew {
        &self.crew
    }

    fn meet(&self, context: &Context, round: u64) -> Result<()> {
        let ranks = self.crew.ranks();
        gather_and_release::<V>(
            &self.crew,
            context,
            (self.crew.me().0, ranks, &Rank),
            0,
            round,
            || Ok(()),
        )
    }

    fn into_crew(self: Box<Self>) -> Crew {
        self.crew
    }
}

/// The tree among some ranks, of which the caller is number `me` of `count`; its words begin at
/// `base`. The root does `at_the_top` when all have come.
pub(super) fn gather_and_release<V: Variant>(
    crew: &Crew,
    context: &Context,
    (me, count, rank_of): (u32, u32, &dyn Fn(u32) -> Rank),
    base: usize,
    round: u64,
    at_the_top: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let release = base + phases(count) as usize;
    let level = me.checked_ilog2();
    // A child differs from its parent in one bit, which lies left of all others.
    let first = level.map_or(0, |level| level + 1);
    let children = || {
        (first..phases(count)).map(|bit| (bit, me | (1 << bit))).filter(|&(_, child)| child < count)
    };
    if V::GATHERS {
        children().try_for_each(|(bit, _)| crew.wait(context, base + bit as usize, round))?;
    }
    match level {
        None => at_the_top()?,
        Some(level) => {
            crew.signal(context, rank_of(me & !(1 << level)), base + level as usize, round)?;
            crew.wait(context, release, round)?;
        }
    }
    children().try_for_each(|(_, child)| crew.signal(context, rank_of(child), release, round))
}
