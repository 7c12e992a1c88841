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

use farside_fabric::Result;
use farside_rma::Context;

use super::counters::fields::{Fields, Low, Narrow, Wide};
use super::counters::{self, Arrival, Counters, Limits, Writers};
use super::{Kind, slots};
use crate::lock::frame::{Crowding, LockWords, TimeLimit};
use crate::lock::registry::{Made, Maker, Widths};
use crate::lock::rma_mcs::{self, Reached, RmaMcs};
use crate::rw::frame::{Algorithm, RwWords};
use crate::rw::registry::Entry;
use crate::rw::steps;

/// The usual thresholds: 1000 writers or readers in a row.
const USUAL_T_L: [u32; 3] = [20, 50, 1];
const USUAL_T_R: u32 = 1000;

/// The thresholds of readers.
#[derive(Debug, Clone, Copy)]
struct Thresholds {
    t_dc: Option<u32>,
    t_r: u32,
}

struct RmaRw<F> {
    thresholds: Thresholds,
    counters: Counters<F>,
    tree: RmaMcs,
}

/// Returns the kind with its usual parameters.
pub(super) fn usual() -> Kind {
    Kind::RmaRw { t_dc: None, t_l: USUAL_T_L.to_vec(), t_r: USUAL_T_R }
}

pub(super) fn make(
    maker: &Maker<'_>,
    &t_dc: &Option<u32>,
    t_l: &[u32],
    &t_r: &u32,
) -> Result<Made<dyn Algorithm>> {
    Limits::check_t_r(t_r)?;
    let thresholds = Thresholds { t_dc, t_r };
    if maker.context().omits(steps::COUNT_ON_TOP) {
        return build::<Low>(maker, thresholds, t_l);
    }
    match maker.widths {
        Widths::Usual => build::<Wide>(maker, thresholds, t_l),
        Widths::Narrow => build::<Narrow>(maker, thresholds, t_l),
    }
}

fn build<F: Fields>(
    maker: &Maker<'_>,
    thresholds: Thresholds,
    t_l: &[u32],
) -> Result<Made<dyn Algorithm>> {
    let (context, members) = (maker.context(), maker.team.members());
    counters::check_ranks(context)?;
    let words = maker.words(rma_mcs::words(context, members) + counters::WORDS)?;
    let counters = counters::<F>(&words, context, thresholds)?;
    let (widest, narrower) = match t_l {
        [] => (1, &[][..]),
        [widest] => (*widest, t_l),
        [widest, narrower @ ..] => (*widest, narrower),
    };
    let tree = RmaMcs::below(&words, context, Some(widest), narrower);
    Ok(Made { words, algorithm: Box::new(RmaRw { thresholds, counters, tree }) })
}

impl<F: Fields> Algorithm for RmaRw<F> {
    fn attempt_read(&self, lock: &RwWords, context: &Context) -> Result<bool> {
        self.read(lock, context, TimeLimit::DoNotWait)
    }

    /// [RMALOCK16 listing 9]
    fn read(&self, lock: &RwWords, context: &Context, limit: TimeLimit) -> Result<bool> {
        let writers = Root { tree: &self.tree, lock, context };
        let arrival = self.counters.arrive(lock, context, limit, &writers)?;
        Ok(arrival == Arrival::Inside)
    }

    /// [RMALOCK16 listing 10]
    fn end_read(&self, lock: &RwWords, context: &Context) -> Result<()> {
        let published = lock.publish(context);
        self.counters.depart(lock, context)?;
        published
    }

    fn attempt_write(&self, lock: &RwWords, context: &Context) -> Result<bool> {
        self.write(lock, context, TimeLimit::DoNotWait)
    }

    /// [RMALOCK16 listings 4 and 7]
    fn write(&self, lock: &RwWords, context: &Context, limit: TimeLimit) -> Result<bool> {
        let before = lock.queued();
        let reached = self.tree.climb(lock, context, limit)?;
        if lock.queued() != before {
            lock.statistics.note(|counts| &counts.writes_queued);
        }
        match reached {
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

    /// [RMALOCK16 listings 5 and 8]
    fn end_write(&self, lock: &RwWords, context: &Context) -> Result<()> {
        let published = lock.publish(context);
        let open = || self.counters.open(lock, context);
        let descent = self.tree.descend(lock, context, &open)?;
        self.counters.pass_on();
        let statistics = &lock.statistics;
        if let Some(next) = descent.next {
            statistics.passed(context, next);
        }
        match descent.passed_at {
            Some(level) if self.tree.is_widest(level) => {
                statistics.note(|counts| &counts.passed_across)
            }
            Some(_) => statistics.note(|counts| &counts.passed_within),
            None => {}
        }
        if descent.yielded {
            statistics.note(|counts| &counts.yielded);
        }
        if descent.for_another {
            statistics.note(|counts| &counts.left_for_another);
        }
        published
    }

    fn reset(&mut self, lock: &RwWords, context: &Context) -> Result<()> {
        self.tree.arrange(lock, context);
        self.counters = counters(lock, context, self.thresholds)?;
        Ok(())
    }
}

/// Makes the counters, which lie behind the tree: after losses that may need fewer words and never
/// more. Readers let writers pass for a while on a crowded node.
fn counters<F: Fields>(
    lock: &LockWords,
    context: &Context,
    thresholds: Thresholds,
) -> Result<Counters<F>> {
    let is_crowded = lock.crowding(context) == Crowding::Crowded;
    let yields = if is_crowded { slots::YIELDS } else { 0 };
    let base = lock.len() - counters::WORDS;
    let limits = Limits { t_dc: thresholds.t_dc, t_r: Some(thresholds.t_r), yields };
    Counters::new(base, context, lock.members(), limits)
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

pub(super) const ENTRIES: &[Entry] = &[Entry {
    name: "rma-rw",
    about: "counters of readers spread over the topology, a tree of queues for writers",
    kind: usual,
}];
