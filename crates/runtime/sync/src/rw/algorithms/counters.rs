//! The distributed counter of readers: each reader counts itself in one of several words, and a
//! writer closes all of them. `counters/README.md` has the argument and what was tried.
//!
//! Paper:     [RMALOCK16] sections 3.2.1, 3.3.5 and 3.3.6, listings 6, 9 and 10.
//! Differs:   as printed it is not correct (three errors, in `counters/README.md`): here a writer
//!            drains the readers inside, a reader at T_R asks again, and a count starts anew in one
//!            step. Readers wait inside a closed counter, and writers may give up.
//! State:     1 word on every rank that keeps a counter, used by the `t_dc` ranks next to it in the
//!            topology; on every rank 1 word for departures it is told of.
//! Invariant: a rank that is present when a counter is opened has arrived since it was closed, so
//!            one bit of the turn tells. Once a writer stands in the widest queue, at most T_R + 2
//!            `t_dc` readers of a counter go in before it.
//! Ordering:  rw/rma-rw-without-drain, -without-asking-again and -resets-in-steps are the printed
//!            errors; further rw/rma-rw-without-waking, -gives-up-on-readers and -runs-over.
//! Cost:      read 1 atomic; at T_R +2 loads, 1 atomic; +1 load for each look while it waits; end 1
//!            atomic, +1 if a writer waits. Close 1 atomic a counter; with a time limit 2; try 1
//!            load and 1 atomic. Open 1 atomic a counter, +1 if another rank has closed it.
//! Checked:   as part of `rma_rw` and `slots`, with fields of 1 and 2 bits too.

mod closing;
pub(super) mod fields;
mod placement;
mod waiting;
pub(super) mod widths;

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;

use farside_fabric::{Rank, Result};
use farside_rma::Context;

use crate::lock::frame::TimeLimit;
use crate::rw::frame::RwWords;
use crate::rw::steps;
use fields::Fields;

pub(super) use placement::{Limits, check_ranks};
pub(super) use waiting::{Arrival, Writers};

/// How many words of every rank it takes.
pub(super) const WORDS: usize = 2;
const COUNTER: usize = 0;
/// A writer is told of departures here.
const DEPARTED: usize = 1;

/// The counters, as one rank uses them.
pub(super) struct Counters<F> {
    base: usize,
    keepers: Box<[Rank]>,
    /// The keeper of the counter that this rank counts itself in.
    mine: Rank,
    limits: Limits,
    /// Each counter as it was when this rank closed it, until it has opened it or passed it on.
    closed: RefCell<Vec<u64>>,
    /// How many departures this rank has waited for, over all closings.
    told: Cell<u64>,
    fields: PhantomData<F>,
}

impl<F: Fields> Counters<F> {
    /// Whether so many may have arrived that a reader asks for writers.
    #[inline]
    fn at_limit(&self, context: &Context, word: u64) -> bool {
        self.limits.t_r.is_some_and(|t_r| F::arrivals(word) >= t_r.into())
            && !context.omits(steps::KEEP_T_R)
    }

    /// As a writer, alone: closes all counters, and waits for the readers inside without a limit.
    /// Returns what the counters were when they were closed. [RMALOCK16 listing 6]
    fn set_counters_to_write(&self, lock: &RwWords, context: &Context) -> Result<Vec<u64>> {
        let mark = F::closed_by(context.rank());
        let found = self.add_to_all(lock, context, |_| mark)?;
        let inside: u64 = found.iter().map(|&word| F::present(word)).sum();
        if inside > 0 && !context.omits(steps::DRAIN) {
            self.await_departures(lock, context, inside)?;
        }
        Ok(found.into_iter().map(|word| word | mark).collect())
    }

    /// As a reader that has found no writers in `turn`: counts arrivals from zero, in another turn,
    /// so that of all that have asked in this one only the first does it. [RMALOCK16 listing 6]
    fn reset_counter(&self, lock: &RwWords, context: &Context, turn: u64) -> Result<()> {
        let word = self.word(lock, self.mine);
        let mut seen = context.load(word)?;
        if context.omits(steps::RESET_AT_ONCE) {
            let taken = F::with_closer_and_arrivals(seen);
            return context.fetch_add(word, taken.wrapping_neg()).map(drop);
        }
        while F::is_free(seen) && F::turn(seen) == turn {
            let held = context.compare_swap(word, seen, F::counted_anew(seen))?;
            if held == seen {
                break;
            }
            seen = held;
        }
        Ok(())
    }

    /// As a writer: lets readers in, those first that have waited. [RMALOCK16 listing 6]
    fn reset_counters(&self, lock: &RwWords, context: &Context) -> Result<()> {
        let mut closed = std::mem::take(&mut *self.closed.borrow_mut());
        if closed.is_empty() {
            // Another rank has closed them, and the readers inside have departed.
            let seen = self.add_to_all(lock, context, |_| 0)?;
            closed = seen.into_iter().map(F::when_closed).collect();
        }
        self.add_to_all(lock, context, |at| F::opening(closed[at])).map(drop)
    }

    /// Goes in as a reader. [RMALOCK16 listing 9]
    #[inline]
    pub(super) fn reader_acquire(
        &self,
        lock: &RwWords,
        context: &Context,
        limit: TimeLimit,
        writers: &impl Writers,
    ) -> Result<Arrival> {
        let old = context.fetch_add(self.word(lock, self.mine), F::ARRIVAL)?;
        if F::is_free(old) && !self.at_limit(context, old) {
            return Ok(Arrival::Inside);
        }
        self.reader_acquire_slowly(lock, context, limit, writers, old)
    }

    /// Goes on as a reader that has found the counter as `status` says.
    #[cold]
    fn reader_acquire_slowly(
        &self,
        lock: &RwWords,
        context: &Context,
        limit: TimeLimit,
        writers: &impl Writers,
        mut status: u64,
    ) -> Result<Arrival> {
        let (mut barrier, mut passed, mut has_held_back) = (None, 0, false);
        loop {
            let turn = F::turn(status);
            if !F::is_open(status) {
                let insists = passed >= self.limits.yields;
                passed += 1;
                let ended = self.wait_shut_out(lock, context, limit, writers, turn, insists)?;
                if let Some(arrival) = ended {
                    return Ok(arrival);
                }
            } else if F::is_asked(status) && !has_held_back && limit != TimeLimit::DoNotWait {
                has_held_back = true;
                self.hold_back(lock, context, limit)?;
            } else if !self.at_limit(context, status) || barrier.is_some_and(|kept| kept != turn) {
                return Ok(Arrival::Inside);
            } else if !self.finds_writers(lock, writers)? {
                self.reset_counter(lock, context, turn)?;
                return Ok(Arrival::Inside);
            } else {
                barrier = Some(turn);
                // A writer that has closed the counter by now waits for this reader's departure.
                self.reader_release(lock, context)?;
                if !self.await_writers(lock, context, limit, turn, writers)? {
                    return Ok(Arrival::GaveUp);
                }
            }
            status = context.fetch_add(self.word(lock, self.mine), F::ARRIVAL)?;
        }
    }

    /// Leaves as a reader. [RMALOCK16 listing 10]
    #[inline]
    pub(super) fn reader_release(&self, lock: &RwWords, context: &Context) -> Result<()> {
        let word = self.word(lock, self.mine);
        let old = context.fetch_add(word, F::PRESENT.wrapping_neg())?;
        match F::closer(old) {
            Some(closer) if !context.omits(steps::TELL) => {
                context.fetch_add(lock.at(closer, self.base + DEPARTED), 1).map(drop)
            }
            _ => Ok(()),
        }
    }
}
