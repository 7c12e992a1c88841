//! What a barrier, a fence or a sync must do, and a known-wrong variant leaves out.

/// The steps without which a protocol is wrong. All of them are taken by [`Right`]; the wrong ones
/// exist for the checker, which must find each of them out. A protocol is compiled from the same
/// lines for every variant.
pub trait Variant: Send + 'static {
    /// Orders a request for confirmation behind what is to be confirmed.
    const ORDERS: bool = true;
    /// Uses two sets of flags in turn: a neighbour may be one round ahead.
    const ALTERNATES: bool = true;
    /// Waits for every child before it tells its parent.
    const GATHERS: bool = true;
    /// Waits until as much has landed as was posted.
    const AWAITS_LANDINGS: bool = true;
    /// Lets nobody go before all that was posted has landed everywhere.
    const MEETS_AGAIN: bool = true;
}

/// The right one.
pub struct Right;

impl Variant for Right {}

/// Known-wrong variants, for the checker to find out.
pub mod mutants {
    use super::Variant;

    farside_rma::wrong_variants! {
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
    }
}
