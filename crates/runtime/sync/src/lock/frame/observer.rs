//! What a checker is told of requests that wait.

use farside_fabric::Result;
use farside_rma::Context;

/// The place of a request that has asked for a lock and does not have it yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// In a queue: that of this level of the topology, the narrowest being 0.
    Queued(usize),
    /// Outside, as a reader that has found the lock closed.
    ShutOut,
    /// In no queue: it asks again and again, and no other rank knows of it.
    Polling,
}

/// Called when a request has taken its place, or has found that it must wait. A checker counts
/// from then on how often the request is overtaken.
pub type Observer = fn(&Context, Standing) -> Result<()>;
