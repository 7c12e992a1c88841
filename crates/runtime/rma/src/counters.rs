//! Counters of a context's own communication, which a program can read.

use std::cell::{Cell, OnceCell};
use std::sync::atomic::{AtomicU64, Ordering};

use farside_fabric::memory::Held;
use farside_fabric::record::{ContextRecord, PEERS, PeerCount};
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
const AT_HAND: usize = PEERS;
const CHOICES: usize = 4;

/// The counters while they count. A rank of a large job talks to few others: the first that come
/// have their counters at hand, in the context's record, where viewers read them; all others have
/// theirs in pages that come about when they are needed.
pub(crate) struct Tally {
    ranks: u32,
    /// Whose counters are at hand: one more than the rank, or zero.
    known: [Cell<u32>; AT_HAND],
    record: Held<ContextRecord>,
    pages: OnceCell<Box<[Page]>>,
}

type Page = OnceCell<Box<[PeerCount; PAGE]>>;

/// A context belongs to one thread, so a load and a store do: the instructions are those of a plain
/// cell.
#[inline]
fn add(counter: &AtomicU64, value: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(value), Ordering::Relaxed);
}

impl Tally {
    pub(crate) fn new(ranks: u32, record: Held<ContextRecord>) -> Tally {
        // An earlier context that had the record has left its counters.
        for (known, peer) in record.known.iter().zip(&record.peers) {
            known.store(0, Ordering::Relaxed);
            each_counter(peer).into_iter().for_each(|counter| counter.store(0, Ordering::Relaxed));
        }
        Tally { ranks, known: [const { Cell::new(0) }; AT_HAND], record, pages: OnceCell::new() }
    }

    /// A rank that does not exist has no counters.
    #[inline]
    pub(crate) fn peer(&self, peer: Rank) -> Option<&PeerCount> {
        let (name, first) = (peer.0.wrapping_add(1), choice(peer));
        for place in first..first + CHOICES {
            if self.known[place].get() == name {
                return Some(&self.record.peers[place]);
            }
            if self.known[place].get() == 0 {
                return self.begin_counting(place, peer);
            }
        }
        self.further(peer)
    }

    #[cold]
    fn begin_counting(&self, place: usize, peer: Rank) -> Option<&PeerCount> {
        if peer.0 >= self.ranks {
            return None;
        }
        self.known[place].set(peer.0 + 1);
        self.record.known[place].store(peer.0 + 1, Ordering::Relaxed);
        Some(&self.record.peers[place])
    }

    /// The counters of a peer that came when there was no place at hand for it.
    fn further(&self, peer: Rank) -> Option<&PeerCount> {
        let pages = || (0..(self.ranks as usize).div_ceil(PAGE)).map(|_| OnceCell::new()).collect();
        let page =
            self.pages.get_or_init(pages).get(peer.index() / PAGE)?.get_or_init(Box::default);
        Some(&page[peer.index() % PAGE])
    }

    fn place(&self, peer: Rank) -> Option<usize> {
        let first = choice(peer);
        (first..first + CHOICES).find(|&place| self.known[place].get() == peer.0 + 1)
    }

    fn known(&self, peer: Rank) -> Option<&PeerCount> {
        match self.place(peer) {
            Some(place) => Some(&self.record.peers[place]),
            None => Some(&self.pages.get()?.get(peer.index() / PAGE)?.get()?[peer.index() % PAGE]),
        }
    }

    #[inline]
    pub(crate) fn put(&self, peer: Rank, bytes: u64) {
        count_put(self.peer(peer), bytes);
    }

    #[inline]
    pub(crate) fn get(&self, peer: Rank, bytes: u64) {
        count_get(self.peer(peer), bytes);
    }

    #[inline]
    pub(crate) fn accumulate(&self, peer: Rank, bytes: u64) {
        count_accumulate(self.peer(peer), bytes);
    }

    #[inline]
    pub(crate) fn atomic(&self, peer: Rank) {
        count_atomic(self.peer(peer));
    }

    #[inline]
    pub(crate) fn call(&self, peer: Rank) {
        if let Some(count) = self.peer(peer) {
            add(&count.calls, 1);
        }
    }

    pub(crate) fn of(&self, peer: Rank) -> PeerTally {
        PeerTally { record: self.record.clone(), place: Cell::new(AT_HAND), peer }
    }

    pub(crate) fn read(&self, effort: Effort) -> Counters {
        let peer = |tally: &PeerCount| PeerCounters {
            puts: tally.puts.load(Ordering::Relaxed),
            put_bytes: tally.put_bytes.load(Ordering::Relaxed),
            gets: tally.gets.load(Ordering::Relaxed),
            get_bytes: tally.get_bytes.load(Ordering::Relaxed),
            accumulates: tally.accumulates.load(Ordering::Relaxed),
            accumulate_bytes: tally.accumulate_bytes.load(Ordering::Relaxed),
            atomics: tally.atomics.load(Ordering::Relaxed),
            calls: tally.calls.load(Ordering::Relaxed),
        };
        let peers = (0..self.ranks)
            .map(|rank| self.known(Rank(rank)).map(peer).unwrap_or_default())
            .collect();
        Counters { peers, effort }
    }
}

#[inline(always)]
pub(crate) fn count_put(count: Option<&PeerCount>, bytes: u64) {
    if let Some(count) = count {
        add(&count.puts, 1);
        add(&count.put_bytes, bytes);
    }
}

#[inline(always)]
pub(crate) fn count_get(count: Option<&PeerCount>, bytes: u64) {
    if let Some(count) = count {
        add(&count.gets, 1);
        add(&count.get_bytes, bytes);
    }
}

#[inline(always)]
pub(crate) fn count_accumulate(count: Option<&PeerCount>, bytes: u64) {
    if let Some(count) = count {
        add(&count.accumulates, 1);
        add(&count.accumulate_bytes, bytes);
    }
}

#[inline(always)]
pub(crate) fn count_atomic(count: Option<&PeerCount>) {
    if let Some(count) = count {
        add(&count.atomics, 1);
    }
}

/// The way to a peer's counters in the tally of one context, for those who count often: once they
/// are found nothing is looked up.
pub(crate) struct PeerTally {
    record: Held<ContextRecord>,
    /// Where they are at hand; beyond the end as long as nothing was counted, and if they are not.
    place: Cell<usize>,
    peer: Rank,
}

impl PeerTally {
    /// The peer's counters in the tally that this was made by.
    #[inline(always)]
    pub(crate) fn counts<'t>(&'t self, tally: &'t Tally) -> Option<&'t PeerCount> {
        match self.record.peers.get(self.place.get()) {
            Some(count) => Some(count),
            None => self.find(tally),
        }
    }

    #[cold]
    #[inline(never)]
    fn find<'t>(&self, tally: &'t Tally) -> Option<&'t PeerCount> {
        let count = tally.peer(self.peer);
        self.place.set(tally.place(self.peer).unwrap_or(AT_HAND));
        count
    }
}

fn each_counter(peer: &PeerCount) -> [&AtomicU64; 8] {
    let PeerCount { puts, put_bytes, gets, get_bytes, .. } = peer;
    let PeerCount { accumulates, accumulate_bytes, atomics, calls, .. } = peer;
    [puts, put_bytes, gets, get_bytes, accumulates, accumulate_bytes, atomics, calls]
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
        let tally = Tally::new(1000, std::sync::Arc::new(ContextRecord::default()).into());
        let ways: Vec<PeerTally> = (0..1000).map(|rank| tally.of(Rank(rank))).collect();
        for round in 1..=3 {
            for rank in (0..1000).step_by(3) {
                tally.put(Rank(rank), u64::from(rank));
                count_atomic(ways[rank as usize].counts(&tally));
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
