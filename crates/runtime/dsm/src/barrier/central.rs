//! The central manager: one rank gathers all write notices, and sends each of the others those that
//! it lacks, one after the other.
//!
//! Paper:     [BST97] section 2.3, the barrier of TreadMarks.
//! Differs:   messages are puts with a signal; the manager is the first member.
//! State:     a slot and a word for each sender on every rank.
//! Invariant: no member is released before all have checked in; each gets exactly the notices that
//!            it lacks.
//! Ordering:  a message lands before its signal (`put_signal_brings_its_data`). One slot for each
//!            sender and way is enough: a sender has heard from its partner since it sent last.
//! Cost:      2 (N - 1) messages, all of them to or from the manager.
//! Checked:   3 ranks, with all small programs, exhaustively; barriers of two of three ranks.

use farside_fabric::Result;

use super::{BarrierMembers, Said};
use crate::coherence::Coherence;
use crate::time::Time;

const MANAGER: usize = 0;

pub(super) fn meet(coherence: &mut Coherence<'_>, members: &BarrierMembers<'_>) -> Result<bool> {
    if members.me != MANAGER {
        let (storage_kib, common) = (coherence.storage_kib(), coherence.time()?);
        let said = Said { storage_kib, common: &common };
        coherence.check_in(members, MANAGER, said, |rank| {
            members.tells(rank, |rank| rank == members.me)
        })?;
        return coherence.await_release(members, MANAGER);
    }
    let mut storage_kib = coherence.storage_kib();
    let mut times: Vec<Time> = Vec::with_capacity(members.ranks.len());
    for member in 1..members.ranks.len() {
        let said = coherence.await_check_in(members, member)?;
        storage_kib = storage_kib.max(said.storage_kib);
        times.push(said.common);
        coherence.hear(members, said.intervals)?;
    }
    let reclaims = coherence.reclaims(members, storage_kib);
    for (member, knows) in (1..).zip(&times) {
        coherence.release(members, member, reclaims, knows)?;
    }
    Ok(reclaims)
}
