//! Central barrier: everybody counts up one word, and the last one to come releases all.
//!
//! Paper:     the barrier manager of [BST97] section 2, without its server.
//! Differs:   arrivals are atomics on the first rank's memory; the last to arrive releases, not the
//!            manager.
//! State:     1 word at rank 0, 1 word on every rank.
//! Invariant: the count is N times the round when its last rank has come, and nobody is released
//!            before.
//! Ordering:  none beyond that of the atomics.
//! Cost:      1 atomic from each rank, and N - 1 signals from the last.
//! Checked:   3 ranks x 2 rounds exhaustively.

use farside_fabric::{Rank, Result};
use farside_rma::Context;

use super::Algorithm;
use super::crew::Crew;

pub(super) const WORDS: usize = 2;
const COUNT: usize = 0;
const RELEASE: usize = 1;
const HOME: Rank = Rank(0);

pub(super) struct Central {
    crew: Crew,
}

impl Central {
    pub(super) fn new(crew: Crew) -> Central {
        Central { crew }
    }
}

impl Algorithm for Central {
    fn crew(&self) -> &Crew {
        &self.crew
    }

    fn meet(&self, context: &Context, round: u64) -> Result<()> {
        let crew = &self.crew;
        if crew.count(context, HOME, COUNT)? + 1 < u64::from(crew.ranks()) * round {
            return crew.wait(context, RELEASE, round);
        }
        let others = (0..crew.ranks()).map(Rank).filter(|&rank| rank != crew.me());
        others.into_iter().try_for_each(|rank| crew.signal(context, rank, RELEASE, round))
    }

    fn into_crew(self: Box<Self>) -> Crew {
        self.crew
    }
}
