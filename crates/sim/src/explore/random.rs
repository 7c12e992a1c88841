//! Random schedules.

use crate::event::Event;
use crate::run::Oracle;

/// Numbers that look random: the same ones for the same seed, for ever (Marsaglia's xorshift).
pub(super) struct Numbers {
    state: u64,
}

impl Numbers {
    /// The numbers of one of the runs of a seed.
    pub(super) fn new(seed: u64, run: u64) -> Numbers {
        let state = (seed ^ run.wrapping_mul(0x9E37_79B9_7F4A_7C15))
            .wrapping_mul(0xBF58_476D_1CE4_E5B9)
            | 1;
        Numbers { state }
    }

    /// A number below `bound`, which is not zero.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        ((self.state >> 11) % bound as u64) as usize
    }
}

/// The average number of steps before a rank dies.
const DEATHS_ONE_IN: usize = 24;

/// At each step one of the possible events, each as likely as the others; deaths are rarer, or they
/// would all come at the start.
pub(super) struct Random {
    numbers: Numbers,
    pub(super) picks: Vec<usize>,
}

impl Random {
    pub(super) fn new(seed: u64, run: u64) -> Random {
        Random { numbers: Numbers::new(seed, run), picks: Vec::new() }
    }
}

impl Oracle for Random {
    fn pick(&mut self, events: &[Event]) -> Option<usize> {
        // Deaths stand last.
        let others = events.iter().take_while(|event| !event.id.is_death()).count();
        let dies = others < events.len() && self.numbers.below(DEATHS_ONE_IN) == 0;
        let index = if dies {
            others + self.numbers.below(events.len() - others)
        } else {
            self.numbers.below(others)
        };
        self.picks.push(index);
        Some(index)
    }
}
