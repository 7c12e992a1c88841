//! What is known of ranks that have left or were lost: at once everywhere, or node by node.

use farside_fabric::{ExitCause, Loss, Node, Rank, Roster};

use crate::store::{Store, full_roster};

impl Store {
    /// Lets each node hear of losses for itself.
    pub(crate) fn slow_news(&mut self) {
        let heard = |_| full_roster(&self.topology);
        self.heard = (0..self.topology.nodes()).map(heard).collect();
    }

    pub(crate) fn heard_at(&self, node: Node) -> &Roster {
        self.heard.get(node.0 as usize).unwrap_or(&self.roster)
    }

    /// A rank was lost, and no other node has heard of that.
    pub(crate) fn set_lost_unheard(&mut self, rank: Rank, how: ExitCause) {
        self.roster.depart(rank, Some(how));
    }

    pub(crate) fn tell(&mut self, node: Node, lost: Rank, how: ExitCause) {
        if let Some(heard) = self.heard.get_mut(node.0 as usize) {
            heard.depart(lost, Some(how));
        }
    }

    /// The loss that a rank blames for its own end. All know of it at once.
    pub(crate) fn note_cause(&mut self, rank: Rank, cause: Option<Loss>) {
        let all = std::iter::once(&mut self.roster).chain(&mut self.heard);
        all.for_each(|roster| roster.note_cause(rank, cause));
    }

    pub(crate) fn set_gone(&mut self, rank: Rank, lost: Option<ExitCause>) {
        let all = std::iter::once(&mut self.roster).chain(&mut self.heard);
        all.for_each(|roster| roster.depart(rank, lost));
    }

    pub(crate) fn departures(&self) -> u32 {
        self.roster.count()
    }

    pub(crate) fn departures_known_to(&self, rank: Rank) -> u32 {
        self.heard_at(self.topology.node_of(rank)).count()
    }
}
