//! Looking ahead: what the next events need is fetched before their time.

use super::flight::{Entry, Flight};
use super::links::Links;
use super::member::{Doing, Member};
use crate::fibers::Fibers;
use crate::prefetch;

/// The number of lines of a rank's stack that are used below its wait and above it, by the calls
/// that led to the wait and those that will follow it; and further up, by the program and its
/// world.
const BELOW: usize = 7;
const ABOVE: usize = 16;
const FURTHER: usize = 18;
/// And how many lines of its memory from a word on that it waits for.
const NEARBY: usize = 3;

pub(super) struct Prefetcher<'a> {
    pub(super) flights: &'a [Option<Flight>],
    pub(super) members: &'a [Member],
    pub(super) links: &'a Links,
    pub(super) fibers: &'a Fibers,
}

impl Prefetcher<'_> {
    /// Fetches what an entry will need into the processor's caches: what it names first, and then
    /// what that leads to.
    pub(super) fn fetch(&self, entry: Entry, soon: u32) {
        match (entry, soon) {
            (Entry::Arrives(index), 2) => prefetch::value(&self.flights[index as usize]),
            (Entry::Arrives(index), 1) => {
                if let Some(flight) = &self.flights[index as usize] {
                    prefetch::lines(flight.word, 1);
                    prefetch::value(&self.members[flight.target.index()]);
                    prefetch::lines((&raw const self.members[flight.id.rank.index()]).cast(), 1);
                    self.links.fetch(flight.id.rank, flight.target);
                }
            }
            (Entry::Arrives(index), _) => {
                if let Some(flight) = &self.flights[index as usize]
                    && let target = &self.members[flight.target.index()]
                    && matches!(target.doing, Doing::Waits(_))
                {
                    prefetch::lines(target.hints.wait, 2);
                    prefetch::lines(target.hints.conditions, 3);
                    prefetch::lines(target.hints.memory, 1);
                }
            }
            (Entry::Resumes(rank), 2) => {
                prefetch::value(&self.members[rank as usize]);
                self.fibers.fetch(rank as usize);
            }
            (Entry::Resumes(rank), 1) => {
                let hints = &self.members[rank as usize].hints;
                prefetch::lines(hints.wait.wrapping_sub(BELOW * 64), BELOW + ABOVE);
                prefetch::lines(hints.memory.wrapping_sub(64), 3);
                prefetch::lines(hints.word, NEARBY);
            }
            (Entry::Resumes(rank), _) => {
                let hints = &self.members[rank as usize].hints;
                prefetch::lines(hints.wait.wrapping_add(ABOVE * 64), FURTHER);
            }
            _ => {}
        }
    }
}
