//! The lock as programs make it: its thresholds, its memory and its statistics.

use farside_fabric::Result;
use farside_rma::Context;

use super::RmaRw;
use crate::lock::frame::{Crowding, LockWords, TimeLimit};
use crate::lock::registry::{Made, Maker, Widths};
use crate::lock::rma_mcs::{self, RmaMcs};
use crate::rw::algorithms::counters::fields::Fields;
use crate::rw::algorithms::counters::widths::{Low, Narrow, Wide};
use crate::rw::algorithms::counters::{self, Counters, Limits};
use crate::rw::algorithms::{Kind, slots};
use crate::rw::frame::{Algorithm, RwWords};
use crate::rw::registry::Entry;
use crate::rw::steps;

/// The usual thresholds: 1000 writers or readers in a row.
const USUAL_T_L: [u32; 3] = [20, 50, 1];
const USUAL_T_R: u32 = 1000;

/// The thresholds of readers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Thresholds {
    t_dc: Option<u32>,
    t_r: u32,
}

pub(in crate::rw::algorithms) fn usual() -> Kind {
    Kind::RmaRw { t_dc: None, t_l: USUAL_T_L.to_vec(), t_r: USUAL_T_R }
}

pub(in crate::rw::algorithms) fn make(
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
    counters::check_ranks(context.size())?;
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
        self.reader_acquire(lock, context, TimeLimit::DoNotWait)
    }

    fn read(&self, lock: &RwWords, context: &Context, limit: TimeLimit) -> Result<bool> {
        self.reader_acquire(lock, context, limit)
    }

    fn end_read(&self, lock: &RwWords, context: &Context) -> Result<()> {
        let published = lock.publish(context);
        self.reader_release(lock, context)?;
        published
    }

    fn attempt_write(&self, lock: &RwWords, context: &Context) -> Result<bool> {
        self.write(lock, context, TimeLimit::DoNotWait)
    }

    fn write(&self, lock: &RwWords, context: &Context, limit: TimeLimit) -> Result<bool> {
        let before = lock.queued();
        let is_inside = self.writer_acquire(lock, context, limit);
        if lock.queued() != before {
            lock.statistics.note(|counts| &counts.writes_queued);
        }
        is_inside
    }

    fn end_write(&self, lock: &RwWords, context: &Context) -> Result<()> {
        let published = lock.publish(context);
        let descent = self.writer_release(lock, context)?;
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

pub(in crate::rw::algorithms) const ENTRIES: &[Entry] = &[Entry {
    name: "rma-rw",
    about: "counters of readers spread over the topology, a tree of queues for writers",
    kind: usual,
}];
