//! Which operations on which keys.

use crate::timing::Random;

/// How many operations are made at most; then they come again.
pub(super) const STEPS: usize = 1 << 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Get(u64),
    Insert(u64),
    /// Reads, changes and writes.
    Modify(u64),
}

pub(super) struct Mix {
    random: Random,
    keys: Keys,
    /// Of a hundred thousand.
    writes: u64,
    modifies: bool,
}

enum Keys {
    /// Each as likely, below a number.
    Uniform(u64),
    Zipf(Zipf),
}

const WHOLE: u64 = 100_000;

/// Returns whether all ranks use one volume in a case, with inserts of so many in a hundred.
pub(super) fn is_of_one_volume(case: &str) -> bool {
    ["volume", "integers"].contains(&case)
}

impl Mix {
    /// The operations of a case by one rank; `writers_pct` counts where there is something to
    /// choose.
    pub(super) fn new(case: &str, writers_pct: Option<f64>, keys: u64, rank: u32) -> Mix {
        let writes = match (case, writers_pct) {
            ("ycsb-a" | "ycsb-f", _) => WHOLE / 2,
            ("ycsb-b", _) => WHOLE / 20,
            (_, Some(pct)) => (pct * WHOLE as f64 / 100.0).round() as u64,
            _ => 0,
        };
        let keys = match is_of_one_volume(case) {
            true => Keys::Uniform(keys),
            false => Keys::Zipf(Zipf::new(keys)),
        };
        Mix { random: Random::new(rank.into()), keys, writes, modifies: case == "ycsb-f" }
    }

    /// So many operations, made before time runs: what a choice by Zipf's law takes is more than
    /// some operations do.
    pub(super) fn steps(mut self, count: usize) -> Vec<Step> {
        (0..count).map(|_| self.next()).collect()
    }

    fn next(&mut self) -> Step {
        let key = match &self.keys {
            Keys::Uniform(keys) => self.random.below(*keys),
            Keys::Zipf(zipf) => {
                zipf.pick(self.random.below(1 << 31) as f64 / f64::from(1u32 << 31))
            }
        };
        match self.random.below(WHOLE) < self.writes {
            false => Step::Get(key),
            true if self.modifies => Step::Modify(key),
            true => Step::Insert(key),
        }
    }
}

/// Zipf's law over so many keys, by the method of Gray and others (SIGMOD 1994) that YCSB uses.
/// Popular keys are spread over all.
struct Zipf {
    keys: u64,
    zeta: f64,
    alpha: f64,
    eta: f64,
}

/// The largest prime of 64 bits: its multiples meet every key once, whatever number of keys there
/// is.
const PRIME: u128 = 18_446_744_073_709_551_557;
/// YCSB's exponent.
const THETA: f64 = 0.99;

impl Zipf {
    fn new(keys: u64) -> Zipf {
        let zeta = |count: u64| -> f64 { (1..=count).map(|rank| (rank as f64).powf(-THETA)).sum() };
        let all = zeta(keys);
        let eta = (1.0 - (2.0 / keys as f64).powf(1.0 - THETA)) / (1.0 - zeta(2.min(keys)) / all);
        Zipf { keys, zeta: all, alpha: 1.0 / (1.0 - THETA), eta }
    }

    /// The key of a number between 0 and 1.
    fn pick(&self, uniform: f64) -> u64 {
        let scaled = uniform * self.zeta;
        let rank = if scaled < 1.0 {
            0
        } else if scaled < 1.0 + 0.5f64.powf(THETA) {
            1
        } else {
            (self.keys as f64 * (self.eta * uniform - self.eta + 1.0).powf(self.alpha)) as u64
        };
        (u128::from(rank.min(self.keys - 1)) * PRIME % u128::from(self.keys)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_keys_are_wanted_often() {
        let mut mix = Mix::new("ycsb-b", None, 1000, 0);
        let (mut counts, mut inserts) = (std::collections::HashMap::new(), 0);
        for _ in 0..100_000 {
            let key = match mix.next() {
                Step::Get(key) => key,
                Step::Insert(key) | Step::Modify(key) => {
                    inserts += 1;
                    key
                }
            };
            assert!(key < 1000);
            *counts.entry(key).or_insert(0u32) += 1;
        }
        let most = counts.values().max().copied().unwrap_or(0);
        assert!((11_000..16_000).contains(&most), "the most popular key came {most} times");
        assert!((4_500..5_500).contains(&inserts), "{inserts} of 100000 are 5 %");
        assert!(counts.len() > 900);
    }

    #[test]
    fn mixes_are_what_they_are_called() {
        let steps = |case, pct| -> Vec<Step> {
            let mut mix = Mix::new(case, pct, 100, 3);
            (0..1000).map(|_| mix.next()).collect()
        };
        assert!(steps("ycsb-c", None).iter().all(|step| matches!(step, Step::Get(_))));
        assert!(steps("volume", Some(100.0)).iter().all(|step| matches!(step, Step::Insert(_))));
        assert!(steps("ycsb-f", None).iter().any(|step| matches!(step, Step::Modify(_))));
    }
}
