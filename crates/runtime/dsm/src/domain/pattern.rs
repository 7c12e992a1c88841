//! The order in which a rank's accesses brought pages up to date: what was touched after a page
//! last time is fetched together with it the next time.

use crate::statistics::Statistics;

/// The most pages that are fetched ahead of their first access.
pub(super) const AHEAD_MAX: usize = 63;
const AHEAD_FIRST: usize = 4;

/// The neighbours of a page that are fetched with it the first time.
const NEIGHBOURS: usize = 3;

/// Pages that are likely to be touched after another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ahead {
    pub(super) pages: Vec<u32>,
    pub(super) is_likely: bool,
}

/// What a rank has learned of its accesses.
pub(super) struct Pattern {
    /// The page that was touched after each, plus 1.
    next: Vec<u32>,
    /// The last page that was touched and had to be brought up to date, or had been, and the one
    /// before.
    last: Option<u32>,
    before: Option<u32>,
    /// The pages that were touched before.
    is_known: Vec<bool>,
    /// For each page that was fetched ahead and not touched yet the number of pages that it stands
    /// for: itself, and those that were mapped and will not tell whether they are touched.
    ahead: Vec<u32>,
    /// The number of pages to fetch ahead: grows when they are used, and shrinks when they are not.
    depth: usize,
}

impl Pattern {
    pub(super) fn new(pages: usize) -> Pattern {
        Pattern {
            next: vec![0; pages],
            last: None,
            before: None,
            is_known: vec![false; pages],
            ahead: vec![0; pages],
            depth: AHEAD_FIRST,
        }
    }

    /// Returns whether a page was touched before, when it had to be brought up to date.
    pub(super) fn is_known(&self, page: u32) -> bool {
        self.is_known[page as usize]
    }

    /// Returns the pages that followed `page` when it was touched before. If it was not, those that
    /// follow at the distance that the last ones had, or its neighbours.
    pub(super) fn ahead_of(&self, page: u32) -> Ahead {
        if !self.is_known[page as usize] {
            let stride = self.stride(page);
            let (distance, count) = match stride {
                Some(stride) => (stride, self.depth),
                None => (1, NEIGHBOURS),
            };
            let at = |step: usize| i64::from(page) + step as i64 * distance;
            let pages = (1..=count).map(at).take_while(|at| (0..self.pages()).contains(at));
            let pages = pages.map(|at| at as u32).collect();
            return Ahead { pages, is_likely: stride.is_some() };
        }
        let mut pages: Vec<u32> = Vec::new();
        let mut at = page;
        while pages.len() < self.depth {
            match self.next[at as usize].checked_sub(1) {
                Some(next) if next != page && !pages.contains(&next) => at = next,
                _ => break,
            }
            pages.push(at);
        }
        Ahead { pages, is_likely: true }
    }

    /// Returns the distance from the last page to this one, if it was the same before.
    fn stride(&self, page: u32) -> Option<i64> {
        let (last, before) = (i64::from(self.last?), i64::from(self.before?));
        let stride = i64::from(page) - last;
        (stride == last - before && stride != 0).then_some(stride)
    }

    fn pages(&self) -> i64 {
        self.next.len() as i64
    }

    /// Notes that pages were brought up to date, of which the first was touched.
    pub(super) fn note(&mut self, pages: &[u32], statistics: &mut Statistics) {
        let Some((&first, ahead)) = pages.split_first() else { return };
        self.follow(first);
        ahead.iter().for_each(|&page| self.ahead[page as usize] = 1);
        statistics.prefetched += ahead.len() as u64;
    }

    /// Notes that pages that were fetched ahead are mapped, too; another one of the same time,
    /// which is touched after them, stands for all.
    pub(super) fn map(&mut self, mapped: &[u32], probe: u32) {
        for &page in mapped {
            self.ahead[probe as usize] += std::mem::take(&mut self.ahead[page as usize]);
            self.follow(page);
        }
    }

    /// Notes that a page is touched, and returns whether it had been fetched ahead.
    pub(super) fn touch(&mut self, page: u32, statistics: &mut Statistics) -> bool {
        let count = std::mem::take(&mut self.ahead[page as usize]);
        if count > 0 {
            self.follow(page);
            statistics.prefetches_used += u64::from(count);
            self.depth = (self.depth + count as usize).min(AHEAD_MAX);
        }
        count > 0
    }

    fn follow(&mut self, page: u32) {
        if let Some(last) = self.last.filter(|&last| last != page) {
            self.next[last as usize] = page + 1;
        }
        self.is_known[page as usize] = true;
        if self.last != Some(page) {
            self.before = self.last;
        }
        self.last = Some(page);
    }

    /// Notes that a page has become invalid.
    pub(super) fn lose(&mut self, page: u32, statistics: &mut Statistics) {
        let count = std::mem::take(&mut self.ahead[page as usize]);
        if count > 0 {
            statistics.prefetches_wasted += u64::from(count);
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
        assert_eq!(pattern.ahead_of(1).pages, [2, 3, 4]);
        assert_eq!(pattern.ahead_of(8).pages, [9]);
        for page in [1, 5, 9, 2] {
            pattern.note(&[page], &mut done);
        }
        // Not the distance of the pages before.
        assert!(!pattern.ahead_of(3).is_likely);
        assert_eq!(pattern.ahead_of(1).pages, [5, 9, 2]);
        pattern.note(&[1, 5, 9, 2], &mut done);
        assert_eq!(done.prefetched, 3);
        pattern.touch(5, &mut done);
        pattern.lose(9, &mut done);
        pattern.lose(9, &mut done);
        assert_eq!((done.prefetches_used, done.prefetches_wasted), (1, 1));
        // One that is mapped is not seen any more, and another one stands for it.
        pattern.note(&[1, 5, 9], &mut done);
        pattern.map(&[5], 9);
        assert!(!pattern.touch(5, &mut done) && pattern.touch(9, &mut done));
        assert_eq!(done.prefetches_used, 3);
        assert_eq!(pattern.ahead_of(1).pages, [5, 9, 2]);
        // Another one came instead.
        pattern.note(&[7], &mut done);
        assert_eq!(pattern.ahead_of(1).pages, [5, 9, 7]);
    }

    #[test]
    fn pages_at_the_same_distance_are_expected() {
        let (mut pattern, mut done) = (Pattern::new(40), Statistics::default());
        for page in [2, 9] {
            pattern.note(&[page], &mut done);
        }
        let pages = vec![23, 30, 37];
        assert_eq!(pattern.ahead_of(16), Ahead { pages, is_likely: true });
        for page in [30, 20] {
            pattern.note(&[page], &mut done);
        }
        assert_eq!(pattern.ahead_of(10), Ahead { pages: vec![0], is_likely: true });
    }
}
