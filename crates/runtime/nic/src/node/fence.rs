//! The fence against lost ranks, in the address table of a node with host-based servers; see
//! [`crate::target::fence`].

use std::sync::Arc;

use farside_fabric::Rank;
use farside_shm::Job;

use super::address_table::AddressTable;
use crate::target::fence::Fence;

/// The fence as one server of a node uses it.
pub(super) struct NodeFence {
    pub(super) job: Arc<Job>,
    pub(super) table: AddressTable,
    /// The rank whose host-based server this is; none for the agent, which tells of losses itself
    /// and so never while it executes a request.
    pub(super) server: Option<Rank>,
}

impl Fence for NodeFence {
    fn begin(&self, of: Rank) -> bool {
        if let Some(server) = self.server {
            self.table.set_served(server, Some(of));
        }
        !self.table.is_refused(of)
    }

    fn end(&self) {
        if let Some(server) = self.server {
            self.table.set_served(server, None);
        }
    }

    fn close(&self, rank: Rank) -> bool {
        self.table.refuse(rank);
        let near = self.job.topology().ranks_of(self.table.node());
        // One whose rank has left or has failed may still be at it, until its process ends.
        !near.iter().any(|&server| self.table.served_by(server) == Some(rank))
    }
}

#[cfg(test)]
mod tests {
    use farside_fabric::{ExitCause, Node, PeerState, Topology};
    use farside_shm::Config;

    use super::*;
    use crate::settings::Settings;
    use crate::target::memory::NodeMemory;
    use crate::target::service::Memory as _;
    use crate::transport::seal::Key;

    const FAR: Rank = Rank(2);

    /// The memory of a node as its agent has it, and as the server of rank 0 has it.
    fn servers() -> (Arc<Job>, NodeMemory, NodeMemory) {
        let mut config = Config::new(Topology::parse("node:2", 4).unwrap(), 4096);
        config.arena_bytes = 1 << 20;
        config.beside_bytes = AddressTable::bytes(&config.topology);
        let job = Job::create(&config).unwrap();
        let table = AddressTable::of(&job);
        table.set_up(Node(0), &Key::from_bytes([1; 16]), &Settings::default(), "").unwrap();
        let memory = |server: Option<Rank>| {
            let mut memory = NodeMemory::new(job.clone(), Node(0), server, table.host_ports());
            memory.fence =
                Some(Box::new(NodeFence { job: job.clone(), table: table.clone(), server }));
            memory
        };
        (job.clone(), memory(None), memory(Some(Rank(0))))
    }

    #[test]
    fn a_loss_is_told_when_what_is_being_executed_is_done() {
        let (job, mut agent, mut host) = servers();
        let lost = PeerState::Lost(ExitCause::Signal(9));
        assert!(host.begin(FAR));
        agent.note_departure(FAR, lost, None);
        assert!(agent.has_losses());
        assert_ne!(job.peer_state(FAR), lost, "its request is being executed");
        agent.tell_losses();
        assert_ne!(job.peer_state(FAR), lost, "still");
        host.end();
        assert!(!host.begin(FAR), "nothing of it is begun any more");
        host.end();
        agent.tell_losses();
        assert_eq!(job.peer_state(FAR), lost);
        assert!(!agent.has_losses() && agent.departures_changed);
        assert!(!host.begin(FAR) && !agent.begin(FAR));
        host.end();
        assert!(host.begin(Rank(3)), "others are served");
    }

    #[test]
    fn a_loss_is_told_although_a_server_was_killed_that_served_the_lost_rank() {
        let (job, mut agent, mut host) = servers();
        let lost = PeerState::Lost(ExitCause::Signal(9));
        assert!(host.begin(FAR));
        job.declare_lost(Rank(0), ExitCause::Signal(9));
        AddressTable::of(&job).set_served(Rank(0), None);
        agent.note_departure(FAR, lost, None);
        assert_eq!(job.peer_state(FAR), lost);
    }

    #[test]
    fn a_loss_is_told_only_when_a_server_is_done_whose_rank_has_left() {
        let (job, mut agent, mut host) = servers();
        let lost = PeerState::Lost(ExitCause::Signal(9));
        assert!(host.begin(FAR));
        job.note_departure(Rank(0), PeerState::Left, None);
        agent.note_departure(FAR, lost, None);
        assert_ne!(job.peer_state(FAR), lost, "its request is being executed");
        host.end();
        agent.tell_losses();
        assert_eq!(job.peer_state(FAR), lost);
    }
}
