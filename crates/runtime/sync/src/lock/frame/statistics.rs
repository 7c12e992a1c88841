//! Statistics of one rank's use of a lock.

use std::cell::Cell;

use farside_fabric::Rank;
use farside_rma::Context;

/// What one rank has done with a lock since the lock was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Statistics {
    /// How often this rank got the lock.
    pub acquisitions: u64,
    /// How often it found the lock taken, and waited.
    pub queued: u64,
    /// How often it gave up: a time limit, or an attempt that did not wait.
    pub given_up: u64,
    /// How often it passed the lock to a waiting rank of its own node.
    pub passed_near: u64,
    /// How often it passed the lock to a waiting rank of another node.
    pub passed_far: u64,
    /// How often it got the lock ahead of a rank that had waited longer.
    pub bypasses: u64,
    /// The most that were ever bypassed in a row for one waiter, as far as this rank saw.
    pub longest_bypass: u64,
    /// The most requests that were ever ahead of one of this rank's, as far as the algorithm can
    /// tell: a chain of links knows of one.
    pub longest_queue: u64,
}

/// The statistics of a lock in use.
#[derive(Default)]
pub struct StatisticsCell {
    counts: Cell<Statistics>,
}

impl StatisticsCell {
    /// Returns the counts so far.
    pub fn read(&self) -> Statistics {
        self.counts.get()
    }

    /// Changes the counts.
    #[inline]
    pub fn note(&self, change: impl FnOnce(&mut Statistics)) {
        let mut counts = self.counts.get();
        change(&mut counts);
        self.counts.set(counts);
    }

    /// Counts a request that waits behind `ahead` others.
    pub fn queued(&self, ahead: u64) {
        self.note(|counts| {
            counts.queued += 1;
            counts.longest_queue = counts.longest_queue.max(ahead);
        });
    }

    /// Counts that the lock goes from this rank to a waiting one.
    pub fn passed(&self, context: &Context, to: Rank) {
        let near = context.topology().same_node(context.rank(), to);
        self.note(|counts| if near { counts.passed_near += 1 } else { counts.passed_far += 1 });
    }
}
