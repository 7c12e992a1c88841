//! Barrier in two levels: a tree inside every node, whose roots meet by dissemination across the
//! nodes.
//!
//! Paper:     [ARMCI03] section 3.1.2 across; the tree of [BST97] section 3 inside.
//! Differs:   the two are put together: only one rank of a node sends messages to other nodes.
//! State:     on every rank log2 of the largest node's ranks + 1 words, and 2 x log2 of the nodes.
//! Invariant: the roots meet when all ranks of their nodes have come, and release them when all
//!            nodes have.
//! Ordering:  as of its parts.
//! Cost:      1 near signal up and 1 down for each rank but the roots; log2 of the nodes far
//!            signals from each root.
//! Checked:   3 ranks on 2 nodes and 4 ranks on 2 nodes exhaustively.

use std::marker::PhantomData;

use farside_fabric::{Node, Rank, Result, Topology};
use farside_rma::{Context, World};

use super::Algorithm;
use super::binomial::{self, gather_and_release};
use super::crew::Crew;
use super::dissemination::{self, exchange};
use crate::variant::Variant;

fn largest(topology: &Topology) -> u32 {
    (0..topology.nodes()).map(|node| topology.ranks_of(Node(node)).len() as u32).max().unwrap_or(1)
}

pub(super) fn words(topology: &Topology) -> usize {
    binomial::words(largest(topology)) + dissemination::words(topology.nodes())
}

pub(super) struct Hierarchical<V> {
    crew: Crew,
    /// The ranks of this node, and the first rank of every node.
    near: Box<[Rank]>,
    roots: Box<[Rank]>,
    /// Which of them this rank, and this node, are.
    place: u32,
    node: Node,
    /// Where the words of the exchange begin.
    across: usize,
    variant: PhantomData<V>,
}

impl<V> Hierarchical<V> {
    pub(super) fn new(world: &World, crew: Crew) -> Result<Hierarchical<V>> {
        let topology = world.topology();
        let node = topology.node_of(world.rank());
        let near: Box<[Rank]> = topology.ranks_of(node).into();
        let roots = (0..topology.nodes())
            .map(|node| topology.leader_of(Node(node)))
            .collect::<Result<_>>()?;
        let place = near.iter().position(|&rank| rank == world.rank()).unwrap_or(0) as u32;
        let across = binomial::words(largest(topology));
        Ok(Hierarchical { crew, near, roots, place, node, across, variant: PhantomData })
    }
}

impl<V: Variant> Algorithm for Hierarchical<V> {
    fn crew(&self) -> &Crew {
        &self.crew
    }

    fn meet(&self, context: &Context, round: u64) -> Result<()> {
        let inside =
            (self.place, self.near.len() as u32, &|at: u32| self.near[at as usize] as Rank);
        let across =
            (self.node.0, self.roots.len() as u32, &|at: u32| self.roots[at as usize] as Rank);
        let at_the_top = || {
            exchange::<V>(&self.crew, context, (across.0, across.1, across.2), self.across, round)
        };
        gather_and_release::<V>(
            &self.crew,
            context,
            (inside.0, inside.1, inside.2),
            0,
            round,
            at_the_top,
        )
    }

    fn into_crew(self: Box<Self>) -> Crew {
        self.crew
    }
}
