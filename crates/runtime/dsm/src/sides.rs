//! The questions that locks, barriers and front ends ask of either kind of coherence state: a copy
//! for each rank with eager diffs, or coherence domains.

use farside_fabric::{HandlerId, Rank, Result};

use crate::coherence::{Allowed, Coherence};
use crate::domain::Domain;
use crate::interval::IntervalForm;
use crate::time::Time;

pub(crate) struct Serving {
    /// The handler that sends words of copies and diffs, if they are not read.
    pub(crate) handler: Option<HandlerId>,
    /// The domain of this rank, unless it has a copy of its own and eager diffs.
    pub(crate) domain: Option<Domain>,
}

impl Coherence<'_> {
    pub(crate) fn interval_form(&self) -> IntervalForm {
        IntervalForm { page_words: self.page_words, has_accesses: self.config.check_races }
    }

    pub(crate) fn pages_count(&self) -> usize {
        self.config.bytes as usize / self.config.page_bytes
    }

    /// Returns the intervals that this rank, or its domain, knows.
    pub(crate) fn time(&self) -> Result<Time> {
        match &self.domain {
            Some(domain) if domain.is_alone() => Ok(Time::default()),
            Some(_) => self.domain_time(),
            None => Ok(self.intervals.seen.clone()),
        }
    }

    /// Returns the length of the log that ranks read which ask this one for a lock.
    pub(crate) fn log_bytes(&self) -> usize {
        if self.domain.is_some() { self.domain_log_bytes() } else { self.stored.log_bytes }
    }

    /// Returns the rank that has the log of `rank`; `None` if it is the log of this rank's own
    /// domain.
    pub(crate) fn log_of(&self, rank: Rank) -> Option<Rank> {
        match &self.domain {
            None => Some(rank),
            Some(domain) if domain.domains.of(rank) == domain.me => None,
            Some(domain) => Some(domain.domains.home(domain.domains.of(rank))),
        }
    }

    /// Returns the number under which the intervals of `rank` are known.
    pub(crate) fn maker(&self, rank: Rank) -> u32 {
        self.domain.as_ref().map_or(rank.0, |domain| domain.domains.of(rank))
    }

    pub(crate) fn is_readable(&self, page: u32) -> bool {
        match &self.domain {
            Some(domain) => domain.allows(page) != Allowed::Nothing,
            None => self.pages[page as usize].is_valid(),
        }
    }

    /// Returns the accesses that a page allows, which was just read or written.
    pub(crate) fn allowed(&self, page: u32) -> Allowed {
        match &self.domain {
            Some(domain) => domain.allows(page),
            None if self.pages[page as usize].is_dirty() => Allowed::Writing,
            None => Allowed::Reading,
        }
    }
}
