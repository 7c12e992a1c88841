//! The state of a rank that all protocols share.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use farside_fabric::{Rank, Result};
use farside_rma::{Context, Place, Plain, Processing};

use crate::accesses::AccessLog;
use crate::config::Config;
use crate::copies::Domains;
use crate::guard::{Guard, ViewPages};
use crate::interval::IntervalForm;
use crate::memory::Memory;
use crate::race::Race;
use crate::statistics::{BarrierTime, Statistics};
use crate::steps;

/// The way into the job: one of its own, where a rank may have several.
pub(crate) enum ContextHandle<'w> {
    Borrowed(&'w Context),
    Owned(Box<Context>),
}

impl Deref for ContextHandle<'_> {
    type Target = Context;

    fn deref(&self) -> &Context {
        match self {
            ContextHandle::Borrowed(context) => context,
            ContextHandle::Owned(context) => context,
        }
    }
}

/// What a protocol finds on its rank: the way to others, the memory that ranks reach of each other,
/// and the front end.
pub(crate) struct Local<'w> {
    pub(crate) context: ContextHandle<'w>,
    pub(crate) me: Rank,
    pub(crate) ranks: u32,
    pub(crate) config: Config,
    pub(crate) domains: Domains,
    pub(crate) memory: Memory,
    pub(crate) guard: Box<dyn Guard + 'w>,
    /// The pages of the view that is being touched, and whether it can be written.
    pub(crate) view: Option<ViewPages>,
    /// The number of barriers of all ranks so far.
    pub(crate) epoch: u32,
    /// The accesses of this interval, if races are looked for.
    pub(crate) access_log: Option<Arc<AccessLog>>,
    pub(crate) records: Records,
}

impl Local<'_> {
    pub(crate) fn page_words(&self) -> usize {
        self.config.page_bytes / 4
    }

    pub(crate) fn pages(&self) -> usize {
        self.config.bytes as usize / self.config.page_bytes
    }

    /// Returns whether this rank has the memory of its domain.
    pub(crate) fn is_home(&self) -> bool {
        self.domains.home_of(self.me) == self.me
    }

    pub(crate) fn interval_form(&self) -> IntervalForm {
        IntervalForm { page_words: self.page_words(), has_accesses: self.config.check_races }
    }

    /// Writes to memory of this rank that others read.
    pub(crate) fn put_own<T: Plain>(&self, place: Place<'_, T>, data: &[T]) -> Result<()> {
        if data.is_empty() {
            return Ok(());
        }
        self.context.put(data, place)?;
        self.context.flush(self.me)
    }

    pub(crate) fn count(&mut self, messages: u64, bytes: usize) {
        self.records.statistics.messages += messages;
        self.records.statistics.bytes += bytes as u64;
    }

    pub(crate) fn count_read_fault(&mut self) {
        self.records.statistics.read_faults += 1;
        self.context.charge(Processing::Fault);
    }

    pub(crate) fn count_write_fault(&mut self) {
        self.records.statistics.write_faults += 1;
        self.context.charge(Processing::Fault);
    }

    pub(crate) fn count_twin(&mut self) {
        self.records.statistics.twins += 1;
        self.charge_bytes(self.config.page_bytes);
    }

    pub(crate) fn count_notices(&mut self, notices: usize) {
        self.records.statistics.notices += notices as u64;
        self.context.charge(Processing::Notices(notices));
    }

    pub(crate) fn count_diffs(&mut self, diffs: usize, bytes: usize) {
        self.records.statistics.diffs_applied += diffs as u64;
        self.records.statistics.diff_bytes += bytes as u64;
    }

    /// Notes how many bytes of diffs and notices are kept.
    pub(crate) fn note_storage(&mut self, bytes: u64) {
        self.records.statistics.storage_peak = self.records.statistics.storage_peak.max(bytes);
    }

    /// Time that handling a page takes, in virtual time.
    pub(crate) fn charge_bytes(&self, bytes: usize) {
        self.context.charge(Processing::Bytes(bytes));
    }
}

/// Returns the number before the first ticket and the first epoch, and that before the first order.
/// Two tickets in a row must differ, nothing else; a lock's word says in which epoch it was
/// released.
pub(crate) fn numbers_before(context: &Context) -> (u32, u64) {
    match context.omits(steps::COUNT_FROM_ZERO) {
        false => (0, 0),
        true => (u32::MAX, u32::MAX as u64 - 1),
    }
}

#[derive(Default)]
pub(crate) struct Records {
    pub(crate) statistics: Statistics,
    /// The number of messages that the fabric had sent again before this memory was made.
    pub(crate) repeats: u64,
    pub(crate) races: Vec<Race>,
    /// The times at which barriers of all ranks were entered and left, in nanoseconds.
    pub(crate) barrier_times: Vec<BarrierTime>,
}

pub(crate) struct LockState {
    /// The place, of two, that the last request used.
    pub(crate) turn: Vec<usize>,
    pub(crate) held: Vec<bool>,
    pub(crate) tickets: u32,
    /// The position up to which the log of each other rank was read, in bytes, since the last
    /// barrier of all ranks.
    pub(crate) cursors: BTreeMap<u32, usize>,
}

impl LockState {
    pub(crate) fn new(locks: u32, tickets: u32) -> LockState {
        let (turn, held) = (vec![0; locks as usize], vec![false; locks as usize]);
        LockState { turn, held, tickets, cursors: BTreeMap::new() }
    }
}

pub(crate) struct MessageCounts {
    pub(crate) sent: [Vec<u64>; 2],
    pub(crate) received: [Vec<u64>; 2],
    /// Longer messages, by receiver.
    pub(crate) long: BTreeMap<Rank, u64>,
    pub(crate) outbox_used: usize,
}

impl MessageCounts {
    pub(crate) fn new(ranks: u32) -> MessageCounts {
        let zero = || [vec![0; ranks as usize], vec![0; ranks as usize]];
        MessageCounts { sent: zero(), received: zero(), long: BTreeMap::new(), outbox_used: 0 }
    }
}
