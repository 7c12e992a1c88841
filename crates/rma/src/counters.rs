//! Counters of a context's own communication, which a program can read.

use std::cell::{Cell, OnceCell};

use farside_fabric::{Effort, Rank};

/// Operations and bytes to one peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PeerCounters {
    /// Puts of any shape.
    pub puts: u64,
    /// Bytes put.
    pub put_bytes: u64,
    /// Gets of any shape.
    pub gets: u64,
    /// Bytes gotten.
    pub get_bytes: u64,
    /// Accumulates of any shape.
    pub accumulates: u64,
    /// Bytes accumulated.
    pub accumulate_bytes: u64,
    /// Atomics, signals among them.
    pub atomics: u64,
    /// Calls of the agent on the peer's node that lives with this peer.
    pub calls: u64,
}

impl PeerCounters {
    /// All operations together.
    pub fn operations(&self) -> u64 {
        self.puts + self.gets + self.accumulates + self.atomics + self.calls
    }

    /// All bytes moved, either way.
    pub fn bytes(&self) -> u64 {
        self.put_bytes + self.get_bytes + self.accumulate_bytes
    }
}

/// A reading of a context's counters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counters {
    /// For each rank, what this context did to it.
    pub peers: Vec<PeerCounters>,
    /// How much this context has waited.
    pub effort: Effort,
}

impl Counters {
    /// Returns what this context did to `peer`; zero for a rank that does not exist.
    pub fn peer(&self, peer: Rank) -> PeerCounters {
        self.peers.get(peer.index()).copied().unwrap_or_default()
    }

    /// Returns what this context did to all ranks together.
    pub fn total(&self) -> PeerCounters {
        let mut total = PeerCounters::default();
        for peer in &self.peers {
            total.puts += peer.puts;
            total.put_bytes += peer.put_bytes;
            total.gets += peer.gets;
            total.get_bytes += peer.get_bytes;
            total.accumulates += peer.accumulates;
            total.accumulate_bytes += peer.accumulate_bytes;
            total.atomics += peer.atomics;
            total.calls += peer.calls;
        }
        total
    }
}

/// How many peers share a page of counters.
const PAGE: usize = 16;
/// How many peers have their counters at hand, and among how many of these a peer's may be.
const AT_HAND: usize = 32;
const CHOICES: usize = 4;

/// The counters while they count. A rank of a large job talks to few others: the first that come
/// have their counters at hand, all others in pages that come about when they are needed. A context
/// belongs to one thread, so plain cells do.
pub(crate) struct Tally {
    ranks: u32,
    /// Whose counters are at hand: one more than the rank, or zero.
    known: [Cell<u32>; AT_HAND],
    at_hand: Box<[PeerTally; AT_HAND]>,
    pages: OnceCell<Box<[Page]>>,
}

type Page = OnceCell<Box<[PeerTally; PAGE]>>;

#[derive(Default)]
struct PeerTally {
    puts: Cell<u64>,
    put_bytes: Cell<u64>,
    gets: Cell<u64>,
    get_bytes: Cell<u64>,
    accumulates: Cell<u64>,
    accumulate_bytes: Cell<u64>,
    atomics: Cell<u64>,
    calls: Cell<u64>,
}

#[inline]
fn add(cell: &Cell<u64>, value: u64) {
    cell.set(cell.get().wrapping_add(value));
}

impl Tally {
    pub(crate) fn new(ranks: u32) -> Tally {
        let at_hand = Box::new(std::array::from_fn(|_| PeerTally::default()));
        Tally { ranks, known: [const { Cell::new(0) }; AT_HAND], at_hand, pages: OnceCell::new() }
    }

    /// A rank that does not exist has no counters.
    #[inline]
    fn peer(&self, peer: Rank) -> Option<&PeerTally> {
        let (name, first) = (peer.0.wrapping_add(1), choice(peer));
        for place in first..first + CHOICES {
            if self.known[place].get() == name {
                return Some(&self.at_hand[place]);
            }
            if self.known[place].get() == 0 {
                return self.begin_counting(place, peer);
            }
        }
        self.further(peer)
    }

    #[cold]
    fn begin_counting(&self, place: usize, peer: Rank) -> Option<&PeerTally> {
        if peer.0 >= self.ranks {
            return None;
        }
        self.known[place].set(peer.0 + 1);
        Some(&self.at_hand[place])
    }

    /// The counters of a peer that came when there was no place at hand for it.
    fn further(&self, peer: Rank) -> Option<&PeerTally> {
        let pages = || (0..(self.ranks as usize).div_ceil(PAGE)).map(|_| OnceCell::new()).collect();
        let page =
            self.pages.get_or_init(pages).get(peer.index() / PAGE)?.get_or_init(Box::default);
        Some(&page[peer.index() % PAGE])
    }

    /// The counters of a peer, if it has any yet.
    fn known(&self, peer: Rank) -> Option<&PeerTally> {
        let first = choice(peer);
        match (first..first + CHOICES).find(|&place| self.known[place].get() == peer.0 + 1) {
            Some(place) => Some(&self.at_hand[place]),
            None => Some(&self.pages.get()?.get(peer.index() / PAGE)?.get()?[peer.index() % PAGE]),
        }
    }

    #[inline]
    pub(crate) fn put(&self, peer: Rank, bytes: u64) {
        if let Some(tally) = self.peer(peer) {
            add(&tally.puts, 1);
            add(&tally.put_bytes, bytes);
        }
    }

    #[inline]
    pub(crate) fn get(&self, peer: Rank, bytes: u64) {
        if let Some(tally) = self.peer(peer) {
            add(&tally.gets, 1);
            add(&tally.get_bytes, bytes);
        }
    }

    #[inline]
    pub(crate) fn accumulate(&self, peer: Rank, bytes: u64) {
        if let Some(tally) = self.peer(peer) {
            add(&tally.accumulates, 1);
            add(&tally.accumulate_bytes, bytes);
        }
    }

    #[inline]
    pub(crate) fn atomic(&self, peer: Rank) {
        if let Some(tally) = self.peer(peer) {
            add(&tally.atomics, 1);
        }
    }

    #[inline]
    pub(crate) fn call(&self, peer: Rank) {
        if let Some(tally) = self.peer(peer) {
            add(&tally.calls, 1);
        }
    }

    pub(crate) fn read(&self, effort: Effort) -> Counters {
        let peer = |tally: &PeerTally| PeerCounters {
            puts: tally.puts.get(),
            put_bytes: tally.put_bytes.get(),
            gets: tally.gets.get(),
            get_bytes: tally.get_bytes.get(),
            accumulates: tally.accumulates.get(),
            accumulate_bytes: tally.accumulate_bytes.get(),
            atomics: tally.atomics.get(),
            calls: tally.calls.get(),
        };
        let peers = (0..self.ranks)
            .map(|rank| self.known(Rank(rank)).map(peer).unwrap_or_default())
            .collect();
        Counters { peers, effort }
    }
}

/// The first of the places where the counters of a peer may be.
#[inline]
fn choice(peer: Rank) -> usize {
    const GROUPS: u32 = (AT_HAND / CHOICES) as u32;
    (peer.0.wrapping_mul(0x9E37_79B9) >> (u32::BITS - GROUPS.ilog2())) as usize * CHOICES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_peer_has_counters_of_its_own() {
        let tally = Tally::new(1000);
        for round in 1..=3 {
            for rank in (0..1000).step_by(3) {
                tally.put(Rank(rank), u64::from(rank));
                tally.atomic(Rank(rank));
            }
            tally.put(Rank(1000), 8);
            let counters = tally.read(Effort::default());
            assert_eq!(counters.peers.len(), 1000);
            for (rank, peer) in counters.peers.iter().enumerate() {
                let times = if rank % 3 == 0 { round } else { 0 };
                let expected = (times, times * rank as u64, times);
                assert_eq!((peer.puts, peer.put_bytes, peer.atomics), expected, "{rank}");
            }
        }
    }
}
