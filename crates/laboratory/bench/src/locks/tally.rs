//! What one rank has counted, and what follows from what all have.

use super::singles::SingleTimes;

#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    pub(super) operations: u64,
    /// All requests until the lock was there, and all times to give it back.
    pub(super) acquire_ns: u64,
    pub(super) release_ns: u64,
    /// The longest wait for the lock; of operations that were timed together, the longest of all of
    /// them.
    pub(super) wait_max_ns: u64,
    pub(super) begin_ns: u64,
    pub(super) end_ns: u64,
    /// How many of its operations were over when the first rank had done all of its own.
    pub(super) early: u64,
}

impl Tally {
    #[inline]
    pub(super) fn add(&mut self, operations: u64, acquire_ns: u64, release_ns: u64) {
        self.operations += operations;
        self.acquire_ns += acquire_ns;
        self.release_ns += release_ns;
        self.wait_max_ns = self.wait_max_ns.max(acquire_ns);
    }

    /// As words that ranks can exchange.
    pub(super) fn words(&self) -> [u64; 7] {
        let times = [self.operations, self.acquire_ns, self.release_ns, self.wait_max_ns];
        let [a, b, c, d] = times;
        [a, b, c, d, self.begin_ns, self.end_ns, self.early]
    }

    /// From such words; zero for those that are missing.
    pub(super) fn from_words(words: &[u64]) -> Tally {
        let word = |at: usize| words.get(at).copied().unwrap_or(0);
        Tally {
            operations: word(0),
            acquire_ns: word(1),
            release_ns: word(2),
            wait_max_ns: word(3),
            begin_ns: word(4),
            end_ns: word(5),
            early: word(6),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Summary {
    /// The mean time until the lock was there, and to give it back.
    pub(super) acquire_ns: f64,
    pub(super) release_ns: f64,
    pub(super) per_s: f64,
    /// The smallest and the largest part of a rank in all operations, relative to an equal part.
    pub(super) share_min: f64,
    pub(super) share_max: f64,
    /// The longest wait of any rank.
    pub(super) wait_max_ns: f64,
    /// The percentiles of operations that were timed one by one, on real ranks.
    pub(super) single: SingleTimes,
}

impl Summary {
    /// Of ranks that have counted during the same time.
    pub(super) fn of_time(tallies: &[Tally]) -> Summary {
        Summary::new(tallies, |tally| tally.operations)
    }

    /// Of ranks that have done equally much: all of it in the time of all. Parts are those at the
    /// end of the first rank: later, fewer contend.
    pub(super) fn of_operations(tallies: &[Tally]) -> Summary {
        Summary::new(tallies, |tally| tally.early)
    }

    fn new(tallies: &[Tally], part: impl Fn(&Tally) -> u64) -> Summary {
        let begin_ns = tallies.iter().map(|tally| tally.begin_ns).min().unwrap_or(0);
        let end_ns = tallies.iter().map(|tally| tally.end_ns).max().unwrap_or(0);
        let sum = |of: fn(&Tally) -> u64| tallies.iter().map(of).sum::<u64>() as f64;
        let operations = sum(|tally| tally.operations).max(1.0);
        let parts: Vec<f64> = tallies.iter().map(|tally| part(tally) as f64).collect();
        let fair = (parts.iter().sum::<f64>() / parts.len().max(1) as f64).max(f64::MIN_POSITIVE);
        Summary {
            acquire_ns: sum(|tally| tally.acquire_ns) / operations,
            release_ns: sum(|tally| tally.release_ns) / operations,
            per_s: sum(|tally| tally.operations) * 1e9
                / end_ns.saturating_sub(begin_ns).max(1) as f64,
            share_min: parts.iter().copied().fold(f64::INFINITY, f64::min) / fair,
            share_max: parts.iter().copied().fold(0.0, f64::max) / fair,
            wait_max_ns: tallies.iter().map(|tally| tally.wait_max_ns).max().unwrap_or(0) as f64,
            single: SingleTimes::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(operations: u64, begin_ns: u64, end_ns: u64) -> Tally {
        let mut tally = Tally { begin_ns, end_ns, early: operations, ..Tally::default() };
        (0..operations).for_each(|step| tally.add(1, 100 + step, 50));
        tally
    }

    #[test]
    fn tallies_survive_the_exchange() {
        let one = tally(3, 5, 9);
        assert_eq!(Tally::from_words(&one.words()).words(), one.words());
        assert_eq!(one.wait_max_ns, 102);
    }

    #[test]
    fn all_count_in_the_time_of_all_and_shares_are_relative() {
        let summary = Summary::of_time(&[tally(3, 0, 1000), tally(1, 0, 1000), tally(0, 0, 1000)]);
        assert_eq!(summary.per_s, 4e6);
        assert_eq!(summary.release_ns, 50.0);
        assert_eq!(summary.share_min, 0.0);
        assert!((summary.share_max - 2.25).abs() < 1e-12, "{summary:?}");
        assert_eq!(summary.wait_max_ns, 102.0);
    }

    #[test]
    fn equal_work_is_timed_from_the_first_to_the_last() {
        let summary = Summary::of_operations(&[tally(10, 100, 1100), tally(10, 200, 2100)]);
        assert_eq!(summary.per_s, 1e7);
        assert_eq!((summary.share_min, summary.share_max), (1.0, 1.0));
    }
}
