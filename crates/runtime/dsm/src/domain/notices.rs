//! Intervals of domains: ended, logged, and heard of.

use farside_fabric::{Error, Result};

use super::chain::NoRoom;
use super::table::{BROKEN, Field, LOG_BYTES, ORDER, Section, Source};
use crate::coherence::{Allowed, Coherence, allow_all};
use crate::config::Diffs;
use crate::interval::{Interval, Notice};
use crate::memory::check_room;
use crate::message::{Reader, Writer};
use crate::steps;
use crate::time::Time;

impl Coherence<'_> {
    pub(crate) fn close_domain(&mut self) -> Result<()> {
        let section = self.enter()?;
        let closed = self.close_in(&section);
        self.or_break(&section, closed)
    }

    fn close_in(&mut self, section: &Section) -> Result<()> {
        let mut less = Vec::new();
        let closed = section.close(&mut self.state_mut()?.mapped, &mut less);
        less.sort_unstable();
        allow_all(&mut *self.guard, &less, Allowed::Reading)?;
        let Some(closed) = closed else { return Ok(()) };
        let notices = closed.pages.iter().map(|&page| Notice { page, at: 0, words: 0 }).collect();
        let (rank, number, order) = (section.domain, closed.number, closed.order);
        let seen = Time::default();
        let interval = Interval { rank, number, order, seen, notices, accesses: None };
        self.log_domain(section, &interval)?;
        if self.config.diffs == Diffs::Eager {
            for page in closed.pages {
                self.end_chain(section, page)?;
            }
        }
        self.note_domain_storage(section);
        Ok(())
    }

    /// Returns what has come of something in a section. What has failed half-way, no other rank of
    /// the domain may take for done: it is told before it can enter.
    fn or_break(&self, section: &Section, done: Result<()>) -> Result<()> {
        if done.is_err() && !self.context.omits(steps::TELL_OF_FAILURE) {
            section.set_word(BROKEN, u64::from(self.me.0) + 1);
        }
        done
    }

    fn end_chain(&self, section: &Section, page: u32) -> Result<()> {
        section.end_chain(page).map_err(|NoRoom { wanted_words }| {
            let limit = self.config.storage_max as usize;
            check_room("diffs", wanted_words * 4, limit)
                .err()
                .unwrap_or_else(|| Error::Internal("there is no room for a diff".into()))
        })
    }

    pub(crate) fn learn_domain(&mut self, intervals: Vec<Interval>) -> Result<()> {
        if intervals.is_empty() {
            return Ok(());
        }
        let section = self.enter()?;
        let learned = self.learn_in(&section, intervals);
        self.or_break(&section, learned)
    }

    fn learn_in(&mut self, section: &Section, intervals: Vec<Interval>) -> Result<()> {
        let changes = self.intervals.epoch as usize % 2;
        let overlooked = usize::from(self.context.omits(steps::HEED_NOTICES));
        for interval in intervals {
            let Interval { rank: domain, number, order, .. } = interval;
            if domain as usize >= section.extents.domains {
                return Err(Error::Internal(format!("there is no coherence domain {domain}")));
            }
            let next = section.seen(domain) + 1;
            if number > next {
                return Err(Error::Internal(format!(
                    "interval {number} of domain {domain} came when {next} was expected"
                )));
            }
            if number < next {
                continue;
            }
            section.set_seen(domain, number);
            self.log_domain(section, &interval)?;
            section.set_word(ORDER, section.word(ORDER).max(order));
            let wanted = section.before(domain) + u64::from(number);
            self.records.statistics.notices += interval.notices.len() as u64;
            for notice in interval.notices.iter().skip(overlooked) {
                let page = notice.page;
                if !self.context.omits(steps::END_CHAINS) {
                    self.end_chain(section, page)?;
                }
                let source = section.source(page, domain);
                section.set_source(page, domain, Source { wanted, ..source });
                section.note_writer(page, order, domain);
                section.add_writer(page, domain);
                if section.is_open(page) {
                    section.count(page, Field::Moves);
                    if self.lock_state.is_asking {
                        section.count(page, Field::LockMoves);
                    }
                }
                section.push_change(changes, page);
            }
        }
        self.note_domain_storage(section);
        Ok(())
    }

    fn log_domain(&self, section: &Section, interval: &Interval) -> Result<()> {
        let mut writer = Writer::default();
        interval.write_pages(&mut writer);
        let (at, bytes) = (section.word(LOG_BYTES), writer.bytes());
        check_room("write notices", at as usize + bytes.len(), self.memory.log_bytes)?;
        if !section.log.put(at, bytes) {
            return Err(Error::Internal("the log of write notices is too short".into()));
        }
        section.set_word(LOG_BYTES, at + bytes.len() as u64);
        Ok(())
    }

    /// Returns the intervals that the domain knows of the domains that `of` names, and that one
    /// which knows `time` lacks.
    pub(crate) fn write_lacking_domain(
        &self,
        time: &Time,
        of: impl Fn(u32) -> bool,
        into: &mut Writer,
    ) -> Result<()> {
        let section = self.enter()?;
        let mut log = vec![0; section.word(LOG_BYTES) as usize];
        if !section.log.get(0, &mut log) {
            return Err(Error::Internal("the log of write notices is too short".into()));
        }
        let pages = section.extents.pages;
        drop(section);
        let mut reader = Reader::new(&log);
        while !reader.is_empty() {
            let interval = Interval::read_pages(pages, &mut reader)?;
            if of(interval.rank) && interval.number > time.of(interval.rank) {
                interval.write_pages(into);
            }
        }
        Ok(())
    }

    /// Returns the intervals that the domain knows, since the last barrier of all ranks.
    pub(crate) fn domain_time(&self) -> Result<Time> {
        let section = self.enter_unmarked()?;
        let domains = 0..section.extents.domains as u32;
        Ok(domains
            .map(|domain| (domain, section.seen(domain)))
            .filter(|&(_, number)| number > 0)
            .collect())
    }

    pub(crate) fn domain_log_bytes(&self) -> usize {
        self.state().map_or(0, |state| state.table.word(LOG_BYTES) as usize)
    }

    fn note_domain_storage(&mut self, section: &Section) {
        let storage = storage_of(section);
        self.records.statistics.storage_peak = self.records.statistics.storage_peak.max(storage);
    }

    /// Returns the number of bytes of diffs and notices that the domain keeps.
    pub(crate) fn domain_storage(&self) -> u64 {
        self.state().map_or(0, |state| storage_of(&state.table))
    }

    /// Returns the number of diffs that the domain has made, if this rank reports them.
    pub(crate) fn domain_diffs_made(&self) -> u64 {
        let is_home = self.domain.as_ref().is_some_and(|domain| domain.home() == self.me);
        let made = self.state().map_or(0, |state| state.table.word(super::table::DIFFS_MADE));
        if is_home { made } else { 0 }
    }
}

fn storage_of(table: &super::table::Table) -> u64 {
    table.word(super::table::DIFF_WORDS) * 4 + table.word(LOG_BYTES)
}
