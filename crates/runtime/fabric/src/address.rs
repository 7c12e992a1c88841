//! Addresses: words, regions and links.

use std::fmt;

use crate::error::{Error, Result};
use crate::names::{Rank, SegmentId};
use crate::operation::Width;
use crate::strided::walk;

/// A word that atomics apply to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Word {
    /// The owner of the memory.
    pub rank: Rank,
    /// Which segment.
    pub segment: SegmentId,
    /// Its first byte.
    pub offset: u64,
    /// How wide it is.
    pub width: Width,
}

impl Word {
    /// Checks that the word lies within `segment_bytes` and on a multiple of its size.
    pub fn check(&self, segment_bytes: u64) -> Result<()> {
        let bytes = self.width.bytes();
        if !self.offset.is_multiple_of(bytes) {
            return Err(Error::Misaligned { offset: self.offset, align: bytes });
        }
        check_range(self.rank, self.segment, self.offset, bytes, segment_bytes)
    }
}

/// One contiguous piece of a vector transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Its first byte.
    pub offset: u64,
    /// Its length.
    pub bytes: u64,
}

/// Which bytes of a segment a transfer touches, and in which order they stand in the packed
/// message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape<'a> {
    /// One contiguous run.
    Block(Piece),
    /// `counts` rows of `unit` bytes, `strides` bytes apart; the last dimension varies fastest.
    Strided {
        /// The first byte of the first row.
        offset: u64,
        /// How many bytes are contiguous.
        unit: u64,
        /// How many steps there are in each dimension, the slowest first.
        counts: &'a [u64],
        /// How many bytes a step in each dimension is.
        strides: &'a [u64],
    },
    /// A list of contiguous pieces.
    Pieces(&'a [Piece]),
}

impl Shape<'_> {
    /// Returns how many bytes the packed message has, or an error if that overflows or the shape
    /// contradicts itself.
    pub fn bytes(&self) -> Result<u64> {
        let too_much =
            || Error::TooMuch { what: "bytes of a transfer", value: u64::MAX, limit: u64::MAX };
        match self {
            Shape::Block(piece) => Ok(piece.bytes),
            Shape::Strided { unit, counts, strides, .. } => {
                if counts.len() != strides.len() {
                    return Err(Error::Mismatch {
                        what: "dimensions of counts and strides",
                        left: counts.len() as u64,
                        right: strides.len() as u64,
                    });
                }
                counts
                    .iter()
                    .try_fold(*unit, |all, &count| all.checked_mul(count))
                    .ok_or_else(too_much)
            }
            Shape::Pieces(pieces) => pieces
                .iter()
                .try_fold(0u64, |all, piece| all.checked_add(piece.bytes))
                .ok_or_else(too_much),
        }
    }

    /// Calls `each` with every contiguous run, in the order of the packed message.
    pub fn for_each(&self, mut each: impl FnMut(Piece)) {
        match self {
            Shape::Block(piece) => each(*piece),
            Shape::Pieces(pieces) => pieces.iter().copied().for_each(each),
            Shape::Strided { offset, unit, counts, strides } => {
                walk([*offset], counts, [strides], &mut |[offset]| {
                    each(Piece { offset, bytes: *unit });
                    true
                });
            }
        }
    }

    /// Returns the end of the last byte touched, or `None` if that overflows.
    fn end(&self) -> Option<u64> {
        match self {
            Shape::Block(piece) => piece.offset.checked_add(piece.bytes),
            Shape::Pieces(pieces) => pieces
                .iter()
                .try_fold(0u64, |end, piece| Some(end.max(piece.offset.checked_add(piece.bytes)?))),
            Shape::Strided { offset, unit, counts, strides } => {
                if counts.contains(&0) {
                    return Some(*offset);
                }
                let last =
                    counts.iter().zip(*strides).try_fold(*offset, |at, (&count, &stride)| {
                        at.checked_add(stride.checked_mul(count - 1)?)
                    })?;
                last.checked_add(*unit)
            }
        }
    }

    fn start(&self) -> u64 {
        match self {
            Shape::Block(piece) => piece.offset,
            Shape::Pieces(pieces) => pieces.iter().map(|piece| piece.offset).min().unwrap_or(0),
            Shape::Strided { offset, .. } => *offset,
        }
    }
}

/// The far end of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region<'a> {
    /// The owner of the memory.
    pub rank: Rank,
    /// Which segment.
    pub segment: SegmentId,
    /// Which bytes of it.
    pub shape: Shape<'a>,
}

impl<'a> Region<'a> {
    /// One contiguous run.
    pub fn block(rank: Rank, segment: SegmentId, offset: u64, bytes: u64) -> Region<'static> {
        Region { rank, segment, shape: Shape::Block(Piece { offset, bytes }) }
    }

    /// Checks that every byte lies within `segment_bytes`, and returns how many bytes the message
    /// has.
    pub fn check(&self, segment_bytes: u64) -> Result<u64> {
        let bytes = self.shape.bytes()?;
        match self.shape.end() {
            Some(end) if end <= segment_bytes => Ok(bytes),
            end => {
                let offset = self.shape.start();
                let bytes = end.unwrap_or(u64::MAX).saturating_sub(offset);
                Err(Error::OutOfRange {
                    rank: self.rank,
                    segment: self.segment,
                    offset,
                    bytes,
                    segment_bytes,
                })
            }
        }
    }
}

impl Region<'_> {
    /// Checks that a packed message, or the buffer for one, is as long as the region.
    pub fn check_length(&self, message_bytes: usize) -> Result<()> {
        let (left, right) = (self.shape.bytes()?, message_bytes as u64);
        let what = "bytes of a region and of the message";
        if left == right { Ok(()) } else { Err(Error::Mismatch { what, left, right }) }
    }
}

/// Checks that `bytes` at `offset` lie within `segment_bytes`.
pub fn check_range(
    rank: Rank,
    segment: SegmentId,
    offset: u64,
    bytes: u64,
    segment_bytes: u64,
) -> Result<()> {
    match offset.checked_add(bytes) {
        Some(end) if end <= segment_bytes => Ok(()),
        _ => Err(Error::OutOfRange { rank, segment, offset, bytes, segment_bytes }),
    }
}

/// A rank and an offset in one 64-bit word, so that an ordinary atomic swaps a queue's tail.
/// Zero is "nowhere", which is what fresh memory holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Link(u64);

impl Link {
    /// The link that leads nowhere.
    pub const NULL: Link = Link(0);
    /// One more than the highest rank that a link can name.
    pub const RANKS_MAX: u32 = 1 << 24;
    /// One more than the highest offset that a link can name.
    pub const OFFSET_MAX: u64 = (1 << 40) - 1;

    /// A link to `offset` in `rank`'s part of a window that both sides know.
    pub fn new(rank: Rank, offset: u64) -> Result<Link> {
        if rank.0 >= Self::RANKS_MAX {
            return Err(Error::TooMuch {
                what: "rank of a link",
                value: rank.0.into(),
                limit: (Self::RANKS_MAX - 1).into(),
            });
        }
        if offset >= Self::OFFSET_MAX {
            return Err(Error::TooMuch {
                what: "offset of a link",
                value: offset,
                limit: Self::OFFSET_MAX - 1,
            });
        }
        Ok(Link((u64::from(rank.0) << 40) | (offset + 1)))
    }

    /// Returns the link that a word holds.
    #[inline]
    pub fn from_bits(bits: u64) -> Link {
        Link(bits)
    }

    /// Returns the word that holds this link.
    #[inline]
    pub fn bits(self) -> u64 {
        self.0
    }

    /// Returns the rank and the offset that the link names, `None` if it is null.
    #[inline]
    pub fn target(self) -> Option<(Rank, u64)> {
        let offset = self.0 & Self::OFFSET_MAX;
        (offset != 0).then(|| (Rank((self.0 >> 40) as u32), offset - 1))
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.target() {
            Some((rank, offset)) => write!(f, "Link({}+{offset})", rank.0),
            None => write!(f, "Link(null)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn runs(shape: &Shape<'_>) -> Vec<(u64, u64)> {
        let mut runs = Vec::new();
        shape.for_each(|piece| runs.push((piece.offset, piece.bytes)));
        runs
    }

    #[test]
    fn strided_runs_come_in_row_major_order() {
        let shape = Shape::Strided { offset: 8, unit: 4, counts: &[2, 3], strides: &[100, 10] };
        assert_eq!(runs(&shape), [(8, 4), (18, 4), (28, 4), (108, 4), (118, 4), (128, 4)]);
        assert_eq!(shape.bytes(), Ok(24));
        assert_eq!(shape.end(), Some(132));
    }

    #[test]
    fn a_shape_without_steps_touches_nothing() {
        let shape =
            Shape::Strided { offset: 8, unit: 4, counts: &[2, 0], strides: &[u64::MAX, u64::MAX] };
        assert_eq!(runs(&shape), []);
        assert_eq!(shape.bytes(), Ok(0));
    }

    #[test]
    fn overflow_is_out_of_range_and_never_wraps() {
        let shape = Shape::Strided { offset: 8, unit: 4, counts: &[u64::MAX], strides: &[2] };
        let region = Region { rank: Rank(0), segment: SegmentId(7), shape };
        assert!(region.check(u64::MAX).is_err());
        let far = Region::block(Rank(0), SegmentId(7), u64::MAX, 2);
        assert!(matches!(far.check(100), Err(Error::OutOfRange { offset: u64::MAX, .. })));
    }

    #[test]
    fn a_message_is_as_long_as_its_region() {
        let shape = Shape::Strided { offset: 8, unit: 4, counts: &[2, 3], strides: &[100, 10] };
        let region = Region { rank: Rank(0), segment: SegmentId(7), shape };
        assert_eq!(region.check_length(24), Ok(()));
        assert!(matches!(
            region.check_length(23),
            Err(Error::Mismatch { left: 24, right: 23, .. })
        ));
    }

    #[test]
    fn a_misaligned_word_is_named() {
        let word = Word { rank: Rank(0), segment: SegmentId(7), offset: 12, width: Width::W64 };
        assert_eq!(word.check(100), Err(Error::Misaligned { offset: 12, align: 8 }));
        assert_eq!(
            Word { offset: 96, ..word }.check(100),
            Err(Error::OutOfRange {
                rank: Rank(0),
                segment: SegmentId(7),
                offset: 96,
                bytes: 8,
                segment_bytes: 100
            })
        );
    }

    proptest! {
        #[test]
        fn a_link_survives_packing(rank in 0..Link::RANKS_MAX, offset in 0..Link::OFFSET_MAX) {
            let link = Link::new(Rank(rank), offset).unwrap();
            prop_assert_ne!(link, Link::NULL);
            prop_assert_eq!(Link::from_bits(link.bits()).target(), Some((Rank(rank), offset)));
        }

        #[test]
        fn what_check_accepts_stays_inside(
            offset in 0u64..64, unit in 0u64..16,
            dims in proptest::collection::vec((0u64..5, 0u64..40), 0..4),
            segment_bytes in 0u64..600,
        ) {
            let (counts, strides): (Vec<_>, Vec<_>) = dims.into_iter().unzip();
            let shape = Shape::Strided { offset, unit, counts: &counts, strides: &strides };
            let region = Region { rank: Rank(0), segment: SegmentId(7), shape };
            let inside = runs(&shape).iter().all(|(at, bytes)| at + bytes <= segment_bytes);
            let packed: u64 = runs(&shape).iter().map(|(_, bytes)| bytes).sum();
            if let Ok(bytes) = region.check(segment_bytes) {
                prop_assert!(inside);
                prop_assert_eq!(bytes, packed);
            } else {
                prop_assert!(!inside || offset > segment_bytes);
            }
        }
    }

    #[test]
    fn a_link_refuses_what_it_cannot_hold() {
        assert!(Link::new(Rank(Link::RANKS_MAX), 0).is_err());
        assert!(Link::new(Rank(0), Link::OFFSET_MAX).is_err());
        assert_eq!(Link::NULL.target(), None);
    }
}
