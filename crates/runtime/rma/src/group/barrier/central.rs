//! Central barrier: each member counts up one word, and the last to come releases the others.
//!
//! Paper:     the barrier manager of [BST97] section 2, without its server.
//! Differs:   arrivals are atomics, and the last to come releases. The counter also adds up the
//!            digests of the members' calls, by which the last to come finds a disagreement.
//! State:     1 word at the first member, 1 word on every member.
//! Invariant: no member returns before all have entered; the counter is zero between barriers,
//!            unless one has failed: then the last to come finds that a member was lost.
//! Ordering:  the counter is zero before a member is released, or an arrival at the next barrier
//!            would be wiped out (`barriers_in_a_row_separate`).
//! Cost:      1 atomic for each member, and 1 signal to each member but the last to come.
//! Checked:   conformance suite, with thread, process and simulated ranks;
//!            `farside check barrier/central`, `sync/central`: 3 ranks x 2 rounds exhaustively.

use farside_fabric::{Atomic, Result, Width};

use super::super::area as at;
use super::super::call::Step;
use crate::team::Team;

/// Bits of a counter that count, as many as a rank has; the rest add up digests.
const COUNT_BITS: u32 = 24;

pub(crate) fn meet(team: &Team<'_>, step: &Step) -> Result<()> {
    let group = team.group();
    if !arrive(team, step, at::COUNTER)? {
        return team.await_number(step, None, at::RELEASE, step.meeting).map(drop);
    }
    let mut others = (0..group.size()).filter(|&member| member != group.me);
    others.try_for_each(|member| team.signal(member, at::RELEASE, step.release()))
}

/// Counts this member at a word of the first member's area; returns whether it is the last to come,
/// and then leaves the word at zero.
pub(crate) fn arrive(team: &Team<'_>, step: &Step, offset: u64) -> Result<bool> {
    let group = team.group();
    let size = group.size() as u64;
    let arrival = (step.tag(0) << COUNT_BITS) | 1;
    let counter =
        |op| team.context().atomic_at(&group.area, group.members[0], offset, Width::W64, op);
    let sum = (counter(Atomic::Add(arrival.into()))? as u64).wrapping_add(arrival);
    if sum & ((1 << COUNT_BITS) - 1) < size {
        return Ok(false);
    }
    // Where a member was lost, the others have left their arrivals of a barrier that failed.
    team.check_members(step)?;
    if sum != arrival.wrapping_mul(size) {
        return Err(team.disagree_with_any(step));
    }
    counter(Atomic::Store(0))?;
    Ok(true)
}
