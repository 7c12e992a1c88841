//! Diffs that come with a barrier: a domain that has touched a page of which it had to ask for a
//! diff gets the next ones with their notices, and need not ask.
//!
//! Paper:     none; as the hybrids of invalidating and updating protocols after TreadMarks do.
//! Differs:   what was touched is said in the messages of barriers, and only partners of a barrier
//!            push to each other, a few pages at most. Now and then a page is not pushed, to see
//!            whether it is wanted.
//! State:     for each page the domains that want its diffs; the list of pages that were touched.
//! Invariant: a diff that was pushed is applied as if it had been asked for at the end of the
//!            barrier, when all notices are known: to a page that lacks nothing else than what was
//!            pushed, of this epoch or of one before.
//! Ordering:  `a_push_over_other_words_is_caught`, `a_push_after_a_gap_is_caught`.
//! Cost:      no message; the words of the diffs in messages that are sent anyway.
//! Checked:   with all programs of domains that meet; `farside check dsm`.

use farside_fabric::Result;

use super::state::{Domain, Pushed, PushedDiff};
use super::table::{Field, LOG_BYTES, Source, Table};
use crate::interval::Interval;
use crate::message::{Reader, Writer};
use crate::state::Local;
use crate::steps;

/// A domain that has touched more pages than these does not say which.
const TOUCHED_MAX: usize = 64;
/// More pages than these are not pushed: all members of the barrier would wait for them, and each
/// can fetch its own while the others compute.
const PUSHED_MAX: usize = 8;
/// A page is pushed so many times before its reader has to ask for it again.
const PUSHES_MAX: u64 = 16;
/// Domains with higher numbers get no diffs before they ask.
const DOMAINS_MAX: u32 = 64;

impl Domain {
    /// Writes the diffs that another domain wants, and the pages whose diffs this one wants.
    pub(super) fn push_to(&self, here: &Local<'_>, other: u32, into: &mut Writer) -> Result<()> {
        let section = self.enter_unmarked(here)?;
        let mut log = vec![0; section.word(LOG_BYTES) as usize];
        let is_inside = section.log.get(0, &mut log);
        debug_assert!(is_inside, "the log of a domain");
        let mut pages = Vec::new();
        let mut reader = Reader::new(&log);
        while !reader.is_empty() {
            let interval = Interval::read_pages(section.extents.pages, &mut reader)?;
            if interval.rank == section.domain {
                pages.extend(interval.notices.iter().map(|notice| notice.page));
            }
        }
        pages.sort_unstable();
        pages.dedup();
        pages.retain(|&page| section.is_pushed(page, other));
        let has_room = pages.len() * here.config.page_bytes <= here.memory.outbox_bytes / 8;
        if pages.len() > PUSHED_MAX || !has_room {
            pages.clear();
        }
        let mut pushed = (0, Writer::default());
        for page in pages {
            pushed.0 += u32::from(section.push(page, &mut pushed.1));
        }
        into.number(pushed.0);
        into.raw(pushed.1.bytes());
        let touched = section.touched();
        let is_theirs = |page: &u32| section.source(*page, other).applied > 0;
        let mut wanted: Vec<u32> = touched.into_iter().filter(is_theirs).collect();
        if wanted.len() > TOUCHED_MAX {
            wanted.clear();
        }
        into.number(wanted.len() as u32);
        wanted.iter().for_each(|&page| into.number(page));
        Ok(())
    }

    /// Reads what [`Domain::push_to`] wrote, ahead of the notices in the same message.
    pub(super) fn receive_from(
        &mut self,
        here: &Local<'_>,
        domain: u32,
        reader: &mut Reader<'_>,
    ) -> Result<()> {
        let section = self.enter_unmarked(here)?;
        let pages = section.extents.pages as u32;
        for _ in 0..reader.number()? {
            let (page, after, upto) = (reader.number()?, reader.wide()?, reader.wide()?);
            let count = reader.number()?;
            let mut diffs = Vec::new();
            for _ in 0..count {
                let (number, order) = (reader.wide()?, reader.wide()?);
                let words = reader.number()? as usize;
                let bytes = reader.raw(words * 4)?;
                let word = |bytes: &[u8]| u32::from_le_bytes(std::array::from_fn(|at| bytes[at]));
                let words = bytes.chunks_exact(4).map(word).collect();
                diffs.push(PushedDiff { number, order, words });
            }
            if page < pages {
                self.pushed.push(Pushed { domain, page, after, upto, diffs });
            }
        }
        for _ in 0..reader.number()? {
            let page = reader.number()?;
            if page < pages && domain < DOMAINS_MAX {
                section.subscribe(page, domain);
            }
        }
        Ok(())
    }

    /// Merges what was pushed, when the notices of all domains are known and all ranks of this one
    /// are in the barrier.
    pub(super) fn apply_pushed(&mut self, here: &mut Local<'_>) -> Result<()> {
        let mut all = std::mem::take(&mut self.pushed);
        all.sort_by_key(|pushed| pushed.page);
        let section = self.enter_unmarked(here)?;
        for of_page in all.chunk_by(|one, next| one.page == next.page) {
            let page = of_page[0].page;
            let fits: Vec<&Pushed> =
                of_page.iter().filter(|pushed| section.is_next(pushed)).collect();
            // One that is lacking may have come before these.
            let is_all = section.field(page, Field::Pending) == fits.len() as u64
                && section.field(page, Field::CopyAt) == 0
                || here.context.omits(steps::PUSH_ALONE);
            if fits.is_empty() || !is_all || section.field(page, Field::Fetcher) != 0 {
                continue;
            }
            let mut diffs: Vec<(u64, u32, &[u32])> = Vec::new();
            for Pushed { domain, diffs: made, upto, .. } in fits {
                let source = section.source(page, *domain);
                // Some of them may have been fetched, by a rank that acquired a lock.
                let new = made.iter().filter(|diff| diff.number > source.applied);
                diffs.extend(new.map(|diff| (diff.order, *domain, &diff.words[..])));
                section.set_source(page, *domain, Source { applied: *upto, ..source });
            }
            diffs.sort_by_key(|&(order, domain, _)| (order, domain));
            for (_, _, words) in &diffs {
                section.note_words(page, words);
                section.merge(page, words);
                here.records.statistics.diff_bytes += words.len() as u64 * 4;
            }
            here.records.statistics.diffs_applied += diffs.len() as u64;
            here.records.statistics.pushed += 1;
            self.counts[page as usize].diffs_applied += diffs.len() as u32;
        }
        section.forget_touched();
        Ok(())
    }
}

impl Table {
    /// Returns whether diffs that were pushed are all that a page lacks of their domain: they are
    /// those since the last barrier of all ranks, whose notices this domain may know from a lock.
    fn is_next(&self, pushed: &Pushed) -> bool {
        let source = self.source(pushed.page, pushed.domain);
        let has_before = source.applied >= pushed.after || self.omits(steps::HEED_GAPS);
        source.wanted == pushed.upto && source.applied < pushed.upto && has_before
    }

    fn subscribe(&self, page: u32, domain: u32) {
        let subscribers = self.field(page, Field::Subscribers);
        self.set_field(page, Field::Subscribers, subscribers | 1 << domain);
        self.set_field(page, Field::Pushes, 0);
    }

    fn is_pushed(&self, page: u32, domain: u32) -> bool {
        domain < DOMAINS_MAX && self.field(page, Field::Subscribers) >> domain & 1 == 1
    }

    /// Writes the diffs of a page since the last barrier of all ranks, and makes what is missing.
    /// Returns whether there are some.
    fn push(&self, page: u32, into: &mut Writer) -> bool {
        let after = self.before(self.domain);
        let upto = self.last_notice(page);
        let is_made = self.end_chain(page).is_ok();
        self.count(page, Field::Pushes);
        if self.field(page, Field::Pushes) >= PUSHES_MAX {
            self.set_field(page, Field::Subscribers, 0);
        }
        if !is_made || upto <= after {
            return false;
        }
        let stored = self.stored(page, after, upto);
        into.number(page);
        into.wide(self.last_diff(page, after));
        into.wide(upto);
        into.number(stored.len() as u32);
        for diff in &stored {
            let mut bytes = vec![0; diff.words * 4];
            let is_inside = self.diffs.get(diff.at as u64 * 4, &mut bytes);
            debug_assert!(is_inside, "a stored diff of page {page}");
            self.note_wanted(page, diff);
            into.wide(diff.number);
            into.wide(diff.order);
            into.number(diff.words as u32);
            into.raw(&bytes);
        }
        true
    }
}
