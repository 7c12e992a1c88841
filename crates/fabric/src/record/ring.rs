//! The latest operations of a rank, in memory that outlives it: a trace can be made of them
//! whether the rank has ended well or was killed.
//!
//! Each context takes the next slot when an operation begins and fills in the end when it returns.
//! A slot is the writer's alone until the ring has gone around, and carries the number of its
//! operation, so that a late end cannot spoil its successor.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::address::Rank;
use crate::memory::Held;
use crate::observed::{Kind, Observer, Operation};
use crate::tracing::Slice;

/// How many operations of a rank are kept.
pub const RING_OPERATIONS: usize = 1 << 15;

/// Where the peer begins in a slot's word `what`; the kind is below it.
const PEER_SHIFT: u32 = 8;

#[repr(C)]
struct Slot {
    /// One more than the operation's number; zero while the slot is written.
    number: AtomicU64,
    begin_ns: AtomicU64,
    /// [`Slice::NOT_OVER`] until the operation has returned.
    end_ns: AtomicU64,
    bytes: AtomicU64,
    /// Its kind, and one more than its peer, or zero.
    what: AtomicU64,
}

/// The ring of one rank. Memory of zeros is an empty one.
#[repr(C, align(64))]
pub struct Ring {
    next: AtomicU64,
    slots: [Slot; RING_OPERATIONS],
}

/// What was read of a ring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RingReading {
    /// The operations that are there, in the order in which they began. Where each landed is not
    /// known.
    pub slices: Vec<Slice>,
    /// How many earlier operations have made room for them.
    pub dropped: u64,
}

impl Ring {
    /// Notes that an operation begins, and returns its number.
    fn begin(&self, operation: &Operation, now_ns: u64) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let slot = self.slot(number);
        let kind = Kind::ALL.iter().position(|&kind| kind == operation.kind).unwrap_or(0) as u64;
        let peer = operation.peer.map_or(0, |peer| u64::from(peer.0) + 1);
        slot.number.store(0, Ordering::Relaxed);
        slot.begin_ns.store(now_ns, Ordering::Release);
        slot.end_ns.store(Slice::NOT_OVER, Ordering::Release);
        slot.bytes.store(operation.bytes, Ordering::Release);
        slot.what.store(peer << PEER_SHIFT | kind, Ordering::Release);
        slot.number.store(number + 1, Ordering::Release);
        number
    }

    /// Notes that an operation has returned, unless its slot has another by now.
    fn end(&self, number: u64, now_ns: u64) {
        let slot = self.slot(number);
        if slot.number.load(Ordering::Relaxed) == number + 1 {
            slot.end_ns.store(now_ns, Ordering::Release);
        }
    }

    fn slot(&self, number: u64) -> &Slot {
        &self.slots[number as usize % RING_OPERATIONS]
    }

    /// Reads the operations of `rank`. What is being written at this moment is left out.
    pub fn read(&self, rank: Rank) -> RingReading {
        let next = self.next.load(Ordering::Acquire);
        let dropped = next.saturating_sub(RING_OPERATIONS as u64);
        let slices = (dropped..next).filter_map(|number| self.slice(rank, number)).collect();
        RingReading { slices, dropped }
    }

    fn slice(&self, rank: Rank, number: u64) -> Option<Slice> {
        let slot = self.slot(number);
        let is_there = || slot.number.load(Ordering::Acquire) == number + 1;
        let before = is_there();
        let [begin_ns, end_ns, bytes, what] =
            [&slot.begin_ns, &slot.end_ns, &slot.bytes, &slot.what]
                .map(|word| word.load(Ordering::Acquire));
        let kind = *Kind::ALL.get((what & ((1 << PEER_SHIFT) - 1)) as usize)?;
        let peer = (what >> PEER_SHIFT).checked_sub(1).map(|peer| Rank(peer as u32));
        let operation = Operation { kind, peer, bytes };
        (before && is_there()).then_some(Slice {
            rank,
            operation,
            begin_ns,
            end_ns,
            landed_ns: None,
        })
    }
}

/// Writes what its rank does into a ring.
pub struct RingObserver {
    /// The ring.
    pub ring: Held<Ring>,
    /// The clock that all ranks of the machine share, in nanoseconds.
    pub now_ns: fn() -> u64,
}

impl Observer for RingObserver {
    fn begin(&self, _rank: Rank, operation: &Operation) -> u64 {
        self.ring.begin(operation, (self.now_ns)())
    }

    fn end(&self, _rank: Rank, _operation: &Operation, begun: u64) {
        self.ring.end(begun, (self.now_ns)());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Too large for a stack: the tests keep theirs in static memory.
    const fn empty() -> Ring {
        const fn zero() -> AtomicU64 {
            AtomicU64::new(0)
        }
        const fn slot() -> Slot {
            Slot { number: zero(), begin_ns: zero(), end_ns: zero(), bytes: zero(), what: zero() }
        }
        Ring { next: zero(), slots: [const { slot() }; RING_OPERATIONS] }
    }

    fn put(peer: u32) -> Operation {
        Operation { kind: Kind::Put, peer: Some(Rank(peer)), bytes: 64 }
    }

    #[test]
    fn what_has_not_returned_is_there_too() {
        static RING: Ring = empty();
        let ring = &RING;
        let first = ring.begin(&put(1), 10);
        ring.end(first, 15);
        ring.begin(&Operation { kind: Kind::Wait, peer: None, bytes: 0 }, 20);
        let slices = ring.read(Rank(3)).slices;
        let seen: Vec<_> = slices.iter().map(|slice| (slice.begin_ns, slice.end_ns)).collect();
        assert_eq!(seen, [(10, 15), (20, Slice::NOT_OVER)]);
        assert_eq!((slices[0].rank, slices[0].operation), (Rank(3), put(1)));
        assert_eq!(slices[1].operation.kind, Kind::Wait);
    }

    #[test]
    fn the_latest_are_kept_and_a_late_end_spoils_none() {
        static RING: Ring = empty();
        let ring = &RING;
        let first = ring.begin(&put(1), 1);
        for number in 0..RING_OPERATIONS as u64 + 2 {
            let begun = ring.begin(&put(2), 100 + number);
            ring.end(begun, 200 + number);
        }
        ring.end(first, 5);
        let reading = ring.read(Rank(0));
        assert_eq!((reading.slices.len(), reading.dropped), (RING_OPERATIONS, 3));
        assert!(reading.slices.iter().all(|slice| slice.end_ns == slice.begin_ns + 100));
    }
}
