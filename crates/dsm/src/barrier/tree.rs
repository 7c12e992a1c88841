//! The binomial spanning tree: write notices are gathered on the way up, and each subtree gets what
//! it lacks on the way down.
//!
//! Paper:     [BST97] section 3: the parent of a logical id by clearing its leftmost 1 bit, its
//!            children by adding powers of two.
//! Differs:   messages are puts with a signal. On the way up goes, beside the notices, what all in
//!            a subtree know; it is what need not be sent to them.
//! State:     a slot and a word for each sender on every rank.
//! Invariant: a member checks in when its whole subtree has come; a subtree gets every notice that
//!            one of it lacks.
//! Ordering:  a message lands before its signal (`put_signal_brings_its_data`); each subtree gets
//!            what it lacks itself (`a_subtree_that_gets_its_siblings_notices_is_caught`).
//! Cost:      2 (N - 1) messages, in 2 log2 N steps; no member has more than log2 N partners.
//! Checked:   3 ranks, with all small programs, exhaustively; barriers of two of three ranks; every
//!            N up to 64 by a test of the shape.

use farside_fabric::Result;

use super::BarrierMembers;
use crate::coherence::Coherence;
use crate::time::Time;
use crate::variant::Variant;

pub(super) fn meet<V: Variant>(
    coherence: &mut Coherence<'_, V>,
    group: &BarrierMembers<'_>,
) -> Result<bool> {
    let (me, count) = (group.me, group.ranks.len());
    let mut storage_kib = coherence.storage_kib();
    let mut times: Vec<Time> = Vec::new();
    for child in children(me, count) {
        let said = coherence.await_check_in(group, child)?;
        storage_kib = storage_kib.max(said.storage_kib);
        times.push(said.common);
        coherence.hear(group, said.intervals)?;
    }
    let reclaims = match parent(me) {
        None => coherence.reclaims(group, storage_kib),
        Some(parent) => {
            let common =
                times.iter().fold(coherence.intervals.seen.clone(), |all, time| all.common(time));
            coherence.check_in(group, parent, (storage_kib, &common), |rank| {
                group.tells(rank, |rank| is_below(rank, me))
            })?;
            coherence.await_release(group, parent)?
        }
    };
    // The largest subtree first: it takes longest.
    for (at, child) in children(me, count).enumerate() {
        let knows = if V::TELLS_SUBTREES_APART { &times[at] } else { &times[times.len() - 1 - at] };
        coherence.release(group, child, reclaims, knows)?;
    }
    Ok(reclaims)
}

/// Clears the leftmost 1 bit.
fn parent(id: usize) -> Option<usize> {
    id.checked_ilog2().map(|bit| id & !(1 << bit))
}

/// Adds the powers of two that lie left of the leftmost 1 bit.
fn children(id: usize, count: usize) -> impl Iterator<Item = usize> {
    let first = id.checked_ilog2().map_or(0, |bit| bit + 1);
    (first..usize::BITS).map(move |bit| id + (1 << bit)).take_while(move |&child| child < count)
}

/// Whether an id is in the subtree of another: their rightmost bits are the same, as many as the
/// other has.
fn is_below(id: usize, root: usize) -> bool {
    let bits = root.checked_ilog2().map_or(0, |bit| bit + 1);
    id & ((1 << bits) - 1) == root
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_tree_for_every_number_of_members() {
        for count in 1..=64 {
            for id in 0..count {
                for child in children(id, count) {
                    assert_eq!(parent(child), Some(id), "{child} of {count}");
                }
                let mut above = id;
                while let Some(next) = parent(above) {
                    assert!(
                        is_below(id, above) && children(next, count).any(|child| child == above)
                    );
                    above = next;
                }
                assert_eq!(above, 0);
                assert!((0..count).filter(|&other| is_below(other, id)).all(|other| {
                    std::iter::successors(Some(other), |&at| parent(at)).any(|at| at == id)
                }));
            }
            assert_eq!((0..count).map(|id| children(id, count).count()).sum::<usize>(), count - 1);
        }
    }

    #[test]
    fn the_trees_of_the_paper() {
        // Figure 1: eight members; figure 2: ten, with two of the lowest level.
        assert_eq!(children(0, 8).collect::<Vec<_>>(), [1, 2, 4]);
        assert_eq!(children(1, 8).collect::<Vec<_>>(), [3, 5]);
        assert_eq!(children(0, 10).collect::<Vec<_>>(), [1, 2, 4, 8]);
        assert_eq!((parent(9), parent(7)), (Some(1), Some(3)));
    }
}
