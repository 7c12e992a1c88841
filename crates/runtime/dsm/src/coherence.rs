//! The coherence state of a rank: its protocol, which keeps the pages, and what is the same for all
//! protocols, the locks, the barriers and their messages.

use std::ops::{Deref, DerefMut};

use farside_fabric::{Error, Result};

use crate::interval::Interval;
use crate::memory::Memory;
use crate::message::Reader;
use crate::protocol::Protocol;
use crate::state::{Local, LockState, MessageCounts, numbers_before};
use crate::statistics::{ArrayStatistics, Statistics};

pub(crate) struct Coherence<'w> {
    pub(crate) here: Local<'w>,
    pub(crate) protocol: Box<dyn Protocol>,
    pub(crate) lock_state: LockState,
    pub(crate) messages: MessageCounts,
    /// A number that stands for all allocations so far.
    pub(crate) allocations: u32,
    /// The error after which nothing works any more.
    pub(crate) failure: Option<Error>,
    /// Whether no call of the program has said so yet: a page fault cannot.
    pub(crate) is_unreported: bool,
}

/// Locks and barriers find here what protocols find.
impl<'w> Deref for Coherence<'w> {
    type Target = Local<'w>;

    fn deref(&self) -> &Local<'w> {
        &self.here
    }
}

impl<'w> DerefMut for Coherence<'w> {
    fn deref_mut(&mut self) -> &mut Local<'w> {
        &mut self.here
    }
}

impl<'w> Coherence<'w> {
    pub(crate) fn new(here: Local<'w>, protocol: Box<dyn Protocol>) -> Coherence<'w> {
        let (tickets, _) = numbers_before(&here.context);
        Coherence {
            lock_state: LockState::new(here.config.locks, tickets),
            messages: MessageCounts::new(here.ranks),
            allocations: 0,
            failure: None,
            is_unreported: false,
            here,
            protocol,
        }
    }

    pub(crate) fn read(&mut self, page: u32) -> Result<()> {
        self.protocol.read(&mut self.here, page)
    }

    pub(crate) fn write(&mut self, page: u32) -> Result<()> {
        self.protocol.write(&mut self.here, page)
    }

    pub(crate) fn statistics(&self) -> Statistics {
        let repeats = self.context.job().state.effort().repeats;
        let mut statistics = self.records.statistics;
        statistics.retransmitted = repeats.saturating_sub(self.records.repeats);
        self.protocol.add_counts(&self.here, &mut statistics, &mut []);
        statistics
    }

    /// Adds what is known of the pages of allocations.
    pub(crate) fn add_arrays(&self, arrays: &mut [ArrayStatistics]) {
        self.protocol.add_counts(&self.here, &mut Statistics::default(), arrays);
    }

    pub(crate) fn read_intervals(&self, mut reader: Reader<'_>) -> Result<Vec<Interval>> {
        let mut intervals = Vec::new();
        while !reader.is_empty() {
            intervals.push(match self.config.is_eager() {
                true => Interval::read(self.interval_form(), &mut reader)?,
                false => Interval::read_pages(self.pages(), &mut reader)?,
            });
        }
        Ok(intervals)
    }

    /// Ends it, and with it the front end's hold on the memory that it watches.
    pub(crate) fn into_parts(self) -> (Memory, Box<dyn Protocol>) {
        (self.here.memory, self.protocol)
    }
}
