//! Operations: what they carry, and the bytes that they touch.

use std::hash::Hasher as _;

use farside_fabric::{
    Accumulate, Atomic, HandlerId, Kind, Node, OldValue, Piece, Rank, SegmentId, Ticket, Word,
};

use crate::event::{Access, EventId, What};

pub(crate) enum Body {
    Put { segment: SegmentId, pieces: Vec<Piece>, bytes: Vec<u8> },
    Get { segment: SegmentId, pieces: Vec<Piece>, into: *mut u8 },
    Accumulate(Accumulation),
    Atomic { at: Word, op: Atomic },
    Call { node: Node, handler: HandlerId, bytes: Vec<u8> },
}

pub(crate) struct Accumulation {
    pub(crate) segment: SegmentId,
    pub(crate) pieces: Vec<Piece>,
    pub(crate) accumulate: Accumulate,
    pub(crate) bytes: Vec<u8>,
    pub(crate) old: OldValue,
}

impl Body {
    /// Returns the bytes that it will touch at `target`; `None` if they are not known beforehand.
    pub(crate) fn accesses(&self, target: Rank) -> Option<Vec<Access>> {
        let all = |segment: SegmentId, pieces: &[Piece], writes: bool| {
            let access = |piece: &Piece| Access {
                rank: target,
                segment,
                start: piece.offset,
                end: piece.offset + piece.bytes,
                writes,
            };
            Some(pieces.iter().map(access).collect())
        };
        match self {
            Body::Put { segment, pieces, .. } => all(*segment, pieces, true),
            Body::Get { segment, pieces, .. } => all(*segment, pieces, false),
            // Some commute, but a read in between sees the difference.
            Body::Accumulate(Accumulation { segment, pieces, accumulate, .. }) => {
                all(*segment, pieces, accumulate.writes())
            }
            Body::Atomic { at, op } => Some(vec![word_access(*at, op.writes())]),
            Body::Call { .. } => None,
        }
    }

    /// The segment that it touches; a call touches what it likes.
    pub(crate) fn segment(&self) -> Option<SegmentId> {
        match self {
            Body::Put { segment, .. }
            | Body::Get { segment, .. }
            | Body::Accumulate(Accumulation { segment, .. }) => Some(*segment),
            Body::Atomic { at, .. } => Some(at.segment),
            Body::Call { .. } => None,
        }
    }

    /// Returns the number of bytes that it takes to its target, beside the address.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Body::Put { bytes, .. }
            | Body::Accumulate(Accumulation { bytes, .. })
            | Body::Call { bytes, .. } => bytes.len() as u64,
            Body::Get { .. } => 0,
            Body::Atomic { at, .. } => at.width.bytes(),
        }
    }

    pub(crate) fn kind(&self, fetching: bool) -> Kind {
        match self {
            Body::Put { .. } => Kind::Put,
            Body::Get { .. } => Kind::Get,
            Body::Accumulate(_) => Kind::Accumulate,
            Body::Atomic { .. } if fetching => Kind::Atomic,
            Body::Atomic { .. } => Kind::Post,
            Body::Call { .. } => Kind::Call,
        }
    }

    /// A number for the cache line that it touches first.
    pub(crate) fn first_line(&self) -> u64 {
        let (segment, offset) = match self {
            Body::Put { segment, pieces, .. }
            | Body::Get { segment, pieces, .. }
            | Body::Accumulate(Accumulation { segment, pieces, .. }) => {
                (*segment, pieces.first().map_or(0, |piece| piece.offset))
            }
            Body::Atomic { at, .. } => (at.segment, at.offset),
            Body::Call { .. } => (SegmentId::ROOT, 0),
        };
        segment.0.rotate_left(32) ^ (offset / 64)
    }

    /// Returns a description for people to read, and to compare runs by.
    pub(crate) fn what(&self, target: Rank) -> What {
        match self {
            Body::Put { bytes, .. } => What::Put(bytes.len() as u64, target, digest(bytes)),
            Body::Get { .. } => What::Get(target),
            Body::Accumulate(body) => What::Accumulate(target, digest(&body.bytes)),
            Body::Atomic { at, op } => What::Atomic(*op, *at),
            Body::Call { handler, node, bytes } => What::Call(*handler, *node, digest(bytes)),
        }
    }
}

/// Tells what an operation carries from what it carried in another run.
fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = rustc_hash::FxHasher::default();
    hasher.write(bytes);
    hasher.finish()
}

pub(crate) fn ticket(id: EventId) -> Ticket {
    Ticket(id.serial.into())
}

pub(crate) fn word_access(at: Word, writes: bool) -> Access {
    Access {
        rank: at.rank,
        segment: at.segment,
        start: at.offset,
        end: at.offset + at.width.bytes(),
        writes,
    }
}
