//! What all locks are built of: where a lock's words are, how long a request waits, what is
//! counted, what a wrong variant leaves out.

mod handle;
mod site;
mod statistics;
mod variant;

use std::time::Duration;

use farside_fabric::{Rank, Result};
use farside_rma::{Context, Words};

pub use handle::Handle;
pub use site::Site;
pub use statistics::{Statistics, Tally};
pub use variant::{Right, Standing, Variant};

/// One lock's algorithm, as one rank executes it. The rank has at most one request under way.
pub trait Algorithm: Send {
    /// Its name, as benchmarks and tables spell it.
    fn name(&self) -> &'static str;

    /// Its words, its members and its counts.
    fn site(&self) -> &Site;

    /// Takes the lock. False if the request gave up, which leaves the lock as usable as it was.
    fn acquire(&self, context: &Context, patience: Patience) -> Result<bool>;

    /// Makes what this rank has written visible, and passes the lock on.
    fn release(&self, context: &Context) -> Result<()>;

    /// Back to a free lock among `members`, at `home`. Nobody uses it meanwhile, what was in flight
    /// has landed, and all words are zero.
    fn reset(&mut self, context: &Context, home: Rank, members: &[Rank]) -> Result<()>;

    /// Whether `rank` can be home, as far as this rank knows.
    fn can_be_home(&self, context: &Context, rank: Rank) -> bool {
        !context.is_lost(rank)
    }

    /// The words, to be given back.
    fn into_words(self: Box<Self>) -> Words;
}

/// How long a request waits for its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// Until it has the lock.
    Forever,
    /// At most so long. With no time at all a request still takes its place, and gives it up again
    /// unless the lock is there at once.
    AtMost(Duration),
    /// Not at all: takes the lock if it is free.
    Never,
}

impl Patience {
    /// Whether the request may give up after it has taken its place.
    pub fn may_give_up(self) -> bool {
        matches!(self, Patience::AtMost(_))
    }
}
