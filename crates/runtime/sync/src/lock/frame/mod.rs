//! What every lock is built on: its words, its members, time limits, poisoning and statistics. An
//! algorithm's file contains none of these.

mod backoff;
mod guard;
mod handle;
mod limit;
mod observer;
mod statistics;
mod words;

use std::time::Duration;

use farside_fabric::{Rank, Result};
use farside_rma::Context;

pub(crate) use backoff::WordPoll;
pub(crate) use guard::guard;
pub use handle::Handle;
pub use limit::TimeLimit;
pub use observer::{Observer, Standing};
pub use statistics::{Statistics, StatisticsCell};
pub use words::{Crowding, LockWords};

/// One lock's algorithm, as one rank executes it. The rank has at most one request under way.
///
/// `attempt`, `acquire` and `release` are enough. Time limits, recovery and a choice of homes have
/// defaults that an algorithm overrides where it can do better.
pub trait Algorithm: Send {
    /// Takes the lock if that is possible without waiting for another rank.
    fn attempt(&self, lock: &LockWords, context: &Context) -> Result<bool>;

    /// Waits until this rank has the lock.
    fn acquire(&self, lock: &LockWords, context: &Context) -> Result<()>;

    /// Makes what this rank has written visible, and passes the lock on.
    fn release(&self, lock: &LockWords, context: &Context) -> Result<()>;

    /// Waits for the lock for at most `time`. Returns false if the request gave up, which leaves
    /// the lock as usable as it was. By default, attempts it again and again.
    fn acquire_within(&self, lock: &LockWords, context: &Context, time: Duration) -> Result<bool> {
        lock.poll(context, TimeLimit::AtMost(time), || self.attempt(lock, context))
    }

    /// Makes a lock of which all words are zero a free lock among the present members. No member
    /// uses it meanwhile, and what was in flight has landed.
    fn reset(&mut self, _lock: &LockWords, _context: &Context) -> Result<()> {
        Ok(())
    }

    /// Returns the ranks whose loss poisons a lock of `members` at `home`.
    fn concerned(&self, _context: &Context, _home: Rank, members: &[Rank]) -> Vec<Rank> {
        members.to_vec()
    }

    /// Returns whether `rank` can be home, as far as this rank knows.
    fn can_be_home(&self, context: &Context, rank: Rank) -> bool {
        !context.is_lost(rank)
    }

    /// Takes the lock within a limit.
    fn request(&self, lock: &LockWords, context: &Context, limit: TimeLimit) -> Result<bool> {
        match limit {
            TimeLimit::Unlimited => self.acquire(lock, context).map(|()| true),
            TimeLimit::AtMost(time) => self.acquire_within(lock, context, time),
            TimeLimit::DoNotWait => self.attempt(lock, context),
        }
    }
}
