//! What a fabric says of itself in numbers.

/// Numbers and orderings of a fabric; never a bit per method.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caps {
    /// The fabric's name, as `--fabric` spells it.
    pub name: &'static str,
    /// In which order what was posted to one peer lands, without a fence.
    pub ordering: Ordering,
    /// Whether loads and stores of mapped memory may replace operations on it. A fabric that must
    /// see every operation, as the simulator and decorators do, says no.
    pub direct: bool,
    /// Whether the processor's atomics on near memory and the fabric's exclude each other. Where
    /// they do not, all atomics of ranks go through the fabric, near ones too, and handlers, whose
    /// atomics are the processor's, change no word that ranks change.
    pub cpu_coherent: bool,
    /// The longest argument and the longest reply of a call.
    pub call_bytes_max: u64,
    /// How many fetching operations one rank may have under way; further ones wait until one is
    /// complete.
    pub outstanding_max: u32,
    /// How many ranks of this node can run at the same time.
    pub processors: u32,
    /// How many bytes [`SegmentId::ROOT`](crate::SegmentId::ROOT) has on every rank.
    pub root_bytes: u64,
}

/// In which order posted operations land.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ordering {
    /// In any order.
    Unordered,
    /// To one peer, in the order in which they were posted.
    PerPeer,
}
