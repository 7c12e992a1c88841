//! Intervals and write notices: the pages that a rank wrote between two synchronizations, and the
//! places of their diffs.

use farside_fabric::{Error, Result};

use crate::message::{Reader, Writer};
use crate::time::Time;

/// The writes of one rank between two of its synchronizations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Interval {
    pub(crate) rank: u32,
    /// The number of the interval among the rank's, from 1 on, since the last barrier of all ranks.
    pub(crate) number: u32,
    /// Larger than that of every interval that happened before.
    pub(crate) order: u64,
    /// The intervals of other ranks that the rank knew.
    pub(crate) seen: Time,
    pub(crate) notices: Vec<Notice>,
    /// The accesses that the search for races needs, if they were noted.
    pub(crate) accesses: Option<StoredAccesses>,
}

/// The place of an interval's accesses in its rank's storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoredAccesses {
    pub(crate) at: u32,
    pub(crate) words: u32,
}

/// The form of written intervals, which is the same on all ranks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IntervalForm {
    pub(crate) page_words: usize,
    /// Whether they say where their accesses are.
    pub(crate) has_accesses: bool,
}

/// A page was written, and here is what changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Notice {
    pub(crate) page: u32,
    /// The first word of the diff in the writer's storage.
    pub(crate) at: u32,
    /// The number of words of the diff; zero if it is the page itself, all words of which have
    /// changed.
    pub(crate) words: u32,
}

impl Notice {
    pub(crate) fn stored_words(&self, page_words: usize) -> usize {
        if self.is_whole() { page_words } else { self.words as usize }
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.words == 0
    }
}

impl Interval {
    /// Returns whether this one happened before another, between the same two barriers of all
    /// ranks.
    pub(crate) fn is_before(&self, other: &Interval) -> bool {
        match self.rank == other.rank {
            true => self.number < other.number,
            false => other.seen.of(self.rank) >= self.number,
        }
    }

    /// Writes it down. Neighbouring pages with neighbouring diffs share all but their lengths.
    pub(crate) fn write(&self, form: IntervalForm, into: &mut Writer) {
        let IntervalForm { page_words, has_accesses } = form;
        into.number(self.rank);
        into.number(self.number);
        into.wide(self.order);
        into.time(&self.seen);
        let follows = |last: &Notice, next: &Notice| {
            next.page == last.page + 1
                && next.at as usize == last.at as usize + last.stored_words(page_words)
        };
        let runs: Vec<&[Notice]> = self.notices.chunk_by(follows).collect();
        into.number(runs.len() as u32);
        for run in runs {
            into.number(run[0].page);
            into.number(run[0].at);
            into.number(run.len() as u32);
            run.iter().for_each(|notice| into.number(notice.words));
        }
        if has_accesses {
            let StoredAccesses { at, words } =
                self.accesses.unwrap_or(StoredAccesses { at: 0, words: 0 });
            into.number(words);
            into.number(at);
        }
    }

    /// Writes it down for domains, whose diffs are asked for: runs of pages.
    pub(crate) fn write_pages(&self, into: &mut Writer) {
        into.number(self.rank);
        into.number(self.number);
        into.wide(self.order);
        let follows = |last: &Notice, next: &Notice| next.page == last.page + 1;
        let runs: Vec<&[Notice]> = self.notices.chunk_by(follows).collect();
        into.number(runs.len() as u32);
        for run in runs {
            into.number(run[0].page);
            into.number(run.len() as u32);
        }
    }

    /// Reads what [`Interval::write_pages`] wrote, of a memory of so many pages.
    pub(crate) fn read_pages(pages: usize, from: &mut Reader<'_>) -> Result<Interval> {
        let (rank, number, order) = (from.number()?, from.number()?, from.wide()?);
        let mut notices = Vec::new();
        for _ in 0..from.number()? {
            let (page, length) = (from.number()?, from.number()?);
            let end = page.saturating_add(length);
            if end as usize > pages {
                return Err(Error::Internal(format!(
                    "pages {page} to {end} were written, and there are {pages}"
                )));
            }
            notices.extend((page..end).map(|page| Notice { page, at: 0, words: 0 }));
        }
        Ok(Interval { rank, number, order, seen: Time::default(), notices, accesses: None })
    }

    pub(crate) fn read(form: IntervalForm, from: &mut Reader<'_>) -> Result<Interval> {
        let IntervalForm { page_words, has_accesses } = form;
        let (rank, number, order) = (from.number()?, from.number()?, from.wide()?);
        let seen = from.time()?;
        let mut notices = Vec::new();
        for _ in 0..from.number()? {
            let (mut page, mut at) = (from.number()?, from.number()?);
            for _ in 0..from.number()? {
                let notice = Notice { page, at, words: from.number()? };
                at = at.wrapping_add(notice.stored_words(page_words) as u32);
                page = page.wrapping_add(1);
                notices.push(notice);
            }
        }
        let accesses = match has_accesses {
            true => Some(StoredAccesses { words: from.number()?, at: from.number()? }),
            false => None,
        };
        let accesses = accesses.filter(|accesses| accesses.words > 0);
        Ok(Interval { rank, number, order, seen, notices, accesses })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval() -> Interval {
        let notice = |page, at, words| Notice { page, at, words };
        let notices = vec![
            notice(3, 100, 7),
            notice(4, 107, 0),
            notice(5, 107 + 64, 2),
            notice(9, 1000, 300),
        ];
        let seen = [(1, 1)].into_iter().collect();
        Interval { rank: 4, number: 2, order: 17, seen, notices, accesses: None }
    }

    #[test]
    fn an_interval_survives_its_message() {
        let mut writer = Writer::default();
        let form = IntervalForm { page_words: 64, has_accesses: false };
        interval().write(form, &mut writer);
        assert_eq!(Interval::read(form, &mut Reader::new(writer.bytes())), Ok(interval()));
        assert!(writer.bytes().len() < 25, "{} bytes", writer.bytes().len());
        let form = IntervalForm { has_accesses: true, ..form };
        for accesses in [None, Some(StoredAccesses { at: 1000, words: 3 })] {
            let (mut writer, interval) = (Writer::default(), Interval { accesses, ..interval() });
            interval.write(form, &mut writer);
            assert_eq!(Interval::read(form, &mut Reader::new(writer.bytes())), Ok(interval));
        }
    }

    #[test]
    fn an_interval_of_a_domain_survives_its_message() {
        let mut writer = Writer::default();
        interval().write_pages(&mut writer);
        let read = Interval::read_pages(10, &mut Reader::new(writer.bytes())).unwrap();
        let pages = |interval: &Interval| -> Vec<u32> {
            interval.notices.iter().map(|notice| notice.page).collect()
        };
        assert_eq!(pages(&read), pages(&interval()));
        assert_eq!((read.rank, read.number, read.order), (4, 2, 17));
        assert!(Interval::read_pages(9, &mut Reader::new(writer.bytes())).is_err());
    }

    #[test]
    fn who_has_seen_an_interval_comes_after_it() {
        let of = |rank, number, seen: &[(u32, u32)]| Interval {
            rank,
            number,
            seen: seen.iter().copied().collect(),
            ..interval()
        };
        assert!(of(1, 1, &[]).is_before(&of(1, 2, &[])));
        assert!(of(1, 1, &[]).is_before(&of(2, 1, &[(1, 1)])));
        let (one, other) = (of(1, 2, &[]), of(2, 1, &[(1, 1)]));
        assert!(!one.is_before(&other) && !other.is_before(&one));
    }
}
