//! How operations are timed: in batches, so that the clock does not count.

use std::time::Duration;

use farside::{Rank, World};
use hdrhistogram::Histogram;

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

/// The shortest operation that is timed alone: forty times what reading the clock takes.
const SINGLE_NS: f64 = 1000.0;
/// The fewest operations whose 99th percentile says something.
const SINGLES: u64 = 100;

/// What an operation takes.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// The median over batches.
    pub median_ns: f64,
    /// Those of operations that were timed one by one.
    pub single: Option<Percentiles>,
}

/// The times of operations that were timed one by one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Percentiles {
    /// The median.
    pub p50_ns: f64,
    /// The 99th percentile.
    pub p99_ns: f64,
}

impl Percentiles {
    /// Returns the percentiles of a histogram of nanoseconds, unless it has too few operations.
    pub fn of(histogram: &Histogram<u64>) -> Option<Percentiles> {
        let at = |quantile: f64| histogram.value_at_quantile(quantile) as f64;
        (histogram.len() >= SINGLES).then(|| Percentiles { p50_ns: at(0.5), p99_ns: at(0.99) })
    }
}

impl Times {
    /// Of an operation that was timed in batches only.
    pub fn of_batches(median_ns: f64) -> Times {
        Times { median_ns, single: None }
    }
}

/// Times like [`measure`], and then, for another quarter of the time, single operations, unless
/// reading the clock would count. One operation before that, which touches everything, is not
/// timed; the rivals' programs do the same. In virtual time nothing is added, since that would
/// change what is simulated next: there the clock stands still while nothing is done.
pub fn measure_each<E>(
    clock_ns: &dyn Fn() -> u64,
    time: Duration,
    mut run: impl FnMut(u64) -> Result<(), E>,
) -> Result<Times, E> {
    let begin_ns = clock_ns();
    let is_virtual = clock_ns() == begin_ns;
    if !is_virtual {
        run(1)?;
    }
    let batches = Times::of_batches(measure(clock_ns, time, &mut run)?);
    let begin_ns = clock_ns();
    if is_virtual || batches.median_ns < SINGLE_NS {
        return Ok(batches);
    }
    let end_ns = begin_ns + time.as_nanos() as u64 / 4;
    let mut singles = Histogram::<u64>::new(3).expect("a histogram may keep three digits");
    let mut before_ns = clock_ns();
    while before_ns < end_ns {
        run(1)?;
        let now_ns = clock_ns();
        singles.record(now_ns - before_ns).expect("the histogram grows with its values");
        before_ns = now_ns;
    }
    Ok(Times { single: Percentiles::of(&singles), ..batches })
}

/// Collectives follow each other: a long batch also makes the skew of the first one vanish.
const TOGETHER: Duration = Duration::from_millis(2);

/// Times a collective, which all ranks call; returns the nanoseconds of one among others, as the
/// median over batches, for rank 0. That decides how many make a batch, and when it is enough.
pub(crate) fn measure_together(
    world: &World,
    time: Duration,
    call: &mut dyn FnMut() -> farside::Result<()>,
) -> farside::Result<f64> {
    let (start_ns, time_ns, batch_ns) =
        (world.now_ns(), time.as_nanos() as u64, TOGETHER.as_nanos() as u64);
    let mut count = 1u64;
    let mut samples = Vec::new();
    loop {
        world.barrier()?;
        let begin_ns = world.now_ns();
        for _ in 0..count {
            call()?;
        }
        let now_ns = world.now_ns();
        let mut took_ns = [now_ns - begin_ns];
        world.all_reduce(&mut took_ns, u64::max)?;
        let (long_enough, over) = (took_ns[0] >= batch_ns, now_ns - start_ns >= time_ns);
        if long_enough || (over && samples.is_empty()) {
            samples.push(took_ns[0] as f64 / count as f64);
        }
        let mut next = [if over { 0 } else { count * if long_enough { 1 } else { 2 } }];
        world.broadcast(Rank(0), &mut next)?;
        if next[0] == 0 {
            return Ok(median(&mut samples));
        }
        count = next[0];
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
    use std::cell::Cell;

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
    fn single_operations_are_timed_where_the_clock_does_not_count() {
        // A clock that is looked at as if that took 1 ns, and operations of 2 us, one of ten of 8.
        let (now_ns, done) = (Cell::new(0), Cell::new(0));
        let clock_ns = || now_ns.replace(now_ns.get() + 1);
        let run = |count| {
            for _ in 0..count {
                done.set(done.get() + 1);
                now_ns.set(now_ns.get() + if done.get() % 10 == 0 { 8000 } else { 2000 });
            }
            Ok::<(), ()>(())
        };
        let times = measure_each(&clock_ns, Duration::from_millis(8), run).unwrap();
        let Percentiles { p50_ns, p99_ns } = times.single.unwrap();
        assert!((1990.0..2020.0).contains(&p50_ns) && (7990.0..8020.0).contains(&p99_ns));
        let still = Cell::new(0);
        let in_virtual_time = measure_each(&|| still.get(), Duration::from_millis(1), |count| {
            still.set(still.get() + 2000 * count);
            Ok::<(), ()>(())
        });
        assert_eq!(in_virtual_time.unwrap().single, None);
        let short = measure_each(&clock(), Duration::from_millis(1), |_| Ok::<(), ()>(()));
        assert_eq!(short.unwrap().single, None);
    }

    #[test]
    fn an_operation_that_touches_everything_for_the_first_time_is_not_timed() {
        let (now_ns, done) = (Cell::new(0), Cell::new(0));
        let clock_ns = || now_ns.replace(now_ns.get() + 1);
        let times = measure_each(&clock_ns, Duration::from_millis(1), |count| {
            let is_first = done.replace(done.get() + count) == 0;
            now_ns.set(now_ns.get() + if is_first { 5_000_000 } else { 2_000_000 * count });
            Ok::<(), ()>(())
        });
        assert!((2_000_000.0..2_000_100.0).contains(&times.unwrap().median_ns));
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
