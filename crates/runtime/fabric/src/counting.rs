//! A probe that counts operations and bytes per peer: what turns the *Cost* line of a protocol
//! into a test.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::connection::Connection;
use crate::names::Rank;
use crate::observed::Observed;
use crate::probe::{Kind, Operation, Probe, ProbeEvent};

/// Counts per origin, kind and peer. Clones share the counts.
#[derive(Clone)]
pub struct Counts {
    ranks: usize,
    cells: Arc<[Cell]>,
}

#[derive(Default)]
struct Cell {
    operations: AtomicU64,
    bytes: AtomicU64,
}

impl Counts {
    /// Counts for a job of `ranks` ranks.
    pub fn new(ranks: u32) -> Counts {
        let ranks = ranks as usize;
        // The last column is for operations without a peer.
        let cells = (0..ranks * Kind::ALL.len() * (ranks + 1)).map(|_| Cell::default()).collect();
        Counts { ranks, cells }
    }

    /// Puts these counts in front of a connection.
    pub fn over(&self, connection: Box<dyn Connection>) -> Box<dyn Connection> {
        Box::new(Observed::new(connection, Arc::new(self.clone())))
    }

    /// Returns how many operations of `kind` `from` has done to `to`.
    pub fn operations(&self, from: Rank, kind: Kind, to: Rank) -> u64 {
        self.cell(from, kind, Some(to)).operations.load(Ordering::Relaxed)
    }

    /// Returns how many bytes those operations moved.
    pub fn bytes(&self, from: Rank, kind: Kind, to: Rank) -> u64 {
        self.cell(from, kind, Some(to)).bytes.load(Ordering::Relaxed)
    }

    /// Returns how many operations of `kind` `from` has done, to any peer.
    pub fn total(&self, from: Rank, kind: Kind) -> u64 {
        let to_somebody: u64 =
            (0..self.ranks as u32).map(|to| self.operations(from, kind, Rank(to))).sum();
        to_somebody + self.cell(from, kind, None).operations.load(Ordering::Relaxed)
    }

    /// Returns how many messages `from` has sent to other ranks: operations that leave it, whatever
    /// their kind.
    pub fn messages(&self, from: Rank) -> u64 {
        let sends = [
            Kind::Put,
            Kind::Get,
            Kind::Accumulate,
            Kind::Atomic,
            Kind::Post,
            Kind::PutSignal,
            Kind::Call,
        ];
        let others = (0..self.ranks as u32).map(Rank).filter(|&to| to != from);
        others
            .map(|to| sends.iter().map(|&kind| self.operations(from, kind, to)).sum::<u64>())
            .sum()
    }

    /// Back to zero.
    pub fn reset(&self) {
        for cell in self.cells.iter() {
            cell.operations.store(0, Ordering::Relaxed);
            cell.bytes.store(0, Ordering::Relaxed);
        }
    }

    fn cell(&self, from: Rank, kind: Kind, to: Option<Rank>) -> &Cell {
        let to = to.map_or(self.ranks, Rank::index).min(self.ranks);
        &self.cells[(from.index() * Kind::ALL.len() + kind as usize) * (self.ranks + 1) + to]
    }

    fn count(&self, rank: Rank, operation: &Operation) {
        let cell = self.cell(rank, operation.kind, operation.peer);
        cell.operations.fetch_add(1, Ordering::Relaxed);
        cell.bytes.fetch_add(operation.bytes, Ordering::Relaxed);
    }
}

impl Probe for Counts {
    fn event(&self, event: ProbeEvent<'_>) -> Option<u64> {
        if let ProbeEvent::Begin { rank, operation } = event {
            self.count(rank, operation);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_counted_where_they_belong() {
        let counts = Counts::new(3);
        let put = Operation { kind: Kind::Put, peer: Some(Rank(2)), bytes: 40 };
        counts.count(Rank(1), &put);
        counts.count(Rank(1), &put);
        counts.count(Rank(1), &Operation { kind: Kind::Fence, peer: None, bytes: 0 });
        counts.count(Rank(1), &Operation { kind: Kind::Atomic, peer: Some(Rank(1)), bytes: 8 });
        assert_eq!(counts.operations(Rank(1), Kind::Put, Rank(2)), 2);
        assert_eq!(counts.bytes(Rank(1), Kind::Put, Rank(2)), 80);
        assert_eq!(counts.operations(Rank(2), Kind::Put, Rank(1)), 0);
        assert_eq!(counts.total(Rank(1), Kind::Fence), 1);
        assert_eq!(counts.messages(Rank(1)), 2, "an operation on oneself is no message");
        counts.reset();
        assert_eq!(counts.messages(Rank(1)), 0);
    }
}
