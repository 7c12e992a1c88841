//! The strands of a rank: parts of its program that run in order, as threads do.
//!
//! Each has a clock. A strand that has ended leaves its number to one that is made later, the
//! number that was given longest ago first. With no number left, a new strand shares that of the
//! one that made it: what the two do then counts as ordered, which is said.

use crate::layout::NOWHERE;
use crate::state::State;
use crate::told::THREADS;

impl State<'_> {
    /// Makes a strand that knows what `from` knows, or nothing. With `is_running`, `from` is the
    /// one that makes it, and the new one knows what it has done.
    pub(crate) fn new_strand(
        &mut self,
        rank: usize,
        from: Option<usize>,
        is_running: bool,
    ) -> usize {
        let layout = *self.layout;
        let newest = self.numbers[layout.newest_strand_of(rank)] as usize;
        let mut numbers = (1..layout.strands).map(|step| (newest + step) % layout.strands);
        let is_free = |&strand: &usize| {
            // The first strand is the rank's own, and the last one that of handlers: nobody makes
            // these.
            strand != 0
                && strand != layout.agent_strand()
                && self.numbers[layout.users_of(rank, strand)] == 0
        };
        let free = numbers.find(is_free);
        let free = free.filter(|&strand| self.give_strand_column(rank, strand).is_some());
        let Some(strand) = free else {
            let what = self.name_place(THREADS);
            self.blind(what, NOWHERE);
            let shared = from.unwrap_or(0);
            self.numbers[layout.users_of(rank, shared)] += 1;
            return shared;
        };
        self.numbers[layout.newest_strand_of(rank)] = strand as u32;
        self.numbers[layout.users_of(rank, strand)] = 1;
        let (clock, columns) = (layout.clock_of(rank, strand), self.columns());
        match from {
            Some(from) => {
                let theirs = layout.clock_of(rank, from);
                if is_running {
                    self.know_own(rank, from);
                }
                self.numbers.copy_within(theirs..theirs + columns, clock);
            }
            None => self.numbers[clock..clock + columns].fill(0),
        }
        self.tick(rank);
        self.numbers[layout.birth_of(rank, strand)] = self.time(rank);
        strand
    }

    /// Orders what `from` has done so far ahead of what `into` does from now on; `None` are all.
    pub(crate) fn join_strands(&mut self, rank: usize, into: Option<usize>, from: Option<usize>) {
        let layout = *self.layout;
        for from in self.strands(rank, from) {
            let theirs = layout.clock_of(rank, from);
            self.know_own(rank, from);
            for into in self.strands(rank, into) {
                self.join(layout.clock_of(rank, into), theirs);
            }
        }
        self.tick(rank);
    }

    /// One strand, or all that are in use.
    fn strands(&self, rank: usize, one: Option<usize>) -> Vec<usize> {
        let is_used =
            |&strand: &usize| strand == 0 || self.numbers[self.layout.users_of(rank, strand)] != 0;
        one.map_or_else(|| (0..self.layout.strands).filter(is_used).collect(), |one| vec![one])
    }

    /// Gives a strand's number back.
    pub(crate) fn end_strand(&mut self, rank: usize, strand: usize) {
        let users = &mut self.numbers[self.layout.users_of(rank, strand)];
        *users = users.saturating_sub(1);
    }
}
