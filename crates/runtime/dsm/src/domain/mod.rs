//! Coherence domains: the ranks that share one copy of the shared memory, and the protocol between
//! domains.
//!
//! Paper:     [BST97] section 2 and TreadMarks; one copy for the processors of a node as in the
//!            two-level protocols after it (Cashmere-2L: incoming diffs are merged into page and
//!            twin).
//! Differs:   no page is protected while its diff is made, and no rank is interrupted (`chain.rs`).
//! State:     in windows of the domain's first rank: pages, twins, diffs, the log of intervals, and
//!            what is known of each page. On each rank: what its mapping allows.
//! Invariant: a rank past a synchronization cannot touch a page before all that happened before it
//!            is in the domain's copy. Ranks of one domain need no notices for that.
//! Ordering:  `a_merge_over_a_neighbours_store_is_caught`, `a_merge_beside_the_twin_is_caught`,
//!            `a_closed_page_that_is_not_told_of_is_caught`,
//!            `a_page_that_is_fetched_while_it_is_written_is_caught`.
//! Cost:      a fault on an invalid page 1 call for each domain that has written it, and 2 gets if
//!            there is no copy, or 3 if that was written where it comes from; an interval 1 notice
//!            for each page that was opened, or was asked for and has changed.
//! Checked:   2 ranks on 2 nodes exhaustively, 3 on 1, 2 and 3 nodes at random where they have
//!            too many schedules; `farside check dsm`.

mod access;
mod chain;
mod notices;
mod pattern;
mod push;
mod request;
mod state;
mod statistics;
mod table;

use std::sync::PoisonError;

use farside_fabric::{Rank, Result};

use crate::guard::Allowed;
use crate::interval::Interval;
use crate::memory::GRANT_BYTES;
use crate::message::{Reader, Writer};
use crate::protocol::{Log, Protocol, Told};
use crate::state::Local;
use crate::statistics::{ArrayStatistics, Statistics};
use crate::steps;
use crate::time::Time;
use chain::IDLE_MAX;
use notices::storage_of;
pub(crate) use state::{Domain, table_words};
use table::{DIFFS_MADE, Field, KEPT, LOG_BYTES};

impl Protocol for Domain {
    fn read(&mut self, here: &mut Local<'_>, page: u32) -> Result<()> {
        match self.allowed(page) {
            Allowed::Nothing => self.read_fault(here, page),
            Allowed::Reading | Allowed::Writing => self.mark_access(here),
        }
    }

    fn write(&mut self, here: &mut Local<'_>, page: u32) -> Result<()> {
        match self.allowed(page) {
            Allowed::Nothing | Allowed::Reading => self.write_fault(here, page),
            Allowed::Writing => self.mark_access(here),
        }
    }

    fn allowed(&self, page: u32) -> Allowed {
        self.mapped[page as usize]
    }

    fn end_interval(&mut self, here: &mut Local<'_>) -> Result<Log> {
        let section = self.enter(here)?;
        let closed = self.close(here, &section);
        self.or_break(here, &section, closed)?;
        let bytes = section.word(LOG_BYTES) as usize;
        Ok(Log { bytes, is_long: bytes > GRANT_BYTES })
    }

    fn learn(&mut self, here: &mut Local<'_>, intervals: Vec<Interval>, told: Told) -> Result<()> {
        if intervals.is_empty() {
            return Ok(());
        }
        let section = self.enter(here)?;
        let learned = self.learn_in(here, &section, intervals, told);
        self.or_break(here, &section, learned)
    }

    fn catch_up(&mut self, here: &mut Local<'_>) -> Result<()> {
        self.heed_changes(here)
    }

    fn time(&self, here: &Local<'_>) -> Result<Time> {
        let section = self.enter_unmarked(here)?;
        let domains = 0..section.extents.domains as u32;
        let seen = domains.map(|domain| (domain, section.seen(domain)));
        Ok(seen.filter(|&(_, number)| number > 0).collect())
    }

    fn write_lacking(
        &self,
        here: &Local<'_>,
        time: &Time,
        of: &dyn Fn(u32) -> bool,
        into: &mut Writer,
    ) -> Result<()> {
        self.copy_log(here, time, of, into)
    }

    fn write_pushed(&self, here: &Local<'_>, to: Rank, into: &mut Writer) -> Result<()> {
        self.push_to(here, here.domains.of(to), into)
    }

    fn read_pushed(&mut self, here: &Local<'_>, from: Rank, reader: &mut Reader<'_>) -> Result<()> {
        self.receive_from(here, here.domains.of(from), reader)
    }

    fn begin_epoch(&mut self, here: &mut Local<'_>) -> Result<()> {
        self.apply_pushed(here)?;
        let changes = here.epoch as usize % 2;
        let section = self.enter(here)?;
        section.close_idle(IDLE_MAX, changes);
        // The other list: the ranks of this domain read the one of this epoch when they leave.
        section.begin_epoch(1 - changes);
        Ok(())
    }

    fn update_kept(&mut self, here: &mut Local<'_>) -> Result<()> {
        let section = self.enter(here)?;
        let mine = u64::from(section.domain) + 1;
        let kept: Vec<u32> = (0..section.extents.pages as u32)
            .filter(|&page| section.field(page, Field::Writer) == mine)
            .collect();
        let forgets_none = here.context.omits(steps::NOTE_ANEW);
        for &page in &kept {
            if forgets_none && section.field(page, Field::Kept) != 0 {
                continue;
            }
            // Nobody stores to it before its twin is renewed, and what the twin lacks is lost then.
            section.set_field(page, Field::Kept, KEPT);
        }
        let is_stale = |page: &u32| !section.is_valid(*page);
        let stale: Vec<u32> = kept.into_iter().filter(is_stale).collect();
        drop(section);
        stale.into_iter().try_for_each(|page| self.bring(here, page).map(drop))
    }

    fn forget_diffs(&mut self, here: &mut Local<'_>) -> Result<()> {
        self.enter(here)?.reclaim(here.epoch as usize % 2);
        Ok(())
    }

    fn storage(&self) -> u64 {
        storage_of(&self.table)
    }

    fn give_up(&self, here: &Local<'_>, reason: u32) {
        // Others may come between what has failed and this.
        let _ = self.mark_access(here);
        if let Ok(section) = self.enter_unmarked(here) {
            section.break_domain(reason);
        }
    }

    fn add_counts(
        &self,
        here: &Local<'_>,
        statistics: &mut Statistics,
        arrays: &mut [ArrayStatistics],
    ) {
        if here.is_home() {
            statistics.diffs_made += self.table.word(DIFFS_MADE);
        }
        arrays.iter_mut().for_each(|array| self.add_pages(here, array));
    }

    fn retire(&self) {
        // The agent of this node forgets its domains.
        self.served.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
