//! A whole barrier: the ranks of a domain gather at one of them, which meets those of the other
//! domains.
//!
//! Paper:     [BST97] section 3, between the domains; within one, a counter and a release.
//! Differs:   ranks of one domain send no notices; its interval ends once, when all have come.
//! State:     the slots and words of `mail.rs`.
//! Invariant: the interval of a domain ends after the last of its members has come, and none leaves
//!            before what the others have written is known to its domain.
//! Ordering:  a message lands before its signal (`put_signal_brings_its_data`).
//! Cost:      2 messages for each rank beside the first of its domain, and those of the barrier
//!            between the first ones.
//! Checked:   2 ranks on 2 nodes exhaustively, 3 on 1, 2 and 3 nodes at random where they have
//!            too many schedules; `farside check dsm`.

use farside_fabric::{Rank, Result};

use super::BarrierMembers;
use crate::coherence::Coherence;
use crate::memory::Way;
use crate::message::{Reader, Writer};

impl Coherence<'_> {
    pub(crate) fn pass(&mut self, members: &BarrierMembers<'_>) -> Result<()> {
        let (me, domains) = (self.me, &self.domains);
        let is_local = |rank: &Rank| domains.of(*rank) == domains.of(me);
        let locals: Vec<Rank> = members.ranks.iter().copied().filter(is_local).collect();
        let first = locals[0];
        let is_reclaimed = if first == me {
            let firsts = domains.firsts(members.ranks);
            for &local in &locals[1..] {
                self.gather(local, members)?;
            }
            let reclaims = self.meet_domains(&members.of_domains(&firsts, me))?;
            for &local in &locals[1..] {
                self.send(Way::Down, local, members.ranks, &[u8::from(reclaims)])?;
            }
            reclaims
        } else {
            let mut writer = Writer::default();
            writer.number(self.allocations);
            self.send(Way::Up, first, members.ranks, writer.bytes())?;
            self.receive(Way::Down, first, members.ranks)? == [1]
        };
        self.records.statistics.reclaims += u64::from(is_reclaimed);
        self.protocol.catch_up(&mut self.here)?;
        if members.is_whole_job {
            self.epoch = self.epoch.wrapping_add(1);
            self.lock_state.cursors.clear();
        }
        Ok(())
    }

    fn gather(&mut self, local: Rank, members: &BarrierMembers<'_>) -> Result<()> {
        let message = self.receive(Way::Up, local, members.ranks)?;
        let allocations = Reader::new(&message).number()?;
        self.check_allocations(members, local, allocations)
    }

    /// Meets the first ranks of the other domains; returns whether storage was reclaimed.
    fn meet_domains(&mut self, firsts: &BarrierMembers<'_>) -> Result<bool> {
        self.protocol.end_interval(&mut self.here)?;
        let reclaims = self.meet(firsts)?;
        if !firsts.is_whole_job {
            return Ok(false);
        }
        self.protocol.begin_epoch(&mut self.here)?;
        if reclaims {
            self.reclaim(firsts)?;
        }
        Ok(reclaims)
    }
}
