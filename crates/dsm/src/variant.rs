//! The steps that the coherence of shared pages needs, and that known-wrong variants leave out.

/// The steps without which the protocol is wrong. All of them are taken by [`Right`]; the wrong
/// ones exist for the checker, which must find each of them out. The protocol is compiled from the
/// same lines for every variant.
pub trait Variant: 'static {
    /// Heeds every write notice.
    const RECORDS_NOTICES: bool = true;
    /// Applies diffs in the order in which they happened.
    const ORDERS_DIFFS: bool = true;
    /// Makes a new twin for each interval.
    const RENEWS_TWINS: bool = true;
    /// Throws diffs away only when every rank has got what it needs of them.
    const RECLAIMS_LATE: bool = true;
    /// Sends each subtree what that subtree lacks.
    const TELLS_SUBTREES_APART: bool = true;
    /// Sends with a lock what others have told the last holder.
    const PASSES_ON: bool = true;
    /// Keeps what it hears in a barrier of some ranks for ranks that ask for a lock.
    const KEEPS_WHAT_SOME_TELL: bool = true;
    /// Asks the place of its predecessor that belongs to that request, and not to the one before.
    const ALTERNATES: bool = true;
    /// The ticket before a rank's first. Two tickets in a row must differ, nothing else.
    const TICKETS_BEFORE: u32 = 0;
    /// The number of the barrier before the first. A lock's word says in which epoch it was
    /// released.
    const EPOCHS_BEFORE: u32 = 0;
}

/// The right one.
pub struct Right;

impl Variant for Right {}

/// Known-wrong variants, for the checker to find out.
pub mod mutants {
    use super::Variant;

    farside_rma::wrong_variants! {
        /// Overlooks the first notice of each interval.
        DropsANotice: RECORDS_NOTICES;
        /// Applies the newest diff first.
        AppliesBackwards: ORDERS_DIFFS;
        /// Compares with the twin of an earlier interval.
        KeepsItsTwin: RENEWS_TWINS;
        /// Throws diffs away while others still need them.
        ReclaimsTooEarly: RECLAIMS_LATE;
        /// Sends a subtree what its sibling lacks.
        ConfusesSubtrees: TELLS_SUBTREES_APART;
        /// Passes on its own notices only.
        KeepsToItself: PASSES_ON;
        /// Keeps nothing that it hears in barriers for ranks that ask for a lock.
        ForgetsWhatSomeTold: KEEPS_WHAT_SOME_TELL;
        /// Uses one place for all its requests of a lock.
        UsesOnePlace: ALTERNATES;
    }

    /// Right, and about to run over the end of its numbers.
    pub struct Late;

    impl Variant for Late {
        const TICKETS_BEFORE: u32 = u32::MAX;
        const EPOCHS_BEFORE: u32 = u32::MAX;
    }
}
