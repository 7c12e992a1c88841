//! Errors on the way through a synchronization: shared memory that failed on one rank stays an
//! error, of all ranks that synchronize with it.
//!
//! Paper:     none.
//! Differs:   not applicable.
//! State:     the words of barriers and locks; 1 word of a domain, which is written in the section
//!            that has failed.
//! Invariant: a rank that has failed passes nothing on: who waits for it, or comes to it later, is
//!            told, and fails, too. So no rank reads a page that lacks a write.
//! Ordering:  `a_failure_that_is_kept_is_caught`.
//! Cost:      3 signals to each rank, once, and 1 swap for each lock that is held, by the rank that
//!            has failed and by each that hears of it: who waits looks at its partner's words
//!            alone.
//! Checked:   3 ranks that meet, and that pass a lock on, without room for their notices; on two
//!            nodes, whoever ends the interval of a domain that has none.

use farside_fabric::{Error, Rank, Result};
use farside_rma::World;

use crate::coherence::Coherence;
use crate::memory::Way;
use crate::steps;

/// The count of messages of a rank that sends none any more.
pub(crate) const SENDS_NONE: u64 = u64::MAX;
/// More long messages than a rank is ever sent: one that takes none any more is waited for by
/// nobody.
const TAKES_ALL: u64 = 1 << 62;

/// The error of a rank that has heard of another's.
pub(crate) fn has_failed(rank: Rank) -> Error {
    Error::InvalidState(format!("{rank} failed to use shared memory: its own error says why"))
}

/// Returns this rank's error, or that another rank has one: all ranks go on, or none does.
pub(crate) fn agree<T>(world: &World, mine: Result<T>) -> Result<T> {
    let mut failed = [if mine.is_err() { u64::from(world.rank().0) + 1 } else { 0 }];
    world.all_reduce(&mut failed, u64::max)?;
    match (mine, failed[0].checked_sub(1)) {
        (Ok(_), Some(rank)) => Err(has_failed(Rank(rank as u32))),
        (mine, _) => mine,
    }
}

impl Coherence<'_> {
    /// Fails if something has gone wrong for good, and tells the program so.
    pub(crate) fn check(&mut self) -> Result<()> {
        self.is_unreported = false;
        self.failure.clone().map_or(Ok(()), Err)
    }

    /// Returns what has gone wrong, if the program was not told.
    pub(crate) fn unreported(&self) -> Result<()> {
        self.failure.clone().filter(|_| self.is_unreported).map_or(Ok(()), Err)
    }

    /// Remembers what has gone wrong: pages may be stale from now on. Tells all ranks, unless they
    /// hear of it anyway.
    pub(crate) fn fail(&mut self, error: Error) -> Error {
        if let Some(error) = &self.failure {
            return error.clone();
        }
        if !self.context.omits(steps::TELL_OF_FAILURE) && error.lost_rank().is_none() {
            self.tell_of_failure();
        }
        self.failure.insert(error).clone()
    }

    /// Answers all that wait for this rank now or later. Whoever cannot be reached is lost, and
    /// that everybody hears.
    fn tell_of_failure(&mut self) {
        self.protocol.give_up(&self.here);
        // The count must not be overtaken by one of before.
        let _ = self.context.fence();
        for rank in (0..self.ranks).map(Rank).filter(|&rank| rank != self.me) {
            for way in [Way::Up, Way::Down] {
                let _ = self.here.context.signal(self.memory.bell(way, self.me, rank), SENDS_NONE);
            }
            let _ = self.context.add(self.memory.taken(rank, self.me), TAKES_ALL);
        }
        for lock in 0..self.lock_state.held.len() as u32 {
            if self.lock_state.held[lock as usize] {
                let _ = self.fail_lock(lock);
            }
        }
    }
}
