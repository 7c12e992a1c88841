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

use super::Crew;
use crate::core::Core;
use crate::time::Time;
use crate::variant::Variant;

const MANAGER: usize = 0;

pub(super) fn meet<V: Variant>(core: &mut Core<'_, V>, crew: &Crew<'_>) -> Result<bool> {
    if crew.me != MANAGER {
        let said = (core.storage_kib(), &core.seen.clone());
        core.check_in(crew, MANAGER, said, |rank| crew.tells(rank, |rank| rank == crew.me))?;
        return core.await_release(crew, MANAGER);
    }
    let mut storage_kib = core.storage_kib();
    let mut times: Vec<Time> = Vec::with_capacity(crew.members.len());
    for member in 1..crew.members.len() {
        let said = core.await_check_in(crew, member)?;
        storage_kib = storage_kib.max(said.storage_kib);
        times.push(said.common);
        core.hear(crew, said.intervals)?;
    }
    let reclaims = core.reclaims(crew, storage_kib);
    for (member, knows) in (1..).zip(&times) {
        core.release(crew, member, reclaims, knows)?;
    }
    Ok(reclaims)
}
