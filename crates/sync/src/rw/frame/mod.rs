//! What all reader-writer locks are built of, beyond what they share with the exclusive ones.

mod statistics;

use farside_fabric::{Rank, Result};
use farside_rma::{Context, Team};

use crate::lock::frame::{Patience, Site};

pub use statistics::{Statistics, Tally};

/// One reader-writer lock's algorithm, as one rank executes it. The rank has at most one request
/// under way.
pub trait Algorithm: Send {
    /// Its name, as benchmarks and tables spell it.
    fn name(&self) -> &'static str;

    /// Its words and its members.
    fn site(&self) -> &Site;

    /// What this rank has counted.
    fn tally(&self) -> &Tally;

    /// Takes the lock together with other readers. False if the request gave up, which leaves the
    /// lock as usable as it was.
    fn read(&self, context: &Context, patience: Patience) -> Result<bool>;

    /// Makes what this rank has written visible, and leaves the lock to the others.
    fn end_read(&self, context: &Context) -> Result<()>;

    /// Takes the lock alone. False if the request gave up.
    fn write(&self, context: &Context, patience: Patience) -> Result<bool>;

    /// Makes what this rank has written visible, and passes the lock on.
    fn end_write(&self, context: &Context) -> Result<()>;

    /// This rank's words as they were when they were allocated.
    fn clear(&self, context: &Context) -> Result<()> {
        self.site().clear(context)
    }

    /// Back to a free lock among `members`, at `home`. Nobody uses it meanwhile, what was in flight
    /// has landed, and all words are zero.
    fn reset(&mut self, context: &Context, home: Rank, members: &[Rank]) -> Result<()>;

    /// Whether `rank` can be home, as far as this rank knows.
    fn can_be_home(&self, context: &Context, rank: Rank) -> bool {
        !context.is_lost(rank)
    }

    /// Gives the words back. Collective over those who made the lock.
    fn free(self: Box<Self>, team: &Team<'_>) -> Result<()>;
}
