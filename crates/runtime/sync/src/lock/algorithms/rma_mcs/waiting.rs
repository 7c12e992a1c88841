//! How a request climbs the tree: counted, and within a time limit. When that is over it leaves the
//! queues that it has entered.

use farside_fabric::Result;
use farside_rma::Context;

use super::{ACQUIRE_PARENT, Reached, RmaMcs};
use crate::lock::algorithms::d_mcs::Entry;
use crate::lock::frame::{LockWords, TimeLimit};

impl RmaMcs {
    /// Enters the queues from the narrowest on, until the lock is passed or the widest is entered.
    pub(crate) fn climb(
        &self,
        lock: &LockWords,
        context: &Context,
        limit: TimeLimit,
    ) -> Result<Reached> {
        self.writer_acquire(lock, context, 0, limit)
    }

    /// Leaves all queues without having got what lies above.
    pub(crate) fn turn_back(&self, lock: &LockWords, context: &Context) -> Result<()> {
        self.step_back(lock, context, self.levels.len())
    }

    pub(super) fn enter(
        &self,
        lock: &LockWords,
        context: &Context,
        i: usize,
        limit: TimeLimit,
    ) -> Result<Entry> {
        let entry = self.levels[i].queue.acquire(lock, context, limit)?;
        match entry {
            Entry::First => {}
            Entry::Passed(_) => lock.statistics.queued(1),
            Entry::GaveUp => self.step_back(lock, context, i)?,
        }
        Ok(entry)
    }

    /// Gives up the queues below a level that was not entered.
    fn step_back(&self, lock: &LockWords, context: &Context, entered: usize) -> Result<()> {
        for level in self.levels[..entered].iter().rev() {
            level.queue.release(lock, context, ACQUIRE_PARENT)?;
        }
        Ok(())
    }
}
