//! PCT: random priorities, changed at a few random moments.
//!
//! Paper:   Burckhardt, Kothari, Musuvathi, Nagarakatte: *A randomized scheduler with probabilistic
//!          guarantees of finding bugs*, 2010.
//! Differs: the paper's thread is one event in flight, and the length of a run is that of the
//!          longest so far: `README.md`.

use std::collections::HashMap;

use farside_fabric::random::Xorshift;

use crate::event::{Event, EventId};
use crate::run::Oracle;

/// One run.
pub(super) struct Pct {
    numbers: Xorshift,
    /// The larger, the sooner. Those that have fallen have the priorities from 0 on, the last to
    /// fall the lowest.
    priorities: HashMap<EventId, usize>,
    /// At which steps the first event falls, the last step first.
    changes: Vec<usize>,
    falls: usize,
    /// The step of each death, and its event.
    deaths: Vec<(usize, EventId)>,
    steps: usize,
    at: usize,
    pub(super) picks: Vec<usize>,
}

/// Priorities of events that have not fallen are random numbers from `CHANGES_MAX` up to this.
const PRIORITIES: usize = 1 << 40;
const CHANGES_MAX: usize = 1 << 16;

impl Pct {
    /// Prepares a run of a seed, for bugs of a depth, in a program of up to `steps` steps.
    pub(super) fn new(seed: u64, run: u64, depth: u32, steps: usize) -> Pct {
        let mut numbers = Xorshift::new(seed, run);
        let count = (depth as usize - 1).min(CHANGES_MAX);
        let mut changes: Vec<usize> = (0..count).map(|_| numbers.below(steps)).collect();
        changes.sort_unstable_by(|a, b| b.cmp(a));
        Pct {
            numbers,
            priorities: HashMap::new(),
            changes,
            falls: count,
            deaths: Vec::new(),
            steps,
            at: 0,
            picks: Vec::new(),
        }
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
        if let Some(at) = self.deaths.iter().position(|&(step, _)| step <= self.at) {
            let (_, id) = self.deaths.swap_remove(at);
            if let Some(index) = events.iter().position(|event| event.id == id) {
                return Some(index);
            }
        }
        let of = |index: &usize| self.priorities[&events[*index].id];
        (0..events.len()).max_by_key(|index| (of(index), std::cmp::Reverse(*index)))
    }
}

impl Oracle for Pct {
    fn pick(&mut self, events: &[Event]) -> Option<usize> {
        let mut index = self.first(events)?;
        while self.changes.last().is_some_and(|&step| step <= self.at) {
            self.changes.pop();
            self.falls -= 1;
            self.priorities.insert(events[index].id, self.falls);
            index = self.first(events)?;
        }
        self.at += 1;
        self.picks.push(index);
        Some(index)
    }
}
