//! Accesses to the pages of a domain: they are brought up to date, opened, and mapped.

use std::collections::BTreeMap;
use std::sync::Arc;

use farside_fabric::{Error, Rank, Result};
use farside_rma::Processing;

use super::request::{self, Answer, Delivered, PAGES_MAX, Wanted, Words};
use super::table::{Field, SECTIONS, Section, Source, Table};
use super::{Domain, State};
use crate::coherence::{Allowed, Coherence};
use crate::variant::Variant;

/// The domains to be asked, each with what is wanted of it, and the pages without a copy, each with
/// the domain that has one.
struct Lacking {
    pages: Vec<u32>,
    keepers: Vec<(u32, u32)>,
    sources: Vec<(u32, Vec<Wanted>)>,
}

/// A diff, and the domain that made it.
struct Fetched {
    domain: u32,
    diff: Delivered,
}

impl<V: Variant> Coherence<'_, V> {
    pub(super) fn state(&self) -> Result<&State> {
        let state = self.domain.as_ref().and_then(|domain| domain.state.as_ref());
        state.ok_or_else(|| Error::Internal("this rank keeps no coherence state".into()))
    }

    pub(super) fn state_mut(&mut self) -> Result<&mut State> {
        let state = self.domain.as_mut().and_then(|domain| domain.state.as_mut());
        state.ok_or_else(|| Error::Internal("this rank keeps no coherence state".into()))
    }

    /// Takes the lock of this rank's domain, after marking the access for the explorer.
    pub(super) fn enter(&self) -> Result<Section> {
        self.mark_access()?;
        self.enter_unmarked()
    }

    /// Takes the lock of this rank's domain. Fails once a rank was lost, which may have had it.
    pub(super) fn enter_unmarked(&self) -> Result<Section> {
        let table: Arc<Table> = self.state()?.table.clone();
        loop {
            if let Some(section) = table.try_lock() {
                return Ok(section);
            }
            self.context.relax()?;
        }
    }

    /// Where schedules are explored, each access to what several ranks share is an operation, so
    /// that the explorer tries its orders with others. (It tries those with calls in any case.)
    pub(crate) fn mark_access(&self) -> Result<()> {
        if V::MARKS_ACCESSES
            && let Some(domain) = &self.domain
            && let Some(windows) = &self.memory.domain
            && domain.is_shared()
        {
            self.context.fetch_add(windows.table.at(domain.home(), SECTIONS), 1)?;
        }
        Ok(())
    }

    /// A page of the domain's copy is about to be read.
    pub(crate) fn read_shared(&mut self, page: u32) -> Result<()> {
        if self.state()?.mapped[page as usize] != Allowed::Nothing {
            return self.mark_access();
        }
        self.records.statistics.read_faults += 1;
        self.state_mut()?.counts[page as usize].read_faults += 1;
        let is_wanted = self.note_touch(page)?;
        self.bring(page)?;
        // Ranks of the domain write it already: a store of this one needs nothing more.
        let section = self.enter_unmarked()?;
        if is_wanted {
            section.note_touched(page);
        }
        let is_open = section.is_open(page);
        if is_open {
            section.begin_writing(page, self.state()?.mapped[page as usize]);
        }
        drop(section);
        let what = if is_open { Allowed::Writing } else { Allowed::Reading };
        self.map_page(page, what)
    }

    /// A page of the domain's copy is about to be written.
    pub(crate) fn write_shared(&mut self, page: u32) -> Result<()> {
        if self.state()?.mapped[page as usize] == Allowed::Writing {
            return self.mark_access();
        }
        self.records.statistics.write_faults += 1;
        self.state_mut()?.counts[page as usize].write_faults += 1;
        let is_wanted = self.note_touch(page)?;
        self.bring(page)?;
        let section = self.enter_unmarked()?;
        if is_wanted {
            section.note_touched(page);
        }
        let is_opened = section.open(page);
        section.begin_writing(page, self.state()?.mapped[page as usize]);
        drop(section);
        if is_opened {
            self.records.statistics.twins += 1;
            self.state_mut()?.counts[page as usize].twins += 1;
            self.context.charge(Processing::Bytes(self.page_words * 4));
        }
        self.map_page(page, Allowed::Writing)
    }

    /// Notes that a page is touched. Returns whether it has to be brought up to date, or was so
    /// ahead.
    fn note_touch(&mut self, page: u32) -> Result<bool> {
        self.context.charge(Processing::Fault);
        let mut statistics = self.records.statistics;
        let state = self.state_mut()?;
        let is_wanted = state.pattern.touch(page, &mut statistics) || !state.table.is_valid(page);
        self.records.statistics = statistics;
        Ok(is_wanted)
    }

    fn map_page(&mut self, page: u32, what: Allowed) -> Result<()> {
        self.state_mut()?.mapped[page as usize] = what;
        self.guard.allow(page, 1, what)
    }

    /// Brings a page of the domain's copy up to date.
    pub(crate) fn bring(&mut self, page: u32) -> Result<()> {
        self.mark_access()?;
        loop {
            let section = self.enter_unmarked()?;
            if section.is_valid(page) {
                return Ok(());
            }
            if section.field(page, Field::Fetcher) != 0 {
                // Another rank of the domain does.
                drop(section);
                self.context.relax()?;
                continue;
            }
            let lacking = self.claim(&section, page)?;
            let before = if V::MERGES_WORDS { Vec::new() } else { section.page_of(page) };
            drop(section);
            let fetched = self.fetch(&lacking);
            let section = self.enter_unmarked()?;
            for &page in &lacking.pages {
                section.set_field(page, Field::Fetcher, 0);
            }
            let (copies, diffs) = fetched?;
            for Fetched { diff, .. } in &diffs {
                self.state_mut()?.counts[diff.page as usize].diffs_applied += 1;
            }
            if !before.is_empty() {
                section.write(&section.copy, page, 0, &before);
            }
            self.apply_fetched(&section, &lacking, &copies, diffs);
            drop(section);
            let mut statistics = self.records.statistics;
            self.state_mut()?.pattern.note(&lacking.pages, &mut statistics);
            self.records.statistics = statistics;
        }
    }

    /// Claims a page, and those that were brought up to date after it before, for this rank to
    /// bring them up to date.
    fn claim(&self, section: &Section, page: u32) -> Result<Lacking> {
        let is_free =
            |&page: &u32| !section.is_valid(page) && section.field(page, Field::Fetcher) == 0;
        let ahead = self.state()?.pattern.ahead_of(page);
        let pages: Vec<u32> = [page].into_iter().chain(ahead).filter(is_free).collect();
        let mut sources: BTreeMap<u32, Vec<Wanted>> = BTreeMap::new();
        let mut keepers = Vec::new();
        for &page in &pages {
            section.set_field(page, Field::Fetcher, u64::from(self.me.0) + 1);
            if let Some(keeper) = section.field(page, Field::CopyAt).checked_sub(1) {
                keepers.push((page, keeper as u32));
            }
            for domain in 0..section.extents.domains as u32 {
                let Source { wanted, applied } = section.source(page, domain);
                if wanted > applied {
                    let wanted = Wanted { page, after: applied, upto: wanted };
                    sources.entry(domain).or_default().push(wanted);
                }
            }
        }
        Ok(Lacking { pages, keepers, sources: sources.into_iter().collect() })
    }

    /// Fetches whole pages and diffs from other domains.
    fn fetch(&mut self, lacking: &Lacking) -> Result<(Vec<Vec<u32>>, Vec<Fetched>)> {
        let words = self.page_words;
        let mut copies = Vec::new();
        for &(page, keeper) in &lacking.keepers {
            let mut copy = vec![0; words];
            let home = self.domain_home(keeper)?;
            self.context.get(self.memory.copy.at(home, page as usize * words), &mut copy)?;
            self.records.statistics.cold_misses += 1;
            self.count(2, words * 4);
            copies.push(copy);
        }
        let mut fetched = Vec::new();
        for (domain, wanted) in &lacking.sources {
            for wanted in wanted.chunks(PAGES_MAX) {
                self.ask_for(*domain, wanted, &mut fetched)?;
            }
        }
        self.fetch_stored(&mut fetched)?;
        Ok((copies, fetched))
    }

    /// Asks the agent of a domain's node for diffs.
    fn ask_for(&mut self, domain: u32, wanted: &[Wanted], into: &mut Vec<Fetched>) -> Result<()> {
        let home = self.domain_home(domain)?;
        let (node, handler) = (self.context.topology().node_of(home), self.state()?.handler);
        let mut wanted = wanted.to_vec();
        while !wanted.is_empty() {
            let request = request::write_request(home, &wanted);
            let reply = self.context.call(node, handler, request.bytes())?;
            self.count(2, request.bytes().len() + reply.len());
            match request::read_answer(&wanted, &reply)? {
                Answer::Busy => self.context.relax()?,
                Answer::Diffs { diffs, rest } => {
                    into.extend(diffs.into_iter().map(|diff| Fetched { domain, diff }));
                    wanted = rest;
                }
            }
        }
        Ok(())
    }

    /// Fetches the diffs that were too long for a reply, all at once.
    fn fetch_stored(&mut self, fetched: &mut [Fetched]) -> Result<()> {
        let mut bytes = 0;
        let mut count = 0;
        let mut each: Vec<(Rank, usize, &mut Delivered, Vec<u32>)> = Vec::new();
        for Fetched { domain, diff } in &mut *fetched {
            match diff.words {
                Words::Here(ref words) => bytes += words.len() * 4,
                Words::Stored { at, words } => {
                    each.push((self.domain_home(*domain)?, at, diff, vec![0; words]));
                }
            }
        }
        if !each.is_empty() {
            let diffs = &self.memory.diffs;
            self.context.scope(|scope| {
                for (home, at, _, words) in &mut each {
                    // The scope waits for it.
                    let _ = scope.get_nb(diffs.at(*home, *at), words)?;
                }
                Ok(())
            })?;
            for (_, _, diff, words) in each {
                bytes += words.len() * 4;
                count += 1;
                self.records.statistics.bytes += words.len() as u64 * 4;
                diff.words = Words::Here(words);
            }
        }
        self.records.statistics.messages += 2 * count;
        self.records.statistics.diffs_applied += fetched.len() as u64;
        self.records.statistics.diff_bytes += bytes as u64;
        self.context.charge(Processing::Bytes(bytes));
        Ok(())
    }

    /// Merges what was fetched into the domain's copy, in an order that respects what happened
    /// before what.
    fn apply_fetched(
        &self,
        section: &Section,
        lacking: &Lacking,
        copies: &[Vec<u32>],
        mut fetched: Vec<Fetched>,
    ) {
        for (&(page, _), copy) in lacking.keepers.iter().zip(copies) {
            section.write(&section.copy, page, 0, copy);
            section.set_field(page, Field::CopyAt, 0);
        }
        fetched.sort_by_key(|fetched| (fetched.diff.order, fetched.domain));
        if !V::ORDERS_DIFFS {
            fetched.reverse();
        }
        for Fetched { diff, .. } in &fetched {
            if let Words::Here(words) = &diff.words {
                section.note_words(diff.page, words);
                section.merge::<V>(diff.page, words);
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

    pub(super) fn domain_home(&self, domain: u32) -> Result<Rank> {
        let domains = self.domain.as_ref().map(|domain| &domain.domains);
        let known = domains.filter(|domains| (domain as usize) < domains.count());
        known
            .map(|domains| domains.home(domain))
            .ok_or_else(|| Error::Internal(format!("there is no coherence domain {domain}")))
    }

    /// Takes away what this rank's mapping must not allow any more: what other ranks of the domain
    /// have heard counts for this one, too.
    pub(crate) fn catch_up(&mut self) -> Result<()> {
        if self.domain.as_ref().is_none_or(Domain::is_alone) {
            return Ok(());
        }
        let changes = self.intervals.epoch as usize % 2;
        let cursor = self.state()?.cursor;
        let section = self.enter()?;
        let (mut pages, cursor) = section.changes(changes, cursor);
        pages.sort_unstable();
        pages.dedup();
        let mut less: Vec<(u32, Allowed)> = Vec::new();
        let mapped = &self.state()?.mapped;
        for page in pages {
            let may = match (section.is_valid(page), section.is_open(page)) {
                (false, _) => Allowed::Nothing,
                (true, true) => Allowed::Writing,
                (true, false) => Allowed::Reading,
            };
            if may < Allowed::Writing && mapped[page as usize] == Allowed::Writing {
                section.end_writing(page);
            }
            less.push((page, may));
        }
        drop(section);
        let mut statistics = self.records.statistics;
        let state = self.state_mut()?;
        state.cursor = cursor;
        less.retain(|&(page, may)| {
            if may == Allowed::Nothing {
                state.pattern.lose(page, &mut statistics);
            }
            let mapped = &mut state.mapped[page as usize];
            let shrinks = *mapped > may;
            *mapped = (*mapped).min(may);
            shrinks
        });
        self.records.statistics = statistics;
        let follows = |last: &(u32, Allowed), next: &(u32, Allowed)| *next == (last.0 + 1, last.1);
        for run in less.chunk_by(follows) {
            self.guard.allow(run[0].0, run.len() as u32, run[0].1)?;
        }
        Ok(())
    }
}
