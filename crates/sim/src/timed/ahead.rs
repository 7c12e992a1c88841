//! Looking ahead: what the next events need is fetched before their time.

use super::clockwork::{Doing, Entry, Flight, Member};
use crate::prefetch;

/// Fetches what an entry will need into the processor's caches: what it names first, and then what that leads to.
pub(super) fn fetch(entry: Entry, soon: u32, flights: &[Option<Flight>], members: &[Member]) {
    /// What a rank has on its stack beside its wait, below it and above it.
    const FRAMES: (usize, usize) = (8, 16);
    match (entry, soon) {
        (Entry::Arrives(index), 2) => prefetch::value(&flights[index as usize]),
        (Entry::Arrives(index), 1) => {
            if let Some(flight) = &flights[index as usize] {
                prefetch::lines(flight.word, 1);
                prefetch::value(&members[flight.target.index()]);
            }
        }
        (Entry::Arrives(index), _) => {
            if let Some(flight) = &flights[index as usize]
                && let Doing::Waits(wait) = members[flight.target.index()].doing
            {
                prefetch::lines(wait.cast(), 2);
            }
        }
        (Entry::Resumes(rank, _), 2) => prefetch::value(&members[rank as usize]),
        (Entry::Resumes(rank, _), 1) => {
            let hint = members[rank as usize].stack_hint;
            prefetch::lines(hint.wrapping_sub(FRAMES.0 * 64), FRAMES.0 + FRAMES.1);
        }
        _ => {}
    }
}
