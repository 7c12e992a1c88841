//! Sets of steps.

/// A set of steps, by their numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bits {
    /// The first 256, where nearly all runs end.
    low: [u64; LOW],
    high: Vec<u64>,
}

const LOW: usize = 4;

impl Bits {
    /// Returns whether a step is in the set.
    pub fn contains(&self, step: usize) -> bool {
        let word = match step / 64 {
            at @ 0..LOW => self.low[at],
            at => self.high.get(at - LOW).copied().unwrap_or(0),
        };
        word & (1 << (step % 64)) != 0
    }

    pub(crate) fn insert(&mut self, step: usize) {
        let word = match step / 64 {
            at @ 0..LOW => &mut self.low[at],
            at => {
                if self.high.len() <= at - LOW {
                    self.high.resize(at - LOW + 1, 0);
                }
                &mut self.high[at - LOW]
            }
        };
        *word |= 1 << (step % 64);
    }

    pub(crate) fn extend(&mut self, other: &Bits) {
        self.low.iter_mut().zip(&other.low).for_each(|(mine, theirs)| *mine |= theirs);
        if self.high.len() < other.high.len() {
            self.high.resize(other.high.len(), 0);
        }
        self.high.iter_mut().zip(&other.high).for_each(|(mine, theirs)| *mine |= theirs);
    }

    pub(crate) fn meets(&self, other: &Bits) -> bool {
        let both = |(mine, theirs): (&u64, &u64)| mine & theirs != 0;
        self.low.iter().zip(&other.low).any(both) || self.high.iter().zip(&other.high).any(both)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_hold_what_was_put_in() {
        let (mut a, mut b) = (Bits::default(), Bits::default());
        for step in [0, 63, 64, 255, 256, 1000] {
            a.insert(step);
        }
        for step in 0..1100 {
            assert_eq!(a.contains(step), [0, 63, 64, 255, 256, 1000].contains(&step), "{step}");
        }
        b.insert(1000);
        assert!(a.meets(&b) && b.meets(&a));
        b = Bits::default();
        b.insert(2);
        b.insert(400);
        assert!(!a.meets(&b));
        b.extend(&a);
        assert!(b.contains(2) && b.contains(400) && b.contains(1000) && b.meets(&a));
    }
}
