//! The order in which a rank's accesses brought pages up to date: what was touched after a page
//! last time is fetched together with it the next time.

use crate::statistics::Statistics;

/// The most pages that are fetched ahead of their first access.
const AHEAD_MAX: usize = 32;
/// The pages that are fetched ahead at first.
const AHEAD_FIRST: usize = 4;

/// The neighbours of a page that are fetched with it the first time.
const NEIGHBOURS: usize = 3;

/// What a rank has learned of its accesses.
pub(super) struct Pattern {
    /// The page that was touched after each, plus 1.
    next: Vec<u32>,
    /// The last page that was touched and had to be brought up to date, or had been.
    last: Option<u32>,
    /// The pages that were touched before.
    is_known: Vec<bool>,
    /// The pages that were fetched ahead and not touched yet.
    is_ahead: Vec<bool>,
    /// The number of pages to fetch ahead: grows when they are used, and shrinks when they are not.
    depth: usize,
}

impl Pattern {
    pub(super) fn new(pages: usize) -> Pattern {
        Pattern {
            next: vec![0; pages],
            last: None,
            is_known: vec![false; pages],
            is_ahead: vec![false; pages],
            depth: AHEAD_FIRST,
        }
    }

    /// Returns the pages that followed `page` when it was touched before; its neighbours if it was
    /// not.
    pub(super) fn ahead_of(&self, page: u32) -> Vec<u32> {
        if !self.is_known[page as usize] {
            let end = (page as usize + 1 + NEIGHBOURS).min(self.next.len());
            return (page + 1..end as u32).collect();
        }
        let mut ahead: Vec<u32> = Vec::new();
        let mut at = page;
        while ahead.len() < self.depth {
            match self.next[at as usize].checked_sub(1) {
                Some(next) if next != page && !ahead.contains(&next) => at = next,
                _ => break,
            }
            ahead.push(at);
        }
        ahead
    }

    /// Notes that pages were brought up to date, of which the first was touched.
    pub(super) fn note(&mut self, pages: &[u32], statistics: &mut Statistics) {
        let Some((&first, ahead)) = pages.split_first() else { return };
        self.follow(first);
        ahead.iter().for_each(|&page| self.is_ahead[page as usize] = true);
        statistics.prefetched += ahead.len() as u64;
    }

    /// Notes that a page is touched, and returns whether it had been fetched ahead.
    pub(super) fn touch(&mut self, page: u32, statistics: &mut Statistics) -> bool {
        let is_ahead = std::mem::take(&mut self.is_ahead[page as usize]);
        if is_ahead {
            self.follow(page);
            statistics.prefetches_used += 1;
            self.depth = (self.depth + 1).min(AHEAD_MAX);
        }
        is_ahead
    }

    fn follow(&mut self, page: u32) {
        if let Some(last) = self.last.filter(|&last| last != page) {
            self.next[last as usize] = page + 1;
        }
        self.is_known[page as usize] = true;
        self.last = Some(page);
    }

    /// Notes that a page has become invalid.
    pub(super) fn lose(&mut self, page: u32, statistics: &mut Statistics) {
        if std::mem::take(&mut self.is_ahead[page as usize]) {
            statistics.prefetches_wasted += 1;
            self.depth = (self.depth / 2).max(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_touched_in_a_row_is_fetched_together() {
        let (mut pattern, mut done) = (Pattern::new(10), Statistics::default());
        assert_eq!(pattern.ahead_of(1), [2, 3, 4]);
        assert_eq!(pattern.ahead_of(8), [9]);
        for page in [1, 5, 9, 2] {
            pattern.note(&[page], &mut done);
        }
        assert_eq!(pattern.ahead_of(1), [5, 9, 2]);
        pattern.note(&[1, 5, 9, 2], &mut done);
        assert_eq!(done.prefetched, 3);
        pattern.touch(5, &mut done);
        pattern.lose(9, &mut done);
        pattern.lose(9, &mut done);
        assert_eq!((done.prefetches_used, done.prefetches_wasted), (1, 1));
        // Another one came instead.
        pattern.note(&[7], &mut done);
        assert_eq!(pattern.ahead_of(1), [5, 7]);
    }
}
