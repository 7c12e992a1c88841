//! The shared state of a coherence domain: words, pages and twins that its ranks, and the agent of
//! its node, reach by loads and stores.
//!
//! All of it is in windows of the domain's first rank, its *home*. It is changed by the one that
//! has the lock, which is held for a few microseconds and never across an operation on another
//! domain.

use std::ops::Deref;
use std::sync::Arc;

use farside_fabric::memory::full_fence;
use farside_fabric::{Atomic, Mapped, Rank, Step, Width};
use farside_rma::Context;
use zerocopy::IntoBytes;

use crate::steps;

/// The words of a domain, ahead of its lists.
const LOCK: usize = 0;
/// Counts sections where accesses are marked for the explorer.
pub(crate) const SECTIONS: usize = 1;
/// The number of words of stored diffs.
pub(crate) const DIFF_WORDS: usize = 2;
/// The number of bytes of the log of intervals.
pub(crate) const LOG_BYTES: usize = 3;
/// The highest order of an interval that the domain knows.
pub(crate) const ORDER: usize = 4;
/// The length of the list of open pages without a notice.
pub(crate) const UNNOTICED: usize = 5;
/// The lengths of the two lists of changes, which epochs use in turn.
pub(crate) const CHANGES: usize = 6;
pub(crate) const DIFFS_MADE: usize = 8;
/// The length of the list of pages that were touched and had to be brought up to date.
const TOUCHED: usize = 9;
/// The rank that could not go on, plus 1, and in the upper half why: what the domain tells others
/// is not to be relied on.
const BROKEN: usize = 10;
const HEADER_WORDS: usize = 16;

/// Marks a page of the list of open pages that gets a notice only if it differs from its twin.
pub(crate) const COMPARED: u64 = 1 << 63;

/// The words of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field {
    /// 1 if the page has a twin: ranks of the domain may be storing to it.
    Open,
    /// The number of the interval whose notice tells of the words since the twin; 0 if none does.
    Noticed,
    /// The order of that interval.
    NoticedOrder,
    /// The place of the last stored diff, plus 1.
    LastDiff,
    /// The number of domains that have written it and whose diffs were not applied.
    Pending,
    /// The domain that has a copy, plus 1, if this one has none.
    CopyAt,
    /// The rank that brings it up to date at this moment, plus 1.
    Fetcher,
    /// The order and the domain, plus 1, of the last interval that wrote it.
    WriterOrder,
    Writer,
    /// The number of barriers at which it was compared and had not changed.
    Idle,
    /// The domains that have written it, one bit for each; the last bit for all from 63 on.
    Writers,
    /// The number of notices of other domains that came while this one was writing it.
    Moves,
    /// The number of diffs that were made of it, and of those that another domain has asked for.
    DiffsMade,
    DiffsWanted,
    /// The number of ranks of the domain whose mapping of it can be written.
    Writable,
    /// Of `Moves`, those that came with a lock.
    LockMoves,
    /// Of the diffs of other domains that came while this one was writing it, the number of those
    /// that have words in common with this one's last diff, and of those that have none.
    SameWords,
    OtherWords,
    LastNotice,
    /// The number of times in a row that it was compared with its twin and had changed.
    Streak,
    /// The domains that get its diffs before they ask, one bit for each.
    Subscribers,
    /// The number of times that its diffs were pushed since one of them wanted that.
    Pushes,
    IsTouched,
    /// Whether other domains may fetch the whole page from here: [`KEPT`] or [`TWINNED`], or 0.
    Kept,
}

const PAGE_FIELDS: usize = 24;

/// They may, and take the page: its words stay, or will be in diffs.
pub(crate) const KEPT: u64 = 1;
/// They may, and take the twin: words of the page may change back, and be in no diff.
pub(crate) const TWINNED: u64 = 2;

const COMPARED_BYTES: usize = 256;

/// The numbers of a domain's notices for a page: the last one known here, and the last one whose
/// diff was applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) wanted: u64,
    pub(crate) applied: u64,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Extents {
    pub(crate) pages: usize,
    pub(crate) page_words: usize,
    pub(crate) domains: usize,
}

impl Extents {
    fn seen(&self) -> usize {
        HEADER_WORDS
    }

    fn before(&self) -> usize {
        self.seen() + self.domains
    }

    fn unnoticed(&self) -> usize {
        self.before() + self.domains
    }

    fn changes(&self, which: usize) -> usize {
        self.unnoticed() + (1 + which) * self.pages
    }

    fn touched(&self) -> usize {
        self.changes(2)
    }

    fn page(&self, page: u32) -> usize {
        self.touched() + self.pages + page as usize * PAGE_FIELDS
    }

    pub(crate) fn field(&self, page: u32, field: Field) -> usize {
        self.page(page) + field as usize
    }

    fn source(&self, page: u32, domain: u32) -> usize {
        self.page(self.pages as u32) + 2 * (page as usize * self.domains + domain as usize)
    }

    /// Returns the number of words that the state takes, without pages, twins, diffs and the log.
    pub(crate) fn words(&self) -> usize {
        self.page(self.pages as u32) + self.pages * 2 * self.domains
    }
}

/// The steps that are asked for when a table is made: the agent of a node has no context.
const ASKED: [Step; 8] = [
    steps::RENEW_TWINS_LATE,
    steps::COMPARE_AGAIN,
    steps::MERGE_INTO_TWINS,
    steps::TELL_OF_CLOSED,
    steps::HEED_WRITERS,
    steps::HEED_GAPS,
    steps::TELL_WHOLE,
    steps::LOOK_AT_OPENED,
];

/// Returns which of them are left out, one bit for each.
pub(super) fn omitted(context: &Context) -> u8 {
    (0..).zip(ASKED).map(|(at, step)| u8::from(context.omits(step)) << at).sum()
}

/// The memory of a domain, as one process reaches it.
pub(crate) struct Table {
    pub(crate) extents: Extents,
    pub(crate) domain: u32,
    /// The rank that has mapped it.
    pub(crate) rank: Rank,
    /// The steps that are left out, as [`omitted`] has them.
    pub(super) omitted: u8,
    pub(crate) words: Mapped,
    pub(crate) copy: Mapped,
    pub(crate) twins: Mapped,
    pub(crate) diffs: Mapped,
    pub(crate) log: Mapped,
}

/// Holds the lock of a domain until dropped. A panic meanwhile breaks the domain.
pub(crate) struct Section {
    table: Arc<Table>,
    is_unwinding: bool,
}

impl Deref for Section {
    type Target = Table;

    fn deref(&self) -> &Table {
        &self.table
    }
}

impl Drop for Section {
    fn drop(&mut self) {
        if !self.is_unwinding && std::thread::panicking() {
            self.break_domain(0);
        }
        let held = self.words.atomic(LOCK as u64 * 8, Width::W64, Atomic::Store(0));
        debug_assert_eq!(held, Some(1), "the lock of a domain");
    }
}

impl Table {
    pub(crate) fn try_lock(self: &Arc<Table>) -> Option<Section> {
        let take = Atomic::CompareSwap { expected: 0, desired: 1 };
        let held = self.words.atomic(LOCK as u64 * 8, Width::W64, take);
        let is_unwinding = std::thread::panicking();
        (held == Some(0)).then(|| Section { table: self.clone(), is_unwinding })
    }

    /// Returns the rank that could not go on, if there is one, and why, as `Local::heard` takes it.
    pub(crate) fn broken(&self) -> Option<(Rank, u32)> {
        let broken = self.word(BROKEN);
        let rank = (broken as u32).checked_sub(1)?;
        Some((Rank(rank), (broken >> 32) as u32))
    }

    /// Notes, in a section, that this rank could not go on.
    pub(crate) fn break_domain(&self, reason: u32) {
        self.set_word(BROKEN, (u64::from(reason) << 32) | (u64::from(self.rank.0) + 1));
    }

    /// A page has a twin from now on, of which ranks of the domain may make the page differ. What
    /// other domains fetch whole is the twin: all that it lacks will be in diffs that they hear of.
    pub(crate) fn show_twin(&self, page: u32) {
        if self.field(page, Field::Kept) == KEPT {
            // Others see the twin before they see this, and this before the stores that follow.
            full_fence();
            self.set_field(page, Field::Kept, TWINNED);
            full_fence();
        }
    }

    #[inline]
    pub(super) fn omits(&self, step: Step) -> bool {
        let mut asked = (0..).zip(ASKED);
        self.omitted != 0 && asked.any(|(at, asked)| asked == step && self.omitted >> at & 1 == 1)
    }

    pub(crate) fn word(&self, at: usize) -> u64 {
        let mut bytes = [0; 8];
        let is_inside = self.words.get(at as u64 * 8, &mut bytes);
        debug_assert!(is_inside, "word {at} of a domain");
        u64::from_le_bytes(bytes)
    }

    pub(crate) fn set_word(&self, at: usize, value: u64) {
        let is_inside = self.words.put(at as u64 * 8, &value.to_le_bytes());
        debug_assert!(is_inside, "word {at} of a domain");
    }

    pub(crate) fn field(&self, page: u32, field: Field) -> u64 {
        self.word(self.extents.field(page, field))
    }

    pub(crate) fn set_field(&self, page: u32, field: Field, value: u64) {
        self.set_word(self.extents.field(page, field), value);
    }

    pub(crate) fn count(&self, page: u32, field: Field) {
        self.set_field(page, field, self.field(page, field) + 1);
    }

    pub(crate) fn is_open(&self, page: u32) -> bool {
        self.field(page, Field::Open) != 0
    }

    /// Returns whether the copy lacks nothing that the domain knows of.
    pub(crate) fn is_valid(&self, page: u32) -> bool {
        self.field(page, Field::Pending) == 0 && self.field(page, Field::CopyAt) == 0
    }

    pub(crate) fn source(&self, page: u32, domain: u32) -> Source {
        let at = self.extents.source(page, domain);
        Source { wanted: self.word(at), applied: self.word(at + 1) }
    }

    /// Sets the numbers of a domain's notices for a page, and counts whether it is pending.
    pub(crate) fn set_source(&self, page: u32, domain: u32, source: Source) {
        let was = self.source(page, domain);
        let at = self.extents.source(page, domain);
        self.set_word(at, source.wanted);
        self.set_word(at + 1, source.applied);
        let pending = self.field(page, Field::Pending);
        let pending = pending + u64::from(source.wanted > source.applied)
            - u64::from(was.wanted > was.applied);
        self.set_field(page, Field::Pending, pending);
    }

    /// Returns the number of a domain's intervals that this one knows, since the last barrier of
    /// all ranks.
    pub(crate) fn seen(&self, domain: u32) -> u32 {
        self.word(self.extents.seen() + domain as usize) as u32
    }

    pub(crate) fn set_seen(&self, domain: u32, number: u32) {
        self.set_word(self.extents.seen() + domain as usize, number.into());
    }

    /// Returns the number of a domain's intervals before the last barrier of all ranks.
    pub(crate) fn before(&self, domain: u32) -> u64 {
        self.word(self.extents.before() + domain as usize)
    }

    /// All domains know the same: intervals are counted from here on.
    pub(crate) fn begin_epoch(&self, changes: usize) {
        for domain in 0..self.extents.domains as u32 {
            let before = self.before(domain) + u64::from(self.seen(domain));
            self.set_word(self.extents.before() + domain as usize, before);
            self.set_seen(domain, 0);
        }
        self.set_word(LOG_BYTES, 0);
        self.set_word(CHANGES + changes, 0);
    }

    pub(crate) fn push_unnoticed(&self, entry: u64) {
        let length = self.word(UNNOTICED) as usize;
        self.set_word(self.extents.unnoticed() + length, entry);
        self.set_word(UNNOTICED, length as u64 + 1);
    }

    pub(crate) fn take_unnoticed(&self) -> Vec<u64> {
        let length = self.word(UNNOTICED) as usize;
        self.set_word(UNNOTICED, 0);
        (0..length).map(|at| self.word(self.extents.unnoticed() + at)).collect()
    }

    /// Tells the ranks of the domain that a page allows less than before. A list that is full says
    /// so by its length.
    pub(crate) fn push_change(&self, changes: usize, page: u32) {
        let length = self.word(CHANGES + changes) as usize;
        if length < self.extents.pages {
            self.set_word(self.extents.changes(changes) + length, page.into());
        }
        self.set_word(CHANGES + changes, length as u64 + 1);
    }

    /// Returns the pages of a list of changes from `cursor` on, all pages if it has run over, and
    /// the new cursor.
    pub(crate) fn changes(&self, changes: usize, cursor: usize) -> (Vec<u32>, usize) {
        let length = self.word(CHANGES + changes) as usize;
        if length > self.extents.pages && cursor < length {
            return ((0..self.extents.pages as u32).collect(), length);
        }
        let start = self.extents.changes(changes);
        ((cursor..length).map(|at| self.word(start + at) as u32).collect(), length)
    }

    /// Notes that a rank of the domain has touched a page that had to be brought up to date.
    pub(crate) fn note_touched(&self, page: u32) {
        if self.field(page, Field::IsTouched) == 0 {
            let length = self.word(TOUCHED) as usize;
            self.set_word(self.extents.touched() + length, page.into());
            self.set_word(TOUCHED, length as u64 + 1);
            self.set_field(page, Field::IsTouched, 1);
        }
    }

    /// Returns the pages that were touched since the last barrier of all ranks, and had to be
    /// brought up to date.
    pub(crate) fn touched(&self) -> Vec<u32> {
        let start = self.extents.touched();
        (0..self.word(TOUCHED) as usize).map(|at| self.word(start + at) as u32).collect()
    }

    pub(crate) fn forget_touched(&self) {
        self.touched().into_iter().for_each(|page| self.set_field(page, Field::IsTouched, 0));
        self.set_word(TOUCHED, 0);
    }

    pub(crate) fn last_notice(&self, page: u32) -> u64 {
        self.field(page, Field::LastNotice)
    }

    /// Notes an interval that wrote a page, if it is the last one so far.
    pub(crate) fn note_writer(&self, page: u32, order: u64, domain: u32) {
        let by = (order, u64::from(domain) + 1);
        if by > (self.field(page, Field::WriterOrder), self.field(page, Field::Writer)) {
            self.set_field(page, Field::WriterOrder, by.0);
            self.set_field(page, Field::Writer, by.1);
        }
    }

    pub(crate) fn add_writer(&self, page: u32, domain: u32) {
        let writers = self.field(page, Field::Writers);
        self.set_field(page, Field::Writers, writers | 1 << domain.min(63));
    }

    fn page_offset(&self, page: u32) -> u64 {
        page as u64 * self.extents.page_words as u64 * 4
    }

    /// Copies a page, or its twin, out.
    pub(crate) fn read(&self, from: &Mapped, page: u32, into: &mut [u32]) {
        let is_inside = from.get(self.page_offset(page), into.as_mut_bytes());
        debug_assert!(is_inside, "page {page} of a domain");
    }

    /// Writes words of a page, or of its twin.
    pub(crate) fn write(&self, to: &Mapped, page: u32, start: usize, words: &[u32]) {
        let is_inside = to.put(self.page_offset(page) + start as u64 * 4, words.as_bytes());
        debug_assert!(is_inside, "page {page} of a domain");
    }

    /// Returns whether a page differs from its twin.
    pub(crate) fn is_changed(&self, page: u32) -> bool {
        let (mut own, mut twin) = ([0; COMPARED_BYTES], [0; COMPARED_BYTES]);
        let (begin, bytes) = (self.page_offset(page), self.extents.page_words * 4);
        (0..bytes).step_by(COMPARED_BYTES).any(|at| {
            let length = COMPARED_BYTES.min(bytes - at);
            let (own, twin) = (&mut own[..length], &mut twin[..length]);
            let is_inside =
                self.copy.get(begin + at as u64, own) && self.twins.get(begin + at as u64, twin);
            debug_assert!(is_inside, "page {page} of a domain");
            own != twin
        })
    }

    pub(crate) fn page_of(&self, page: u32) -> Vec<u32> {
        let mut words = vec![0; self.extents.page_words];
        self.read(&self.copy, page, &mut words);
        words
    }

    pub(crate) fn twin_of(&self, page: u32) -> Vec<u32> {
        let mut words = vec![0; self.extents.page_words];
        self.read(&self.twins, page, &mut words);
        words
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::ptr::NonNull;

    use super::*;

    fn mapped(bytes: usize) -> Mapped {
        let base = NonNull::from(vec![0u128; bytes / 16].leak()).cast();
        // SAFETY: the memory lives on, and nothing else reaches it.
        unsafe { Mapped::new(base, bytes as u64, Arc::new(())) }
    }

    fn table() -> Arc<Table> {
        let extents = Extents { pages: 2, page_words: 4, domains: 1 };
        let [copy, twins, diffs, log] = [32, 32, 64, 64].map(mapped);
        let words = mapped((extents.words() * 8).next_multiple_of(16));
        let (domain, rank, omitted) = (0, Rank(3), 0);
        Arc::new(Table { extents, domain, rank, omitted, words, copy, twins, diffs, log })
    }

    #[test]
    fn a_panic_in_a_section_breaks_the_domain_and_frees_its_lock() {
        let table = table();
        let panics = AssertUnwindSafe(|| {
            let _section = table.try_lock().unwrap();
            panic!("is caught");
        });
        assert!(catch_unwind(panics).is_err());
        assert!(table.try_lock().is_some());
        assert_eq!(table.broken(), Some((Rank(3), 0)));
    }

    /// Guards end sections when the program panics.
    #[test]
    fn a_section_after_a_panic_breaks_nothing() {
        struct Guard(Arc<Table>);
        impl Drop for Guard {
            fn drop(&mut self) {
                drop(self.0.try_lock().unwrap());
            }
        }
        let guard = Guard(table());
        let table = guard.0.clone();
        let panics = AssertUnwindSafe(|| {
            let _guard = guard;
            panic!("is caught");
        });
        assert!(catch_unwind(panics).is_err());
        assert_eq!(table.broken(), None);
    }
}
