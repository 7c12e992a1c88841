//! The central manager: one rank gathers all write notices, and sends each of the others those that
//! it lacks, one after the other.
//!
//! Paper:     [BST97] section 2.3, the barrier of TreadMarks.
//! Differs:   messages are puts with a signal; the manager is the first of those who meet.
//! State:     a slot and a word for each sender on every rank.
//! Invariant: nobody is released before all have checked in; each gets exactly the notices that it
//!            lacks.
//! Ordering:  a message lands before its signal (`put_signal_brings_its_data`). One slot for each
//!            sender and way is enough: who sends again has heard from its partner since.
//! Cost:      2 (N - 1) messages, all of them to or from the manager.
//! Checked:   3 ranks, with all small programs, exhaustively; barriers of two of three ranks.

use farside_fabric::Result;

use super::BarrierMembers;
use crate::coherence::Coherence;
use crate::time::Time;
use crate::variant::Variant;

const MANAGER: usize = 0;

pub(super) fn meet<V: Variant>(
    coherence: &mut Coherence<'_, V>,
    group: &BarrierMembers<'_>,
) -> Result<bool> {
    if group.me != MANAGER {
        let said = (coherence.storage_kib(), &coherence.intervals.seen.clone());
        coherence
            .check_in(group, MANAGER, said, |rank| group.tells(rank, |rank| rank == group.me))?;
        return coherence.await_release(group, MANAGER);
    }
    let mut storage_kib = coherence.storage_kib();
    let mut times: Vec<Time> = Vec::with_capacity(group.ranks.len());
    for member in 1..group.ranks.len() {
        let said = coherence.await_check_in(group, member)?;
        storage_kib = storage_kib.max(said.storage_kib);
        times.push(said.common);
        coherence.hear(group, said.intervals)?;
    }
    let reclaims = coherence.reclaims(group, storage_kib);
    for (member, knows) in (1..).zip(&times) {
        coherence.release(group, member, reclaims, knows)?;
    }
    Ok(reclaims)
}
