//! The tables of segments: which pieces of a rank's arena have which names.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use farside_fabric::{Error, Mapped, Rank, Result, SegmentId};

use crate::layout::{Entry, SEGMENTS};
use crate::memory::Job;

/// The name of an entry that was used and is free again.
const TOMBSTONE: u64 = u64::MAX;

impl Job {
    /// Enters a segment of `rank` into its table. Only the owner does that.
    pub(crate) fn publish(
        &self,
        rank: Rank,
        segment: SegmentId,
        offset: u64,
        bytes: u64,
    ) -> Result<()> {
        let free = self.probe(rank, segment).find(|entry| {
            let id = entry.id.load(Ordering::Relaxed);
            id == 0 || id == TOMBSTONE
        });
        let entry = free.ok_or(Error::TooMuch {
            what: "segments of one rank (free windows that are no longer used)",
            value: SEGMENTS + 1,
            limit: SEGMENTS,
        })?;
        // Whoever reads one of these in the place of a freed segment's finds that its name is gone.
        fence(Ordering::Release);
        entry.offset.store(offset, Ordering::Relaxed);
        entry.bytes.store(bytes, Ordering::Relaxed);
        entry.is_excluded.store(0, Ordering::Relaxed);
        entry.id.store(segment.0, Ordering::Release);
        Ok(())
    }

    /// Removes a segment of `rank` from its table, and gives its memory back to the system.
    pub(crate) fn retract(&self, rank: Rank, segment: SegmentId) -> Result<(u64, u64)> {
        let entry = self.find(rank, segment)?;
        let (offset, bytes) =
            (entry.offset.load(Ordering::Relaxed), entry.bytes.load(Ordering::Relaxed));
        entry.id.store(TOMBSTONE, Ordering::SeqCst);
        self.release(rank, offset, bytes)?;
        Ok((offset, bytes))
    }

    /// Notes that what lands in a segment is not counted, as far as `rank` sends it there.
    pub fn exclude(&self, rank: Rank, segment: SegmentId) -> Result<()> {
        self.find(rank, segment)?.is_excluded.store(1, Ordering::Relaxed);
        Ok(())
    }

    /// Whether what `rank` sends to a segment, of which it has a part, counts as landings.
    pub fn is_counted(&self, rank: Rank, segment: SegmentId) -> bool {
        let is_excluded = |entry: &Entry| entry.is_excluded.load(Ordering::Relaxed) != 0;
        segment != SegmentId::ROOT && !self.find(rank, segment).is_ok_and(is_excluded)
    }

    /// A rank's part of a segment.
    pub fn segment(self: &Arc<Job>, rank: Rank, segment: SegmentId) -> Result<Mapped> {
        if segment == SegmentId::ROOT {
            self.topology().check(rank)?;
            return Ok(self.root(rank));
        }
        self.piece_of(self.find(rank, segment)?, rank, segment)
    }

    /// A rank's part of a segment whose entry was found, unless that was given to another one
    /// since.
    fn piece_of(self: &Arc<Job>, entry: &Entry, rank: Rank, segment: SegmentId) -> Result<Mapped> {
        let (offset, bytes) =
            (entry.offset.load(Ordering::Relaxed), entry.bytes.load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        let is_still_there = entry.id.load(Ordering::Relaxed) == segment.0;
        let piece = is_still_there.then(|| self.piece(rank, offset, bytes)).flatten();
        piece.ok_or(Error::NoSegment { rank, segment })
    }

    fn probe(&self, rank: Rank, segment: SegmentId) -> impl Iterator<Item = &Entry> {
        let table = self.segments_of(rank);
        // Names differ in their count, mostly, and then in the rank that gave them.
        let start = (segment.0 ^ (segment.0 >> 28)) as usize % table.len();
        table[start..].iter().chain(&table[..start])
    }

    fn find(&self, rank: Rank, segment: SegmentId) -> Result<&Entry> {
        self.topology().check(rank)?;
        for entry in self.probe(rank, segment) {
            match entry.id.load(Ordering::Acquire) {
                0 => break,
                // No segment's name, although a far rank may ask for it.
                TOMBSTONE => {}
                id if id == segment.0 => return Ok(entry),
                _ => {}
            }
        }
        Err(Error::NoSegment { rank, segment })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::tests::job;

    #[test]
    fn a_retracted_segment_is_gone_and_its_memory_is_zero_again() {
        let job = job(1);
        job.publish(Rank(0), SegmentId(9), 8192, 5000).unwrap();
        assert!(job.segment(Rank(0), SegmentId(9)).unwrap().put(4999, &[7]));
        assert_eq!(job.retract(Rank(0), SegmentId(9)), Ok((8192, 5000)));
        let gone = Error::NoSegment { rank: Rank(0), segment: SegmentId(9) };
        assert_eq!(job.segment(Rank(0), SegmentId(9)).err(), Some(gone.clone()));
        assert_eq!(job.retract(Rank(0), SegmentId(9)), Err(gone));
        job.publish(Rank(0), SegmentId(10), 8192, 5000).unwrap();
        let mut byte = [1];
        assert!(job.segment(Rank(0), SegmentId(10)).unwrap().get(4999, &mut byte));
        assert_eq!(byte, [0]);
    }

    #[test]
    fn an_entry_that_is_used_again_is_not_taken_for_the_old_one() {
        let job = job(1);
        // Both are looked for in the same place first.
        let (rank, old, new) = (Rank(0), SegmentId(5), SegmentId(5 + SEGMENTS));
        job.publish(rank, old, 4096, 1).unwrap();
        let found = job.find(rank, old).unwrap();
        assert_eq!(job.piece_of(found, rank, old).unwrap().bytes(), 1);
        job.retract(rank, old).unwrap();
        assert!(job.piece_of(found, rank, old).is_err());
        job.publish(rank, new, 8192, 2).unwrap();
        assert!(std::ptr::eq(found, job.find(rank, new).unwrap()), "the entry is used again");
        assert!(job.piece_of(found, rank, old).is_err());
    }

    #[test]
    fn segments_whose_numbers_collide_are_told_apart() {
        let job = job(1);
        let (a, b) = (SegmentId(5), SegmentId(5 + SEGMENTS));
        job.publish(Rank(0), a, 4096, 1).unwrap();
        job.publish(Rank(0), b, 8192, 2).unwrap();
        job.retract(Rank(0), a).unwrap();
        assert_eq!(job.segment(Rank(0), b).unwrap().bytes(), 2);
        assert!(job.segment(Rank(0), a).is_err());
    }

    #[test]
    fn what_was_freed_has_no_name() {
        let job = job(1);
        // The first place in the table, where the search for the mark of freed entries begins.
        job.publish(Rank(0), SegmentId(SEGMENTS), 4096, 1).unwrap();
        job.retract(Rank(0), SegmentId(SEGMENTS)).unwrap();
        assert!(job.segment(Rank(0), SegmentId(TOMBSTONE)).is_err());
    }

    #[test]
    fn an_exclusion_ends_with_its_segment() {
        let job = job(1);
        let (rank, segment) = (Rank(0), SegmentId(9));
        assert!(!job.is_counted(rank, SegmentId::ROOT));
        job.publish(rank, segment, 4096, 8).unwrap();
        assert!(job.is_counted(rank, segment));
        job.exclude(rank, segment).unwrap();
        assert!(!job.is_counted(rank, segment));
        job.retract(rank, segment).unwrap();
        job.publish(rank, SegmentId(10), 4096, 8).unwrap();
        assert!(job.is_counted(rank, SegmentId(10)));
        assert!(job.exclude(rank, segment).is_err());
    }
}
