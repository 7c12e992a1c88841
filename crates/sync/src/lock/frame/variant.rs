//! Variants of an algorithm: the right one, and wrong ones for the checker to find out.

use farside_fabric::Result;
use farside_rma::Context;

/// The variant of every algorithm that takes all steps. Each algorithm has a trait `Variant` of its
/// own, whose constants name the steps that a wrong variant leaves out and the widths of its packed
/// fields; all variants are compiled from the same lines.
#[derive(Debug)]
pub struct Right;

/// Declares variants of an algorithm. After the name of a variant stand the traits that it
/// implements, each with the constants in which it differs from [`Right`].
macro_rules! variants {
    ($($(#[$doc:meta])* $name:ident {
        $($part:path $({ $($step:ident: $type:ty = $value:expr),+ $(,)? })?),+ $(,)?
    })+) => { $(
        $(#[$doc])*
        #[derive(Debug)]
        pub(crate) struct $name;
        $(impl $part for $name { $($(const $step: $type = $value;)+)? })+
    )+ };
}
pub(crate) use variants;

/// The steps of a recovery, each of which a known-wrong variant leaves out.
pub trait Recovery {
    /// The lock gets new words: what the lost had under way may still land in the old ones.
    const TAKES_NEW_WORDS: bool = true;
}

impl Recovery for Right {}

/// Recovers the lock in the words that it has.
#[derive(Debug)]
pub struct KeepsItsWords;

impl Recovery for KeepsItsWords {
    const TAKES_NEW_WORDS: bool = false;
}

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
