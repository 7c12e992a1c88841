//! Which members of a group share a node.

use farside_fabric::{Node, Rank, Topology};

/// The nodes that a group's members are on, in the order in which they appear among the members.
/// Members are given by their place in the group.
pub(crate) struct Nodes {
    /// Which of the nodes this member is on.
    pub(crate) me: usize,
    pub(crate) ids: Box<[Node]>,
    /// The member of the lowest rank on each node.
    pub(crate) leaders: Box<[usize]>,
    pub(crate) sizes: Box<[usize]>,
    /// The members on this node, by rank.
    pub(crate) near: Box<[usize]>,
    /// Which of the members on this node this one is; 0 leads them.
    pub(crate) place: usize,
}

impl Nodes {
    pub(crate) fn new(topology: &Topology, members: &[Rank], me: usize) -> Nodes {
        const NONE: usize = usize::MAX;
        let mut index = vec![NONE; topology.nodes() as usize];
        let (mut ids, mut leaders, mut sizes) = (Vec::new(), Vec::new(), Vec::new());
        for (member, &rank) in members.iter().enumerate() {
            let node = topology.node_of(rank);
            let at = &mut index[node.0 as usize];
            if *at == NONE {
                *at = ids.len();
                ids.push(node);
                leaders.push(member);
                sizes.push(0);
            }
            sizes[*at] += 1;
            if rank < members[leaders[*at]] {
                leaders[*at] = member;
            }
        }
        let mine = topology.node_of(members[me]);
        let is_near = |member: &usize| topology.node_of(members[*member]) == mine;
        let mut near: Vec<usize> = (0..members.len()).filter(is_near).collect();
        near.sort_unstable_by_key(|&member| members[member]);
        let place = near.iter().position(|&member| member == me).unwrap_or(0);
        Nodes {
            me: index[mine.0 as usize],
            ids: ids.into(),
            leaders: leaders.into(),
            sizes: sizes.into(),
            near: near.into(),
            place,
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.ids.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_may_be_spread_in_any_order() {
        // Two ranks on each of three nodes.
        let topology = Topology::parse("node:3", 6).unwrap();
        let members = [5, 0, 4, 1].map(Rank);
        let nodes = Nodes::new(&topology, &members, 3);
        assert_eq!(*nodes.ids, [Node(2), Node(0)]);
        assert_eq!((&*nodes.leaders, &*nodes.sizes), (&[2, 1][..], &[2, 2][..]));
        assert_eq!((nodes.me, &*nodes.near, nodes.place), (1, &[1, 3][..], 1));
        assert_eq!(nodes.count(), 2);
        let alone = Nodes::new(&topology, &[Rank(3)], 0);
        assert_eq!((alone.me, alone.count(), &*alone.near), (0, 1, &[0][..]));
    }
}
