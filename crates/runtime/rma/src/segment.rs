//! What a window is made of, without its type: a segment with a part on every member.

use std::ops::Range;
use std::panic::Location;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use farside_fabric::{
    Connection, Error, Mapped, OwnAccess, OwnPlace, Probe, ProbeEvent, Rank, Result, SegmentId,
};

use crate::failed_calls::FailedCalls;

/// A segment as this rank sees it. What it takes to know it grows with the ranks of the node, not
/// of the job, where all parts are of one length.
pub(crate) struct Segment {
    pub(crate) id: SegmentId,
    ranks: u32,
    /// The parts that plain instructions reach, from this rank's on; ranks in between that they do
    /// not reach have `None`. Once the segment is freed, the first is none of the job's: then
    /// nothing is near, and operations through handles that outlived it fail in the fabric.
    first_near: AtomicU32,
    near: Box<[Option<Near>]>,
    lengths: Lengths,
    pub(crate) members: Arc<[Rank]>,
    traffic: Traffic,
    pub(crate) me: Rank,
    pub(crate) own: Mapped,
    /// What is told of accesses to the own part, if this job is checked for races or explored.
    pub(crate) probe: Option<Arc<dyn Probe>>,
    pub(crate) failed: Arc<FailedCalls>,
    /// The name that the program gave it.
    pub(crate) name: OnceLock<String>,
}

/// Whether what is posted to a segment counts as landings ([`Context::count_landings`]).
///
/// [`Context::count_landings`]: crate::Context::count_landings
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Traffic {
    Counted,
    /// It belongs to a protocol that does the counting.
    Uncounted,
}

struct Near {
    mapped: Mapped,
    bytes: u64,
}

enum Lengths {
    /// All ranks of the job have a part of this length.
    Alike(u64),
    /// The length of each rank's part; `None` for ranks that have none.
    Each(Box<[Option<u64>]>),
}

pub(crate) struct Part<'s> {
    /// Its memory, if plain instructions reach it.
    pub(crate) near: Option<&'s Mapped>,
    pub(crate) bytes: u64,
}

impl Segment {
    /// Registers this rank's part of a segment, and returns its memory. After an error nothing is
    /// left of it.
    pub(crate) fn register(
        fabric: &dyn Connection,
        id: SegmentId,
        bytes: u64,
        traffic: Traffic,
    ) -> Result<Mapped> {
        fabric.register(id, bytes)?;
        let excluded = match (traffic, fabric.landings()) {
            (Traffic::Uncounted, Some(landings)) => landings.exclude(id),
            _ => Ok(()),
        };
        let own = excluded.and_then(|()| Segment::own(fabric, id));
        if own.is_err() {
            fabric.deregister(id)?;
        }
        own
    }

    /// Returns this rank's part of a segment that it has registered.
    pub(crate) fn own(fabric: &dyn Connection, id: SegmentId) -> Result<Mapped> {
        let me = fabric.job().rank;
        fabric.map(me, id)?.ok_or(Error::NoSegment { rank: me, segment: id })
    }

    /// Looks up the parts of a segment that all `members` have registered; this rank has its own
    /// already. `bytes_of` gives the length of each, by its index.
    pub(crate) fn open(
        fabric: &dyn Connection,
        (id, own): (SegmentId, Mapped),
        members: Arc<[Rank]>,
        traffic: Traffic,
        bytes_of: &dyn Fn(usize) -> u64,
        failed: Arc<FailedCalls>,
    ) -> Segment {
        let job = fabric.job();
        let (topology, me, ranks) = (job.topology, job.rank, job.topology.ranks());
        let bytes = bytes_of(0);
        let lengths = if members.len() as u32 == ranks
            && (1..members.len()).all(|at| bytes_of(at) == bytes)
        {
            Lengths::Alike(bytes)
        } else {
            let mut each: Box<[Option<u64>]> = vec![None; ranks as usize].into();
            members
                .iter()
                .enumerate()
                .for_each(|(at, rank)| each[rank.index()] = Some(bytes_of(at)));
            Lengths::Each(each)
        };
        let here = if job.caps.direct { topology.ranks_of(topology.node_of(me)) } else { &[] };
        let reach = |&rank: &Rank| {
            let bytes = lengths.of(rank)?;
            // What cannot be mapped is far: an operation on it says why.
            let mapped = fabric.map(rank, id).ok()??;
            Some((rank, Near { mapped, bytes }))
        };
        let reached: Vec<(Rank, Near)> = here.iter().filter_map(reach).collect();
        let first_near = reached.first().map_or(Rank(0), |(rank, _)| *rank);
        let span = reached.last().map_or(0, |(rank, _)| rank.index() + 1 - first_near.index());
        let mut near: Box<[Option<Near>]> = (0..span).map(|_| None).collect();
        for (rank, part) in reached {
            near[rank.index() - first_near.index()] = Some(part);
        }
        let probe = fabric.probe();
        let name = OnceLock::new();
        Segment {
            id,
            ranks,
            first_near: AtomicU32::new(first_near.0),
            near,
            lengths,
            members,
            traffic,
            me,
            own,
            probe,
            failed,
            name,
        }
    }

    /// Returns what errors call it.
    pub(crate) fn said(&self) -> String {
        self.name.get().map_or_else(|| "this window".into(), |name| format!("window {name:?}"))
    }

    /// Tells a checker, if there is one, of an access to the own part.
    #[inline]
    #[track_caller]
    pub(crate) fn tell_own(&self, offset: u64, bytes: u64, writes: bool) {
        if let Some(probe) = &self.probe {
            tell_own(&**probe, self.id, offset..offset + bytes, writes);
        }
    }

    /// Tells a checker, if there is one, that it cannot follow what is lent.
    #[inline]
    #[track_caller]
    pub(crate) fn tell_lent(&self, what: &'static str) {
        if let Some(probe) = &self.probe {
            probe.event(ProbeEvent::Lent { what, place: Location::caller() });
        }
    }

    /// Whether what is posted to it counts as landings.
    #[inline]
    pub(crate) fn is_counted(&self) -> bool {
        self.traffic == Traffic::Counted
    }

    /// Lets no operation reach its memory by plain instructions any more: that may be another
    /// segment's soon.
    pub(crate) fn end(&self) {
        self.first_near.store(self.ranks, Ordering::Relaxed);
    }

    /// Whether it was freed.
    #[inline(always)]
    pub(crate) fn has_ended(&self) -> bool {
        self.first_near.load(Ordering::Relaxed) == self.ranks
    }

    #[inline(always)]
    fn near_part(&self, rank: Rank) -> Option<&Near> {
        // Ranks ahead of the first come out far beyond the end.
        let first = self.first_near.load(Ordering::Relaxed);
        self.near.get(rank.0.wrapping_sub(first) as usize)?.as_ref()
    }

    #[inline(always)]
    pub(crate) fn near(&self, rank: Rank) -> Option<&Mapped> {
        self.near_part(rank).map(|part| &part.mapped)
    }

    #[inline]
    pub(crate) fn part(&self, rank: Rank) -> Result<Part<'_>> {
        match self.near_part(rank) {
            Some(part) => Ok(Part { near: Some(&part.mapped), bytes: part.bytes }),
            None => self.far_part(rank),
        }
    }

    fn far_part(&self, rank: Rank) -> Result<Part<'_>> {
        if rank.0 >= self.ranks {
            return Err(Error::UnknownRank { rank, ranks: self.ranks });
        }
        let bytes = self.lengths.of(rank).ok_or(Error::NotAMember { rank, of: "window" })?;
        Ok(Part { near: None, bytes })
    }

    #[cold]
    pub(crate) fn out_of_range(&self, rank: Rank, offset: u64, bytes: u64) -> Error {
        let segment_bytes = self.part(rank).map_or(0, |part| part.bytes);
        Error::OutOfRange { rank, segment: self.id, offset, bytes, segment_bytes }
    }
}

/// Tells a checker that this rank is about to read or write memory of its own.
#[track_caller]
pub(crate) fn tell_own(probe: &dyn Probe, segment: SegmentId, bytes: Range<u64>, writes: bool) {
    probe.event(ProbeEvent::Own(&OwnAccess {
        owner: None,
        segment,
        offset: bytes.start,
        bytes: bytes.end - bytes.start,
        writes,
        place: OwnPlace::Rust(Location::caller()),
        is_instruction: true,
        until: None,
        is_signalled: false,
    }));
}

impl Lengths {
    /// The length of a rank's part; it must be a rank of the job.
    fn of(&self, rank: Rank) -> Option<u64> {
        match self {
            Lengths::Alike(bytes) => Some(*bytes),
            Lengths::Each(each) => each[rank.index()],
        }
    }
}
