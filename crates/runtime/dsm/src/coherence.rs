//! The coherence state of a rank: its pages, and the intervals and notices that it knows. It knows
//! no signals: a front end says which page is about to be read or written, and is told which pages
//! may be.
//!
//! Paper:     [BST97] section 2 and TreadMarks, on which it builds: lazy release consistency,
//!            intervals, write notices, twins and diffs, several writers for each page.
//! Differs:   diffs are made when an interval ends, into memory that others read; a notice says
//!            where its diff is. Time is counted from the last barrier of all ranks on.
//! State:     on each rank a copy of the shared memory, its diffs, and the intervals since the last
//!            barrier of all ranks; for each page the notices that were not applied.
//! Invariant: a page is valid if there is a copy and no notice is pending for it. A rank past a
//!            synchronization knows all notices of what happened before it.
//! Ordering:  `diffs_that_are_applied_backwards_are_caught`, `a_notice_that_is_dropped_is_caught`,
//!            `a_twin_that_is_kept_is_caught`.
//! Cost:      a fault on an invalid page 1 get for each diff that matters, all under way at once,
//!            and 1 for the page if there is no copy.
//! Checked:   3 ranks: message passing, store buffering, false sharing, chains of locks, barriers
//!            of some, exhaustively; `farside check dsm`.

use std::ops::{Deref, Range};
use std::sync::Arc;

use farside_fabric::{Error, HandlerId, Rank, Result};
use farside_rma::{Context, Place, Plain, Processing};

use crate::accesses::AccessLog;
use crate::config::{Config, Start};
use crate::diff::{self, Made};
use crate::domain::{Domain, Pushed};
use crate::interval::{Interval, Notice};
use crate::memory::{Memory, check_room};
use crate::message::Writer;
use crate::sides::Serving;
use crate::state::{Intervals, LockState, MessageCounts, Records, Stored, numbers_before};
use crate::statistics::Statistics;
use crate::steps;
use crate::time::Time;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Allowed {
    Nothing,
    Reading,
    Writing,
}

/// A front end, as the coherence state sees it.
pub(crate) trait Guard {
    /// From now on this may be done with `count` pages from `first` on.
    fn allow(&mut self, first: u32, count: u32, what: Allowed) -> Result<()>;

    /// The same for pages that are about to be touched.
    fn allow_ahead(&mut self, first: u32, count: u32, what: Allowed) -> Result<()> {
        self.allow(first, count, what)
    }
}

/// The front end of explicit accesses, which enforces nothing.
pub(crate) struct NoGuard;

impl Guard for NoGuard {
    fn allow(&mut self, _first: u32, _count: u32, _what: Allowed) -> Result<()> {
        Ok(())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ViewPages {
    pub(crate) first: u32,
    pub(crate) end: u32,
    pub(crate) is_mut: bool,
}

impl ViewPages {
    pub(crate) fn after(self, page: u32, count: u32) -> Range<u32> {
        page + 1..self.end.min(page.saturating_add(1 + count)).max(page + 1)
    }

    pub(crate) fn contains(self, page: u32) -> bool {
        (self.first..self.end).contains(&page)
    }
}

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

/// A page, as one rank sees it.
#[derive(Default)]
pub(crate) struct Page {
    /// The rank that has a copy, if this rank has none.
    keeper: Option<Rank>,
    /// True of a zeroed page that is not valid before it was asked for.
    is_unasked: bool,
    pending: Vec<Pending>,
    /// The contents before the first write of this interval.
    twin: Option<Box<[u32]>>,
    is_dirty: bool,
    /// The last interval that wrote it, since storage was reclaimed: its order, and its rank.
    pub(crate) last: Option<(u64, u32)>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Pending {
    order: u64,
    pub(crate) rank: u32,
    pub(crate) notice: Notice,
}

impl Page {
    pub(crate) fn is_dirty(&self) -> bool {
        self.is_dirty
    }

    pub(crate) fn is_valid(&self) -> bool {
        self.keeper.is_none() && self.pending.is_empty() && !self.is_unasked
    }

    /// Forgets notices. A rank without a valid copy gets one from the keeper.
    pub(crate) fn reclaim(&mut self, keeper: Rank) {
        if !self.is_valid() {
            self.keeper = Some(keeper);
        }
        self.pending = Vec::new();
        self.last = None;
    }
}

pub(crate) struct Coherence<'w> {
    pub(crate) context: ContextHandle<'w>,
    pub(crate) me: Rank,
    pub(crate) ranks: u32,
    pub(crate) config: Config,
    pub(crate) memory: Memory,
    /// The domain of this rank, unless it has a copy of its own and eager diffs.
    pub(crate) domain: Option<Domain>,
    pub(crate) page_words: usize,
    pub(crate) pages: Vec<Page>,
    dirty: Vec<u32>,
    pub(crate) intervals: Intervals,
    pub(crate) stored: Stored,
    pub(crate) lock_state: LockState,
    pub(crate) messages: MessageCounts,
    pub(crate) handler: Option<HandlerId>,
    pub(crate) guard: Box<dyn Guard + 'w>,
    pub(crate) records: Records,
    /// The accesses of this interval, if races are looked for.
    pub(crate) access_log: Option<Arc<AccessLog>>,
    /// Diffs that came with messages of the barrier that is being passed.
    pub(crate) pushed: Vec<Pushed>,
    /// The pages of the view that is being touched, and whether it can be written.
    pub(crate) view: Option<ViewPages>,
    /// A number that stands for all allocations so far.
    pub(crate) allocations: u32,
    /// The error after which nothing works any more.
    pub(crate) failure: Option<Error>,
    scratch: Vec<u32>,
}

impl<'w> Coherence<'w> {
    pub(crate) fn new(
        context: ContextHandle<'w>,
        config: Config,
        memory: Memory,
        serving: Serving,
        guard: Box<dyn Guard + 'w>,
    ) -> Coherence<'w> {
        let Serving { handler, domain } = serving;
        let (me, ranks) = (context.rank(), context.size());
        let (number, order) = numbers_before(&context);
        let keeper = (config.start == Start::Original && me != Rank(0)).then_some(Rank(0));
        let is_unasked = config.start == Start::ZeroInvalid && me != Rank(0);
        let count = if domain.is_some() { 0 } else { config.bytes as usize / config.page_bytes };
        Coherence {
            me,
            ranks,
            page_words: config.page_bytes / 4,
            pages: (0..count).map(|_| Page { keeper, is_unasked, ..Page::default() }).collect(),
            dirty: Vec::new(),
            intervals: Intervals { epoch: number, order, ..Intervals::default() },
            stored: Stored::default(),
            lock_state: LockState::new(config.locks, number),
            messages: MessageCounts::new(ranks),
            handler,
            guard,
            records: Records {
                repeats: context.job().state.effort().repeats,
                ..Records::default()
            },
            access_log: None,
            pushed: Vec::new(),
            view: None,
            allocations: 0,
            failure: None,
            scratch: vec![0; config.page_bytes / 4],
            context,
            config,
            memory,
            domain,
        }
    }

    pub(crate) fn statistics(&self) -> Statistics {
        let retransmitted =
            self.context.job().state.effort().repeats.saturating_sub(self.records.repeats);
        let diffs_made = self.records.statistics.diffs_made + self.domain_diffs_made();
        Statistics { retransmitted, diffs_made, ..self.records.statistics }
    }

    pub(crate) fn count(&mut self, messages: u64, bytes: usize) {
        self.records.statistics.messages += messages;
        self.records.statistics.bytes += bytes as u64;
    }

    /// Writes to memory of this rank that others read.
    pub(crate) fn put_own<T: Plain>(&self, place: Place<'_, T>, data: &[T]) -> Result<()> {
        if data.is_empty() {
            return Ok(());
        }
        self.context.put(data, place)?;
        self.context.flush(self.me)
    }

    /// Time that handling a page takes, in virtual time.
    fn charge_bytes(&self, bytes: usize) {
        self.context.charge(Processing::Bytes(bytes));
    }

    /// A page is about to be read.
    pub(crate) fn read(&mut self, page: u32) -> Result<()> {
        if self.domain.is_some() {
            return self.read_shared(page);
        }
        if self.pages[page as usize].is_valid() {
            return Ok(());
        }
        self.records.statistics.read_faults += 1;
        self.charge_fault();
        self.validate(page)?;
        self.guard.allow(page, 1, Allowed::Reading)
    }

    /// A page is about to be written.
    pub(crate) fn write(&mut self, page: u32) -> Result<()> {
        if self.domain.is_some() {
            return self.write_shared(page);
        }
        if self.pages[page as usize].is_dirty {
            return Ok(());
        }
        self.records.statistics.write_faults += 1;
        self.charge_fault();
        self.validate(page)?;
        let words = self.page_words;
        self.pages[page as usize].is_dirty = true;
        self.dirty.push(page);
        if self.pages[page as usize].twin.is_none() {
            let mut twin: Box<[u32]> = vec![0; words].into();
            self.memory.copy.own().read(page as usize * words, &mut twin)?;
            self.pages[page as usize].twin = Some(twin);
            self.records.statistics.twins += 1;
            self.charge_bytes(words * 4);
        }
        self.guard.allow(page, 1, Allowed::Writing)
    }

    fn charge_fault(&self) {
        self.context.charge(Processing::Fault);
    }

    pub(crate) fn validate(&mut self, page: u32) -> Result<()> {
        let (index, words) = (page as usize, self.page_words);
        if let Some(keeper) = self.pages[index].keeper {
            let mut copy = std::mem::take(&mut self.scratch);
            let fetched = self.fetch_copy(keeper, page, &mut copy);
            let written = fetched.and_then(|()| self.memory.copy.own().write(index * words, &copy));
            self.scratch = copy;
            written?;
            self.records.statistics.cold_misses += 1;
            self.count(2, words * 4);
            self.pages[index].keeper = None;
            self.pages[index].is_unasked = false;
        }
        if self.pages[index].pending.is_empty() {
            if self.pages[index].is_unasked {
                self.ask_in_vain(page)?;
                self.pages[index].is_unasked = false;
            }
            return Ok(());
        }
        let mut pending = std::mem::take(&mut self.pages[index].pending);
        pending.sort_unstable_by_key(|pending| (pending.order, pending.rank));
        // [BST97 section 2], without the diffs before one of all words, which do not matter.
        let first = pending.iter().rposition(|pending| pending.notice.is_whole()).unwrap_or(0);
        if self.context.omits(steps::ORDER_DIFFS) {
            pending[first..].reverse();
        }
        let applied = self
            .fetch_diffs(&pending[first..])
            .and_then(|diffs| self.apply(&pending[first..], &diffs));
        match applied {
            Ok(()) => {
                self.stored.pending_notices -= pending.len();
                self.pages[index].is_unasked = false;
            }
            Err(_) => self.pages[index].pending = pending,
        }
        applied
    }

    fn apply(&mut self, pending: &[Pending], mut diffs: &[u32]) -> Result<()> {
        let words = self.page_words;
        self.charge_bytes(diffs.len() * 4);
        let copy = self.memory.copy.own();
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

    /// Ends the interval: what was written since the last one can be fetched from now on.
    pub(crate) fn close(&mut self) -> Result<()> {
        if let Some(domain) = &self.domain {
            return if domain.is_alone() { Ok(()) } else { self.close_domain() };
        }
        if self.dirty.is_empty() && self.access_log.is_none() {
            return Ok(());
        }
        let mut dirty = std::mem::take(&mut self.dirty);
        dirty.sort_unstable();
        let words = self.page_words;
        let mut notices = Vec::new();
        let mut diffs = Vec::new();
        for &page in &dirty {
            self.memory.copy.own().read(page as usize * words, &mut self.scratch)?;
            let entry = &mut self.pages[page as usize];
            entry.is_dirty = false;
            let Some(twin) = &entry.twin else { continue };
            let at = (self.stored.diff_words + diffs.len()) as u32;
            match diff::make(twin, &self.scratch, &mut diffs) {
                Made::Nothing => {}
                Made::Runs(words) => notices.push(Notice { page, at, words: words as u32 }),
                Made::Whole => notices.push(Notice { page, at, words: 0 }),
            }
            if !self.context.omits(steps::RENEW_TWINS) {
                entry.twin = None;
            }
        }
        self.charge_bytes(dirty.len() * words * 4);
        allow_all(&mut *self.guard, &dirty, Allowed::Reading)?;
        check_room(
            "diffs",
            (self.stored.diff_words + diffs.len()) * 4,
            self.config.storage_max as usize,
        )?;
        self.put_own(self.memory.diffs.at(self.me, self.stored.diff_words), &diffs)?;
        self.stored.diff_words += diffs.len();
        self.records.statistics.diffs_made += notices.len() as u64;
        let accesses = self.store_accesses(!notices.is_empty())?;
        if notices.is_empty() && accesses.is_none() {
            return Ok(());
        }
        self.intervals.order += 1;
        let number = self.intervals.seen.of(self.me.0) + 1;
        let seen = self.intervals.seen.iter().filter(|&(rank, _)| rank != self.me.0).collect();
        for notice in &notices {
            self.pages[notice.page as usize].last = Some((self.intervals.order, self.me.0));
        }
        let (rank, order) = (self.me.0, self.intervals.order);
        let interval = Interval { rank, number, order, seen, notices, accesses };
        self.log(std::slice::from_ref(&interval))?;
        self.keep(interval);
        self.note_storage();
        Ok(())
    }

    /// Records intervals of others, and logs them for ranks that ask for a lock.
    pub(crate) fn learn(&mut self, mut intervals: Vec<Interval>) -> Result<()> {
        if self.domain.is_some() {
            return self.learn_domain(intervals);
        }
        self.retain_new(&mut intervals)?;
        self.log(&intervals)?;
        self.record_notices(intervals)
    }

    /// Records intervals at a barrier of all ranks: they need no log, because every rank is told.
    pub(crate) fn learn_with_all(&mut self, mut intervals: Vec<Interval>) -> Result<()> {
        if self.domain.is_some() {
            return self.learn_domain(intervals);
        }
        self.retain_new(&mut intervals)?;
        self.record_notices(intervals)
    }

    fn record_notices(&mut self, intervals: Vec<Interval>) -> Result<()> {
        let mut invalid = Vec::new();
        let count = intervals.iter().map(|interval| interval.notices.len()).sum();
        self.context.charge(Processing::Notices(count));
        let overlooked = usize::from(self.context.omits(steps::HEED_NOTICES));
        for interval in intervals {
            self.records.statistics.notices += interval.notices.len() as u64;
            for &notice in interval.notices.iter().skip(overlooked) {
                let page = &mut self.pages[notice.page as usize];
                let by = (interval.order, interval.rank);
                page.pending.push(Pending { order: by.0, rank: by.1, notice });
                page.last = page.last.max(Some(by));
                invalid.push(notice.page);
                self.stored.pending_notices += 1;
            }
            self.keep(interval);
        }
        invalid.sort_unstable();
        invalid.dedup();
        allow_all(&mut *self.guard, &invalid, Allowed::Nothing)?;
        self.note_storage();
        Ok(())
    }

    /// Of intervals, those that are new, each of which must be the next one of its rank.
    fn retain_new(&self, intervals: &mut Vec<Interval>) -> Result<()> {
        let (mut seen, mut wrong) = (self.intervals.seen.clone(), None);
        intervals.retain(|&Interval { rank, number, ref notices, .. }| {
            let next = seen.of(rank) + 1;
            if number > next || rank >= self.ranks {
                wrong =
                    Some(format!("interval {number} of rank {rank} came when {next} was expected"));
            }
            let pages = self.pages.len();
            if let Some(Notice { page, .. }) =
                notices.iter().find(|notice| notice.page as usize >= pages)
            {
                wrong = Some(format!("page {page} was written, and there are {pages}"));
            }
            seen.set(rank, number.max(next - 1));
            number == next
        });
        wrong.map_or(Ok(()), |wrong| Err(Error::Internal(wrong)))
    }

    /// Writes intervals to the log, which ranks that ask for a lock read.
    fn log(&mut self, intervals: &[Interval]) -> Result<()> {
        // A job of one rank, or without locks, has no readers of the log.
        if self.ranks == 1 || self.config.locks == 0 {
            return Ok(());
        }
        let (mut writer, form) = (Writer::default(), self.interval_form());
        intervals.iter().for_each(|interval| interval.write(form, &mut writer));
        let bytes = writer.bytes();
        check_room("write notices", self.stored.log_bytes + bytes.len(), self.memory.log_bytes)?;
        self.put_own(self.memory.log.at(self.me, self.stored.log_bytes), bytes)?;
        self.stored.log_bytes += bytes.len();
        Ok(())
    }

    fn keep(&mut self, interval: Interval) {
        self.intervals.order = self.intervals.order.max(interval.order);
        self.intervals.seen.set(interval.rank, interval.number);
        self.intervals.known.entry(interval.rank).or_default().push(interval);
    }

    /// Returns the intervals, of the ranks that `of` names, that a rank which knows `time` lacks.
    pub(crate) fn lacking(&self, time: &Time, of: impl Fn(u32) -> bool) -> Result<Writer> {
        let mut writer = Writer::default();
        self.write_lacking(time, of, &mut writer)?;
        Ok(writer)
    }

    pub(crate) fn write_lacking(
        &self,
        time: &Time,
        of: impl Fn(u32) -> bool,
        into: &mut Writer,
    ) -> Result<()> {
        match &self.domain {
            Some(domain) if domain.is_alone() => return Ok(()),
            Some(_) => return self.write_lacking_domain(time, of, into),
            None => {}
        }
        let mut count = 0;
        for (&rank, intervals) in self.intervals.known.iter().filter(|&(&rank, _)| of(rank)) {
            let knows = time.of(rank);
            for interval in intervals.iter().filter(|interval| interval.number > knows) {
                interval.write(self.interval_form(), into);
                count += interval.notices.len();
            }
        }
        self.context.charge(Processing::Notices(count));
        Ok(())
    }

    /// Returns the number of bytes of diffs and notices that are kept.
    pub(crate) fn storage(&self) -> u64 {
        if self.domain.is_some() {
            return self.domain_storage();
        }
        (self.stored.diff_words * 4
            + self.stored.pending_notices * size_of::<Pending>()
            + self.stored.log_bytes) as u64
    }

    fn note_storage(&mut self) {
        self.records.statistics.storage_peak =
            self.records.statistics.storage_peak.max(self.storage());
    }

    /// All ranks have met, and know the same.
    pub(crate) fn begin_epoch(&mut self) {
        self.intervals.epoch = self.intervals.epoch.wrapping_add(1);
        self.intervals.known.clear();
        self.intervals.seen.clear();
        self.intervals.cursors.clear();
        self.stored.log_bytes = 0;
    }

    pub(crate) fn into_parts(self) -> (Memory, Option<Domain>) {
        (self.memory, self.domain)
    }

    /// All notices and diffs were thrown away.
    pub(crate) fn clear_storage(&mut self) {
        self.stored.diff_words = 0;
        self.stored.pending_notices = 0;
        self.records.statistics.reclaims += 1;
    }
}

/// Allows the same for many pages, which are in order: neighbours together.
pub(crate) fn allow_all(guard: &mut dyn Guard, pages: &[u32], what: Allowed) -> Result<()> {
    for run in pages.chunk_by(|last, next| *next == last + 1) {
        guard.allow(run[0], run.len() as u32, what)?;
    }
    Ok(())
}
