//! How a writer closes the counters and opens them again. With a time limit it closes them only
//! while they are empty, so that it can give up.

use farside_fabric::Result;
use farside_rma::Context;

use super::Counters;
use super::fields::Fields;
use crate::lock::frame::TimeLimit;
use crate::rw::frame::RwWords;
use crate::rw::steps;

impl<F: Fields> Counters<F> {
    /// As a writer, alone: keeps readers out and waits until none is inside. If that takes longer
    /// than the limit, lets them in again.
    pub(in crate::rw::algorithms) fn close(
        &self,
        lock: &RwWords,
        context: &Context,
        limit: TimeLimit,
    ) -> Result<bool> {
        let closed = if limit == TimeLimit::Unlimited {
            Some(self.set_counters_to_write(lock, context)?)
        } else {
            self.close_when_empty(lock, context, limit)?
        };
        let is_closed = closed.is_some();
        if let Some(closed) = closed {
            lock.statistics.note(|counts| &counts.closed);
            *self.closed.borrow_mut() = closed;
        }
        Ok(is_closed)
    }

    /// As a writer: lets readers in, those first that have waited.
    pub(in crate::rw::algorithms) fn open(&self, lock: &RwWords, context: &Context) -> Result<()> {
        self.reset_counters(lock, context)?;
        lock.statistics.note(|counts| &counts.opened);
        Ok(())
    }

    /// As a writer: another one will open them.
    pub(in crate::rw::algorithms) fn pass_on(&self) {
        self.closed.borrow_mut().clear();
    }

    /// As the writer that has closed them: returns how many had read since they were opened, as
    /// far as a counter can tell.
    pub(in crate::rw::algorithms) fn reads(&self) -> Option<u64> {
        let closed = self.closed.borrow();
        (!closed.is_empty()).then(|| closed.iter().map(|&word| F::arrivals(word)).sum())
    }

    /// Closes counters that no reader is in, one by one, until all are closed or time is up;
    /// then it opens them again, and nothing is left of the attempt. Asks readers to hold back
    /// meanwhile: with a shared counter there may be no moment without one.
    fn close_when_empty(
        &self,
        lock: &RwWords,
        context: &Context,
        limit: TimeLimit,
    ) -> Result<Option<Vec<u64>>> {
        let is_empty = |&word: &u64| F::is_empty(word);
        let asks = if limit == TimeLimit::DoNotWait { 0 } else { F::ASKED };
        let mut found = self.add_to_all(lock, context, |_| asks)?;
        found.iter_mut().for_each(|word| *word |= asks);
        let mut closed = vec![None; self.keepers.len()];
        if limit == TimeLimit::DoNotWait
            && !found.iter().all(is_empty)
            && !context.omits(steps::CLOSE_EMPTY)
        {
            return Ok(None);
        }
        let mut looks = 0;
        let mut attempt = || {
            looks += 1;
            for (at, closed) in closed.iter_mut().enumerate() {
                if looks > 1 && closed.is_none() {
                    found[at] = context.load(self.word(lock, self.keepers[at]))?;
                }
                if closed.is_none() {
                    *closed = self.close_if_empty(lock, context, at, found[at])?;
                }
            }
            Ok(closed.iter().all(|closed| closed.as_ref().is_some_and(is_empty)))
        };
        let is_closed = match limit {
            TimeLimit::DoNotWait => attempt()?,
            _ => lock.poll(context, limit, &mut attempt)?,
        };
        if looks > 1 {
            lock.statistics.note(|counts| &counts.drained);
        }
        if is_closed {
            return Ok(Some(closed.into_iter().flatten().collect()));
        }
        self.add_to_all(lock, context, |at| match closed[at] {
            Some(word) => F::opening(word),
            None => asks.wrapping_neg(),
        })?;
        Ok(None)
    }

    /// Closes one counter, which was seen as given, unless a reader is in it. Returns the closed
    /// counter.
    fn close_if_empty(
        &self,
        lock: &RwWords,
        context: &Context,
        at: usize,
        mut seen: u64,
    ) -> Result<Option<u64>> {
        let word = self.word(lock, self.keepers[at]);
        while F::is_empty(seen) || context.omits(steps::CLOSE_EMPTY) {
            let closed = F::unasked(seen) | F::closed_by(context.rank());
            let held = context.compare_swap(word, seen, closed)?;
            if held == seen {
                return Ok(Some(closed));
            }
            seen = held;
        }
        Ok(None)
    }
}
