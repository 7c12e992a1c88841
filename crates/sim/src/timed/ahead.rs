//! Looking ahead: what the next events need is fetched before their time.

use super::clockwork::{Doing, Entry, Flight, Member};
use super::lanes::Lanes;
use crate::crew::Crew;
use crate::prefetch;

/// What events need.
pub(super) struct Ahead<'a> {
    pub(super) flights: &'a [Option<Flight>],
    pub(super) members: &'a [Member],
    pub(super) lanes: &'a Lanes,
    pub(super) crew: &'a Crew,
}

impl Ahead<'_> {
    /// Fetches what an entry will need into the processor's caches: what it names first, and then what that leads to.
    pub(super) fn fetch(&self, entry: Entry, soon: u32) {
        match (entry, soon) {
            (Entry::Arrives(index), 2) => prefetch::value(&self.flights[index as usize]),
            (Entry::Arrives(index), 1) => {
                if let Some(flight) = &self.flights[index as usize] {
                    prefetch::lines(flight.word, 1);
                    prefetch::value(&self.members[flight.target.index()]);
                    prefetch::lines((&raw const self.members[flight.id.rank.index()]).cast(), 1);
                    self.lanes.fetch(flight.id.rank, flight.target);
                }
            }
            (Entry::Arrives(index), _) => {
                if let Some(flight) = &self.flights[index as usize]
                    && let Doing::Waits(wait) = self.members[flight.target.index()].doing
                {
                    prefetch::lines(wait.cast(), 3);
                }
            }
            (Entry::Resumes(rank), 2) => {
                prefetch::value(&self.members[rank as usize]);
                self.crew.fetch(rank as usize);
            }
            (Entry::Resumes(rank), 1) => {
                /// What a rank has on its stack beside its wait, below it and above it.
                const FRAMES: (usize, usize) = (8, 16);
                let hint = self.members[rank as usize].stack_hint;
                prefetch::lines(hint.wrapping_sub(FRAMES.0 * 64), FRAMES.0 + FRAMES.1);
            }
            _ => {}
        }
    }
}
