//! Fragmentation: a region of any shape becomes rows that fit into datagrams.
//!
//! Paper:   \[NIC02 section III-A\]: the interface packetizes the data of a message.
//! Differs: regions have any shape, and no fragment ends within an element or an aligned word.

use farside_fabric::{Piece, Rank, Region, SegmentId, Shape};

const WORD_BYTES: u64 = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FarSegment {
    pub(crate) rank: Rank,
    pub(crate) segment: SegmentId,
}

impl FarSegment {
    pub(crate) fn of(region: &Region<'_>) -> FarSegment {
        FarSegment { rank: region.rank, segment: region.segment }
    }
}

/// A fragment: rows of equal length at equal distance, and their place in the packed message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fragment {
    pub(crate) offset: u64,
    pub(crate) unit: u32,
    pub(crate) count: u32,
    pub(crate) stride: u64,
    /// The offset of their bytes in the packed message.
    pub(crate) packed: u64,
}

impl Fragment {
    pub(crate) fn bytes(&self) -> u64 {
        u64::from(self.unit) * u64::from(self.count)
    }
}

pub(crate) struct Fragments<'a> {
    shape: Shape<'a>,
    /// The size of an element: rows are split only at multiples of it. If it is a byte, they are
    /// split only between aligned words.
    grain: u64,
    /// The index in each outer dimension; of a list of pieces, the number done.
    steps: Vec<u64>,
    rows: Rows,
    packed: u64,
}

#[derive(Clone, Copy, Default)]
struct Rows {
    offset: u64,
    unit: u64,
    /// The number of rows left, with the one that is being split.
    count: u64,
    stride: u64,
    /// The bytes of the first row that are done.
    gone: u64,
}

/// Returns how much of a row at `offset` fits into `room` without splitting an element or a word: a
/// word that is read during the transfer is old or new.
fn whole(offset: u64, room: u64, grain: u64) -> u64 {
    if grain > 1 {
        return room - room % grain;
    }
    let beyond = offset.wrapping_add(room) % WORD_BYTES;
    if beyond < room { room - beyond } else { room }
}

impl<'a> Fragments<'a> {
    pub(crate) fn new(shape: Shape<'a>, grain: u64) -> Fragments<'a> {
        let mut fragments =
            Fragments { shape, grain, steps: Vec::new(), rows: Rows::default(), packed: 0 };
        match shape {
            Shape::Block(piece) => fragments.rows = Rows::one(piece),
            Shape::Pieces(pieces) => {
                fragments.steps.push(0);
                fragments.rows = pieces.first().copied().map(Rows::one).unwrap_or_default();
            }
            Shape::Strided { offset, unit, counts, strides } => {
                fragments.steps.resize(counts.len().saturating_sub(1), 0);
                let (count, stride) =
                    (counts.last().copied().unwrap_or(1), strides.last().copied().unwrap_or(0));
                let count = if counts.contains(&0) { 0 } else { count };
                fragments.rows = Rows { offset, unit, count, stride, gone: 0 };
            }
        }
        fragments.skip_empty();
        fragments
    }

    pub(crate) fn is_done(&self) -> bool {
        self.rows.count == 0
    }

    /// Returns the next fragment, of at most `room` bytes, which must be at least a grain; `None`
    /// at the end.
    pub(crate) fn next(&mut self, room: u64) -> Option<Fragment> {
        let rows = &mut self.rows;
        if rows.count == 0 {
            return None;
        }
        let left = rows.unit - rows.gone;
        let room = room.min(u64::from(u32::MAX));
        let (unit, count) = if rows.gone == 0 && left <= room {
            (left, (room / left).min(rows.count))
        } else {
            (if left <= room { left } else { whole(rows.offset + rows.gone, room, self.grain) }, 1)
        };
        let fragment = Fragment {
            offset: rows.offset + rows.gone,
            unit: unit as u32,
            count: count as u32,
            stride: rows.stride,
            packed: self.packed,
        };
        self.packed += fragment.bytes();
        if unit == left {
            rows.gone = 0;
            rows.count -= count;
            // Past the last row this may wrap; it is not used then.
            rows.offset = rows.offset.wrapping_add(count.wrapping_mul(rows.stride));
        } else {
            rows.gone += unit;
        }
        if rows.count == 0 {
            self.advance();
            self.skip_empty();
        }
        Some(fragment)
    }

    fn advance(&mut self) {
        match self.shape {
            Shape::Block(_) => {}
            Shape::Pieces(pieces) => {
                self.steps[0] += 1;
                self.rows =
                    pieces.get(self.steps[0] as usize).copied().map(Rows::one).unwrap_or_default();
            }
            Shape::Strided { offset, unit, counts, strides } => {
                for dimension in (0..self.steps.len()).rev() {
                    self.steps[dimension] += 1;
                    if self.steps[dimension] < counts[dimension] {
                        let outer: u64 = self
                            .steps
                            .iter()
                            .zip(strides)
                            .map(|(step, stride)| step * stride)
                            .sum();
                        let (count, stride) = (counts[self.steps.len()], strides[self.steps.len()]);
                        self.rows = Rows { offset: offset + outer, unit, count, stride, gone: 0 };
                        return;
                    }
                    self.steps[dimension] = 0;
                }
            }
        }
    }

    fn skip_empty(&mut self) {
        while self.rows.count > 0 && self.rows.unit == 0 {
            self.rows.count = 0;
            if matches!(self.shape, Shape::Pieces(_)) {
                self.advance();
            }
        }
    }
}

impl Rows {
    fn one(piece: Piece) -> Rows {
        Rows { offset: piece.offset, unit: piece.bytes, count: 1, stride: 0, gone: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The offset of every byte of a shape, in the order of the packed message.
    fn bytes(shape: &Shape<'_>) -> Vec<u64> {
        let mut all = Vec::new();
        shape.for_each(|piece| all.extend(piece.offset..piece.offset + piece.bytes));
        all
    }

    fn bytes_of_fragments(shape: Shape<'_>, grain: u64, rooms: &[u64]) -> Vec<u64> {
        let (mut fragments, mut all) = (Fragments::new(shape, grain), Vec::new());
        let mut rooms = rooms.iter().cycle();
        while !fragments.is_done() {
            let room = *rooms.next().unwrap();
            let run = fragments.next(room).unwrap();
            assert!(run.bytes() > 0 && run.bytes() <= room);
            assert_eq!(run.packed, all.len() as u64);
            assert!(u64::from(run.unit).is_multiple_of(grain), "an element was cut");
            for row in 0..u64::from(run.count) {
                let begin = run.offset + row * run.stride;
                all.extend(begin..begin + u64::from(run.unit));
            }
        }
        assert_eq!(fragments.next(100), None);
        all
    }

    proptest! {
        #[test]
        fn every_byte_is_sent_once_and_in_order(
            offset in 0u64..100, unit in 0u64..20,
            dims in proptest::collection::vec((0u64..4, 0u64..200), 0..4),
            rooms in proptest::collection::vec(1u64..50, 1..5),
        ) {
            let (counts, strides): (Vec<_>, Vec<_>) = dims.into_iter().unzip();
            let shape = Shape::Strided { offset, unit, counts: &counts, strides: &strides };
            prop_assert_eq!(bytes_of_fragments(shape, 1, &rooms), bytes(&shape));
        }

        #[test]
        fn pieces_too(
            pieces in proptest::collection::vec((0u64..1000, 0u64..9), 0..9),
            rooms in proptest::collection::vec(8u64..50, 1..5),
        ) {
            let piece = |(at, length)| Piece { offset: at * 8, bytes: length * 8 };
            let pieces: Vec<Piece> = pieces.into_iter().map(piece).collect();
            let shape = Shape::Pieces(&pieces);
            prop_assert_eq!(bytes_of_fragments(shape, 8, &rooms), bytes(&shape));
        }
    }

    #[test]
    fn a_long_row_is_cut_and_the_others_follow() {
        let shape = Shape::Strided { offset: 0, unit: 10, counts: &[2], strides: &[100] };
        let mut fragments = Fragments::new(shape, 1);
        let runs: Vec<(u64, u32, u32)> =
            std::iter::from_fn(|| fragments.next(6)).map(|r| (r.offset, r.unit, r.count)).collect();
        assert_eq!(runs, [(0, 6, 1), (6, 4, 1), (100, 4, 1), (104, 6, 1)]);
    }

    #[test]
    fn no_word_is_cut() {
        let mut fragments = Fragments::new(Shape::Block(Piece { offset: 4, bytes: 40 }), 1);
        let runs: Vec<(u64, u32)> =
            std::iter::from_fn(|| fragments.next(15)).map(|run| (run.offset, run.unit)).collect();
        assert_eq!(runs, [(4, 12), (16, 8), (24, 8), (32, 12)]);
    }
}
