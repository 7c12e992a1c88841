//! Who runs the handlers of a node: the process of the first of its ranks that is not out of the
//! succession.
//!
//! State:     for each rank a word, `serving`, beside its fate: no handlers yet, ready, stopped,
//!            failed to start. For each node the slot of the call that is being executed
//!            (`Job::executing`).
//! Invariant: one process at a time runs handlers of a node. A rank runs them only while all ranks
//!            of its node that come before it are out, and being out is for good. Out is who has
//!            stopped or could not start, who has left, and whose *process* has ended, as the
//!            system told the one who waits for it. Each of them has no thread any more that runs a
//!            handler. A rank that was declared lost for another reason, such as a panic of one of
//!            its threads, is not out: its agent goes on until it stops.
//! Ordering:  a rank that leaves, or unwinds, first lets its agent finish the call that is being
//!            executed; then it counts as stopped, and only then has it left. Who takes over reads
//!            `executing` after it has seen the one before it out. The words are read and written
//!            in one order (sequentially consistent), and the end of a process comes after all that
//!            the process has written.

use std::sync::atomic::Ordering;

use farside_fabric::{ExitCause, Node, PeerState, Rank};

use crate::memory::Job;

/// What the word `serving` of a rank holds: it has no handlers (yet).
pub(crate) const NO_HANDLERS: u32 = 0;
/// It runs handlers, or will when it is its turn.
pub(crate) const READY: u32 = 1;
/// It has stopped, since it is about to leave.
pub(crate) const STOPPED: u32 = 2;
/// Its agent could not be started.
pub(crate) const FAILED: u32 = 3;

/// Whose turn it is to run a node's handlers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// This rank's, and it has handlers.
    Of(Rank),
    /// A rank's that has no handlers, or nobody's, because no agent could be started.
    Nobody,
    /// Everybody has stopped: the first of them stands for all.
    Over(Rank),
}

impl Job {
    /// Whether a rank neither runs handlers nor ever will.
    fn is_out(&self, rank: Rank) -> bool {
        let is_over = match self.peer_state(rank) {
            PeerState::Left => true,
            PeerState::Lost(cause) => {
                use ExitCause::{Signal, Status, Vanished};
                matches!(cause, Signal(_) | Status(_) | Vanished)
            }
            PeerState::Starting | PeerState::Alive => false,
        };
        is_over || matches!(self.serving(rank).load(Ordering::SeqCst), STOPPED | FAILED)
    }

    /// Whether it is this rank's turn to run the handlers of its node. Once it is, it stays so
    /// until the rank is out.
    pub(crate) fn is_turn_of(&self, rank: Rank) -> bool {
        let ranks = self.topology().ranks_of(self.topology().node_of(rank));
        ranks.iter().find(|&&each| !self.is_out(each)) == Some(&rank)
    }

    pub(crate) fn turn(&self, node: Node) -> Turn {
        let ranks = self.topology().ranks_of(node);
        let serving = |rank: Rank| self.serving(rank).load(Ordering::SeqCst);
        match ranks.iter().find(|&&rank| !self.is_out(rank)) {
            Some(&rank) if serving(rank) == NO_HANDLERS => Turn::Nobody,
            Some(&rank) => Turn::Of(rank),
            None if ranks.iter().any(|&rank| serving(rank) == FAILED) => Turn::Nobody,
            None => ranks.first().map_or(Turn::Nobody, |&first| Turn::Over(first)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Config;
    use farside_fabric::Topology;

    #[test]
    fn only_the_first_that_is_there_has_its_turn() {
        let topology = Topology::flat(4);
        let job =
            Job::create(&Config { cores: 2, arena_bytes: 1 << 20, ..Config::new(topology, 100) });
        let job = job.unwrap();
        let ranks = [0, 1, 2, 3].map(Rank);
        let whose =
            || -> Vec<Rank> { ranks.into_iter().filter(|&rank| job.is_turn_of(rank)).collect() };
        assert_eq!(job.turn(Node(0)), Turn::Nobody);
        ranks.iter().for_each(|&rank| {
            assert!(job.join(rank));
            job.serving(rank).store(READY, Ordering::SeqCst);
        });
        assert_eq!((whose(), job.turn(Node(0))), (vec![Rank(0)], Turn::Of(Rank(0))));
        // A panic ends a thread, not the process: the agent still runs.
        job.declare_lost(Rank(0), ExitCause::Panicked);
        assert_eq!(whose(), [Rank(0)]);
        job.serving(Rank(0)).store(STOPPED, Ordering::SeqCst);
        assert_eq!((whose(), job.turn(Node(0))), (vec![Rank(1)], Turn::Of(Rank(1))));
        // That one after it is gone does not matter to the one that runs.
        job.declare_lost(Rank(2), ExitCause::Signal(9));
        assert_eq!(whose(), [Rank(1)]);
        job.declare_lost(Rank(1), ExitCause::Signal(9));
        assert_eq!(whose(), [Rank(3)]);
        job.serving(Rank(3)).store(STOPPED, Ordering::SeqCst);
        assert_eq!((whose(), job.turn(Node(0))), (vec![], Turn::Over(Rank(0))));
    }
}
