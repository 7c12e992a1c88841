//! What a window is made of, without its type: a segment with a part on every member.

use std::sync::Arc;

use farside_fabric::{Error, Fabric, Mapped, Rank, Result, SegmentId};

/// A segment as this rank sees it. What it takes to know it grows with the ranks of the node, not
/// of the job, where all parts are of one length.
pub(crate) struct Segment {
    pub(crate) id: SegmentId,
    /// How many ranks the job has.
    ranks: u32,
    /// The parts that plain instructions reach, from this rank's on; ranks in between that they do
    /// not reach have `None`.
    first_near: Rank,
    near: Box<[Option<Near>]>,
    lengths: Lengths,
    pub(crate) members: Arc<[Rank]>,
    /// This rank's part.
    pub(crate) own: Mapped,
}

struct Near {
    mapped: Mapped,
    bytes: u64,
}

/// How long the parts are.
enum Lengths {
    /// All ranks of the job have a part of this length.
    Alike(u64),
    /// The length of each rank's part; `None` for ranks that have none.
    Each(Box<[Option<u64>]>),
}

/// One rank's part.
pub(crate) struct Part<'s> {
    /// Its memory, if plain instructions reach it.
    pub(crate) near: Option<&'s Mapped>,
    pub(crate) bytes: u64,
}

impl Segment {
    /// Looks up the parts of a segment that all `members` have exposed; `bytes_of` gives the length
    /// of each, by its index.
    pub(crate) fn open(
        fabric: &dyn Fabric,
        id: SegmentId,
        members: Arc<[Rank]>,
        bytes_of: &dyn Fn(usize) -> u64,
    ) -> Result<Segment> {
        let (topology, ranks) = (fabric.topology(), fabric.topology().ranks());
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
        let here = topology.ranks_of(topology.node_of(fabric.rank()));
        let reach = |&rank: &Rank| {
            let bytes = lengths.of(rank)?;
            fabric.near(rank, id).map(|mapped| (rank, Near { mapped, bytes }))
        };
        let reached: Vec<(Rank, Near)> = here.iter().filter_map(reach).collect();
        let first_near = reached.first().map_or(Rank(0), |(rank, _)| *rank);
        let span = reached.last().map_or(0, |(rank, _)| rank.index() + 1 - first_near.index());
        let mut near: Box<[Option<Near>]> = (0..span).map(|_| None).collect();
        for (rank, part) in reached {
            near[rank.index() - first_near.index()] = Some(part);
        }
        Ok(Segment { id, ranks, first_near, near, lengths, members, own: fabric.own(id)? })
    }

    /// A rank's part.
    #[inline]
    pub(crate) fn part(&self, rank: Rank) -> Result<Part<'_>> {
        // Ranks ahead of the first come out far beyond the end.
        match self.near.get(rank.0.wrapping_sub(self.first_near.0) as usize) {
            Some(Some(part)) => Ok(Part { near: Some(&part.mapped), bytes: part.bytes }),
            _ => self.far_part(rank),
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

impl Lengths {
    /// The length of a rank's part; it must be a rank of the job.
    fn of(&self, rank: Rank) -> Option<u64> {
        match self {
            Lengths::Alike(bytes) => Some(*bytes),
            Lengths::Each(each) => each[rank.index()],
        }
    }
}
