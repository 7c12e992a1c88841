//! Dissemination barrier: in round k everybody signals the member 2^k further on and waits for the
//! one 2^k before.
//!
//! Paper:     [ARMCI03] section 3.1.2, the binary exchange inside its barrier, for any number of
//!            members.
//! Differs:   partners lie on a ring instead of across a cube, so that the number of members need
//!            not be a power of two.
//! State:     2 x log2 N words on every member.
//! Invariant: after round k, all of the 2^(k+1) members up to this one have entered.
//! Ordering:  two sets of flags, used in turn: a neighbour may be one meeting ahead, never two
//!            (`barriers_in_a_row_separate`, `barriers_and_broadcasts_alternate`).
//! Cost:      log2 N signals from each member, rounded up.
//! Checked:   conformance suite, with thread, process and simulated ranks;
//!            `farside check barrier/dissemination`: 3 ranks x 2 rounds exhaustively, and with a
//!            death.

use farside_fabric::Result;

use super::{Step, at};
use crate::team::Team;

pub(crate) fn barrier(team: &Team<'_>, step: &Step) -> Result<()> {
    let size = team.group().members.len();
    let me = team.group().me;
    let mut round = 0;
    while 1 << round < size {
        let (to, from) = ((me + (1 << round)) % size, (me + size - (1 << round)) % size);
        let flag = at::flag(step.meeting, round);
        team.signal(to, flag, step.tag(step.meeting))?;
        let word = team.await_number(step, Some(from), flag, step.meeting)?;
        team.check_tag(step, word, from)?;
        round += 1;
    }
    Ok(())
}
