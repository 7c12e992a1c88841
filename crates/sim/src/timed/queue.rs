//! What is to happen, in the order of time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// How many entries are looked at before their time has come.
const AHEAD: usize = 24;

/// Entries by time; those of one moment in the order in which they were made.
pub(crate) struct Queue<E> {
    heap: BinaryHeap<Reverse<(u64, u64, E)>>,
    /// The next ones, as far as they were known when they were taken out of the heap, the earliest first.
    upcoming: VecDeque<(u64, u64, E)>,
    made: u64,
}

impl<E: Copy + Ord> Queue<E> {
    pub(crate) fn new() -> Queue<E> {
        Queue { heap: BinaryHeap::new(), upcoming: VecDeque::with_capacity(AHEAD + 1), made: 0 }
    }

    pub(crate) fn push(&mut self, at_ns: u64, entry: E) {
        self.made += 1;
        self.heap.push(Reverse((at_ns, self.made, entry)));
    }

    /// The next entry. `prepare` is shown entries before their time, with how soon they come: 2, then 1, then 0.
    pub(crate) fn pop(&mut self, prepare: impl Fn(E, u32)) -> Option<(u64, E)> {
        while self.upcoming.len() < AHEAD
            && let Some(Reverse(next)) = self.heap.pop()
        {
            let place = self.upcoming.iter().rposition(|known| (known.0, known.1) < (next.0, next.1));
            self.upcoming.insert(place.map_or(0, |place| place + 1), next);
            prepare(next.2, 2);
        }
        for (place, soon) in [(2 * AHEAD / 3, 1), (AHEAD / 3, 0)] {
            if let Some(&(.., entry)) = self.upcoming.get(place) {
                prepare(entry, soon);
            }
        }
        let newer = match (self.heap.peek(), self.upcoming.front()) {
            (Some(Reverse(heap)), Some(front)) => (heap.0, heap.1) < (front.0, front.1),
            (heap, None) => heap.is_some(),
            (None, Some(_)) => false,
        };
        let (at_ns, _, entry) = if newer { self.heap.pop()?.0 } else { self.upcoming.pop_front()? };
        Some((at_ns, entry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_in_the_order_of_time_whenever_they_are_made() {
        let mut queue = Queue::new();
        let (mut seed, mut last, mut count) = (7u64, 0, 0);
        for _ in 0..100 {
            queue.push(seed % 50, seed);
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407) >> 1;
        }
        while let Some((at_ns, value)) = queue.pop(|_, _| {}) {
            assert!(at_ns >= last, "{at_ns} after {last}");
            (last, count) = (at_ns, count + 1);
            if value % 3 == 0 && count < 5000 {
                // Often ahead of all that was looked at already.
                queue.push(at_ns + value % 7, value / 2);
            }
        }
        assert!(count > 100);
    }

    #[test]
    fn entries_of_one_moment_come_in_the_order_in_which_they_were_made() {
        let mut queue = Queue::new();
        (0..1000u64).for_each(|number| queue.push(5, number));
        let all: Vec<u64> = std::iter::from_fn(|| queue.pop(|_, _| {})).map(|(_, number)| number).collect();
        assert!(all.is_sorted() && all.len() == 1000);
    }
}
