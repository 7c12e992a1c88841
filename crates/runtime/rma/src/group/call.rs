//! A collective call: what all members must agree on, and what a member knows of one that it has
//! entered.

use std::panic::Location;
use std::sync::{Arc, OnceLock};

use farside_fabric::{Rank, SegmentId};

use super::area::PLACES;
use super::kinds::BarrierKind;

/// A collective call, as far as all members must agree on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) kind: Kind,
    /// A length, mostly.
    pub(crate) size: u64,
    /// A root, mostly.
    pub(crate) root: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Kind {
    Barrier = 1,
    Broadcast,
    Reduce,
    AllReduce,
    AllGather,
    AllToAll,
    Words,
    Free,
    Sync,
    AllToAllV,
    Scan,
    ExclusiveScan,
    BarrierNb,
    AllReduceNb,
    Leave,
}

impl Kind {
    const ALL: [Kind; 15] = [
        Kind::Barrier,
        Kind::Broadcast,
        Kind::Reduce,
        Kind::AllReduce,
        Kind::AllGather,
        Kind::AllToAll,
        Kind::Words,
        Kind::Free,
        Kind::Sync,
        Kind::AllToAllV,
        Kind::Scan,
        Kind::ExclusiveScan,
        Kind::BarrierNb,
        Kind::AllReduceNb,
        Kind::Leave,
    ];

    /// Returns its name where ranks that wait in it are shown.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Barrier => "barrier",
            Kind::Broadcast => "broadcast",
            Kind::Reduce => "reduce",
            Kind::AllReduce => "all_reduce",
            Kind::AllGather => "all_gather",
            Kind::AllToAll => "all_to_all",
            Kind::Words => "words",
            Kind::Free => "free",
            Kind::Sync => "sync",
            Kind::AllToAllV => "all_to_all_v",
            Kind::Scan => "scan",
            Kind::ExclusiveScan => "exclusive_scan",
            Kind::BarrierNb => "barrier_nb",
            Kind::AllReduceNb => "all_reduce_nb",
            Kind::Leave => "leave",
        }
    }

    pub(crate) fn from_bits(bits: u64) -> Option<Kind> {
        Kind::ALL.into_iter().find(|&kind| kind as u64 == bits)
    }
}

impl Call {
    pub(crate) const BARRIER: Call = Call { kind: Kind::Barrier, size: 0, root: 0 };
    pub(crate) const SYNC: Call = Call { kind: Kind::Sync, size: 0, root: 0 };
    pub(crate) const LEAVE: Call = Call { kind: Kind::Leave, size: 0, root: 0 };
    pub(crate) const BARRIER_NB: Call = Call { kind: Kind::BarrierNb, size: 0, root: 0 };

    pub(crate) fn new(kind: Kind, size: usize) -> Call {
        Call { kind, size: size as u64, root: 0 }
    }

    /// A barrier of one kind: 0 is the group's own choice.
    pub(crate) fn barrier(kind: BarrierKind) -> Call {
        Call::new(Kind::Barrier, 1 + kind as usize)
    }

    pub(crate) fn free(segment: SegmentId, start: u64) -> Call {
        Call { kind: Kind::Free, size: segment.0, root: start }
    }

    pub(crate) fn rooted(kind: Kind, size: usize, root: Rank) -> Call {
        Call { kind, size: size as u64, root: root.0.into() }
    }

    /// Returns 31 bits that differ, as good as always, when the calls do.
    pub(crate) fn digest(&self) -> u64 {
        let mix = |hash: u64, value: u64| {
            (hash ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)
        };
        [self.kind as u64, self.size, self.root].into_iter().fold(7, mix) >> 33
    }

    pub(crate) fn describe(&self) -> String {
        let Call { size, root, .. } = self;
        match self.kind {
            Kind::Barrier => match BarrierKind::ALL.get((*size as usize).wrapping_sub(1)) {
                Some(kind) => format!("a {} barrier", kind.name()),
                None => "a barrier".into(),
            },
            Kind::Broadcast => format!("a broadcast of {size} bytes from rank {root}"),
            Kind::Reduce => format!("a reduction of {size} bytes to rank {root}"),
            Kind::AllReduce => format!("an all-reduce of {size} bytes"),
            Kind::AllGather => format!("an all-gather of {size} bytes from each"),
            Kind::AllToAll => format!("an all-to-all of {size} bytes to each"),
            Kind::Words => format!("an allocation of {size} words"),
            Kind::Free => format!("freeing {}, from byte {root} on", SegmentId(*size)),
            Kind::Sync => "a sync".into(),
            Kind::AllToAllV => {
                format!("an all-to-all of unequal parts, with elements of {size} bytes")
            }
            Kind::Scan => format!("a scan of {size} bytes"),
            Kind::ExclusiveScan => format!("an exclusive scan of {size} bytes"),
            Kind::BarrierNb => "a non-blocking barrier".into(),
            Kind::AllReduceNb => format!("a non-blocking all-reduce of {size} bytes"),
            Kind::Leave => "the end of its program".into(),
        }
    }
}

/// A collective that was entered: its number in the team's history, the number of its meeting if it
/// has one, and its call.
///
/// Meetings have numbers of their own: what is used in turns by two meetings in a row must not
/// depend on how many collectives without a meeting came between them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    pub(crate) sequence: u32,
    pub(crate) meeting: u32,
    pub(crate) call: Call,
    pub(crate) place: &'static Location<'static>,
}

impl Step {
    /// Returns the flag of a message of this step: a number and the digest of the call.
    pub(crate) fn tag(&self, number: u32) -> u64 {
        (u64::from(number) << 32) | self.call.digest()
    }

    /// Returns the signal that releases a member from this step's meeting: the number alone, since
    /// the calls were compared on the way to the one that releases.
    pub(crate) fn release(&self) -> u64 {
        u64::from(self.meeting) << 32
    }
}

/// A non-blocking collective that was started.
#[derive(Clone)]
pub(crate) struct Started {
    pub(crate) step: Step,
    /// Its number among the non-blocking collectives of the group.
    pub(crate) number: u32,
    /// The length of its result.
    pub(crate) bytes: usize,
    /// The result, once the place was needed for another one.
    pub(crate) kept: Arc<OnceLock<Vec<u8>>>,
}

impl Started {
    pub(crate) fn place(&self) -> u32 {
        self.number % PLACES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_tell_calls_apart() {
        let calls = [
            Call::BARRIER,
            Call::SYNC,
            Call::BARRIER_NB,
            Call::LEAVE,
            Call::new(Kind::AllReduce, 8),
            Call::new(Kind::AllReduceNb, 8),
            Call::new(Kind::Scan, 8),
            Call::new(Kind::ExclusiveScan, 8),
            Call::new(Kind::AllToAllV, 8),
            Call::barrier(BarrierKind::Central),
            Call::barrier(BarrierKind::Binomial),
            Call::new(Kind::AllGather, 8),
            Call::new(Kind::AllGather, 16),
            Call::rooted(Kind::Broadcast, 8, Rank(0)),
            Call::rooted(Kind::Broadcast, 8, Rank(1)),
            Call::rooted(Kind::Reduce, 8, Rank(1)),
        ];
        for (at, a) in calls.iter().enumerate() {
            assert!(a.digest() < 1 << 31);
            assert!(calls[at + 1..].iter().all(|b| a.digest() != b.digest()), "{a:?}");
            assert_eq!(Kind::from_bits(a.kind as u64), Some(a.kind));
        }
    }
}
