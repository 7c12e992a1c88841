//! Intervals of domains: ended, logged, and heard of.

use farside_fabric::{Error, Result};

use super::chain::NoRoom;
use super::state::Domain;
use super::table::{DIFF_WORDS, Field, LOG_BYTES, ORDER, Section, Source, Table};
use crate::config::Diffs;
use crate::failure::reason_of;
use crate::guard::{Allowed, allow_all};
use crate::interval::{Interval, Notice};
use crate::memory::check_room;
use crate::message::{Reader, Writer};
use crate::protocol::Told;
use crate::state::Local;
use crate::steps;
use crate::time::Time;

impl Domain {
    /// Ends the domain's interval.
    pub(super) fn close(&mut self, here: &mut Local<'_>, section: &Section) -> Result<()> {
        let mut less = Vec::new();
        let closed = section.close(&mut self.mapped, &mut less);
        less.sort_unstable();
        allow_all(&mut *here.guard, &less, Allowed::Reading)?;
        let Some(closed) = closed else { return Ok(()) };
        let notices = closed.pages.iter().map(|&page| Notice { page, at: 0, words: 0 }).collect();
        let (rank, number, order) = (section.domain, closed.number, closed.order);
        let seen = Time::default();
        let interval = Interval { rank, number, order, seen, notices, accesses: None };
        log(here, section, &interval)?;
        if here.config.diffs == Diffs::Eager {
            for page in closed.pages {
                end_chain(here, section, page)?;
            }
        }
        here.note_storage(storage_of(section));
        Ok(())
    }

    /// Returns what has come of something in a section. What has failed half-way, no other rank of
    /// the domain may take for done: it is told before it can enter.
    pub(super) fn or_break(
        &self,
        here: &Local<'_>,
        section: &Section,
        done: Result<()>,
    ) -> Result<()> {
        if let Err(error) = &done
            && !here.context.omits(steps::TELL_OF_FAILURE)
        {
            section.break_domain(reason_of(error));
        }
        done
    }

    pub(super) fn learn_in(
        &mut self,
        here: &mut Local<'_>,
        section: &Section,
        intervals: Vec<Interval>,
        told: Told,
    ) -> Result<()> {
        let changes = here.epoch as usize % 2;
        let overlooked = usize::from(here.context.omits(steps::HEED_NOTICES));
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
            log(here, section, &interval)?;
            section.set_word(ORDER, section.word(ORDER).max(order));
            let wanted = section.before(domain) + u64::from(number);
            here.records.statistics.notices += interval.notices.len() as u64;
            for notice in interval.notices.iter().skip(overlooked) {
                let page = notice.page;
                if !here.context.omits(steps::END_CHAINS) {
                    end_chain(here, section, page)?;
                }
                let source = section.source(page, domain);
                section.set_source(page, domain, Source { wanted, ..source });
                section.note_writer(page, order, domain);
                section.add_writer(page, domain);
                if section.is_open(page) {
                    section.count(page, Field::Moves);
                    if told == Told::WithLock {
                        section.count(page, Field::LockMoves);
                    }
                }
                section.push_change(changes, page);
            }
        }
        here.note_storage(storage_of(section));
        Ok(())
    }

    /// Returns the intervals that the domain knows of the domains that `of` names, and that one
    /// which knows `time` lacks.
    pub(super) fn copy_log(
        &self,
        here: &Local<'_>,
        time: &Time,
        of: &dyn Fn(u32) -> bool,
        into: &mut Writer,
    ) -> Result<()> {
        let section = self.enter(here)?;
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
}

fn end_chain(here: &Local<'_>, section: &Section, page: u32) -> Result<()> {
    section.end_chain(page).map_err(|NoRoom { wanted_words }| {
        let limit = here.config.storage_max as usize;
        check_room("diffs", wanted_words * 4, limit)
            .err()
            .unwrap_or_else(|| Error::Internal("there is no room for a diff".into()))
    })
}

fn log(here: &Local<'_>, section: &Section, interval: &Interval) -> Result<()> {
    let mut writer = Writer::default();
    interval.write_pages(&mut writer);
    let (at, bytes) = (section.word(LOG_BYTES), writer.bytes());
    check_room("write notices", at as usize + bytes.len(), here.memory.log_bytes)?;
    if !section.log.put(at, bytes) {
        return Err(Error::Internal("the log of write notices is too short".into()));
    }
    section.set_word(LOG_BYTES, at + bytes.len() as u64);
    Ok(())
}

/// Returns the number of bytes of diffs and notices that a domain keeps.
pub(super) fn storage_of(table: &Table) -> u64 {
    table.word(DIFF_WORDS) * 4 + table.word(LOG_BYTES)
}
