//! What an aggregator must do, and a known-wrong variant leaves out.

/// The steps without which the protocol is wrong. All of them are taken by [`Right`]; the wrong
/// ones exist for the checker, which must find each of them out.
pub trait Variant: 'static {
    /// Sends a packet only where its receiver has taken out what was there.
    const WAITS_FOR_ROOM: bool = true;
    /// Says how many items it has pushed before any of them leaves.
    const COUNTS_FIRST: bool = true;
    /// Counts an item when it is pushed, and not when its packet is closed.
    const COUNTS_PUSHED: bool = true;
    /// Asks all ranks when their reports suggest the end.
    const ASKS_ALL: bool = true;
    /// The bits of a packet's number in its word.
    const NUMBER_BITS: u32 = 32;
    /// Counts a rank only once it has said that it will push nothing more by itself.
    const AWAITS_ALL: bool = true;
    /// Adds to the count of packets that were taken. Several acknowledgements may be on their way,
    /// and land in any order.
    const ADDS_TAKEN: bool = true;
}

/// The right one.
#[derive(Debug)]
pub struct Right;

impl Variant for Right {}

/// The right one with numbers that soon begin again.
#[derive(Debug)]
pub struct Narrow;

impl Variant for Narrow {
    const NUMBER_BITS: u32 = 2;
}

/// Known-wrong variants, for the checker to find out.
pub mod mutants {
    use super::Variant;

    farside_rma::wrong_variants! {
        /// Writes over packets that were not read.
        WithoutRoom: WAITS_FOR_ROOM;
        /// Lets items be handled that nobody has counted.
        WithoutCountFirst: COUNTS_FIRST;
        /// Counts items when their packets are closed: until then they are nobody's.
        CountsClosed: COUNTS_PUSHED;
        /// Believes reports of different times.
        WithoutAsking: ASKS_ALL;
        /// Ends while others still produce.
        WithoutAll: AWAITS_ALL;
        /// Writes how many packets were taken, and an older number over a newer one.
        StoresTaken: ADDS_TAKEN;
    }
}
