//! The steps of barriers, fences and syncs that a known-wrong variant leaves out.

/// The steps without which a protocol is wrong. [`Right`] takes all of them; the wrong variants
/// exist for the checker, which must catch each of them. A protocol is compiled from the same lines
/// for every variant.
pub trait Variant: Send + 'static {
    /// Orders a request for confirmation behind what is to be confirmed.
    const ORDERS: bool = true;
    /// Uses two sets of flags in turn: a neighbour may be one round ahead.
    const ALTERNATES: bool = true;
    /// Waits for every child before it tells its parent.
    const GATHERS: bool = true;
    /// Waits until as much has landed as was posted.
    const AWAITS_LANDINGS: bool = true;
    /// Lets no member go on before all that was posted has landed everywhere.
    const MEETS_AGAIN: bool = true;
    /// Counts landings only where all ranks of the job are members.
    const COUNTS_ALL: bool = true;
    /// Reuses the place of a non-blocking collective only when its result has come.
    const AWAITS_PLACE: bool = true;
    /// Frees memory only when all that this member has posted to others has landed.
    const FLUSHES_BEFORE_FREE: bool = true;
}

/// The right variant.
pub struct Right;

impl Variant for Right {}

/// Known-wrong variants, for the checker to catch.
pub mod mutants {
    use super::Variant;

    crate::wrong_variants! {
        /// Asks for a confirmation that may overtake what it is to confirm.
        WithoutFence: ORDERS;
        /// Reuses its flags a round too early.
        WithOneSetOfFlags: ALTERNATES;
        /// Tells its parent before its children have come.
        WithoutGathering: GATHERS;
        /// Counts what was posted, and does not wait for it.
        WithoutAwaitingLandings: AWAITS_LANDINGS;
        /// Goes on when its own memory is complete.
        WithoutMeetingAgain: MEETS_AGAIN;
        /// Takes landings of ranks that are no members for those of members.
        CountingStrangers: COUNTS_ALL;
        /// Writes over a contribution that was not read yet.
        WithoutAwaitingPlace: AWAITS_PLACE;
        /// Lets others free memory that its own operations are on their way to.
        WithoutFlushBeforeFree: FLUSHES_BEFORE_FREE;
    }
}
