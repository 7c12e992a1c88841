//! The latest operations of a rank, or those that a thread served, in memory that outlives it: a
//! trace can be made of them whether the rank has ended well or was killed.
//!
//! Each context takes the next slot when an operation begins and fills in the end when it returns.
//! A slot is the writer's alone until the ring has gone around, and carries the number of its
//! operation, so that a late end cannot spoil its successor.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::memory::Held;
use crate::names::Rank;
use crate::probe::{Kind, Operation, Probe, ProbeEvent};
use crate::tracing::{Server, Service, Slice};

/// How many operations of a rank are kept.
pub const RING_OPERATIONS: usize = 1 << 15;

/// Where the peer and the target begin in a slot's word `what`; the kind is below them.
const PEER_SHIFT: u32 = 8;
const TARGET_SHIFT: u32 = 36;

#[repr(C)]
struct Slot {
    /// One more than the operation's number; zero while the slot is written.
    number: AtomicU64,
    begin_ns: AtomicU64,
    /// [`Slice::NOT_OVER`] until the operation has returned.
    end_ns: AtomicU64,
    bytes: AtomicU64,
    /// Its kind, and one more than its peer and than its target, or zero. A job has fewer ranks
    /// than fit.
    what: AtomicU64,
}

/// The ring of one rank, or of one thread that serves. Memory of zeros is an empty one.
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

/// What was read of the ring of a thread that serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceReading {
    /// What it served, in the order in which it began.
    pub services: Vec<Service>,
    /// How much it served earlier.
    pub dropped: u64,
}

struct Entry {
    operation: Operation,
    target: Option<Rank>,
    begin_ns: u64,
    end_ns: u64,
}

impl Ring {
    /// Notes that an operation begins, and returns its number.
    fn begin(&self, operation: &Operation, target: Option<Rank>, now_ns: u64) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let slot = self.slot(number);
        let kind = Kind::ALL.iter().position(|&kind| kind == operation.kind).unwrap_or(0) as u64;
        let packed = |rank: Option<Rank>| rank.map_or(0, |rank| u64::from(rank.0) + 1);
        let ranks = packed(operation.peer) << PEER_SHIFT | packed(target) << TARGET_SHIFT;
        slot.number.store(0, Ordering::Relaxed);
        slot.begin_ns.store(now_ns, Ordering::Release);
        slot.end_ns.store(Slice::NOT_OVER, Ordering::Release);
        slot.bytes.store(operation.bytes, Ordering::Release);
        slot.what.store(ranks | kind, Ordering::Release);
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
        let (entries, dropped) = self.entries();
        let slice = |entry: Entry| {
            let Entry { operation, begin_ns, end_ns, .. } = entry;
            Slice { rank, operation, begin_ns, end_ns, landed_ns: None }
        };
        RingReading { slices: entries.map(slice).collect(), dropped }
    }

    /// Likewise, what `server` has served.
    pub fn read_services(&self, server: Server) -> ServiceReading {
        let (entries, dropped) = self.entries();
        let service = |entry: Entry| {
            let Entry { operation, target, begin_ns, end_ns } = entry;
            Service { server, operation, target, begin_ns, end_ns }
        };
        ServiceReading { services: entries.map(service).collect(), dropped }
    }

    /// The entries that are there, and how many were before them.
    fn entries(&self) -> (impl Iterator<Item = Entry>, u64) {
        let next = self.next.load(Ordering::Acquire);
        let dropped = next.saturating_sub(RING_OPERATIONS as u64);
        ((dropped..next).filter_map(|number| self.entry(number)), dropped)
    }

    fn entry(&self, number: u64) -> Option<Entry> {
        let slot = self.slot(number);
        let is_there = || slot.number.load(Ordering::Acquire) == number + 1;
        let before = is_there();
        let [begin_ns, end_ns, bytes, what] =
            [&slot.begin_ns, &slot.end_ns, &slot.bytes, &slot.what]
                .map(|word| word.load(Ordering::Acquire));
        let kind = *Kind::ALL.get((what & ((1 << PEER_SHIFT) - 1)) as usize)?;
        let unpacked = |bits: u64| bits.checked_sub(1).map(|rank| Rank(rank as u32));
        let peer = unpacked(what >> PEER_SHIFT & ((1 << (TARGET_SHIFT - PEER_SHIFT)) - 1));
        let target = unpacked(what >> TARGET_SHIFT);
        let operation = Operation { kind, peer, bytes };
        (before && is_there()).then_some(Entry { operation, target, begin_ns, end_ns })
    }
}

/// Writes what its rank does, or what a thread serves, into a ring.
#[derive(Clone)]
pub struct RingProbe {
    /// The ring.
    pub ring: Held<Ring>,
    /// The clock that all ranks of the machine share, in nanoseconds.
    pub now_ns: fn() -> u64,
}

impl RingProbe {
    /// Notes that an operation on the memory of `target` begins that another rank, its peer, has
    /// asked for. What is returned is given to [`RingProbe::served`].
    pub fn serve(&self, operation: &Operation, target: Option<Rank>) -> u64 {
        self.ring.begin(operation, target, (self.now_ns)())
    }

    /// Notes that it is done.
    pub fn served(&self, begun: u64) {
        self.ring.end(begun, (self.now_ns)());
    }
}

impl Probe for RingProbe {
    fn event(&self, event: ProbeEvent<'_>) -> Option<u64> {
        match event {
            ProbeEvent::Begin { operation, .. } => Some(self.serve(operation, None)),
            ProbeEvent::End { begun, .. } => {
                self.served(begun);
                None
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Node;

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
        let first = ring.begin(&put(1), None, 10);
        ring.end(first, 15);
        ring.begin(&Operation { kind: Kind::Wait, peer: None, bytes: 0 }, None, 20);
        let slices = ring.read(Rank(3)).slices;
        let seen: Vec<_> = slices.iter().map(|slice| (slice.begin_ns, slice.end_ns)).collect();
        assert_eq!(seen, [(10, 15), (20, Slice::NOT_OVER)]);
        assert_eq!((slices[0].rank, slices[0].operation), (Rank(3), put(1)));
        assert_eq!(slices[1].operation.kind, Kind::Wait);
    }

    #[test]
    fn what_a_thread_served_says_for_whom_and_where() {
        static RING: Ring = empty();
        let (ring, most) = (&RING, (1 << (TARGET_SHIFT - PEER_SHIFT)) - 2);
        for (at, (peer, target)) in
            [(0, Some(Rank(0))), (most, Some(Rank(most))), (3, None)].into_iter().enumerate()
        {
            let begun = ring.begin(&put(peer), target, 10 * at as u64);
            ring.end(begun, 10 * at as u64 + 1);
        }
        let server = Server::Agent(Node(1));
        let read = ring.read_services(server);
        let service = |peer: u32, target, begin_ns| Service {
            server,
            operation: put(peer),
            target,
            begin_ns,
            end_ns: begin_ns + 1,
        };
        let (first, second) = (service(0, Some(Rank(0)), 0), service(most, Some(Rank(most)), 10));
        assert_eq!(read.services, [first, second, service(3, None, 20)]);
        assert_eq!(read.dropped, 0);
    }

    #[test]
    fn the_latest_are_kept_and_a_late_end_spoils_none() {
        static RING: Ring = empty();
        let ring = &RING;
        let first = ring.begin(&put(1), None, 1);
        for number in 0..RING_OPERATIONS as u64 + 2 {
            let begun = ring.begin(&put(2), None, 100 + number);
            ring.end(begun, 200 + number);
        }
        ring.end(first, 5);
        let reading = ring.read(Rank(0));
        assert_eq!((reading.slices.len(), reading.dropped), (RING_OPERATIONS, 3));
        assert!(reading.slices.iter().all(|slice| slice.end_ns == slice.begin_ns + 100));
    }
}
