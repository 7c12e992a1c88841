//! Numbers that look random and are the same for the same seed, for ever: schedules, the noise of
//! simulated networks, tests. They are no secret.
//!
//! Two generators, since recorded schedules and published results each depend on one of them.

/// SplitMix64: any seed is good, and consecutive seeds give unrelated sequences.
///
/// ```
/// use farside_fabric::random::SplitMix;
///
/// let mut random = SplitMix::new(7);
/// assert_eq!((random.next(), random.next()), (0x63CB_E1E4_5932_0DD7, 0x044C_3CD7_F43C_661C));
/// ```
#[derive(Debug, Clone)]
pub struct SplitMix(u64);

impl SplitMix {
    /// Returns the sequence of a seed.
    pub fn new(seed: u64) -> SplitMix {
        SplitMix(seed)
    }

    /// Returns the next number.
    #[expect(clippy::should_implement_trait, reason = "the sequence has no end to test for")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        scatter(self.0)
    }

    /// Returns the next number below `end`, which is not zero.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Returns whether something happens now that does so many times in a hundred.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Returns the next number from 0 to 1.
    pub fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Scatters a number over all numbers, each to another place: the finalizer of SplitMix64.
pub fn scatter(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}

/// Marsaglia's xorshift, which the schedules of `farside check` are drawn with.
///
/// ```
/// use farside_fabric::random::Xorshift;
///
/// let mut random = Xorshift::new(1, 2);
/// let drawn: Vec<usize> = (0..4).map(|_| random.below(10)).collect();
/// assert_eq!(drawn, [9, 2, 9, 2]);
/// ```
#[derive(Debug, Clone)]
pub struct Xorshift(u64);

impl Xorshift {
    /// Returns the sequence of one of the runs of a seed.
    pub fn new(seed: u64, run: u64) -> Xorshift {
        let state = (seed ^ run.wrapping_mul(0x9E37_79B9_7F4A_7C15))
            .wrapping_mul(0xBF58_476D_1CE4_E5B9)
            | 1;
        Xorshift(state)
    }

    /// Returns the next number.
    #[expect(clippy::should_implement_trait, reason = "the sequence has no end to test for")]
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Returns the next number below `end`, which is not zero.
    pub fn below(&mut self, end: usize) -> usize {
        ((self.next() >> 11) % end as u64) as usize
    }
}
