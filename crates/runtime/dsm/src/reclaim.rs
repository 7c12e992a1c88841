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

use farside_fabric::Result;

use crate::barrier::BarrierMembers;
use crate::coherence::Coherence;
use crate::steps;

impl Coherence<'_> {
    /// Throws away all diffs and notices. All domains know the same, and all do this.
    pub(crate) fn reclaim(&mut self, members: &BarrierMembers<'_>) -> Result<()> {
        self.protocol.update_kept(&mut self.here)?;
        if !self.context.omits(steps::AWAIT_KEEPERS) {
            self.meet(members)?;
        }
        self.protocol.forget_diffs(&mut self.here)
    }
}
