//! Explored programs, of which it is known when each atomic is carried out: an atomic tells others
//! something from then on, and not from when it was posted.

use std::collections::HashMap;

use farside_fabric::{CarriedOut, Word};

use crate::Checker;
use crate::access::Actor;
use crate::clocks::{Released, lanes_of, used};
use crate::shadow::Posted;
use crate::state::{State, locked};

/// An atomic that is under way: what whoever reads its word afterwards will know.
pub(crate) struct Prepared {
    released: Released,
    clock: Vec<u32>,
    posted: Posted,
}

/// The atomics that are under way, by the rank that has started them, and their number.
pub(crate) type UnderWay = HashMap<(usize, u64), Prepared>;

impl State<'_> {
    pub(crate) fn prepare(&mut self, actor: Actor, at: Word, released: Released) -> Prepared {
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
    pub(crate) fn carry_out(&self, all: &[CarriedOut]) {
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
