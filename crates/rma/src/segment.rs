//! What a window is made of, without its type: a segment with a part on every member.

use std::sync::Arc;

use farside_fabric::{Error, Fabric, Mapped, Rank, Result, SegmentId};

/// A segment as this rank sees it.
pub(crate) struct Segment {
    pub(crate) id: SegmentId,
    /// One for every rank of the job, so that a rank is an index; ranks without a part have `None`.
    parts: Box<[Option<Part>]>,
    pub(crate) members: Arc<[Rank]>,
    /// This rank's part.
    pub(crate) own: Mapped,
}

/// One rank's part.
pub(crate) struct Part {
    /// Its memory, if plain instructions reach it.
    pub(crate) near: Option<Mapped>,
    pub(crate) bytes: u64,
}

impl Segment {
    /// Looks up the parts of a segment that all `members` have exposed; `bytes` gives the length of each.
    pub(crate) fn open(fabric: &dyn Fabric, id: SegmentId, members: Arc<[Rank]>, bytes: &[u64]) -> Result<Segment> {
        let mut parts: Box<[Option<Part>]> = (0..fabric.topology().ranks()).map(|_| None).collect();
        for (&rank, &bytes) in members.iter().zip(bytes) {
            parts[rank.index()] = Some(Part { near: fabric.near(rank, id), bytes });
        }
        Ok(Segment { id, parts, members, own: fabric.own(id)? })
    }

    /// A rank's part.
    #[inline]
    pub(crate) fn part(&self, rank: Rank) -> Result<&Part> {
        match self.parts.get(rank.index()) {
            Some(Some(part)) => Ok(part),
            _ => Err(self.no_part(rank)),
        }
    }

    #[cold]
    fn no_part(&self, rank: Rank) -> Error {
        let ranks = self.parts.len() as u32;
        if rank.0 < ranks { Error::NotAMember { rank, of: "window" } } else { Error::UnknownRank { rank, ranks } }
    }

    #[cold]
    pub(crate) fn out_of_range(&self, rank: Rank, offset: u64, bytes: u64) -> Error {
        let segment_bytes = self.part(rank).map_or(0, |part| part.bytes);
        Error::OutOfRange { rank, segment: self.id, offset, bytes, segment_bytes }
    }
}
