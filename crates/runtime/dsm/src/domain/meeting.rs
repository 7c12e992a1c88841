//! Barriers between domains: the ranks of a domain gather at one of them, which meets those of the
//! other domains.
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

use farside_fabric::{Error, Rank, Result};

use super::chain::IDLE_MAX;
use super::table::Field;
use crate::barrier::BarrierMembers;
use crate::coherence::Coherence;
use crate::memory::Way;
use crate::message::{Reader, Writer};
use crate::steps;

impl Coherence<'_> {
    /// A whole barrier, between domains.
    pub(crate) fn pass_domains(&mut self, members: &BarrierMembers<'_>) -> Result<()> {
        let domains = match &self.domain {
            Some(domain) => domain.domains.clone(),
            None => return Err(Error::Internal("this rank has no coherence domain".into())),
        };
        let mine = domains.of(self.me);
        let locals: Vec<Rank> =
            members.ranks().iter().copied().filter(|&rank| domains.of(rank) == mine).collect();
        let first = locals[0];
        if first == self.me {
            for &local in &locals[1..] {
                self.gather(local, members)?;
            }
            let mut firsts: Vec<Option<Rank>> = vec![None; domains.count()];
            for &rank in members.ranks() {
                firsts[domains.of(rank) as usize].get_or_insert(rank);
            }
            let firsts: Vec<Rank> = firsts.into_iter().flatten().collect();
            let reclaims = self.meet_domains(&members.of_domains(&firsts, self.me))?;
            for &local in &locals[1..] {
                self.send(Way::Down, local, members.ranks(), &[u8::from(reclaims)])?;
            }
        } else {
            let mut writer = Writer::default();
            writer.number(self.allocations);
            self.send(Way::Up, first, members.ranks(), writer.bytes())?;
            let message = self.receive(Way::Down, first, members.ranks())?;
            self.records.statistics.reclaims += u64::from(message == [1]);
        }
        self.catch_up()?;
        if members.is_whole_job() {
            self.intervals.epoch = self.intervals.epoch.wrapping_add(1);
            self.intervals.cursors.clear();
            if let Ok(state) = self.state_mut() {
                state.cursor = 0;
            }
        }
        Ok(())
    }

    fn gather(&mut self, local: Rank, members: &BarrierMembers<'_>) -> Result<()> {
        let message = self.receive(Way::Up, local, members.ranks())?;
        let allocations = Reader::new(&message).number()?;
        self.check_allocations(members, local, allocations)
    }

    /// Meets the first ranks of the other domains; returns whether storage was reclaimed.
    fn meet_domains(&mut self, firsts: &BarrierMembers<'_>) -> Result<bool> {
        self.close()?;
        let reclaims = self.meet(firsts)?;
        if !firsts.is_whole_job() || self.state().is_err() {
            return Ok(false);
        }
        self.apply_pushed()?;
        let changes = self.intervals.epoch as usize % 2;
        let section = self.enter()?;
        section.close_idle(IDLE_MAX, changes);
        // The other list: the ranks of this domain read the one of this epoch when they leave.
        section.begin_epoch(1 - changes);
        drop(section);
        if reclaims {
            self.reclaim_domain(firsts, changes)?;
        }
        Ok(reclaims)
    }

    /// Throws away all diffs, notices and twins of this domain. All domains do.
    fn reclaim_domain(&mut self, firsts: &BarrierMembers<'_>, changes: usize) -> Result<()> {
        let section = self.enter()?;
        let mine = u64::from(section.domain) + 1;
        let kept: Vec<u32> = (0..section.extents.pages as u32)
            .filter(|&page| section.field(page, Field::Writer) == mine && !section.is_valid(page))
            .collect();
        drop(section);
        for page in kept {
            self.bring(page)?;
        }
        if !self.context.omits(steps::AWAIT_KEEPERS) {
            self.meet(firsts)?;
        }
        self.enter()?.reclaim(changes);
        self.records.statistics.reclaims += 1;
        Ok(())
    }
}
