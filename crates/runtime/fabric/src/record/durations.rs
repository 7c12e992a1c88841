//! A histogram of durations in shared memory: two buckets for each power of two.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// How many buckets there are: from a microsecond to an hour.
pub const DURATION_BUCKETS: usize = 64;
/// The power of two, of nanoseconds, that the first bucket ends with.
const FIRST: u32 = 10;

/// Counts of durations, written by one context.
#[repr(C)]
pub(super) struct Durations {
    total_ns: AtomicU64,
    counts: [AtomicU32; DURATION_BUCKETS],
}

/// What was read of a histogram.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DurationsReading {
    /// The sum of all durations, in nanoseconds.
    pub total_ns: u64,
    /// How many there were in each bucket: see [`bucket_end_ns`].
    pub counts: [u32; DURATION_BUCKETS],
}

/// Returns the duration below which a bucket counts, in nanoseconds. The last one counts longer
/// ones, too.
pub fn bucket_end_ns(bucket: usize) -> u64 {
    let power = 1_u64 << (FIRST + bucket as u32 / 2);
    if bucket.is_multiple_of(2) { power } else { power + power / 2 }
}

fn bucket_of(ns: u64) -> usize {
    let power = ns.max(1).ilog2();
    if power < FIRST {
        return 0;
    }
    let is_upper_half = ns >> (power - 1) & 1 == 1;
    let bucket = 1 + 2 * (power - FIRST) as usize + usize::from(is_upper_half);
    bucket.min(DURATION_BUCKETS - 1)
}

impl Durations {
    pub(super) const fn new() -> Durations {
        Durations {
            total_ns: AtomicU64::new(0),
            counts: [const { AtomicU32::new(0) }; DURATION_BUCKETS],
        }
    }

    pub(super) fn count(&self, ns: u64) {
        let total_ns = self.total_ns.load(Ordering::Relaxed);
        self.total_ns.store(total_ns.wrapping_add(ns), Ordering::Relaxed);
        let count = &self.counts[bucket_of(ns)];
        count.store(count.load(Ordering::Relaxed).saturating_add(1), Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> DurationsReading {
        DurationsReading {
            total_ns: self.total_ns.load(Ordering::Relaxed),
            counts: std::array::from_fn(|bucket| self.counts[bucket].load(Ordering::Relaxed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_duration_is_below_the_end_of_its_bucket_and_not_below_that_before() {
        let edges = (0..50).flat_map(|power| {
            let power = 1_u64 << power;
            [power - 1, power, power + power / 2, power + power / 2 + 1]
        });
        for ns in edges.chain([u64::MAX]) {
            let bucket = bucket_of(ns);
            assert!(bucket == DURATION_BUCKETS - 1 || ns < bucket_end_ns(bucket), "{ns}: {bucket}");
            assert!(bucket == 0 || ns >= bucket_end_ns(bucket - 1), "{ns}: {bucket}");
        }
    }

    #[test]
    fn durations_are_counted_and_added() {
        let durations = Durations::new();
        [0, 5, 1 << 20, 1 << 20, u64::MAX >> 1].into_iter().for_each(|ns| durations.count(ns));
        let read = durations.read();
        assert_eq!(read.total_ns, (u64::MAX >> 1) + (2 << 20) + 5);
        assert_eq!((read.counts[0], read.counts.iter().sum::<u32>()), (2, 5));
        assert_eq!((read.counts[21], read.counts[DURATION_BUCKETS - 1]), (2, 1));
    }
}
