//! What of a sender decides on what it does from now on.

use std::hash::{Hash, Hasher};

use super::Sender;
use crate::link::variant::Variant;

impl<V: Variant> Sender<V> {
    /// Times are told apart only as far as the explorer does: a request was given up for lost, is
    /// overdue, or is neither. In a window of two, how many may be under way never changes.
    pub(crate) fn fingerprint(&self, now_ns: u64, into: &mut impl Hasher) {
        const { assert!(V::WINDOW == 2) };
        (self.next, self.executed).hash(into);
        let timeout = self.timeouts();
        for record in &self.records {
            let is_due = now_ns >= record.due_ns(timeout);
            (record.number, record.wants_answer, record.answered, record.held).hash(into);
            (record.sent_ns == 0, is_due, record.next_then).hash(into);
        }
    }

    /// As if so many requests had been executed.
    pub(crate) fn start_after(&mut self, executed: u64) {
        (self.next, self.executed) = (executed + 1, executed);
    }

    pub(crate) fn believed_held(&self) -> impl Iterator<Item = u64> {
        self.records.iter().filter(|record| record.held).map(|record| record.number)
    }
}
