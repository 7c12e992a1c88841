//! PCT: random priorities, changed at a few random moments.
//!
//! Paper:   Burckhardt, Kothari, Musuvathi, Nagarakatte: *A randomized scheduler with probabilistic
//!          guarantees of finding bugs*, 2010.
//! Differs: the paper's thread is one event in flight, and the length of a run is that of the
//!          longest so far: `README.md`.

use std::collections::HashMap;

use farside_fabric::random::Xorshift;

use crate::event::{Event, EventId};
use crate::run::{Oracle, Verdict};

/// One run.
pub(super) struct Pct {
    numbers: Xorshift,
    /// The larger, the sooner. Those that have fallen have priorities below all others.
    priorities: HashMap<EventId, usize>,
    /// At which steps the first event falls, and to which priority, the last step first.
    changes: Vec<(usize, usize)>,
    /// The step of each death, and its event.
    deaths: Vec<(usize, EventId)>,
    steps: usize,
    at: usize,
    pub(super) picks: Vec<usize>,
}

/// Priorities of events that have not fallen are random numbers from `CHANGES_MAX` up to this.
const PRIORITIES: usize = 1 << 40;
const CHANGES_MAX: usize = 1 << 16;
/// The longest first run that is reckoned with has two to the power of this many steps.
const STEPS_LOG2_MAX: usize = 13;

/// Returns a length for the first run, whose own is not known: of any order of magnitude, so that
/// its changes come early in one exploration and late in another.
pub(super) fn guess(seed: u64) -> usize {
    1 << Xorshift::new(seed, u64::MAX).below(STEPS_LOG2_MAX + 1)
}

impl Pct {
    /// Prepares a run of a seed, for bugs of a depth, in a program of up to `steps` steps.
    pub(super) fn new(seed: u64, run: u64, depth: u32, steps: usize) -> Pct {
        let mut numbers = Xorshift::new(seed, run);
        let count = (depth as usize - 1).min(CHANGES_MAX);
        let mut changes: Vec<(usize, usize)> =
            (0..count).map(|priority| (numbers.below(steps), priority)).collect();
        changes.sort_unstable_by(|a, b| b.cmp(a));
        Pct {
            numbers,
            priorities: HashMap::new(),
            changes,
            deaths: Vec::new(),
            steps,
            at: 0,
            picks: Vec::new(),
        }
    }

    /// The death whose step has come, if it is possible.
    fn death(&mut self, events: &[Event]) -> Option<usize> {
        let at = self.deaths.iter().position(|&(step, _)| step <= self.at)?;
        let (_, id) = self.deaths.swap_remove(at);
        events.iter().position(|event| event.id == id)
    }

    fn first(&mut self, events: &[Event]) -> Option<usize> {
        for event in events {
            if !self.priorities.contains_key(&event.id) {
                let priority = if event.id.is_death() {
                    // A rank dies at a step of its own, or else all would die at the start.
                    self.deaths.push((self.numbers.below(2 * self.steps), event.id));
                    0
                } else {
                    CHANGES_MAX + self.numbers.below(PRIORITIES)
                };
                self.priorities.insert(event.id, priority);
            }
        }
        let of = |index: &usize| self.priorities[&events[*index].id];
        (0..events.len()).max_by_key(|index| (of(index), std::cmp::Reverse(*index)))
    }
}

impl Oracle for Pct {
    fn pick(&mut self, events: &[Event]) -> Result<usize, Verdict> {
        let mut index = self.first(events).ok_or(Verdict::Pruned)?;
        while let Some((_, priority)) = self.changes.pop_if(|(step, _)| *step <= self.at) {
            self.priorities.insert(events[index].id, priority);
            index = self.first(events).ok_or(Verdict::Pruned)?;
        }
        index = self.death(events).unwrap_or(index);
        self.at += 1;
        self.picks.push(index);
        Ok(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In the paper, the i-th change has the i-th priority, and its step is random: the order of
    /// the steps says nothing of that of the priorities.
    #[test]
    fn a_later_change_does_not_always_fall_deeper() {
        let fall = |run| Pct::new(1, run, 3, 1000).changes;
        // The last step stands first.
        let deeper = (0..100)
            .filter(|&run| matches!(fall(run)[..], [(_, last), (_, first)] if last < first));
        assert!((20..80).contains(&deeper.count()));
    }
}
