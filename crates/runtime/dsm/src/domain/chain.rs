//! The chains of a page: what a domain has written since the page's twin, and the diffs of it.
//!
//! Paper:     TreadMarks, on which [BST97] builds: diffs are made when they are asked for, and a
//!            page stays writable until then.
//! Differs:   nothing is protected while a diff is made: each word is read once, compared with the
//!            twin, and the twin takes over what was read. A chain has one notice, not one for
//!            each interval. Why that loses nothing: `README.md`.
//! State:     for each page a twin, the number of the chain's notice, and the stored diffs.
//! Invariant: a word that differs from its twin will be in a diff; a chain with a notice holds no
//!            word that was written after a notice of another domain for its page was heard.
//! Ordering:  `a_chain_that_goes_on_is_caught`, `a_twin_that_is_renewed_too_early_is_caught`,
//!            `words_after_a_diff_that_are_lost_are_caught`,
//!            `a_page_that_is_closed_under_a_writer_is_caught`.
//! Cost:      opening 1 copy of the page; a notice some 10 ns; a diff 2 copies and 1 comparison,
//!            and 1 more for each interval until the page changes, 2 at most if no other rank of
//!            the domain can write it.
//! Checked:   2 ranks on 2 nodes exhaustively, 3 on 1, 2 and 3 nodes at random where they have
//!            too many schedules; `farside check dsm`.

use zerocopy::IntoBytes;

use super::table::{COMPARED, DIFF_WORDS, DIFFS_MADE, Field, ORDER, Table};
use crate::diff::{self, Made};
use crate::guard::Allowed;
use crate::steps;

/// The words ahead of a stored diff: the place of the one before plus 1, the number of its notice
/// and its order in two halves each, its length, and whether it was asked for.
pub(super) const DIFF_HEADER: usize = 7;
/// The last two of them.
const WORDS: usize = 5;
const WANTED: usize = 6;

/// A page that was asked for and has not changed for so many intervals is closed.
pub(super) const IDLE_MAX: u64 = 2;

/// A page that has changed so many times in a row, whenever it was looked at, is not looked at
/// before it is told of.
const STREAK_MIN: u64 = 3;
/// The diffs of other domains that are compared with a domain's own, for each page.
const NOTED_MAX: u64 = 16;

/// Returns the head of the one run of a diff of all words of a page.
fn whole_run(page_words: usize) -> u32 {
    ((page_words - 1) as u32) << 16
}

/// Returns the lower and the upper half of a number.
fn halves(number: u64) -> [u32; 2] {
    [number as u32, (number >> 32) as u32]
}

fn whole([low, high]: [u32; 2]) -> u64 {
    u64::from(low) | (u64::from(high) << 32)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoredDiff {
    pub(crate) number: u64,
    pub(crate) order: u64,
    /// Its first word in the domain's storage, and the number of words.
    pub(crate) at: usize,
    pub(crate) words: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoRoom {
    pub(crate) wanted_words: usize,
}

/// The pages that an interval has written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Closed {
    pub(crate) number: u32,
    pub(crate) order: u64,
    pub(crate) pages: Vec<u32>,
}

impl Table {
    /// Makes a twin of a page, unless it has one: ranks of the domain may store to it then. Returns
    /// whether it was made.
    pub(crate) fn open(&self, page: u32) -> bool {
        let is_opened = self.make_twin(page);
        if is_opened {
            self.push_unnoticed(page.into());
        }
        is_opened
    }

    /// Like [`Table::open`], for a page that may not be written after all: it gets a notice only if
    /// it changes.
    pub(crate) fn open_for_looks(&self, page: u32) -> bool {
        let is_opened = self.make_twin(page);
        if is_opened && !self.omits(steps::LOOK_AT_OPENED) {
            self.push_unnoticed(u64::from(page) | COMPARED);
        }
        is_opened
    }

    fn make_twin(&self, page: u32) -> bool {
        if self.is_open(page) {
            return false;
        }
        let words = self.page_of(page);
        self.write(&self.twins, page, 0, &words);
        self.set_field(page, Field::Open, 1);
        self.set_field(page, Field::Idle, 0);
        self.show_twin(page);
        true
    }

    /// A rank's mapping of a page, which is open, can be written from now on.
    pub(crate) fn begin_writing(&self, page: u32, mapped: Allowed) {
        if mapped != Allowed::Writing {
            self.count(page, Field::Writable);
        }
    }

    /// A rank's mapping of a page cannot be written any more. Returns whether that of no rank can.
    pub(crate) fn end_writing(&self, page: u32) -> bool {
        let others = self.field(page, Field::Writable).saturating_sub(1);
        self.set_field(page, Field::Writable, others);
        others == 0
    }

    /// Leaves a page alone that has not changed for a while, as the rank with these mappings, which
    /// is storing nothing now. It is closed when no rank of the domain can write it. Returns
    /// whether it is.
    fn retire(&self, page: u32, mapped: &mut [Allowed], less: &mut Vec<u32>) -> bool {
        let mine = &mut mapped[page as usize];
        let is_last = match *mine == Allowed::Writing {
            true => {
                *mine = Allowed::Reading;
                less.push(page);
                self.end_writing(page)
            }
            false => self.field(page, Field::Writable) == 0,
        };
        let is_closed = is_last || self.omits(steps::HEED_WRITERS);
        if is_closed {
            self.set_field(page, Field::Open, 0);
        }
        is_closed
    }

    /// Ends the interval: every open page whose words since its twin no notice tells of gets one.
    /// A page of which a diff was made before gets one only if it has changed since. `mapped` is
    /// what the mappings of this rank allow; pages that they allow less of are added to `less`.
    pub(crate) fn close(&self, mapped: &mut [Allowed], less: &mut Vec<u32>) -> Option<Closed> {
        let mut pages = Vec::new();
        for entry in self.take_unnoticed() {
            let page = (entry & !COMPARED) as u32;
            // One that has changed every time is taken to have changed again.
            let is_compared = entry & COMPARED != 0 && self.field(page, Field::Streak) < STREAK_MIN;
            if is_compared && !self.is_changed(page) {
                self.set_field(page, Field::Streak, 0);
                self.count(page, Field::Idle);
                let is_idle = self.field(page, Field::Idle) >= IDLE_MAX;
                if !is_idle || !self.retire(page, mapped, less) {
                    self.push_unnoticed(entry);
                }
                continue;
            }
            if is_compared {
                self.count(page, Field::Streak);
            }
            if self.omits(steps::RENEW_TWINS_LATE) {
                let words = self.page_of(page);
                self.write(&self.twins, page, 0, &words);
            }
            pages.push(page);
        }
        if pages.is_empty() {
            return None;
        }
        pages.sort_unstable();
        let order = self.word(ORDER) + 1;
        self.set_word(ORDER, order);
        let number = self.seen(self.domain) + 1;
        self.set_seen(self.domain, number);
        let noticed = self.before(self.domain) + u64::from(number);
        for &page in &pages {
            self.set_field(page, Field::Noticed, noticed);
            self.set_field(page, Field::LastNotice, noticed);
            self.set_field(page, Field::NoticedOrder, order);
            self.set_field(page, Field::Idle, 0);
            self.note_writer(page, order, self.domain);
            self.add_writer(page, self.domain);
        }
        Some(Closed { number, order, pages })
    }

    /// Makes and stores the diff of a chain that a notice tells of. Ranks of the domain may go on
    /// storing to the page: what they store from now on is in the next chain.
    pub(crate) fn end_chain(&self, page: u32) -> Result<(), NoRoom> {
        let number = self.field(page, Field::Noticed);
        if number == 0 {
            return Ok(());
        }
        let (twin, words) = (self.twin_of(page), self.page_of(page));
        let mut diff = Vec::with_capacity(DIFF_HEADER + 1 + words.len());
        diff.resize(DIFF_HEADER, 0);
        if diff::make(&twin, &words, &mut diff) == Made::Whole {
            diff.insert(DIFF_HEADER, whole_run(words.len()));
        }
        let order = self.field(page, Field::NoticedOrder);
        if diff.len() > DIFF_HEADER {
            self.store_diff(page, number, order, &mut diff)?;
            // What was compared, and nothing newer: a store in between differs from it.
            self.write(&self.twins, page, 0, &words);
        } else {
            self.set_field(page, Field::Streak, 0);
        }
        self.set_field(page, Field::Noticed, 0);
        if !self.omits(steps::COMPARE_AGAIN) {
            self.push_unnoticed(u64::from(page) | COMPARED);
        }
        Ok(())
    }

    fn store_diff(
        &self,
        page: u32,
        number: u64,
        order: u64,
        diff: &mut [u32],
    ) -> Result<(), NoRoom> {
        let at = self.word(DIFF_WORDS) as usize;
        let words = diff.len() - DIFF_HEADER;
        let before = self.field(page, Field::LastDiff) as u32;
        let ([low, high], [first, last]) = (halves(number), halves(order));
        let header = [before, low, high, first, last, words as u32, 0];
        diff[..DIFF_HEADER].copy_from_slice(&header);
        if !self.diffs.put(at as u64 * 4, diff.as_bytes()) {
            return Err(NoRoom { wanted_words: at + diff.len() });
        }
        self.set_field(page, Field::LastDiff, at as u64 + 1);
        self.set_word(DIFF_WORDS, (at + diff.len()) as u64);
        self.set_word(DIFFS_MADE, self.word(DIFFS_MADE) + 1);
        self.count(page, Field::DiffsMade);
        Ok(())
    }

    fn set_diff_word(&self, at: usize, value: u32) {
        let is_inside = self.diffs.put(at as u64 * 4, value.as_bytes());
        debug_assert!(is_inside, "word {at} of the diffs of a domain");
    }

    /// Returns the stored diffs of a page, the newest first: those that were fetched long ago cost
    /// nothing.
    fn newest_diffs(&self, page: u32) -> impl Iterator<Item = StoredDiff> {
        let mut next = self.field(page, Field::LastDiff);
        std::iter::from_fn(move || {
            let at = (next as usize).checked_sub(1)?;
            let mut header = [0u32; DIFF_HEADER];
            if !self.diffs.get(at as u64 * 4, header.as_mut_bytes()) {
                return None;
            }
            let [link, low, high, first, last, words, _] = header;
            next = link.into();
            let (number, order) = (whole([low, high]), whole([first, last]));
            Some(StoredDiff { number, order, at: at + DIFF_HEADER, words: words as usize })
        })
    }

    /// Returns the stored diffs of a page whose notices have numbers after `after`, up to `upto`.
    pub(crate) fn stored(&self, page: u32, after: u64, upto: u64) -> Vec<StoredDiff> {
        let newer = self.newest_diffs(page).take_while(|diff| diff.number > after);
        let mut found: Vec<StoredDiff> = newer.filter(|diff| diff.number <= upto).collect();
        found.reverse();
        found
    }

    /// Returns whether a stored diff has all words of its page. Its length does not say: two runs
    /// of all words but one are as long.
    pub(super) fn is_whole(&self, diff: &StoredDiff) -> bool {
        if diff.words <= self.extents.page_words || self.omits(steps::TELL_WHOLE) {
            return diff.words > self.extents.page_words;
        }
        let mut head = 0u32;
        let is_inside = self.diffs.get(diff.at as u64 * 4, head.as_mut_bytes());
        is_inside && head == whole_run(self.extents.page_words)
    }

    /// Returns the number of the last stored diff of a page up to `upto`, or 0.
    pub(super) fn last_diff(&self, page: u32, upto: u64) -> u64 {
        let found = self.newest_diffs(page).find(|diff| diff.number <= upto);
        found.map_or(0, |diff| diff.number)
    }

    /// Notes whether words of another domain that are merged into a page are words that this one
    /// has written, too. A few times for each page are enough.
    pub(crate) fn note_words(&self, page: u32, theirs: &[u32]) {
        let noted = self.field(page, Field::SameWords) + self.field(page, Field::OtherWords);
        let last = self.field(page, Field::LastDiff) as usize;
        if self.field(page, Field::Moves) == 0 || last == 0 || noted >= NOTED_MAX {
            return;
        }
        let mut header = [0u32; DIFF_HEADER];
        if !self.diffs.get((last as u64 - 1) * 4, header.as_mut_bytes()) {
            return;
        }
        let mut ours = vec![0u32; header[WORDS] as usize];
        if !self.diffs.get((last - 1 + DIFF_HEADER) as u64 * 4, ours.as_mut_bytes()) {
            return;
        }
        let spans = |diff| diff::spans(diff, self.extents.page_words).collect::<Vec<_>>();
        match diff::first_in_both(&spans(&ours), &spans(theirs)) {
            Some(_) => self.count(page, Field::SameWords),
            None => self.count(page, Field::OtherWords),
        }
    }

    pub(crate) fn note_wanted(&self, page: u32, diff: &StoredDiff) {
        let at = diff.at - DIFF_HEADER + WANTED;
        let mut is_known = 0u32;
        if self.diffs.get(at as u64 * 4, is_known.as_mut_bytes()) && is_known == 0 {
            self.set_diff_word(at, 1);
            self.count(page, Field::DiffsWanted);
        }
    }

    /// Merges words of another domain into a page, which ranks of this one may be storing to. The
    /// twin takes them, too: they are not this domain's.
    pub(crate) fn merge(&self, page: u32, diff: &[u32]) {
        let has_twin = self.is_open(page) && !self.omits(steps::MERGE_INTO_TWINS);
        for (start, run) in diff::runs(diff, self.extents.page_words) {
            self.write(&self.copy, page, start, run);
            if has_twin {
                self.write(&self.twins, page, start, run);
            }
        }
    }

    /// Closes the pages that have not changed for `idle_max` barriers, at a barrier of all ranks:
    /// no rank of the domain can store to them before it has heard of it.
    pub(crate) fn close_idle(&self, idle_max: u64, changes: usize) {
        for entry in self.take_unnoticed() {
            let page = (entry & !COMPARED) as u32;
            if entry & COMPARED == 0 || self.field(page, Field::Idle) < idle_max {
                self.push_unnoticed(entry);
                continue;
            }
            self.set_field(page, Field::Open, 0);
            if !self.omits(steps::TELL_OF_CLOSED) {
                self.push_change(changes, page);
            }
        }
    }

    /// Throws away all diffs and notices, at a barrier of all ranks. A page that is not up to date
    /// comes from its last writer, and loses its twin. One that is stays open, with a new twin: it
    /// may well be written again, and opening it costs more.
    pub(crate) fn reclaim(&self, changes: usize) {
        let unnoticed = self.take_unnoticed().into_iter().map(|entry| (entry & !COMPARED) as u32);
        // Pages that were opened, and of which nothing was told.
        let untold: Vec<u32> =
            unnoticed.filter(|&page| self.field(page, Field::Writer) == 0).collect();
        for page in 0..self.extents.pages as u32 {
            let writer = self.field(page, Field::Writer);
            if writer == 0 {
                continue;
            }
            let is_kept = self.is_valid(page) && self.is_open(page);
            if is_kept {
                let words = self.page_of(page);
                self.write(&self.twins, page, 0, &words);
                self.set_field(page, Field::Idle, 0);
                self.push_unnoticed(u64::from(page) | COMPARED);
                self.show_twin(page);
            } else {
                self.set_field(page, Field::Open, 0);
                self.push_change(changes, page);
            }
            if !self.is_valid(page) {
                self.set_field(page, Field::CopyAt, writer);
            }
            for domain in 0..self.extents.domains as u32 {
                let source = self.source(page, domain);
                let applied = super::table::Source { applied: source.wanted, ..source };
                self.set_source(page, domain, applied);
            }
            for field in [Field::Noticed, Field::LastDiff, Field::WriterOrder, Field::Writer] {
                self.set_field(page, field, 0);
            }
        }
        for page in untold {
            self.set_field(page, Field::Open, 0);
            self.push_change(changes, page);
        }
        self.set_word(DIFF_WORDS, 0);
    }
}
