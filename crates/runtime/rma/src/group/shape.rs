//! The shapes that messages of a group follow: a ring with partners at distances of powers of two,
//! and a binomial tree. Members are numbered from 0.

/// Returns in how many rounds of doubling one member reaches `count`: log2, rounded up.
pub fn rounds(count: usize) -> u32 {
    count.next_power_of_two().ilog2()
}

/// One round of a dissemination, as one member sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange {
    /// The number of the round, from 0.
    pub round: u32,
    /// The member that hears from this one: 2^round further on.
    pub to: usize,
    /// The member that this one hears from: 2^round before.
    pub from: usize,
}

/// Returns the rounds of member `me` of `count`. After round k, a member that has waited for its
/// partner in each round so far knows of the 2^(k+1) members up to itself.
///
/// Partners lie on a ring instead of across the cube of \[ARMCI03\] section 3.1.2, so that `count`
/// need not be a power of two.
///
/// ```
/// # use farside_rma::group::dissemination;
/// assert_eq!(dissemination(1, 5).map(|round| round.to).collect::<Vec<_>>(), [2, 3, 0]);
/// ```
pub fn dissemination(me: usize, count: usize) -> impl Iterator<Item = Exchange> {
    (0..rounds(count)).map(move |round| Exchange {
        round,
        to: neighbour(me, count, round, true),
        from: neighbour(me, count, round, false),
    })
}

/// Returns the member 2^round further up (or down) the ring than member `me` of `count`.
pub fn neighbour(me: usize, count: usize, round: u32, up: bool) -> usize {
    let distance = (1 << round) % count;
    (me + if up { distance } else { count - distance }) % count
}

/// An edge of the binomial tree, as the member at one end sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    /// The member at the other end.
    pub id: usize,
    /// The bit in which the two differ; their numbers are 2^level apart.
    pub level: u32,
}

/// Returns the edge from a member to its parent: clears the leftmost 1 bit \[BST97 section 3\].
pub fn parent(id: usize) -> Option<Edge> {
    id.checked_ilog2().map(|level| Edge { id: id & !(1 << level), level })
}

/// Returns the edges from a member to its children among `count` members: sets one bit left of the
/// leftmost 1 bit \[BST97 section 3\]. The largest subtree comes first.
pub fn children(id: usize, count: usize) -> impl Iterator<Item = Edge> {
    let first = id.checked_ilog2().map_or(0, |level| level + 1);
    (first..usize::BITS)
        .map(move |level| Edge { id: id | (1 << level), level })
        .take_while(move |child| child.id < count)
}

/// Returns whether a member is in the subtree of `root`: as many of its rightmost bits as `root`
/// has are those of `root`.
pub fn is_below(id: usize, root: usize) -> bool {
    let bits = root.checked_ilog2().map_or(0, |level| level + 1);
    id & ((1 << bits) - 1) == root
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_hears_of_everybody_in_a_dissemination() {
        for count in 1..=40 {
            // What each member knows, as a set of members.
            let mut known: Vec<u64> = (0..count).map(|member| 1 << member).collect();
            for round in 0..rounds(count) {
                let before = known.clone();
                for (me, known) in known.iter_mut().enumerate() {
                    let exchange = dissemination(me, count).nth(round as usize).unwrap();
                    let back = dissemination(exchange.from, count).nth(round as usize).unwrap();
                    assert_eq!((exchange.round, back.to), (round, me));
                    *known |= before[exchange.from];
                }
            }
            assert!(known.iter().all(|&known| known == (1 << count) - 1), "{count} members");
        }
    }

    #[test]
    fn it_is_a_tree_for_every_number_of_members() {
        let above = |id| std::iter::successors(Some(id), |&at| parent(at).map(|edge| edge.id));
        for count in 1..=64 {
            for id in 0..count {
                for child in children(id, count) {
                    assert_eq!(parent(child.id), Some(Edge { id, level: child.level }));
                    assert_eq!(child.id - id, 1 << child.level);
                }
                assert_eq!(above(id).last(), Some(0));
                for other in 0..count {
                    assert_eq!(is_below(other, id), above(other).any(|at| at == id));
                }
            }
            assert_eq!((0..count).map(|id| children(id, count).count()).sum::<usize>(), count - 1);
        }
    }

    #[test]
    fn the_trees_of_the_paper() {
        let of = |id, count| children(id, count).map(|edge| edge.id).collect::<Vec<_>>();
        // Figure 1: eight members; figure 2: ten, with two of the lowest level.
        assert_eq!(of(0, 8), [1, 2, 4]);
        assert_eq!(of(1, 8), [3, 5]);
        assert_eq!(of(0, 10), [1, 2, 4, 8]);
        assert_eq!((parent(9).unwrap().id, parent(7).unwrap().id), (1, 3));
    }
}
