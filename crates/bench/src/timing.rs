//! How operations are timed: in batches, so that the clock does not count.

use std::time::{Duration, Instant};

/// The shortest batch that is timed: a thousand times what reading the clock takes.
const BATCH: Duration = Duration::from_micros(20);

/// Times `run`, which does as many operations as it is told, for about `time`; returns the nanoseconds of one operation, as the
/// median over batches.
pub fn measure<E>(time: Duration, mut run: impl FnMut(u64) -> Result<(), E>) -> Result<f64, E> {
    let start = Instant::now();
    let mut count = 1;
    let mut samples = Vec::new();
    loop {
        let batch = Instant::now();
        run(count)?;
        let took = batch.elapsed();
        if took < BATCH && start.elapsed() < time {
            // An operation that takes no time at all would otherwise count for ever.
            count = count.saturating_mul(2);
            continue;
        }
        samples.push(took.as_nanos() as f64 / count as f64);
        if start.elapsed() >= time {
            return Ok(median(&mut samples));
        }
    }
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
    fn batches_grow_until_the_clock_does_not_count() {
        let mut largest = 0;
        let result = measure(Duration::from_millis(5), |count| {
            largest = largest.max(count);
            (0..count).for_each(|step| _ = std::hint::black_box(step));
            Ok::<(), ()>(())
        });
        assert!(result.unwrap() < 1000.0);
        assert!(largest > 100);
    }
}
