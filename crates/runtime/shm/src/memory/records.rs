//! What ranks write for others to read: their records, and the rings of their latest operations.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use farside_fabric::Rank;
use farside_fabric::memory::Held;
use farside_fabric::record::{
    CONTEXTS, ContextRecord, RANK_RECORD_BYTES, RankRecord, Records, Ring, context_record_at,
};
use farside_fabric::tracing::Server;

use super::Job;

/// How many rings a job that is recorded has: for each rank one of its own and one of the thread
/// that may serve its memory, and two for the agents of each node.
pub(super) fn rings(ranks: u32, nodes: u32) -> u32 {
    2 * ranks + 2 * nodes
}

impl Job {
    /// Returns the record of a rank.
    pub fn rank_record(&self, rank: Rank) -> &RankRecord {
        // SAFETY: the layout reserves a page-aligned record for each rank, which consists of
        // atomics.
        unsafe { self.at(self.record_of(rank)).cast::<RankRecord>().as_ref() }
    }

    /// Returns the record of a context of a rank, below [`CONTEXTS`].
    pub fn context_record(&self, rank: Rank, context: usize) -> &ContextRecord {
        assert!(context < CONTEXTS, "context {context} of {CONTEXTS}");
        // SAFETY: as above, for the pages behind it.
        unsafe { self.at(self.record_of(rank) + context_record_at(context)).cast().as_ref() }
    }

    fn record_of(&self, rank: Rank) -> u64 {
        assert!(rank.0 < self.ranks(), "{rank} of {}", self.ranks());
        self.layout.records + u64::from(rank.0) * RANK_RECORD_BYTES
    }

    /// Returns handles on a rank's record and on that of one of its contexts, which keep the
    /// mapping alive.
    pub(crate) fn hold_records(self: &Arc<Job>, rank: Rank, context: usize) -> Records {
        let (of_rank, of_context) = (self.rank_record(rank), self.context_record(rank, context));
        // SAFETY: the records are in the mapping, which lives as long as the job.
        unsafe {
            Records {
                rank: Held::new(NonNull::from(of_rank), self.clone()),
                context: Held::new(NonNull::from(of_context), self.clone()),
            }
        }
    }

    /// Returns the ring of a rank's latest operations, if the job is recorded.
    pub fn ring(self: &Arc<Job>, rank: Rank) -> Option<Held<Ring>> {
        (rank.0 < self.ranks()).then(|| self.ring_at(rank.0)).flatten()
    }

    /// Returns the ring of what a thread has served lately, if the job is recorded and can have the
    /// thread.
    pub fn service_ring(self: &Arc<Job>, server: Server) -> Option<Held<Ring>> {
        if !server.is_of(&self.topology) {
            return None;
        }
        let (ranks, nodes) = (self.ranks(), self.topology.nodes());
        let index = match server {
            Server::Host(rank) => ranks + rank.0,
            Server::Agent(node) => 2 * ranks + node.0,
            Server::Handlers(node) => 2 * ranks + nodes + node.0,
        };
        self.ring_at(index)
    }

    fn ring_at(self: &Arc<Job>, index: u32) -> Option<Held<Ring>> {
        if index >= self.header().rings.load(Ordering::Relaxed) {
            return None;
        }
        let at = self.layout.rings + u64::from(index) * size_of::<Ring>() as u64;
        // SAFETY: the layout reserves so many rings of atomics, at multiples of their alignment, in
        // the mapping, which lives as long as the job.
        Some(unsafe { Held::new(self.at(at).cast(), self.clone()) })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use farside_fabric::{Node, Topology};

    use super::*;
    use crate::memory::Config;

    fn job(is_recorded: bool) -> Arc<Job> {
        let topology = Topology::parse("node:2", 3).unwrap();
        let config = Config::new(topology, 100);
        Job::create(&Config { arena_bytes: 1 << 20, is_recorded, ..config }).unwrap()
    }

    /// Where all rings of a job of three ranks on two nodes are.
    fn places(job: &Arc<Job>) -> Vec<Option<*const Ring>> {
        let of_nodes =
            (0..2).flat_map(|node| [Server::Agent(Node(node)), Server::Handlers(Node(node))]);
        let servers = of_nodes.chain((0..3).map(|rank| Server::Host(Rank(rank))));
        let rings = (0..3).map(|rank| job.ring(Rank(rank)));
        let rings = rings.chain(servers.map(|server| job.service_ring(server)));
        rings.map(|ring| ring.map(|ring| &raw const *ring)).collect()
    }

    #[test]
    fn every_rank_and_every_server_has_a_ring_of_its_own() {
        let job = job(true);
        let places = places(&job);
        assert!(places.iter().all(Option::is_some));
        assert_eq!(places.iter().collect::<BTreeSet<_>>().len(), 10);
        assert_eq!(places.len(), rings(3, 2) as usize);
        assert!(job.ring(Rank(3)).is_none());
        assert!(job.service_ring(Server::Agent(Node(2))).is_none());
        assert!(job.service_ring(Server::Host(Rank(3))).is_none());
    }

    #[test]
    fn a_job_that_is_not_recorded_has_no_rings() {
        assert!(places(&job(false)).iter().all(Option::is_none));
    }
}
