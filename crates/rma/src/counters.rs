//! What a program can read about its own communication.

use std::cell::Cell;

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
    /// What this context did to `peer`; zero for a rank that does not exist.
    pub fn peer(&self, peer: Rank) -> PeerCounters {
        self.peers.get(peer.index()).copied().unwrap_or_default()
    }

    /// What this context did to everybody together.
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

/// The counters while they count. A context belongs to one thread, so plain cells do.
pub(crate) struct Tally {
    peers: Box<[Cell<PeerCounters>]>,
}

impl Tally {
    pub(crate) fn new(ranks: u32) -> Tally {
        Tally { peers: (0..ranks).map(|_| Cell::default()).collect() }
    }

    #[inline]
    pub(crate) fn put(&self, peer: Rank, bytes: u64) {
        self.change(peer, |counters| {
            counters.puts += 1;
            counters.put_bytes += bytes;
        });
    }

    #[inline]
    pub(crate) fn get(&self, peer: Rank, bytes: u64) {
        self.change(peer, |counters| {
            counters.gets += 1;
            counters.get_bytes += bytes;
        });
    }

    #[inline]
    pub(crate) fn accumulate(&self, peer: Rank, bytes: u64) {
        self.change(peer, |counters| {
            counters.accumulates += 1;
            counters.accumulate_bytes += bytes;
        });
    }

    #[inline]
    pub(crate) fn atomic(&self, peer: Rank) {
        self.change(peer, |counters| counters.atomics += 1);
    }

    #[inline]
    pub(crate) fn call(&self, peer: Rank) {
        self.change(peer, |counters| counters.calls += 1);
    }

    #[inline]
    fn change(&self, peer: Rank, change: impl FnOnce(&mut PeerCounters)) {
        if let Some(cell) = self.peers.get(peer.index()) {
            let mut counters = cell.get();
            change(&mut counters);
            cell.set(counters);
        }
    }

    pub(crate) fn read(&self, effort: Effort) -> Counters {
        Counters { peers: self.peers.iter().map(Cell::get).collect(), effort }
    }
}
