//! How readers of closed counters wait, and how a writer waits for them.

use std::time::Duration;

use farside_fabric::Result;
use farside_rma::Context;

use super::fields::Fields;
use super::{COUNTER, Counters, DEPARTED};
use crate::lock::frame::{Standing, TimeLimit};
use crate::rw::frame::RwWords;
use crate::rw::steps;

/// How long a reader holds back for a writer that has a time limit.
const HOLDS_BACK: Duration = Duration::from_millis(1);

pub(in crate::rw::algorithms) trait Writers {
    /// Returns whether some are waiting or inside.
    fn are_there(&self) -> Result<bool>;

    /// Tells them that a reader waits for the counters to be opened. False if no rank will open
    /// them: then it must go in by another way.
    fn will_open(&self) -> Result<bool> {
        Ok(true)
    }
}

/// How a reader's request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::rw::algorithms) enum Arrival {
    Inside,
    /// Not its turn within the time given.
    GaveUp,
    /// The counters are closed, and no rank will open them.
    Shut,
}

impl Arrival {
    fn inside(is_inside: bool) -> Arrival {
        if is_inside { Arrival::Inside } else { Arrival::GaveUp }
    }
}

impl<F: Fields> Counters<F> {
    /// Asks for writers, as a reader that was kept out by T_R.
    pub(super) fn finds_writers(&self, lock: &RwWords, writers: &impl Writers) -> Result<bool> {
        lock.statistics.note(|counts| &counts.limit_reached);
        let are_there = writers.are_there()?;
        lock.statistics.note(|counts| match are_there {
            true => &counts.limit_kept,
            false => &counts.limit_lifted,
        });
        Ok(are_there)
    }

    /// Waits as a reader that has found its counter closed in `turn`: with its arrival left there
    /// if it insists, else without. `None` if it must arrive again.
    pub(super) fn wait_shut_out(
        &self,
        lock: &RwWords,
        context: &Context,
        limit: TimeLimit,
        writers: &impl Writers,
        turn: u64,
        insists: bool,
    ) -> Result<Option<Arrival>> {
        lock.statistics.note(|counts| &counts.reads_queued);
        if !insists && self.withdraw(lock, context, turn)? {
            return Ok(Some(Arrival::Inside));
        }
        if !writers.will_open()? {
            let is_inside = insists && self.withdraw(lock, context, turn)?;
            return Ok(Some(if is_inside { Arrival::Inside } else { Arrival::Shut }));
        }
        lock.waits(context, Standing::ShutOut)?;
        if insists {
            lock.statistics.note(|counts| &counts.insisted);
            return self.await_opening(lock, context, turn, limit).map(Some);
        }
        let is_over = |now| F::is_open(now) || F::turn(now) != turn;
        let is_over = self.wait_on(lock, context, limit, is_over)?;
        Ok(if is_over { None } else { Some(Arrival::GaveUp) })
    }

    /// Waits outside, as a reader that was kept out by T_R, until writers have come or gone.
    pub(super) fn await_writers(
        &self,
        lock: &RwWords,
        context: &Context,
        limit: TimeLimit,
        turn: u64,
        writers: &impl Writers,
    ) -> Result<bool> {
        let look = || {
            let now = context.load(self.word(lock, self.mine))?;
            let is_the_same = F::is_open(now) && F::turn(now) == turn;
            let is_news = !is_the_same || !self.at_limit(context, now);
            Ok(is_news || (!context.omits(steps::ASK_AGAIN) && !writers.are_there()?))
        };
        Ok(limit != TimeLimit::DoNotWait && lock.poll(context, limit, look)?)
    }

    /// Waits until the counter has been opened: then this rank is inside, whatever happens since.
    fn await_opening(
        &self,
        lock: &RwWords,
        context: &Context,
        turn: u64,
        limit: TimeLimit,
    ) -> Result<Arrival> {
        let is_opened = |now| !F::is_closed_still(now, turn);
        Ok(Arrival::inside(
            self.wait_on(lock, context, limit, is_opened)? || self.withdraw(lock, context, turn)?,
        ))
    }

    /// Goes out again, and waits until the writer that asks for it has closed the counter or has
    /// given up, or for a while: no reader holds back for ever.
    pub(super) fn hold_back(
        &self,
        lock: &RwWords,
        context: &Context,
        limit: TimeLimit,
    ) -> Result<()> {
        lock.statistics.note(|counts| &counts.held_back);
        self.reader_release(lock, context)?;
        let a_while = match limit {
            TimeLimit::AtMost(time) => TimeLimit::AtMost(time.min(HOLDS_BACK)),
            _ => TimeLimit::AtMost(HOLDS_BACK),
        };
        self.wait_on(lock, context, a_while, |now| !F::is_asked(now)).map(drop)
    }

    /// Waits for a change of the counter.
    fn wait_on(
        &self,
        lock: &RwWords,
        context: &Context,
        limit: TimeLimit,
        until: impl Fn(u64) -> bool,
    ) -> Result<bool> {
        if self.mine == context.rank() {
            let at = self.base + COUNTER;
            return Ok(lock.wait_within(context, limit, at, until)?.is_some());
        }
        let look = || Ok(until(context.load(self.word(lock, self.mine))?));
        Ok(limit != TimeLimit::DoNotWait && lock.poll(context, limit, look)?)
    }

    /// Takes an arrival back that was made when the counter was closed. True if it has been opened
    /// since: then this rank is inside.
    fn withdraw(&self, lock: &RwWords, context: &Context, turn: u64) -> Result<bool> {
        let word = self.word(lock, self.mine);
        let mut seen = context.load(word)?;
        while F::is_closed_still(seen, turn) {
            let held = context.compare_swap(word, seen, seen.wrapping_sub(F::ARRIVAL))?;
            if held == seen {
                return Ok(false);
            }
            seen = held;
        }
        Ok(true)
    }

    /// As the writer that has closed the counters: waits until so many readers have told it that
    /// they have departed.
    pub(super) fn await_departures(
        &self,
        lock: &RwWords,
        context: &Context,
        inside: u64,
    ) -> Result<()> {
        lock.statistics.note(|counts| &counts.drained);
        self.told.set(self.told.get().wrapping_add(inside));
        let is_told = |now: u64| now == self.told.get();
        lock.wait(context, self.base + DEPARTED, is_told).map(drop)
    }
}
