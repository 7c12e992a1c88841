//! Cells of the heap: fresh ones as long as there are any, and then those that removed entries have
//! left in the chains of other buckets.
//!
//! Paper:     none; in [RMALOCK16] section 5.3 cells are never given back.
//! Differs:   a cell that is emptied stays in its chain, for the next entry of its bucket. Only
//!            when there are no fresh ones does a rank look through the buckets for such cells.
//! State:     3 words for each volume: the cells that were taken, the parts of the table that were
//!            looked at, and when all were looked at in vain.
//! Invariant: a cell is in one chain at most; a rank that takes one has held its bucket, whose
//!            version is another afterwards.
//! Ordering:  the bucket is held, so that a reader that was led to the cell looks again
//!            (`a_cell_that_is_taken_from_a_reader_is_caught`); nothing leads to a cell when it is
//!            filled.
//! Cost:      fresh: 1 fetch-add, or a load and a compare-swap for several. Else 4 loads, and, if
//!            something was removed since all was looked at in vain, 1 more fetch-add, 1 get for
//!            every 32 buckets and each cell of longer chains, and 2 compare-swaps, 1 fetch-add and
//!            1 compare-swap for each cell for a bucket that has some.
//! Checked:   `farside check map/sweep`: a rank that takes a cell beside a reader of its chain, all
//!            schedules.

use farside_fabric::Result;

use super::bucket::{Search, Seen, Volume};
use super::layout::{COUNT, FREE, Meta, SWEPT, State, TAKEN, VAIN, moment};
use super::steps;

/// How many buckets are read at a time.
const BUCKETS: u64 = 32;

impl Volume<'_> {
    /// Takes so many cells of the heap that nothing leads to, or none. This rank holds the `busy`
    /// buckets, of which there is at least one, and relies on what it has read of them.
    pub(crate) fn take_cells(
        &self,
        count: usize,
        busy: &[u64],
        search: Search,
    ) -> Result<Vec<u32>> {
        if self.context.omits(steps::FIND_CELLS) {
            return Err(self.full());
        }
        if let Some(first) = self.take_fresh(count as u64)? {
            return Ok((first as u32..).take(count).collect());
        }
        let mut found = Vec::new();
        let swept = self.sweep(count, busy, search, &mut found);
        if swept.is_ok() && found.len() == count {
            // What took these cells out of their chains lands ahead of what fills them.
            self.order()?;
            return Ok(found);
        }
        self.put_back(&found, busy[0])?;
        swept?;
        Err(self.full())
    }

    /// Takes so many cells that nobody has had, and returns the first, if there are as many.
    ///
    /// The number of those that were taken goes up for good: had a rank to give back what it took
    /// in vain, others that take some meanwhile would get the same.
    fn take_fresh(&self, count: u64) -> Result<Option<u64>> {
        let (free, last) = (self.at(FREE), self.layout.cells_max);
        if count == 1 {
            let taken = self.context.fetch_add(free, 1)?;
            return Ok((taken < last).then_some(taken + 1));
        }
        let mut taken = self.context.load(free)?;
        while taken.saturating_add(count) <= last {
            match self.context.compare_swap(free, taken, taken + count)? {
                seen if seen == taken => return Ok(Some(taken + 1)),
                seen => taken = seen,
            }
        }
        Ok(None)
    }

    /// Looks for cells without entries in the chains of buckets that are not busy, from where the
    /// last rank has stopped; not again if there were none, and none can have come since.
    fn sweep(
        &self,
        count: usize,
        busy: &[u64],
        search: Search,
        found: &mut Vec<u32>,
    ) -> Result<()> {
        if self.locked {
            // What this rank has put under the lock is read again here.
            self.context.flush(self.rank)?;
        }
        let (shape, words) = (self.learn_shape()?, self.layout.bucket_words());
        let parts = shape.div_ceil(BUCKETS);
        let now = moment(self.context.load(self.at(COUNT))?, shape);
        let vain = self.context.load(self.at(VAIN))?;
        if vain == now {
            return Ok(());
        }
        let start = self.context.load(self.at(SWEPT))?;
        // The one bucket that is busy has no empty cell: that would be the first to be used.
        let mut is_vain = search == Search::Everywhere && busy.len() == 1;
        let looks = if search == Search::Everywhere { parts } else { parts.min(8) };
        for step in 0..looks {
            let first = start.wrapping_add(step) % parts * BUCKETS;
            let buckets = first..(first + BUCKETS).min(shape);
            let mut table = vec![0; buckets.clone().count() * words];
            self.context.get(self.at(self.layout.state(first)), &mut table)?;
            for (bucket, words) in buckets.zip(table.chunks_exact(words)) {
                let (state, meta) = (State(words[0]), Meta(words[1]));
                let is_held = state.holder().is_some() && !self.locked;
                if meta.next() != 0 && !busy.contains(&bucket) {
                    is_vain &= !is_held && self.take_empty(bucket, state, count, found)?;
                }
                if found.len() == count {
                    break;
                }
            }
            if found.len() == count || step + 1 == looks {
                self.context.fetch_add(self.at(SWEPT), step)?;
                break;
            }
        }
        match is_vain && found.is_empty() {
            true => self.context.store(self.at(VAIN), now),
            // The count of changes wraps, and that moment would come again.
            false if vain != 0 => self.context.store(self.at(VAIN), 0),
            false => Ok(()),
        }
    }

    /// Takes cells without entries out of the chain of a bucket that was in this state, until
    /// `count` were found; false, and takes none, if another rank changes it.
    fn take_empty(
        &self,
        bucket: u64,
        state: State,
        count: usize,
        found: &mut Vec<u32>,
    ) -> Result<bool> {
        let Some(chain) = self.chain(bucket)? else { return Ok(false) };
        let (taken, turns) = without_empty(&chain, count - found.len());
        if taken.is_empty() {
            return Ok(true);
        }
        let held = match self.try_hold(bucket, state)? {
            Some(held) => held,
            None => return Ok(false),
        };
        let turned = turns.iter().try_for_each(|&(at, from, to)| self.turn(at, from, to));
        let shows = !self.context.omits(steps::SHOW_SWEEP);
        self.release(&held, held.state.released(shows))?;
        turned?;
        found.extend(taken);
        // A rank that was led astray by these cells has not looked through all of the chain.
        self.context.fetch_add(self.at(COUNT), TAKEN)?;
        Ok(true)
    }

    /// Leaves cells that were taken in vain to a bucket that this rank holds.
    fn put_back(&self, cells: &[u32], bucket: u64) -> Result<()> {
        if cells.is_empty() {
            return Ok(());
        }
        let at = self.layout.state(bucket) + 1;
        let before = Meta(self.context.load(self.at(at))?);
        let mut next = before.next();
        for &link in cells {
            let empty = Meta::filled(next).emptied();
            self.context.put_value(empty.0, self.at(self.layout.cell(link)))?;
            next = link;
        }
        self.order()?;
        self.turn(at, before, before.with_next(next))?;
        // A rank that has searched in vain meanwhile did so without them.
        self.context.fetch_add(self.at(COUNT), TAKEN).map(drop)
    }
}

/// A word of a cell, as it is and as it shall be.
type Turn = (usize, Meta, Meta);

/// Returns the links to cells of a chain without entries, at most so many, and what takes them out.
fn without_empty(chain: &[Seen], count: usize) -> (Vec<u32>, Vec<Turn>) {
    let (mut taken, mut turns) = (Vec::new(), Vec::new());
    let mut stays = &chain[0];
    for (at, seen) in chain.iter().enumerate().skip(1) {
        let link = chain[at - 1].meta.next();
        let is_empty = !seen.meta.is_occupied() && seen.meta.is_usable();
        if is_empty && taken.len() < count {
            taken.push(link);
            continue;
        }
        if stays.meta.next() != link {
            turns.push((stays.at, stays.meta, stays.meta.with_next(link)));
        }
        stays = seen;
    }
    let end = chain.last().map_or(0, |seen| seen.at);
    if stays.at != end {
        turns.push((stays.at, stays.meta, stays.meta.with_next(0)));
    }
    (taken, turns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_cells_leave_their_chain() {
        // Each cell is at ten times its link.
        let chain = |occupied: &[bool]| -> Vec<Seen> {
            let links = 1..=occupied.len() as u32;
            let seen = |(link, &is_occupied): (u32, &bool)| {
                let next = if link as usize == occupied.len() { 0 } else { link };
                let meta = Meta::filled(next);
                let meta = if is_occupied { meta } else { meta.emptied() };
                Seen { at: (link as usize - 1) * 10, meta, entry: Vec::new() }
            };
            links.zip(occupied).map(seen).collect()
        };
        let cells = [false, true, false, false, true, false];
        let links = |turns: &[Turn]| -> Vec<(usize, u32)> {
            turns.iter().map(|&(at, _, to)| (at, to.next())).collect()
        };
        let (taken, turns) = without_empty(&chain(&cells), 9);
        assert_eq!((taken, links(&turns)), (vec![2, 3, 5], vec![(10, 4), (40, 0)]));
        let (taken, turns) = without_empty(&chain(&cells), 1);
        assert_eq!((taken, links(&turns)), (vec![2], vec![(10, 3)]));
        let (taken, turns) = without_empty(&chain(&[false, false, false]), 9);
        assert_eq!((taken, links(&turns)), (vec![1, 2], vec![(0, 0)]));
        assert_eq!(without_empty(&chain(&[false]), 9), (vec![], vec![]));
    }
}
