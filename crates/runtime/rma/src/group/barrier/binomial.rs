//! Barrier on a binomial spanning tree: arrivals are gathered up the tree, the release goes down.
//!
//! Paper:     [BST97] section 3: the parent of a member is found by clearing the leftmost 1 bit of
//!            its number.
//! Differs:   signals instead of datagrams; the children of a member signal words of their own.
//! State:     log2 N + 1 words on every member.
//! Invariant: a member tells its parent when all below it have come; the root releases when all
//!            have.
//! Ordering:  a parent waits for every child (`a_tree_that_does_not_gather_is_caught`). One set of
//!            words is enough: all arrivals were read before the first release of a meeting.
//! Cost:      1 signal up and 1 down for each member but the root: 2 (N - 1), in 2 log2 N steps.
//! Checked:   3 ranks x 2 rounds exhaustively, and 4 ranks x 1 round.

use farside_fabric::Result;

use super::super::area as at;
use super::super::call::Step;
use super::super::shape::{children, parent};
use super::super::steps;
use crate::team::Team;

pub(crate) fn meet(team: &Team<'_>, step: &Step) -> Result<()> {
    let group = team.group();
    among(team, step, group.me, group.size(), &|member| member, || Ok(()))
}

/// Meets `count` of the members, of which this is number `me`; `member_of` gives the place of each
/// in the group. The root does `at_the_top` when all have come.
pub(super) fn among(
    team: &Team<'_>,
    step: &Step,
    me: usize,
    count: usize,
    member_of: &dyn Fn(usize) -> usize,
    at_the_top: impl FnOnce() -> Result<()>,
) -> Result<()> {
    if !team.context().omits(steps::GATHER) {
        for child in children(me, count) {
            let (arrived, from) = (at::arrived(child.level), member_of(child.id));
            let word = team.await_number(step, Some(from), arrived, step.meeting)?;
            team.check_tag(step, word, from)?;
        }
    }
    match parent(me) {
        None => at_the_top()?,
        Some(parent) => {
            let to = member_of(parent.id);
            team.signal(to, at::arrived(parent.level), step.tag(step.meeting))?;
            team.await_number(step, Some(to), at::RELEASE, step.meeting)?;
        }
    }
    children(me, count)
        .try_for_each(|child| team.signal(member_of(child.id), at::RELEASE, step.release()))
}
