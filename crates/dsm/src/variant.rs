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
    /// Renews a twin when its diff is made, and not before.
    const RENEWS_TWINS_LATE: bool = true;
    /// Looks again, at the end of each interval, at a page of which a diff was made.
    const COMPARES_AGAIN: bool = true;
    /// Makes the diff of a page when it hears that another domain has written it.
    const ENDS_CHAINS: bool = true;
    /// Merges the words of other domains one by one into a page.
    const MERGES_WORDS: bool = true;
    /// Merges the words of other domains into the twin, too.
    const MERGES_INTO_TWINS: bool = true;
    /// Tells the other ranks of the domain that a page was closed.
    const TELLS_OF_CLOSED: bool = true;
    /// Closes a page only when no other rank of the domain can write it.
    const HEEDS_WRITERS: bool = true;
    /// Merges a diff that was pushed only into a page that lacks no other.
    const PUSHES_ALONE: bool = true;
    /// Merges a diff that was pushed only into a page that has those before it.
    const HEEDS_GAPS: bool = true;
    /// Leaves out the diffs before one of all words, and no later ones.
    const KEEPS_LATER_DIFFS: bool = true;
    /// Tells a diff of all words from one of nearly all, which is as long.
    const TELLS_WHOLE: bool = true;
    /// Looks whether a page that was opened ahead of its first store has changed.
    const LOOKS_AT_OPENED: bool = true;
    /// Adds to the count of long messages that were taken. Several acknowledgements may be on their
    /// way, and land in any order.
    const ADDS_TAKEN: bool = true;
    /// Tells others that an error keeps it from going on.
    const TELLS_OF_FAILURE: bool = true;
    /// Makes an operation of each access to what ranks of a domain share, for the explorer.
    const MARKS_ACCESSES: bool = false;
    /// The ticket before a rank's first. Two tickets in a row must differ, nothing else.
    const TICKETS_BEFORE: u32 = 0;
    /// The number of the barrier before the first. A lock's word says in which epoch it was
    /// released.
    const EPOCHS_BEFORE: u32 = 0;
    /// The order of an interval that was before the first.
    const ORDERS_BEFORE: u64 = 0;
}

/// The right one.
pub struct Right;

impl Variant for Right {}

/// The right one, for the explorer.
pub struct Marked;

impl Variant for Marked {
    const MARKS_ACCESSES: bool = true;
}

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
        /// Writes how many long messages were taken, and an older number over a newer one.
        StoresTaken: ADDS_TAKEN;
        /// Keeps to itself that it could not go on.
        KeepsItsFailure: TELLS_OF_FAILURE;
    }

    macro_rules! marked {
        ($($(#[$doc:meta])* $name:ident: $step:ident;)*) => { $(
            $(#[$doc])*
            #[derive(Debug)]
            pub struct $name;
            impl Variant for $name {
                const $step: bool = false;
                const MARKS_ACCESSES: bool = true;
            }
        )* };
    }

    marked! {
        /// Renews twins when an interval ends: what was written before is in no diff.
        RenewsTwinsEarly: RENEWS_TWINS_LATE;
        /// Forgets a page when its diff was made: what the current interval writes is lost.
        ForgetsAfterDiff: COMPARES_AGAIN;
        /// Goes on with a chain when another domain has written the page.
        KeepsChains: ENDS_CHAINS;
        /// Merges by writing back the whole page, over a neighbour's store.
        MergesPages: MERGES_WORDS;
        /// Merges into the page only: words of others become its own.
        MergesBesideTwins: MERGES_INTO_TWINS;
        /// Closes pages that other ranks of the domain can still write.
        ClosesSilently: TELLS_OF_CLOSED;
        /// Closes a page at the end of its interval, which a neighbour can still write.
        ClosesUnderWriters: HEEDS_WRITERS;
        /// Merges a diff that was pushed into a page that lacks older ones.
        PushesOverOthers: PUSHES_ALONE;
        /// Merges a diff that was pushed into a page that lacks one before it.
        PushesOverGaps: HEEDS_GAPS;
        /// Takes a diff of all words for all that there is to fetch.
        FetchesWholeOnly: KEEPS_LATER_DIFFS;
        /// Takes a diff of all words but one for one of all.
        TakesMostForWhole: TELLS_WHOLE;
        /// Opens pages ahead of their first store, and never looks at them.
        OpensBlindly: LOOKS_AT_OPENED;
    }

    /// Right, and about to run over the end of its numbers.
    pub struct Late;

    impl Variant for Late {
        const TICKETS_BEFORE: u32 = u32::MAX;
        const EPOCHS_BEFORE: u32 = u32::MAX;
        const ORDERS_BEFORE: u64 = u32::MAX as u64 - 1;
    }
}
