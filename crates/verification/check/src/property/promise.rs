//! The names of promises.

use std::fmt;

/// A promise of a protocol, which a wrong variant breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promise {
    /// Ranks that exclude each other are never inside together.
    Exclusion,
    /// Writes are seen by every rank that comes after them.
    Visibility,
    /// No rank waits for ever.
    Progress,
    /// A waiting rank is overtaken a bounded number of times.
    Fairness,
    /// The lock leaves an element of the topology after T_L passings while another waits.
    Locality,
    /// At most T_W writers follow each other while a reader waits.
    WritersInARow,
    /// At most T_R readers of a counter go in while a writer waits.
    ReadersInARow,
    /// No rank is past a barrier, or an epoch, before all have come to it.
    Separation,
    /// All that was seen can be explained by one order of operations that each took effect at once.
    Linearizability,
    /// Shared pages show what a sequentially consistent memory would show.
    Consistency,
    /// The outcomes of a litmus test are those that the memory model allows.
    Order,
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Promise::Exclusion => "exclusion",
            Promise::Visibility => "visibility",
            Promise::Progress => "progress",
            Promise::Fairness => "bounded bypass",
            Promise::Locality => "T_L",
            Promise::WritersInARow => "T_W",
            Promise::ReadersInARow => "T_R",
            Promise::Separation => "separation",
            Promise::Linearizability => "linearizability",
            Promise::Consistency => "sequential consistency",
            Promise::Order => "order of memory",
        })
    }
}
