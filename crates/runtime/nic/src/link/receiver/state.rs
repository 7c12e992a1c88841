//! What of a receiver decides on what it does from now on: all of it.

use std::hash::{Hash, Hasher};

use super::{Receiver, slot};
use crate::link::variant::Variant;

impl<V: Variant> Receiver<V> {
    pub(crate) fn fingerprint(&self, into: &mut impl Hasher) {
        (self.executed, &self.held, self.held_count).hash(into);
        (&self.remembered, self.forgotten).hash(into);
    }

    /// As if so many requests had been executed.
    pub(crate) fn start_after(&mut self, executed: u64) {
        self.executed = executed;
    }

    pub(crate) fn has(&self, number: u64) -> bool {
        number <= self.executed || self.held[slot::<V>(number)].is_some()
    }

    /// How many answers are kept, and how many requests.
    pub(crate) fn kept(&self) -> (usize, usize) {
        (self.remembered.len(), self.held.iter().flatten().count())
    }
}
