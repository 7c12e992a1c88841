//! A lock's words at its members, and how the members wait for each other.

use std::time::Duration;

use farside_fabric::{Error, Rank, Result, Word};
use farside_rma::{Context, NearWord, Place, Team, WaitOptions, Words};

use super::{Observer, Standing, StatisticsCell, TimeLimit};
use crate::lock::steps;

/// A lock's words, its members and its statistics.
pub struct LockWords {
    words: Words,
    home: Rank,
    members: Box<[Rank]>,
    observer: Option<Observer>,
    /// What this rank has counted.
    pub statistics: StatisticsCell,
}

/// Whether the members on this rank's node outnumber its processors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crowding {
    /// Each member has a processor.
    Roomy,
    /// Members wait for processors, too.
    Crowded,
}

/// The shortest and the longest time between two looks of a poll that has a limit.
const SLICE_MIN: Duration = Duration::from_micros(50);
const SLICE_MAX: Duration = Duration::from_millis(1);
/// Looks between two such pauses.
const LOOKS: u32 = 16;

impl LockWords {
    /// Makes a lock on `words`, which all `members` have.
    pub fn new(words: Words, home: Rank, members: &[Rank]) -> LockWords {
        let statistics = StatisticsCell::default();
        LockWords { words, home, members: members.into(), observer: None, statistics }
    }

    /// Tells `observer` of requests that wait.
    pub(crate) fn observed(self, observer: Option<Observer>) -> LockWords {
        LockWords { observer, ..self }
    }

    /// Returns the rank whose memory holds what all members share.
    #[inline]
    pub fn home(&self) -> Rank {
        self.home
    }

    /// Returns the ranks that may use the lock, and those whose loss poisons it.
    pub fn members(&self) -> &[Rank] {
        &self.members
    }

    /// Changes members and home, and takes new words of `survivors`, all zero: what the lost had
    /// under way may still land in the old ones, which are not used again. Collective over
    /// `survivors`.
    pub(crate) fn renew(
        &mut self,
        survivors: &Team<'_>,
        home: Rank,
        members: &[Rank],
    ) -> Result<()> {
        if survivors.context().omits(steps::TAKE_NEW_WORDS) {
            self.clear(survivors.context())?;
            survivors.barrier()?;
        } else {
            self.words = survivors.protocol_words(self.words.len())?;
        }
        (self.home, self.members) = (home, members.into());
        Ok(())
    }

    /// Returns how many words an algorithm has of every member.
    pub(crate) fn len(&self) -> usize {
        self.words.len()
    }

    /// Returns word `index` of a rank.
    #[inline]
    pub fn at(&self, rank: Rank, index: usize) -> Place<'_, u64> {
        self.words.at(rank, index)
    }

    /// Returns word `index` of a rank, if this rank's processor reaches it by itself.
    pub fn near(&self, context: &Context, rank: Rank, index: usize) -> Option<NearWord> {
        self.words.near(context, rank, index)
    }

    /// Returns word `index` of the home.
    #[inline]
    pub fn shared(&self, index: usize) -> Place<'_, u64> {
        self.words.at(self.home, index)
    }

    /// Returns the first word of the home, which tells this lock from all others.
    #[inline]
    pub fn first(&self) -> Word {
        self.words.at(self.home, 0).word()
    }

    /// Returns whether the members on this rank's node outnumber its processors.
    pub fn crowding(&self, context: &Context) -> Crowding {
        if context.is_crowded(&self.members) { Crowding::Crowded } else { Crowding::Roomy }
    }

    /// Tells a checker that a request has taken its place, or has found that it must wait.
    #[inline]
    pub(crate) fn waits(&self, context: &Context, standing: Standing) -> Result<()> {
        self.observer.map_or(Ok(()), |observer| observer(context, standing))
    }

    /// Waits on one of this rank's own words.
    pub fn wait(
        &self,
        context: &Context,
        index: usize,
        until: impl Fn(u64) -> bool,
    ) -> Result<u64> {
        let own = self.at(context.rank(), index);
        context.wait_among(&self.members, own, until, WaitOptions::default())
    }

    /// Waits on one of this rank's own words, and parks at once: the wait is expected to be long.
    pub(crate) fn park(
        &self,
        context: &Context,
        index: usize,
        until: impl Fn(u64) -> bool,
    ) -> Result<()> {
        let own = self.at(context.rank(), index);
        let options = WaitOptions { timeout: None, soon: false };
        context.wait_among(&self.members, own, until, options).map(drop)
    }

    /// Waits on one of this rank's own words within a limit. Returns `None` when that is over.
    pub(crate) fn wait_within(
        &self,
        context: &Context,
        limit: TimeLimit,
        index: usize,
        until: impl Fn(u64) -> bool,
    ) -> Result<Option<u64>> {
        let timeout = match limit {
            TimeLimit::Unlimited => None,
            TimeLimit::AtMost(time) if !time.is_zero() => Some(time),
            // A look would not be worth more than the one that follows.
            TimeLimit::AtMost(_) | TimeLimit::DoNotWait => return Ok(None),
        };
        let own = self.at(context.rank(), index);
        let options = WaitOptions { timeout, soon: true };
        match context.wait_among(&self.members, own, until, options) {
            Ok(value) => Ok(Some(value)),
            Err(Error::TimedOut { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Waits for any rank's word: parked if it is this rank's own, else by polling.
    pub(crate) fn watch(
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
                // What happened before the departure counts: the rank may have done its part.
                let value = context.load(self.at(rank, index))?;
                return if until(value) { Ok(value) } else { Err(error) };
            }
        }
    }

    /// Gives way to others in a loop that polls another rank's memory.
    #[inline]
    pub fn relax(&self, context: &Context) -> Result<()> {
        context.relax_among(&self.members)
    }

    pub(crate) fn pause(&self, context: &Context, time: Duration) -> Result<()> {
        context.pause_among(&self.members, time)
    }

    /// Attempts something until it succeeds or the limit is over.
    pub(crate) fn poll(
        &self,
        context: &Context,
        limit: TimeLimit,
        mut attempt: impl FnMut() -> Result<bool>,
    ) -> Result<bool> {
        let mut left = match limit {
            TimeLimit::Unlimited => None,
            TimeLimit::AtMost(time) => Some(time),
            TimeLimit::DoNotWait => Some(Duration::ZERO),
        };
        let longest = left.unwrap_or_default();
        let (mut looks, begin_ns) = (0, left.map_or(0, |_| context.now_ns()));
        loop {
            if attempt()? {
                return Ok(true);
            }
            looks += 1;
            let paused = match &mut left {
                Some(left) if left.is_zero() => return Ok(false),
                Some(left) if looks % LOOKS == 0 => {
                    // The looks take time, too, and much of it where others have the processor.
                    let passed = Duration::from_nanos(context.now_ns().saturating_sub(begin_ns));
                    *left = (*left).min(longest.saturating_sub(passed));
                    let slice = (*left / 8).clamp(SLICE_MIN, SLICE_MAX).min(*left);
                    *left -= slice;
                    self.pause(context, slice)
                }
                _ => self.relax(context),
            };
            if let Err(error) = paused {
                // What happened before the departure counts: the rank may have done its part.
                return if attempt()? { Ok(true) } else { Err(error) };
            }
        }
    }

    /// Makes all that this context has written visible to the next holder. The lock is passed on
    /// even if that fails, because what was written to a lost rank is lost either way: so callers
    /// return the error afterwards.
    #[inline]
    pub(crate) fn publish(&self, context: &Context) -> Result<()> {
        if context.omits(steps::FLUSH) { Ok(()) } else { context.flush_all() }
    }

    /// Sets this rank's words to zero, as they were allocated.
    fn clear(&self, context: &Context) -> Result<()> {
        for index in 0..self.words.len() {
            context.store(self.at(context.rank(), index), 0)?;
        }
        Ok(())
    }

    /// Returns the words, to be given back.
    pub fn into_words(self) -> Words {
        self.words
    }
}
