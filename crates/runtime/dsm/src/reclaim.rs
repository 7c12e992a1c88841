//! Reclaiming storage: when too much is kept, diffs and notices are thrown away at a barrier of all
//! ranks.
//!
//! Paper:     TreadMarks, on which [BST97] builds (section 4.2.2 tells of its effect: cold misses).
//! Differs:   one keeper for each page, the rank that wrote it last, brings its copy up to date;
//!            ranks without a valid copy fetch the page from there when they need it.
//! State:     none beside the coherence state.
//! Invariant: when a diff is thrown away, its page is up to date at its keeper, and every rank
//!            knows the keeper: all know the same notices.
//! Ordering:  diffs are thrown away when all keepers are done, after a second barrier
//!            (`a_reclaim_that_comes_too_early_is_caught`).
//! Cost:      1 barrier, and the updates of the pages at their keepers.
//! Checked:   3 ranks with a limit of nothing, so that every barrier reclaims, exhaustively.

use farside_fabric::{Rank, Result};

use crate::barrier::BarrierMembers;
use crate::coherence::Coherence;
use crate::steps;

impl Coherence<'_> {
    /// Throws away all diffs and notices. All ranks know the same, and all do this.
    pub(crate) fn reclaim(&mut self, members: &BarrierMembers<'_>) -> Result<()> {
        let keeps = |last: Option<(u64, u32)>| last.is_some_and(|(_, rank)| rank == self.me.0);
        let mine: Vec<u32> =
            (0..).zip(&self.pages).filter(|(_, page)| keeps(page.last)).map(|(at, _)| at).collect();
        for page in mine {
            if !self.pages[page as usize].is_valid() {
                self.validate(page)?;
                self.guard.allow(page, 1, crate::coherence::Allowed::Reading)?;
            }
        }
        if !self.context.omits(steps::AWAIT_KEEPERS) {
            self.meet(members)?;
        }
        for page in &mut self.pages {
            if let Some((_, rank)) = page.last {
                page.reclaim(Rank(rank));
            }
        }
        self.clear_storage();
        Ok(())
    }
}
