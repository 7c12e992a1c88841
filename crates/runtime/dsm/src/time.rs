//! Vector time: the number of intervals of each rank that a rank knows.
//!
//! At a barrier of all ranks every rank learns everything, so time is counted from the last one on.
//! The rest is sparse: a rank that has learned nothing through locks knows its own intervals alone.

/// The number of intervals of each rank, since the last barrier of all ranks; ranks that are not
/// named have none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Time {
    /// By rank, in ascending order.
    counts: Vec<(u32, u32)>,
}

impl Time {
    pub(crate) fn of(&self, rank: u32) -> u32 {
        self.counts.binary_search_by_key(&rank, |&(rank, _)| rank).map_or(0, |at| self.counts[at].1)
    }

    pub(crate) fn set(&mut self, rank: u32, count: u32) {
        match self.counts.binary_search_by_key(&rank, |&(rank, _)| rank) {
            Ok(at) => self.counts[at].1 = count,
            Err(at) => self.counts.insert(at, (rank, count)),
        }
    }

    pub(crate) fn clear(&mut self) {
        self.counts.clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.counts.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.counts.iter().copied()
    }

    pub(crate) fn common(&self, other: &Time) -> Time {
        let counts = self
            .iter()
            .map(|(rank, count)| (rank, count.min(other.of(rank))))
            .filter(|&(_, count)| count > 0);
        Time { counts: counts.collect() }
    }
}

impl FromIterator<(u32, u32)> for Time {
    fn from_iter<I: IntoIterator<Item = (u32, u32)>>(counts: I) -> Time {
        let mut time = Time::default();
        counts.into_iter().for_each(|(rank, count)| time.set(rank, count));
        time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_two_know_is_the_lesser_of_each() {
        let one: Time = [(0, 2), (3, 1), (5, 4)].into_iter().collect();
        let other: Time = [(5, 3), (0, 7)].into_iter().collect();
        assert_eq!(one.common(&other), [(0, 2), (5, 3)].into_iter().collect());
        assert_eq!(other.common(&one), one.common(&other));
        assert_eq!(one.of(4), 0);
    }
}
