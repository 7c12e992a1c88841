//! Ranks that have ended: what the others see of it, and who runs the handlers then.

use farside_fabric::{Node, PeerState, Rank, Result};

use crate::machine::Machine;
use crate::member::Doing;

impl Machine {
    pub(crate) fn has_left_unseen(&self, rank: Rank) -> bool {
        matches!(self.members[rank.index()].doing, Doing::Over)
            && self.store.peer_state(rank) == PeerState::Alive
    }

    pub(crate) fn publish_departures(&mut self) {
        for rank in (0..self.members.len() as u32).map(Rank) {
            if self.has_left_unseen(rank) {
                self.store.set_gone(rank, None);
            }
        }
    }

    /// Returns the rank that runs the handlers of a node, or the reason why there is none.
    pub(crate) fn runner(&self, node: Node) -> Result<Rank> {
        self.store.topology.first_left(node, |rank| match self.store.peer_state(rank) {
            // The others have not seen it yet.
            PeerState::Alive if matches!(self.members[rank.index()].doing, Doing::Over) => {
                PeerState::Left
            }
            peer_state => peer_state,
        })
    }
}
