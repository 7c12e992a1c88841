//! Lazy release consistency: what a rank does with its own copy of the pages.
//!
//! Paper:     [BST97] sections 2.1 and 2.3: lazy release consistency, write notices, pages with
//!            several writers. TreadMarks, on which it builds: intervals, twins and diffs.
//! Differs:   diffs are made when an interval ends, into memory that others read; a notice says
//!            where its diff is. Time is counted from the last barrier of all ranks on.
//! State:     on each rank a copy of the shared memory, its diffs, and the intervals since the last
//!            barrier of all ranks; for each page the notices that were not applied.
//! Invariant: a page is valid if there is a copy and no notice is pending for it. A rank past a
//!            synchronization knows all notices of what happened before it.
//! Ordering:  `diffs_that_are_applied_backwards_are_caught`, `a_notice_that_is_dropped_is_caught`,
//!            `a_twin_that_is_kept_is_caught`,
//!            `a_page_that_is_fetched_while_it_is_written_is_caught`.
//! Cost:      a fault on an invalid page 1 get for each diff that matters, all under way at once,
//!            and 1 for the page if there is no copy.
//! Checked:   3 ranks: message passing, store buffering, false sharing, chains of locks, barriers
//!            of some, exhaustively; `farside check dsm`.

use farside_fabric::Result;

use super::state::{Eager, Pending};
use crate::diff::{self, Made};
use crate::guard::{Allowed, allow_all};
use crate::interval::{Interval, Notice};
use crate::protocol::Told;
use crate::state::Local;
use crate::steps;

impl Eager {
    /// The first read of an invalid page.
    pub(super) fn read_fault(&mut self, here: &mut Local<'_>, page: u32) -> Result<()> {
        here.count_read_fault();
        self.validate(here, page)?;
        here.guard.allow(page, 1, Allowed::Reading)
    }

    /// The first write to a page in this interval.
    pub(super) fn write_fault(&mut self, here: &mut Local<'_>, page: u32) -> Result<()> {
        here.count_write_fault();
        self.validate(here, page)?;
        self.pages[page as usize].is_dirty = true;
        self.dirty.push(page);
        if self.pages[page as usize].twin.is_none() {
            let mut twin: Box<[u32]> = vec![0; here.page_words()].into();
            here.memory.copy.own().read(page as usize * twin.len(), &mut twin)?;
            self.pages[page as usize].twin = Some(twin);
            here.count_twin();
        }
        here.guard.allow(page, 1, Allowed::Writing)
    }

    /// A lock is released, or another synchronization ends the interval: a diff and a notice for
    /// each page that has changed.
    pub(super) fn release(&mut self, here: &mut Local<'_>) -> Result<()> {
        let mut dirty = std::mem::take(&mut self.dirty);
        dirty.sort_unstable();
        let (notices, diffs) = self.make_diffs(here, &dirty)?;
        here.charge_bytes(dirty.len() * here.config.page_bytes);
        allow_all(&mut *here.guard, &dirty, Allowed::Reading)?;
        self.store(here, &diffs)?;
        here.records.statistics.diffs_made += notices.len() as u64;
        let accesses = self.store_accesses(here, !notices.is_empty())?;
        if notices.is_empty() && accesses.is_none() {
            return Ok(());
        }
        self.order += 1;
        let (rank, order) = (here.me.0, self.order);
        let number = self.seen.of(rank) + 1;
        let seen = self.seen.iter().filter(|&(other, _)| other != rank).collect();
        for notice in &notices {
            self.pages[notice.page as usize].last = Some((order, rank));
        }
        let interval = Interval { rank, number, order, seen, notices, accesses };
        self.log(here, std::slice::from_ref(&interval))?;
        self.keep(interval);
        here.note_storage(self.stored_bytes());
        Ok(())
    }

    /// Compares the pages with their twins, which are not needed any more.
    fn make_diffs(&mut self, here: &Local<'_>, dirty: &[u32]) -> Result<(Vec<Notice>, Vec<u32>)> {
        let (mut notices, mut diffs) = (Vec::new(), Vec::new());
        for &page in dirty {
            here.memory.copy.own().read(page as usize * here.page_words(), &mut self.scratch)?;
            let entry = &mut self.pages[page as usize];
            entry.is_dirty = false;
            let Some(twin) = &entry.twin else { continue };
            let at = (self.diff_words + diffs.len()) as u32;
            match diff::make(twin, &self.scratch, &mut diffs) {
                Made::Nothing => {}
                Made::Runs(words) => notices.push(Notice { page, at, words: words as u32 }),
                Made::Whole => notices.push(Notice { page, at, words: 0 }),
            }
            if !here.context.omits(steps::RENEW_TWINS) {
                entry.twin = None;
            }
        }
        Ok((notices, diffs))
    }

    /// A lock was acquired, or a barrier passed: the pages that others have written are invalid.
    pub(super) fn acquire(
        &mut self,
        here: &mut Local<'_>,
        mut intervals: Vec<Interval>,
        told: Told,
    ) -> Result<()> {
        self.retain_new(here, &mut intervals)?;
        // What every rank is told, none reads from this one's log.
        if told != Told::AmongAll {
            self.log(here, &intervals)?;
        }
        here.count_notices(intervals.iter().map(|interval| interval.notices.len()).sum());
        let mut invalid = Vec::new();
        let overlooked = usize::from(here.context.omits(steps::HEED_NOTICES));
        for interval in intervals {
            let (order, rank) = (interval.order, interval.rank);
            for &notice in interval.notices.iter().skip(overlooked) {
                let page = &mut self.pages[notice.page as usize];
                page.pending.push(Pending { order, rank, notice });
                page.last = page.last.max(Some((order, rank)));
                invalid.push(notice.page);
                self.pending_notices += 1;
            }
            self.keep(interval);
        }
        invalid.sort_unstable();
        invalid.dedup();
        allow_all(&mut *here.guard, &invalid, Allowed::Nothing)?;
        here.note_storage(self.stored_bytes());
        Ok(())
    }

    /// Brings a page up to date: a copy if there is none, and the diffs of all pending notices in
    /// an order that respects what happened before what.
    pub(super) fn validate(&mut self, here: &mut Local<'_>, page: u32) -> Result<()> {
        let index = page as usize;
        self.bring_copy(here, page)?;
        if self.pages[index].pending.is_empty() {
            return self.ask_in_vain(here, page);
        }
        let mut pending = std::mem::take(&mut self.pages[index].pending);
        pending.sort_unstable_by_key(|pending| (pending.order, pending.rank));
        // In the order of TreadMarks; diffs before one of all words of the page do not matter.
        let first = pending.iter().rposition(|pending| pending.notice.is_whole()).unwrap_or(0);
        if here.context.omits(steps::ORDER_DIFFS) {
            pending[first..].reverse();
        }
        let applied = self
            .fetch_diffs(here, &pending[first..])
            .and_then(|diffs| apply(here, &pending[first..], &diffs));
        match applied {
            Ok(()) => {
                self.pending_notices -= pending.len();
                self.pages[index].is_unasked = false;
            }
            Err(_) => self.pages[index].pending = pending,
        }
        applied
    }
}

fn apply(here: &Local<'_>, pending: &[Pending], mut diffs: &[u32]) -> Result<()> {
    here.charge_bytes(diffs.len() * 4);
    let (copy, words) = (here.memory.copy.own(), here.page_words());
    for Pending { notice, .. } in pending {
        let (diff, rest) = diffs.split_at(notice.stored_words(words));
        diffs = rest;
        let begin = notice.page as usize * words;
        if notice.is_whole() {
            copy.write(begin, diff)?;
            continue;
        }
        for (start, run) in diff::runs(diff, words) {
            copy.write(begin + start, run)?;
        }
    }
    Ok(())
}
