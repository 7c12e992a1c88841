//! How a waiter of the queue waits for its turn: within a time limit, and parked where ranks
//! outnumber processors.

use farside_fabric::{Link, Result};
use farside_rma::Context;

use super::{Entry, GRANTED, NEXT, Queue, STATUS, STATUS_BITS, WAIT, status_of};
use crate::lock::frame::{LockWords, TimeLimit};

/// The node waits, and only the holder is before it.
pub(super) const FIRST_IN_LINE: u64 = 5;

impl Queue {
    /// Waiters park at once, until [`Queue::tell_first_in_line`] or a grant: for crowded nodes.
    pub(in crate::lock::algorithms) fn parking(self, parks: bool) -> Queue {
        Queue { parks, ..self }
    }

    /// Waits until the predecessor has granted the lock, or gives up.
    pub(super) fn await_turn(
        &self,
        lock: &LockWords,
        context: &Context,
        limit: TimeLimit,
    ) -> Result<Entry> {
        let status = self.base + STATUS;
        let is_granted = |status: u64| status_of(status) == GRANTED;
        if self.parks && limit == TimeLimit::Unlimited {
            let is_told = |status: u64| status == FIRST_IN_LINE || is_granted(status);
            lock.park(context, status, is_told)?;
        }
        let granted = match lock.wait_within(context, limit, status, is_granted)? {
            Some(granted) => granted,
            None => match self.give_up(lock, context)? {
                None => return Ok(Entry::GaveUp),
                Some(granted) => granted,
            },
        };
        context.store(lock.at(context.rank(), status), WAIT)?;
        Ok(Entry::Passed(granted >> STATUS_BITS))
    }

    /// Tells the next in a queue whose waiters park, if it is known and near, that only this rank
    /// is before it.
    pub(in crate::lock::algorithms) fn tell_first_in_line(
        &self,
        lock: &LockWords,
        context: &Context,
    ) -> Result<()> {
        if !self.parks {
            return Ok(());
        }
        let next = Link::from_bits(context.load(lock.at(context.rank(), self.base + NEXT))?);
        if let Some((rank, _)) =
            next.target().filter(|&(rank, _)| context.topology().same_node(rank, context.rank()))
        {
            context.compare_swap(lock.at(rank, self.base + STATUS), WAIT, FIRST_IN_LINE)?;
        }
        Ok(())
    }
}
