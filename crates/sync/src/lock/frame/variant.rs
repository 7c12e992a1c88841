//! What an algorithm must do and a known-wrong variant leaves out.

use farside_fabric::Result;
use farside_rma::Context;

/// Where a request stands that has asked for a lock and does not have it yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// In a queue: that of this level of the topology, the narrowest being 0.
    Queued(usize),
    /// Outside, as a reader that has found the lock closed.
    ShutOut,
    /// Nowhere: it asks again and again, and nobody knows of it.
    Polling,
}

/// The steps without which a lock is wrong. All of them are taken by [`Right`]; the wrong ones
/// exist for the checker, which must find each of them out. A protocol is compiled from the same
/// lines for every variant.
pub trait Variant: Send + 'static {
    /// Makes what was written under the lock visible before the lock is passed on.
    const FLUSHES: bool = true;
    /// Waits for a successor that has taken its place and is about to link itself.
    const LOOKS_AGAIN: bool = true;
    /// Takes its ticket, or the lock's word, in one atomic step.
    const TAKES_AT_ONCE: bool = true;
    /// Gives up a place in one atomic step that a grant cannot slip in before.
    const GIVES_UP_AT_ONCE: bool = true;
    /// Passes over a place that was given up.
    const SKIPS: bool = true;
    /// Releases the queue of the wider element before the own element's next goes there.
    const CLIMBS_LAST: bool = true;
    /// Wakes the first of the queue when the lock becomes free.
    const WAKES: bool = true;
    /// Uses two nodes in turn.
    const ALTERNATES: bool = true;
    /// Gives every place in a queue a number of its own.
    const NUMBERS_PLACES: bool = true;
    /// Hands the lock to the first of the queue once it was bypassed often enough.
    const BOUNDS_BYPASS: bool = true;
    /// Waits for the readers that are inside before a writer goes in.
    const DRAINS: bool = true;
    /// Asks again whether writers are waiting, for as long as the readers' limit keeps it out.
    const ASKS_AGAIN: bool = true;
    /// Starts a counter of readers anew in one atomic step, which cannot take a writer's mark away.
    const RESETS_AT_ONCE: bool = true;
    /// Closes a counter that readers are in only if it will wait for all of them.
    const CLOSES_EMPTY: bool = true;
    /// Counts arrivals in the topmost field of a counter, which runs over into nothing.
    const ARRIVALS_ON_TOP: bool = true;
    /// Bits of a counter's turn. Correctness needs one; each further one halves how often a reader
    /// that sleeps may miss openings that pass it.
    const TURN_BITS: u32 = 5;
    /// Bits of a counter's arrivals: a T_R must fit, nothing else.
    const ARRIVAL_BITS: u32 = 18;
    /// Bits of the number of a request to an agent, which is not zero: two in a row must differ,
    /// nothing else.
    const REQUEST_BITS: u32 = 40;
    /// Bits of the number of a place in a queue: a rank that asks without waiting must not sleep
    /// through so many places of one other rank between two of its steps.
    const PLACE_BITS: u32 = 38;
    /// Leaves an element when the lock was passed inside it as often as T_L allows.
    const KEEPS_T_L: bool = true;
    /// Lets readers in when as many writers have followed each other as T_W allows.
    const KEEPS_T_W: bool = true;
    /// Keeps readers out while a writer waits, when as many have come as T_R allows.
    const KEEPS_T_R: bool = true;

    /// A request has taken its place, or has found that it must wait. Does nothing, unless a
    /// checker wants to know how often somebody who waits is passed by others.
    #[inline(always)]
    fn waits(_context: &Context, _standing: Standing) -> Result<()> {
        Ok(())
    }
}

/// The right one.
pub struct Right;

impl Variant for Right {}
