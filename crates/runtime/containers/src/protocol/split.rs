//! Growth: buckets are split one after the other, while everybody goes on; and what lost ranks
//!         leave behind is mended.
//!
//! Paper:     linear hashing, Litwin (VLDB 1980); [RMALOCK16] section 5.3 has tables of a fixed
//!            size.
//! Differs:   the rank that inserts splits, one at a time, and only those wait for it who want the
//!            bucket that is being split. Who looks from an older number of buckets is led on by
//!            the depth of the bucket that it finds.
//! State:     2 words for each volume: the number of buckets, and the rank that splits.
//! Invariant: an entry is in the bucket of its hash whenever that bucket is free.
//! Ordering:  the other half is complete before the bucket is marked, and the mark is there before
//!            anything is taken out (`a_split_without_mark_is_caught`,
//!            `a_split_that_takes_out_too_early_is_caught`); what a lost rank may still write to is
//!            never used again (`a_cell_of_the_lost_that_is_used_again_is_caught`).
//! Cost:      a split: 6 compare-swaps, 1 get for each cell, 1 put and 1 compare-swap for each
//!            entry that moves.
//! Checked:   `farside check map`: 3 ranks insert, get and remove while buckets are split, all
//!            schedules; 2 ranks, any of which dies at any step.

use farside_fabric::{Error, Rank, Result};

use super::bucket::{Held, Search, Seen, Volume};
use super::hash_of;
use super::layout::{CLAIM, Meta, SHAPE, State, astray};
use super::steps;

/// How many buckets are split at a time: more than entries that come with it, so that the table
/// catches up.
const SPLITS: u64 = 2;

impl Volume<'_> {
    /// Splits buckets if there are more than so many entries for each, and no other rank does.
    pub(crate) fn grow(&self, count: i64) -> Result<()> {
        let is_roomy = |shape: u64| count <= shape as i64;
        if is_roomy(self.shape.get()) || is_roomy(self.learn_shape()?) {
            return Ok(());
        }
        self.split_some(SPLITS)
    }

    /// The same after a batch of so many new ones.
    pub(crate) fn grow_by(&self, count: i64, more: u64) -> Result<()> {
        let short = count.saturating_sub(self.learn_shape()? as i64);
        if short > 0 { self.split_some((SPLITS * more).min(short as u64)) } else { Ok(()) }
    }

    /// Splits so many buckets, unless another rank does.
    pub(crate) fn split_some(&self, splits: u64) -> Result<()> {
        let mine = u64::from(self.context.rank().0) + 1;
        if !self.claim(mine)? {
            return Ok(());
        }
        let result = (0..splits).try_for_each(|_| self.split_next());
        if !self.locked {
            self.context.compare_swap(self.at(CLAIM), mine, 0)?;
        }
        match result {
            // What was inserted is in the map: it has longer chains if it cannot grow.
            Err(Error::TooMuch { .. }) => Ok(()),
            other => other,
        }
    }

    fn claim(&self, mine: u64) -> Result<bool> {
        if self.locked {
            return Ok(true);
        }
        match self.context.compare_swap(self.at(CLAIM), 0, mine)? {
            0 => Ok(true),
            // It was left behind after an error.
            other if other == mine => Ok(true),
            other if self.is_gone(Rank((other - 1) as u32)) => {
                Ok(self.context.compare_swap(self.at(CLAIM), other, mine)? == other)
            }
            _ => Ok(false),
        }
    }

    /// Splits the bucket whose turn it is, if there is room.
    fn split_next(&self) -> Result<()> {
        if self.locked {
            // What this rank has put under the lock is read again here.
            self.context.flush(self.rank)?;
        }
        let word = self.context.load(self.at(SHAPE))?;
        let shape = self.layout.shape(word);
        if shape >= self.layout.buckets_max {
            return Ok(());
        }
        let level = shape.ilog2();
        let held = self.hold_bucket(shape - (1 << level))?;
        // Who was lost, or taken for lost, after a split may not have counted it.
        if self.layout.depth(held.bucket, held.state) == Some(level) {
            let split = self.split(&held, level, shape);
            if let Err(error) = split {
                // What comes of this says no more.
                let _ = self.give_back(&held);
                return Err(error);
            }
        } else {
            self.release(&held, held.state.released(false))?;
        }
        if self.locked {
            self.context.put_value(shape + 1, self.at(SHAPE))?;
        } else {
            self.context.compare_swap(self.at(SHAPE), word, shape + 1)?;
        }
        self.shape.set(shape + 1);
        Ok(())
    }

    /// Releases a bucket after an error in the middle of its split: it is as it was, or marked.
    fn give_back(&self, held: &Held) -> Result<()> {
        let marked = held.state.splitting();
        let state = self.context.load(self.at(self.layout.state(held.bucket)))?;
        match state == marked.0 && !self.locked {
            true => self.mend(held.bucket, marked),
            false => self.release(held, held.state.released(true)),
        }
    }

    fn hold_bucket(&self, bucket: u64) -> Result<Held> {
        loop {
            let state = State(self.context.load(self.at(self.layout.state(bucket)))?);
            match state.holder().filter(|_| !self.locked) {
                Some(holder) => self.await_holder(bucket, state, holder)?,
                None => {
                    if let Some(held) = self.try_hold(bucket, state)? {
                        return Ok(held);
                    }
                }
            }
        }
    }

    /// Moves what belongs there from a held bucket of depth `level` to `other`, which is free
    /// yet, and releases both.
    fn split(&self, held: &Held, level: u32, other: u64) -> Result<()> {
        let (other_held, is_fresh) = self.hold_other(other)?;
        let chain = self.chain(held.bucket)?.ok_or_else(|| self.broken(held.bucket))?;
        let hash = |seen: &Seen| hash_of(&seen.entry[..self.layout.key_words]);
        let moving: Vec<&Seen> = chain
            .iter()
            .filter(|seen| seen.meta.is_occupied() && hash(seen) >> level & 1 == 1)
            .collect();
        // What a rank left astray that was lost under a lock is where it belongs already.
        let moved = moving.iter().filter(|seen| astray(hash(seen), held.bucket, level).is_none());
        self.fill(held.bucket, other, is_fresh, moved.map(|seen| &seen.entry[..]))?;
        self.release(&other_held, other_held.state.with_depth(level + 1).released(true))?;
        if self.locked {
            // What is a compare-swap otherwise is a put, and would overtake that.
            self.order()?;
        }
        let (mut held, at) = (*held, self.layout.state(held.bucket));
        let deeper = |state: State| state.with_depth(level + 1).released(true);
        let marks = !self.context.omits(steps::MARK_SPLIT);
        if marks {
            // From now on a rank that is lost leaves entries that are astray, and none that are
            // missing. Under a lock nobody mends them, and all look elsewhere for them.
            let marked = if self.locked { deeper(held.state) } else { held.state.splitting() };
            self.exchange(at, held.state.0, marked.0)?;
            self.order()?;
            held.state = marked;
        }
        for seen in moving {
            self.turn(seen.at, seen.meta, seen.meta.emptied())?;
        }
        if self.locked && marks {
            return Ok(());
        }
        self.order()?;
        self.exchange(at, held.state.0, deeper(held.state).0)
    }

    /// Takes the bucket that a split fills; and whether this is the first attempt.
    fn hold_other(&self, other: u64) -> Result<(Held, bool)> {
        loop {
            let state = State(self.context.load(self.at(self.layout.state(other)))?);
            // The lost rank's own attempt may come in between.
            if let Some(held) = self.try_hold(other, state)? {
                return Ok((held, state == State(0) || self.context.omits(steps::ABANDON)));
            }
        }
    }

    /// Fills a bucket that no rank can look into with entries of another; only its heap cells, if a
    /// lost rank may still write to its own cell.
    fn fill<'e>(
        &self,
        from: u64,
        bucket: u64,
        is_fresh: bool,
        entries: impl Iterator<Item = &'e [u64]>,
    ) -> Result<()> {
        let at = self.layout.state(bucket) + 1;
        let mut entries = entries;
        let first = if is_fresh { entries.next() } else { None };
        let cells = (&[from, bucket][..], Search::Nearby);
        let next = self.fill_cells(&entries.collect::<Vec<_>>(), 0, cells)?;
        if !is_fresh {
            return self.abandon(at, next);
        }
        let before = Meta(self.context.load(self.at(at))?);
        let after = match first {
            Some(entry) => {
                self.context.put(entry, self.at(at + self.layout.entry(before, false)))?;
                before.with_next(next).flipped()
            }
            None => before.with_next(next).emptied(),
        };
        self.order()?;
        self.turn(at, before, after)
    }

    /// Gives up the first cell of a chain for good; what is in the chain starts at `next`.
    fn abandon(&self, at: usize, next: u32) -> Result<()> {
        self.order()?;
        loop {
            let before = self.context.load(self.at(at))?;
            let after = Meta(before).with_next(next).emptied().abandoned();
            // The lost rank's last change may come in between.
            if self.context.compare_swap(self.at(at), before, after.0)? == before {
                return Ok(());
            }
        }
    }

    /// Takes over a bucket whose holder is lost, and brings it into order: what it holds moves to
    /// fresh cells, since something that the holder wrote to the old ones may still be under way;
    /// and if the holder had filled the other half, what belongs there goes.
    pub(crate) fn mend(&self, bucket: u64, state: State) -> Result<()> {
        let depth = self.layout.depth(bucket, state).ok_or_else(|| self.broken(bucket))?;
        let Some(held) = self.try_hold(bucket, state)? else {
            return Ok(());
        };
        let mended = self.mend_held(&held, depth, state.is_splitting());
        if mended.is_err() {
            // Whoever comes next tries again, rather than to wait for this rank.
            self.exchange(self.layout.state(bucket), held.state.0, state.0)?;
        }
        mended
    }

    fn mend_held(&self, held: &Held, depth: u32, is_split: bool) -> Result<()> {
        let bucket = held.bucket;
        let mask = (1u64 << if is_split { depth + 1 } else { depth }) - 1;
        let chain = self.chain(bucket)?.ok_or_else(|| self.broken(bucket))?;
        let stays = |seen: &Seen| {
            seen.meta.is_occupied()
                && hash_of(&seen.entry[..self.layout.key_words]) & mask == bucket
        };
        if !self.context.omits(steps::ABANDON) {
            let kept = chain.iter().filter(|seen| stays(seen)).map(|seen| &seen.entry[..]);
            let cells = (&[bucket][..], Search::Everywhere);
            let next = self.fill_cells(&kept.collect::<Vec<_>>(), 0, cells)?;
            self.abandon(chain[0].at, next)?;
        } else {
            for seen in chain.iter().filter(|seen| seen.meta.is_occupied() && !stays(seen)) {
                self.turn(seen.at, seen.meta, seen.meta.emptied())?;
            }
        }
        let mended = if is_split { held.state.with_depth(depth + 1) } else { held.state };
        self.release(held, mended.released(true))
    }
}
