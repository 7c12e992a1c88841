//! The times of single operations of all ranks, as histograms.

use farside::{Result, World};
use hdrhistogram::Histogram;

use crate::timing::Percentiles;

/// Longer times count as a minute.
const NS_MAX: u64 = 60_000_000_000;
/// The digits that a histogram keeps of a time. The ranks exchange a word for each of its buckets:
/// some 4000.
const DIGITS: u8 = 2;

/// The times of one rank's operations: of taking the lock, of giving it back, and of both.
pub(super) struct Singles {
    acquire: Histogram<u64>,
    release: Histogram<u64>,
    both: Histogram<u64>,
}

/// The percentiles of all ranks' operations.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct SingleTimes {
    pub(super) acquire: Option<Percentiles>,
    pub(super) release: Option<Percentiles>,
    pub(super) both: Option<Percentiles>,
}

impl Singles {
    pub(super) fn new() -> Singles {
        Singles { acquire: empty(), release: empty(), both: empty() }
    }

    #[inline]
    pub(super) fn record(&mut self, acquire_ns: u64, release_ns: u64) {
        self.acquire.saturating_record(acquire_ns);
        self.release.saturating_record(release_ns);
        self.both.saturating_record(acquire_ns + release_ns);
    }

    /// Puts the operations of all ranks together. Collective.
    pub(super) fn of_all(&self, world: &World) -> Result<SingleTimes> {
        Ok(SingleTimes {
            acquire: percentiles(world, &self.acquire)?,
            release: percentiles(world, &self.release)?,
            both: percentiles(world, &self.both)?,
        })
    }
}

fn empty() -> Histogram<u64> {
    Histogram::new_with_bounds(1, NS_MAX, DIGITS).expect("a histogram may have these bounds")
}

fn percentiles(world: &World, own: &Histogram<u64>) -> Result<Option<Percentiles>> {
    let mut counts: Vec<u64> = own.iter_all().map(|bucket| bucket.count_at_value()).collect();
    world.all_reduce(&mut counts, |a, b| a + b)?;
    let mut all = empty();
    for (bucket, count) in own.iter_all().zip(counts).filter(|&(_, count)| count > 0) {
        all.saturating_record_n(bucket.value_iterated_to(), count);
    }
    Ok(Percentiles::of(&all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_all_ranks_together() {
        farside::local(3, |world| {
            let mut singles = Singles::new();
            // Of three hundred operations, rank 2 has ten that take long.
            for step in 0..100 {
                let is_long = world.rank().0 == 2 && step < 10;
                singles.record(if is_long { 1_000_000 } else { 2000 }, 500);
            }
            let times = singles.of_all(world)?;
            let is_about = |percentile: f64, ns: f64| (0.98..1.02).contains(&(percentile / ns));
            let Percentiles { p50_ns, p99_ns } = times.acquire.unwrap();
            assert!(is_about(p50_ns, 2000.0) && is_about(p99_ns, 1e6), "{times:?}");
            let Percentiles { p50_ns, p99_ns } = times.release.unwrap();
            assert!(is_about(p50_ns, 500.0) && is_about(p99_ns, 500.0), "{times:?}");
            assert!(is_about(times.both.unwrap().p50_ns, 2500.0), "{times:?}");
            assert_eq!(Singles::new().of_all(world)?, SingleTimes::default());
            Ok(())
        })
        .unwrap();
    }
}
