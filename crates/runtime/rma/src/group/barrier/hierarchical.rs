//! Barrier in two levels: a tree inside every node, whose roots meet by dissemination across the
//! nodes.
//!
//! Paper:     [ARMCI03] section 3.1.2 across; the tree of [BST97] section 3 inside.
//! Differs:   the two are put together: only one member of a node sends messages to other nodes.
//! State:     the words of its parts.
//! Invariant: the roots meet when all members of their nodes have come, and release them when all
//!            nodes have.
//! Ordering:  as of its parts.
//! Cost:      1 near signal up and 1 down for each member but the roots; log2 of the nodes far
//!            signals from each root.
//! Checked:   3 ranks on 2 nodes and 4 ranks on 2 nodes exhaustively.

use farside_fabric::Result;

use super::super::call::Step;
use super::{binomial, dissemination};
use crate::team::Team;

pub(crate) fn meet(team: &Team<'_>, step: &Step) -> Result<()> {
    let nodes = team.nodes();
    let across =
        || dissemination::among(team, step, nodes.me, nodes.count(), &|node| nodes.leaders[node]);
    let near = &nodes.near;
    binomial::among(team, step, nodes.place, near.len(), &|place| near[place], across)
}
