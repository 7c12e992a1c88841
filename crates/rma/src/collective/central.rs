//! Central barrier: everybody counts up one word, the last to come releases the others.
//!
//! Paper:     none; the textbook's counter, with each waiter waiting on a word of its own.
//! Differs:   the counter also adds up the digests of the members' calls, so that the last to come
//!            can tell whether all made the same one.
//! State:     1 word at the first member, 1 word on every member.
//! Invariant: nobody returns before all have entered; the counter is zero between barriers.
//! Ordering:  the counter is zero before anybody is released, or an arrival at the next barrier
//!            would be wiped out (`barriers_in_a_row_separate`).
//! Cost:      1 atomic for each member, and 1 signal to each member but the last to come.
//! Checked:   conformance suite, with thread, process and simulated ranks;
//!            `farside check barrier/central`: 3 ranks x 2 rounds exhaustively.

use farside_fabric::{Atomic, Result, Width};

use super::{Step, at};
use crate::team::Team;

/// Bits of the counter that count; the rest add up digests.
const COUNT_BITS: u32 = 16;

pub(crate) fn barrier(team: &Team<'_>, step: &Step) -> Result<()> {
    let group = team.group();
    let size = group.members.len() as u64;
    let digest = step.tag(0);
    let arrival = (digest << COUNT_BITS) | 1;
    let counter =
        |op| team.context().atomic_at(&group.area, group.members[0], at::COUNTER, Width::W64, op);
    let sum = (counter(Atomic::Add(arrival.into()))? as u64).wrapping_add(arrival);
    if sum & ((1 << COUNT_BITS) - 1) < size {
        team.await_number(step, None, at::RELEASE, step.meeting)?;
        return Ok(());
    }
    if sum != arrival.wrapping_mul(size) {
        return Err(team.disagree_with_any(step));
    }
    counter(Atomic::Store(0))?;
    let others = (0..group.members.len()).filter(|&member| member != group.me);
    for member in others {
        team.signal(member, at::RELEASE, u64::from(step.meeting) << 32)?;
    }
    Ok(())
}
