//! Where a lock's words are, and how its members wait for each other.

use std::time::Duration;

use farside_fabric::{Error, Rank, Result};
use farside_rma::{Context, Place, WaitOptions, Words};

use super::{Patience, Tally, Variant};

/// A lock's words, its members and its counts.
pub struct Site {
    words: Words,
    home: Rank,
    members: Box<[Rank]>,
    /// What this rank has counted.
    pub tally: Tally,
}

/// The shortest and the longest time between two looks of a poll that has a limit.
const SLICE_MIN: Duration = Duration::from_micros(50);
const SLICE_MAX: Duration = Duration::from_millis(1);
/// Looks between two such pauses.
const LOOKS: u32 = 16;

impl Site {
    /// A site on `words`, which all `members` have.
    pub fn new(words: Words, home: Rank, members: &[Rank]) -> Site {
        Site { words, home, members: members.into(), tally: Tally::default() }
    }

    /// Whose memory holds what all members share.
    #[inline]
    pub fn home(&self) -> Rank {
        self.home
    }

    /// Who may use the lock.
    pub fn members(&self) -> &[Rank] {
        &self.members
    }

    /// Other members, another home. The words stay.
    pub fn change(&mut self, home: Rank, members: &[Rank]) {
        (self.home, self.members) = (home, members.into());
    }

    /// How many words every member has.
    pub(crate) fn len(&self) -> usize {
        self.words.len()
    }

    /// Word `index` of a rank.
    #[inline]
    pub fn at(&self, rank: Rank, index: usize) -> Place<'_, u64> {
        self.words.at(rank, index)
    }

    /// Word `index` of the home.
    #[inline]
    pub fn shared(&self, index: usize) -> Place<'_, u64> {
        self.words.at(self.home, index)
    }

    /// Waits on one of this rank's own words.
    pub fn wait(
        &self,
        context: &Context,
        index: usize,
        until: impl Fn(u64) -> bool,
    ) -> Result<u64> {
        context.wait_among(
            &self.members,
            self.at(context.rank(), index),
            until,
            WaitOptions::default(),
        )
    }

    /// Waits on one of this rank's own words for as long as the patience allows; `None` when that
    /// is over. Says whether the end of the wait is expected soon.
    pub fn wait_patiently(
        &self,
        context: &Context,
        index: usize,
        until: impl Fn(u64) -> bool,
        (patience, soon): (Patience, bool),
    ) -> Result<Option<u64>> {
        let timeout = match patience {
            Patience::Forever => None,
            Patience::AtMost(time) if !time.is_zero() => Some(time),
            // A look would not be worth more than the one that follows.
            Patience::AtMost(_) | Patience::Never => return Ok(None),
        };
        match context.wait_among(
            &self.members,
            self.at(context.rank(), index),
            until,
            WaitOptions { timeout, soon },
        ) {
            Ok(value) => Ok(Some(value)),
            Err(Error::TimedOut { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Waits on any rank's word: asleep if it is this rank's own, else by polling.
    pub fn watch(
        &self,
        context: &Context,
        rank: Rank,
        index: usize,
        until: impl Fn(u64) -> bool,
    ) -> Result<u64> {
        if rank == context.rank() {
            return self.wait(context, index, until);
        }
        loop {
            let value = context.load(self.at(rank, index))?;
            if until(value) {
                return Ok(value);
            }
            if let Err(error) = self.relax(context) {
                // What happened before the departure counts: who left may have done its part.
                let value = context.load(self.at(rank, index))?;
                return if until(value) { Ok(value) } else { Err(error) };
            }
        }
    }

    /// Stands in a loop that polls another rank's memory.
    #[inline]
    pub fn relax(&self, context: &Context) -> Result<()> {
        context.relax_among(&self.members)
    }

    /// Tries until it succeeds or `patience` is at its end. Word `index` of this rank is one that
    /// nobody ever writes: a wait for it is a pause.
    pub fn poll(
        &self,
        context: &Context,
        index: usize,
        patience: Patience,
        mut attempt: impl FnMut() -> Result<bool>,
    ) -> Result<bool> {
        let mut left = match patience {
            Patience::Forever => None,
            Patience::AtMost(time) => Some(time),
            Patience::Never => Some(Duration::ZERO),
        };
        let mut looks = 0;
        loop {
            if attempt()? {
                return Ok(true);
            }
            looks += 1;
            let paused = match &mut left {
                Some(left) if left.is_zero() => return Ok(false),
                Some(left) if looks % LOOKS == 0 => {
                    let slice = (*left / 8).clamp(SLICE_MIN, SLICE_MAX).min(*left);
                    *left -= slice;
                    self.wait_patiently(context, index, |_| false, (Patience::AtMost(slice), true))
                        .map(drop)
                }
                _ => self.relax(context),
            };
            if let Err(error) = paused {
                // What happened before the departure counts: who left may have done its part.
                return if attempt()? { Ok(true) } else { Err(error) };
            }
        }
    }

    /// Makes all that this context has written visible to whoever has the lock next. The lock is
    /// passed on even if that fails, because what was written to a lost rank is lost either way; so
    /// the error comes afterwards.
    #[inline]
    pub fn publish<V: Variant>(&self, context: &Context) -> Result<()> {
        if V::FLUSHES { context.flush_all() } else { Ok(()) }
    }

    /// This rank's words as they were when they were allocated.
    pub fn clear(&self, context: &Context) -> Result<()> {
        for index in 0..self.words.len() {
            context.store(self.at(context.rank(), index), 0)?;
        }
        Ok(())
    }

    /// The words, to be given back.
    pub fn into_words(self) -> Words {
        self.words
    }
}
