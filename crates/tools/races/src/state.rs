//! What is kept under the lock: numbers, in the places that the layout gives them.

use std::sync::{Mutex, MutexGuard};

pub(crate) use farside_fabric::random::scatter as mix;

use crate::access::{Missing, Site};
use crate::layout::{Layout, count};

/// The state under the lock.
pub(crate) struct State<'a> {
    pub(crate) layout: &'a Layout,
    pub(crate) numbers: &'a mut [u32],
}

impl State<'_> {
    pub(crate) fn time(&self, rank: usize) -> u32 {
        // Time begins at 1: a clock that says 0 knows nothing.
        self.numbers[self.layout.time_of(rank)] + 1
    }

    pub(crate) fn tick(&mut self, rank: usize) {
        let time = &mut self.numbers[self.layout.time_of(rank)];
        if *time < u32::MAX - 1 {
            *time += 1;
        } else {
            // From now on later accesses look like earlier ones, and the report says so.
            self.count(count::DROPPED);
        }
    }

    /// Counts something that there was no room for.
    pub(crate) fn count(&mut self, what: usize) {
        self.numbers[what] = self.numbers[what].saturating_add(1);
    }
}

/// Two accesses without an order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pair {
    pub(crate) first: Site,
    pub(crate) second: Site,
    pub(crate) missing: Missing,
}

/// Some of 8 bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    pub(crate) offset: u64,
    pub(crate) mask: u32,
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
