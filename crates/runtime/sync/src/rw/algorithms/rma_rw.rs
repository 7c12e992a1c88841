//! RMA-RW: readers count themselves in counters that are spread over the topology, writers queue in
//! a tree that follows it.
//!
//! Paper:     [RMALOCK16] section 3, listings 4 to 10.
//! Differs:   as printed it is not correct: `counters` and `lock::rma_mcs` say what was changed.
//!            The count at the widest level is compared with T_L,1, so that T_W is the product of
//!            all T_L,i. A writer whose time is over opens the counters again.
//! State:     for each level of the topology the 4 words of the tree, and 2 words for the counters,
//!            on every rank.
//! Invariant: a writer is inside only if it holds the widest queue, by itself or for its element,
//!            and all counters are closed and drained. T_W and T_R are kept
//!            (rw/rma-rw-without-t-w, rw/rma-rw-without-t-r); `README.md` has the bounds.
//! Ordering:  release flushes first (rw/rma-rw-without-flush); the wider queue is left before the
//!            own (rw/rma-rw-climbs-too-early); see also `counters`.
//! Cost:      read 1 atomic, end of read 1 atomic, +1 if a writer waits. Write alone, with N levels
//!            and C counters: N + C atomics and N - 1 stores to itself; its end 3 N - 1 loads and N
//!            + C atomics. Passed on inside an element: that of a queue, and 2 loads.
//! Checked:   `farside check 'rw/rma-rw*'`: all schedules of small jobs, with narrow
//!            fields too; T_W and T_R; every branch is reached; 8 to 256 ranks, PCT depth 3.

mod lock;

use farside_fabric::Result;
use farside_rma::Context;

use super::counters::fields::Fields;
use super::counters::{Arrival, Counters, Writers};
use crate::lock::frame::TimeLimit;
use crate::lock::rma_mcs::{Descent, Reached, RmaMcs};
use crate::rw::frame::RwWords;
use lock::Thresholds;

pub(super) use lock::{ENTRIES, make, usual};

struct RmaRw<F> {
    thresholds: Thresholds,
    counters: Counters<F>,
    tree: RmaMcs,
}

impl<F: Fields> RmaRw<F> {
    /// Climbs the tree, and as the first of its root closes the counters. False if the time is over
    /// first. [RMALOCK16 listings 4 and 7]
    fn writer_acquire(&self, lock: &RwWords, context: &Context, limit: TimeLimit) -> Result<bool> {
        match self.tree.climb(lock, context, limit)? {
            Reached::GaveUp => Ok(false),
            Reached::All => Ok(true),
            Reached::Root => {
                let is_closed = self.counters.close(lock, context, limit)?;
                if !is_closed {
                    self.tree.turn_back(lock, context)?;
                }
                Ok(is_closed)
            }
        }
    }

    /// Descends the tree, and opens the counters at T_W or if no writer waits at the root.
    /// [RMALOCK16 listings 5 and 8]
    fn writer_release(&self, lock: &RwWords, context: &Context) -> Result<Descent> {
        let open = || self.counters.open(lock, context);
        let descent = self.tree.descend(lock, context, &open)?;
        self.counters.pass_on();
        Ok(descent)
    }

    /// Arrives at this rank's counter. [RMALOCK16 listing 9]
    fn reader_acquire(&self, lock: &RwWords, context: &Context, limit: TimeLimit) -> Result<bool> {
        let writers = Root { tree: &self.tree, lock, context };
        let arrival = self.counters.reader_acquire(lock, context, limit, &writers)?;
        Ok(arrival == Arrival::Inside)
    }

    /// Departs from this rank's counter. [RMALOCK16 listing 10]
    fn reader_release(&self, lock: &RwWords, context: &Context) -> Result<()> {
        self.counters.reader_release(lock, context)
    }
}

/// The widest queue, as readers see it.
struct Root<'a> {
    tree: &'a RmaMcs,
    lock: &'a RwWords,
    context: &'a Context,
}

impl Writers for Root<'_> {
    fn are_there(&self) -> Result<bool> {
        self.tree.is_idle(self.lock, self.context).map(|is_idle| !is_idle)
    }
}
