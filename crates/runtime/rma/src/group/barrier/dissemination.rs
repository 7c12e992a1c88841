//! Dissemination barrier: in round k each member signals the one 2^k further on and waits for the
//! one 2^k before.
//!
//! Paper:     [ARMCI03] section 3.1.2, the binary exchange inside its barrier.
//! Differs:   partners lie on a ring instead of across a cube, so that the number of members need
//!            not be a power of two.
//! State:     2 x log2 N words on every member.
//! Invariant: after round k, all of the 2^(k+1) members up to this one have entered.
//! Ordering:  two sets of flags, used in turn: a neighbour may be one meeting ahead, never two
//!            (`a_barrier_with_one_set_of_flags_is_caught`, `barriers_in_a_row_separate`).
//! Cost:      log2 N signals from each member, rounded up.
//! Checked:   conformance suite; `farside check barrier/dissemination`, `sync/dissemination`:
//!            3 ranks x 2 rounds exhaustively, and with a death.

use farside_fabric::Result;

use super::super::area as at;
use super::super::call::Step;
use super::super::shape::dissemination;
use super::super::steps;
use crate::team::Team;

pub(crate) fn meet(team: &Team<'_>, step: &Step) -> Result<()> {
    let group = team.group();
    among(team, step, group.me, group.size(), &|member| member)
}

/// Meets `count` of the members, of which this is number `me`; `member_of` gives the place of each
/// in the group.
pub(super) fn among(
    team: &Team<'_>,
    step: &Step,
    me: usize,
    count: usize,
    member_of: &dyn Fn(usize) -> usize,
) -> Result<()> {
    let set = if team.context().omits(steps::ALTERNATE) { 0 } else { step.meeting };
    for exchange in dissemination(me, count) {
        let (flag, from) = (at::flag(set, exchange.round), member_of(exchange.from));
        team.signal(member_of(exchange.to), flag, step.tag(step.meeting))?;
        let word = team.await_number(step, Some(from), flag, step.meeting)?;
        team.check_tag(step, word, from)?;
    }
    Ok(())
}
