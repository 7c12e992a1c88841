//! What a reader-writer lock's file says of its lock, for all that goes through every lock.

use super::Kind;

/// A reader-writer lock.
pub struct Entry {
    /// Its name, as benchmarks and tables spell it.
    pub name: &'static str,
    /// What it is, in a line.
    pub about: &'static str,
    /// Returns the kind with its usual parameters.
    pub kind: fn() -> Kind,
}
