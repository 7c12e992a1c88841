//! The coherence core: what a rank knows of its pages, and how it comes to know more. It knows no
//! signals: a front end says which page is about to be read or written, and is told which pages may
//! be.
//!
//! Paper:     [BST97] section 2 and TreadMarks, on which it builds: lazy release consistency,
//!            intervals, write notices, twins and diffs, several writers for each page.
//! Differs:   diffs are made when an interval ends, into memory that others read without this
//!            rank's help; a notice says where its diff is. A page that was written and has not
//!            changed has no notice. Time is counted from the last meeting of all ranks on.
//! State:     on each rank a copy of the shared memory, its diffs, and the intervals since all have
//!            met last; for each page the notices that were not applied.
//! Invariant: a page is valid if it is there and no notice is pending for it. Whoever is past a
//!            synchronization knows all notices of what happened before it.
//! Ordering:  diffs are applied in an order that respects what happened before what
//!            (`diffs_that_are_applied_backwards_are_caught`); every notice counts
//!            (`a_notice_that_is_dropped_is_caught`); a twin is as old as its interval
//!            (`a_twin_that_is_kept_is_caught`).
//! Cost:      a fault on an invalid page 1 get for each diff that matters, all under way at once,
//!            and 1 for the page if there is no copy.
//! Checked:   3 ranks: message passing, store buffering, false sharing, chains of locks, barriers
//!            of some, exhaustively; `farside check dsm`.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::ops::Deref;

use farside_fabric::{Error, HandlerId, Rank, Result};
use farside_rma::{Context, Place, Plain, Processing};
use zerocopy::IntoBytes;

use crate::config::{Config, Fetch, Start};
use crate::diff::{self, Made};
use crate::interval::{Interval, Notice};
use crate::lock::Places;
use crate::mail::Counts;
use crate::memory::{Memory, check_room};
use crate::message::Writer;
use crate::race::Race;
use crate::statistics::Statistics;
use crate::time::Time;
use crate::variant::Variant;

/// What may be done with a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Allowed {
    Nothing,
    Reading,
    Writing,
}

/// A front end, as the core sees it.
pub(crate) trait Guard {
    /// From now on this may be done with `count` pages from `first` on.
    fn allow(&mut self, first: u32, count: u32, what: Allowed) -> Result<()>;
}

/// The front end of explicit accesses: nobody has to be told.
pub(crate) struct NoGuard;

impl Guard for NoGuard {
    fn allow(&mut self, _first: u32, _count: u32, _what: Allowed) -> Result<()> {
        Ok(())
    }
}

/// The way into the job: one of its own, where a rank may have several.
pub(crate) enum Reach<'w> {
    Borrowed(&'w Context),
    Owned(Box<Context>),
}

impl Deref for Reach<'_> {
    type Target = Context;

    fn deref(&self) -> &Context {
        match self {
            Reach::Borrowed(context) => context,
            Reach::Owned(context) => context,
        }
    }
}

/// A page, as one rank sees it.
#[derive(Default)]
pub(crate) struct Page {
    /// Who has a copy, if this rank has none.
    keeper: Option<Rank>,
    /// Notices that were not applied.
    pending: Vec<Pending>,
    /// How it was when its first write of this interval came.
    twin: Option<Box<[u32]>>,
    is_dirty: bool,
    /// The last interval that wrote it, since storage was reclaimed: its order, and whose it was.
    pub(crate) last: Option<(u32, u32)>,
}

#[derive(Debug, Clone, Copy)]
struct Pending {
    order: u32,
    rank: u32,
    notice: Notice,
}

impl Page {
    pub(crate) fn is_valid(&self) -> bool {
        self.keeper.is_none() && self.pending.is_empty()
    }

    /// Forgets notices: who has no valid copy gets one from the keeper.
    pub(crate) fn reclaim(&mut self, keeper: Rank) {
        if !self.is_valid() {
            self.keeper = Some(keeper);
        }
        self.pending = Vec::new();
        self.last = None;
    }
}

pub(crate) struct Core<'w, V> {
    pub(crate) reach: Reach<'w>,
    pub(crate) me: Rank,
    pub(crate) ranks: u32,
    pub(crate) config: Config,
    pub(crate) memory: Memory,
    pub(crate) page_words: usize,
    pub(crate) pages: Vec<Page>,
    dirty: Vec<u32>,
    /// The intervals since all have met last, by rank.
    pub(crate) known: BTreeMap<u32, Vec<Interval>>,
    /// How many of each that are.
    pub(crate) seen: Time,
    /// The highest order that this rank has seen.
    order: u32,
    /// How often all have met.
    pub(crate) epoch: u32,
    /// How many words of diffs there are, and of notices that are pending.
    pub(crate) used: usize,
    pending: usize,
    pub(crate) log_bytes: usize,
    /// How far others' logs were read.
    pub(crate) cursors: BTreeMap<u32, usize>,
    pub(crate) places: Places,
    pub(crate) counts: Counts,
    pub(crate) handler: Option<HandlerId>,
    pub(crate) guard: Box<dyn Guard + 'w>,
    pub(crate) statistics: Statistics,
    /// How often the fabric had sent something again before.
    repeats: u64,
    pub(crate) races: Vec<Race>,
    /// When barriers of all ranks were entered and left.
    pub(crate) times: Vec<(u64, u64)>,
    /// A number that stands for all allocations so far.
    pub(crate) allocations: u32,
    /// Why nothing works any more.
    failure: Option<Error>,
    scratch: Vec<u32>,
    variant: PhantomData<V>,
}

impl<'w, V: Variant> Core<'w, V> {
    pub(crate) fn new(
        reach: Reach<'w>,
        config: Config,
        memory: Memory,
        handler: Option<HandlerId>,
        guard: Box<dyn Guard + 'w>,
    ) -> Core<'w, V> {
        let (me, ranks) = (reach.rank(), reach.size());
        let keeper = (config.start == Start::Original && me != Rank(0)).then_some(Rank(0));
        let count = config.bytes as usize / config.page_bytes;
        Core {
            me,
            ranks,
            page_words: config.page_bytes / 4,
            pages: (0..count).map(|_| Page { keeper, ..Page::default() }).collect(),
            dirty: Vec::new(),
            known: BTreeMap::new(),
            seen: Time::default(),
            order: 0,
            epoch: V::EPOCHS_BEFORE,
            used: 0,
            pending: 0,
            log_bytes: 0,
            cursors: BTreeMap::new(),
            places: Places::new(config.locks, V::TICKETS_BEFORE),
            counts: Counts::new(ranks),
            handler,
            guard,
            statistics: Statistics::default(),
            repeats: reach.job().state.effort().repeats,
            races: Vec::new(),
            times: Vec::new(),
            allocations: 0,
            failure: None,
            scratch: vec![0; config.page_bytes / 4],
            variant: PhantomData,
            reach,
            config,
            memory,
        }
    }

    /// Fails if something has gone wrong for good.
    pub(crate) fn check(&self) -> Result<()> {
        self.failure.clone().map_or(Ok(()), Err)
    }

    /// Remembers what has gone wrong: pages may be stale from now on.
    pub(crate) fn fail(&mut self, error: Error) -> Error {
        self.failure.get_or_insert(error).clone()
    }

    /// What was done so far.
    pub(crate) fn statistics(&self) -> Statistics {
        let retransmitted = self.reach.job().state.effort().repeats.saturating_sub(self.repeats);
        Statistics { retransmitted, ..self.statistics }
    }

    /// Counts messages, and what they carry.
    pub(crate) fn count(&mut self, messages: u64, bytes: usize) {
        self.statistics.messages += messages;
        self.statistics.bytes += bytes as u64;
    }

    /// Writes to memory of this rank that others read.
    pub(crate) fn put_own<T: Plain>(&self, place: Place<'_, T>, data: &[T]) -> Result<()> {
        if data.is_empty() {
            return Ok(());
        }
        self.reach.put(data, place)?;
        self.reach.flush(self.me)
    }

    /// Time that handling a page takes, in virtual time.
    fn works(&self, bytes: usize) {
        self.reach.charge(Processing::Bytes(bytes));
    }

    /// A page is about to be read.
    pub(crate) fn read(&mut self, page: u32) -> Result<()> {
        if self.pages[page as usize].is_valid() {
            return Ok(());
        }
        self.statistics.read_faults += 1;
        self.faults();
        self.validate(page)?;
        self.guard.allow(page, 1, Allowed::Reading)
    }

    /// A page is about to be written.
    pub(crate) fn write(&mut self, page: u32) -> Result<()> {
        if self.pages[page as usize].is_dirty {
            return Ok(());
        }
        self.statistics.write_faults += 1;
        self.faults();
        self.validate(page)?;
        let words = self.page_words;
        self.pages[page as usize].is_dirty = true;
        self.dirty.push(page);
        if self.pages[page as usize].twin.is_none() {
            let mut twin: Box<[u32]> = vec![0; words].into();
            self.memory.copy.own().read(page as usize * words, &mut twin)?;
            self.pages[page as usize].twin = Some(twin);
            self.statistics.twins += 1;
            self.works(words * 4);
        }
        self.guard.allow(page, 1, Allowed::Writing)
    }

    fn faults(&self) {
        self.reach.charge(Processing::Fault);
    }

    /// Brings a page up to date.
    pub(crate) fn validate(&mut self, page: u32) -> Result<()> {
        let (index, words) = (page as usize, self.page_words);
        if let Some(keeper) = self.pages[index].keeper {
            let mut copy = std::mem::take(&mut self.scratch);
            let fetched = self.fetch_copy(keeper, page, &mut copy);
            let written = fetched.and_then(|()| self.memory.copy.own().write(index * words, &copy));
            self.scratch = copy;
            written?;
            self.statistics.cold_misses += 1;
            self.count(2, words * 4);
            self.pages[index].keeper = None;
        }
        if self.pages[index].pending.is_empty() {
            return Ok(());
        }
        let mut pending = std::mem::take(&mut self.pages[index].pending);
        pending.sort_unstable_by_key(|pending| (pending.order, pending.rank));
        // What comes before a diff of all words does not matter.
        let first = pending.iter().rposition(|pending| pending.notice.is_whole()).unwrap_or(0);
        if !V::ORDERS_DIFFS {
            pending[first..].reverse();
        }
        let applied = self
            .fetch_diffs(&pending[first..])
            .and_then(|diffs| self.apply(&pending[first..], &diffs));
        match applied {
            Ok(()) => self.pending -= pending.len(),
            Err(_) => self.pages[index].pending = pending,
        }
        applied
    }

    fn fetch_copy(&mut self, keeper: Rank, page: u32, into: &mut [u32]) -> Result<()> {
        let at = page as usize * self.page_words;
        if self.config.fetch == Fetch::Call {
            return self.call_for(keeper, true, at, into);
        }
        self.reach.get(self.memory.copy.at(keeper, at), into)
    }

    /// All diffs, one after the other; all of them are under way at once.
    fn fetch_diffs(&mut self, pending: &[Pending]) -> Result<Vec<u32>> {
        let lengths = pending.iter().map(|pending| pending.notice.stored_words(self.page_words));
        let mut all = vec![0; lengths.clone().sum()];
        let mut rest = &mut all[..];
        let mut parts = Vec::with_capacity(pending.len());
        for length in lengths {
            let (part, after) = rest.split_at_mut(length);
            parts.push(part);
            rest = after;
        }
        let each = pending
            .iter()
            .map(|pending| (Rank(pending.rank), pending.notice.at as usize))
            .zip(parts);
        if self.config.fetch == Fetch::Call {
            for ((rank, at), part) in each {
                self.call_for(rank, false, at, part)?;
            }
        } else {
            let diffs = &self.memory.diffs;
            self.reach.scope(|scope| {
                for ((rank, at), part) in each {
                    // The scope waits for it.
                    let _ = scope.get_nb(diffs.at(rank, at), part)?;
                }
                Ok(())
            })?;
        }
        let bytes = all.len() * 4;
        self.count(2 * pending.len() as u64, bytes);
        self.statistics.diffs_applied += pending.len() as u64;
        self.statistics.diff_bytes += bytes as u64;
        Ok(all)
    }

    fn apply(&mut self, pending: &[Pending], mut diffs: &[u32]) -> Result<()> {
        let words = self.page_words;
        self.works(diffs.len() * 4);
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

    /// Asks the agent of a rank's node for words of the rank's copy, or of its diffs.
    pub(crate) fn call_for(
        &self,
        rank: Rank,
        copy: bool,
        at: usize,
        into: &mut [u32],
    ) -> Result<()> {
        let node = self.reach.topology().node_of(rank);
        let handler =
            self.handler.ok_or_else(|| Error::Misuse("no handler serves diffs here".into()))?;
        let mut done = 0;
        let most = (self.reach.job().caps.call_bytes_max as usize / 4).max(1);
        for part in into.chunks_mut(most) {
            let segment =
                if copy { self.memory.copy.segment() } else { self.memory.diffs.segment() };
            let asked =
                [segment.0, u64::from(rank.0), (at + done) as u64 * 4, part.len() as u64 * 4];
            let reply = self.reach.call(node, handler, asked.as_bytes())?;
            let fits = reply.len() == part.len() * 4;
            if !fits {
                return Err(Error::Misuse(format!(
                    "{node} sent {} bytes instead of {}",
                    reply.len(),
                    part.len() * 4
                )));
            }
            part.as_mut_bytes().copy_from_slice(&reply);
            done += part.len();
        }
        Ok(())
    }

    /// Ends the interval: what was written since the last one can be fetched from now on.
    pub(crate) fn close(&mut self) -> Result<()> {
        if self.dirty.is_empty() {
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
            let at = (self.used + diffs.len()) as u32;
            match diff::make(twin, &self.scratch, &mut diffs) {
                Made::Nothing => {}
                Made::Runs(words) => notices.push(Notice { page, at, words: words as u32 }),
                Made::Whole => notices.push(Notice { page, at, words: 0 }),
            }
            if V::RENEWS_TWINS {
                entry.twin = None;
            }
        }
        self.works(dirty.len() * words * 4);
        allow_all(&mut *self.guard, &dirty, Allowed::Reading)?;
        check_room("diffs", (self.used + diffs.len()) * 4, self.config.storage_max as usize)?;
        self.put_own(self.memory.diffs.at(self.me, self.used), &diffs)?;
        self.used += diffs.len();
        self.statistics.diffs_made += notices.len() as u64;
        if notices.is_empty() {
            return Ok(());
        }
        self.order += 1;
        let number = self.seen.of(self.me.0) + 1;
        let seen = self.seen.iter().filter(|&(rank, _)| rank != self.me.0).collect();
        for notice in &notices {
            self.pages[notice.page as usize].last = Some((self.order, self.me.0));
        }
        let interval = Interval { rank: self.me.0, number, order: self.order, seen, notices };
        self.log(std::slice::from_ref(&interval))?;
        self.keep(interval);
        self.note_storage();
        Ok(())
    }

    /// Hears of intervals of others, and passes them on to those who come for a lock.
    pub(crate) fn learn(&mut self, mut intervals: Vec<Interval>) -> Result<()> {
        self.keep_news(&mut intervals)?;
        self.log(&intervals)?;
        self.heed(intervals)
    }

    /// The same when all ranks meet: nobody comes for what everybody is told.
    pub(crate) fn learn_with_all(&mut self, mut intervals: Vec<Interval>) -> Result<()> {
        self.keep_news(&mut intervals)?;
        self.heed(intervals)
    }

    fn heed(&mut self, intervals: Vec<Interval>) -> Result<()> {
        let mut invalid = Vec::new();
        for interval in intervals {
            self.statistics.notices += interval.notices.len() as u64;
            for &notice in interval.notices.iter().skip(usize::from(!V::HEEDS_NOTICES)) {
                let page = &mut self.pages[notice.page as usize];
                let by = (interval.order, interval.rank);
                page.pending.push(Pending { order: by.0, rank: by.1, notice });
                page.last = page.last.max(Some(by));
                invalid.push(notice.page);
                self.pending += 1;
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
    fn keep_news(&self, intervals: &mut Vec<Interval>) -> Result<()> {
        let (mut seen, mut wrong) = (self.seen.clone(), None);
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
        wrong.map_or(Ok(()), |wrong| Err(Error::Misuse(wrong)))
    }

    /// Writes intervals to where those who come for a lock read them.
    fn log(&mut self, intervals: &[Interval]) -> Result<()> {
        // Alone, nobody comes for them.
        if self.ranks == 1 || self.config.locks == 0 {
            return Ok(());
        }
        let mut writer = Writer::default();
        intervals.iter().for_each(|interval| interval.write(self.page_words, &mut writer));
        let bytes = writer.bytes();
        check_room("write notices", self.log_bytes + bytes.len(), self.memory.log_bytes)?;
        self.put_own(self.memory.log.at(self.me, self.log_bytes), bytes)?;
        self.log_bytes += bytes.len();
        Ok(())
    }

    /// Adds an interval to what is known.
    fn keep(&mut self, interval: Interval) {
        self.order = self.order.max(interval.order);
        self.seen.set(interval.rank, interval.number);
        self.known.entry(interval.rank).or_default().push(interval);
    }

    /// The intervals that somebody who knows `time` lacks, of the ranks that `of` names.
    pub(crate) fn lacking(&self, time: &Time, of: impl Fn(u32) -> bool) -> Writer {
        let mut writer = Writer::default();
        self.write_lacking(time, of, &mut writer);
        writer
    }

    pub(crate) fn write_lacking(&self, time: &Time, of: impl Fn(u32) -> bool, into: &mut Writer) {
        for (&rank, intervals) in self.known.iter().filter(|&(&rank, _)| of(rank)) {
            let knows = time.of(rank);
            for interval in intervals.iter().filter(|interval| interval.number > knows) {
                interval.write(self.page_words, into);
            }
        }
    }

    /// How many bytes of diffs and notices are kept.
    pub(crate) fn storage(&self) -> u64 {
        (self.used * 4 + self.pending * size_of::<Pending>() + self.log_bytes) as u64
    }

    fn note_storage(&mut self) {
        self.statistics.storage_peak = self.statistics.storage_peak.max(self.storage());
    }

    /// All ranks have met, and know the same.
    pub(crate) fn begin_epoch(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
        self.known.clear();
        self.seen.clear();
        self.cursors.clear();
        self.log_bytes = 0;
    }

    /// Nothing can happen any more.
    pub(crate) fn into_memory(self) -> Memory {
        self.memory
    }

    /// All notices and diffs were thrown away.
    pub(crate) fn clear_storage(&mut self) {
        self.used = 0;
        self.pending = 0;
        self.statistics.reclaims += 1;
    }
}

/// Allows the same for many pages, which are in order: neighbours together.
fn allow_all(guard: &mut dyn Guard, pages: &[u32], what: Allowed) -> Result<()> {
    for run in pages.chunk_by(|last, next| *next == last + 1) {
        guard.allow(run[0], run.len() as u32, what)?;
    }
    Ok(())
}
