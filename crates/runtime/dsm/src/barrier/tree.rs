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
//! Checked:   3 ranks, with all small programs, exhaustively; barriers of two of three ranks.

use farside_fabric::Result;
use farside_rma::group::{children, is_below, parent};

use super::{BarrierMembers, Said};
use crate::coherence::Coherence;
use crate::steps;
use crate::time::Time;

pub(super) fn meet(coherence: &mut Coherence<'_>, members: &BarrierMembers<'_>) -> Result<bool> {
    let (me, count) = (members.me, members.ranks.len());
    let mut storage_kib = coherence.storage_kib();
    let mut times: Vec<Time> = Vec::new();
    for child in children(me, count) {
        let said = coherence.await_check_in(members, child.id)?;
        storage_kib = storage_kib.max(said.storage_kib);
        times.push(said.common);
        coherence.hear(members, said.intervals)?;
    }
    let reclaims = match parent(me) {
        None => coherence.reclaims(members, storage_kib),
        Some(parent) => {
            let common = times.iter().fold(coherence.time()?, |all, time| all.common(time));
            let said = Said { storage_kib, common: &common };
            coherence.check_in(members, parent.id, said, |rank| {
                members.tells(rank, |rank| is_below(rank, me))
            })?;
            coherence.await_release(members, parent.id)?
        }
    };
    // The largest subtree first: it takes longest.
    let confuses = coherence.context.omits(steps::TELL_SUBTREES_APART);
    for (at, child) in children(me, count).enumerate() {
        let knows = if confuses { &times[times.len() - 1 - at] } else { &times[at] };
        coherence.release(members, child.id, reclaims, knows)?;
    }
    Ok(reclaims)
}
