//! The fence that keeps a node's servers from executing anything of a lost rank after the ranks of
//! the node were told of the loss.
//!
//! The agent tells them between two requests, and looks at the job's table before each: for it
//! alone that is enough. Host-based servers execute requests beside the agent, in other processes.
//!
//! State:     for each rank whether it is refused, and for each host-based server the rank whose
//!            request is being executed, in the address table of the node.
//! Invariant: when a loss is told, no server executes anything of the lost rank, and none will.
//! Ordering:  a server says whose request it begins and then asks whether that rank is refused; the
//!            agent refuses the rank and then asks who serves it. The words have one order
//!            (sequentially consistent), so the server sees the refusal or the agent the server.

use farside_fabric::Rank;

/// What the servers of a node tell each other about lost ranks.
pub(crate) trait Fence: Send {
    /// Says that a request of a rank is about to be executed here, until [`Fence::end`]. Returns
    /// false if the rank is refused.
    fn begin(&self, of: Rank) -> bool;
    fn end(&self);
    /// Refuses a rank from now on. Returns whether no server of this node executes a request of it.
    fn close(&self, rank: Rank) -> bool;
}
