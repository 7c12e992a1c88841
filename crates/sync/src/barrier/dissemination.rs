//! Dissemination barrier: in phase k everybody signals the rank 2^k further on and waits for the
//! one 2^k before.
//!
//! Paper:     [ARMCI03] section 3.1.2, the binary exchange inside its barrier.
//! Differs:   partners lie on a ring instead of across a cube, so that the number of ranks need not
//!            be a power of two.
//! State:     2 x log2 N words on every rank.
//! Invariant: after phase k, all of the 2^(k+1) ranks up to this one have come.
//! Ordering:  two sets of flags, used in turn: a signal of this round may land after one of the
//!            next, never after one of the round after that
//!            (`a_barrier_with_one_set_of_flags_is_caught`).
//! Cost:      log2 N signals from each rank, rounded up.
//! Checked:   3 ranks x 2 rounds exhaustively.

use std::marker::PhantomData;

use farside_fabric::{Rank, Result};
use farside_rma::Context;

use super::Algorithm;
use super::crew::Crew;
use crate::variant::Variant;

/// How many phases so many ranks need.
pub(super) fn phases(ranks: u32) -> u32 {
    ranks.next_power_of_two().ilog2()
}

pub(super) fn words(ranks: u32) -> usize {
    2 * phases(ranks) as usize
}

pub(super) struct Dissemination<V> {
    crew: Crew,
    variant: PhantomData<V>,
}

impl<V> Dissemination<V> {
    pub(super) fn new(crew: Crew) -> Dissemination<V> {
        Dissemination { crew, variant: PhantomData }
    }
}

impl<V: Variant> Algorithm for Dissemination<V> {
    fn crew(&self) -> &Crew {
        &self.crew
    }

    fn meet(&self, context: &Context, round: u64) -> Result<()> {
        let ranks = self.crew.ranks();
        exchange::<V>(&self.crew, context, (self.crew.me().0, ranks, &Rank), 0, round)
    }

    fn into_crew(self: Box<Self>) -> Crew {
        self.crew
    }
}

/// The exchange among some ranks, of which the caller is number `me` of `count`; the words of it
/// begin at `base`.
pub(super) fn exchange<V: Variant>(
    crew: &Crew,
    context: &Context,
    (me, count, rank_of): (u32, u32, &dyn Fn(u32) -> Rank),
    base: usize,
    round: u64,
) -> Result<()> {
    let set = if V::ALTERNATES { (round % 2) as usize } else { 0 };
    for phase in 0..phases(count) {
        let word = base + set * phases(count) as usize + phase as usize;
        crew.signal(context, rank_of((me + (1 << phase)) % count), word, round)?;
        crew.wait(context, word, round)?;
    }
    Ok(())
}
