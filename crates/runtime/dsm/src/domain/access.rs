//! Accesses to the pages of a domain: they are brought up to date, opened, and mapped.

use std::collections::{BTreeMap, BTreeSet};

use farside_fabric::memory::full_fence;
use farside_fabric::{Rank, Result};

use super::chain::DIFF_HEADER;
use super::pattern::{AHEAD_MAX, Ahead};
use super::request::{self, Answer, Delivered, PAGES_MAX, Wanted, Words};
use super::state::Domain;
use super::table::{Field, SECTIONS, Section, Source, TWINNED, Table};
use crate::guard::Allowed;
use crate::state::Local;
use crate::steps;

/// The most pages of a view that are opened ahead of their first access.
const OPENED_AHEAD: u32 = 15;

/// The domains to be asked, each with what is wanted of it, and the pages without a copy, each with
/// the domain that has one.
#[derive(Default)]
struct Lacking {
    /// The first one is touched.
    pages: Vec<u32>,
    is_likely: bool,
    keepers: Vec<(u32, u32)>,
    sources: BTreeMap<u32, Vec<Wanted>>,
}

impl Lacking {
    fn add(&mut self, section: &Section, page: u32, domains: &BTreeSet<u32>) {
        self.pages.push(page);
        if let Some(keeper) = section.field(page, Field::CopyAt).checked_sub(1) {
            self.keepers.push((page, keeper as u32));
        }
        for &domain in domains {
            let Source { wanted, applied } = section.source(page, domain);
            if wanted > applied {
                let wanted = Wanted { page, after: applied, upto: wanted };
                self.sources.entry(domain).or_default().push(wanted);
            }
        }
    }
}

impl Table {
    fn lacks(&self, page: u32, domain: u32) -> bool {
        let Source { wanted, applied } = self.source(page, domain);
        wanted > applied
    }

    /// Returns the domains that are asked for what a page lacks.
    fn domains_for(&self, page: u32) -> BTreeSet<u32> {
        let keeper = self.field(page, Field::CopyAt).checked_sub(1).map(|keeper| keeper as u32);
        let domains = 0..self.extents.domains as u32;
        domains.filter(|&domain| self.lacks(page, domain)).chain(keeper).collect()
    }

    fn comes_from(&self, page: u32, domains: &BTreeSet<u32>) -> bool {
        let keeper = self.field(page, Field::CopyAt).checked_sub(1);
        let pending = domains.iter().filter(|&&domain| self.lacks(page, domain)).count();
        keeper.is_none_or(|keeper| domains.contains(&(keeper as u32)))
            && pending as u64 == self.field(page, Field::Pending)
    }
}

/// Returns whether a page follows another one that allows the same.
fn is_next(last: &(u32, Allowed), next: &(u32, Allowed)) -> bool {
    *next == (last.0 + 1, last.1)
}

struct Fetched {
    domain: u32,
    diff: Delivered,
}

struct PageCopy {
    page: u32,
    home: Rank,
    words: Vec<u32>,
}

#[derive(Debug, Clone, Copy)]
struct StoredAt {
    home: Rank,
    at: usize,
    words: usize,
    /// Its place among those that were asked for.
    index: usize,
}

impl Domain {
    /// Takes the lock of this rank's domain, after marking the access for the explorer.
    pub(super) fn enter(&self, here: &Local<'_>) -> Result<Section> {
        self.mark_access(here)?;
        self.enter_unmarked(here)
    }

    /// Takes the lock of this rank's domain. Fails once a rank was lost, which may have had it.
    pub(super) fn enter_unmarked(&self, here: &Local<'_>) -> Result<Section> {
        loop {
            if let Some(section) = self.table.try_lock() {
                let Some((rank, reason)) = section.broken() else { return Ok(section) };
                drop(section);
                return Err(here.heard(rank, reason));
            }
            here.context.relax()?;
        }
    }

    /// Where schedules are explored, each access to what several ranks share is an operation, so
    /// that the explorer tries its orders with others. (It tries those with calls in any case.)
    pub(super) fn mark_access(&self, here: &Local<'_>) -> Result<()> {
        if here.context.omits(steps::LEAVE_UNMARKED)
            && let Some(windows) = &here.memory.pages
            && here.domains.is_shared(self.table.domain)
        {
            let home = here.domains.home_of(here.me);
            here.context.fetch_add(windows.table.at(home, SECTIONS), 1)?;
        }
        Ok(())
    }

    pub(super) fn read_fault(&mut self, here: &mut Local<'_>, page: u32) -> Result<()> {
        here.count_read_fault();
        self.counts[page as usize].read_faults += 1;
        let is_wanted = self.note_touch(here, page);
        let ahead = self.bring(here, page)?;
        self.map_ahead(here, &ahead)?;
        // Ranks of the domain write it already: a store of this one needs nothing more.
        let section = self.enter_unmarked(here)?;
        if is_wanted {
            section.note_touched(page);
        }
        let is_open = section.is_open(page);
        if is_open {
            section.begin_writing(page, self.mapped[page as usize]);
        }
        drop(section);
        let what = if is_open { Allowed::Writing } else { Allowed::Reading };
        self.map_page(here, page, what)
    }

    pub(super) fn write_fault(&mut self, here: &mut Local<'_>, page: u32) -> Result<()> {
        here.count_write_fault();
        self.counts[page as usize].write_faults += 1;
        let is_wanted = self.note_touch(here, page);
        let ahead = self.bring(here, page)?;
        self.map_ahead(here, &ahead)?;
        let section = self.enter_unmarked(here)?;
        if is_wanted {
            section.note_touched(page);
        }
        let is_opened = section.open(page);
        section.begin_writing(page, self.mapped[page as usize]);
        drop(section);
        if is_opened {
            self.note_twin(here, page);
        }
        self.map_page(here, page, Allowed::Writing)?;
        self.open_ahead(here, page)
    }

    /// Opens the next pages of the view that is being written, as far as they are up to date. They
    /// get notices only if they change.
    fn open_ahead(&mut self, here: &mut Local<'_>, page: u32) -> Result<()> {
        let Some(view) = here.view.filter(|view| view.is_mut) else { return Ok(()) };
        let (mut opened, mut end) = (Vec::new(), page + 1);
        let section = self.enter_unmarked(here)?;
        for next in view.after(page, OPENED_AHEAD) {
            let mapped = self.mapped[next as usize];
            if mapped == Allowed::Writing || !section.is_valid(next) {
                break;
            }
            if section.open_for_looks(next) {
                opened.push(next);
            }
            section.begin_writing(next, mapped);
            self.mapped[next as usize] = Allowed::Writing;
            end = next + 1;
        }
        drop(section);
        opened.into_iter().for_each(|next| self.note_twin(here, next));
        match end - (page + 1) {
            0 => Ok(()),
            count => here.guard.allow_ahead(page + 1, count, Allowed::Writing),
        }
    }

    fn note_twin(&mut self, here: &mut Local<'_>, page: u32) {
        here.count_twin();
        self.counts[page as usize].twins += 1;
    }

    /// Maps pages that were brought up to date ahead of their first access. The last one is left:
    /// whether it is touched tells whether the others were worth it.
    fn map_ahead(&mut self, here: &mut Local<'_>, ahead: &[u32]) -> Result<()> {
        let Some((&probe, ahead)) = ahead.split_last() else { return Ok(()) };
        let section = self.enter_unmarked(here)?;
        let mut more: Vec<(u32, Allowed)> = Vec::new();
        for &page in ahead {
            if self.mapped[page as usize] != Allowed::Nothing || !section.is_valid(page) {
                continue;
            }
            let is_open = section.is_open(page);
            if is_open {
                section.begin_writing(page, Allowed::Nothing);
            }
            section.note_touched(page);
            more.push((page, if is_open { Allowed::Writing } else { Allowed::Reading }));
        }
        drop(section);
        let pages: Vec<u32> = more.iter().map(|&(page, _)| page).collect();
        self.pattern.map(&pages, probe);
        more.sort_unstable_by_key(|&(page, _)| page);
        more.iter().for_each(|&(page, what)| self.mapped[page as usize] = what);
        for run in more.chunk_by(is_next) {
            here.guard.allow_ahead(run[0].0, run.len() as u32, run[0].1)?;
        }
        Ok(())
    }

    /// Notes that a page is touched. Returns whether it has to be brought up to date, or was so
    /// ahead.
    fn note_touch(&mut self, here: &mut Local<'_>, page: u32) -> bool {
        let was_ahead = self.pattern.touch(page, &mut here.records.statistics);
        was_ahead || !self.table.is_valid(page)
    }

    fn map_page(&mut self, here: &mut Local<'_>, page: u32, what: Allowed) -> Result<()> {
        self.mapped[page as usize] = what;
        here.guard.allow(page, 1, what)
    }

    /// Brings a page of the domain's copy up to date. Returns the pages that were brought up to
    /// date with it and are likely to be touched.
    pub(super) fn bring(&mut self, here: &mut Local<'_>, page: u32) -> Result<Vec<u32>> {
        self.mark_access(here)?;
        let mut ahead = Vec::new();
        loop {
            let section = self.enter_unmarked(here)?;
            if section.is_valid(page) {
                return Ok(ahead);
            }
            if section.field(page, Field::Fetcher) != 0 {
                // Another rank of the domain does, and it and the agent need the lock.
                drop(section);
                while self.table.field(page, Field::Fetcher) != 0 && self.table.broken().is_none() {
                    here.context.relax()?;
                }
                continue;
            }
            let lacking = self.claim(here, &section, page);
            let merges_page = here.context.omits(steps::MERGE_WORDS);
            let before = if merges_page { section.page_of(page) } else { Vec::new() };
            drop(section);
            let fetched = self.fetch(here, &lacking);
            let section = self.enter_unmarked(here)?;
            for &page in &lacking.pages {
                section.set_field(page, Field::Fetcher, 0);
            }
            let (copies, diffs) = fetched?;
            for Fetched { diff, .. } in &diffs {
                self.counts[diff.page as usize].diffs_applied += 1;
            }
            if !before.is_empty() {
                section.write(&section.copy, page, 0, &before);
            }
            self.apply_fetched(here, &section, &lacking, &copies, diffs);
            drop(section);
            self.pattern.note(&lacking.pages, &mut here.records.statistics);
            ahead = if lacking.is_likely { lacking.pages[1..].to_vec() } else { Vec::new() };
        }
    }

    /// Claims a page, and those that are likely to be touched after it, for this rank to bring them
    /// up to date. All of them come from the domains that the first one comes from, with the same
    /// requests.
    fn claim(&self, here: &Local<'_>, section: &Section, page: u32) -> Lacking {
        let pattern = &self.pattern;
        let Ahead { pages: ahead, is_likely } = match here.view {
            Some(view) if !pattern.is_known(page) && view.contains(page) => {
                let pages = view.after(page, AHEAD_MAX as u32).collect();
                Ahead { pages, is_likely: true }
            }
            _ => pattern.ahead_of(page),
        };
        let mut lacking = Lacking { is_likely, ..Lacking::default() };
        let asked = section.domains_for(page);
        lacking.add(section, page, &asked);
        for page in ahead {
            let is_free = !section.is_valid(page) && section.field(page, Field::Fetcher) == 0;
            // A neighbour without a copy may never be used here, and is a whole page.
            let may_come = pattern.is_known(page) || section.field(page, Field::CopyAt) == 0;
            if is_free && may_come && section.comes_from(page, &asked) {
                lacking.add(section, page, &asked);
            }
        }
        for &page in &lacking.pages {
            section.set_field(page, Field::Fetcher, u64::from(here.me.0) + 1);
        }
        lacking
    }

    /// Fetches diffs and whole pages from other domains. The diffs have the order in which they are
    /// applied; a page whose words are all in one of them is not fetched, and what came before that
    /// one is left out.
    fn fetch(
        &self,
        here: &mut Local<'_>,
        lacking: &Lacking,
    ) -> Result<(Vec<PageCopy>, Vec<Fetched>)> {
        let mut fetched = self.ask_all(here, lacking)?;
        fetched.sort_by_key(|fetched| (fetched.diff.order, fetched.domain));
        let mut is_whole: BTreeSet<u32> = BTreeSet::new();
        let mut later = Vec::new();
        for fetched in fetched.into_iter().rev() {
            if is_whole.contains(&fetched.diff.page) {
                continue;
            }
            if fetched.diff.is_whole {
                is_whole.insert(fetched.diff.page);
                if here.context.omits(steps::KEEP_LATER_DIFFS) {
                    later.retain(|later: &Fetched| later.diff.page != fetched.diff.page);
                }
            }
            later.push(fetched);
        }
        later.reverse();
        let mut copies = Vec::new();
        for &(page, keeper) in &lacking.keepers {
            if !is_whole.contains(&page) {
                let (home, words) = (here.domains.home(keeper)?, vec![0; here.page_words()]);
                copies.push(PageCopy { page, home, words });
            }
        }
        self.get_all(here, &mut copies, &mut later)?;
        Ok((copies, later))
    }

    /// Asks the agents of all domains that have written the pages for their diffs.
    fn ask_all(&self, here: &mut Local<'_>, lacking: &Lacking) -> Result<Vec<Fetched>> {
        let mut fetched = Vec::new();
        let mut open: Vec<(u32, Vec<Wanted>)> = Vec::new();
        for (domain, wanted) in &lacking.sources {
            open.extend(wanted.chunks(PAGES_MAX).map(|wanted| (*domain, wanted.to_vec())));
        }
        while !open.is_empty() {
            let mut requests = Vec::with_capacity(open.len());
            for (domain, wanted) in &open {
                let home = here.domains.home(*domain)?;
                let node = here.context.topology().node_of(home);
                requests.push((node, request::write_request(home, wanted).into_bytes()));
            }
            let replies = here.context.call_all(self.handler, &requests)?;
            let mut is_busy = false;
            let asked = std::mem::take(&mut open);
            for (((domain, wanted), (_, request)), reply) in
                asked.into_iter().zip(&requests).zip(&replies)
            {
                here.count(2, request.len() + reply.len());
                match request::read_answer(&wanted, reply)? {
                    Answer::Busy => {
                        is_busy = true;
                        open.push((domain, wanted));
                    }
                    Answer::Diffs { diffs, rest } => {
                        fetched.extend(diffs.into_iter().map(|diff| Fetched { domain, diff }));
                        if !rest.is_empty() {
                            open.push((domain, rest));
                        }
                    }
                }
            }
            if is_busy {
                here.context.relax()?;
            }
        }
        Ok(fetched)
    }

    /// Gets copies of pages, and the diffs that were too long for a reply, all at once. Diffs that
    /// are stored one after the other come together.
    fn get_all(
        &self,
        here: &mut Local<'_>,
        copies: &mut [PageCopy],
        fetched: &mut [Fetched],
    ) -> Result<()> {
        let mut stored: Vec<StoredAt> = Vec::new();
        for (index, Fetched { domain, diff }) in fetched.iter().enumerate() {
            if let Words::Stored { at, words } = diff.words {
                stored.push(StoredAt { home: here.domains.home(*domain)?, at, words, index });
            }
        }
        stored.sort_by_key(|stored| (stored.home, stored.at));
        let follows = |last: &StoredAt, next: &StoredAt| {
            last.home == next.home && last.at + last.words + DIFF_HEADER >= next.at
        };
        let mut runs: Vec<(&[StoredAt], Vec<u32>)> = Vec::new();
        for run in stored.chunk_by(follows) {
            let last = run[run.len() - 1];
            runs.push((run, vec![0; last.at + last.words - run[0].at]));
        }
        let memory = &here.memory;
        let page_words = here.page_words();
        here.context.scope(|scope| {
            // The scope waits for all.
            for copy in &mut *copies {
                let from = memory.copy.at(copy.home, copy.page as usize * page_words);
                let _ = scope.get_nb(from, &mut copy.words)?;
            }
            for (run, words) in &mut runs {
                let _ = scope.get_nb(memory.diffs.at(run[0].home, run[0].at), words)?;
            }
            Ok(())
        })?;
        let mut gets = self.get_twins(here, copies)?;
        gets = (gets.0 + copies.len(), gets.1 + copies.len() * page_words * 4);
        for (run, words) in runs {
            gets = (gets.0 + 1, gets.1 + words.len() * 4);
            for stored in run {
                let begin = stored.at - run[0].at;
                let words = words[begin..begin + stored.words].to_vec();
                fetched[stored.index].diff.words = Words::Here(words);
            }
        }
        here.count(2 * gets.0 as u64, gets.1);
        let bytes = fetched.iter().map(|fetched| fetched.diff.words.len() * 4).sum::<usize>();
        here.records.statistics.cold_misses += copies.len() as u64;
        here.count_diffs(fetched.len(), bytes);
        here.charge_bytes(bytes);
        Ok(())
    }

    /// Gets the twins instead of pages that were written since others fetch them: words that are
    /// being written may change back, and be in no diff. What a twin lacks is in diffs that were
    /// fetched here, or will be. Returns the number of gets, and of their bytes.
    fn get_twins(&self, here: &Local<'_>, copies: &mut [PageCopy]) -> Result<(usize, usize)> {
        let Some(windows) = here.memory.pages.as_ref().filter(|_| !copies.is_empty()) else {
            return Ok((0, 0));
        };
        // A store that is in a copy comes after what its domain has noted ahead of it.
        full_fence();
        let mut kept = vec![0; copies.len()];
        here.context.scope(|scope| {
            // The scope waits for all.
            for (copy, kept) in copies.iter().zip(&mut kept) {
                let at = self.table.extents.field(copy.page, Field::Kept);
                let _ =
                    scope.get_nb(windows.table.at(copy.home, at), std::slice::from_mut(kept))?;
            }
            Ok(())
        })?;
        full_fence();
        let (flags, page_words) = (copies.len(), here.page_words());
        let is_twinned = |kept: u64| kept == TWINNED && !here.context.omits(steps::TAKE_TWINS);
        let twinned = copies.iter_mut().zip(kept).filter(|&(_, kept)| is_twinned(kept));
        let twinned: Vec<&mut PageCopy> = twinned.map(|(copy, _)| copy).collect();
        let twins = twinned.len();
        here.context.scope(|scope| {
            for copy in twinned {
                let from = windows.twins.at(copy.home, copy.page as usize * page_words);
                let _ = scope.get_nb(from, &mut copy.words)?;
            }
            Ok(())
        })?;
        Ok((flags + twins, flags * 8 + twins * page_words * 4))
    }

    /// Merges what was fetched into the domain's copy, in an order that respects what happened
    /// before what.
    fn apply_fetched(
        &self,
        here: &Local<'_>,
        section: &Section,
        lacking: &Lacking,
        copies: &[PageCopy],
        mut fetched: Vec<Fetched>,
    ) {
        for copy in copies {
            section.write(&section.copy, copy.page, 0, &copy.words);
        }
        for &(page, _) in &lacking.keepers {
            section.set_field(page, Field::CopyAt, 0);
        }
        if here.context.omits(steps::ORDER_DIFFS) {
            fetched.reverse();
        }
        for Fetched { diff, .. } in &fetched {
            if let Words::Here(words) = &diff.words {
                section.note_words(diff.page, words);
                section.merge(diff.page, words);
            }
        }
        for (domain, wanted) in &lacking.sources {
            for wanted in wanted {
                let source = section.source(wanted.page, *domain);
                let applied = Source { applied: wanted.upto, ..source };
                section.set_source(wanted.page, *domain, applied);
            }
        }
    }

    /// Takes away what this rank's mapping must not allow any more: what other ranks of the domain
    /// have heard counts for this one, too.
    pub(super) fn heed_changes(&mut self, here: &mut Local<'_>) -> Result<()> {
        let (epoch, cursor) = self.cursor;
        let cursor = if epoch == here.epoch { cursor } else { 0 };
        let section = self.enter(here)?;
        let (mut pages, cursor) = section.changes(here.epoch as usize % 2, cursor);
        pages.sort_unstable();
        pages.dedup();
        let mut less: Vec<(u32, Allowed)> = Vec::new();
        for page in pages {
            let may = match (section.is_valid(page), section.is_open(page)) {
                (false, _) => Allowed::Nothing,
                (true, true) => Allowed::Writing,
                (true, false) => Allowed::Reading,
            };
            if may < Allowed::Writing && self.mapped[page as usize] == Allowed::Writing {
                section.end_writing(page);
            }
            less.push((page, may));
        }
        drop(section);
        self.cursor = (here.epoch, cursor);
        less.retain(|&(page, may)| {
            if may == Allowed::Nothing {
                self.pattern.lose(page, &mut here.records.statistics);
            }
            let mapped = &mut self.mapped[page as usize];
            let shrinks = *mapped > may;
            *mapped = (*mapped).min(may);
            shrinks
        });
        for run in less.chunk_by(is_next) {
            here.guard.allow(run[0].0, run.len() as u32, run[0].1)?;
        }
        Ok(())
    }
}
