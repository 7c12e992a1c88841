//! Diffs: which words of a page have changed against its twin, in runs.
//!
//! A run is a word with its start and its length, 16 bits each, and then the words.

/// The largest number of words of a page: a run's start and length must fit.
pub(crate) const PAGE_WORDS_MAX: usize = 1 << 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Made {
    Nothing,
    /// So many words were appended, as runs.
    Runs(usize),
    /// Every word has changed, and the page itself was appended.
    Whole,
}

/// Compares a page with its twin, and appends what has changed.
pub(crate) fn make(twin: &[u32], page: &[u32], into: &mut Vec<u32>) -> Made {
    let begin = into.len();
    let mut at = 0;
    while let Some(skipped) = twin[at..].iter().zip(&page[at..]).position(|(was, is)| was != is) {
        let start = at + skipped;
        let same = twin[start..].iter().zip(&page[start..]).position(|(was, is)| was == is);
        let end = same.map_or(page.len(), |length| start + length);
        if end - start == page.len() {
            into.extend_from_slice(page);
            return Made::Whole;
        }
        into.push(start as u32 | (((end - start - 1) as u32) << 16));
        into.extend_from_slice(&page[start..end]);
        at = end;
    }
    if into.len() == begin { Made::Nothing } else { Made::Runs(into.len() - begin) }
}

/// Returns the runs of a diff: the start of each, and its words. A run that makes no sense, or
/// leaves the page, ends the iteration.
pub(crate) fn runs(diff: &[u32], page_words: usize) -> impl Iterator<Item = (usize, &[u32])> {
    let mut rest = diff;
    std::iter::from_fn(move || {
        let (&head, words) = rest.split_first()?;
        let (start, length) = (head as usize & 0xFFFF, (head >> 16) as usize + 1);
        if length > words.len() || start + length > page_words {
            return None;
        }
        let (run, after) = words.split_at(length);
        rest = after;
        Some((start, run))
    })
}

/// Returns the runs of a diff: the first word of each, and the one after its last.
pub(crate) fn spans(diff: &[u32], page_words: usize) -> impl Iterator<Item = (usize, usize)> {
    runs(diff, page_words).map(|(start, run)| (start, start + run.len()))
}

/// The first word that is in spans of both. Those of each are in order and do not overlap.
pub(crate) fn first_in_both(one: &[(usize, usize)], other: &[(usize, usize)]) -> Option<usize> {
    let (mut one, mut other) = (one.iter().peekable(), other.iter().peekable());
    while let (Some(&&(start, end)), Some(&&(from, to))) = (one.peek(), other.peek()) {
        if start.max(from) < end.min(to) {
            return Some(start.max(from));
        }
        if end <= to {
            one.next();
        } else {
            other.next();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn apply(diff: &[u32], page: &mut [u32]) {
        let words = page.len();
        for (start, run) in runs(diff, words) {
            page[start..start + run.len()].copy_from_slice(run);
        }
    }

    proptest! {
        #[test]
        fn a_diff_turns_the_twin_into_the_page(
            twin in proptest::collection::vec(0u32..3, 64),
            page in proptest::collection::vec(0u32..3, 64),
        ) {
            let mut diff = Vec::new();
            match make(&twin, &page, &mut diff) {
                Made::Nothing => prop_assert_eq!(&twin, &page),
                Made::Whole => {
                    prop_assert_eq!(&diff, &page);
                    prop_assert!(twin.iter().zip(&page).all(|(was, is)| was != is));
                }
                Made::Runs(words) => {
                    prop_assert_eq!(words, diff.len());
                    let mut patched = twin.clone();
                    apply(&diff, &mut patched);
                    prop_assert_eq!(&patched, &page);
                    // And it holds no word that has not changed.
                    let runs: usize = runs(&diff, 64).map(|(_, run)| run.len()).sum();
                    let differ = twin.iter().zip(&page).filter(|(was, is)| was != is);
                    prop_assert_eq!(runs, differ.count());
                }
            }
        }

        #[test]
        fn diffs_overlap_where_both_have_changed_a_word(
            one in proptest::collection::vec(0u32..2, 40),
            other in proptest::collection::vec(0u32..2, 40),
        ) {
            let zero = vec![0; 40];
            let (mut first, mut second) = (Vec::new(), Vec::new());
            prop_assume!(make(&zero, &one, &mut first) != Made::Whole);
            prop_assume!(make(&zero, &other, &mut second) != Made::Whole);
            let expected = one.iter().zip(&other).position(|(a, b)| a & b == 1);
            let spans = |diff| spans(diff, 40).collect::<Vec<_>>();
            prop_assert_eq!(first_in_both(&spans(&first), &spans(&second)), expected);
        }
    }

    #[test]
    fn nonsense_is_not_followed() {
        assert_eq!(runs(&[5 | (99 << 16), 1, 2], 64).count(), 0);
        assert_eq!(runs(&[63 | (1 << 16), 1, 2], 64).count(), 0);
    }
}
