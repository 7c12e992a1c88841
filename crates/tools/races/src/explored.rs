//! Explored programs, of which it is known when each atomic is carried out: an atomic tells others
//! something from then on, and not from when it was posted.

use std::collections::HashMap;

use farside_fabric::{CarriedOut, ProbeEvent, SegmentId, Word};

use crate::Checker;
use crate::access::Actor;
use crate::clocks::{lanes_of, used};
use crate::state::{Released, State};
use crate::told::{Told, locked};

/// An atomic that is under way: what whoever reads its word afterwards will know.
pub(crate) struct Prepared {
    released: Released,
    clock: Vec<u32>,
    posted: Posted,
}

/// Which access of which rank an atomic is.
#[derive(Clone, Copy)]
pub(crate) struct Posted {
    pub(crate) owner: usize,
    pub(crate) segment: SegmentId,
    pub(crate) offset: u64,
    pub(crate) rank: usize,
    pub(crate) time: u32,
}

/// The atomics that are under way, by the rank that has started them, and their number.
pub(crate) type UnderWay = HashMap<(usize, u64), Prepared>;

impl State<'_> {
    fn prepare(&mut self, actor: Actor, at: Word, released: Released) -> Prepared {
        let (rank, time) = (actor.rank, self.time(actor.rank));
        self.know_own(rank, actor.strand);
        let begin = self.layout.clock_of(rank, actor.strand);
        let mut clock = self.numbers[begin..begin + self.columns()].to_vec();
        for lane in lanes_of(actor) {
            if let Some((column, complete)) = self.told_of(actor, lane, &released) {
                clock[column] = clock[column].max(complete);
            }
        }
        self.tick(rank);
        let (owner, segment, offset) = (at.rank.index(), at.segment, at.offset);
        Prepared { released, clock, posted: Posted { owner, segment, offset, rank, time } }
    }

    fn carry_out(&mut self, prepared: &Prepared, wrote: bool) {
        self.land(&prepared.posted);
        if !wrote {
            return;
        }
        let (layout, columns) = (*self.layout, self.columns());
        let Released { word, value, .. } = prepared.released;
        self.list(word);
        for block in layout.blocks(columns) {
            let last = layout.last_clock_of_word(block, word);
            for column in 0..used(block, columns) {
                let (before, at) = (last + block.columns + column, last + column);
                self.numbers[before] = self.numbers[before].max(self.numbers[at]);
                let told = prepared.clock.get(block.start + column);
                self.numbers[at] = told.copied().unwrap_or(0);
            }
        }
        self.note_value(word, value, 0);
    }
}

impl Checker {
    fn carry_out(&self, all: &[CarriedOut]) {
        let mut under_way = locked(&self.under_way);
        self.with(|state| {
            for one in all {
                if let Some(prepared) = under_way.remove(&(one.rank.index(), one.operation)) {
                    state.carry_out(&prepared, one.wrote);
                }
            }
        });
    }
}

impl Told {
    /// Whether it is known when atomics are carried out.
    pub(crate) fn is_exact(&self) -> bool {
        self.below.is_some() && self.layout().is_exact
    }

    pub(crate) fn catch_up(&self) {
        if self.is_exact() {
            let mut all = Vec::new();
            self.below(ProbeEvent::CarriedOut(&mut all));
            if !all.is_empty() {
                self.state.checker.carry_out(&all);
            }
        }
    }

    /// A rank is about to start an atomic that writes.
    pub(crate) fn prepare(&self, actor: Actor, at: Word, released: Released) {
        self.catch_up();
        let prepared = self.state.checker.with(|state| state.prepare(actor, at, released));
        *locked(&self.prepared) = prepared;
    }

    pub(crate) fn has_started(&self) {
        if let Some(prepared) = locked(&self.prepared).take()
            && let Some(number) = self.below(ProbeEvent::LastOperation)
        {
            locked(&self.state.checker.under_way).insert((self.state.rank, number), prepared);
        }
    }
}
