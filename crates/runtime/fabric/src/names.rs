//! The names of ranks, nodes and segments.

use std::fmt;

/// The number of a member of the job, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rank(pub u32);

impl Rank {
    /// Returns the number as an index into a table with one entry per rank.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {}", self.0)
    }
}

/// The number of a node: ranks that share memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node(pub u32);

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}", self.0)
    }
}

/// The name of a segment, the same on every rank that has a part of it, and never used twice in a
/// job: an address that outlived its segment is recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentId(pub u64);

impl SegmentId {
    /// The segment that every rank has from the start: the words and the scratch space of the
    /// collectives. Other names below `1 << 32` are for segments of a fabric's own.
    pub const ROOT: SegmentId = SegmentId(1);

    /// Returns the `count`-th name that `rank` gives, from 1. Ranks give names without asking each
    /// other, and each has `u32::MAX` of them.
    pub fn named_by(rank: Rank, count: u32) -> SegmentId {
        SegmentId(((u64::from(rank.0) + 1) << 32) | u64::from(count))
    }
}

impl fmt::Display for SegmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0 >> 32).checked_sub(1) {
            Some(rank) => write!(f, "segment {}.{}", rank, self.0 as u32),
            None => write!(f, "segment {}", self.0),
        }
    }
}
