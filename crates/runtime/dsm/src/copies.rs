//! The coherence domains of a job: the ranks that share one copy of the shared memory.

use farside_fabric::{Error, Mapped, Rank, Result, SegmentId, Topology};
use farside_rma::World;

use crate::config::Copies;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Domains {
    /// The domain of each rank.
    of: Vec<u32>,
    /// The first rank of each domain.
    homes: Vec<Rank>,
}

impl Domains {
    pub(crate) fn new(topology: &Topology, copies: Copies) -> Domains {
        let ranks = topology.ranks() as usize;
        if copies == Copies::Rank {
            let homes = (0..ranks as u32).map(Rank).collect();
            return Domains { of: (0..ranks as u32).collect(), homes };
        }
        let mut domains = Domains { of: vec![0; ranks], homes: Vec::new() };
        let mut numbers = vec![None; topology.nodes() as usize];
        for rank in (0..ranks as u32).map(Rank) {
            let node = topology.node_of(rank).0 as usize;
            let number = *numbers[node].get_or_insert_with(|| {
                domains.homes.push(rank);
                domains.homes.len() as u32 - 1
            });
            domains.of[rank.index()] = number;
        }
        domains
    }

    pub(crate) fn count(&self) -> usize {
        self.homes.len()
    }

    pub(crate) fn of(&self, rank: Rank) -> u32 {
        self.of[rank.index()]
    }

    /// Returns the ranks that have the memory of the domains, by domain.
    pub(crate) fn homes(&self) -> &[Rank] {
        &self.homes
    }

    pub(crate) fn home(&self, domain: u32) -> Result<Rank> {
        let home = self.homes.get(domain as usize).copied();
        home.ok_or_else(|| Error::Internal(format!("there is no coherence domain {domain}")))
    }

    /// Returns the rank that has the memory of a rank's domain.
    pub(crate) fn home_of(&self, rank: Rank) -> Rank {
        self.homes[self.of(rank) as usize]
    }

    /// Returns whether a domain has several ranks.
    pub(crate) fn is_shared(&self, domain: u32) -> bool {
        self.of.iter().filter(|&&of| of == domain).count() > 1
    }

    /// Returns the first of these ranks in each domain that has some of them.
    pub(crate) fn firsts(&self, ranks: &[Rank]) -> Vec<Rank> {
        let mut firsts: Vec<Option<Rank>> = vec![None; self.count()];
        for &rank in ranks {
            firsts[self.of(rank) as usize].get_or_insert(rank);
        }
        firsts.into_iter().flatten().collect()
    }
}

/// Returns whether a rank can reach the memory of the homes that it needs by loads and stores.
pub(crate) fn is_near(world: &World, segment: SegmentId) -> bool {
    let here = world.topology().ranks_of(world.topology().node_of(world.rank()));
    here.iter().all(|&rank| matches!(world.fabric().map(rank, segment), Ok(Some(_))))
}

pub(crate) fn map(world: &World, rank: Rank, segment: SegmentId) -> Result<Mapped> {
    world.fabric().map(rank, segment)?.ok_or_else(|| {
        Error::Internal(format!("the shared memory of {rank} is out of reach on its own node"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_of_a_node_share_a_domain() {
        let topology = Topology::parse("node:2", 5).unwrap();
        let domains = Domains::new(&topology, Copies::Node);
        assert_eq!(domains.count(), 2);
        for rank in (0..5).map(Rank) {
            let home = domains.home_of(rank);
            assert_eq!(topology.node_of(home), topology.node_of(rank));
            assert!(home <= rank);
        }
        assert_eq!(Domains::new(&topology, Copies::Rank).count(), 5);
    }
}
