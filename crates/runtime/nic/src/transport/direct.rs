//! Operations on far memory that bypass the target's agent, as the port that starts them sees them.
//!
//! An interface that reaches memory by itself wakes no waiting rank and counts no landing. The
//! agent does both: the initiator sends it a [`Notice`] behind each operation that has completed.

use farside_fabric::{Node, Word};

/// What an agent must be told of an operation that has bypassed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice {
    /// A word of its node has changed: a rank may be waiting for it.
    Changed(Word),
    /// So many counted operations have landed on its node.
    Landed(u32),
}

/// The notices that agents have not been sent yet, because the operation is under way or its
/// completion has not been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owed {
    /// None.
    Nothing,
    /// Of landings.
    Landings,
    /// Of words that change: a rank may sleep until the agent is told.
    Wakes,
}

/// Operations that bypass the agents. They progress in [`crate::TransportEndpoint::receive`], which
/// every thread that drives the port calls.
pub trait Direct {
    /// Returns whether an operation is under way that needs the port driven.
    fn is_busy(&self) -> bool;
    /// Returns which notices are still to be sent.
    fn owed(&self) -> Owed;
    /// Returns whether [`Direct::take_notices`] has any.
    fn has_notices(&self) -> bool;
    /// Takes the notices of all operations that have completed, each with the node whose agent gets
    /// it.
    fn take_notices(&self) -> Vec<(Node, Notice)>;
    /// Returns a count that changes when an operation completes.
    fn ends(&self) -> u64;
    /// Returns whether the operation of this number has completed, or is unknown.
    fn is_over(&self, transfer: u64) -> bool;
}
