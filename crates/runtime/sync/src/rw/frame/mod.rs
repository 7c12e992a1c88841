//! What every reader-writer lock is built on, beyond what it shares with the exclusive ones.

mod statistics;

use std::ops::{Deref, DerefMut};

use farside_fabric::{Rank, Result};
use farside_rma::{Context, Team};

use crate::lock::frame::{LockWords, TimeLimit};
use crate::rw::steps;

pub use statistics::{Statistics, StatisticsCell};

/// The words of a reader-writer lock, its members and its statistics.
pub struct RwWords {
    words: LockWords,
    /// What this rank has counted.
    pub statistics: StatisticsCell,
}

impl RwWords {
    pub(super) fn new(words: LockWords) -> RwWords {
        RwWords { words, statistics: StatisticsCell::default() }
    }

    /// Makes all that this context has written visible to those who get the lock next; see
    /// [`LockWords::publish`].
    #[inline]
    pub(super) fn publish(&self, context: &Context) -> Result<()> {
        if context.omits(steps::FLUSH) { Ok(()) } else { context.flush_all() }
    }

    /// Returns how often this rank has waited in a queue of an exclusive lock that is part of this
    /// one.
    pub(super) fn queued(&self) -> u64 {
        self.words.statistics.read().queued
    }

    pub(super) fn into_words(self) -> LockWords {
        self.words
    }
}

impl Deref for RwWords {
    type Target = LockWords;

    #[inline]
    fn deref(&self) -> &LockWords {
        &self.words
    }
}

impl DerefMut for RwWords {
    fn deref_mut(&mut self) -> &mut LockWords {
        &mut self.words
    }
}

/// One reader-writer lock's algorithm, as one rank executes it. The rank has at most one request
/// under way.
///
/// The two attempts and the two ends are enough: by default a request attempts again and again, as
/// long as its limit allows. An algorithm whose readers or writers wait in a better way overrides
/// `read` or `write`.
pub trait Algorithm: Send {
    /// Takes the lock together with other readers, if that is possible without waiting.
    fn attempt_read(&self, lock: &RwWords, context: &Context) -> Result<bool>;

    /// Makes what this rank has written visible, and leaves the lock to the others.
    fn end_read(&self, lock: &RwWords, context: &Context) -> Result<()>;

    /// Takes the lock alone, if that is possible without waiting.
    fn attempt_write(&self, lock: &RwWords, context: &Context) -> Result<bool>;

    /// Makes what this rank has written visible, and passes the lock on.
    fn end_write(&self, lock: &RwWords, context: &Context) -> Result<()>;

    /// Takes the lock together with other readers. Returns false if the request gave up, which
    /// leaves the lock as usable as it was.
    fn read(&self, lock: &RwWords, context: &Context, limit: TimeLimit) -> Result<bool> {
        lock.poll(context, limit, || self.attempt_read(lock, context))
    }

    /// Takes the lock alone. Returns false if the request gave up.
    fn write(&self, lock: &RwWords, context: &Context, limit: TimeLimit) -> Result<bool> {
        lock.poll(context, limit, || self.attempt_write(lock, context))
    }

    /// Returns the words of an exclusive lock that is part of this one, if there is one.
    fn writers(&mut self) -> Option<&mut LockWords> {
        None
    }

    /// Makes a lock of which all words are zero a free lock among the present members. No member
    /// uses it meanwhile, and what was in flight has landed.
    fn reset(&mut self, _lock: &RwWords, _context: &Context) -> Result<()> {
        Ok(())
    }

    /// Returns whether `rank` can be home, as far as this rank knows.
    fn can_be_home(&self, context: &Context, rank: Rank) -> bool {
        !context.is_lost(rank)
    }

    /// Gives back the words of a lock that is part of this one. Collective over the members.
    fn free(self: Box<Self>, _team: &Team<'_>) -> Result<()> {
        Ok(())
    }
}
