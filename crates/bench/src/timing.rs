//! How operations are timed: in batches, so that the clock does not count.

use std::time::Duration;

/// The shortest batch that is timed: a thousand times what reading the clock takes.
const BATCH: Duration = Duration::from_micros(20);

/// Times `run`, which does as many operations as it is told, for about `time` by `clock_ns`;
/// returns the nanoseconds of one operation, as the median over batches.
pub fn measure<E>(
    clock_ns: &dyn Fn() -> u64,
    time: Duration,
    mut run: impl FnMut(u64) -> Result<(), E>,
) -> Result<f64, E> {
    let (start_ns, time_ns, batch_ns) =
        (clock_ns(), time.as_nanos() as u64, BATCH.as_nanos() as u64);
    let mut count = 1;
    let mut samples = Vec::new();
    loop {
        let begin_ns = clock_ns();
        run(count)?;
        let now_ns = clock_ns();
        let (took_ns, over) = (now_ns - begin_ns, now_ns - start_ns >= time_ns);
        if took_ns < batch_ns && !over {
            // An operation that takes no time at all would otherwise count for ever.
            count = count.saturating_mul(2);
            continue;
        }
        samples.push(took_ns as f64 / count as f64);
        if over {
            return Ok(median(&mut samples));
        }
    }
}

/// The clock of this process.
pub fn clock() -> impl Fn() -> u64 {
    let begin = std::time::Instant::now();
    move || begin.elapsed().as_nanos() as u64
}

/// The median; zero of nothing.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        len if len % 2 == 1 => values[len / 2],
        len => (values[len / 2 - 1] + values[len / 2]) / 2.0,
    }
}

/// Numbers that look random and are the same in every run, here and in the rivals' programs
/// (xorshift with multiplication).
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// A sequence of its own for each rank.
    pub fn new(rank: u64) -> Random {
        Random((rank + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// The next number, below `limit`.
    #[inline]
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(2_685_821_657_736_338_717) >> 33) % limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&mut []), 0.0);
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn random_numbers_are_spread_and_differ_by_rank() {
        for rank in 0..64 {
            let mut random = Random::new(rank);
            let below = (0..10_000).filter(|_| random.below(100_000) < 2_000).count();
            assert!((120..300).contains(&below), "{below} of 10000 are 2 %, of rank {rank}");
        }
        assert_ne!(Random::new(0).below(1 << 31), Random::new(1).below(1 << 31));
    }

    #[test]
    fn batches_grow_until_the_clock_does_not_count() {
        let mut largest = 0;
        let result = measure(&clock(), Duration::from_millis(5), |count| {
            largest = largest.max(count);
            (0..count).for_each(|step| _ = std::hint::black_box(step));
            Ok::<(), ()>(())
        });
        assert!(result.unwrap() < 1000.0);
        assert!(largest > 100);
    }
}
