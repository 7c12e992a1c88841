//! A set of ranks that is cheap to ask whether it is empty.

use std::cell::Cell;

use farside_fabric::Rank;

/// A set of ranks.
pub(crate) struct Marks {
    words: Box<[Cell<u64>]>,
    /// False only if there are none: the usual case where all memory is near.
    any: Cell<bool>,
}

impl Marks {
    pub(crate) fn new(ranks: u32) -> Marks {
        Marks {
            words: (0..ranks.div_ceil(64)).map(|_| Cell::new(0)).collect(),
            any: Cell::new(false),
        }
    }

    #[inline]
    fn word(&self, rank: Rank) -> Option<(&Cell<u64>, u64)> {
        self.words.get(rank.index() / 64).map(|word| (word, 1 << (rank.0 % 64)))
    }

    /// Adds a rank; one that is not of the job is left out.
    #[inline]
    pub(crate) fn add(&self, rank: Rank) {
        if let Some((word, bit)) = self.word(rank) {
            word.set(word.get() | bit);
            self.any.set(true);
        }
    }

    #[inline]
    pub(crate) fn remove(&self, rank: Rank) {
        if let Some((word, bit)) = self.word(rank) {
            word.set(word.get() & !bit);
        }
    }

    #[inline]
    pub(crate) fn contains(&self, rank: Rank) -> bool {
        self.word(rank).is_some_and(|(word, bit)| word.get() & bit != 0)
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        if self.any.get() {
            self.any.set(self.words.iter().any(|word| word.get() != 0));
        }
        !self.any.get()
    }

    /// The ranks that are in the set when they are come to.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Rank> {
        self.words.iter().enumerate().flat_map(|(at, word)| {
            let bits = word.get();
            (0..64)
                .filter(move |bit| bits & (1 << bit) != 0)
                .map(move |bit| Rank(at as u32 * 64 + bit))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_what_was_added() {
        let marks = Marks::new(130);
        assert!(marks.is_empty());
        for rank in [0, 63, 64, 129] {
            marks.add(Rank(rank));
        }
        marks.remove(Rank(63));
        marks.add(Rank(1000));
        assert_eq!(marks.iter().collect::<Vec<_>>(), [Rank(0), Rank(64), Rank(129)]);
        assert!(
            marks.contains(Rank(129)) && !marks.contains(Rank(63)) && !marks.contains(Rank(1000))
        );
    }
}
