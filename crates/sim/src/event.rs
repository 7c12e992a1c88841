//! Events: what can happen next in a simulated job.

use farside_fabric::{Atomic, HandlerId, Node, Rank, SegmentId, Word};

/// Names an event: the rank that caused it, and its number among that rank's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId {
    /// Who caused it.
    pub rank: Rank,
    /// Its number among that rank's.
    pub serial: u32,
}

/// Bytes that an event touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// Whose memory.
    pub rank: Rank,
    /// Which segment.
    pub segment: SegmentId,
    /// The first byte.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
    /// Whether it writes.
    pub writes: bool,
}

impl Access {
    /// Whether the order of two accesses matters.
    pub fn conflicts(&self, other: &Access) -> bool {
        (self.writes || other.writes)
            && self.rank == other.rank
            && self.segment == other.segment
            && self.start < other.end
            && other.start < self.end
    }
}

/// Something that can happen next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its name.
    pub id: EventId,
    /// What it touches; `None` if that is not known beforehand, which conflicts with everything.
    pub accesses: Option<Vec<Access>>,
    /// What it is, for people to read.
    pub what: What,
}

/// What an event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// A put of so many bytes lands at a rank.
    Put(u64, Rank),
    /// A get reads at a rank.
    Get(Rank),
    /// An accumulate lands at a rank.
    Accumulate(Rank),
    /// An atomic is executed on a word.
    Atomic(Atomic, Word),
    /// A handler runs at a node.
    Call(HandlerId, Node),
    /// A waiter sees that its word is as it should be.
    Wait,
}

impl std::fmt::Display for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: ", self.id.rank)?;
        match self.what {
            What::Put(bytes, to) => write!(f, "put of {bytes} bytes to {to}"),
            What::Get(from) => write!(f, "get from {from}"),
            What::Accumulate(to) => write!(f, "accumulate to {to}"),
            What::Atomic(op, at) => write!(f, "{op:?} at byte {} of {} of {}", at.offset, at.segment, at.rank),
            What::Call(handler, node) => write!(f, "call of handler {} at {node}", handler.0),
            What::Wait => write!(f, "sees its word"),
        }
    }
}
