//! Random schedules.

use farside_fabric::random::Xorshift;

use crate::event::Event;
use crate::run::{Oracle, Verdict};

/// The average number of steps before a rank dies.
const DEATHS_ONE_IN: usize = 24;

/// At each step one of the possible events, each as likely as the others; deaths are rarer, or they
/// would all come at the start.
pub(super) struct Random {
    numbers: Xorshift,
    pub(super) picks: Vec<usize>,
}

impl Random {
    pub(super) fn new(seed: u64, run: u64) -> Random {
        Random { numbers: Xorshift::new(seed, run), picks: Vec::new() }
    }
}

impl Oracle for Random {
    fn pick(&mut self, events: &[Event]) -> Result<usize, Verdict> {
        // Deaths stand last.
        let others = events.iter().take_while(|event| !event.id.is_death()).count();
        let dies = others < events.len() && self.numbers.below(DEATHS_ONE_IN) == 0;
        let index = if dies {
            others + self.numbers.below(events.len() - others)
        } else {
            self.numbers.below(others)
        };
        self.picks.push(index);
        Ok(index)
    }
}
